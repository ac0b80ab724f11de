// The interpreter's expressions.
#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/functions.h"
#include "engine/tokenizer/jinja/interpreter.h"
#include "engine/tokenizer/jinja/lookup.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/printing.h"

namespace headrace {

JinjaInterpreter::Result JinjaInterpreter::Evaluate(
    const Expression& expression) {
  const DepthGuard guard(depth_);
  absl::Status status = CheckDepth();
  if (status.ok()) status = runtime_.budget.Charge(1);
  if (status.ok()) {
    Result value =
        std::visit([this](const auto& node) { return EvaluateNode(node); },
                   expression.node);
    if (value.ok()) status = runtime_.budget.CheckValue(*value);
    if (value.ok() && status.ok()) return value;
    if (!value.ok()) status = std::move(value).status();
  }
  NoteError(expression.line);
  return status;
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateOrNone(
    const ExpressionPtr& expression) {
  if (expression == nullptr) return JinjaValue();
  return Evaluate(*expression);
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(const Literal& node) {
  return node.value;
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(
    const NameReference& node) {
  return Lookup(node.name);
}

JinjaInterpreter::Result JinjaInterpreter::Lookup(int name) {
  for (const JinjaFrame* frame = frame_; frame != nullptr;
       frame = frame->outer) {
    RETURN_IF_ERROR(runtime_.budget.ChargeSearch(frame->variables.size()));
    if (const JinjaValue* value = frame->Find(name)) return *value;
  }
  if (context_[name].has_value()) return *context_[name];
  const std::string& text = tree_.names.Name(name);
  if (const JinjaCallableRow* row = FindFunction(text)) {
    return JinjaValue::Callable(row, JinjaValue());
  }
  return JinjaValue::Undefined(Concat("'", text, "' is undefined"));
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(
    const SequenceLiteral& node) {
  std::vector<JinjaValue> items;
  for (const ExpressionPtr& item : node.items) {
    ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*item));
    items.push_back(std::move(value));
  }
  return JinjaValue::Sequence(node.kind, std::move(items));
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(
    const DictLiteral& node) {
  JinjaValue::DictItems items;
  for (const auto& [key_node, value_node] : node.items) {
    ASSIGN_OR_RETURN(JinjaValue key, Evaluate(*key_node));
    ASSIGN_OR_RETURN(JinjaValue value, Evaluate(*value_node));
    if (!IsHashable(key))
      return JinjaTypeError("a key is no list or dict", key);
    // A later value replaces an earlier one, in its place.
    RETURN_IF_ERROR(runtime_.budget.ChargeSearch(items.size()));
    const auto same = std::find_if(
        items.begin(), items.end(),
        [&key](const auto& item) { return JinjaEquals(item.first, key); });
    if (same != items.end()) {
      same->second = std::move(value);
    } else {
      items.emplace_back(std::move(key), std::move(value));
    }
  }
  return JinjaValue::Dict(std::move(items));
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(const Unary& node) {
  ASSIGN_OR_RETURN(const JinjaValue operand, Evaluate(*node.operand));
  switch (node.op) {
    case UnaryOperator::kNot:
      return JinjaValue::Bool(!IsTruthy(operand));
    case UnaryOperator::kMinus:
      return Negate(operand);
    case UnaryOperator::kPlus:
      return Plus(operand);
  }
  return operand;
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(const Binary& node) {
  ASSIGN_OR_RETURN(const JinjaValue left, Evaluate(*node.left));
  ASSIGN_OR_RETURN(const JinjaValue right, Evaluate(*node.right));
  return ApplyBinary(runtime_.budget, node.op, left, right);
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(const Logical& node) {
  ASSIGN_OR_RETURN(JinjaValue left, Evaluate(*node.left));
  if (IsTruthy(left) != node.is_and) return left;
  return Evaluate(*node.right);
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(
    const Comparison& node) {
  ASSIGN_OR_RETURN(JinjaValue left, Evaluate(*node.first));
  for (const auto& [op, operand] : node.rest) {
    ASSIGN_OR_RETURN(JinjaValue right, Evaluate(*operand));
    ASSIGN_OR_RETURN(const bool holds,
                     ApplyCompare(runtime_.budget, op, left, right));
    if (!holds) return JinjaValue::Bool(false);
    left = std::move(right);
  }
  return JinjaValue::Bool(true);
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(
    const Concatenation& node) {
  MarkedText out;
  for (const ExpressionPtr& part : node.parts) {
    ASSIGN_OR_RETURN(const JinjaValue value, Evaluate(*part));
    ASSIGN_OR_RETURN(const MarkedText text, ToText(runtime_.budget, value));
    RETURN_IF_ERROR(runtime_.budget.CheckTextSize(out.size() + text.size()));
    out.Append(text);
  }
  RETURN_IF_ERROR(runtime_.budget.ChargeText(out.size()));
  return JinjaValue::Text(std::move(out));
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(
    const Conditional& node) {
  ASSIGN_OR_RETURN(const JinjaValue condition, Evaluate(*node.condition));
  if (IsTruthy(condition)) return Evaluate(*node.then);
  if (node.otherwise != nullptr) return Evaluate(*node.otherwise);
  return JinjaValue::Undefined(Concat("the inline if on line ",
                                      node.condition->line,
                                      " was false and has no else"));
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(
    const AttributeAccess& node) {
  ASSIGN_OR_RETURN(const JinjaValue object, Evaluate(*node.object));
  return GetAttribute(runtime_.budget, object, node.attribute);
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(const Subscript& node) {
  ASSIGN_OR_RETURN(const JinjaValue object, Evaluate(*node.object));
  ASSIGN_OR_RETURN(const JinjaValue key, Evaluate(*node.key));
  return GetItem(runtime_.budget, object, key);
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(const Slicing& node) {
  ASSIGN_OR_RETURN(const JinjaValue object, Evaluate(*node.object));
  SliceBounds bounds;
  ASSIGN_OR_RETURN(bounds.start, EvaluateOrNone(node.start));
  ASSIGN_OR_RETURN(bounds.stop, EvaluateOrNone(node.stop));
  ASSIGN_OR_RETURN(bounds.step, EvaluateOrNone(node.step));
  return GetSlice(runtime_.budget, object, bounds);
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(const Call& node) {
  ASSIGN_OR_RETURN(const JinjaValue callee, Evaluate(*node.callee));
  ASSIGN_OR_RETURN(JinjaArguments arguments, EvaluateArguments(node.arguments));
  return CallValue(callee, std::move(arguments));
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(const FilterUse& node) {
  JinjaValue input;
  if (node.input == nullptr) {
    input = *block_text_;
  } else {
    ASSIGN_OR_RETURN(input, Evaluate(*node.input));
  }
  ASSIGN_OR_RETURN(JinjaArguments arguments, EvaluateArguments(node.arguments));
  return CallRow(runtime_, *node.filter, input, std::move(arguments));
}

JinjaInterpreter::Result JinjaInterpreter::EvaluateNode(const TestUse& node) {
  ASSIGN_OR_RETURN(const JinjaValue input, Evaluate(*node.input));
  ASSIGN_OR_RETURN(JinjaArguments arguments, EvaluateArguments(node.arguments));
  return CallTest(runtime_, *node.test, input, std::move(arguments));
}

}  // namespace headrace
