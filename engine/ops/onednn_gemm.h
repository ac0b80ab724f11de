// float32 products of many rows with a block of weights, by oneDNN's brgemm
// micro-kernels: compiled and checked before the first request.
#ifndef HEADRACE_ENGINE_OPS_ONEDNN_GEMM_H_
#define HEADRACE_ENGINE_OPS_ONEDNN_GEMM_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace headrace {

// Owned by the batch loop; Multiply() may run on all its threads at once.
class OneDnnGemm {
 public:
  // Rows that one call takes at the most.
  static constexpr int64_t kMaxRows = 64;

  // Caps oneDNN at what `isa`, one of Highway's names, may use. oneDNN allows
  // it once, before its first use: false if this came too late to count.
  static bool CapIsa(std::string_view isa);

  OneDnnGemm();
  ~OneDnnGemm();
  OneDnnGemm(const OneDnnGemm&) = delete;
  OneDnnGemm& operator=(const OneDnnGemm&) = delete;

  // Compiles the kernels for rows of `in` values, once. Each is compared with
  // our own loop: where oneDNN has none for this CPU, or one differs in a bit,
  // our loop does the work from then on, and the log says so.
  void Prepare(int64_t in);

  // One block of k: dst (+)= src · block in the order that README.md specifies;
  // added if k_begin > 0. k_begin is a multiple of 512; the block holds
  // min(512, in - k_begin) values of k.
  struct Block {
    const float* src = nullptr;  // [num_rows, in]
    int64_t num_rows = 0;        // <= kMaxRows
    int64_t in = 0;              // prepared
    int64_t k_begin = 0;
    const float* weights = nullptr;  // [k, 64]
    float* dst = nullptr;            // [num_rows, 64]
  };
  void Multiply(const Block& block) const;

 private:
  class Kernels;  // for one `in`

  std::vector<std::unique_ptr<Kernels>> kernels_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ONEDNN_GEMM_H_
