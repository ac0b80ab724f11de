#include "engine/tokenizer/jinja/value.h"

#include <algorithm>

namespace headrace {
namespace {

std::string_view NameOfKind(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::kList:
      return "list";
    case SequenceKind::kTuple:
      return "tuple";
    case SequenceKind::kRange:
      return "range";
    case SequenceKind::kGenerator:
      return "generator";
    case SequenceKind::kKeys:
      return "dict_keys";
    case SequenceKind::kValues:
      return "dict_values";
    case SequenceKind::kItems:
      return "dict_items";
    case SequenceKind::kGroup:
      return "_GroupTuple";
  }
  return "";
}

// Lists equal lists, tuples tuples (a group is a tuple), ranges ranges.
bool AreComparable(SequenceKind a, SequenceKind b) {
  const auto simplify = [](SequenceKind kind) {
    return kind == SequenceKind::kGroup ? SequenceKind::kTuple : kind;
  };
  a = simplify(a);
  return a == simplify(b) && a != SequenceKind::kGenerator &&
         a != SequenceKind::kValues;
}

bool SequencesEqual(const JinjaSequence& a, const JinjaSequence& b) {
  if (&a == &b) return true;
  return AreComparable(a.kind, b.kind) &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                    b.items.end(), JinjaEquals);
}

bool DictsEqual(const JinjaDict& a, const JinjaDict& b) {
  if (&a == &b) return true;
  if (a.items.size() != b.items.size()) return false;
  return std::all_of(a.items.begin(), a.items.end(), [&b](const auto& item) {
    const JinjaValue* other = b.Find(item.first);
    return other != nullptr && JinjaEquals(item.second, *other);
  });
}

}  // namespace

JinjaValue JinjaValue::None(TextOrigin origin) {
  JinjaValue result;
  result.origin_ = origin;
  return result;
}

JinjaValue JinjaValue::Bool(bool value, TextOrigin origin) {
  JinjaValue result;
  result.value_ = value;
  result.origin_ = origin;
  return result;
}

JinjaValue JinjaValue::Integer(int64_t value, TextOrigin origin) {
  JinjaValue result;
  result.value_ = value;
  result.origin_ = origin;
  return result;
}

JinjaValue JinjaValue::Float(double value, TextOrigin origin) {
  JinjaValue result;
  result.value_ = value;
  result.origin_ = origin;
  return result;
}

JinjaValue JinjaValue::Text(MarkedText text) {
  JinjaValue result;
  result.value_ = std::make_shared<const JinjaString>(
      JinjaString{std::move(text), /*is_markup=*/false});
  return result;
}

JinjaValue JinjaValue::Text(std::string bytes) {
  return Text(MarkedText(std::move(bytes), TextOrigin::kTemplate));
}

JinjaValue JinjaValue::Markup(MarkedText text) {
  JinjaValue result;
  result.value_ = std::make_shared<const JinjaString>(
      JinjaString{std::move(text), /*is_markup=*/true});
  return result;
}

JinjaValue JinjaValue::TextLike(const JinjaValue& like, MarkedText text) {
  return like.is_markup() ? Markup(std::move(text)) : Text(std::move(text));
}

JinjaValue JinjaValue::Undefined(std::string message) {
  JinjaValue result;
  result.value_ = std::make_shared<const JinjaUndefined>(
      JinjaUndefined{std::move(message)});
  return result;
}

void JinjaValue::Hold(const JinjaValue& item) {
  // Containers may share items, so the weight can grow beyond any memory.
  constexpr int64_t kMaxWeight = int64_t{1} << 48;
  weight_ = std::min(kMaxWeight, weight_ + item.weight());
  depth_ = std::max(depth_, item.depth() + 1);
  origin_ = MergeOrigins(origin_, item.origin());
}

JinjaValue JinjaValue::Sequence(SequenceKind kind,
                                std::vector<JinjaValue> items,
                                TextOrigin origin) {
  JinjaValue result;
  result.depth_ = 1;
  result.origin_ = origin;
  for (const JinjaValue& item : items) result.Hold(item);
  result.value_ = std::make_shared<const JinjaSequence>(
      JinjaSequence{kind, std::move(items)});
  return result;
}

JinjaValue JinjaValue::List(std::vector<JinjaValue> items) {
  return Sequence(SequenceKind::kList, std::move(items));
}

JinjaValue JinjaValue::Tuple(std::vector<JinjaValue> items) {
  return Sequence(SequenceKind::kTuple, std::move(items));
}

JinjaValue JinjaValue::Generator(std::vector<JinjaValue> items) {
  return Sequence(SequenceKind::kGenerator, std::move(items));
}

JinjaValue JinjaValue::Dict(DictItems items, TextOrigin origin) {
  JinjaValue result;
  result.depth_ = 1;
  result.origin_ = origin;
  for (const auto& [key, value] : items) {
    result.Hold(key);
    result.Hold(value);
  }
  result.value_ =
      std::make_shared<const JinjaDict>(JinjaDict{std::move(items)});
  return result;
}

JinjaValue JinjaValue::Callable(const JinjaCallableRow* row, JinjaValue self) {
  JinjaValue result;
  result.Hold(self);
  result.value_ = std::make_shared<const JinjaCallable>(
      JinjaCallable{row, std::move(self)});
  return result;
}

JinjaValue JinjaValue::Namespace(JinjaNamespace* value) {
  JinjaValue result;
  result.value_ = value;
  return result;
}

JinjaValue JinjaValue::Loop(JinjaLoop* value) {
  JinjaValue result;
  result.value_ = value;
  return result;
}

JinjaValue JinjaValue::Macro(const JinjaMacro* value) {
  JinjaValue result;
  result.value_ = value;
  return result;
}

bool JinjaValue::is_markup() const {
  return string() != nullptr && string()->is_markup;
}

bool JinjaValue::is_sequence_kind(SequenceKind kind) const {
  return sequence() != nullptr && sequence()->kind == kind;
}

const JinjaUndefined* JinjaValue::undefined() const {
  return Pointed<JinjaUndefined>();
}
const JinjaString* JinjaValue::string() const { return Pointed<JinjaString>(); }
const JinjaSequence* JinjaValue::sequence() const {
  return Pointed<JinjaSequence>();
}
const JinjaDict* JinjaValue::dict() const { return Pointed<JinjaDict>(); }
const JinjaCallable* JinjaValue::callable() const {
  return Pointed<JinjaCallable>();
}

JinjaNamespace* JinjaValue::name_space() const {
  auto* const* pointer = std::get_if<JinjaNamespace*>(&value_);
  return pointer == nullptr ? nullptr : *pointer;
}

JinjaLoop* JinjaValue::loop() const {
  auto* const* pointer = std::get_if<JinjaLoop*>(&value_);
  return pointer == nullptr ? nullptr : *pointer;
}

const JinjaMacro* JinjaValue::macro() const {
  const auto* pointer = std::get_if<const JinjaMacro*>(&value_);
  return pointer == nullptr ? nullptr : *pointer;
}

int64_t JinjaValue::integer() const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value ? 1 : 0;
  const auto* value = std::get_if<int64_t>(&value_);
  return value == nullptr ? 0 : *value;
}

double JinjaValue::number() const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  return static_cast<double>(integer());
}

const MarkedText& JinjaValue::text() const {
  static const MarkedText kEmpty;
  return string() == nullptr ? kEmpty : string()->text;
}

TextOrigin JinjaValue::origin() const {
  return is_string() ? string()->text.origin() : origin_;
}

int64_t JinjaValue::weight() const {
  return weight_ + static_cast<int64_t>(text().size()) / 16;
}

std::string_view JinjaValue::type_name() const {
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_integer()) return "int";
  if (is_float()) return "float";
  if (is_undefined()) return "Undefined";
  if (is_string()) return is_markup() ? "Markup" : "str";
  if (sequence() != nullptr) return NameOfKind(sequence()->kind);
  if (dict() != nullptr) return "dict";
  if (name_space() != nullptr) return "Namespace";
  if (loop() != nullptr) return "LoopContext";
  return macro() != nullptr ? "Macro" : "builtin_function_or_method";
}

const JinjaValue* JinjaDict::Find(const JinjaValue& key) const {
  for (const auto& [candidate, value] : items) {
    if (JinjaEquals(candidate, key)) return &value;
  }
  return nullptr;
}

const JinjaValue* JinjaDict::Find(std::string_view key) const {
  for (const auto& [candidate, value] : items) {
    if (candidate.is_string() && candidate.text().bytes() == key) {
      return &value;
    }
  }
  return nullptr;
}

const JinjaValue* JinjaNamespace::Find(std::string_view name) const {
  for (const auto& [candidate, value] : attributes) {
    if (candidate == name) return &value;
  }
  return nullptr;
}

void JinjaNamespace::Set(std::string_view name, JinjaValue value) {
  for (auto& [candidate, old] : attributes) {
    if (candidate == name) {
      old = std::move(value);
      return;
    }
  }
  attributes.emplace_back(name, std::move(value));
}

bool JinjaEquals(const JinjaValue& a, const JinjaValue& b) {
  if (a.is_string() || b.is_string()) {
    return a.is_string() && b.is_string() &&
           a.text().bytes() == b.text().bytes();
  }
  if (a.is_number() && b.is_number()) {
    if (!a.is_float() && !b.is_float()) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    return SequencesEqual(*a.sequence(), *b.sequence());
  }
  if (a.dict() != nullptr && b.dict() != nullptr) {
    return DictsEqual(*a.dict(), *b.dict());
  }
  if (a.is_none() || a.is_undefined()) {
    return a.is_none() ? b.is_none() : b.is_undefined();
  }
  if (a.name_space() != nullptr) return a.name_space() == b.name_space();
  if (a.loop() != nullptr) return a.loop() == b.loop();
  return a.macro() != nullptr && a.macro() == b.macro();
}

bool IsHashable(const JinjaValue& value) {
  if (value.dict() != nullptr) return false;
  const JinjaSequence* sequence = value.sequence();
  if (sequence == nullptr) return true;
  return (sequence->kind == SequenceKind::kTuple ||
          sequence->kind == SequenceKind::kGroup) &&
         std::all_of(sequence->items.begin(), sequence->items.end(),
                     IsHashable);
}

}  // namespace headrace
