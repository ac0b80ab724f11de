// Where packed weights live: few large pieces of memory, in huge pages where
// the system has them. A matrix of its own would often be smaller than a huge
// page, and reading it would wait for address translation half of the time.
#ifndef HEADRACE_ENGINE_OPS_PACKED_MEMORY_H_
#define HEADRACE_ENGINE_OPS_PACKED_MEMORY_H_

#include <cstddef>
#include <memory>

#include "engine/base/aligned_buffer.h"

namespace headrace {

// Hands out memory in the order of the calls. Thread-compatible.
class PackedMemory {
 public:
  // Zeroed bytes, aligned to 64. All that were cut from the same piece share
  // it: it is freed with the last of them, which may outlive this object.
  std::shared_ptr<std::byte> Allocate(size_t bytes);

 private:
  std::shared_ptr<AlignedBuffer<std::byte>> piece_;
  size_t used_ = 0;  // of piece_
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_PACKED_MEMORY_H_
