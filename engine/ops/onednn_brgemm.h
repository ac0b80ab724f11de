// brgemm micro-kernels of oneDNN: some rows times a block of weights with 64
// columns, compiled for their shape.
#ifndef HEADRACE_ENGINE_OPS_ONEDNN_BRGEMM_H_
#define HEADRACE_ENGINE_OPS_ONEDNN_BRGEMM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "engine/ops/onednn_library.h"

namespace headrace {

#ifdef DNNL_EXPERIMENTAL_UKERNEL

// One number of rows. Immutable; may run on several threads at once.
class OneDnnBrgemm {
 public:
  struct Shape {
    dnnl_data_type_t src = dnnl_f32;
    dnnl_data_type_t weights = dnnl_f32;
    dnnl_data_type_t dst = dnnl_f32;
    int64_t rows = 0;
    int64_t k_count = 0;
    int64_t ld_src = 0;
    bool accumulate = false;
  };

  // Memory that a call may want: kernels with tiles (AMX) do.
  static constexpr size_t kScratchBytes = size_t{64} << 10;

  // Not ok() where oneDNN has no kernel for this CPU, or it wants more memory.
  OneDnnBrgemm(const OneDnnLibrary& library, const Shape& shape);

  bool ok() const { return kernel_ != nullptr; }
  bool needs_scratch() const { return needs_scratch_; }

  // weights: [k_count / 4, 64, 4] bytes, or [k_count, 64] floats; dst: [rows,
  // 64]; scratch: kScratchBytes, or null where none is needed. Integers may set
  // up tiles, which ReleaseTiles() of the same thread gives back after some
  // calls.
  void Execute(const void* src, const void* weights, void* dst,
               std::byte* scratch) const;
  void ReleaseTiles() const;

 private:
  struct Destroy {
    void operator()(dnnl_brgemm_t kernel) const;
  };

  const OneDnnLibrary* library_;
  std::unique_ptr<std::remove_pointer_t<dnnl_brgemm_t>, Destroy> kernel_;
  bool integers_ = false;
  bool needs_scratch_ = false;
};

// Any number of rows up to kMaxRows: kernels exist for 1 … 7 and for multiples
// of 8, so that two calls make it. May run on several threads at once.
class OneDnnBrgemms {
 public:
  static constexpr int64_t kMaxRows = 64;
  // The number of rows that has a kernel after `rows`.
  static constexpr int64_t Next(int64_t rows) {
    return rows + (rows < kRowStep ? 1 : kRowStep);
  }

  // Compiles them for `shape`, whose `rows` is not read; false if one is not to
  // be had.
  bool Compile(const OneDnnLibrary& library, OneDnnBrgemm::Shape shape);

  bool needs_scratch() const;
  // As OneDnnBrgemm's, for num_rows <= kMaxRows.
  void Execute(const void* src, int64_t num_rows, const void* weights,
               void* dst, std::byte* scratch) const;
  void ReleaseTiles() const { few_.front().ReleaseTiles(); }

 private:
  static constexpr int64_t kRowStep = 8;

  int64_t src_row_bytes_ = 0;
  std::vector<OneDnnBrgemm> few_;        // 1 … 7 rows
  std::vector<OneDnnBrgemm> multiples_;  // 8, 16, … kMaxRows rows
};

#endif  // DNNL_EXPERIMENTAL_UKERNEL

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ONEDNN_BRGEMM_H_
