// The parser's inside, shared by parser.cc (statements), expression_parser.cc
// and call_parser.cc; not for others.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_PARSER_IMPL_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_PARSER_IMPL_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/depth_guard.h"
#include "engine/tokenizer/jinja/lexer.h"
#include "engine/tokenizer/jinja/syntax_tree.h"

namespace headrace {

class JinjaParser {
 public:
  explicit JinjaParser(std::vector<JinjaToken> tokens)
      : tokens_(std::move(tokens)) {}

  absl::StatusOr<SyntaxTree> Run();

 private:
  using ExpressionResult = absl::StatusOr<ExpressionPtr>;
  using StatementResult = absl::StatusOr<Statement>;

  absl::Status CheckDepth() const;

  // Of a call or a macro.
  static constexpr size_t kMaxArguments = 200;

  // --- Tokens (parser.cc)
  const JinjaToken& Current() const { return tokens_[at_]; }
  const JinjaToken& Next() const;
  JinjaToken Take();
  bool AtName(std::string_view name) const;
  bool AtOperator(std::string_view op) const;
  bool AtKind(JinjaTokenKind kind) const { return Current().kind == kind; }
  bool TakeName(std::string_view name);
  bool TakeOperator(std::string_view op);
  absl::Status Expect(JinjaTokenKind kind, std::string_view what);
  absl::Status ExpectOperator(std::string_view op);
  absl::StatusOr<std::string> ExpectName(std::string_view what);
  absl::Status Error(int line, std::string_view message) const;
  // "unexpected …" for the current token.
  absl::Status Unexpected(std::string_view wanted) const;

  // --- Statements (parser.cc, block_parser.cc)
  // Statements up to a tag named in `ends`, which is left as the current
  // token; with none, up to the end of the template.
  absl::StatusOr<Body> ParseBody(std::initializer_list<std::string_view> ends);
  // After a tag's head: its end, a body, and the end tag without its end.
  absl::StatusOr<Body> ParseBlockBody(
      std::initializer_list<std::string_view> ends);
  StatementResult ParseStatement();
  StatementResult ParseIf(int line);
  StatementResult ParseFor(int line);
  StatementResult ParseSet(int line);
  StatementResult ParseWith(int line);
  StatementResult ParseFilterBlock(int line);
  StatementResult ParseMacro(int line);
  StatementResult ParseCallBlock(int line);
  StatementResult ParseGeneration(int line);
  StatementResult ParseLoopControl(int line, LoopControl control);
  absl::Status ParseSignature(MacroDefinition& macro);
  absl::Status ParseMacroBody(MacroDefinition& macro, std::string_view end);
  absl::StatusOr<Target> ParseTarget(bool allows_attribute);
  absl::StatusOr<Target> ParseTargetItem(bool allows_attribute);

  // --- Expressions (expression_parser.cc)
  ExpressionResult Make(int line, Expression::Node node) const;
  ExpressionResult ParseExpression();  // with a if b else c
  ExpressionResult ParseOr();
  ExpressionResult ParseAnd();
  ExpressionResult ParseNot();
  ExpressionResult ParseComparison();
  ExpressionResult ParseSum();
  ExpressionResult ParseConcatenation();
  ExpressionResult ParseProduct();
  ExpressionResult ParsePower();
  ExpressionResult ParseUnary(bool with_filters);
  ExpressionResult ParsePrimary();
  ExpressionResult ParseNumber();
  ExpressionResult ParseString();
  ExpressionResult ParseNameOrConstant();
  ExpressionResult ParseList();
  ExpressionResult ParseDict();
  enum class TupleStyle : uint8_t {
    kPlain,          // may hold a if b else c
    kNoConditional,  // before a tag's own `if`
    kParenthesised,  // may be empty
  };
  ExpressionResult ParseTuple(TupleStyle style);
  bool AtTupleEnd() const;

  // --- What follows an expression (call_parser.cc)
  ExpressionResult ParsePostfix(ExpressionPtr expression);
  ExpressionResult ParseFilters(ExpressionPtr expression);
  ExpressionResult ParseSubscript(ExpressionPtr object);
  ExpressionResult ParseSubscriptKey(ExpressionPtr object, int line);
  ExpressionResult ParseCall(ExpressionPtr callee);
  ExpressionResult ParseFilter(ExpressionPtr input);
  ExpressionResult ParseTest(ExpressionPtr input);
  absl::StatusOr<CallArguments> ParseArguments();
  absl::Status ParseArgument(CallArguments& arguments);
  absl::StatusOr<std::string> ParseDottedName();

  // --- Checks at the end (call_parser.cc)
  struct NamedPlace {
    std::string name;
    int line;
  };
  void NoteCall(const Expression& callee);
  // A filter or test that is named by a constant argument.
  absl::Status CheckNamedRow(const FilterUse& filter, int line) const;
  absl::Status CheckCalls() const;

  std::vector<JinjaToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  NameTable names_;
  // Around the current place: loops (0 in a macro), and macros whose body it
  // is, outermost first.
  int loop_depth_ = 0;
  std::vector<MacroDefinition*> macros_;
  // Calls by name, and names that something is assigned to.
  std::vector<NamedPlace> function_calls_;
  std::vector<NamedPlace> method_calls_;
  absl::flat_hash_set<std::string> assigned_names_;
  absl::flat_hash_set<std::string> assigned_attributes_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_PARSER_IMPL_H_
