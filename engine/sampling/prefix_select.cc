#include "engine/sampling/prefix_select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace headrace {
namespace {

// Floats of positive sign are in the order of their bits, so that items are
// selected digit by digit, as in a radix sort that follows one bucket only.
// Sign, exponent and five bits of the fraction first; then nine bits each.
constexpr int kFirstShift = 18;
constexpr int kDigitBits = 9;
constexpr size_t kNumFirstBuckets = size_t{1} << (31 - kFirstShift);
constexpr uint32_t kDigitMask = (1U << kDigitBits) - 1;
// So few are sorted at once.
constexpr size_t kFew = 256;

using Items = std::vector<PrefixEnd>;

uint32_t Bits(float key) { return std::bit_cast<uint32_t>(key); }

// Finds the bucket in which the running sum of weights reaches the target, or
// the last one with any weight; advances `before` to its beginning.
size_t CrossingBucket(std::span<const double> buckets, double target,
                      double& before) {
  size_t crossing = 0;
  double sum = before;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i] <= 0) continue;
    crossing = i;
    before = sum;
    sum += buckets[i];
    if (sum >= target) break;
  }
  return crossing;
}

Items FirstSelection(std::span<const float> keys,
                     std::span<const float> weights, double target,
                     double& before) {
  std::vector<double> buckets(kNumFirstBuckets);
  for (size_t i = 0; i < keys.size(); ++i) {
    buckets[Bits(keys[i]) >> kFirstShift] += weights[i];
  }
  const size_t crossing = CrossingBucket(buckets, target, before);
  Items items;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (Bits(keys[i]) >> kFirstShift == crossing) items.push_back({keys[i], i});
  }
  return items;
}

void Narrow(int shift, std::span<const float> weights, double target,
            Items& items, double& before) {
  const auto digit = [shift](const PrefixEnd& item) {
    return Bits(item.key) >> shift & kDigitMask;
  };
  std::array<double, kDigitMask + 1> buckets{};
  for (const PrefixEnd& item : items) {
    buckets[digit(item)] += weights[item.index];
  }
  const size_t crossing = CrossingBucket(buckets, target, before);
  std::erase_if(items,
                [&](const PrefixEnd& item) { return digit(item) != crossing; });
}

}  // namespace

PrefixEnd ShortestPrefix(std::span<const float> keys,
                         std::span<const float> weights, double target) {
  double before = 0;  // weight of the items before those that are left
  Items items = FirstSelection(keys, weights, target, before);
  int shift = kFirstShift;
  while (items.size() > kFew && shift > 0) {
    shift -= kDigitBits;
    Narrow(shift, weights, target, items, before);
  }
  if (shift > 0) {  // else their keys are equal
    std::stable_sort(
        items.begin(), items.end(),
        [](const PrefixEnd& a, const PrefixEnd& b) { return a.key < b.key; });
  }
  for (const PrefixEnd& item : items) {
    before += weights[item.index];
    if (before >= target && weights[item.index] > 0) return item;
  }
  return items.back();
}

}  // namespace headrace
