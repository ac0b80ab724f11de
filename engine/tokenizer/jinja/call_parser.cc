// The parser's calls, subscripts, filters and tests, and the check that what
// they name exists.
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/filters.h"
#include "engine/tokenizer/jinja/functions.h"
#include "engine/tokenizer/jinja/methods.h"
#include "engine/tokenizer/jinja/parser_impl.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/tests.h"

namespace headrace {

JinjaParser::ExpressionResult JinjaParser::ParsePostfix(
    ExpressionPtr expression) {
  while (true) {
    if (AtOperator(".") || AtOperator("[")) {
      ASSIGN_OR_RETURN(expression, ParseSubscript(std::move(expression)));
    } else if (AtOperator("(")) {
      ASSIGN_OR_RETURN(expression, ParseCall(std::move(expression)));
    } else {
      return expression;
    }
  }
}

JinjaParser::ExpressionResult JinjaParser::ParseFilters(
    ExpressionPtr expression) {
  while (true) {
    if (TakeOperator("|")) {
      ASSIGN_OR_RETURN(expression, ParseFilter(std::move(expression)));
    } else if (AtName("is")) {
      ASSIGN_OR_RETURN(expression, ParseTest(std::move(expression)));
    } else if (AtOperator("(")) {
      ASSIGN_OR_RETURN(expression, ParseCall(std::move(expression)));
    } else {
      return expression;
    }
  }
}

JinjaParser::ExpressionResult JinjaParser::ParseSubscript(
    ExpressionPtr object) {
  const int line = Current().line;
  if (Take().text == "[") return ParseSubscriptKey(std::move(object), line);
  if (AtKind(JinjaTokenKind::kInteger)) {  // a.0
    ASSIGN_OR_RETURN(ExpressionPtr key, ParseNumber());
    return Make(line, Subscript{std::move(object), std::move(key)});
  }
  ASSIGN_OR_RETURN(std::string name, ExpectName("a name or a number"));
  if (name.starts_with("__")) {
    return Error(line, Concat("the attribute '", name, "' is refused"));
  }
  return Make(line, AttributeAccess{std::move(object), std::move(name)});
}

// a[b] · a[b:c:d]
JinjaParser::ExpressionResult JinjaParser::ParseSubscriptKey(
    ExpressionPtr object, int line) {
  Slicing slicing;
  slicing.object = std::move(object);
  if (!AtOperator(":")) {
    ASSIGN_OR_RETURN(slicing.start, ParseExpression());
    if (AtOperator(",")) {
      return Error(line, "a subscript with several keys is not supported");
    }
    if (TakeOperator("]")) {
      return Make(
          line, Subscript{std::move(slicing.object), std::move(slicing.start)});
    }
  }
  RETURN_IF_ERROR(ExpectOperator(":"));
  if (!AtOperator(":") && !AtOperator("]")) {
    ASSIGN_OR_RETURN(slicing.stop, ParseExpression());
  }
  if (TakeOperator(":") && !AtOperator("]")) {
    ASSIGN_OR_RETURN(slicing.step, ParseExpression());
  }
  RETURN_IF_ERROR(ExpectOperator("]"));
  return Make(line, std::move(slicing));
}

JinjaParser::ExpressionResult JinjaParser::ParseCall(ExpressionPtr callee) {
  const int line = Current().line;
  NoteCall(*callee);
  ASSIGN_OR_RETURN(CallArguments arguments, ParseArguments());
  // namespace(name=…) makes attributes that may hold macros.
  for (const auto& [name, value] : arguments.named) {
    assigned_attributes_.insert(name);
  }
  return Make(line, Call{std::move(callee), std::move(arguments)});
}

JinjaParser::ExpressionResult JinjaParser::ParseFilter(ExpressionPtr input) {
  const int line = Current().line;
  ASSIGN_OR_RETURN(const std::string name, ParseDottedName());
  FilterUse use = {std::move(input), FindFilter(name), {}};
  if (use.filter == nullptr) {
    return Error(line, Concat("the filter '", name, "' is unknown"));
  }
  if (AtOperator("(")) {
    ASSIGN_OR_RETURN(use.arguments, ParseArguments());
  }
  RETURN_IF_ERROR(CheckNamedRow(use, line));
  return Make(line, std::move(use));
}

JinjaParser::ExpressionResult JinjaParser::ParseTest(ExpressionPtr input) {
  const int line = Take().line;
  const bool is_negated = TakeName("not");
  ASSIGN_OR_RETURN(const std::string name, ParseDottedName());
  TestUse use = {std::move(input), FindTest(name), {}};
  if (use.test == nullptr) {
    return Error(line, Concat("the test '", name, "' is unknown"));
  }
  const bool has_bare_argument =
      (AtKind(JinjaTokenKind::kName) && !AtName("else") && !AtName("or") &&
       !AtName("and")) ||
      AtKind(JinjaTokenKind::kString) || AtKind(JinjaTokenKind::kInteger) ||
      AtKind(JinjaTokenKind::kFloat) || AtOperator("[") || AtOperator("{");
  if (AtOperator("(")) {
    ASSIGN_OR_RETURN(use.arguments, ParseArguments());
  } else if (has_bare_argument) {
    if (AtName("is")) return Error(line, "tests cannot be chained with 'is'");
    ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    use.arguments.positional.push_back(std::move(argument));
  }
  ASSIGN_OR_RETURN(ExpressionPtr test, Make(line, std::move(use)));
  if (!is_negated) return test;
  return Make(line, Unary{UnaryOperator::kNot, std::move(test)});
}

absl::StatusOr<CallArguments> JinjaParser::ParseArguments() {
  RETURN_IF_ERROR(ExpectOperator("("));
  CallArguments arguments;
  bool is_first = true;
  while (!AtOperator(")")) {
    if (!std::exchange(is_first, false)) {
      RETURN_IF_ERROR(ExpectOperator(","));
      if (AtOperator(")")) break;
    }
    RETURN_IF_ERROR(ParseArgument(arguments));
    if (arguments.named.size() > kMaxArguments) {
      return Error(Current().line, "a call has too many named arguments");
    }
  }
  Take();
  return arguments;
}

absl::Status JinjaParser::ParseArgument(CallArguments& arguments) {
  const int line = Current().line;
  const bool after_stars =
      arguments.starred != nullptr || arguments.double_starred != nullptr;
  if (AtOperator("**") && arguments.double_starred == nullptr) {
    Take();
    ASSIGN_OR_RETURN(arguments.double_starred, ParseExpression());
  } else if (AtOperator("*") && !after_stars) {
    Take();
    ASSIGN_OR_RETURN(arguments.starred, ParseExpression());
  } else if (AtKind(JinjaTokenKind::kName) &&
             Next().kind == JinjaTokenKind::kOperator && Next().text == "=" &&
             arguments.double_starred == nullptr) {
    const std::string name = Take().text;
    Take();
    for (const auto& [other, value] : arguments.named) {
      if (other != name) continue;
      return Error(line, Concat("the argument '", name, "' is repeated"));
    }
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    arguments.named.emplace_back(name, std::move(value));
  } else if (!after_stars && arguments.named.empty()) {
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    arguments.positional.push_back(std::move(value));
  } else {
    return Error(line, "a call's arguments are in the wrong order");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> JinjaParser::ParseDottedName() {
  ASSIGN_OR_RETURN(std::string name, ExpectName("a name"));
  while (TakeOperator(".")) {
    ASSIGN_OR_RETURN(const std::string part, ExpectName("a name"));
    name.append(Concat(".", part));
  }
  return name;
}

void JinjaParser::NoteCall(const Expression& callee) {
  if (const auto* name = std::get_if<NameReference>(&callee.node)) {
    function_calls_.push_back({names_.Name(name->name), callee.line});
  } else if (const auto* access = std::get_if<AttributeAccess>(&callee.node)) {
    method_calls_.push_back({access->attribute, callee.line});
  }
}

absl::Status JinjaParser::CheckNamedRow(const FilterUse& filter,
                                        int line) const {
  const std::string_view name = filter.filter->name;
  const bool is_map = name == "map";
  const bool by_attribute = name == "selectattr" || name == "rejectattr";
  if (!is_map && !by_attribute && name != "select" && name != "reject") {
    return absl::OkStatus();
  }
  const size_t index = by_attribute ? 1 : 0;
  if (filter.arguments.positional.size() <= index) return absl::OkStatus();
  const auto* literal =
      std::get_if<Literal>(&filter.arguments.positional[index]->node);
  if (literal == nullptr) return absl::OkStatus();
  const std::string& named = literal->value.text().bytes();
  const bool is_known =
      is_map ? FindFilter(named) != nullptr : FindTest(named) != nullptr;
  if (is_known) return absl::OkStatus();
  return Error(line, Concat("the ", is_map ? "filter" : "test", " '", named,
                            "' is unknown"));
}

absl::Status JinjaParser::CheckCalls() const {
  for (const auto& [name, line] : function_calls_) {
    if (FindFunction(name) == nullptr && !assigned_names_.contains(name) &&
        name != "caller" && name != "loop") {
      return Error(line, Concat("the function ", name, "() is unknown"));
    }
  }
  for (const auto& [name, line] : method_calls_) {
    if (!IsMethodName(name) && !assigned_attributes_.contains(name)) {
      return Error(
          line, Concat("the method ", name, "() is unknown or not supported"));
    }
  }
  return absl::OkStatus();
}

}  // namespace headrace
