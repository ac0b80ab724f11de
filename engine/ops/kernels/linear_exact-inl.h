// The loops of the exact mode, for the files linear_exact_*.cc that compile
// them for some types each.

// Per-target include guard: the name differs from one target to the next.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_LINEAR_EXACT_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_EXACT_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_EXACT_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_LINEAR_EXACT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "engine/ops/kernels/linear_decoders-inl.h"
#include "engine/ops/kernels/linear_exact.h"
#include "engine/ops/kernels/linear_exact_kernels.h"
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

// Rows whose sums stay in registers together.
constexpr int kTileRows = kLanes >= 16 ? 6 : 4;

// Vectors of columns beside each other for a tile of `rows`: as many as leave
// registers for the weights and, when they are quantised, their scales.
constexpr int TileVectors(DType dtype, int rows) {
  if (kLanes >= 16) return IsQuantized(dtype) && rows > 2 ? 2 : 4;
  return rows == 1 ? 4 : 2;
}

template <DType kDType, int kRows>
void MultiplyTile(const BlockProduct& p, const float* src, float* dst) {
  constexpr int kVectors = TileVectors(kDType, kRows);
  const Floats d;
  for (int64_t column = 0; column < kPanelColumns;
       column += kVectors * kLanes) {
    Decoder<kDType, kVectors> decoder(p.panel.data, column);
    FloatVector sums[kRows][kVectors];
    Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
      Unroll<kVectors>(
          [&](auto v) HEADRACE_INLINE_LAMBDA { sums[r][v] = hn::Zero(d); });
    });
    const int64_t k_end = p.k_begin + p.k_count;
    for (int64_t k = p.k_begin; k < k_end; k += decoder.kStep) {
      decoder.Start(k);
      decoder.Visit(
          [&](int i, const FloatVector* weights) HEADRACE_INLINE_LAMBDA {
            Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
              const FloatVector x = hn::Set(d, src[r * p.ld_src + k + i]);
              Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
                sums[r][v] = hn::MulAdd(x, weights[v], sums[r][v]);
              });
            });
          });
    }
    Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
      float* out = dst + r * p.ld_dst + column;
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        if (p.accumulate) {
          sums[r][v] = hn::Add(hn::LoadU(d, out + v * kLanes), sums[r][v]);
        }
        hn::StoreU(sums[r][v], d, out + v * kLanes);
      });
    });
  }
}

template <DType kDType, int kRows>
void MultiplyLastTile(const BlockProduct& p, int64_t rows, const float* src,
                      float* dst) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      MultiplyTile<kDType, kRows>(p, src, dst);
    } else {
      MultiplyLastTile<kDType, kRows - 1>(p, rows, src, dst);
    }
  }
}

template <DType kDType>
void MultiplyRows(const BlockProduct& p) {
  for (int64_t row = 0; row < p.num_rows; row += kTileRows) {
    const int64_t rows = std::min<int64_t>(kTileRows, p.num_rows - row);
    MultiplyLastTile<kDType, kTileRows>(p, rows, p.src + row * p.ld_src,
                                        p.dst + row * p.ld_dst);
  }
}

template <DType kDType>
void DequantizeAs(const Panel& panel, int64_t k_begin, int64_t k_count,
                  float* block) {
  constexpr int kVectors = kLanes >= 16 ? 4 : 2;
  const Floats d;
  for (int64_t column = 0; column < kPanelColumns;
       column += kVectors * kLanes) {
    Decoder<kDType, kVectors> decoder(panel.data, column);
    for (int64_t k = 0; k < k_count; k += decoder.kStep) {
      decoder.Start(k_begin + k);
      decoder.Visit([&](int i, const FloatVector* weights)
                        HEADRACE_INLINE_LAMBDA {
                          float* out = block + (k + i) * kPanelColumns + column;
                          Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
                            hn::StoreU(weights[v], d, out + v * kLanes);
                          });
                        });
    }
  }
}

template <DType kDType>
ExactKernels ExactKernelsAs() {
  return {.multiply = MultiplyRows<kDType>, .dequantize = DequantizeAs<kDType>};
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
