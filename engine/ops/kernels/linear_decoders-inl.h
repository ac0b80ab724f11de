// From packed weights to vectors of float32: how each type is read, k by k, for
// kVectors neighbouring vectors of columns.

// Per-target include guard: the name differs from one target to the next.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_LINEAR_DECODERS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_DECODERS_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_LINEAR_DECODERS_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_LINEAR_DECODERS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "engine/ops/kernels/packed_group-inl.h"
#include "engine/ops/kernels/packed_layout.h"
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Reads kStep k at a time: Start(k) for each multiple of kStep, then
// Visit(visitor) calls visitor(i, weights) for i = 0 … kStep - 1, where
// weights[v] are the columns [v * kLanes, (v + 1) * kLanes) of k + i.
template <DType kDType, int kVectors>
class Decoder {
 public:
  static constexpr QuantizedFormat kFormat = FormatOf(kDType);
  static constexpr int kStep =
      static_cast<int>(kGroupSize) / kFormat.scales_per_group;

  Decoder(const std::byte* panel, int64_t first_column)
      : panel_(panel), column_(first_column), group_(panel, 0) {}

  HWY_INLINE void Start(int64_t k) {
    group_ = PackedGroup<kFormat>(panel_, k / kGroupSize);
    const int half = static_cast<int>(k % kGroupSize) / kStep;
    first_pair_ = half * kStep / 8;
    Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
      scale_[v] = group_.Scale(half, column_ + v * kLanes);
      if constexpr (kFormat.has_minimum) {
        minimum_[v] = group_.Minimum(column_ + v * kLanes);
      }
    });
  }

  template <class Visitor>
  HWY_INLINE void Visit(const Visitor& visitor) const {
    for (int pair = 0; pair < kStep / 8; ++pair) {
      Unroll<2>([&](auto odd)
                    HEADRACE_INLINE_LAMBDA { VisitStep<odd>(pair, visitor); });
    }
  }

 private:
  // A table of 16 floats needs no mask and converts on the way.
  static constexpr bool kTable = kFormat.bits == 4 && HWY_TARGET <= HWY_AVX3;

  // Step 2 * pair + kOdd: 4 k, as 4 bytes of a 32-bit word per column.
  template <int kOdd, class Visitor>
  HWY_INLINE void VisitStep(int pair, const Visitor& visitor) const {
    IntVector words[kVectors];
    Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
      words[v] = Words<kOdd>(first_pair_ + pair, column_ + v * kLanes);
    });
    Unroll<4>([&](auto i) HEADRACE_INLINE_LAMBDA {
      FloatVector weights[kVectors];
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        const FloatVector q = Number<8 * i, 4 * kOdd>(words[v]);
        if constexpr (kFormat.has_minimum) {
          weights[v] = hn::MulAdd(q, scale_[v], minimum_[v]);
        } else {
          weights[v] = hn::Mul(q, scale_[v]);
        }
      });
      visitor(8 * pair + 4 * kOdd + i, weights);
    });
  }

  // Bytes q, or for the table both steps as they are packed.
  template <int kOdd>
  HWY_INLINE IntVector Words(int pair, int64_t column) const {
    const std::byte* packed = group_.Pair(pair, column);
    // One pass over all columns is a stream that the machine foresees; of
    // several, each is late to begin with.
    if constexpr (kVectors * kLanes < kPanelColumns && kOdd == 0) {
      hwy::Prefetch(packed + 2 * GroupBytes(kFormat));
    }
    if constexpr (kTable) {
      return hn::BitCast(Ints(), LoadBytes(packed));
    } else {
      const ByteVector stored = group_.template Step<kOdd>(pair, column);
      constexpr auto kOffset = static_cast<uint8_t>(kFormat.offset);
      return hn::BitCast(Ints(), hn::Sub(stored, hn::Set(Bytes(), kOffset)));
    }
  }

  // The signed byte of each word that starts at bit kByte, as float32; of the
  // table, the nibble that starts kNibble bits later.
  template <int kByte, int kNibble>
  static HWY_INLINE FloatVector Number(IntVector words) {
    const Floats d;
    if constexpr (kTable) {
#if HWY_TARGET <= HWY_AVX3
      constexpr float kZero = static_cast<float>(-kFormat.offset);
      return FloatVector{_mm512_permutexvar_ps(
          hn::ShiftRight<kByte + kNibble>(words).raw, hn::Iota(d, kZero).raw)};
#endif
    } else {
      return hn::ConvertTo(
          d, hn::ShiftRight<24>(hn::ShiftLeft<24 - kByte>(words)));
    }
  }

  const std::byte* panel_;
  int64_t column_;
  PackedGroup<kFormat> group_;
  int first_pair_ = 0;
  FloatVector scale_[kVectors];
  FloatVector minimum_[kFormat.has_minimum ? kVectors : 1];
};

// Weights that are stored as floats: one k at a time.
template <typename Stored, int kVectors>
class FloatDecoder {
 public:
  static constexpr int kStep = 1;

  FloatDecoder(const std::byte* panel, int64_t first_column)
      : panel_(reinterpret_cast<const Stored*>(panel) + first_column) {}

  HWY_INLINE void Start(int64_t k) { values_ = panel_ + k * kPanelColumns; }

  template <class Visitor>
  HWY_INLINE void Visit(const Visitor& visitor) const {
    FloatVector weights[kVectors];
    Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
      const hn::Rebind<Stored, Floats> stored;
      const auto values = hn::LoadU(stored, values_ + v * kLanes);
      if constexpr (sizeof(Stored) == sizeof(float)) {
        weights[v] = values;
      } else {
        weights[v] = hn::PromoteTo(Floats(), values);
      }
    });
    visitor(0, weights);
  }

 private:
  const Stored* panel_;
  const Stored* values_ = nullptr;
};

template <int kVectors>
class Decoder<DType::kF32, kVectors> : public FloatDecoder<float, kVectors> {
 public:
  using FloatDecoder<float, kVectors>::FloatDecoder;
};

template <int kVectors>
class Decoder<DType::kF16, kVectors>
    : public FloatDecoder<hwy::float16_t, kVectors> {
 public:
  using FloatDecoder<hwy::float16_t, kVectors>::FloatDecoder;
};

template <int kVectors>
class Decoder<DType::kBF16, kVectors>
    : public FloatDecoder<hwy::bfloat16_t, kVectors> {
 public:
  using FloatDecoder<hwy::bfloat16_t, kVectors>::FloatDecoder;
};

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
