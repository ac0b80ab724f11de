// Runs a parsed template. One interpreter renders once.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_INTERPRETER_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_INTERPRETER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/callable.h"
#include "engine/tokenizer/jinja/depth_guard.h"
#include "engine/tokenizer/jinja/loop.h"
#include "engine/tokenizer/jinja/marked_text.h"
#include "engine/tokenizer/jinja/syntax_tree.h"

namespace headrace {

// The variables of a region, inside those of another.
struct JinjaFrame {
  JinjaFrame* outer = nullptr;
  std::vector<std::pair<int, JinjaValue>> variables;
  // A macro or a recursive loop may come back to it after the region's end.
  bool is_kept = false;

  const JinjaValue* Find(int name) const;
  void Set(int name, JinjaValue value);
};

// A macro and the region it was defined in, whose variables it sees.
struct JinjaMacro {
  const MacroDefinition* definition;
  JinjaFrame* frame;
};

class JinjaInterpreter {
 public:
  // Values of the template's names, by their numbers; absent ones are
  // undefined, unless they name a function.
  using Context = std::vector<std::optional<JinjaValue>>;

  // `tree` and `runtime` outlive the interpreter and its values.
  JinjaInterpreter(const SyntaxTree& tree, JinjaRuntime& runtime,
                   Context context)
      : tree_(tree), runtime_(runtime), context_(std::move(context)) {}

  // Errors: INVALID_ARGUMENT naming the line, or with the template's own words
  // alone when runtime.refused is set.
  absl::StatusOr<MarkedText> Run();

 private:
  using Result = absl::StatusOr<JinjaValue>;
  // How a statement ends: with the next one, or by leaving the loop's body.
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  using FlowResult = absl::StatusOr<Flow>;

  // Makes a new frame the current one, for as long as it lives.
  class FrameGuard {
   public:
    FrameGuard(JinjaInterpreter& interpreter, JinjaFrame* outer);
    ~FrameGuard();
    FrameGuard(const FrameGuard&) = delete;
    FrameGuard& operator=(const FrameGuard&) = delete;
    JinjaFrame& frame() { return *frame_; }

   private:
    JinjaInterpreter& interpreter_;
    JinjaFrame* previous_;
    JinjaFrame* frame_;
  };
  absl::Status CheckDepth() const;
  // Remembers the line of the innermost error.
  void NoteError(int line);

  // --- Statements (interpreter.cc)
  FlowResult ExecuteBody(const Body& body);
  FlowResult ExecuteScoped(const Body& body, const Scope& scope);
  // The same, into a text of its own.
  FlowResult ExecuteInto(const Body& body, MarkedText& out);
  absl::Status EnterScope(const Scope& scope);
  FlowResult Execute(const TextOutput& node);
  FlowResult Execute(const ValueOutput& node);
  FlowResult Execute(const IfBlock& node);
  FlowResult Execute(const ForBlock& node);
  FlowResult Execute(const SetStatement& node);
  FlowResult Execute(const SetBlock& node);
  FlowResult Execute(const WithBlock& node);
  FlowResult Execute(const FilterBlock& node);
  FlowResult Execute(const MacroStatement& node);
  FlowResult Execute(const CallBlock& node);
  FlowResult Execute(const GenerationBlock& node);
  FlowResult Execute(LoopControl control);
  absl::Status Write(const MarkedText& text);
  absl::Status Assign(const Target& target, JinjaValue value,
                      JinjaFrame& frame);
  absl::Status AssignTuple(const Target& target, const JinjaValue& value,
                           JinjaFrame& frame);

  // --- Loops and macros (calls.cc)
  FlowResult RunLoop(const ForBlock& block, const JinjaValue& iterable,
                     int64_t depth0);
  FlowResult RunLoopBody(const ForBlock& block, JinjaLoop& loop,
                         JinjaFrame& frame);
  JinjaLoop::Pull MakePull(const ForBlock& block,
                           std::vector<JinjaValue> items);
  absl::StatusOr<bool> Passes(const ForBlock& block, JinjaFrame* outer,
                              const JinjaValue& item);
  Result CallLoop(JinjaLoop& loop, const JinjaArguments& arguments);
  const JinjaMacro* Define(const MacroDefinition& definition);
  Result CallMacro(const JinjaMacro& macro, JinjaArguments arguments);
  absl::Status BindParameters(const MacroDefinition& macro,
                              JinjaArguments& arguments, JinjaFrame& frame);
  absl::Status BindSpecials(const MacroDefinition& macro,
                            JinjaArguments& arguments, JinjaFrame& frame);
  Result CallValue(const JinjaValue& callee, JinjaArguments arguments);
  absl::StatusOr<JinjaArguments> EvaluateArguments(
      const CallArguments& arguments);

  // --- Expressions (evaluate.cc)
  Result Evaluate(const Expression& expression);
  // None for an expression that is absent.
  Result EvaluateOrNone(const ExpressionPtr& expression);
  Result EvaluateNode(const Literal& node);
  Result EvaluateNode(const NameReference& node);
  Result EvaluateNode(const SequenceLiteral& node);
  Result EvaluateNode(const DictLiteral& node);
  Result EvaluateNode(const Unary& node);
  Result EvaluateNode(const Binary& node);
  Result EvaluateNode(const Logical& node);
  Result EvaluateNode(const Comparison& node);
  Result EvaluateNode(const Concatenation& node);
  Result EvaluateNode(const Conditional& node);
  Result EvaluateNode(const AttributeAccess& node);
  Result EvaluateNode(const Subscript& node);
  Result EvaluateNode(const Slicing& node);
  Result EvaluateNode(const Call& node);
  Result EvaluateNode(const FilterUse& node);
  Result EvaluateNode(const TestUse& node);
  Result Lookup(int name);

  const SyntaxTree& tree_;
  JinjaRuntime& runtime_;
  Context context_;
  // Deques, because values and frames point into them.
  std::deque<JinjaFrame> frames_;
  std::vector<JinjaFrame*> free_frames_;
  std::deque<JinjaMacro> macros_;
  std::deque<JinjaLoop> loops_;
  JinjaFrame* frame_ = nullptr;
  MarkedText* out_ = nullptr;
  // The text of the filter or set block whose filter is being evaluated.
  const JinjaValue* block_text_ = nullptr;
  int depth_ = 0;
  int error_line_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_INTERPRETER_H_
