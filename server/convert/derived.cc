#include "server/convert/derived.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert/hook_selection.h"
#include "server/convert/vectors.h"

namespace headrace {

namespace {

constexpr int kMaxSpecs = 16;
constexpr int kMaxLensTokens = 256;
constexpr int kMaxTokens = 64;
constexpr int kMaxVectors = 64;

class DerivedResolver {
 public:
  DerivedResolver(const ServingContext& context, Violations& violations)
      : context_(context), violations_(violations) {}

  DerivedSpec Resolve(const v1::DerivedSpec& proto, const std::string& field) {
    DerivedSpec spec;
    switch (proto.kind_case()) {
      case v1::DerivedSpec::kLogitLens:
        ResolveLens(proto.logit_lens(), field + ".logit_lens", spec);
        break;
      case v1::DerivedSpec::kDirectLogitAttribution:
        ResolveAttribution(proto.direct_logit_attribution(),
                           field + ".direct_logit_attribution", spec);
        break;
      case v1::DerivedSpec::kProjection:
        ResolveProjection(proto.projection(), field + ".projection", spec);
        break;
      case v1::DerivedSpec::kNorm:
        spec.kind = DerivedKind::kNorm;
        ResolveWhere(proto.norm().where(), field + ".norm.where", spec);
        break;
      case v1::DerivedSpec::kCosine:
        ResolveCosine(proto.cosine(), field + ".cosine", spec);
        break;
      case v1::DerivedSpec::kMean:
        spec.kind = DerivedKind::kMean;
        spec.width =
            ResolveWhere(proto.mean().where(), field + ".mean.where", spec);
        break;
      case v1::DerivedSpec::KIND_NOT_SET:
        violations_.Add(field + ".kind", "must be set");
        break;
    }
    return spec;
  }

 private:
  // The width of the hook; 0 when it is not valid.
  int64_t ResolveWhere(const v1::HookSelector& selector,
                       const std::string& field, DerivedSpec& spec) {
    std::optional<HookSelection> where =
        ResolvePlainHook(selector, field, context_, violations_);
    if (!where.has_value()) return 0;
    spec.where = *std::move(where);
    return WidthOf(spec.where.hook, context_);
  }

  void ResolveLens(const v1::LogitLens& proto, const std::string& field,
                   DerivedSpec& spec) {
    spec.kind = DerivedKind::kLogitLens;
    v1::HookSelector where = proto.where();
    if (!proto.has_where()) where.set_hook(v1::HOOK_POINT_RESID_POST);
    const int64_t width = ResolveWhere(where, field + ".where", spec);
    const int64_t hidden_size = context_.engine->model().config.hidden_size;
    if (width != 0 && width != hidden_size) {
      violations_.Add(field + ".where.hook",
                      absl::StrCat("must be as wide as the residual stream, ",
                                   hidden_size, "; is ", width));
    }
    ResolveLensNorm(proto.norm(), field, spec);
    const int64_t most =
        std::min<int64_t>(kMaxLensTokens, context_.vocab_size());
    if (proto.top_k() > most) {
      violations_.Add(field + ".top_k", absl::StrCat("must be at most ", most,
                                                     "; is ", proto.top_k()));
    }
    spec.top_k = static_cast<int32_t>(proto.top_k());
    spec.token_ids =
        CheckIds(proto.token_ids(), field + ".token_ids", kMaxLensTokens);
    if (proto.top_k() == 0 && proto.token_ids().empty()) {
      violations_.Add(field + ".top_k", "must be set, or token_ids");
    }
  }

  void ResolveLensNorm(v1::LensNorm norm, const std::string& field,
                       DerivedSpec& spec) {
    switch (norm) {
      case v1::LENS_NORM_UNSPECIFIED:
      case v1::LENS_NORM_RECOMPUTE:
        spec.lens_norm = LensNorm::kRecompute;
        return;
      case v1::LENS_NORM_FINAL_SCALE:
        spec.lens_norm = LensNorm::kFinalScale;
        if (spec.where.hook == HookPoint::kFinalNormOut) {
          violations_.Add(field + ".where.hook",
                          "must come before the final norm, whose scale is to "
                          "be used");
        }
        return;
      default:
        violations_.Add(field + ".norm", absl::StrCat("must be a LensNorm; is ",
                                                      static_cast<int>(norm)));
    }
  }

  void ResolveAttribution(const v1::LogitAttribution& proto,
                          const std::string& field, DerivedSpec& spec) {
    spec.kind = DerivedKind::kAttribution;
    spec.by_head = proto.by_head();
    if (proto.token_ids().empty()) {
      violations_.Add(field + ".token_ids", "must not be empty");
    }
    spec.token_ids =
        CheckIds(proto.token_ids(), field + ".token_ids", kMaxTokens);
    spec.contrast_ids =
        CheckIds(proto.contrast_ids(), field + ".contrast_ids", kMaxTokens);
    if (!proto.contrast_ids().empty() &&
        proto.contrast_ids_size() != proto.token_ids_size()) {
      violations_.Add(field + ".contrast_ids",
                      absl::StrCat("must be none, or as many as token_ids, ",
                                   proto.token_ids_size(), "; are ",
                                   proto.contrast_ids_size()));
    }
  }

  void ResolveProjection(const v1::Projection& proto, const std::string& field,
                         DerivedSpec& spec) {
    spec.kind = DerivedKind::kProjection;
    const int64_t width = ResolveWhere(proto.where(), field + ".where", spec);
    if (proto.vectors().empty() || proto.vectors_size() > kMaxVectors) {
      violations_.Add(field + ".vectors",
                      absl::StrCat("must be from 1 to ", kMaxVectors, "; are ",
                                   proto.vectors_size()));
      return;
    }
    if (width == 0) return;
    for (int i = 0; i < proto.vectors_size(); ++i) {
      std::optional<std::vector<float>> vector =
          ResolveVector(proto.vectors(i), Indexed(field + ".vectors", i), width,
                        context_, violations_);
      if (vector.has_value()) spec.vectors.push_back(*std::move(vector));
    }
  }

  void ResolveCosine(const v1::LayerCosine& proto, const std::string& field,
                     DerivedSpec& spec) {
    spec.kind = DerivedKind::kCosine;
    const int64_t width = ResolveWhere(proto.where(), field + ".where", spec);
    if (width != 0 && spec.where.layers.size() < 2) {
      violations_.Add(field + ".where.layers",
                      "must be at least two: each is compared with the one "
                      "before");
    }
  }

  std::vector<int32_t> CheckIds(
      const google::protobuf::RepeatedField<uint32_t>& ids,
      const std::string& field, int most) {
    std::vector<int32_t> checked;
    if (ids.size() > most) {
      violations_.Add(
          field, absl::StrCat("must be at most ", most, "; are ", ids.size()));
      return checked;
    }
    for (int i = 0; i < ids.size(); ++i) {
      if (violations_.CheckTokenId(field, i, ids[i], context_.vocab_size())) {
        checked.push_back(static_cast<int32_t>(ids[i]));
      }
    }
    return checked;
  }

  const ServingContext& context_;
  Violations& violations_;
};

}  // namespace

std::vector<DerivedSpec> ResolveDerived(
    const google::protobuf::RepeatedPtrField<v1::DerivedSpec>& protos,
    const std::string& field, const ServingContext& context,
    Violations& violations) {
  std::vector<DerivedSpec> specs;
  if (protos.size() > kMaxSpecs) {
    violations.Add(field, absl::StrCat("must be at most ", kMaxSpecs, "; are ",
                                       protos.size()));
    return specs;
  }
  DerivedResolver resolver(context, violations);
  for (int i = 0; i < protos.size(); ++i) {
    specs.push_back(resolver.Resolve(protos[i], Indexed(field, i)));
  }
  return specs;
}

}  // namespace headrace
