// The interpreter's statements; loops and macros are in calls.cc, expressions
// in evaluate.cc.
#include "engine/tokenizer/jinja/interpreter.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/printing.h"

namespace headrace {

const JinjaValue* JinjaFrame::Find(int name) const {
  for (const auto& [candidate, value] : variables) {
    if (candidate == name) return &value;
  }
  return nullptr;
}

void JinjaFrame::Set(int name, JinjaValue value) {
  for (auto& [candidate, old] : variables) {
    if (candidate == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

JinjaInterpreter::FrameGuard::FrameGuard(JinjaInterpreter& interpreter,
                                         JinjaFrame* outer)
    : interpreter_(interpreter), previous_(interpreter.frame_) {
  if (interpreter_.free_frames_.empty()) {
    frame_ = &interpreter_.frames_.emplace_back();
  } else {
    frame_ = interpreter_.free_frames_.back();
    interpreter_.free_frames_.pop_back();
  }
  frame_->outer = outer;
  interpreter_.frame_ = frame_;
}

JinjaInterpreter::FrameGuard::~FrameGuard() {
  interpreter_.frame_ = previous_;
  if (frame_->is_kept) return;
  frame_->variables.clear();
  interpreter_.free_frames_.push_back(frame_);
}

absl::StatusOr<MarkedText> JinjaInterpreter::Run() {
  MarkedText out;
  out_ = &out;
  const FrameGuard guard(*this, nullptr);
  RETURN_IF_ERROR(EnterScope(tree_.scope));
  const FlowResult flow = ExecuteBody(tree_.body);
  if (flow.ok()) return out;
  if (runtime_.refused) return flow.status();
  return absl::InvalidArgumentError(
      Concat("line ", error_line_, ": ", std::string(flow.status().message())));
}

absl::Status JinjaInterpreter::CheckDepth() const {
  const int limit = runtime_.budget.limits().max_depth;
  if (depth_ <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(Concat(
      "blocks, macros and expressions are nested more than ", limit, " deep"));
}

void JinjaInterpreter::NoteError(int line) {
  if (error_line_ == 0) error_line_ = line;
}

JinjaInterpreter::FlowResult JinjaInterpreter::ExecuteBody(const Body& body) {
  const DepthGuard guard(depth_);
  RETURN_IF_ERROR(CheckDepth());
  for (const Statement& statement : body) {
    FlowResult flow = Flow::kNext;
    if (absl::Status paid = runtime_.budget.Charge(1); !paid.ok()) {
      flow = std::move(paid);
    } else {
      flow = std::visit([this](const auto& node) { return Execute(node); },
                        statement.node);
    }
    if (!flow.ok()) NoteError(statement.line);
    if (!flow.ok() || *flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

JinjaInterpreter::FlowResult JinjaInterpreter::ExecuteScoped(
    const Body& body, const Scope& scope) {
  const FrameGuard guard(*this, frame_);
  RETURN_IF_ERROR(EnterScope(scope));
  return ExecuteBody(body);
}

JinjaInterpreter::FlowResult JinjaInterpreter::ExecuteInto(const Body& body,
                                                           MarkedText& out) {
  MarkedText* const outer = std::exchange(out_, &out);
  FlowResult flow = ExecuteBody(body);
  out_ = outer;
  return flow;
}

absl::Status JinjaInterpreter::EnterScope(const Scope& scope) {
  for (int name : scope.starts_undefined) {
    RETURN_IF_ERROR(runtime_.budget.ChargeSearch(frame_->variables.size()));
    frame_->Set(name, JinjaValue::Undefined(Concat("'", tree_.names.Name(name),
                                                   "' is undefined")));
  }
  return absl::OkStatus();
}

absl::Status JinjaInterpreter::Write(const MarkedText& text) {
  RETURN_IF_ERROR(runtime_.budget.CheckTextSize(out_->size() + text.size()));
  RETURN_IF_ERROR(runtime_.budget.ChargeText(text.size()));
  out_->Append(text);
  return absl::OkStatus();
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(const TextOutput& node) {
  RETURN_IF_ERROR(Write(node.text));
  return Flow::kNext;
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(
    const ValueOutput& node) {
  ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*node.value));
  ASSIGN_OR_RETURN(const MarkedText text, ToText(runtime_.budget, value));
  RETURN_IF_ERROR(Write(text));
  return Flow::kNext;
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(const IfBlock& node) {
  for (const auto& [condition, body] : node.branches) {
    if (condition != nullptr) {
      ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*condition));
      if (!IsTruthy(value)) continue;
    }
    return ExecuteBody(body);
  }
  return Flow::kNext;
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(const ForBlock& node) {
  ASSIGN_OR_RETURN(const JinjaValue iterable, Evaluate(*node.iterable));
  return RunLoop(node, iterable, /*depth0=*/0);
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(
    const SetStatement& node) {
  ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*node.value));
  RETURN_IF_ERROR(Assign(node.target, std::move(value), *frame_));
  return Flow::kNext;
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(const SetBlock& node) {
  JinjaFrame& target_frame = *frame_;
  const FrameGuard guard(*this, frame_);
  RETURN_IF_ERROR(EnterScope(node.scope));
  MarkedText text;
  ASSIGN_OR_RETURN(const Flow flow, ExecuteInto(node.body, text));
  if (flow != Flow::kNext) return flow;
  JinjaValue value = JinjaValue::Text(std::move(text));
  if (node.filter != nullptr) {
    const JinjaValue* const outer = std::exchange(block_text_, &value);
    Result filtered = Evaluate(*node.filter);
    block_text_ = outer;
    ASSIGN_OR_RETURN(value, std::move(filtered));
  }
  RETURN_IF_ERROR(Assign(node.target, std::move(value), target_frame));
  return Flow::kNext;
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(const WithBlock& node) {
  std::vector<JinjaValue> values;
  for (const auto& [target, value] : node.assignments) {
    ASSIGN_OR_RETURN(JinjaValue evaluated, Evaluate(*value));
    values.push_back(std::move(evaluated));
  }
  const FrameGuard guard(*this, frame_);
  RETURN_IF_ERROR(EnterScope(node.scope));
  for (size_t i = 0; i < values.size(); ++i) {
    RETURN_IF_ERROR(
        Assign(node.assignments[i].first, std::move(values[i]), *frame_));
  }
  return ExecuteBody(node.body);
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(
    const FilterBlock& node) {
  const FrameGuard guard(*this, frame_);
  RETURN_IF_ERROR(EnterScope(node.scope));
  MarkedText text;
  ASSIGN_OR_RETURN(const Flow flow, ExecuteInto(node.body, text));
  if (flow != Flow::kNext) return flow;
  const JinjaValue value = JinjaValue::Text(std::move(text));
  const JinjaValue* const outer = std::exchange(block_text_, &value);
  Result filtered = Evaluate(*node.filter);
  block_text_ = outer;
  RETURN_IF_ERROR(filtered.status());
  ASSIGN_OR_RETURN(const MarkedText written,
                   ToText(runtime_.budget, *filtered));
  RETURN_IF_ERROR(Write(written));
  return Flow::kNext;
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(
    const MacroStatement& node) {
  frame_->Set(node.macro->name_id, JinjaValue::Macro(Define(*node.macro)));
  return Flow::kNext;
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(const CallBlock& node) {
  const Call& call = std::get<Call>(node.call->node);
  ASSIGN_OR_RETURN(const JinjaValue callee, Evaluate(*call.callee));
  ASSIGN_OR_RETURN(JinjaArguments arguments, EvaluateArguments(call.arguments));
  arguments.named.emplace_back("caller",
                               JinjaValue::Macro(Define(*node.caller)));
  ASSIGN_OR_RETURN(const JinjaValue value,
                   CallValue(callee, std::move(arguments)));
  ASSIGN_OR_RETURN(const MarkedText text, ToText(runtime_.budget, value));
  RETURN_IF_ERROR(Write(text));
  return Flow::kNext;
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(
    const GenerationBlock& node) {
  return ExecuteScoped(node.body, node.scope);
}

JinjaInterpreter::FlowResult JinjaInterpreter::Execute(LoopControl control) {
  switch (control) {
    case LoopControl::kBreak:
      return Flow::kBreak;
    case LoopControl::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

absl::Status JinjaInterpreter::Assign(const Target& target, JinjaValue value,
                                      JinjaFrame& frame) {
  RETURN_IF_ERROR(runtime_.budget.Charge(1));
  RETURN_IF_ERROR(runtime_.budget.ChargeSearch(frame.variables.size()));
  if (!target.items.empty()) return AssignTuple(target, value, frame);
  if (!target.attribute.has_value()) {
    frame.Set(target.name, std::move(value));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const JinjaValue object, Lookup(target.name));
  if (object.name_space() == nullptr) {
    return absl::InvalidArgumentError(
        Concat("'", tree_.names.Name(target.name), ".", *target.attribute,
               "' cannot be set: '", tree_.names.Name(target.name),
               "' is no namespace"));
  }
  RETURN_IF_ERROR(
      runtime_.budget.ChargeSearch(object.name_space()->attributes.size()));
  object.name_space()->Set(*target.attribute, std::move(value));
  return absl::OkStatus();
}

absl::Status JinjaInterpreter::AssignTuple(const Target& target,
                                           const JinjaValue& value,
                                           JinjaFrame& frame) {
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items,
                   ItemsOf(runtime_.budget, value));
  if (items.size() != target.items.size()) {
    return absl::InvalidArgumentError(
        Concat("cannot unpack ", items.size(), " values into ",
               target.items.size(), " variables"));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    RETURN_IF_ERROR(Assign(target.items[i], std::move(items[i]), frame));
  }
  return absl::OkStatus();
}

}  // namespace headrace
