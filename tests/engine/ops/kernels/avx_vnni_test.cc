// The loops for AVX2 with AVX-VNNI's dot product. A machine that has AVX-512
// instead runs the same instruction in its encoding, which is all that differs
// here: sums in the order of plain AVX2, in every bit.
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/ops/kernels/linear_fast.h"
#include "engine/tensor/dtype.h"
#include "gtest/gtest.h"

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_AVX3 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/engine/ops/kernels/avx_vnni_test.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/linear_fast-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

// The loop of plain AVX2 and that of AVX-VNNI; null: the CPU has it in neither
// encoding.
using LoopPair = std::pair<FastKernel, FastKernel>;

#if HWY_TARGET == HWY_AVX2

struct EncodedByAvx512 {
  template <int kBits>
  static HWY_INLINE IntVector Add(IntVector sum, ByteVector weights,
                                  SignedByteVector activations) {
    asm("%{evex%} vpdpbusd %2, %1, %0"
        : "+x"(sum.raw)
        : "x"(weights.raw), "x"(activations.raw));
    return sum;
  }
};

template <DType kDtype>
LoopPair LoopsFor() {
  constexpr QuantizedFormat kFormat = FormatOf(kDtype);
  const bool encoded_by_avx512 = __builtin_cpu_supports("avx512vl") &&
                                 __builtin_cpu_supports("avx512vnni");
  FastKernel vnni = nullptr;
  if (UsesAvxVnni()) {
    vnni = MultiplyPanelAs<kFormat, AvxVnniDot>;
  } else if (encoded_by_avx512) {
    vnni = MultiplyPanelAs<kFormat, EncodedByAvx512>;
  }
  return {MultiplyPanelAs<kFormat, TargetDot>, vnni};
}

LoopPair LoopsOf(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return LoopsFor<DType::kQ8_0>();
    case DType::kQ4_0:
      return LoopsFor<DType::kQ4_0>();
    case DType::kQ4_1:
      return LoopsFor<DType::kQ4_1>();
    case DType::kQ6_K:
      return LoopsFor<DType::kQ6_K>();
    default:
      return {};
  }
}

#else

LoopPair LoopsOf(DType /*dtype*/) { return {}; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(LoopsOf);

namespace {

constexpr int64_t kIn = 768;
constexpr int64_t kGroups = kIn / kGroupSize;

// Any bytes are weights; scales that are no numbers give the same ones.
std::vector<float> Multiply(FastKernel kernel, DType dtype, int64_t num_rows) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same for both
  std::vector<std::byte> weights(
      static_cast<size_t>(BlockOffset(FormatOf(dtype), kGroups)));
  for (std::byte& byte : weights) byte = static_cast<std::byte>(random());
  std::vector<QuantizedGroup> rows(static_cast<size_t>(num_rows * kGroups));
  for (QuantizedGroup& group : rows) {
    int32_t sum = 0;
    for (int8_t& value : group.values) {
      value = static_cast<int8_t>(random() % 255 - 127);
      sum += value;
    }
    group.scale = 1e-3F * static_cast<float>(random() % 1000);
    group.scaled_sum = group.scale * static_cast<float>(sum);
    group.negative_sum = -sum;
  }
  AlignedBuffer<std::byte> scratch(kFastScratchBytes);
  std::vector<float> sums(static_cast<size_t>(num_rows * kPanelColumns));
  std::vector<float> dst(sums.size());
  kernel({.panel = {.dtype = dtype, .in = kIn, .data = weights.data()},
          .src = rows.data(),
          .num_rows = num_rows,
          .sums = sums.data(),
          .dst = dst.data(),
          .ld_dst = kPanelColumns,
          .scratch = scratch.data()});
  return dst;
}

TEST(AvxVnniTest, SumsAreThoseOfPlainAvx2) {
  for (const DType dtype :
       {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ6_K}) {
    const auto [plain_loop, vnni_loop] = HWY_DYNAMIC_DISPATCH(LoopsOf)(dtype);
    if (vnni_loop == nullptr) GTEST_SKIP() << "the CPU has no VNNI";
    for (const int64_t rows : {1, 2, 3, 4, 7, 20}) {
      const std::vector<float> plain = Multiply(plain_loop, dtype, rows);
      const std::vector<float> vnni = Multiply(vnni_loop, dtype, rows);
      EXPECT_EQ(
          std::memcmp(plain.data(), vnni.data(), plain.size() * sizeof(float)),
          0)
          << static_cast<int>(dtype) << ", rows " << rows;
    }
  }
}

}  // namespace
}  // namespace headrace::kernels
#endif  // HWY_ONCE
