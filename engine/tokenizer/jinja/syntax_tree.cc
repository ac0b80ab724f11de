#include "engine/tokenizer/jinja/syntax_tree.h"

namespace headrace {
namespace {

using Visit = absl::FunctionRef<void(const Expression&)>;

void VisitOne(const ExpressionPtr& expression, Visit visit) {
  if (expression != nullptr) visit(*expression);
}

void VisitAll(const std::vector<ExpressionPtr>& expressions, Visit visit) {
  for (const ExpressionPtr& expression : expressions) visit(*expression);
}

void VisitArguments(const CallArguments& arguments, Visit visit) {
  VisitAll(arguments.positional, visit);
  for (const auto& [name, value] : arguments.named) visit(*value);
  VisitOne(arguments.starred, visit);
  VisitOne(arguments.double_starred, visit);
}

// One overload per kind of expression.
struct ChildVisitor {
  Visit visit;

  void operator()(const Literal&) const {}
  void operator()(const NameReference&) const {}
  void operator()(const SequenceLiteral& node) const {
    VisitAll(node.items, visit);
  }
  void operator()(const DictLiteral& node) const {
    for (const auto& [key, value] : node.items) {
      visit(*key);
      visit(*value);
    }
  }
  void operator()(const Unary& node) const { visit(*node.operand); }
  void operator()(const Binary& node) const {
    visit(*node.left);
    visit(*node.right);
  }
  void operator()(const Logical& node) const {
    visit(*node.left);
    visit(*node.right);
  }
  void operator()(const Comparison& node) const {
    visit(*node.first);
    for (const auto& [op, operand] : node.rest) visit(*operand);
  }
  void operator()(const Concatenation& node) const {
    VisitAll(node.parts, visit);
  }
  void operator()(const Conditional& node) const {
    visit(*node.condition);
    visit(*node.then);
    VisitOne(node.otherwise, visit);
  }
  void operator()(const AttributeAccess& node) const { visit(*node.object); }
  void operator()(const Subscript& node) const {
    visit(*node.object);
    visit(*node.key);
  }
  void operator()(const Slicing& node) const {
    visit(*node.object);
    VisitOne(node.start, visit);
    VisitOne(node.stop, visit);
    VisitOne(node.step, visit);
  }
  void operator()(const Call& node) const {
    visit(*node.callee);
    VisitArguments(node.arguments, visit);
  }
  void operator()(const FilterUse& node) const {
    VisitOne(node.input, visit);
    VisitArguments(node.arguments, visit);
  }
  void operator()(const TestUse& node) const {
    visit(*node.input);
    VisitArguments(node.arguments, visit);
  }
};

}  // namespace

int NameTable::Intern(std::string_view name) {
  const auto [found, is_new] = ids_.try_emplace(std::string(name), size());
  if (is_new) names_.emplace_back(name);
  return found->second;
}

int NameTable::Find(std::string_view name) const {
  const auto found = ids_.find(std::string(name));
  return found == ids_.end() ? -1 : found->second;
}

void ForEachChild(const Expression& expression, Visit visit) {
  std::visit(ChildVisitor{visit}, expression.node);
}

}  // namespace headrace
