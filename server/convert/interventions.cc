#include "server/convert/interventions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert/hook_selection.h"
#include "server/convert/row_selection.h"

namespace headrace {

namespace {

constexpr int kMaxInterventions = 64;

bool CheckFinite(float value, const std::string& field,
                 Violations& violations) {
  if (std::isfinite(value)) return true;
  violations.Add(field, absl::StrCat("must be finite; is ", value));
  return false;
}

// The op of one intervention: its vector and number.
class OpResolver {
 public:
  OpResolver(int64_t width, Intervention& intervention, Violations& violations)
      : width_(width), intervention_(intervention), violations_(violations) {}

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
        intervention_.op = InterventionOp::kReplace;
        SetVector(proto.replace().vector(), field + ".replace.vector");
        return;
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
    const std::string& bytes = proto.f32();
    const auto wanted = static_cast<size_t>(width_) * sizeof(float);
    if (bytes.size() != wanted) {
      violations_.Add(
          field + ".f32",
          absl::StrCat("must hold ", width_, " float32 values in ", wanted,
                       " bytes, as many as the hook is wide; has ",
                       bytes.size(), " bytes"));
      return false;
    }
    std::vector<float>& vector = intervention_.vector;
    vector.resize(static_cast<size_t>(width_));
    std::memcpy(vector.data(), bytes.data(), bytes.size());
    const auto bad = std::find_if(vector.begin(), vector.end(),
                                  [](float x) { return !std::isfinite(x); });
    return bad == vector.end() ||
           CheckFinite(*bad, Indexed(field + ".f32", bad - vector.begin()),
                       violations_);
  }

  const int64_t width_;
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

}  // namespace

std::vector<Intervention> ResolveInterventions(
    const google::protobuf::RepeatedPtrField<v1::Intervention>& protos,
    int64_t prompt_length, const ServingContext& context,
    Violations& violations) {
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
        ResolveHook(proto.where(), field + ".where", context, violations);
    if (!where.has_value()) continue;
    intervention.where = *where;
    const HookPointState* hook =
        CheckWritable(where->hook, field + ".where.hook", context, violations);
    if (hook == nullptr) continue;
    OpResolver(hook->width, intervention, violations).Resolve(proto, field);
    interventions.push_back(std::move(intervention));
  }
  return interventions;
}

}  // namespace headrace
