// See linear_int8.h.
#include "engine/ops/kernels/linear_int8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

// Comes before foreach_target.h.
#include "engine/ops/kernels/dot_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/linear_int8.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/byte_dot-inl.h"
#include "engine/ops/kernels/isa.h"
#include "engine/ops/kernels/packed_group-inl.h"
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr QuantizedFormat kFormat = {.bits = 8, .row_scale = true};

// Rows whose sums stay in registers together.
constexpr int kTileRows = kLanes >= 16 ? 6 : 3;

// The panel's header, for columns [column, column + kLanes).
HWY_INLINE FloatVector Scales(const Panel& panel, int64_t column) {
  return hn::LoadU(Floats(),
                   reinterpret_cast<const float*>(panel.data) + column);
}
HWY_INLINE IntVector Offsets(const Panel& panel, int64_t column) {
  return hn::LoadU(Ints(), reinterpret_cast<const int32_t*>(panel.data) +
                               kPanelColumns + column);
}

// Of row `row`, from the dot products of columns [column, column + kLanes).
HWY_INLINE void PutOut(const Int8Product& p, int64_t row, int64_t column,
                       IntVector dots, FloatVector scales) {
  const Floats d;
  float* to = p.dst + row * p.ld_dst + column;
  FloatVector product = hn::Mul(hn::ConvertTo(d, dots),
                                hn::Mul(scales, hn::Set(d, p.src_scales[row])));
  if (p.add) product = hn::Add(hn::LoadU(d, to), product);
  hn::StoreU(product, d, to);
}

template <class Dot, int kRows>
void MultiplyTile(const Int8Product& p, int64_t row) {
  constexpr int kVectors = TileVectors(kRows);
  // Few rows read at the pace of memory, so in the order of its bytes: the
  // header comes first. More rows need the registers.
  constexpr bool kScalesFirst = kRows <= 3;
  const uint8_t* src = p.src + row * p.panel.in;
  const std::byte* numbers = p.panel.data + PanelHeaderBytes(kFormat);
  for (int64_t column = 0; column < kPanelColumns;
       column += kVectors * kLanes) {
    FloatVector scales[kVectors];
    const auto load_scales = [&](auto v) HEADRACE_INLINE_LAMBDA {
      scales[v] = Scales(p.panel, column + v * kLanes);
    };
    if constexpr (kScalesFirst) Unroll<kVectors>(load_scales);
    IntVector dots[kRows][kVectors];
    Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
      const IntVector start = hn::Neg(Offsets(p.panel, column + v * kLanes));
      Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA { dots[r][v] = start; });
    });
    const std::byte* step = numbers + column * 4;
    for (int64_t k = 0; k < p.panel.in; k += 4, step += kStepBytes) {
      SignedByteVector weights[kVectors];
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        weights[v] =
            hn::BitCast(SignedBytes(), LoadBytes(step + v * kLanes * 4));
      });
      Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
        const ByteVector a =
            hn::BitCast(Bytes(), BroadcastFour(src + r * p.panel.in + k));
        Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
          dots[r][v] =
              Dot::template Add<kFormat.bits>(dots[r][v], a, weights[v]);
        });
      });
    }
    if constexpr (!kScalesFirst) Unroll<kVectors>(load_scales);
    Unroll<kRows>([&](auto r) HEADRACE_INLINE_LAMBDA {
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        PutOut(p, row + r, column + v * kLanes, dots[r][v], scales[v]);
      });
    });
  }
}

template <class Dot, int kRows>
void MultiplyTileOf(const Int8Product& p, int64_t row, int64_t rows) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      MultiplyTile<Dot, kRows>(p, row);
    } else {
      MultiplyTileOf<Dot, kRows - 1>(p, row, rows);
    }
  }
}

// In tiles of nearly equal height.
template <class Dot>
void MultiplyPanelBy(const Int8Product& p) {
  int64_t tiles = (p.num_rows + kTileRows - 1) / kTileRows;
  for (int64_t row = 0; tiles > 0; --tiles) {
    const int64_t rows = (p.num_rows - row + tiles - 1) / tiles;
    MultiplyTileOf<Dot, kTileRows>(p, row, rows);
    row += rows;
  }
}

void MultiplyPanelInt8Of(const Int8Product& p) {
#if HWY_TARGET == HWY_AVX2
  if (UsesAvxVnni()) {
    MultiplyPanelBy<AvxVnniDot>(p);
    return;
  }
#endif
  MultiplyPanelBy<TargetDot>(p);
}

void FinishPanelInt8Of(const Int8Product& p, const int32_t* sums) {
  for (int64_t row = 0; row < p.num_rows; ++row) {
    for (int64_t column = 0; column < kPanelColumns; column += kLanes) {
      const IntVector dots =
          hn::Sub(hn::LoadU(Ints(), sums + row * kPanelColumns + column),
                  Offsets(p.panel, column));
      PutOut(p, row, column, dots, Scales(p.panel, column));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(MultiplyPanelInt8Of);
HWY_EXPORT(FinishPanelInt8Of);

void MultiplyPanelInt8(const Int8Product& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanelInt8Of)(product);
}

void FinishPanelInt8(const Int8Product& product, const int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(FinishPanelInt8Of)(product, sums);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
