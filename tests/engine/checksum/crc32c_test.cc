#include "engine/checksum/crc32c.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/crc/crc32c.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

std::string Bytes(size_t count) {
  std::string bytes(count, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

TEST(Crc32cTest, HasThePublishedValues) {
  // RFC 3720, B.4.
  EXPECT_EQ(ExtendCrc32c(0, std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(ExtendCrc32c(0, std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(ExtendCrc32c(0, "123456789"), 0xE3069283u);
  EXPECT_EQ(ExtendCrc32c(0, ""), 0u);
}

TEST(Crc32cTest, IsAbseilsAtEverySizeAndAddress) {
  const std::string bytes = Bytes(4000);
  for (size_t size = 0; size < 1700; ++size) {
    const std::string_view part =
        std::string_view(bytes).substr(size % 17, size);
    ASSERT_EQ(ExtendCrc32c(0, part),
              static_cast<uint32_t>(absl::ComputeCrc32c(
                  absl::string_view(part.data(), part.size()))))
        << size;
  }
}

TEST(Crc32cTest, OfPartsIsThatOfTheWhole) {
  const std::string whole = Bytes(5000);
  EXPECT_EQ(ExtendCrc32c(7, ""), 7u);
  for (size_t cut = 0; cut <= whole.size(); cut += 313) {
    const std::string_view view = whole;
    EXPECT_EQ(
        ExtendCrc32c(ExtendCrc32c(0, view.substr(0, cut)), view.substr(cut)),
        ExtendCrc32c(0, whole))
        << cut;
  }
}

}  // namespace
}  // namespace headrace
