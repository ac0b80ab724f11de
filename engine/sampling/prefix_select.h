// Selection by mass: the shortest prefix of a sorted order whose weights reach
// a target, found without sorting.
#ifndef HEADRACE_ENGINE_SAMPLING_PREFIX_SELECT_H_
#define HEADRACE_ENGINE_SAMPLING_PREFIX_SELECT_H_

#include <cstddef>
#include <span>

namespace headrace {

// The last item of a prefix, in the order of ascending key and, among equal
// keys, ascending index.
struct PrefixEnd {
  float key = 0;
  size_t index = 0;

  bool Includes(float other_key, size_t other_index) const {
    return other_key < key || (other_key == key && other_index <= index);
  }
};

// The end of the shortest prefix whose weights sum to `target` or more; the
// whole when rounding keeps them below it. At least one item, even for a target
// of 0.
//
//   keys:    [n], n >= 1; finite, and +0 or more: no -0
//   weights: [n]; finite and >= 0, one of them above
//
// A few passes over the items, whatever their values.
PrefixEnd ShortestPrefix(std::span<const float> keys,
                         std::span<const float> weights, double target);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SAMPLING_PREFIX_SELECT_H_
