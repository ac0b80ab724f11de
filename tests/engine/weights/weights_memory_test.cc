// No file makes a parser allocate more than a small multiple of its own size,
// whatever it claims. This program counts every byte that operator new gives.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/weights/gguf_reader.h"
#include "engine/weights/json_document.h"
#include "engine/weights/safetensors_reader.h"
#include "gtest/gtest.h"
#include "tests/engine/weights/byte_builder.h"
#include "tests/testing/safetensors_writer.h"

namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

void* CountedNew(size_t size) {
  void* p = std::malloc(std::max<size_t>(size, 1));
  if (p == nullptr) throw std::bad_alloc();
  const int64_t live = live_bytes +=
      static_cast<int64_t>(malloc_usable_size(p));
  peak_bytes = std::max(peak_bytes.load(), live);
  return p;
}

void CountedDelete(void* p) {
  live_bytes -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}

}  // namespace

void* operator new(size_t size) { return CountedNew(size); }
void* operator new[](size_t size) { return CountedNew(size); }
// Sanitizers have their own of these, which would not pair with our delete.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return CountedNew(size);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return CountedNew(size);
}
void operator delete(void* p) noexcept { CountedDelete(p); }
void operator delete[](void* p) noexcept { CountedDelete(p); }
void operator delete(void* p, size_t) noexcept { CountedDelete(p); }
void operator delete[](void* p, size_t) noexcept { CountedDelete(p); }

namespace headrace {
namespace {

// Messages, tables and the like.
constexpr int64_t kSlack = 64 << 10;

int64_t PeakOf(const std::function<bool()>& parses, bool expected) {
  const int64_t before = live_bytes;
  peak_bytes = before;
  EXPECT_EQ(parses(), expected);
  return peak_bytes - before;
}

int64_t GgufPeak(const std::string& file, bool expected) {
  return PeakOf([&] { return ParseGguf(AsBytes(file), "a.gguf").ok(); },
                expected);
}

TEST(WeightsMemoryTest, GgufCountsAloneAllocateNothing) {
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  for (const uint64_t count : {huge, huge / 2, uint64_t{1} << 40}) {
    EXPECT_LT(GgufPeak(GgufHeader(count, 0).str(), false), kSlack);
    EXPECT_LT(GgufPeak(GgufHeader(0, count).str(), false), kSlack);
    for (const uint32_t type : {0u, 8u, 9u, 12u}) {
      ByteBuilder file = GgufHeader(0, 1);
      file.String("k").Add(9u).Add(type).Add(count).Raw(std::string(100, 'x'));
      EXPECT_LT(GgufPeak(file.str(), false), kSlack);
    }
    ByteBuilder file = GgufHeader(0, 1);
    file.String("k").Add(8u).Add(count).Raw(std::string(100, 'x'));
    EXPECT_LT(GgufPeak(file.str(), false), kSlack);
  }
}

TEST(WeightsMemoryTest, GgufTensorsOfAbsurdSizeAllocateNothing) {
  ByteBuilder file = GgufHeader(1, 0);
  file.String("t").Add(2u).Add(uint64_t{1} << 20).Add(uint64_t{1} << 20);
  file.Add(0u).Add<uint64_t>(0).Raw(std::string(64, '\0'));

  EXPECT_LT(GgufPeak(file.str(), false), kSlack);
}

// The largest ratio there is: a value of one byte becomes a JSON value of 16,
// and the library lists the values of an array again to destroy it.
TEST(WeightsMemoryTest, GgufByteArraysCostAtMostFortyTwoTimesTheirSize) {
  ByteBuilder file = GgufHeader(0, 1);
  const size_t size = 1 << 20;
  file.String("k").Add(9u).Add(0u).Add<uint64_t>(size).Raw(
      std::string(size, 'x'));

  EXPECT_LT(GgufPeak(file.str(), true), kSlack + 42 * int64_t{size});
}

// 2^18 empty strings of 8 bytes: a JSON value of 16 and a string object of 32,
// and the array is copied when it grows.
TEST(WeightsMemoryTest, GgufStringArraysCostAFewTimesTheirSize) {
  ByteBuilder file = GgufHeader(0, 1);
  const size_t count = 1 << 18;
  file.String("k").Add(9u).Add(8u).Add<uint64_t>(count);
  file.Raw(std::string(8 * count, '\0'));
  const auto size = static_cast<int64_t>(file.str().size());

  EXPECT_LT(GgufPeak(file.str(), true), kSlack + 14 * size);
}

TEST(WeightsMemoryTest, SafetensorsLengthsAllocateNothing) {
  for (const uint64_t size : {~uint64_t{0}, uint64_t{100'000'000}}) {
    const std::string file = ByteBuilder().Add(size).Raw("{\"a\":{}}").str();
    EXPECT_LT(PeakOf([&] { return ParseSafetensors(AsBytes(file), "a").ok(); },
                     false),
              kSlack);
  }
}

TEST(WeightsMemoryTest, SafetensorsHeadersCostAFewTimesTheirSize) {
  std::string header = "{";
  for (int i = 0; i < 50000; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"", i,
                    R"(":{"dtype":"U8","shape":[],"data_offsets":[0,1]})");
  }
  const std::string file = SafetensorsFile(header + "}", "x");

  EXPECT_LT(
      PeakOf([&] { return ParseSafetensors(AsBytes(file), "a").ok(); }, false),
      kSlack + 10 * static_cast<int64_t>(file.size()));
}

// "[0,0,0,…]": two bytes to a value of 16, copied when the array grows.
TEST(WeightsMemoryTest, JsonDocumentsCostAtMostThirtyTimesTheirSize) {
  std::string text = "[0";
  for (int i = 0; i < 500000; ++i) text += ",0";
  text += "]";
  std::vector<std::string> warnings;

  EXPECT_LT(PeakOf([&] { return ParseJson(text, "a", warnings).ok(); }, true),
            kSlack + 30 * static_cast<int64_t>(text.size()));
}

TEST(WeightsMemoryTest, JsonNestingAllocatesNothingBeyondItsLimit) {
  const std::string text(1 << 20, '[');
  std::vector<std::string> warnings;

  EXPECT_LT(PeakOf([&] { return ParseJson(text, "a", warnings).ok(); }, false),
            kSlack);
}

}  // namespace
}  // namespace headrace
