#include "engine/weights/gguf_metadata.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/weights/file_error.h"
#include "engine/weights/gguf_cursor.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxKeyBytes = 65535;        // docs/gguf.md
constexpr uint64_t kMaxStringBytes = 1u << 28;  // ours: 256 MiB
constexpr uint64_t kMaxValues = 1u << 22;       // ours: of all keys together
constexpr int kMaxArrayDepth = 4;               // ours; ggml allows 1

enum class ValueType : uint8_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
constexpr uint32_t kLastValueType = 12;

class MetadataParser {
 public:
  explicit MetadataParser(GgufCursor& cursor) : cursor_(cursor) {}

  absl::StatusOr<Json> Parse(uint64_t num_keys) {
    std::vector<std::pair<std::string, Json>> pairs;
    for (uint64_t i = 0; i < num_keys; ++i) {
      cursor_.set_subject(absl::StrFormat("key %d of %d:", i + 1, num_keys));
      const uint64_t offset = cursor_.offset();
      ASSIGN_OR_RETURN(const std::string_view key,
                       cursor_.TakeString("name", kMaxKeyBytes));
      if (key.empty()) return cursor_.ErrorAt(offset, "the name is empty");
      cursor_.set_subject(absl::StrFormat("key %s", Quoted(key)));
      ASSIGN_OR_RETURN(const ValueType type, TakeValueType());
      ASSIGN_OR_RETURN(Json value, TakeValue(type));
      pairs.emplace_back(key, std::move(value));
    }
    cursor_.set_subject("");
    RETURN_IF_ERROR(CheckKeysAreUnique(pairs));
    // Not operator[]: that searches the object for every key.
    Json metadata = Json::object();
    auto& object = metadata.get_ref<Json::object_t&>();
    object.reserve(pairs.size());
    for (auto& [key, value] : pairs) {
      object.emplace_back(std::move(key), std::move(value));
    }
    return metadata;
  }

 private:
  absl::Status CheckKeysAreUnique(
      const std::vector<std::pair<std::string, Json>>& pairs) const {
    std::vector<std::string_view> keys;
    for (const auto& pair : pairs) keys.push_back(pair.first);
    std::sort(keys.begin(), keys.end());
    const auto twin = std::adjacent_find(keys.begin(), keys.end());
    if (twin == keys.end()) return absl::OkStatus();
    return FileError(cursor_.file_name(),
                     absl::StrFormat("key %s is there twice", Quoted(*twin)));
  }

  absl::StatusOr<ValueType> TakeValueType() {
    const uint64_t offset = cursor_.offset();
    ASSIGN_OR_RETURN(const uint32_t type, cursor_.Take<uint32_t>("value type"));
    if (type > kLastValueType) {
      return cursor_.ErrorAt(
          offset, absl::StrFormat("has value type %d; 0 to %d exist", type,
                                  kLastValueType));
    }
    return static_cast<ValueType>(type);
  }

  absl::StatusOr<Json> TakeValue(ValueType type) {
    RETURN_IF_ERROR(SpendValues(1));
    switch (type) {
      case ValueType::kU8:
        return TakeNumber<uint8_t>();
      case ValueType::kI8:
        return TakeNumber<int8_t>();
      case ValueType::kU16:
        return TakeNumber<uint16_t>();
      case ValueType::kI16:
        return TakeNumber<int16_t>();
      case ValueType::kU32:
        return TakeNumber<uint32_t>();
      case ValueType::kI32:
        return TakeNumber<int32_t>();
      case ValueType::kF32:
        return TakeNumber<float>();
      case ValueType::kU64:
        return TakeNumber<uint64_t>();
      case ValueType::kI64:
        return TakeNumber<int64_t>();
      case ValueType::kF64:
        return TakeNumber<double>();
      case ValueType::kBool:
        return TakeBool();
      case ValueType::kString:
        return TakeStringValue();
      case ValueType::kArray:
        return TakeArray(/*depth=*/0);
    }
    return absl::InternalError("value type out of range");
  }

  // Bounds the memory of the metadata: a value of one byte becomes a JSON
  // value of sixteen.
  absl::Status SpendValues(uint64_t count) {
    if (count > values_left_) {
      return cursor_.ErrorAt(
          cursor_.offset(),
          absl::StrFormat("brings the metadata to more than %d "
                          "values, the limit",
                          kMaxValues));
    }
    values_left_ -= count;
    return absl::OkStatus();
  }

  template <typename T>
  absl::StatusOr<Json> TakeNumber() {
    ASSIGN_OR_RETURN(const T value, cursor_.Take<T>("value"));
    return Json(value);
  }

  absl::StatusOr<Json> TakeBool() {
    const uint64_t offset = cursor_.offset();
    ASSIGN_OR_RETURN(const uint8_t value, cursor_.Take<uint8_t>("value"));
    if (value > 1) {
      return cursor_.ErrorAt(
          offset,
          absl::StrFormat("is a bool of value %d; 0 and 1 are legal", value));
    }
    return Json(value == 1);
  }

  absl::StatusOr<Json> TakeStringValue() {
    ASSIGN_OR_RETURN(const std::string_view text,
                     cursor_.TakeString("string", kMaxStringBytes));
    return Json(text);
  }

  absl::StatusOr<Json> TakeArray(int depth) {
    if (depth >= kMaxArrayDepth) {
      return cursor_.ErrorAt(
          cursor_.offset(),
          absl::StrFormat("nests arrays deeper than %d, the limit",
                          kMaxArrayDepth));
    }
    ASSIGN_OR_RETURN(const ValueType type, TakeValueType());
    const uint64_t offset = cursor_.offset();
    ASSIGN_OR_RETURN(const uint64_t size,
                     cursor_.Take<uint64_t>("array length"));
    RETURN_IF_ERROR(
        cursor_.CheckCount(offset, "array length", size, MinValueBytes(type)));
    RETURN_IF_ERROR(SpendValues(size));
    switch (type) {
      case ValueType::kU8:
        return TakeNumbers<uint8_t>(size);
      case ValueType::kI8:
        return TakeNumbers<int8_t>(size);
      case ValueType::kU16:
        return TakeNumbers<uint16_t>(size);
      case ValueType::kI16:
        return TakeNumbers<int16_t>(size);
      case ValueType::kU32:
        return TakeNumbers<uint32_t>(size);
      case ValueType::kI32:
        return TakeNumbers<int32_t>(size);
      case ValueType::kF32:
        return TakeNumbers<float>(size);
      case ValueType::kU64:
        return TakeNumbers<uint64_t>(size);
      case ValueType::kI64:
        return TakeNumbers<int64_t>(size);
      case ValueType::kF64:
        return TakeNumbers<double>(size);
      case ValueType::kBool:
      case ValueType::kString:
      case ValueType::kArray:
        return TakeElements(type, size, depth);
    }
    return absl::InternalError("value type out of range");
  }

  static uint64_t MinValueBytes(ValueType type) {
    switch (type) {
      case ValueType::kU8:
      case ValueType::kI8:
      case ValueType::kBool:
        return 1;
      case ValueType::kU16:
      case ValueType::kI16:
        return 2;
      case ValueType::kU32:
      case ValueType::kI32:
      case ValueType::kF32:
        return 4;
      case ValueType::kU64:
      case ValueType::kI64:
      case ValueType::kF64:
      case ValueType::kString:
        return 8;
      case ValueType::kArray:
        return 4 + 8;
    }
    return 1;
  }

  template <typename T>
  absl::StatusOr<Json> TakeNumbers(uint64_t size) {
    ASSIGN_OR_RETURN(const std::string_view bytes,
                     cursor_.TakeBytes("array", size * sizeof(T)));
    Json::array_t array(size);
    for (uint64_t i = 0; i < size; ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      array[i] = value;
    }
    return Json(std::move(array));
  }

  // Grows as it reads: the count alone allocates nothing.
  absl::StatusOr<Json> TakeElements(ValueType type, uint64_t size, int depth) {
    Json::array_t array;
    cursor_.EnterArray();
    for (uint64_t i = 0; i < size; ++i) {
      cursor_.set_index(i);
      ASSIGN_OR_RETURN(Json value, TakeElement(type, depth));
      array.push_back(std::move(value));
    }
    cursor_.LeaveArray();
    return Json(std::move(array));
  }

  absl::StatusOr<Json> TakeElement(ValueType type, int depth) {
    if (type == ValueType::kArray) return TakeArray(depth + 1);
    return type == ValueType::kBool ? TakeBool() : TakeStringValue();
  }

  GgufCursor& cursor_;
  uint64_t values_left_ = kMaxValues;
};

}  // namespace

absl::StatusOr<Json> TakeGgufMetadata(uint64_t num_keys, GgufCursor& cursor) {
  return MetadataParser(cursor).Parse(num_keys);
}

}  // namespace headrace
