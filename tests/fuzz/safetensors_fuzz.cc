// ParseSafetensors() and ParseJson() on any bytes: no crash, and the tensors
// that are accepted fill the file from the header to the end.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/log/check.h"
#include "absl/status/statusor.h"
#include "engine/weights/file_error.h"
#include "engine/weights/json_document.h"
#include "engine/weights/safetensors_reader.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/safetensors_writer.h"

namespace headrace {
namespace {

void CheckTensors(std::span<const std::byte> file,
                  const std::vector<SafetensorsInfo>& infos) {
  uint64_t end = infos.empty() ? file.size() : infos.front().offset;
  for (const SafetensorsInfo& info : infos) {
    CHECK_EQ(info.offset, end);
    CHECK_GE(info.bytes, 0);
    end += static_cast<uint64_t>(info.bytes);
    CHECK_LE(end, file.size());
    CHECK(IsUtf8(info.name));
  }
  CHECK_EQ(end, file.size());
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  const std::vector<SafetensorsEntry> entries = {
      {"a", "F32", {2, 3}, std::string(24, 'a')},
      {"b", "BF16", {}, "bb"},
      {"c", "F4", {4}, "cc"},
      {"d", "F16", {0, 7}, ""},
      {"e", "I64", {1}, std::string(8, 'e')}};
  return {
      SerializeSafetensors(entries), SerializeSafetensors({}),
      SafetensorsFile(
          R"({"t":{"shape":[2],"data_offsets":[0,2],"dtype":"U8"}} )", "xy"),
      R"({"weight_map":{"a":"b.safetensors"},"metadata":{"x":[1,-2.5]}})"};
}

}  // namespace headrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(
      reinterpret_cast<const std::byte*>(data), size);
  static_cast<void>(headrace::LooksLikeSafetensors(file));
  const absl::StatusOr<std::vector<headrace::SafetensorsInfo>> infos =
      headrace::ParseSafetensors(file, "fuzz.safetensors");
  if (infos.ok()) {
    headrace::CheckTensors(file, *infos);
  } else {
    CHECK(headrace::IsUtf8(std::string(infos.status().message())));
  }
  std::vector<std::string> warnings;
  const auto document = headrace::ParseJson(
      {reinterpret_cast<const char*>(data), size}, "fuzz.json", warnings);
  if (document.ok()) {
    CHECK(!document->dump().empty());
  } else {
    CHECK(headrace::IsUtf8(std::string(document.status().message())));
  }
  return 0;
}
