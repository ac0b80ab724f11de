#include "engine/rope/extension.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/rope/rope_fields.h"
#include "engine/rope/rope_validation.h"
#include "engine/rope/scaling_common.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

using Kind = RopeRequest::Kind;

// How far the file's own scaling stretches its base.
double FileFactor(const RopeParams& file) {
  if (!file.stored_divisors.empty()) {
    return std::max(1.0, *std::max_element(file.stored_divisors.begin(),
                                           file.stored_divisors.end()));
  }
  return CompleteRopeParams(file).factor.value_or(1.0);
}

// The length that the file's base was trained for. Stored divisors come
// without it: then it is the window over the largest divisor.
int64_t FileOriginalLength(const RopeParams& file) {
  if (!file.original_max_position_embeddings.has_value() &&
      !file.stored_divisors.empty()) {
    const auto window = static_cast<double>(file.max_position_embeddings);
    return std::max<int64_t>(1,
                             static_cast<int64_t>(window / FileFactor(file)));
  }
  return OriginalLength(file);
}

int64_t ServedLength(const RopeParams& params) {
  return FindScalingMethod(params.type)
      .context_length(CompleteRopeParams(params));
}

RopeParams BaseOf(const RopeParams& file) {
  return {.rope_theta = file.rope_theta,
          .head_dim = file.head_dim,
          .rotary_dim = file.rotary_dim,
          .max_position_embeddings = file.max_position_embeddings};
}

// Resolves one request; gathers what is wrong on the way.
class ExtensionResolver {
 public:
  ExtensionResolver(const RopeParams& file_params, RopePairing pairing,
                    const RopeRequest& request, int64_t needed_positions)
      : file_(file_params),
        pairing_(pairing),
        request_(request),
        needed_(needed_positions) {
    if (request.rope_theta.has_value()) file_.rope_theta = *request.rope_theta;
  }

  RopeResolution Resolve();

 private:
  RopeParams Choose();
  RopeParams Scaled();
  void RefuseOthersParameters();
  RopeParams Auto();
  void CheckParams(const RopeParams& params);
  void CheckMaxContext(const RopeParams& params);
  int64_t FrozenLength(const RopeParams& params) const;

  // "rope_scaling.yarn"
  std::string MethodPath() const;
  // The request's name for a field of RopeParams.
  std::string PathOf(std::string_view field) const;
  void Violate(std::string field, std::string description) {
    resolution_.violations.push_back(
        {std::move(field), std::move(description)});
  }

  RopeParams file_;  // with the request's theta
  RopePairing pairing_;
  const RopeRequest& request_;
  int64_t needed_;
  bool implies_factor_ = false;  // the request's method leaves it to be found
  RopeResolution resolution_;
};

std::string ExtensionResolver::MethodPath() const {
  const char* method =
      request_.kind == Kind::kAuto
          ? "auto"
          : FindScalingMethod(request_.scaling.type).request_name;
  return absl::StrCat("rope_scaling.", method);
}

std::string ExtensionResolver::PathOf(std::string_view field) const {
  if (field == "rope_theta") return "rope_theta";
  // Of the file, and only bad together with the method.
  if (field == "rotary_dim" || field == "max_position_embeddings") {
    return MethodPath();
  }
  return MethodPath().append(".").append(field);
}

// Parameters of other methods mean that another was meant.
void ExtensionResolver::RefuseOthersParameters() {
  const ScalingMethod& method = FindScalingMethod(request_.scaling.type);
  for (const RopeField& field : RopeFields()) {
    // Of dynamic NTK, Scaled() makes another field.
    const bool taken =
        UsesField(method, field.id) ||
        (field.id == RopeFieldId::kOriginalMaxPositionEmbeddings &&
         method.type == RopeType::kDynamicNtk);
    if (taken || !IsSet(field, request_.scaling)) continue;
    Violate(PathOf(field.name), absl::StrCat("cannot be set: ", method.name,
                                             " scaling does not take it"));
  }
}

// The request's method on the file's base.
RopeParams ExtensionResolver::Scaled() {
  RefuseOthersParameters();
  RopeParams params = request_.scaling;
  const RopeParams base = BaseOf(file_);
  params.rope_theta = base.rope_theta;
  params.head_dim = base.head_dim;
  params.rotary_dim = base.rotary_dim;
  params.max_position_embeddings = base.max_position_embeddings;
  params.stored_divisors.clear();
  if (!params.original_max_position_embeddings.has_value()) {
    params.original_max_position_embeddings = FileOriginalLength(file_);
  }
  const int64_t original = *params.original_max_position_embeddings;
  implies_factor_ =
      !params.factor.has_value() &&
      (params.type == RopeType::kYarn || params.type == RopeType::kLongRope);
  if (implies_factor_ && original > 0) {
    if (request_.max_context > 0) {
      params.factor = std::max(1.0, static_cast<double>(request_.max_context) /
                                        static_cast<double>(original));
    } else if (params.type == RopeType::kYarn) {
      Violate(PathOf("factor"),
              "is missing, and max_context is 0: YaRN needs one of them");
    }
  }
  // The window that these two count on is the extended one.
  if (params.type == RopeType::kLongRope || params.type == RopeType::kLlama3) {
    params.max_position_embeddings = std::max(
        params.max_position_embeddings,
        ScaledLength(std::max(1.0, params.factor.value_or(1.0)), original));
  }
  // This one starts to stretch where its max_position_embeddings ends.
  if (params.type == RopeType::kDynamicNtk) {
    params.max_position_embeddings = original;
  }
  return params;
}

RopeParams ExtensionResolver::Auto() {
  const int64_t target =
      request_.max_context > 0 ? request_.max_context : needed_;
  if (target <= ServedLength(file_)) return file_;
  if (target > kMaxRopePositions) {
    Violate(MethodPath(), absl::StrCat("can serve at most ", kMaxRopePositions,
                                       " positions; ", target, " are needed"));
    return file_;
  }
  RopeParams params = BaseOf(file_);
  if (file_.type == RopeType::kYarn) {
    params = file_;
    params.stored_divisors.clear();
  }
  params.type = RopeType::kYarn;
  params.original_max_position_embeddings = FileOriginalLength(file_);
  params.factor = std::max(
      FileFactor(file_),
      static_cast<double>(target) /
          static_cast<double>(*params.original_max_position_embeddings));
  return params;
}

RopeParams ExtensionResolver::Choose() {
  switch (request_.kind) {
    case Kind::kUnset:
      break;
    case Kind::kNone:
      return BaseOf(file_);
    case Kind::kAuto:
      return Auto();
    case Kind::kScaling:
      return Scaled();
  }
  return file_;
}

void ExtensionResolver::CheckParams(const RopeParams& params) {
  for (FieldViolation& violation : ValidateRopeParams(params)) {
    Violate(PathOf(violation.field), std::move(violation.description));
  }
}

void ExtensionResolver::CheckMaxContext(const RopeParams& params) {
  const int64_t asked = request_.max_context;
  if (asked < 0 || asked > kMaxRopePositions) {
    Violate("max_context", absl::StrCat("must be from 0 to ", kMaxRopePositions,
                                        "; is ", asked));
    return;
  }
  if (asked == 0 || !resolution_.violations.empty()) return;
  const int64_t original = OriginalLength(params);
  // LongRoPE has a list for short sequences too.
  const bool extends = params.type != RopeType::kLongRope &&
                       (params.factor.value_or(1.0) > 1 || implies_factor_);
  if (request_.kind == Kind::kScaling && extends && original >= asked) {
    if (request_.scaling.original_max_position_embeddings.has_value()) {
      Violate(PathOf("original_max_position_embeddings"),
              absl::StrCat("must be below max_context (", asked, "); is ",
                           original));
    } else {
      Violate("max_context",
              absl::StrCat("must be above the original length (", original,
                           ") to extend it; is ", asked));
    }
    return;
  }
  // Asked for by name, positions beyond the trained length are served unscaled:
  // how else could one see what scaling is worth?
  if (request_.kind == Kind::kNone) return;
  const int64_t served = ServedLength(params);
  if (asked <= served) return;
  const std::string server =
      params.type == RopeType::kDefault
          ? "the model serves without scaling"
          : absl::StrCat(
                FindScalingMethod(params.type).name, " scaling of factor ",
                CompleteRopeParams(params).factor.value_or(1.0), " serves");
  Violate("max_context", absl::StrCat("must be at most ", served, ", what ",
                                      server, "; is ", asked));
}

int64_t ExtensionResolver::FrozenLength(const RopeParams& params) const {
  if (request_.max_context > 0) return request_.max_context;
  if (request_.open_ended) return ServedLength(params);
  return FindScalingMethod(params.type)
      .frozen_length(CompleteRopeParams(params), needed_);
}

RopeResolution ExtensionResolver::Resolve() {
  const RopeParams params = Choose();
  CheckParams(params);
  CheckMaxContext(params);
  if (!resolution_.violations.empty()) return std::move(resolution_);
  absl::StatusOr<EffectiveRope> rope =
      ResolveRope(params, pairing_, FrozenLength(params));
  if (rope.ok()) {
    resolution_.rope = *std::move(rope);
  } else {
    Violate(request_.kind == Kind::kScaling ? MethodPath() : "rope_scaling",
            std::string(rope.status().message()));
  }
  return std::move(resolution_);
}

RopeResolution WithoutRope(const RopeRequest& request) {
  constexpr std::string_view kReason =
      "cannot be set: the model has no rotary encoding to extend";
  RopeResolution resolution;
  if (request.kind != Kind::kUnset) {
    resolution.violations.push_back({"rope_scaling", std::string(kReason)});
  }
  if (request.rope_theta.has_value()) {
    resolution.violations.push_back({"rope_theta", std::string(kReason)});
  }
  if (request.max_context != 0) {
    resolution.violations.push_back({"max_context", std::string(kReason)});
  }
  return resolution;
}

}  // namespace

RopeResolution ResolveExtension(const RopeParams* file_params,
                                RopePairing pairing, const RopeRequest& request,
                                int64_t needed_positions) {
  if (file_params == nullptr) return WithoutRope(request);
  return ExtensionResolver(*file_params, pairing, request, needed_positions)
      .Resolve();
}

}  // namespace headrace
