#include "server/convert/interventions.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert/hook_selection.h"
#include "server/convert/row_selection.h"
#include "server/convert/vectors.h"

namespace headrace {

namespace {

constexpr int kMaxInterventions = 64;

void CheckFinite(float value, const std::string& field,
                 Violations& violations) {
  if (std::isfinite(value)) return;
  violations.Add(field, absl::StrCat("must be finite; is ", value));
}

// The op of one intervention: its vector and number.
class OpResolver {
 public:
  OpResolver(int64_t width, const ServingContext& context,
             Intervention& intervention, Violations& violations)
      : width_(width),
        context_(context),
        intervention_(intervention),
        violations_(violations) {}

  void Resolve(const v1::Intervention& proto, const std::string& field) {
    switch (proto.op_case()) {
      case v1::Intervention::kAdd:
        return Add(proto.add(), field + ".add");
      case v1::Intervention::kScale:
        return SetValue(InterventionOp::kScale, proto.scale().factor(),
                        field + ".scale.factor");
      case v1::Intervention::kProjectOut:
        return ResolveProjectOut(proto.project_out(), field + ".project_out");
      case v1::Intervention::kCap:
        SetDirection(proto.cap().vector(), field + ".cap.vector");
        return SetValue(InterventionOp::kCap, proto.cap().limit(),
                        field + ".cap.limit");
      case v1::Intervention::kReplace:
        return Replace(proto.replace(), field + ".replace");
      case v1::Intervention::kZero:
        intervention_.op = InterventionOp::kZero;
        return;
      case v1::Intervention::OP_NOT_SET:
        violations_.Add(field + ".op", "must be set");
        return;
    }
  }

 private:
  void Add(const v1::AddVector& proto, const std::string& field) {
    SetVector(proto.vector(), field + ".vector");
    SetValue(InterventionOp::kAdd,
             proto.has_coefficient() ? proto.coefficient() : 1.0f,
             field + ".coefficient");
  }
  void Replace(const v1::ReplaceRow& proto, const std::string& field) {
    intervention_.op = InterventionOp::kReplace;
    if (proto.source_case() == v1::ReplaceRow::kRows) {
      return ResolveSource(proto.rows(), field + ".rows");
    }
    SetVector(proto.vector(), field + ".vector");
  }
  void ResolveSource(const v1::RowsFrom& proto, const std::string& field) {
    RowsFrom from{.offset = proto.position_offset()};
    if (proto.hook() != v1::HOOK_POINT_UNSPECIFIED) {
      from.hook =
          CheckPlainHook(proto.hook(), field + ".hook", context_, violations_);
      if (!from.hook.has_value()) return;
    }
    if (proto.has_layer()) {
      from.layer =
          CheckLayer(proto.layer(), field + ".layer", context_, violations_);
      if (!from.layer.has_value()) return;
    }
    const HookPoint hook = from.hook.value_or(intervention_.where.hook);
    if (!GetHookPointInfo(hook).per_layer) from.layer = -1;
    from.source =
        FindStored(proto.handle(), field + ".handle", context_, violations_)
            .rows;
    if (from.source != nullptr) intervention_.from = std::move(from);
  }
  void ResolveProjectOut(const v1::ProjectOut& proto,
                         const std::string& field) {
    SetDirection(proto.vector(), field + ".vector");
    SetValue(InterventionOp::kProjectOut,
             proto.has_strength() ? proto.strength() : 1.0f,
             field + ".strength");
  }
  void SetValue(InterventionOp op, float value, const std::string& field) {
    intervention_.op = op;
    intervention_.value = value;
    CheckFinite(value, field, violations_);
  }
  // A vector whose length is divided by.
  void SetDirection(const v1::Vector& proto, const std::string& field) {
    if (!SetVector(proto, field)) return;
    const std::vector<float>& vector = intervention_.vector;
    if (std::all_of(vector.begin(), vector.end(),
                    [](float x) { return x == 0; })) {
      violations_.Add(field, "must not be zero: it gives a direction");
    }
  }
  bool SetVector(const v1::Vector& proto, const std::string& field) {
    std::optional<std::vector<float>> vector =
        ResolveVector(proto, field, width_, context_, violations_);
    if (!vector.has_value()) return false;
    intervention_.vector = *std::move(vector);
    return true;
  }

  const int64_t width_;
  const ServingContext& context_;
  Intervention& intervention_;
  Violations& violations_;
};

// The hook's state when it can be changed; else null and a violation.
const HookPointState* CheckWritable(HookPoint hook, const std::string& field,
                                    const ServingContext& context,
                                    Violations& violations) {
  for (const HookPointState& state : context.engine->hooks()) {
    if (state.hook != hook) continue;
    if (state.writable) return &state;
    violations.Add(field, absl::StrCat(std::string(GetHookPointInfo(hook).name),
                                       " cannot be changed: ", state.refusal));
  }
  return nullptr;
}

// Every selected prompt row must have one to replace it, as wide as it is.
void CheckSource(const Intervention& intervention, int64_t width,
                 std::span<const int32_t> prompt, const std::string& field,
                 Violations& violations) {
  const auto length = static_cast<int64_t>(prompt.size());
  for (const int32_t layer : intervention.where.layers) {
    for (int64_t p = 0; p < length; ++p) {
      if (!intervention.rows.Selects(p, prompt[static_cast<size_t>(p)],
                                     length)) {
        continue;
      }
      const std::span<const float> row = RowFor(intervention, layer, p);
      if (static_cast<int64_t>(row.size()) == width) continue;
      violations.Add(
          field,
          row.empty()
              ? absl::StrCat("must hold a row for position ", p, " of layer ",
                             layer,
                             ", which is selected; has none at position ",
                             p + intervention.from->offset)
              : absl::StrCat("must hold rows of ", width,
                             " values, as many as the hook is wide; has ",
                             row.size()));
      return;
    }
  }
}

}  // namespace

std::vector<Intervention> ResolveInterventions(
    const google::protobuf::RepeatedPtrField<v1::Intervention>& protos,
    std::span<const int32_t> prompt, const ServingContext& context,
    Violations& violations) {
  const auto prompt_length = static_cast<int64_t>(prompt.size());
  std::vector<Intervention> interventions;
  if (protos.size() > kMaxInterventions) {
    violations.Add("interventions",
                   absl::StrCat("must be at most ", kMaxInterventions, "; are ",
                                protos.size()));
    return interventions;
  }
  for (int i = 0; i < protos.size(); ++i) {
    const v1::Intervention& proto = protos[i];
    const std::string field = Indexed("interventions", i);
    Intervention intervention;
    intervention.rows =
        ResolveRows(proto.rows(), field + ".rows", prompt_length,
                    context.vocab_size(), violations);
    const std::optional<HookSelection> where =
        ResolvePlainHook(proto.where(), field + ".where", context, violations);
    if (!where.has_value()) continue;
    intervention.where = *where;
    const HookPointState* hook =
        CheckWritable(where->hook, field + ".where.hook", context, violations);
    if (hook == nullptr) continue;
    OpResolver(hook->width, context, intervention, violations)
        .Resolve(proto, field);
    if (intervention.from.has_value()) {
      CheckSource(intervention, hook->width, prompt,
                  field + ".replace.rows.handle", violations);
    }
    interventions.push_back(std::move(intervention));
  }
  return interventions;
}

}  // namespace headrace
