// See int8_row.h.
#include "engine/ops/kernels/int8_row.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/ops/kernels/packed_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/int8_row.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/rounding-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

float QuantizeInt8RowOf(const float* src, int64_t width, uint8_t* dst) {
  const hn::CappedTag<float, 16> d;  // divides 32
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint8_t, decltype(d)> du8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto most = hn::Zero(di);
  auto most2 = hn::Zero(di);
  for (int64_t k = 0; k < width; k += 2 * lanes) {
    most = hn::Max(most, MagnitudeBits(d, hn::LoadU(d, src + k)));
    most2 = hn::Max(most2, MagnitudeBits(d, hn::LoadU(d, src + k + lanes)));
  }
  const int32_t absmax_bits = hn::ReduceMax(di, hn::Max(most, most2));
  const float absmax = std::bit_cast<float>(absmax_bits);
  const bool tiny = absmax_bits < kSmallestBits;
  const float scale = tiny ? 0.0f : absmax / 127.0f;
  if (tiny || absmax_bits >= kInfinityBits) {
    std::fill_n(dst, width, static_cast<uint8_t>(kInt8RowOffset));
    return scale;
  }
  const auto factor = hn::Set(d, 127.0f / absmax);
  const auto offset = hn::Set(du, uint32_t{kInt8RowOffset});
  for (int64_t k = 0; k < width; k += lanes) {
    // The integer is in the low bits.
    const auto bits =
        hn::BitCast(du, Rounded(d, hn::LoadU(d, src + k), factor));
    hn::StoreU(hn::TruncateTo(du8, hn::Add(bits, offset)), du8, dst + k);
  }
  return scale;
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(QuantizeInt8RowOf);

float QuantizeInt8Row(const float* src, int64_t width, uint8_t* dst) {
  return HWY_DYNAMIC_DISPATCH(QuantizeInt8RowOf)(src, width, dst);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
