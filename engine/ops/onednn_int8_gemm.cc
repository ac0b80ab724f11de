#include "engine/ops/onednn_int8_gemm.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "engine/base/aligned_buffer.h"
#include "engine/ops/kernels/packed_layout.h"
#include "engine/ops/onednn_brgemm.h"
#include "engine/ops/onednn_library.h"

namespace headrace {

using kernels::kPanelColumns;

#ifdef DNNL_EXPERIMENTAL_UKERNEL

namespace {

static_assert(OneDnnInt8Gemm::kScratchBytes >= OneDnnBrgemm::kScratchBytes);
static_assert(OneDnnInt8Gemm::kMaxRows == OneDnnBrgemms::kMaxRows);

int32_t SumByHand(const OneDnnInt8Gemm::Block& block, int64_t row,
                  int64_t column) {
  const auto* weights = reinterpret_cast<const int8_t*>(block.weights);
  uint32_t sum = 0;
  for (int64_t k = 0; k < block.in; ++k) {
    const int8_t weight =
        weights[k / 4 * kernels::kStepBytes + column * 4 + k % 4];
    sum += static_cast<uint32_t>(block.src[row * block.in + k] * weight);
  }
  return static_cast<int32_t>(sum);
}

// Of some columns, among them the first two.
bool IsExact(const OneDnnInt8Gemm::Block& block) {
  for (int64_t row = 0; row < block.num_rows; ++row) {
    for (int64_t column = 0; column < kPanelColumns;
         column += column == 0 ? 1 : 9) {
      if (block.sums[row * kPanelColumns + column] !=
          SumByHand(block, row, column)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

class OneDnnInt8Gemm::Kernels {
 public:
  explicit Kernels(int64_t in)
      : in_(in), usable_(CompileAll() && AllAreExact()) {}

  int64_t in() const { return in_; }
  bool usable() const { return usable_; }

  void Multiply(const Block& block) const {
    kernels_.Execute(block.src, block.num_rows, block.weights, block.sums,
                     block.scratch);
    kernels_.ReleaseTiles();
  }

 private:
  bool CompileAll() {
    const OneDnnLibrary* library = LoadOneDnn();
    return library != nullptr && kernels_.Compile(*library, {.src = dnnl_u8,
                                                             .weights = dnnl_s8,
                                                             .dst = dnnl_s32,
                                                             .k_count = in_,
                                                             .ld_src = in_});
  }

  // Runs the kernels on numbers of all sizes, and on the greatest, whose sums
  // of two products are beyond 16 bits: the one for most rows is exact, and the
  // others agree with it.
  bool AllAreExact() const {
    AlignedBuffer<uint8_t> src(static_cast<size_t>(kMaxRows * in_));
    AlignedBuffer<std::byte> weights(static_cast<size_t>(in_ * kPanelColumns));
    AlignedBuffer<int32_t> expected(
        static_cast<size_t>(kMaxRows * kPanelColumns));
    AlignedBuffer<int32_t> sums(expected.size());
    AlignedBuffer<std::byte> scratch(kScratchBytes);
    FillExample(src.span(), weights.span());
    Block block = {.src = src.data(),
                   .num_rows = kMaxRows,
                   .in = in_,
                   .weights = weights.data(),
                   .sums = expected.data(),
                   .scratch = scratch.data()};
    Multiply(block);
    if (!IsExact(block)) return false;
    block.sums = sums.data();
    for (block.num_rows = 1; block.num_rows < kMaxRows;
         block.num_rows = OneDnnBrgemms::Next(block.num_rows)) {
      Multiply(block);
      if (std::memcmp(sums.data(), expected.data(),
                      static_cast<size_t>(block.num_rows * kPanelColumns) *
                          sizeof(int32_t)) != 0) {
        return false;
      }
    }
    return true;
  }

  void FillExample(std::span<uint8_t> src, std::span<std::byte> weights) const {
    uint32_t state = 1;
    const auto next = [&state] {
      state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator
      return static_cast<uint8_t>(state >> 24);
    };
    for (uint8_t& value : src) value = next();
    for (std::byte& value : weights) value = std::byte{next()};
    std::fill_n(src.data(), in_, std::numeric_limits<uint8_t>::max());
    for (int64_t k = 0; k < in_; ++k) {
      std::byte* four = weights.data() + k / 4 * kernels::kStepBytes + k % 4;
      four[0] = std::byte{127};
      four[4] = std::byte{128};  // -128
    }
  }

  int64_t in_;
  OneDnnBrgemms kernels_;
  bool usable_;
};

#else

// A build of oneDNN without micro-kernels.
class OneDnnInt8Gemm::Kernels {
 public:
  explicit Kernels(int64_t in) : in_(in) {}
  int64_t in() const { return in_; }
  bool usable() const { return false; }
  void Multiply(const Block& /*block*/) const {}

 private:
  int64_t in_;
};

#endif  // DNNL_EXPERIMENTAL_UKERNEL

OneDnnInt8Gemm::OneDnnInt8Gemm() = default;
OneDnnInt8Gemm::~OneDnnInt8Gemm() = default;

void OneDnnInt8Gemm::Prepare(int64_t in) {
  for (const auto& kernels : kernels_) {
    if (kernels->in() == in) return;
  }
  kernels_.push_back(std::make_unique<Kernels>(in));
  LOG(INFO) << "products of " << in << " int8 inputs: "
            << (Serves(in) ? "oneDNN brgemm" : "our own loop");
}

const OneDnnInt8Gemm::Kernels* OneDnnInt8Gemm::Find(int64_t in) const {
  for (const auto& kernels : kernels_) {
    if (kernels->in() == in) return kernels->usable() ? kernels.get() : nullptr;
  }
  return nullptr;
}

void OneDnnInt8Gemm::Multiply(const Block& block) const {
  const Kernels* kernels = Find(block.in);
  CHECK(kernels != nullptr) << block.in << " inputs are not served";
  kernels->Multiply(block);
}

}  // namespace headrace
