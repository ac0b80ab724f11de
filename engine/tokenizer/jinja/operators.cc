#include "engine/tokenizer/jinja/operators.h"

#include <cstring>
#include <limits>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/arithmetic.h"
#include "engine/tokenizer/jinja/callable.h"
#include "engine/tokenizer/jinja/percent_format.h"
#include "engine/tokenizer/jinja/plain_text.h"

namespace headrace {
namespace {

absl::Status UnsupportedOperands(std::string_view symbol,
                                 const JinjaValue& left,
                                 const JinjaValue& right) {
  for (const JinjaValue* value : {&left, &right}) {
    if (value->is_undefined()) {
      return absl::InvalidArgumentError(value->undefined()->message);
    }
  }
  return absl::InvalidArgumentError(Concat("unsupported operand types for ",
                                           symbol, ": ", left.type_name(),
                                           " and ", right.type_name()));
}

absl::StatusOr<JinjaValue> Concatenate(JinjaBudget& budget,
                                       const JinjaValue& left,
                                       const JinjaValue& right) {
  if (left.is_string() && right.is_string()) {
    const size_t size = left.text().size() + right.text().size();
    RETURN_IF_ERROR(budget.CheckTextSize(size));
    RETURN_IF_ERROR(budget.ChargeText(size));
    if (left.is_markup() || right.is_markup()) {
      MarkedText text = EscapeHtml(left);
      text.Append(EscapeHtml(right));
      return JinjaValue::Markup(std::move(text));
    }
    MarkedText text = left.text();
    text.Append(right.text());
    return JinjaValue::Text(std::move(text));
  }
  const JinjaSequence* a = left.sequence();
  const JinjaSequence* b = right.sequence();
  if (a == nullptr || b == nullptr || a->kind != b->kind ||
      (a->kind != SequenceKind::kList && a->kind != SequenceKind::kTuple)) {
    return UnsupportedOperands("+", left, right);
  }
  RETURN_IF_ERROR(budget.ChargeItems(a->items.size() + b->items.size()));
  std::vector<JinjaValue> items = a->items;
  items.insert(items.end(), b->items.begin(), b->items.end());
  return JinjaValue::Sequence(a->kind, std::move(items));
}

absl::StatusOr<JinjaValue> Repeat(JinjaBudget& budget, const JinjaValue& what,
                                  int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (what.is_string()) {
    const size_t size = what.text().size();
    // As a double: the product may be beyond 64 bits.
    if (static_cast<double>(size) * static_cast<double>(times) >
        static_cast<double>(budget.limits().max_text_bytes)) {
      return budget.CheckTextSize(std::numeric_limits<size_t>::max());
    }
    RETURN_IF_ERROR(budget.ChargeText(size * static_cast<size_t>(times)));
    MarkedText text;
    for (int64_t i = 0; size > 0 && i < times; ++i) text.Append(what.text());
    return JinjaValue::TextLike(what, std::move(text));
  }
  const std::vector<JinjaValue>& items = what.sequence()->items;
  if (!items.empty()) {
    const int64_t most = budget.limits().max_steps;
    RETURN_IF_ERROR(budget.ChargeItems(
        static_cast<size_t>(std::min(times, most + 1)) * items.size()));
  }
  std::vector<JinjaValue> repeated;
  for (int64_t i = 0; !items.empty() && i < times; ++i) {
    repeated.insert(repeated.end(), items.begin(), items.end());
  }
  return JinjaValue::Sequence(what.sequence()->kind, std::move(repeated));
}

bool IsRepeatable(const JinjaValue& value) {
  return value.is_string() || value.is_sequence_kind(SequenceKind::kList) ||
         value.is_sequence_kind(SequenceKind::kTuple);
}

bool IsWhole(const JinjaValue& value) {
  return value.is_integer() || value.is_bool();
}

// Whether left < right. Sets are not compared, dicts have no order.
absl::StatusOr<bool> IsLess(const JinjaValue& left, const JinjaValue& right,
                            CompareOperator op) {
  if (left.is_number() && right.is_number()) {
    if (IsWhole(left) && IsWhole(right)) {
      return left.integer() < right.integer();
    }
    return left.number() < right.number();
  }
  // Byte order of UTF-8 is code point order.
  if (left.is_string() && right.is_string()) {
    return left.text().bytes() < right.text().bytes();
  }
  const JinjaSequence* a = left.sequence();
  const JinjaSequence* b = right.sequence();
  if (a == nullptr || b == nullptr || a->kind != b->kind ||
      (a->kind != SequenceKind::kList && a->kind != SequenceKind::kTuple)) {
    return UnsupportedOperands(SymbolOf(op), left, right);
  }
  for (size_t i = 0; i < a->items.size() && i < b->items.size(); ++i) {
    if (!JinjaEquals(a->items[i], b->items[i])) {
      return IsLess(a->items[i], b->items[i], op);
    }
  }
  return a->items.size() < b->items.size();
}

absl::StatusOr<bool> IsIn(JinjaBudget& budget, const JinjaValue& item,
                          const JinjaValue& container) {
  if (container.is_string()) {
    if (!item.is_string()) {
      return JinjaTypeError("'in <string>' needs a string on the left", item);
    }
    RETURN_IF_ERROR(budget.ChargeText(container.text().size()));
    return FindText(container.text().bytes(), item.text().bytes(), 0) !=
           std::string::npos;
  }
  if (const JinjaDict* dict = container.dict()) {
    RETURN_IF_ERROR(budget.ChargeSearch(dict->items.size()));
    if (!IsHashable(item))
      return JinjaTypeError("a key is no list or dict", item);
    return dict->Find(item) != nullptr;
  }
  if (const JinjaSequence* sequence = container.sequence()) {
    RETURN_IF_ERROR(budget.Charge(container.weight()));
    // Looking through a generator uses it up, up to the item found.
    size_t index =
        sequence->kind == SequenceKind::kGenerator ? sequence->consumed : 0;
    bool found = false;
    for (; !found && index < sequence->items.size(); ++index) {
      found = JinjaEquals(sequence->items[index], item);
    }
    if (sequence->kind == SequenceKind::kGenerator) sequence->consumed = index;
    return found;
  }
  if (container.is_undefined()) return false;
  return JinjaTypeError("'in' needs a container on the right", container);
}

}  // namespace

std::string_view SymbolOf(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kModulo:
      return "%";
    case BinaryOperator::kPower:
      return "**";
  }
  return "";
}

std::string_view SymbolOf(CompareOperator op) {
  switch (op) {
    case CompareOperator::kEqual:
      return "==";
    case CompareOperator::kNotEqual:
      return "!=";
    case CompareOperator::kLess:
      return "<";
    case CompareOperator::kLessOrEqual:
      return "<=";
    case CompareOperator::kGreater:
      return ">";
    case CompareOperator::kGreaterOrEqual:
      return ">=";
    case CompareOperator::kIn:
      return "in";
    case CompareOperator::kNotIn:
      return "not in";
  }
  return "";
}

bool IsTruthy(const JinjaValue& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_number()) return value.number() != 0;
  if (value.is_string()) return !value.text().empty();
  if (value.dict() != nullptr) return !value.dict()->items.empty();
  if (const JinjaSequence* sequence = value.sequence()) {
    return sequence->kind == SequenceKind::kGenerator ||
           !sequence->items.empty();
  }
  return true;
}

absl::StatusOr<JinjaValue> ApplyBinary(JinjaBudget& budget, BinaryOperator op,
                                       const JinjaValue& left,
                                       const JinjaValue& right) {
  if (left.is_number() && right.is_number()) {
    return ApplyToNumbers(op, left, right);
  }
  if (op == BinaryOperator::kAdd) return Concatenate(budget, left, right);
  if (op == BinaryOperator::kMultiply) {
    if (IsRepeatable(left) && IsWhole(right)) {
      return Repeat(budget, left, right.integer());
    }
    if (IsWhole(left) && IsRepeatable(right)) {
      return Repeat(budget, right, left.integer());
    }
  }
  if (op == BinaryOperator::kModulo && left.is_string()) {
    return PercentFormat(budget, left, right);
  }
  return UnsupportedOperands(SymbolOf(op), left, right);
}

absl::StatusOr<JinjaValue> Negate(const JinjaValue& value) {
  if (value.is_float()) {
    return JinjaValue::Float(-value.number(), value.origin());
  }
  if (!IsWhole(value)) return JinjaTypeError("- needs a number", value);
  return ApplyToNumbers(BinaryOperator::kSubtract, JinjaValue::Integer(0),
                        value);
}

absl::StatusOr<JinjaValue> Plus(const JinjaValue& value) {
  if (!value.is_number()) return JinjaTypeError("+ needs a number", value);
  if (value.is_float()) return value;
  return JinjaValue::Integer(value.integer(), value.origin());
}

absl::StatusOr<bool> ApplyCompare(JinjaBudget& budget, CompareOperator op,
                                  const JinjaValue& left,
                                  const JinjaValue& right) {
  if (op == CompareOperator::kIn || op == CompareOperator::kNotIn) {
    ASSIGN_OR_RETURN(const bool found, IsIn(budget, left, right));
    return found == (op == CompareOperator::kIn);
  }
  RETURN_IF_ERROR(budget.Charge(std::min(left.weight(), right.weight())));
  if (op == CompareOperator::kEqual) return JinjaEquals(left, right);
  if (op == CompareOperator::kNotEqual) return !JinjaEquals(left, right);
  // NaN is neither less nor greater, so each order has its own question.
  const bool is_swapped =
      op == CompareOperator::kGreater || op == CompareOperator::kGreaterOrEqual;
  const JinjaValue& a = is_swapped ? right : left;
  const JinjaValue& b = is_swapped ? left : right;
  ASSIGN_OR_RETURN(const bool is_less, IsLess(a, b, op));
  if (is_less || op == CompareOperator::kLess ||
      op == CompareOperator::kGreater) {
    return is_less;
  }
  return JinjaEquals(a, b);
}

MarkedText EscapeHtml(const JinjaValue& string) {
  if (string.is_markup()) return string.text();
  MarkedText escaped;
  const std::string_view bytes = string.text().bytes();
  for (const MarkedText::Run& run : string.text().runs()) {
    for (size_t i = run.begin; i < run.end; ++i) {
      switch (bytes[i]) {
        case '&':
          escaped.Append("&amp;", run.origin);
          break;
        case '<':
          escaped.Append("&lt;", run.origin);
          break;
        case '>':
          escaped.Append("&gt;", run.origin);
          break;
        case '\'':
          escaped.Append("&#39;", run.origin);
          break;
        case '"':
          escaped.Append("&#34;", run.origin);
          break;
        default:
          escaped.Append(bytes.substr(i, 1), run.origin);
      }
    }
  }
  return escaped;
}

size_t FindText(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string::npos;
  // memmem is linear; std::string_view::find is not.
  const void* found = memmem(text.data() + from, text.size() - from,
                             needle.data(), needle.size());
  if (found == nullptr) return std::string::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace headrace
