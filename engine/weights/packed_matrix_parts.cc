// How PackedMatrix reads and checks what it is stored as.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/weights/file_error.h"
#include "engine/weights/load_number.h"
#include "engine/weights/packed_matrix.h"

namespace headrace {
namespace {

constexpr int64_t kWordBits = 32;

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
  std::unique_ptr<PackedMatrix> matrix(new PackedMatrix);
  matrix->words_ = config.order;
  RETURN_IF_ERROR(config.order == WordOrder::kRows
                      ? matrix->ReadRows(module, parts, config)
                      : matrix->ReadShapes(module, parts, config));
  RETURN_IF_ERROR(matrix->ReadGroups(module, parts, config));
  matrix->ChooseType(config.int8_activations);
  return matrix;
}

absl::Status PackedMatrix::ReadShapes(const std::string& module,
                                      const PackedParts& parts,
                                      const QuantizationConfig& config) {
  RETURN_IF_ERROR(CheckPresent(parts.qweight, module, ".qweight"));
  RETURN_IF_ERROR(CheckPresent(parts.qzeros, module, ".qzeros"));
  RETURN_IF_ERROR(CheckPresent(parts.scales, module, ".scales"));
  for (const RawTensor* part : {parts.qweight, parts.qzeros, parts.scales}) {
    RETURN_IF_ERROR(CheckMatrix(*part));
  }
  RETURN_IF_ERROR(CheckIntegers(*parts.qweight));
  RETURN_IF_ERROR(CheckIntegers(*parts.qzeros));
  RETURN_IF_ERROR(ReadScaleType(*parts.scales));
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

absl::Status PackedMatrix::ReadScaleType(const RawTensor& scales) {
  const std::string_view type = scales.dtype_name;
  if (type != "F16" && type != "BF16" && type != "F32") {
    return PartError(
        scales, absl::StrFormat("is %s; F16, BF16 or F32 is wanted", type));
  }
  scale_type_ = type == "F16"    ? ScaleType::kF16
                : type == "BF16" ? ScaleType::kBF16
                                 : ScaleType::kF32;
  return absl::OkStatus();
}

absl::Status PackedMatrix::ReadRows(const std::string& module,
                                    const PackedParts& parts,
                                    const QuantizationConfig& config) {
  RETURN_IF_ERROR(
      CheckPresent(parts.qweight, module,
                   parts.shape == nullptr ? ".weight" : ".weight_packed"));
  RETURN_IF_ERROR(CheckPresent(parts.scales, module, ".weight_scale"));
  RETURN_IF_ERROR(CheckMatrix(*parts.qweight));
  RETURN_IF_ERROR(ReadRowsShape(parts, config));
  RETURN_IF_ERROR(ReadScaleType(*parts.scales));
  const Shape& scales = parts.scales->shape;
  one_scale_ = NumElements(scales) == 1;
  num_groups_ = one_scale_ ? 1 : scales.back();
  if (!one_scale_ && (scales.size() != 2 || scales[0] != out_ ||
                      num_groups_ < 1 || in_ % num_groups_ != 0)) {
    return PartError(
        *parts.scales,
        absl::StrFormat("has shape %s; %s of %d outputs and %d inputs wants "
                        "[%d, groups of as many inputs each] or one scale",
                        ShapeToString(scales), Quoted(parts.qweight->name),
                        out_, in_, out_));
  }
  scales_ = parts.scales->data;
  qweight_ = parts.qweight->data;
  if (parts.qzeros == nullptr) return absl::OkStatus();
  const RawTensor& zeros = *parts.qzeros;
  const std::string_view wanted = signed_bytes_ ? "I8" : "I32";
  if (zeros.dtype_name != wanted) {
    return PartError(zeros, absl::StrFormat("is %s; %s is wanted",
                                            zeros.dtype_name, wanted));
  }
  const int64_t zero_rows =
      signed_bytes_ ? out_ : (out_ + per_word_ - 1) / per_word_;
  one_zero_ = signed_bytes_ && one_scale_ && NumElements(zeros.shape) == 1;
  if (!one_zero_) {
    RETURN_IF_ERROR(CheckShape(zeros, {zero_rows, num_groups_},
                               Quoted(parts.scales->name)));
  }
  qzeros_ = zeros.data;
  return absl::OkStatus();
}

// Of bytes, theirs; of words, what weight_shape says, if they hold it.
absl::Status PackedMatrix::ReadRowsShape(const PackedParts& parts,
                                         const QuantizationConfig& config) {
  const RawTensor& weight = *parts.qweight;
  out_ = weight.shape[0];
  if (parts.shape == nullptr) {
    if (weight.dtype_name != "I8") {
      return PartError(weight, absl::StrFormat("is %s without a weight_shape; "
                                               "I8 is wanted",
                                               weight.dtype_name));
    }
    signed_bytes_ = true;
    bits_ = 8;
    in_ = weight.shape[1];
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckIntegers(weight));
  const RawTensor& shape = *parts.shape;
  RETURN_IF_ERROR(CheckShape(shape, {2}, Quoted(weight.name)));
  if (shape.dtype_name != "I64" && shape.dtype_name != "I32") {
    return PartError(shape, absl::StrFormat("is %s; I64 or I32 is wanted",
                                            shape.dtype_name));
  }
  const auto at = [&shape](int64_t i) {
    return shape.dtype_name == "I64" ? LoadNumber<int64_t>(shape.data, i)
                                     : LoadNumber<int32_t>(shape.data, i);
  };
  in_ = at(1);
  for (const int64_t bits : {config.bits, int64_t{4}, int64_t{8}}) {
    per_word_ = static_cast<int>(kWordBits / bits);
    bits_ = static_cast<int>(bits);
    if (at(0) == out_ && in_ > (weight.shape[1] - 1) * per_word_ &&
        in_ <= weight.shape[1] * per_word_) {
      return absl::OkStatus();
    }
  }
  return PartError(
      shape, absl::StrFormat(
                 "is [%d, %d]; %s of shape %s does not hold that in "
                 "numbers of 4 or 8 bits",
                 at(0), in_, Quoted(weight.name), ShapeToString(weight.shape)));
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
  if (parts.g_idx == nullptr || one_scale_) {
    if (config.desc_act) {
      return absl::DataLossError(absl::StrFormat(
          "tensor %s.g_idx is missing, but quantization_config.desc_act is "
          "true",
          module));
    }
    FillGroups(config.has_overrides ? (in_ + num_groups_ - 1) / num_groups_
                                    : size);
    return absl::OkStatus();
  }
  const RawTensor& g_idx = *parts.g_idx;
  RETURN_IF_ERROR(CheckIntegers(g_idx));
  RETURN_IF_ERROR(CheckShape(g_idx, {in_}, parts.qweight->name));
  for (int64_t k = 0; k < in_; ++k) {
    const auto group = LoadNumber<int32_t>(g_idx.data, k);
    if (group == -1 && words_ == WordOrder::kRows) {  // is not used
      FillGroups(in_ / num_groups_);
      return absl::OkStatus();
    }
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

}  // namespace headrace
