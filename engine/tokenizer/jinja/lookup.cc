#include "engine/tokenizer/jinja/lookup.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/callable.h"
#include "engine/tokenizer/jinja/loop.h"
#include "engine/tokenizer/jinja/methods.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

std::string Describe(const JinjaValue& object) {
  return object.is_none() ? "None" : Concat(object.type_name(), " object");
}

JinjaValue NoAttribute(const JinjaValue& object, std::string_view name) {
  return JinjaValue::Undefined(
      Concat("'", Describe(object), "' has no attribute '", name, "'"));
}

absl::StatusOr<JinjaValue> BindMethod(const JinjaValue& object,
                                      const JinjaCallableRow& row) {
  if (row.function == nullptr) {
    return absl::InvalidArgumentError(Concat("the method ", row.name, "() of ",
                                             Describe(object),
                                             " may not be used in a template"));
  }
  return JinjaValue::Callable(&row, object);
}

// A method, or an attribute that is no item; nullopt when there is none.
absl::StatusOr<std::optional<JinjaValue>> FindAttribute(
    JinjaBudget& budget, const JinjaValue& object, std::string_view name) {
  if (object.is_undefined()) {
    return absl::InvalidArgumentError(object.undefined()->message);
  }
  if (const JinjaCallableRow* row = FindMethod(object, name)) {
    return BindMethod(object, *row);
  }
  if (object.loop() != nullptr) return object.loop()->Attribute(name);
  if (object.name_space() != nullptr && !name.starts_with('_')) {
    RETURN_IF_ERROR(
        budget.ChargeSearch(object.name_space()->attributes.size()));
    const JinjaValue* value = object.name_space()->Find(name);
    if (value != nullptr) return *value;
  }
  if (object.is_sequence_kind(SequenceKind::kGroup)) {
    if (name == "grouper") return object.sequence()->items[0];
    if (name == "list") return object.sequence()->items[1];
  }
  return std::nullopt;
}

// Python objects have hidden attributes with such names; nothing here has, and
// asking for one is refused rather than answered with undefined.
absl::StatusOr<JinjaValue> MissingAttribute(const JinjaValue& object,
                                            std::string_view name) {
  const std::string_view hidden = object.dict() != nullptr ? "__" : "_";
  if (!name.starts_with(hidden)) return NoAttribute(object, name);
  return absl::InvalidArgumentError(Concat("access to the attribute '", name,
                                           "' of '", Describe(object),
                                           "' is refused"));
}

absl::StatusOr<const JinjaValue*> FindInDict(JinjaBudget& budget,
                                             const JinjaDict& dict,
                                             const JinjaValue& key) {
  RETURN_IF_ERROR(budget.ChargeSearch(dict.items.size()));
  if (key.is_string()) return dict.Find(key.text().bytes());
  return IsHashable(key) ? dict.Find(key) : nullptr;
}

bool IsSubscriptable(const JinjaSequence& sequence) {
  return sequence.kind == SequenceKind::kList ||
         sequence.kind == SequenceKind::kTuple ||
         sequence.kind == SequenceKind::kRange ||
         sequence.kind == SequenceKind::kGroup;
}

// From Python's index, negative ones counting from the end.
std::optional<size_t> ToOffset(int64_t index, size_t length) {
  const auto signed_length = static_cast<int64_t>(length);
  if (index < 0) index += signed_length;
  if (index < 0 || index >= signed_length) return std::nullopt;
  return static_cast<size_t>(index);
}

JinjaValue NoElement(const JinjaValue& object, std::string_view key) {
  return JinjaValue::Undefined(
      Concat(Describe(object), " has no element ", key));
}

absl::StatusOr<JinjaValue> GetByIndex(JinjaBudget& budget,
                                      const JinjaValue& object, int64_t index) {
  const JinjaSequence* sequence = object.sequence();
  if (sequence != nullptr && IsSubscriptable(*sequence)) {
    const auto offset = ToOffset(index, sequence->items.size());
    if (offset.has_value()) return sequence->items[*offset];
  } else if (object.is_string()) {
    const std::string_view bytes = object.text().bytes();
    RETURN_IF_ERROR(budget.ChargeText(bytes.size()));
    const auto offset = ToOffset(index, CountCodePoints(bytes));
    if (offset.has_value()) {
      const size_t begin = OffsetOfCodePoint(bytes, *offset);
      const size_t end = begin + CodePointAt(bytes, begin).length;
      return JinjaValue::TextLike(object, object.text().Slice(begin, end));
    }
  }
  return NoElement(object, std::to_string(index));
}

// Bounds as Python's slice.indices() makes them: `count` items from `start`,
// `step` apart.
struct SliceIndices {
  int64_t start;
  int64_t step;
  int64_t count;
};

absl::StatusOr<int64_t> SliceBound(const JinjaValue& bound, int64_t otherwise) {
  if (bound.is_none()) return otherwise;
  if (bound.is_integer() || bound.is_bool()) return bound.integer();
  return JinjaTypeError("a slice needs integers", bound);
}

absl::StatusOr<SliceIndices> ToIndices(const SliceBounds& bounds,
                                       int64_t length) {
  ASSIGN_OR_RETURN(int64_t step, SliceBound(bounds.step, 1));
  if (step == 0) return absl::InvalidArgumentError("slice step cannot be zero");
  // Its negation must exist.
  step = std::max(step, -std::numeric_limits<int64_t>::max());
  const int64_t lowest = step < 0 ? -1 : 0;
  const int64_t highest = step < 0 ? length - 1 : length;
  const auto clamp = [=](int64_t index) {
    if (index < 0) index = index < -length ? lowest : index + length;
    return std::clamp(index, lowest, highest);
  };
  ASSIGN_OR_RETURN(int64_t start, SliceBound(bounds.start, 0));
  ASSIGN_OR_RETURN(int64_t stop, SliceBound(bounds.stop, 0));
  start = bounds.start.is_none() ? (step < 0 ? highest : lowest) : clamp(start);
  stop = bounds.stop.is_none() ? (step < 0 ? lowest : highest) : clamp(stop);
  const int64_t distance = step < 0 ? start - stop : stop - start;
  const int64_t stride = step < 0 ? -step : step;
  const int64_t count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  return SliceIndices{start, step, count};
}

MarkedText SliceText(const MarkedText& text, const SliceIndices& indices) {
  const std::string_view bytes = text.bytes();
  if (indices.count == 0) return MarkedText();
  if (indices.step == 1) {
    const size_t begin =
        OffsetOfCodePoint(bytes, static_cast<size_t>(indices.start));
    const size_t length = OffsetOfCodePoint(bytes.substr(begin),
                                            static_cast<size_t>(indices.count));
    return text.Slice(begin, begin + length);
  }
  std::vector<size_t> offsets;
  for (size_t i = 0; i < bytes.size(); i += CodePointAt(bytes, i).length) {
    offsets.push_back(i);
  }
  MarkedText out;
  for (int64_t i = 0; i < indices.count; ++i) {
    const size_t begin =
        offsets[static_cast<size_t>(indices.start + i * indices.step)];
    out.AppendSlice(text, begin, begin + CodePointAt(bytes, begin).length);
  }
  return out;
}

}  // namespace

absl::StatusOr<JinjaValue> GetAttribute(JinjaBudget& budget,
                                        const JinjaValue& object,
                                        std::string_view name) {
  ASSIGN_OR_RETURN(std::optional<JinjaValue> attribute,
                   FindAttribute(budget, object, name));
  if (attribute.has_value()) return *std::move(attribute);
  if (const JinjaDict* dict = object.dict()) {
    RETURN_IF_ERROR(budget.ChargeSearch(dict->items.size()));
    const JinjaValue* item = dict->Find(name);
    if (item != nullptr) return *item;
  }
  return MissingAttribute(object, name);
}

absl::StatusOr<JinjaValue> GetAttributeOnly(JinjaBudget& budget,
                                            const JinjaValue& object,
                                            std::string_view name) {
  ASSIGN_OR_RETURN(std::optional<JinjaValue> attribute,
                   FindAttribute(budget, object, name));
  if (attribute.has_value()) return *std::move(attribute);
  return MissingAttribute(object, name);
}

absl::StatusOr<JinjaValue> GetItem(JinjaBudget& budget,
                                   const JinjaValue& object,
                                   const JinjaValue& key) {
  if (object.is_undefined()) {
    return absl::InvalidArgumentError(object.undefined()->message);
  }
  if (const JinjaDict* dict = object.dict()) {
    ASSIGN_OR_RETURN(const JinjaValue* item, FindInDict(budget, *dict, key));
    if (item != nullptr) return *item;
  } else if (key.is_integer() || key.is_bool()) {
    return GetByIndex(budget, object, key.integer());
  }
  if (key.is_string()) {
    const std::string& name = key.text().bytes();
    ASSIGN_OR_RETURN(std::optional<JinjaValue> attribute,
                     FindAttribute(budget, object, name));
    if (attribute.has_value()) return *std::move(attribute);
    return MissingAttribute(object, name);
  }
  return NoElement(object, key.is_integer()
                               ? std::to_string(key.integer())
                               : Concat("of type ", key.type_name()));
}

absl::StatusOr<JinjaValue> GetSlice(JinjaBudget& budget,
                                    const JinjaValue& object,
                                    const SliceBounds& bounds) {
  const JinjaSequence* sequence = object.sequence();
  if (object.is_string()) {
    const MarkedText& text = object.text();
    RETURN_IF_ERROR(budget.ChargeText(text.size()));
    ASSIGN_OR_RETURN(
        const SliceIndices indices,
        ToIndices(bounds, static_cast<int64_t>(CountCodePoints(text.bytes()))));
    MarkedText slice = SliceText(text, indices);
    return JinjaValue::TextLike(object, std::move(slice));
  }
  if (sequence == nullptr || !IsSubscriptable(*sequence)) {
    return JinjaTypeError("a slice needs a string, list or tuple", object);
  }
  ASSIGN_OR_RETURN(
      const SliceIndices indices,
      ToIndices(bounds, static_cast<int64_t>(sequence->items.size())));
  RETURN_IF_ERROR(budget.ChargeItems(static_cast<size_t>(indices.count)));
  std::vector<JinjaValue> items;
  for (int64_t i = 0; i < indices.count; ++i) {
    items.push_back(
        sequence->items[static_cast<size_t>(indices.start + i * indices.step)]);
  }
  const bool is_group = sequence->kind == SequenceKind::kGroup;
  return JinjaValue::Sequence(is_group ? SequenceKind::kTuple : sequence->kind,
                              std::move(items));
}

absl::StatusOr<std::vector<JinjaValue>> ItemsOf(JinjaBudget& budget,
                                                const JinjaValue& value) {
  std::vector<JinjaValue> items;
  if (const JinjaSequence* sequence = value.sequence()) {
    RETURN_IF_ERROR(budget.ChargeItems(sequence->items.size()));
    if (sequence->kind != SequenceKind::kGenerator) return sequence->items;
    items.assign(
        sequence->items.begin() + static_cast<int64_t>(sequence->consumed),
        sequence->items.end());
    sequence->consumed = sequence->items.size();
  } else if (const JinjaDict* dict = value.dict()) {
    RETURN_IF_ERROR(budget.ChargeItems(dict->items.size()));
    for (const auto& [key, item] : dict->items) items.push_back(key);
  } else if (value.is_string()) {
    const std::string_view bytes = value.text().bytes();
    RETURN_IF_ERROR(budget.ChargeParts(bytes.size()));
    for (size_t i = 0; i < bytes.size();) {
      const size_t end = i + CodePointAt(bytes, i).length;
      items.push_back(JinjaValue::Text(value.text().Slice(i, end)));
      i = end;
    }
  } else if (!value.is_undefined()) {
    return JinjaTypeError("iteration needs a list, dict or string", value);
  }
  return items;
}

bool IsIterable(const JinjaValue& value) {
  return value.sequence() != nullptr || value.dict() != nullptr ||
         value.is_string() || value.is_undefined();
}

std::optional<int64_t> LengthOf(const JinjaValue& value) {
  if (value.is_string()) {
    return static_cast<int64_t>(CountCodePoints(value.text().bytes()));
  }
  if (value.dict() != nullptr) {
    return static_cast<int64_t>(value.dict()->items.size());
  }
  if (value.sequence() != nullptr &&
      !value.is_sequence_kind(SequenceKind::kGenerator)) {
    return static_cast<int64_t>(value.sequence()->items.size());
  }
  if (value.is_undefined()) return 0;
  return std::nullopt;
}

}  // namespace headrace
