#include "engine/tokenizer/jinja/scopes.h"

#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace headrace {
namespace {

// Walks one region in the order of the source, then the regions inside it,
// which need to know everything that this one names.
class ScopeAnalyzer {
 public:
  ScopeAnalyzer(const NameTable& names, const ScopeAnalyzer* outer,
                Scope* scope)
      : names_(names), outer_(outer), scope_(scope) {}

  void Declare(int name) {
    if (name >= 0) known_.insert(name);
  }
  void Declare(const Target& target) {
    if (target.name >= 0) Declare(target.name);
    for (const Target& item : target.items) Declare(item);
  }

  void Read(const ExpressionPtr& expression) {
    if (expression != nullptr) Read(*expression);
  }

  void Walk(Body& body) {
    for (Statement& statement : body) {
      std::visit([this](auto& node) { Visit(node); }, statement.node);
    }
  }

  // Call last.
  void Finish() {
    for (const std::function<void()>& inner : inner_) inner();
  }

 private:
  bool IsKnown(int name) const {
    return known_.contains(name) ||
           (outer_ != nullptr && outer_->IsKnown(name));
  }

  void Read(const Expression& expression) {
    if (const auto* name = std::get_if<NameReference>(&expression.node)) {
      if (!IsKnown(name->name)) known_.insert(name->name);
    }
    ForEachChild(expression, [this](const Expression& child) { Read(child); });
  }

  void Set(int name) {
    // Inside of an if, the name may not be set after all.
    if (!IsKnown(name) && conditions_ == 0) {
      scope_->starts_undefined.push_back(name);
    }
    known_.insert(name);
  }

  void Set(const Target& target) {
    for (const Target& item : target.items) Set(item);
    if (target.name < 0) return;
    if (!target.attribute.has_value()) {
      Set(target.name);
    } else if (!IsKnown(target.name)) {
      known_.insert(target.name);
    }
  }

  // Has `walk` done in a region inside this one, once this one is complete.
  void Enter(Scope& scope, std::function<void(ScopeAnalyzer&)> walk) {
    inner_.push_back([this, &scope, walk = std::move(walk)] {
      ScopeAnalyzer inner(names_, this, &scope);
      walk(inner);
      inner.Finish();
    });
  }

  void EnterMacro(MacroDefinition& macro) {
    Enter(macro.scope, [&macro](ScopeAnalyzer& inner) {
      for (int parameter : macro.parameters) inner.Declare(parameter);
      for (const char* special : {"caller", "varargs", "kwargs"}) {
        inner.Declare(inner.names_.Find(special));
      }
      for (const ExpressionPtr& value : macro.defaults) inner.Read(value);
      inner.Walk(macro.body);
    });
  }

  void Visit(TextOutput&) {}
  void Visit(LoopControl&) {}
  void Visit(ValueOutput& node) { Read(node.value); }
  void Visit(IfBlock& node) {
    Read(node.branches.front().first);
    ++conditions_;
    for (auto& [condition, body] : node.branches) {
      Read(condition);
      Walk(body);
    }
    --conditions_;
  }
  void Visit(ForBlock& node) {
    Read(node.iterable);
    Enter(node.body_scope, [&node](ScopeAnalyzer& inner) {
      inner.Declare(node.target);
      inner.Declare(inner.names_.Find("loop"));
      inner.Walk(node.body);
    });
    Enter(node.otherwise_scope,
          [&node](ScopeAnalyzer& inner) { inner.Walk(node.otherwise); });
  }
  void Visit(SetStatement& node) {
    Read(node.value);
    Set(node.target);
  }
  void Visit(SetBlock& node) {
    Set(node.target);
    Enter(node.scope, [&node](ScopeAnalyzer& inner) { inner.Walk(node.body); });
  }
  void Visit(WithBlock& node) {
    for (const auto& [target, value] : node.assignments) Read(value);
    Enter(node.scope, [&node](ScopeAnalyzer& inner) {
      for (const auto& [target, value] : node.assignments) {
        inner.Declare(target);
      }
      inner.Walk(node.body);
    });
  }
  void Visit(FilterBlock& node) {
    Read(node.filter);
    Enter(node.scope, [&node](ScopeAnalyzer& inner) {
      inner.Walk(node.body);
      inner.Read(node.filter);
    });
  }
  void Visit(MacroStatement& node) {
    Set(node.macro->name_id);
    EnterMacro(*node.macro);
  }
  void Visit(CallBlock& node) {
    Read(node.call);
    EnterMacro(*node.caller);
  }
  void Visit(GenerationBlock& node) {
    Enter(node.scope, [&node](ScopeAnalyzer& inner) { inner.Walk(node.body); });
  }

  const NameTable& names_;
  const ScopeAnalyzer* outer_;
  Scope* scope_;
  // Names that this region reads, sets or declares, as far as they are its
  // own.
  absl::flat_hash_set<int> known_;
  int conditions_ = 0;
  std::vector<std::function<void()>> inner_;
};

}  // namespace

void AnalyzeScopes(SyntaxTree& tree) {
  ScopeAnalyzer analyzer(tree.names, nullptr, &tree.scope);
  analyzer.Walk(tree.body);
  analyzer.Finish();
}

}  // namespace headrace
