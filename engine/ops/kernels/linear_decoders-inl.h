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

#include "engine/ops/kernels/packed_layout.h"
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;
using Ints = hn::RebindToSigned<Floats>;
using IntVector = hn::Vec<Ints>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));

// Reads kStep k at a time: Start(k) for each multiple of kStep, then
// Visit(visitor) calls visitor(i, weights) for i = 0 … kStep - 1, where
// weights[v] are the columns [v * kLanes, (v + 1) * kLanes) of k + i.
template <DType kDType, int kVectors>
class Decoder {
 public:
  static constexpr int kStep = kGroupSize;

  Decoder(const std::byte* panel, int64_t first_column)
      : panel_(panel), column_(first_column) {}

  HWY_INLINE void Start(int64_t k) {
    const std::byte* group = panel_ + k / kGroupSize * GroupBytes(kDType);
    numbers_ = group + GroupHeaderBytes(kDType) + column_ * 4;
    Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
      scale_[v] = LoadHalves(group, v);
      if constexpr (HasMinimum(kDType)) {
        minimum_[v] = LoadHalves(group + kPanelColumns * 2, v);
      }
    });
  }

  template <class Visitor>
  HWY_INLINE void Visit(const Visitor& visitor) const {
    constexpr int kPerWord = IsNibbles(kDType) ? 8 : 4;  // k in 32 bits
    for (int word = 0; word < kStep / kPerWord; ++word) {
      const std::byte* words = numbers_ + word * kPanelColumns * 4;
      // One pass over all columns is a stream that the machine foresees; of
      // several, each is late to begin with.
      if constexpr (kVectors * kLanes < kPanelColumns) {
        hwy::Prefetch(words + 2 * GroupBytes(kDType));
      }
      IntVector raw[kVectors];
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        raw[v] = hn::LoadU(
            Ints(), reinterpret_cast<const int32_t*>(words) + v * kLanes);
        if constexpr (kDType == DType::kQ8_0) {
          raw[v] = hn::Xor(raw[v], hn::Set(Ints(), kSignBits));
        }
      });
      Unroll<kPerWord>([&](auto i) HEADRACE_INLINE_LAMBDA {
        FloatVector weights[kVectors];
        Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
          const FloatVector q = Number<decltype(i)::value>(raw[v]);
          if constexpr (HasMinimum(kDType)) {
            weights[v] = hn::MulAdd(q, scale_[v], minimum_[v]);
          } else {
            weights[v] = hn::Mul(q, scale_[v]);
          }
        });
        visitor(word * kPerWord + i, weights);
      });
    }
  }

 private:
  static constexpr int32_t kSignBits = static_cast<int32_t>(0x80808080u);

  HWY_INLINE FloatVector LoadHalves(const std::byte* halves, int v) const {
    const hn::Rebind<hwy::float16_t, Floats> d16;
    return hn::PromoteTo(
        Floats(),
        hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(halves) +
                           column_ + v * kLanes));
  }

  // The i-th number of each 32-bit word, as float32.
  template <int i>
  static HWY_INLINE FloatVector Number(IntVector raw) {
    const Floats d;
    if constexpr (kDType == DType::kQ8_0) {
      return hn::ConvertTo(d,
                           hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * i>(raw)));
    } else {
      // Low nibbles of four bytes, then the high ones.
      constexpr int kShift = i % 4 * 8 + i / 4 * 4;
      const IntVector shifted = hn::ShiftRight<kShift>(raw);
#if HWY_TARGET <= HWY_AVX3
      // A table of 16 needs no mask and converts on the way.
      constexpr float kZero = kDType == DType::kQ4_0 ? -8.0f : 0.0f;
      return FloatVector{
          _mm512_permutexvar_ps(shifted.raw, hn::Iota(d, kZero).raw)};
#else
      IntVector q = hn::And(shifted, hn::Set(Ints(), 15));
      if constexpr (kDType == DType::kQ4_0) q = hn::Sub(q, hn::Set(Ints(), 8));
      return hn::ConvertTo(d, q);
#endif
    }
  }

  const std::byte* panel_;
  int64_t column_;
  const std::byte* numbers_ = nullptr;
  FloatVector scale_[kVectors];
  FloatVector minimum_[HasMinimum(kDType) ? kVectors : 1];
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
