// The values of a template: Python's, as far as templates can see them.
// Immutable but for namespaces, loops and the position of a generator, which
// belong to one rendering.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_VALUE_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/tokenizer/jinja/marked_text.h"

namespace headrace {

struct JinjaCallableRow;
struct JinjaUndefined;
struct JinjaString;
struct JinjaSequence;
struct JinjaDict;
struct JinjaCallable;
struct JinjaNamespace;
struct JinjaMacro;
class JinjaLoop;

enum class SequenceKind : uint8_t {
  kList,
  kTuple,
  kRange,
  kGenerator,  // map, select, …: read once, has no length
  kKeys,       // dict.keys()
  kValues,     // dict.values()
  kItems,      // dict.items()
  kGroup,      // groupby's pairs: a tuple with .grouper and .list
};

class JinjaValue {
 public:
  JinjaValue() = default;  // None
  static JinjaValue None(TextOrigin origin);
  static JinjaValue Bool(bool value, TextOrigin origin = TextOrigin::kTemplate);
  static JinjaValue Integer(int64_t value,
                            TextOrigin origin = TextOrigin::kTemplate);
  static JinjaValue Float(double value,
                          TextOrigin origin = TextOrigin::kTemplate);
  static JinjaValue Text(MarkedText text);
  static JinjaValue Text(std::string bytes);  // the template's
  // A string that `+` joins HTML-escaped text to (the filters safe, escape).
  static JinjaValue Markup(MarkedText text);
  // A string of the same kind as `like`.
  static JinjaValue TextLike(const JinjaValue& like, MarkedText text);
  // `message`: what to say when it is used for more than printing.
  static JinjaValue Undefined(std::string message);
  // `origin`: of the container itself, empty or not.
  static JinjaValue Sequence(SequenceKind kind, std::vector<JinjaValue> items,
                             TextOrigin origin = TextOrigin::kTemplate);
  static JinjaValue List(std::vector<JinjaValue> items);
  static JinjaValue Tuple(std::vector<JinjaValue> items);
  static JinjaValue Generator(std::vector<JinjaValue> items);
  using DictItems = std::vector<std::pair<JinjaValue, JinjaValue>>;
  // The keys are hashable and differ from each other.
  static JinjaValue Dict(DictItems items,
                         TextOrigin origin = TextOrigin::kTemplate);
  // A function, or a method bound to `self`.
  static JinjaValue Callable(const JinjaCallableRow* row, JinjaValue self);
  // These three live as long as the rendering.
  static JinjaValue Namespace(JinjaNamespace* value);
  static JinjaValue Loop(JinjaLoop* value);
  static JinjaValue Macro(const JinjaMacro* value);

  bool is_undefined() const { return undefined() != nullptr; }
  bool is_none() const { return Holds<std::monostate>(); }
  bool is_bool() const { return Holds<bool>(); }
  bool is_integer() const { return Holds<int64_t>(); }
  bool is_float() const { return Holds<double>(); }
  // bool, int or float, as Python's numbers.Number.
  bool is_number() const { return is_bool() || is_integer() || is_float(); }
  bool is_string() const { return string() != nullptr; }
  bool is_markup() const;
  bool is_sequence_kind(SequenceKind kind) const;

  // nullptr when the value is of another type.
  const JinjaUndefined* undefined() const;
  const JinjaString* string() const;
  const JinjaSequence* sequence() const;
  const JinjaDict* dict() const;
  const JinjaCallable* callable() const;
  JinjaNamespace* name_space() const;
  JinjaLoop* loop() const;
  const JinjaMacro* macro() const;

  // The value of a bool, int or float; 0 for others.
  int64_t integer() const;  // bool and int
  double number() const;
  // The text of a string; empty for others.
  const MarkedText& text() const;

  // kInput when the value or anything in it came from the request.
  TextOrigin origin() const;
  // How deep containers are nested in it; 0 for scalars.
  int depth() const { return depth_; }
  // What walking it costs, in steps: its values, and its text by 16 bytes.
  int64_t weight() const;
  // Python's name of the type: "str", "dict", …
  std::string_view type_name() const;

 private:
  // The depth, weight and origin of a container grow with what it holds.
  void Hold(const JinjaValue& item);

  template <typename T>
  bool Holds() const {
    return std::holds_alternative<T>(value_);
  }
  template <typename T>
  const T* Pointed() const {
    const auto* pointer = std::get_if<std::shared_ptr<const T>>(&value_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  // Shared because assignments and containers hold the same immutable value.
  std::variant<
      std::monostate, bool, int64_t, double,
      std::shared_ptr<const JinjaUndefined>, std::shared_ptr<const JinjaString>,
      std::shared_ptr<const JinjaSequence>, std::shared_ptr<const JinjaDict>,
      std::shared_ptr<const JinjaCallable>, JinjaNamespace*, JinjaLoop*,
      const JinjaMacro*>
      value_;
  int64_t weight_ = 1;
  int depth_ = 0;
  TextOrigin origin_ = TextOrigin::kTemplate;  // strings have their own marks
};

struct JinjaUndefined {
  std::string message;
};

struct JinjaString {
  MarkedText text;
  bool is_markup = false;
};

struct JinjaSequence {
  SequenceKind kind;
  std::vector<JinjaValue> items;
  // Items that a generator has already given out.
  mutable size_t consumed = 0;
};

struct JinjaDict {
  JinjaValue::DictItems items;

  // nullptr when there is no such key.
  const JinjaValue* Find(const JinjaValue& key) const;
  const JinjaValue* Find(std::string_view key) const;
};

struct JinjaCallable {
  const JinjaCallableRow* row;
  JinjaValue self;
};

// namespace(): the only thing a template can change in place.
struct JinjaNamespace {
  std::vector<std::pair<std::string, JinjaValue>> attributes;

  const JinjaValue* Find(std::string_view name) const;
  void Set(std::string_view name, JinjaValue value);
};

// Python's ==: numbers by value, containers by items, undefined equal to
// undefined.
bool JinjaEquals(const JinjaValue& a, const JinjaValue& b);
// Whether the value may be a key of a dict.
bool IsHashable(const JinjaValue& value);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_VALUE_H_
