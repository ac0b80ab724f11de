// The interpreter's loops, macros and calls.
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/interpreter.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/plain_text.h"

namespace headrace {
namespace {

// What keeping a loop's state costs, in steps.
constexpr int64_t kLoopCost = 32;

// Takes the named argument out.
std::optional<JinjaValue> TakeNamed(JinjaArguments& arguments,
                                    std::string_view name) {
  const auto found = std::find_if(
      arguments.named.begin(), arguments.named.end(),
      [name](const auto& argument) { return argument.first == name; });
  if (found == arguments.named.end()) return std::nullopt;
  JinjaValue value = std::move(found->second);
  arguments.named.erase(found);
  return value;
}

}  // namespace

JinjaInterpreter::FlowResult JinjaInterpreter::RunLoop(
    const ForBlock& block, const JinjaValue& iterable, int64_t depth0) {
  RETURN_IF_ERROR(runtime_.budget.Charge(kLoopCost));
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items,
                   ItemsOf(runtime_.budget, iterable));
  std::optional<int64_t> length;
  if (block.condition == nullptr &&
      !iterable.is_sequence_kind(SequenceKind::kGenerator)) {
    length = static_cast<int64_t>(items.size());
  }
  const bool is_empty = items.empty();
  JinjaLoop& loop =
      loops_.emplace_back(MakePull(block, std::move(items)), length, depth0);
  if (block.is_recursive) {
    loop.recursive_block = &block;
    loop.outer_frame = frame_;
    frame_->is_kept = true;
  }
  bool has_run = false;
  if (!is_empty) {
    FrameGuard guard(*this, frame_);
    while (true) {
      ASSIGN_OR_RETURN(const bool has_item, loop.Advance());
      if (!has_item) break;
      has_run = true;
      ASSIGN_OR_RETURN(const Flow flow,
                       RunLoopBody(block, loop, guard.frame()));
      if (flow == Flow::kBreak) break;
    }
  }
  loop.Close();
  if (has_run || block.otherwise.empty()) return Flow::kNext;
  return ExecuteScoped(block.otherwise, block.otherwise_scope);
}

JinjaInterpreter::FlowResult JinjaInterpreter::RunLoopBody(
    const ForBlock& block, JinjaLoop& loop, JinjaFrame& frame) {
  // Every turn starts afresh. The frame stays: a macro defined in an earlier
  // turn sees this turn's variables.
  frame.variables.clear();
  RETURN_IF_ERROR(EnterScope(block.body_scope));
  RETURN_IF_ERROR(Assign(block.target, loop.current(), frame));
  const int loop_name = tree_.names.Find("loop");
  if (loop_name >= 0) frame.Set(loop_name, JinjaValue::Loop(&loop));
  return ExecuteBody(block.body);
}

JinjaLoop::Pull JinjaInterpreter::MakePull(const ForBlock& block,
                                           std::vector<JinjaValue> items) {
  // Shared only because std::function wants to be copied.
  auto rest = std::make_shared<std::vector<JinjaValue>>(std::move(items));
  return [this, &block, outer = frame_, rest, next = size_t{0}]() mutable
             -> absl::StatusOr<std::optional<JinjaValue>> {
    while (next < rest->size()) {
      JinjaValue item = std::move((*rest)[next++]);
      RETURN_IF_ERROR(runtime_.budget.Charge(1));
      if (block.condition != nullptr) {
        ASSIGN_OR_RETURN(const bool passes, Passes(block, outer, item));
        if (!passes) continue;
      }
      return item;
    }
    return std::nullopt;
  };
}

absl::StatusOr<bool> JinjaInterpreter::Passes(const ForBlock& block,
                                              JinjaFrame* outer,
                                              const JinjaValue& item) {
  const FrameGuard guard(*this, outer);
  RETURN_IF_ERROR(Assign(block.target, item, *frame_));
  ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*block.condition));
  return IsTruthy(value);
}

JinjaInterpreter::Result JinjaInterpreter::CallLoop(
    JinjaLoop& loop, const JinjaArguments& arguments) {
  if (loop.recursive_block == nullptr) {
    return absl::InvalidArgumentError(
        "loop() needs a loop marked as recursive");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return absl::InvalidArgumentError("loop() needs one argument");
  }
  const DepthGuard guard(depth_);
  RETURN_IF_ERROR(CheckDepth());
  MarkedText text;
  JinjaFrame* const outer_frame = std::exchange(frame_, loop.outer_frame);
  MarkedText* const outer_out = std::exchange(out_, &text);
  const FlowResult flow = RunLoop(*loop.recursive_block,
                                  arguments.positional[0], loop.depth0() + 1);
  frame_ = outer_frame;
  out_ = outer_out;
  RETURN_IF_ERROR(flow.status());
  return JinjaValue::Text(std::move(text));
}

const JinjaMacro* JinjaInterpreter::Define(const MacroDefinition& definition) {
  frame_->is_kept = true;
  macros_.push_back({&definition, frame_});
  return &macros_.back();
}

JinjaInterpreter::Result JinjaInterpreter::CallMacro(const JinjaMacro& macro,
                                                     JinjaArguments arguments) {
  const MacroDefinition& definition = *macro.definition;
  FrameGuard guard(*this, macro.frame);
  RETURN_IF_ERROR(BindParameters(definition, arguments, guard.frame()));
  RETURN_IF_ERROR(EnterScope(definition.scope));
  MarkedText text;
  RETURN_IF_ERROR(ExecuteInto(definition.body, text).status());
  return JinjaValue::Text(std::move(text));
}

absl::Status JinjaInterpreter::BindParameters(const MacroDefinition& macro,
                                              JinjaArguments& arguments,
                                              JinjaFrame& frame) {
  const size_t count = macro.parameters.size();
  RETURN_IF_ERROR(runtime_.budget.Charge(static_cast<int64_t>(count)));
  const size_t first_default = count - macro.defaults.size();
  std::vector<bool> is_missing(count, false);
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = tree_.names.Name(macro.parameters[i]);
    if (i < arguments.positional.size()) {
      frame.Set(macro.parameters[i], arguments.positional[i]);
    } else if (auto named = TakeNamed(arguments, name)) {
      frame.Set(macro.parameters[i], *std::move(named));
    } else {
      is_missing[i] = true;
      frame.Set(macro.parameters[i],
                JinjaValue::Undefined(
                    Concat("parameter '", name, "' was not provided")));
    }
  }
  RETURN_IF_ERROR(BindSpecials(macro, arguments, frame));
  // A default may use the parameters before it.
  for (size_t i = first_default; i < count; ++i) {
    if (!is_missing[i]) continue;
    ASSIGN_OR_RETURN(JinjaValue value,
                     Evaluate(*macro.defaults[i - first_default]));
    frame.Set(macro.parameters[i], std::move(value));
  }
  return absl::OkStatus();
}

absl::Status JinjaInterpreter::BindSpecials(const MacroDefinition& macro,
                                            JinjaArguments& arguments,
                                            JinjaFrame& frame) {
  if (macro.uses_caller) {
    std::optional<JinjaValue> caller = TakeNamed(arguments, "caller");
    if (!caller.has_value() || caller->is_none()) {
      caller = JinjaValue::Undefined("No caller defined");
    }
    frame.Set(tree_.names.Find("caller"), *std::move(caller));
  }
  if (macro.uses_kwargs) {
    JinjaValue::DictItems items;
    for (auto& [name, value] : arguments.named) {
      items.emplace_back(JinjaValue::Text(name), std::move(value));
    }
    frame.Set(tree_.names.Find("kwargs"), JinjaValue::Dict(std::move(items)));
  } else if (!arguments.named.empty()) {
    return absl::InvalidArgumentError(
        Concat("macro '", macro.name, "' takes no argument named '",
               arguments.named.front().first, "'"));
  }
  const size_t count = macro.parameters.size();
  if (macro.uses_varargs) {
    const size_t first = std::min(count, arguments.positional.size());
    frame.Set(tree_.names.Find("varargs"),
              JinjaValue::Tuple(
                  {arguments.positional.begin() + static_cast<int64_t>(first),
                   arguments.positional.end()}));
  } else if (arguments.positional.size() > count) {
    return absl::InvalidArgumentError(
        Concat("macro '", macro.name, "' takes not more than ", count,
               " arguments, but got ", arguments.positional.size()));
  }
  return absl::OkStatus();
}

JinjaInterpreter::Result JinjaInterpreter::CallValue(const JinjaValue& callee,
                                                     JinjaArguments arguments) {
  if (const JinjaCallable* callable = callee.callable()) {
    return CallRow(runtime_, *callable->row, callable->self,
                   std::move(arguments));
  }
  if (callee.macro() != nullptr) {
    return CallMacro(*callee.macro(), std::move(arguments));
  }
  if (callee.loop() != nullptr) return CallLoop(*callee.loop(), arguments);
  return JinjaTypeError("only a function can be called", callee);
}

absl::StatusOr<JinjaArguments> JinjaInterpreter::EvaluateArguments(
    const CallArguments& arguments) {
  JinjaArguments result;
  for (const ExpressionPtr& argument : arguments.positional) {
    ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*argument));
    result.positional.push_back(std::move(value));
  }
  if (arguments.starred != nullptr) {
    ASSIGN_OR_RETURN(const JinjaValue starred, Evaluate(*arguments.starred));
    ASSIGN_OR_RETURN(std::vector<JinjaValue> items,
                     ItemsOf(runtime_.budget, starred));
    std::move(items.begin(), items.end(),
              std::back_inserter(result.positional));
  }
  for (const auto& [name, argument] : arguments.named) {
    ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*argument));
    result.named.emplace_back(name, std::move(value));
  }
  if (arguments.double_starred == nullptr) return result;
  ASSIGN_OR_RETURN(const JinjaValue more, Evaluate(*arguments.double_starred));
  if (more.dict() == nullptr) {
    return JinjaTypeError("** in a call needs a dict", more);
  }
  RETURN_IF_ERROR(runtime_.budget.ChargeItems(more.dict()->items.size()));
  for (const auto& [key, value] : more.dict()->items) {
    if (!key.is_string()) return JinjaTypeError("a name is a string", key);
    const std::string& name = key.text().bytes();
    for (const auto& [other, ignored] : result.named) {
      if (other != name) continue;
      return absl::InvalidArgumentError(
          Concat("the argument '", name, "' is repeated"));
    }
    result.named.emplace_back(name, value);
  }
  return result;
}

}  // namespace headrace
