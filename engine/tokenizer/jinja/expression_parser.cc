// The parser's expressions, from the loosest operator to the tightest. The
// order is jinja2's, not Python's: ~ binds tighter than +, and a filter takes
// the signed number before it.
#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/parser_impl.h"
#include "engine/tokenizer/jinja/plain_text.h"

namespace headrace {
namespace {

constexpr int kMaxExpressionDepth = 200;

std::optional<BinaryOperator> FindBinary(
    const JinjaToken& token, std::initializer_list<BinaryOperator> operators) {
  if (token.kind != JinjaTokenKind::kOperator) return std::nullopt;
  for (BinaryOperator op : operators) {
    if (SymbolOf(op) == token.text) return op;
  }
  return std::nullopt;
}

std::optional<CompareOperator> FindCompare(const JinjaToken& token) {
  if (token.kind != JinjaTokenKind::kOperator) return std::nullopt;
  for (CompareOperator op :
       {CompareOperator::kEqual, CompareOperator::kNotEqual,
        CompareOperator::kLess, CompareOperator::kLessOrEqual,
        CompareOperator::kGreater, CompareOperator::kGreaterOrEqual}) {
    if (SymbolOf(op) == token.text) return op;
  }
  return std::nullopt;
}

std::optional<JinjaValue> FindConstant(std::string_view name) {
  if (name == "true" || name == "True") return JinjaValue::Bool(true);
  if (name == "false" || name == "False") return JinjaValue::Bool(false);
  if (name == "none" || name == "None") return JinjaValue();
  return std::nullopt;
}

}  // namespace

JinjaParser::ExpressionResult JinjaParser::Make(int line,
                                                Expression::Node node) const {
  auto expression =
      std::make_unique<Expression>(Expression{line, std::move(node)});
  ForEachChild(*expression, [&expression](const Expression& child) {
    expression->depth = std::max(expression->depth, child.depth + 1);
  });
  if (expression->depth > kMaxExpressionDepth) {
    return Error(line, Concat("an expression has more than ",
                              kMaxExpressionDepth, " levels"));
  }
  return expression;
}

JinjaParser::ExpressionResult JinjaParser::ParseExpression() {
  const DepthGuard guard(depth_);
  RETURN_IF_ERROR(CheckDepth());
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExpressionPtr value, ParseOr());
  while (TakeName("if")) {
    Conditional conditional;
    conditional.then = std::move(value);
    ASSIGN_OR_RETURN(conditional.condition, ParseOr());
    if (TakeName("else")) {
      ASSIGN_OR_RETURN(conditional.otherwise, ParseExpression());
    }
    ASSIGN_OR_RETURN(value, Make(line, std::move(conditional)));
  }
  return value;
}

JinjaParser::ExpressionResult JinjaParser::ParseOr() {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
  while (TakeName("or")) {
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
    ASSIGN_OR_RETURN(left, Make(line, Logical{/*is_and=*/false, std::move(left),
                                              std::move(right)}));
  }
  return left;
}

JinjaParser::ExpressionResult JinjaParser::ParseAnd() {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
  while (TakeName("and")) {
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
    ASSIGN_OR_RETURN(left, Make(line, Logical{/*is_and=*/true, std::move(left),
                                              std::move(right)}));
  }
  return left;
}

JinjaParser::ExpressionResult JinjaParser::ParseNot() {
  const DepthGuard guard(depth_);
  RETURN_IF_ERROR(CheckDepth());
  const int line = Current().line;
  if (!TakeName("not")) return ParseComparison();
  ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  return Make(line, Unary{UnaryOperator::kNot, std::move(operand)});
}

JinjaParser::ExpressionResult JinjaParser::ParseComparison() {
  const int line = Current().line;
  Comparison comparison;
  ASSIGN_OR_RETURN(comparison.first, ParseSum());
  while (true) {
    std::optional<CompareOperator> op = FindCompare(Current());
    if (AtName("in")) {
      op = CompareOperator::kIn;
    } else if (AtName("not") && Next().kind == JinjaTokenKind::kName &&
               Next().text == "in") {
      op = CompareOperator::kNotIn;
      Take();
    }
    if (!op.has_value()) break;
    Take();
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseSum());
    comparison.rest.emplace_back(*op, std::move(operand));
  }
  if (comparison.rest.empty()) return std::move(comparison.first);
  return Make(line, std::move(comparison));
}

JinjaParser::ExpressionResult JinjaParser::ParseSum() {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseConcatenation());
  while (const auto op = FindBinary(
             Current(), {BinaryOperator::kAdd, BinaryOperator::kSubtract})) {
    Take();
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseConcatenation());
    ASSIGN_OR_RETURN(
        left, Make(line, Binary{*op, std::move(left), std::move(right)}));
  }
  return left;
}

JinjaParser::ExpressionResult JinjaParser::ParseConcatenation() {
  const int line = Current().line;
  Concatenation concatenation;
  do {
    ASSIGN_OR_RETURN(ExpressionPtr part, ParseProduct());
    concatenation.parts.push_back(std::move(part));
  } while (TakeOperator("~"));
  if (concatenation.parts.size() == 1) {
    return std::move(concatenation.parts.front());
  }
  return Make(line, std::move(concatenation));
}

JinjaParser::ExpressionResult JinjaParser::ParseProduct() {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExpressionPtr left, ParsePower());
  while (
      const auto op = FindBinary(
          Current(), {BinaryOperator::kMultiply, BinaryOperator::kDivide,
                      BinaryOperator::kFloorDivide, BinaryOperator::kModulo})) {
    Take();
    ASSIGN_OR_RETURN(ExpressionPtr right, ParsePower());
    ASSIGN_OR_RETURN(
        left, Make(line, Binary{*op, std::move(left), std::move(right)}));
  }
  return left;
}

JinjaParser::ExpressionResult JinjaParser::ParsePower() {
  const int line = Current().line;
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseUnary(/*with_filters=*/true));
  while (TakeOperator("**")) {
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseUnary(/*with_filters=*/true));
    ASSIGN_OR_RETURN(left,
                     Make(line, Binary{BinaryOperator::kPower, std::move(left),
                                       std::move(right)}));
  }
  return left;
}

JinjaParser::ExpressionResult JinjaParser::ParseUnary(bool with_filters) {
  const DepthGuard guard(depth_);
  RETURN_IF_ERROR(CheckDepth());
  const int line = Current().line;
  ExpressionPtr value;
  if (AtOperator("-") || AtOperator("+")) {
    const UnaryOperator op =
        Take().text == "-" ? UnaryOperator::kMinus : UnaryOperator::kPlus;
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(/*with_filters=*/false));
    ASSIGN_OR_RETURN(value, Make(line, Unary{op, std::move(operand)}));
  } else {
    ASSIGN_OR_RETURN(value, ParsePrimary());
  }
  ASSIGN_OR_RETURN(value, ParsePostfix(std::move(value)));
  return with_filters ? ParseFilters(std::move(value))
                      : ExpressionResult(std::move(value));
}

JinjaParser::ExpressionResult JinjaParser::ParsePrimary() {
  switch (Current().kind) {
    case JinjaTokenKind::kName:
      return ParseNameOrConstant();
    case JinjaTokenKind::kString:
      return ParseString();
    case JinjaTokenKind::kInteger:
    case JinjaTokenKind::kFloat:
      return ParseNumber();
    case JinjaTokenKind::kOperator:
      if (AtOperator("[")) return ParseList();
      if (AtOperator("{")) return ParseDict();
      if (TakeOperator("(")) {
        ASSIGN_OR_RETURN(ExpressionPtr value,
                         ParseTuple(TupleStyle::kParenthesised));
        RETURN_IF_ERROR(ExpectOperator(")"));
        return value;
      }
      break;
    case JinjaTokenKind::kData:
    case JinjaTokenKind::kVariableBegin:
    case JinjaTokenKind::kVariableEnd:
    case JinjaTokenKind::kBlockBegin:
    case JinjaTokenKind::kBlockEnd:
    case JinjaTokenKind::kEnd:
      break;
  }
  return Unexpected("an expression");
}

JinjaParser::ExpressionResult JinjaParser::ParseNumber() {
  const JinjaToken token = Take();
  if (token.kind == JinjaTokenKind::kFloat) {
    double value = 0;
    if (!absl::SimpleAtod(token.text, &value)) {
      return Error(token.line, Concat(token.text, " is no number"));
    }
    return Make(token.line, Literal{JinjaValue::Float(value)});
  }
  int base = 10;
  std::string_view digits = token.text;
  if (digits.size() > 2 && (digits[1] == 'x' || digits[1] == 'X')) base = 16;
  if (digits.size() > 2 && (digits[1] == 'o' || digits[1] == 'O')) base = 8;
  if (digits.size() > 2 && (digits[1] == 'b' || digits[1] == 'B')) base = 2;
  if (base != 10) digits.remove_prefix(2);
  int64_t value = 0;
  const std::from_chars_result end = std::from_chars(
      digits.data(), digits.data() + digits.size(), value, base);
  if (end.ec != std::errc()) {
    return Error(token.line,
                 Concat("the integer ", token.text, " is beyond 64 bits"));
  }
  return Make(token.line, Literal{JinjaValue::Integer(value)});
}

// Strings one after the other are one string.
JinjaParser::ExpressionResult JinjaParser::ParseString() {
  const int line = Current().line;
  std::string text;
  while (AtKind(JinjaTokenKind::kString)) text.append(Take().text);
  return Make(line, Literal{JinjaValue::Text(std::move(text))});
}

JinjaParser::ExpressionResult JinjaParser::ParseNameOrConstant() {
  const JinjaToken token = Take();
  if (auto constant = FindConstant(token.text)) {
    return Make(token.line, Literal{*std::move(constant)});
  }
  for (MacroDefinition* macro : macros_) {
    macro->uses_caller |= token.text == "caller";
    macro->uses_varargs |= token.text == "varargs";
    macro->uses_kwargs |= token.text == "kwargs";
  }
  return Make(token.line, NameReference{names_.Intern(token.text)});
}

JinjaParser::ExpressionResult JinjaParser::ParseList() {
  const int line = Take().line;
  SequenceLiteral list = {SequenceKind::kList, {}};
  while (!AtOperator("]")) {
    if (!list.items.empty()) RETURN_IF_ERROR(ExpectOperator(","));
    if (AtOperator("]")) break;
    ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    list.items.push_back(std::move(item));
  }
  Take();
  return Make(line, std::move(list));
}

JinjaParser::ExpressionResult JinjaParser::ParseDict() {
  const int line = Take().line;
  DictLiteral dict;
  while (!AtOperator("}")) {
    if (!dict.items.empty()) RETURN_IF_ERROR(ExpectOperator(","));
    if (AtOperator("}")) break;
    ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    RETURN_IF_ERROR(ExpectOperator(":"));
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    dict.items.emplace_back(std::move(key), std::move(value));
  }
  Take();
  return Make(line, std::move(dict));
}

JinjaParser::ExpressionResult JinjaParser::ParseTuple(TupleStyle style) {
  const int line = Current().line;
  SequenceLiteral tuple = {SequenceKind::kTuple, {}};
  bool is_tuple = false;
  while (!AtTupleEnd()) {
    ASSIGN_OR_RETURN(ExpressionPtr item, style == TupleStyle::kNoConditional
                                             ? ParseOr()
                                             : ParseExpression());
    tuple.items.push_back(std::move(item));
    if (!TakeOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !tuple.items.empty()) return std::move(tuple.items.front());
  if (!is_tuple && style != TupleStyle::kParenthesised) {
    return Unexpected("an expression");
  }
  return Make(line, std::move(tuple));
}

bool JinjaParser::AtTupleEnd() const {
  return AtKind(JinjaTokenKind::kVariableEnd) ||
         AtKind(JinjaTokenKind::kBlockEnd) || AtOperator(")");
}

}  // namespace headrace
