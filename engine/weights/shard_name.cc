#include "engine/weights/shard_name.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"

namespace headrace {
namespace {

constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;

// Takes exactly five digits off the end of `text`.
std::optional<int> ConsumeNumber(std::string_view& text) {
  if (text.size() < kDigits) return std::nullopt;
  int number = 0;
  for (const char c : text.substr(text.size() - kDigits)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  text.remove_suffix(kDigits);
  return number;
}

bool ConsumeSuffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace

std::string ShardName::Sister(int n) const {
  return absl::StrFormat("%s-%05d-of-%05d%s", prefix, n, count, extension);
}

std::optional<ShardName> ParseShardName(std::string_view file_name,
                                        std::string_view extension) {
  std::string_view rest = file_name;
  if (!ConsumeSuffix(rest, extension)) return std::nullopt;
  const std::optional<int> count = ConsumeNumber(rest);
  if (!count.has_value() || !ConsumeSuffix(rest, kOf)) return std::nullopt;
  const std::optional<int> number = ConsumeNumber(rest);
  if (!number.has_value() || !ConsumeSuffix(rest, "-")) return std::nullopt;
  if (*number < 1 || *number > *count) return std::nullopt;
  return ShardName{.prefix = std::string(rest),
                   .number = *number,
                   .count = *count,
                   .extension = std::string(extension)};
}

}  // namespace headrace
