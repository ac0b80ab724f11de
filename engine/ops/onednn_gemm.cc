#include "engine/ops/onednn_gemm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "engine/base/aligned_buffer.h"
#include "engine/ops/kernels/linear_exact.h"
#include "engine/ops/kernels/packed_layout.h"
#include "engine/ops/onednn_brgemm.h"
#include "engine/ops/onednn_library.h"

namespace headrace {
namespace {

using kernels::kBlockSize;
using kernels::kPanelColumns;

// Our own loop for the same block.
void MultiplyBlockOurselves(const OneDnnGemm::Block& block) {
  kernels::MultiplyBlock(
      {.panel = {.dtype = DType::kF32,
                 .in = block.in,
                 .data = reinterpret_cast<const std::byte*>(block.weights)},
       .k_count = std::min(kBlockSize, block.in - block.k_begin),
       .src = block.src + block.k_begin,
       .ld_src = block.in,
       .num_rows = block.num_rows,
       .dst = block.dst,
       .ld_dst = kPanelColumns,
       .accumulate = block.k_begin > 0});
}

dnnl_cpu_isa_t IsaOf(std::string_view name) {
  if (name == "SSE4") return dnnl_cpu_isa_sse41;
  if (name == "AVX2") return dnnl_cpu_isa_avx2;
  if (name == "AVX2_VNNI") return dnnl_cpu_isa_avx2_vnni;
  if (name == "AVX3") return dnnl_cpu_isa_avx512_core;
  if (name == "AVX3_DL") return dnnl_cpu_isa_avx512_core_vnni;
  if (name == "AVX3_ZEN4") return dnnl_cpu_isa_avx512_core_bf16;
  return dnnl_cpu_isa_default;
}

}  // namespace

#ifdef DNNL_EXPERIMENTAL_UKERNEL

static_assert(OneDnnGemm::kMaxRows == OneDnnBrgemms::kMaxRows);

class OneDnnGemm::Kernels {
 public:
  explicit Kernels(int64_t in)
      : in_(in),
        compiled_(CompileAll()),
        usable_(compiled_ && AllEqualOurs()) {}

  int64_t in() const { return in_; }
  bool compiled() const { return compiled_; }
  bool usable() const { return usable_; }

  void Multiply(const Block& block) const {
    KernelsOf(block.k_begin)
        .Execute(block.src + block.k_begin, block.num_rows, block.weights,
                 block.dst, /*scratch=*/nullptr);
  }

 private:
  // First, middle and last block of k; what `in` does not need is empty.
  const OneDnnBrgemms& KernelsOf(int64_t k_begin) const {
    if (k_begin == 0) return blocks_[0];
    return k_begin + kBlockSize <= in_ ? blocks_[1] : blocks_[2];
  }

  bool CompileAll() {
    if (LoadOneDnn() == nullptr) return false;
    const int64_t tail = in_ % kBlockSize;
    if (!CompileBlock(std::min(in_, kBlockSize), false, blocks_[0])) {
      return false;
    }
    if (in_ >= 2 * kBlockSize && !CompileBlock(kBlockSize, true, blocks_[1])) {
      return false;
    }
    return in_ < kBlockSize || tail == 0 ||
           CompileBlock(tail, true, blocks_[2]);
  }

  bool CompileBlock(int64_t k_count, bool accumulate,
                    OneDnnBrgemms& kernels) const {
    return kernels.Compile(
               *LoadOneDnn(),
               {.k_count = k_count, .ld_src = in_, .accumulate = accumulate}) &&
           !kernels.needs_scratch();
  }

  // Runs each kernel beside our own loop on numbers that round everywhere.
  bool AllEqualOurs() const {
    AlignedBuffer<float> src(static_cast<size_t>(kMaxRows * in_));
    AlignedBuffer<float> weights(
        static_cast<size_t>(kBlockSize * kPanelColumns));
    AlignedBuffer<float> theirs(static_cast<size_t>(kMaxRows * kPanelColumns));
    AlignedBuffer<float> ours(theirs.size());
    uint32_t state = 1;
    for (AlignedBuffer<float>* buffer : {&src, &weights}) {
      for (float& value : buffer->span()) {
        state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator
        value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
      }
    }
    for (int64_t k = 0; k < in_; k += kBlockSize) {
      // The middle blocks share their kernels.
      if (k > kBlockSize && k + kBlockSize <= in_) continue;
      for (int64_t rows = 1; rows <= kMaxRows;
           rows = OneDnnBrgemms::Next(rows)) {
        Block block = {.src = src.data(),
                       .num_rows = rows,
                       .in = in_,
                       .k_begin = k,
                       .weights = weights.data(),
                       .dst = theirs.data()};
        std::copy_n(weights.data(), ours.size(), theirs.data());
        std::copy_n(weights.data(), ours.size(), ours.data());
        Multiply(block);
        block.dst = ours.data();
        MultiplyBlockOurselves(block);
        if (std::memcmp(theirs.data(), ours.data(),
                        ours.size() * sizeof(float)) != 0) {
          return false;
        }
      }
    }
    return true;
  }

  int64_t in_;
  std::array<OneDnnBrgemms, 3> blocks_;
  bool compiled_;
  bool usable_;
};

#else

// A build of oneDNN without micro-kernels.
class OneDnnGemm::Kernels {
 public:
  explicit Kernels(int64_t in) : in_(in) {}
  int64_t in() const { return in_; }
  bool compiled() const { return false; }
  bool usable() const { return false; }
  void Multiply(const Block& block) const { MultiplyBlockOurselves(block); }

 private:
  int64_t in_;
};

#endif  // DNNL_EXPERIMENTAL_UKERNEL

bool OneDnnGemm::CapIsa(std::string_view isa) {
  const OneDnnLibrary* library = LoadOneDnn();
  return library == nullptr ||
         library->set_max_cpu_isa(IsaOf(isa)) == dnnl_success;
}

OneDnnGemm::OneDnnGemm() = default;
OneDnnGemm::~OneDnnGemm() = default;

void OneDnnGemm::Prepare(int64_t in) {
  for (const auto& kernels : kernels_) {
    if (kernels->in() == in) return;
  }
  kernels_.push_back(std::make_unique<Kernels>(in));
  const Kernels& kernels = *kernels_.back();
  if (kernels.compiled() && !kernels.usable()) {
    LOG(WARNING) << "oneDNN's brgemm differs in its bits from the order of "
                    "sums that is specified; our own loop serves instead";
  }
  LOG(INFO) << "products of " << in << " inputs: "
            << (kernels.usable() ? "oneDNN brgemm" : "our own loop");
}

void OneDnnGemm::Multiply(const Block& block) const {
  for (const auto& kernels : kernels_) {
    if (kernels->in() != block.in) continue;
    if (kernels->usable()) {
      kernels->Multiply(block);
    } else {
      MultiplyBlockOurselves(block);
    }
    return;
  }
  LOG(FATAL) << "no kernels were prepared for " << block.in << " inputs";
}

}  // namespace headrace
