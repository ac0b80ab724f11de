#include "engine/weights/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "engine/tensor/block_formats.h"
#include "engine/tensor/half.h"
#include "engine/tensor/quantized_format.h"
#include "engine/weights/load_number.h"

namespace headrace {
namespace {

// Which number of its word an output is.
int PlaceInWord(WordOrder order, int64_t output, int per_word) {
  const int i = static_cast<int>(output % per_word);
  return order != WordOrder::kAwq ? i : i / 2 + i % 2 * per_word / 2;
}

}  // namespace

void PackedMatrix::FillGroups(int64_t group_size) {
  for (int64_t k = 0; k < in_; ++k) {
    groups_[static_cast<size_t>(k)] = static_cast<int32_t>(k / group_size);
  }
}

// Whether the inputs of every 32 places have one group, if need be in an order
// that puts those of a group beside each other.
bool PackedMatrix::FindOrder() {
  if (in_ % kGroupSize != 0) {
    why_float_ =
        absl::StrFormat("%d inputs are no multiple of %d", in_, kGroupSize);
    return false;
  }
  const auto group_at = [this](size_t place) {
    return groups_[inputs_.empty() ? place
                                   : static_cast<size_t>(inputs_[place])];
  };
  const auto holds = [&] {
    for (size_t k = 0; k < groups_.size(); ++k) {
      if (group_at(k) != group_at(k / kGroupSize * kGroupSize)) return false;
    }
    return true;
  };
  if (holds()) return true;
  inputs_.resize(groups_.size());
  std::iota(inputs_.begin(), inputs_.end(), 0);
  std::ranges::stable_sort(inputs_, {}, [this](int32_t input) {
    return groups_[static_cast<size_t>(input)];
  });
  if (holds()) return true;
  inputs_.clear();
  why_float_ =
      absl::StrFormat("its groups are no multiples of %d inputs", kGroupSize);
  return false;
}

// The first scale that is no F16 number, if one is not.
std::optional<std::string> PackedMatrix::OddScale() const {
  if (scale_type_ == ScaleType::kF16) return std::nullopt;
  for (int64_t group = 0; group < num_groups_; ++group) {
    for (int64_t row = 0; row < out_; ++row) {
      const float scale = ScaleAt(group, row);
      if (HalfToFloat(FloatToHalf(scale)) == scale || std::isnan(scale)) {
        continue;
      }
      return absl::StrFormat("scale %g of output %d is no F16 number", scale,
                             row);
    }
  }
  return std::nullopt;
}

bool PackedMatrix::AllZerosAreMiddle() const {
  for (int64_t group = 0; group < num_groups_; ++group) {
    for (int64_t row = 0; row < out_; ++row) {
      if (ZeroAt(group, row) != 1 << (bits_ - 1)) return false;
    }
  }
  return true;
}

void PackedMatrix::ChooseType(bool int8_activations) {
  const bool all_middle = AllZerosAreMiddle();
  const bool one_scale = bits_ == 8 && num_groups_ == 1 && all_middle;
  std::optional<std::string> odd_scale = OddScale();
  // Q8_C is the fastest, and rounds each row of activations as a whole, which
  // is coarser than in groups: for who asks for it.
  const bool by_output =
      one_scale && (int8_activations || odd_scale.has_value());
  if (!by_output && odd_scale.has_value()) {
    why_float_ = *std::move(odd_scale);
    return;
  }
  if (!FindOrder()) return;
  dtype_ = by_output    ? DType::kQ8_C
           : bits_ == 4 ? (all_middle ? DType::kQ4_0 : DType::kQ4_Z)
                        : (all_middle ? DType::kQ8_0 : DType::kQ8_Z);
}

float PackedMatrix::ScaleAt(int64_t group, int64_t row) const {
  const int64_t index = one_scale_                   ? 0
                        : words_ == WordOrder::kRows ? row * num_groups_ + group
                                                     : group * out_ + row;
  switch (scale_type_) {
    case ScaleType::kF16:
      return HalfToFloat(LoadNumber<uint16_t>(scales_, index));
    case ScaleType::kBF16:
      return BFloat16ToFloat(LoadNumber<uint16_t>(scales_, index));
    case ScaleType::kF32:
      break;
  }
  return LoadNumber<float>(scales_, index);
}

int PackedMatrix::ZeroAt(int64_t group, int64_t row) const {
  if (qzeros_ == nullptr) return 1 << (bits_ - 1);
  const int64_t of_rows =
      one_zero_ ? 0
                : (signed_bytes_ ? row : row / per_word_) * num_groups_ + group;
  if (signed_bytes_) return LoadNumber<int8_t>(qzeros_, of_rows) + 128;
  const auto word =
      LoadNumber<uint32_t>(qzeros_,
                           words_ == WordOrder::kRows
                               ? of_rows
                               : group * (out_ / per_word_) + row / per_word_) +
      add_to_zeros_;
  const int shift = PlaceInWord(words_, row, per_word_) * bits_;
  return static_cast<int>(word >> shift & ((1u << bits_) - 1));
}

uint8_t PackedMatrix::NumberAt(int64_t input, int64_t row) const {
  uint8_t number;
  ReadColumn(row, 1, [input](int64_t /*i*/) { return input; }, &number);
  return number;
}

template <typename InputAt>
void PackedMatrix::ReadColumn(int64_t row, int64_t count,
                              const InputAt& input_at, uint8_t* numbers) const {
  if (signed_bytes_) {
    for (int64_t i = 0; i < count; ++i) {
      numbers[i] =
          LoadNumber<uint8_t>(qweight_, row * in_ + input_at(i)) ^ 0x80u;
    }
    return;
  }
  const uint32_t mask = (1u << bits_) - 1;
  const int words_log2 = std::countr_zero(static_cast<uint32_t>(per_word_));
  const bool of_inputs = words_ != WordOrder::kAwq;
  const bool of_rows = words_ == WordOrder::kRows;
  const int64_t stride = of_rows ? 1 : of_inputs ? out_ : out_ >> words_log2;
  const int64_t column = of_rows     ? row * ((in_ + per_word_ - 1) / per_word_)
                         : of_inputs ? row
                                     : row >> words_log2;
  const int shift = of_inputs ? 0 : PlaceInWord(words_, row, per_word_) * bits_;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t input = input_at(i);
    const int64_t line = of_inputs ? input >> words_log2 : input;
    const int place = static_cast<int>(input & (per_word_ - 1)) * bits_;
    const auto word = LoadNumber<uint32_t>(qweight_, line * stride + column);
    numbers[i] =
        static_cast<uint8_t>(word >> (of_inputs ? place : shift) & mask);
  }
}

void PackedMatrix::ReadNumbers(int64_t row, int64_t first,
                               uint8_t* numbers) const {
  if (words_ == WordOrder::kGptq && inputs_.empty()) {  // whole words
    const uint32_t mask = (1u << bits_) - 1;
    for (int64_t i = 0; i < kGroupSize; i += per_word_) {
      const auto word =
          LoadNumber<uint32_t>(qweight_, (first + i) / per_word_ * out_ + row);
      for (int j = 0; j < per_word_; ++j) {
        numbers[i + j] = static_cast<uint8_t>(word >> j * bits_ & mask);
      }
    }
    return;
  }
  if (inputs_.empty()) {
    ReadColumn(
        row, kGroupSize, [first](int64_t i) { return first + i; }, numbers);
    return;
  }
  const int32_t* inputs = inputs_.data() + first;
  ReadColumn(
      row, kGroupSize, [inputs](int64_t i) { return inputs[i]; }, numbers);
}

void PackedMatrix::MakeFloats(int64_t row, float* dst) const {
  for (int64_t k = 0; k < in_; ++k) {
    const int64_t group = groups_[static_cast<size_t>(k)];
    dst[k] = ScaleAt(group, row) *
             static_cast<float>(NumberAt(k, row) - ZeroAt(group, row));
  }
}

void PackedMatrix::MakeRows(int64_t first, int64_t count,
                            std::byte* dst) const {
  const TensorView made = view();
  const int64_t row_bytes = made.row_bytes();
  if (dtype_ == DType::kF32) {
    std::vector<float> floats(static_cast<size_t>(in_));
    for (int64_t i = 0; i < count; ++i) {
      MakeFloats(first + i, floats.data());
      std::memcpy(dst + i * row_bytes, floats.data(),
                  static_cast<size_t>(row_bytes));
    }
    return;
  }
  const QuantizedFormat format = FormatOf(dtype_);
  // Neighbouring rows lie beside each other in the file, a row's inputs far
  // apart.
  for (int64_t k = 0; k < in_; k += kGroupSize) {
    const int64_t input = inputs_.empty() ? k : inputs_[static_cast<size_t>(k)];
    const int64_t group = groups_[static_cast<size_t>(input)];
    std::byte* block = dst + k / kGroupSize * LayoutOf(dtype_).bytes;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = first + i;
      StoredGroup stored;
      ReadNumbers(row, k, stored.numbers);
      if (format.row_scale) {
        stored.row_scale = ScaleAt(group, row);
        for (uint8_t& number : stored.numbers) number ^= 0x80u;
      } else {
        stored.scale = FloatToHalf(ScaleAt(group, row));
        stored.minimum_factor =
            static_cast<int8_t>(ZeroAt(group, row) - format.offset);
      }
      WriteGroup(dtype_, stored, block + i * row_bytes);
    }
  }
}

}  // namespace headrace
