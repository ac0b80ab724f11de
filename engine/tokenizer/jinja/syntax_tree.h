// A parsed template: statements that hold expressions. Names are numbers,
// which the template's name table resolves.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_SYNTAX_TREE_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_SYNTAX_TREE_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "engine/tokenizer/jinja/callable.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/value.h"

namespace headrace {

// Variable names of one template, numbered from 0 in the order of their first
// use.
class NameTable {
 public:
  int Intern(std::string_view name);
  const std::string& Name(int id) const { return names_[id]; }
  // -1 when the template never uses the name.
  int Find(std::string_view name) const;
  int size() const { return static_cast<int>(names_.size()); }

 private:
  absl::flat_hash_map<std::string, int> ids_;
  std::vector<std::string> names_;
};

// --- Expressions -------------------------------------------------------------

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Literal {
  JinjaValue value;
};
struct NameReference {
  int name;
};
struct SequenceLiteral {
  SequenceKind kind;  // kList or kTuple
  std::vector<ExpressionPtr> items;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};
enum class UnaryOperator : uint8_t { kNot, kMinus, kPlus };
struct Unary {
  UnaryOperator op;
  ExpressionPtr operand;
};
struct Binary {
  BinaryOperator op;
  ExpressionPtr left;
  ExpressionPtr right;
};
// `and`, `or`: gives one of the operands.
struct Logical {
  bool is_and;
  ExpressionPtr left;
  ExpressionPtr right;
};
// a < b <= c: every operand is evaluated once at most.
struct Comparison {
  ExpressionPtr first;
  std::vector<std::pair<CompareOperator, ExpressionPtr>> rest;
};
struct Concatenation {  // ~
  std::vector<ExpressionPtr> parts;
};
struct Conditional {  // a if b else c
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;  // may be nullptr
};
struct AttributeAccess {  // a.b
  ExpressionPtr object;
  std::string attribute;
};
struct Subscript {  // a[b]
  ExpressionPtr object;
  ExpressionPtr key;
};
struct Slicing {  // a[b:c:d]
  ExpressionPtr object;
  ExpressionPtr start;  // these may be nullptr
  ExpressionPtr stop;
  ExpressionPtr step;
};
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr starred;         // *a; may be nullptr
  ExpressionPtr double_starred;  // **a; may be nullptr
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterUse {
  ExpressionPtr input;  // nullptr: the text of the block around it
  const JinjaCallableRow* filter;
  CallArguments arguments;
};
struct TestUse {
  ExpressionPtr input;
  const JinjaCallableRow* test;
  CallArguments arguments;
};

struct Expression {
  using Node = std::variant<Literal, NameReference, SequenceLiteral,
                            DictLiteral, Unary, Binary, Logical, Comparison,
                            Concatenation, Conditional, AttributeAccess,
                            Subscript, Slicing, Call, FilterUse, TestUse>;
  int line;
  Node node;
  // Expressions inside each other, this one included.
  int depth = 1;
};

// Calls `visit` with every expression directly inside this one.
void ForEachChild(const Expression& expression,
                  absl::FunctionRef<void(const Expression&)> visit);

// --- Statements --------------------------------------------------------------

struct Statement;
using Body = std::vector<Statement>;

// What is assigned to: a name, an attribute of a namespace, or a tuple of
// such.
struct Target {
  int line;
  int name;                              // of the variable
  std::optional<std::string> attribute;  // of the namespace in it
  std::vector<Target> items;             // not empty: a tuple
};

// A region with variables of its own. Names that it sets before it reads them
// start out undefined here, even when an outer region knows them (scopes.h).
struct Scope {
  std::vector<int> starts_undefined;
};

struct TextOutput {
  MarkedText text;
};
struct ValueOutput {
  ExpressionPtr value;
};
struct IfBlock {
  // Conditions in order; the last may be nullptr, for else.
  std::vector<std::pair<ExpressionPtr, Body>> branches;
};
struct ForBlock {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // for … if; may be nullptr
  bool is_recursive = false;
  Body body;
  Body otherwise;
  Scope body_scope;
  Scope otherwise_scope;
};
struct SetStatement {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // may be nullptr
  Body body;
  Scope scope;
};
struct WithBlock {
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Body body;
  Scope scope;
};
struct FilterBlock {
  ExpressionPtr filter;
  Body body;
  Scope scope;
};
// A macro, or the body of a call block.
struct MacroDefinition {
  std::string name;  // "caller" for a call block
  int name_id = -1;
  std::vector<int> parameters;
  // Of the last parameters.
  std::vector<ExpressionPtr> defaults;
  Body body;
  Scope scope;
  // Which of the special variables the body reads.
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};
struct MacroStatement {
  std::unique_ptr<MacroDefinition> macro;
};
struct CallBlock {
  ExpressionPtr call;  // a Call
  std::unique_ptr<MacroDefinition> caller;
};
struct GenerationBlock {  // marks what the assistant wrote; adds nothing
  Body body;
  Scope scope;
};
enum class LoopControl : uint8_t { kBreak, kContinue };

struct Statement {
  using Node =
      std::variant<TextOutput, ValueOutput, IfBlock, ForBlock, SetStatement,
                   SetBlock, WithBlock, FilterBlock, MacroStatement, CallBlock,
                   GenerationBlock, LoopControl>;
  int line;
  Node node;
};

struct SyntaxTree {
  NameTable names;
  Body body;
  Scope scope;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_SYNTAX_TREE_H_
