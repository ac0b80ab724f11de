#include "engine/tokenizer/jinja/callable.h"

#include <algorithm>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/plain_text.h"

namespace headrace {
namespace {

struct Parameter {
  std::string_view name;
  bool is_optional;
};

struct Signature {
  std::vector<Parameter> parameters;
  bool takes_positional = false;
  bool takes_named = false;
};

Signature ParseSignature(std::string_view text) {
  Signature signature;
  for (std::string_view word : SplitAt(text, ' ')) {
    if (word.empty()) continue;  // no parameters at all
    if (word == "*") {
      signature.takes_positional = true;
    } else if (word == "**") {
      signature.takes_named = true;
    } else if (word.ends_with('?')) {
      word.remove_suffix(1);
      signature.parameters.push_back({word, /*is_optional=*/true});
    } else {
      signature.parameters.push_back({word, /*is_optional=*/false});
    }
  }
  return signature;
}

absl::Status BindNamed(const Signature& signature, JinjaArguments& arguments,
                       JinjaCall& call) {
  for (auto& [name, value] : arguments.named) {
    const auto found = std::find_if(
        signature.parameters.begin(), signature.parameters.end(),
        [&name](const Parameter& parameter) { return parameter.name == name; });
    if (found != signature.parameters.end()) {
      auto& slot = call.bound[found - signature.parameters.begin()];
      if (slot.has_value()) {
        return absl::InvalidArgumentError(Concat(
            call.row.name, "() got two values for argument '", name, "'"));
      }
      slot = std::move(value);
    } else if (signature.takes_named) {
      call.rest.named.emplace_back(name, std::move(value));
    } else {
      return absl::InvalidArgumentError(
          Concat(call.row.name, "() has no argument named '", name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status Bind(JinjaArguments arguments, JinjaCall& call) {
  const Signature signature = ParseSignature(call.row.parameters);
  call.bound.resize(signature.parameters.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < call.bound.size()) {
      call.bound[i] = std::move(arguments.positional[i]);
    } else if (signature.takes_positional) {
      call.rest.positional.push_back(std::move(arguments.positional[i]));
    } else {
      return absl::InvalidArgumentError(
          Concat(call.row.name, "() takes at most ", call.bound.size(),
                 " arguments, but got ", arguments.positional.size()));
    }
  }
  RETURN_IF_ERROR(BindNamed(signature, arguments, call));
  for (size_t i = 0; i < call.bound.size(); ++i) {
    if (!signature.parameters[i].is_optional && !call.bound[i].has_value()) {
      return absl::InvalidArgumentError(
          Concat(call.row.name, "() needs the argument '",
                 signature.parameters[i].name, "'"));
    }
  }
  return absl::OkStatus();
}

// Pays for a value that a function has made.
absl::Status ChargeResult(JinjaBudget& budget, const JinjaValue& value) {
  if (value.sequence() != nullptr) {
    return budget.ChargeItems(value.sequence()->items.size());
  }
  if (value.dict() != nullptr) {
    return budget.ChargeItems(value.dict()->items.size());
  }
  RETURN_IF_ERROR(budget.CheckTextSize(value.text().size()));
  return budget.ChargeText(value.text().size());
}

}  // namespace

const JinjaValue* JinjaCall::Argument(size_t index) const {
  return bound[index].has_value() ? &*bound[index] : nullptr;
}

const JinjaValue* JinjaCall::ArgumentOrNone(size_t index) const {
  const JinjaValue* value = Argument(index);
  return value == nullptr || value->is_none() ? nullptr : value;
}

absl::StatusOr<int64_t> JinjaCall::Integer(size_t index,
                                           int64_t otherwise) const {
  const JinjaValue* value = Argument(index);
  if (value == nullptr) return otherwise;
  if (value->is_integer() || value->is_bool()) return value->integer();
  return JinjaTypeError(Concat(row.name, "() needs an integer"), *value);
}

absl::StatusOr<MarkedText> JinjaCall::Text(size_t index,
                                           MarkedText otherwise) const {
  const JinjaValue* value = Argument(index);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->text();
  return JinjaTypeError(Concat(row.name, "() needs a string"), *value);
}

bool JinjaCall::Truth(size_t index, bool otherwise) const {
  const JinjaValue* value = Argument(index);
  return value == nullptr ? otherwise : IsTruthy(*value);
}

const JinjaCallableRow* FindRow(std::span<const JinjaCallableRow> rows,
                                std::string_view name) {
  const auto found = std::find_if(
      rows.begin(), rows.end(),
      [name](const JinjaCallableRow& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

absl::StatusOr<JinjaValue> CallRow(JinjaRuntime& runtime,
                                   const JinjaCallableRow& row,
                                   const JinjaValue& self,
                                   JinjaArguments arguments) {
  size_t bytes = self.text().size();
  for (const JinjaValue& value : arguments.positional) {
    bytes += value.text().size();
  }
  RETURN_IF_ERROR(runtime.budget.ChargeText(bytes));
  ASSIGN_OR_RETURN(JinjaValue result,
                   CallTest(runtime, row, self, std::move(arguments)));
  RETURN_IF_ERROR(ChargeResult(runtime.budget, result));
  return result;
}

absl::StatusOr<JinjaValue> CallTest(JinjaRuntime& runtime,
                                    const JinjaCallableRow& row,
                                    const JinjaValue& self,
                                    JinjaArguments arguments) {
  JinjaCall call = {runtime, row, self, {}, {}};
  RETURN_IF_ERROR(Bind(std::move(arguments), call));
  return row.function(call);
}

absl::Status JinjaTypeError(std::string_view what, const JinjaValue& value) {
  if (const JinjaUndefined* undefined = value.undefined()) {
    return absl::InvalidArgumentError(undefined->message);
  }
  return absl::InvalidArgumentError(
      Concat(what, ", but got a value of type ", value.type_name()));
}

}  // namespace headrace
