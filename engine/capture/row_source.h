// Rows of another pass, for interventions that put them in place of a
// sequence's own.
#ifndef HEADRACE_ENGINE_CAPTURE_ROW_SOURCE_H_
#define HEADRACE_ENGINE_CAPTURE_ROW_SOURCE_H_

#include <cstdint>
#include <span>

#include "engine/model/hook_point.h"

namespace headrace {

// Immutable, thread-safe.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // `layer` is -1 for hooks without one. Empty when there is no such row.
  virtual std::span<const float> Find(HookPoint hook, int32_t layer,
                                      int64_t position) const = 0;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_ROW_SOURCE_H_
