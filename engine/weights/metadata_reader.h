// Typed access to what a file says of its model, with errors that name the
// key, what was found and what was wanted.
#ifndef HEADRACE_ENGINE_WEIGHTS_METADATA_READER_H_
#define HEADRACE_ENGINE_WEIGHTS_METADATA_READER_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace headrace {

// Reads one JSON object. Keys are looked up as prefix + key, and called path +
// prefix + key in errors. Null counts as absent. Errors are DATA_LOSS.
class MetadataReader {
 public:
  static constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

  // `object` outlives this.
  MetadataReader(const nlohmann::ordered_json& object, std::string prefix,
                 std::string path = "")
      : object_(object), prefix_(std::move(prefix)), path_(std::move(path)) {}

  // Required whole number in [min, max]; any, for a caller that knows better
  // than a range what it supports.
  absl::StatusOr<int64_t> Int(std::string_view key, int64_t min = kLowest,
                              int64_t max = kHighest) const;
  absl::StatusOr<std::optional<int64_t>> OptionalInt(
      std::string_view key, int64_t min = kLowest,
      int64_t max = kHighest) const;
  // A number, or one per layer that must all be equal.
  absl::StatusOr<std::optional<int64_t>> PerLayerInt(std::string_view key,
                                                     int64_t num_layers,
                                                     int64_t min,
                                                     int64_t max) const;
  // Required finite number > 0.
  absl::StatusOr<double> PositiveDouble(std::string_view key) const;
  absl::StatusOr<std::optional<bool>> OptionalBool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string>> OptionalString(
      std::string_view key) const;

  // Null when absent or null.
  absl::StatusOr<const nlohmann::ordered_json*> OptionalObject(
      std::string_view key) const;

  std::string FullKey(std::string_view key) const;
  // Null when absent or null.
  const nlohmann::ordered_json* Find(std::string_view key) const;

 private:
  absl::StatusOr<int64_t> ToInt(std::string_view key,
                                const nlohmann::ordered_json& value,
                                int64_t min, int64_t max) const;

  const nlohmann::ordered_json& object_;
  std::string prefix_;
  std::string path_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_METADATA_READER_H_
