// Products of int8 rows with a panel of int8 weights, by oneDNN's brgemm
// micro-kernels: compiled and checked before the first request. With AMX where
// the machine has it, with VNNI elsewhere; a kernel without either saturates
// sums of two products and is not used.
#ifndef HEADRACE_ENGINE_OPS_ONEDNN_INT8_GEMM_H_
#define HEADRACE_ENGINE_OPS_ONEDNN_INT8_GEMM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace headrace {

// Owned by the batch loop; Multiply() may run on all its threads at once.
class OneDnnInt8Gemm {
 public:
  // Rows that one call takes at the most, and scratch memory that it wants.
  static constexpr int64_t kMaxRows = 64;
  static constexpr size_t kScratchBytes = size_t{64} << 10;

  OneDnnInt8Gemm();
  ~OneDnnInt8Gemm();
  OneDnnInt8Gemm(const OneDnnInt8Gemm&) = delete;
  OneDnnInt8Gemm& operator=(const OneDnnInt8Gemm&) = delete;

  // Compiles the kernels for rows of `in` values, once, and compares each with
  // the sums that it should give. The log says what serves.
  void Prepare(int64_t in);

  // Whether Multiply() takes rows of `in` values: they were prepared, and
  // oneDNN has kernels for this CPU that are exact.
  bool Serves(int64_t in) const { return Find(in) != nullptr; }

  // sums = src · weights, integers that wrap.
  struct Block {
    const uint8_t* src = nullptr;  // [num_rows, in]
    int64_t num_rows = 0;          // <= kMaxRows
    int64_t in = 0;
    const std::byte* weights = nullptr;  // int8 [in / 4, 64, 4]
    int32_t* sums = nullptr;             // [num_rows, 64]
    std::byte* scratch = nullptr;        // kScratchBytes
  };
  void Multiply(const Block& block) const;

 private:
  class Kernels;  // for one `in`

  const Kernels* Find(int64_t in) const;

  std::vector<std::unique_ptr<Kernels>> kernels_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ONEDNN_INT8_GEMM_H_
