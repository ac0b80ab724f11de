// Where packed weights live: few large pieces of memory, in huge pages where
// the system has them, or what was packed before and kept (packed_image.h). A
// matrix of its own would often be smaller than a huge page, and reading it
// would wait for address translation half of the time.
#ifndef HEADRACE_ENGINE_OPS_PACKED_MEMORY_H_
#define HEADRACE_ENGINE_OPS_PACKED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/base/aligned_buffer.h"
#include "engine/ops/packed_run.h"
#include "engine/tensor/dtype.h"

namespace headrace {

// Thread-compatible.
class PackedMemory {
 public:
  // Runs of an earlier time, in the order in which Take() will want them.
  void Adopt(std::vector<PackedRun> kept);

  // A run of the given shape: the next one that was adopted, if it is that, or
  // else zeroed bytes, aligned to 64, that `pack` has filled. All that were cut
  // from the same piece share it: it is freed with the last of them, which may
  // outlive this object.
  PackedRun Take(DType dtype, int64_t in, int64_t out,
                 absl::FunctionRef<void(std::byte* data)> pack);

  // All that Take() gave since, in order, and whether some were packed.
  struct Taken {
    std::vector<PackedRun> runs;
    bool packed = false;
  };
  Taken Finish();

 private:
  std::shared_ptr<std::byte> Allocate(size_t bytes);

  std::shared_ptr<AlignedBuffer<std::byte>> piece_;
  size_t used_ = 0;  // of piece_
  std::vector<PackedRun> kept_;
  Taken taken_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_PACKED_MEMORY_H_
