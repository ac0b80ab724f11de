#include "engine/weights/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tensor/block_formats.h"
#include "engine/tensor/half.h"
#include "engine/tensor/quantized_format.h"
#include "engine/weights/file_error.h"

namespace headrace {
namespace {

constexpr int64_t kWordBits = 32;

template <typename T>
T Load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

// Which number of its word an output is.
int PlaceInWord(WordOrder order, int64_t output, int per_word) {
  const int i = static_cast<int>(output % per_word);
  return order == WordOrder::kGptq ? i : i / 2 + i % 2 * per_word / 2;
}

absl::Status PartError(const RawTensor& part, std::string_view message) {
  return FileError(part.location,
                   absl::StrFormat("tensor %s %s", Quoted(part.name), message));
}

absl::Status CheckShape(const RawTensor& part, const Shape& wanted,
                        std::string_view why) {
  if (part.shape == wanted) return absl::OkStatus();
  return PartError(part, absl::StrFormat("has shape %s; %s wants %s",
                                         ShapeToString(part.shape), why,
                                         ShapeToString(wanted)));
}

absl::Status CheckMatrix(const RawTensor& part) {
  if (part.shape.size() == 2 && part.shape[0] > 0 && part.shape[1] > 0) {
    return absl::OkStatus();
  }
  return PartError(part, absl::StrFormat("has shape %s; a matrix with elements "
                                         "is wanted",
                                         ShapeToString(part.shape)));
}

absl::Status CheckIntegers(const RawTensor& part) {
  if (part.dtype_name == "I32") return absl::OkStatus();
  return PartError(part,
                   absl::StrFormat("is %s; I32 is wanted", part.dtype_name));
}

absl::Status CheckPresent(const RawTensor* part, const std::string& module,
                          std::string_view suffix) {
  if (part != nullptr) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("tensor %s%s is missing; other parts of that matrix are "
                      "there",
                      module, suffix));
}

// By the shapes, where the configuration has exceptions.
absl::StatusOr<int64_t> BitsOf(const PackedParts& parts,
                               const QuantizationConfig& config) {
  if (!config.has_overrides) return config.bits;
  const int64_t outputs = parts.qweight->shape[1];
  const int64_t words = parts.qzeros->shape[1];
  for (const int64_t bits : {4, 8}) {
    if (words * kWordBits == outputs * bits) return bits;
  }
  return PartError(
      *parts.qzeros,
      absl::StrFormat("has shape %s for %d outputs; supported are numbers of 4 "
                      "or 8 bits, in %d or %d words",
                      ShapeToString(parts.qzeros->shape), outputs, outputs / 8,
                      outputs / 4));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> PackedMatrix::Create(
    const std::string& module, const PackedParts& parts,
    const QuantizationConfig& config) {
  RETURN_IF_ERROR(CheckPresent(parts.qweight, module, ".qweight"));
  RETURN_IF_ERROR(CheckPresent(parts.qzeros, module, ".qzeros"));
  RETURN_IF_ERROR(CheckPresent(parts.scales, module, ".scales"));
  std::unique_ptr<PackedMatrix> matrix(new PackedMatrix);
  RETURN_IF_ERROR(matrix->ReadShapes(module, parts, config));
  RETURN_IF_ERROR(matrix->ReadGroups(module, parts, config));
  matrix->ChooseType();
  return matrix;
}

absl::Status PackedMatrix::ReadShapes(const std::string& module,
                                      const PackedParts& parts,
                                      const QuantizationConfig& config) {
  for (const RawTensor* part : {parts.qweight, parts.qzeros, parts.scales}) {
    RETURN_IF_ERROR(CheckMatrix(*part));
  }
  RETURN_IF_ERROR(CheckIntegers(*parts.qweight));
  RETURN_IF_ERROR(CheckIntegers(*parts.qzeros));
  const std::string_view type = parts.scales->dtype_name;
  if (type != "F16" && type != "BF16" && type != "F32") {
    return PartError(
        *parts.scales,
        absl::StrFormat("is %s; F16, BF16 or F32 is wanted", type));
  }
  scale_type_ = type == "F16"    ? ScaleType::kF16
                : type == "BF16" ? ScaleType::kBF16
                                 : ScaleType::kF32;
  words_ = config.order;
  ASSIGN_OR_RETURN(const int64_t bits, BitsOf(parts, config));
  bits_ = static_cast<int>(bits);
  per_word_ = static_cast<int>(kWordBits / bits);
  const bool words_of_inputs = words_ == WordOrder::kGptq;
  in_ = parts.qweight->shape[0] * (words_of_inputs ? per_word_ : 1);
  out_ = parts.qweight->shape[1] * (words_of_inputs ? 1 : per_word_);
  num_groups_ = parts.scales->shape[0];
  const std::string why =
      absl::StrFormat("%s.qweight of shape %s in %s of %d bits", module,
                      ShapeToString(parts.qweight->shape), config.name, bits_);
  if (out_ % per_word_ != 0) {
    return PartError(*parts.qweight,
                     absl::StrFormat("has %d outputs; zero points of %d bits "
                                     "want a multiple of %d",
                                     out_, bits_, per_word_));
  }
  RETURN_IF_ERROR(CheckShape(*parts.scales, {num_groups_, out_}, why));
  RETURN_IF_ERROR(
      CheckShape(*parts.qzeros, {num_groups_, out_ / per_word_}, why));
  qweight_ = parts.qweight->data;
  qzeros_ = parts.qzeros->data;
  scales_ = parts.scales->data;
  // One per number, with carries: the inverse of how the format is written,
  // which takes one from each, word by word, with borrows.
  if (config.zeros_minus_one) {
    add_to_zeros_ = bits_ == 4 ? 0x11111111u : 0x01010101u;
  }
  return absl::OkStatus();
}

absl::Status PackedMatrix::ReadGroups(const std::string& module,
                                      const PackedParts& parts,
                                      const QuantizationConfig& config) {
  const int64_t size = config.group_size < 0 ? in_ : config.group_size;
  const int64_t expected = (in_ + size - 1) / size;
  if (num_groups_ != expected && !config.has_overrides) {
    return PartError(
        *parts.scales,
        absl::StrFormat("has %d groups; quantization_config.group_size = %d "
                        "makes %d of %d inputs",
                        num_groups_, config.group_size, expected, in_));
  }
  groups_.resize(static_cast<size_t>(in_));
  if (parts.g_idx == nullptr) {
    if (config.desc_act) {
      return absl::DataLossError(absl::StrFormat(
          "tensor %s.g_idx is missing, but quantization_config.desc_act is "
          "true",
          module));
    }
    const int64_t group_size =
        config.has_overrides ? (in_ + num_groups_ - 1) / num_groups_ : size;
    for (int64_t k = 0; k < in_; ++k) {
      groups_[static_cast<size_t>(k)] = static_cast<int32_t>(k / group_size);
    }
    return absl::OkStatus();
  }
  const RawTensor& g_idx = *parts.g_idx;
  RETURN_IF_ERROR(CheckIntegers(g_idx));
  RETURN_IF_ERROR(CheckShape(g_idx, {in_}, absl::StrCat(module, ".qweight")));
  for (int64_t k = 0; k < in_; ++k) {
    const auto group = Load<int32_t>(g_idx.data, k);
    if (group < 0 || group >= num_groups_) {
      return PartError(g_idx,
                       absl::StrFormat("has group %d for input %d, outside "
                                       "[0, %d)",
                                       group, k, num_groups_));
    }
    groups_[static_cast<size_t>(k)] = group;
  }
  return absl::OkStatus();
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

// Whether every scale is an F16 number.
bool PackedMatrix::HoldsScales() {
  if (scale_type_ == ScaleType::kF16) return true;
  for (int64_t group = 0; group < num_groups_; ++group) {
    for (int64_t row = 0; row < out_; ++row) {
      const float scale = ScaleAt(group, row);
      if (HalfToFloat(FloatToHalf(scale)) == scale || std::isnan(scale)) {
        continue;
      }
      why_float_ =
          absl::StrFormat("scale %g of output %d is no F16 number", scale, row);
      return false;
    }
  }
  return true;
}

void PackedMatrix::ChooseType() {
  if (!HoldsScales() || !FindOrder()) return;
  bool all_middle = true;
  for (int64_t group = 0; group < num_groups_; ++group) {
    for (int64_t row = 0; row < out_; ++row) {
      all_middle = all_middle && ZeroAt(group, row) == 1 << (bits_ - 1);
    }
  }
  dtype_ = bits_ == 4 ? (all_middle ? DType::kQ4_0 : DType::kQ4_Z)
                      : (all_middle ? DType::kQ8_0 : DType::kQ8_Z);
}

float PackedMatrix::ScaleAt(int64_t group, int64_t row) const {
  const int64_t index = group * out_ + row;
  switch (scale_type_) {
    case ScaleType::kF16:
      return HalfToFloat(Load<uint16_t>(scales_, index));
    case ScaleType::kBF16:
      return BFloat16ToFloat(Load<uint16_t>(scales_, index));
    case ScaleType::kF32:
      break;
  }
  return Load<float>(scales_, index);
}

int PackedMatrix::ZeroAt(int64_t group, int64_t row) const {
  const auto word =
      Load<uint32_t>(qzeros_, group * (out_ / per_word_) + row / per_word_) +
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
  const uint32_t mask = (1u << bits_) - 1;
  const int words_log2 = std::countr_zero(static_cast<uint32_t>(per_word_));
  const bool of_inputs = words_ == WordOrder::kGptq;
  const int64_t stride = of_inputs ? out_ : out_ >> words_log2;
  const int64_t column = of_inputs ? row : row >> words_log2;
  const int shift = of_inputs ? 0 : PlaceInWord(words_, row, per_word_) * bits_;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t input = input_at(i);
    const int64_t line = of_inputs ? input >> words_log2 : input;
    const int place = static_cast<int>(input & (per_word_ - 1)) * bits_;
    const auto word = Load<uint32_t>(qweight_, line * stride + column);
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
          Load<uint32_t>(qweight_, (first + i) / per_word_ * out_ + row);
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
      stored.scale = FloatToHalf(ScaleAt(group, row));
      stored.minimum_factor =
          static_cast<int8_t>(ZeroAt(group, row) - format.offset);
      ReadNumbers(row, k, stored.numbers);
      WriteGroup(dtype_, stored, block + i * row_bytes);
    }
  }
}

}  // namespace headrace
