// What all operations share: the team of threads, scratch memory for each of
// them, and the compiled kernels. One per engine.
#ifndef HEADRACE_ENGINE_OPS_OPS_CONTEXT_H_
#define HEADRACE_ENGINE_OPS_OPS_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/thread_team.h"
#include "engine/ops/int8_rows.h"
#include "engine/ops/ordered_rows.h"
#include "engine/ops/packed_memory.h"
#include "engine/ops/quantized_rows.h"

namespace headrace {

class OneDnnGemm;
class OneDnnInt8Gemm;

// Owned by the batch loop.
class OpsContext {
 public:
  // Scratch of one thread: a block of weights, its rows and what attention
  // keeps of one tile, together within a core's own cache.
  static constexpr size_t kScratchBytes = size_t{1} << 20;

  // `num_threads` >= 1 counts the calling thread; `placement` as for
  // ThreadTeam. The environment variable HEADRACE_ISA caps the instruction set
  // (SSE4, AVX2, AVX2_VNNI, AVX3, AVX3_DL, …), for comparisons and for tests of
  // what weaker machines run. Errors: INVALID_ARGUMENT for a bad num_threads,
  // or an unknown HEADRACE_ISA (naming the choices).
  static absl::StatusOr<std::unique_ptr<OpsContext>> Create(
      int num_threads, const WorkerPlacement& placement = {});
  ~OpsContext();
  OpsContext(const OpsContext&) = delete;
  OpsContext& operator=(const OpsContext&) = delete;

  ThreadTeam& team() { return team_; }

  // The instruction set that was chosen, as in "AVX3_ZEN4".
  const std::string& isa() const { return isa_; }

  // 64-byte aligned memory of the given thread of the team; what it holds does
  // not outlive the task that wrote it.
  std::span<std::byte> scratch(int thread_index) {
    return scratch_[static_cast<size_t>(thread_index)].span();
  }

  // Shared by the products of Linear().
  OneDnnGemm& gemm() { return *gemm_; }
  OneDnnInt8Gemm& int8_gemm() { return *int8_gemm_; }
  QuantizedRows& quantized_rows() { return quantized_rows_; }
  Int8Rows& int8_rows() { return int8_rows_; }
  OrderedRows& ordered_rows() { return ordered_rows_; }
  PackedMemory& packed_memory() { return packed_memory_; }

 private:
  OpsContext(int num_threads, const WorkerPlacement& placement);

  ThreadTeam team_;
  std::string isa_;
  std::vector<AlignedBuffer<std::byte>> scratch_;
  std::unique_ptr<OneDnnGemm> gemm_;
  std::unique_ptr<OneDnnInt8Gemm> int8_gemm_;
  QuantizedRows quantized_rows_;
  Int8Rows int8_rows_;
  OrderedRows ordered_rows_;
  PackedMemory packed_memory_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_OPS_CONTEXT_H_
