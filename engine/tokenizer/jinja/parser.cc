// The parser's tokens, bodies and tags; the blocks are in block_parser.cc.
#include "engine/tokenizer/jinja/parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/parser_impl.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/scopes.h"

namespace headrace {
namespace {

constexpr int kMaxDepth = 100;

std::string Describe(const JinjaToken& token) {
  switch (token.kind) {
    case JinjaTokenKind::kData:
      return "text";
    case JinjaTokenKind::kVariableBegin:
      return "'{{'";
    case JinjaTokenKind::kVariableEnd:
      return "'}}'";
    case JinjaTokenKind::kBlockBegin:
      return "'{%'";
    case JinjaTokenKind::kBlockEnd:
      return "'%}'";
    case JinjaTokenKind::kString:
      return "a string";
    case JinjaTokenKind::kName:
    case JinjaTokenKind::kInteger:
    case JinjaTokenKind::kFloat:
    case JinjaTokenKind::kOperator:
      return Concat("'", token.text, "'");
    case JinjaTokenKind::kEnd:
      return "the end of the template";
  }
  return "";
}

}  // namespace

absl::StatusOr<SyntaxTree> ParseTemplate(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<JinjaToken> tokens, TokenizeTemplate(source));
  return JinjaParser(std::move(tokens)).Run();
}

absl::StatusOr<SyntaxTree> JinjaParser::Run() {
  SyntaxTree tree;
  ASSIGN_OR_RETURN(tree.body, ParseBody({}));
  RETURN_IF_ERROR(CheckCalls());
  tree.names = std::move(names_);
  AnalyzeScopes(tree);
  return tree;
}

absl::Status JinjaParser::CheckDepth() const {
  if (depth_ <= kMaxDepth) return absl::OkStatus();
  return Error(
      Current().line,
      Concat("tags or expressions are nested more than ", kMaxDepth, " deep"));
}

const JinjaToken& JinjaParser::Next() const {
  return tokens_[std::min(at_ + 1, tokens_.size() - 1)];
}

JinjaToken JinjaParser::Take() {
  JinjaToken token = Current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool JinjaParser::AtName(std::string_view name) const {
  return AtKind(JinjaTokenKind::kName) && Current().text == name;
}

bool JinjaParser::AtOperator(std::string_view op) const {
  return AtKind(JinjaTokenKind::kOperator) && Current().text == op;
}

bool JinjaParser::TakeName(std::string_view name) {
  if (!AtName(name)) return false;
  Take();
  return true;
}

bool JinjaParser::TakeOperator(std::string_view op) {
  if (!AtOperator(op)) return false;
  Take();
  return true;
}

absl::Status JinjaParser::Expect(JinjaTokenKind kind, std::string_view what) {
  if (!AtKind(kind)) return Unexpected(what);
  Take();
  return absl::OkStatus();
}

absl::Status JinjaParser::ExpectOperator(std::string_view op) {
  if (!AtOperator(op)) return Unexpected(Concat("'", op, "'"));
  Take();
  return absl::OkStatus();
}

absl::StatusOr<std::string> JinjaParser::ExpectName(std::string_view what) {
  if (!AtKind(JinjaTokenKind::kName)) return Unexpected(what);
  return Take().text;
}

absl::Status JinjaParser::Error(int line, std::string_view message) const {
  return JinjaSyntaxError(line, message);
}

absl::Status JinjaParser::Unexpected(std::string_view wanted) const {
  return Error(Current().line, Concat("expected ", wanted, ", but found ",
                                      Describe(Current())));
}

absl::StatusOr<Body> JinjaParser::ParseBody(
    std::initializer_list<std::string_view> ends) {
  const DepthGuard guard(depth_);
  RETURN_IF_ERROR(CheckDepth());
  Body body;
  while (!AtKind(JinjaTokenKind::kEnd)) {
    const int line = Current().line;
    if (AtKind(JinjaTokenKind::kData)) {
      body.push_back(
          {line, TextOutput{MarkedText(Take().text, TextOrigin::kTemplate)}});
    } else if (AtKind(JinjaTokenKind::kVariableBegin)) {
      Take();
      ASSIGN_OR_RETURN(ExpressionPtr value, ParseTuple(TupleStyle::kPlain));
      body.push_back({line, ValueOutput{std::move(value)}});
      RETURN_IF_ERROR(Expect(JinjaTokenKind::kVariableEnd, "'}}'"));
    } else {
      RETURN_IF_ERROR(Expect(JinjaTokenKind::kBlockBegin, "'{%'"));
      const bool is_end =
          AtKind(JinjaTokenKind::kName) &&
          std::find(ends.begin(), ends.end(), Current().text) != ends.end();
      if (is_end) return body;
      ASSIGN_OR_RETURN(Statement statement, ParseStatement());
      body.push_back(std::move(statement));
      RETURN_IF_ERROR(Expect(JinjaTokenKind::kBlockEnd, "'%}'"));
    }
  }
  if (ends.size() == 0) return body;
  return Unexpected(Concat("{% ", *(ends.end() - 1), " %}"));
}

absl::StatusOr<Body> JinjaParser::ParseBlockBody(
    std::initializer_list<std::string_view> ends) {
  TakeOperator(":");  // as Python has it
  RETURN_IF_ERROR(Expect(JinjaTokenKind::kBlockEnd, "'%}'"));
  return ParseBody(ends);
}

JinjaParser::StatementResult JinjaParser::ParseStatement() {
  struct Tag {
    std::string_view name;
    StatementResult (JinjaParser::*parse)(int line);
  };
  static constexpr auto kTags = std::to_array<Tag>({
      {"call", &JinjaParser::ParseCallBlock},
      {"filter", &JinjaParser::ParseFilterBlock},
      {"for", &JinjaParser::ParseFor},
      {"generation", &JinjaParser::ParseGeneration},
      {"if", &JinjaParser::ParseIf},
      {"macro", &JinjaParser::ParseMacro},
      {"set", &JinjaParser::ParseSet},
      {"with", &JinjaParser::ParseWith},
  });
  const int line = Current().line;
  ASSIGN_OR_RETURN(const std::string name, ExpectName("the name of a tag"));
  if (name == "break") return ParseLoopControl(line, LoopControl::kBreak);
  if (name == "continue") return ParseLoopControl(line, LoopControl::kContinue);
  const auto* tag = std::find_if(
      kTags.begin(), kTags.end(),
      [&name](const Tag& candidate) { return candidate.name == name; });
  if (tag == kTags.end()) {
    return Error(line, Concat("the tag {% ", name,
                              " %} is unknown or not supported here"));
  }
  return (this->*tag->parse)(line);
}

JinjaParser::StatementResult JinjaParser::ParseLoopControl(
    int line, LoopControl control) {
  if (loop_depth_ == 0) {
    return Error(line, control == LoopControl::kBreak
                           ? "{% break %} outside of a loop"
                           : "{% continue %} outside of a loop");
  }
  return Statement{line, control};
}

}  // namespace headrace
