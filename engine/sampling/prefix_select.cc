#include "engine/sampling/prefix_select.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace headrace {
namespace {

constexpr size_t kNumBuckets = 1024;
// So few are sorted at once.
constexpr size_t kFew = 256;

// Keys in [low, high], seen as equal slices.
struct KeyRange {
  float low;
  float high;

  bool Contains(float key) const { return key >= low && key <= high; }
  // In double: neither the width nor its inverse can overflow.
  double Scale() const {
    return static_cast<double>(kNumBuckets) /
           (static_cast<double>(high) - static_cast<double>(low));
  }
  size_t BucketOf(float key, double scale) const {
    const double slice =
        (static_cast<double>(key) - static_cast<double>(low)) * scale;
    return std::min(static_cast<size_t>(slice), kNumBuckets - 1);
  }
};

struct Bucket {
  double weight = 0;
  size_t count = 0;
  KeyRange keys = {std::numeric_limits<float>::infinity(),
                   -std::numeric_limits<float>::infinity()};
};

// The items of a range, of which the prefix ends somewhere.
struct Selection {
  KeyRange range;
  double before = 0;  // weight of the items with lower keys
  size_t count = 0;
};

KeyRange WholeRange(std::span<const float> keys) {
  const auto [low, high] = std::minmax_element(keys.begin(), keys.end());
  return {*low, *high};
}

// The bucket of `selection` in which the prefix ends.
Selection Narrow(const Selection& selection, std::span<const float> keys,
                 std::span<const float> weights, double target) {
  std::array<Bucket, kNumBuckets> buckets;
  const double scale = selection.range.Scale();
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!selection.range.Contains(keys[i])) continue;
    Bucket& bucket = buckets[selection.range.BucketOf(keys[i], scale)];
    bucket.weight += weights[i];
    ++bucket.count;
    bucket.keys.low = std::min(bucket.keys.low, keys[i]);
    bucket.keys.high = std::max(bucket.keys.high, keys[i]);
  }
  Selection narrowed;
  double sum = selection.before;
  for (const Bucket& bucket : buckets) {
    if (bucket.count == 0) continue;
    narrowed = {bucket.keys, sum, bucket.count};
    sum += bucket.weight;
    if (sum >= target) break;
  }
  return narrowed;
}

}  // namespace

PrefixEnd ShortestPrefix(std::span<const float> keys,
                         std::span<const float> weights, double target) {
  Selection selection = {WholeRange(keys), 0, keys.size()};
  while (selection.count > kFew && selection.range.low < selection.range.high) {
    selection = Narrow(selection, keys, weights, target);
  }
  std::vector<PrefixEnd> items;
  items.reserve(selection.count);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (selection.range.Contains(keys[i])) items.push_back({keys[i], i});
  }
  std::stable_sort(
      items.begin(), items.end(),
      [](const PrefixEnd& a, const PrefixEnd& b) { return a.key < b.key; });
  PrefixEnd end = items.back();
  double sum = selection.before;
  for (const PrefixEnd& item : items) {
    sum += weights[item.index];
    if (sum >= target) {
      end = item;
      break;
    }
  }
  return end;
}

}  // namespace headrace
