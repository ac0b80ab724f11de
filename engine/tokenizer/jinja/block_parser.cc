// The parser's blocks: if, for, set, with, filter, macro, call, generation.
#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/parser_impl.h"
#include "engine/tokenizer/jinja/plain_text.h"

namespace headrace {

JinjaParser::StatementResult JinjaParser::ParseIf(int line) {
  IfBlock block;
  while (true) {
    ASSIGN_OR_RETURN(ExpressionPtr condition,
                     ParseTuple(TupleStyle::kNoConditional));
    ASSIGN_OR_RETURN(Body body, ParseBlockBody({"elif", "else", "endif"}));
    block.branches.emplace_back(std::move(condition), std::move(body));
    const std::string end = Take().text;
    if (end == "elif") continue;
    if (end == "else") {
      ASSIGN_OR_RETURN(Body otherwise, ParseBlockBody({"endif"}));
      Take();
      block.branches.emplace_back(nullptr, std::move(otherwise));
    }
    return Statement{line, std::move(block)};
  }
}

JinjaParser::StatementResult JinjaParser::ParseFor(int line) {
  ForBlock block;
  ++loop_depth_;
  ASSIGN_OR_RETURN(block.target, ParseTarget(/*allows_attribute=*/false));
  if (!TakeName("in")) return Unexpected("'in'");
  ASSIGN_OR_RETURN(block.iterable, ParseTuple(TupleStyle::kNoConditional));
  if (TakeName("if")) {
    ASSIGN_OR_RETURN(block.condition, ParseExpression());
  }
  block.is_recursive = TakeName("recursive");
  ASSIGN_OR_RETURN(block.body, ParseBlockBody({"endfor", "else"}));
  --loop_depth_;
  if (Take().text == "else") {
    ASSIGN_OR_RETURN(block.otherwise, ParseBlockBody({"endfor"}));
    Take();
  }
  return Statement{line, std::move(block)};
}

JinjaParser::StatementResult JinjaParser::ParseSet(int line) {
  ASSIGN_OR_RETURN(Target target, ParseTarget(/*allows_attribute=*/true));
  if (TakeOperator("=")) {
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseTuple(TupleStyle::kPlain));
    return Statement{line, SetStatement{std::move(target), std::move(value)}};
  }
  SetBlock block = {std::move(target), nullptr, {}, {}};
  while (AtOperator("|")) {
    Take();
    ASSIGN_OR_RETURN(block.filter, ParseFilter(std::move(block.filter)));
  }
  ASSIGN_OR_RETURN(block.body, ParseBlockBody({"endset"}));
  Take();
  return Statement{line, std::move(block)};
}

JinjaParser::StatementResult JinjaParser::ParseWith(int line) {
  WithBlock block;
  while (!AtKind(JinjaTokenKind::kBlockEnd)) {
    if (!block.assignments.empty()) RETURN_IF_ERROR(ExpectOperator(","));
    ASSIGN_OR_RETURN(Target target, ParseTarget(/*allows_attribute=*/false));
    RETURN_IF_ERROR(ExpectOperator("="));
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    block.assignments.emplace_back(std::move(target), std::move(value));
  }
  ASSIGN_OR_RETURN(block.body, ParseBlockBody({"endwith"}));
  Take();
  return Statement{line, std::move(block)};
}

JinjaParser::StatementResult JinjaParser::ParseFilterBlock(int line) {
  FilterBlock block;
  do {
    ASSIGN_OR_RETURN(block.filter, ParseFilter(std::move(block.filter)));
  } while (TakeOperator("|"));
  ASSIGN_OR_RETURN(block.body, ParseBlockBody({"endfilter"}));
  Take();
  return Statement{line, std::move(block)};
}

JinjaParser::StatementResult JinjaParser::ParseMacro(int line) {
  auto macro = std::make_unique<MacroDefinition>();
  ASSIGN_OR_RETURN(macro->name, ExpectName("the name of a macro"));
  macro->name_id = names_.Intern(macro->name);
  assigned_names_.insert(macro->name);
  RETURN_IF_ERROR(ParseSignature(*macro));
  RETURN_IF_ERROR(ParseMacroBody(*macro, "endmacro"));
  return Statement{line, MacroStatement{std::move(macro)}};
}

JinjaParser::StatementResult JinjaParser::ParseCallBlock(int line) {
  auto caller = std::make_unique<MacroDefinition>();
  caller->name = "caller";
  if (AtOperator("(")) RETURN_IF_ERROR(ParseSignature(*caller));
  ASSIGN_OR_RETURN(ExpressionPtr call, ParseExpression());
  if (!std::holds_alternative<Call>(call->node)) {
    return Error(line, "{% call %} needs a call");
  }
  RETURN_IF_ERROR(ParseMacroBody(*caller, "endcall"));
  return Statement{line, CallBlock{std::move(call), std::move(caller)}};
}

JinjaParser::StatementResult JinjaParser::ParseGeneration(int line) {
  // Like a macro's, its body is no part of a loop around it.
  GenerationBlock block;
  const int outer_loops = std::exchange(loop_depth_, 0);
  ASSIGN_OR_RETURN(block.body, ParseBlockBody({"endgeneration"}));
  loop_depth_ = outer_loops;
  Take();
  return Statement{line, std::move(block)};
}

absl::Status JinjaParser::ParseSignature(MacroDefinition& macro) {
  RETURN_IF_ERROR(ExpectOperator("("));
  while (!AtOperator(")")) {
    if (!macro.parameters.empty()) RETURN_IF_ERROR(ExpectOperator(","));
    const int line = Current().line;
    ASSIGN_OR_RETURN(const std::string name, ExpectName("a parameter"));
    if (name == "caller" || name == "varargs" || name == "kwargs") {
      return Error(line,
                   Concat("a parameter named '", name, "' is not supported"));
    }
    const int id = names_.Intern(name);
    if (std::find(macro.parameters.begin(), macro.parameters.end(), id) !=
        macro.parameters.end()) {
      return Error(line, Concat("two parameters are named '", name, "'"));
    }
    if (macro.parameters.size() == kMaxArguments) {
      return Error(line, "a macro has too many parameters");
    }
    assigned_names_.insert(name);
    macro.parameters.push_back(id);
    if (TakeOperator("=")) {
      ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      macro.defaults.push_back(std::move(value));
    } else if (!macro.defaults.empty()) {
      return Error(line, Concat("the parameter '", name,
                                "' needs a default, as one before it"));
    }
  }
  Take();
  return absl::OkStatus();
}

absl::Status JinjaParser::ParseMacroBody(MacroDefinition& macro,
                                         std::string_view end) {
  macros_.push_back(&macro);
  const int outer_loops = std::exchange(loop_depth_, 0);
  ASSIGN_OR_RETURN(macro.body, ParseBlockBody({end}));
  loop_depth_ = outer_loops;
  macros_.pop_back();
  Take();
  return absl::OkStatus();
}

// a · a, b · (a, b), c · ns.a
absl::StatusOr<Target> JinjaParser::ParseTarget(bool allows_attribute) {
  const DepthGuard guard(depth_);
  RETURN_IF_ERROR(CheckDepth());
  const int line = Current().line;
  ASSIGN_OR_RETURN(Target first, ParseTargetItem(allows_attribute));
  if (!AtOperator(",")) return first;
  Target tuple = {line, -1, std::nullopt, {}};
  tuple.items.push_back(std::move(first));
  while (TakeOperator(",")) {
    if (!AtKind(JinjaTokenKind::kName) && !AtOperator("(")) break;
    if (AtName("in")) break;
    ASSIGN_OR_RETURN(Target item, ParseTargetItem(allows_attribute));
    tuple.items.push_back(std::move(item));
  }
  return tuple;
}

absl::StatusOr<Target> JinjaParser::ParseTargetItem(bool allows_attribute) {
  const int line = Current().line;
  if (TakeOperator("(")) {
    ASSIGN_OR_RETURN(Target target, ParseTarget(/*allows_attribute=*/false));
    RETURN_IF_ERROR(ExpectOperator(")"));
    return target;
  }
  ASSIGN_OR_RETURN(const std::string name, ExpectName("a variable"));
  if (name == "true" || name == "True" || name == "false" || name == "False" ||
      name == "none" || name == "None") {
    return Error(line, Concat("'", name, "' cannot be assigned to"));
  }
  Target target = {line, names_.Intern(name), std::nullopt, {}};
  if (allows_attribute && TakeOperator(".")) {
    ASSIGN_OR_RETURN(target.attribute, ExpectName("an attribute"));
    assigned_attributes_.insert(*target.attribute);
    return target;
  }
  if (name == "loop" && loop_depth_ > 0) {
    return Error(line, "'loop' cannot be assigned to inside of a loop");
  }
  assigned_names_.insert(name);
  return target;
}

}  // namespace headrace
