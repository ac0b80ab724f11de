#include "tests/testing/safetensors_writer.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace headrace {

std::string SafetensorsFile(std::string_view header, std::string_view data) {
  const uint64_t size = header.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof(size));
  out.append(header);
  out.append(data);
  return out;
}

std::string SerializeSafetensors(std::span<const SafetensorsEntry> entries) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const SafetensorsEntry& entry : entries) {
    const size_t begin = data.size();
    data += entry.bytes;
    header[entry.name] = {{"dtype", entry.dtype},
                          {"shape", entry.shape},
                          {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return SafetensorsFile(text, data);
}

std::string ShardName(std::string_view prefix, size_t index, size_t count,
                      std::string_view extension) {
  return absl::StrFormat("%s-%05d-of-%05d%s", prefix, index + 1, count,
                         extension);
}

}  // namespace headrace
