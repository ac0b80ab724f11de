// See linear_exact.h.
#include "engine/ops/kernels/linear_exact.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/linear_exact.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/linear_decoders-inl.h"
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

void MultiplyBlockOf(const BlockProduct& product) {
  switch (product.panel.dtype) {
    case DType::kF32:
      return MultiplyRows<DType::kF32>(product);
    case DType::kF16:
      return MultiplyRows<DType::kF16>(product);
    case DType::kBF16:
      return MultiplyRows<DType::kBF16>(product);
    case DType::kQ8_0:
      return MultiplyRows<DType::kQ8_0>(product);
    case DType::kQ4_0:
      return MultiplyRows<DType::kQ4_0>(product);
    case DType::kQ4_1:
      return MultiplyRows<DType::kQ4_1>(product);
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

void DequantizeBlockOf(const Panel& panel, int64_t k_begin, int64_t k_count,
                       float* block) {
  switch (panel.dtype) {
    case DType::kF32:
      return DequantizeAs<DType::kF32>(panel, k_begin, k_count, block);
    case DType::kF16:
      return DequantizeAs<DType::kF16>(panel, k_begin, k_count, block);
    case DType::kBF16:
      return DequantizeAs<DType::kBF16>(panel, k_begin, k_count, block);
    case DType::kQ8_0:
      return DequantizeAs<DType::kQ8_0>(panel, k_begin, k_count, block);
    case DType::kQ4_0:
      return DequantizeAs<DType::kQ4_0>(panel, k_begin, k_count, block);
    case DType::kQ4_1:
      return DequantizeAs<DType::kQ4_1>(panel, k_begin, k_count, block);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(MultiplyBlockOf);
HWY_EXPORT(DequantizeBlockOf);

void MultiplyBlock(const BlockProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyBlockOf)(product);
}

void MultiplyPanel(const Panel& panel, const float* src, int64_t num_rows,
                   float* dst, int64_t ld_dst) {
  for (int64_t k = 0; k < panel.in; k += kBlockSize) {
    MultiplyBlock({.panel = panel,
                   .k_begin = k,
                   .k_count = std::min(kBlockSize, panel.in - k),
                   .src = src,
                   .ld_src = panel.in,
                   .num_rows = num_rows,
                   .dst = dst,
                   .ld_dst = ld_dst,
                   .accumulate = k > 0});
  }
}

void DequantizeBlock(const Panel& panel, int64_t k_begin, int64_t k_count,
                     float* block) {
  HWY_DYNAMIC_DISPATCH(DequantizeBlockOf)(panel, k_begin, k_count, block);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
