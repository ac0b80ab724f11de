// A matrix whose numbers are packed several to a 32-bit word, with a scale and
// a zero point for groups of inputs: weight = scale * (number - zero). Its rows
// are made when they are read, so the matrix is nowhere whole but in its file.
#ifndef HEADRACE_ENGINE_WEIGHTS_PACKED_MATRIX_H_
#define HEADRACE_ENGINE_WEIGHTS_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/tensor_view.h"
#include "engine/weights/quantization_config.h"

namespace headrace {

// A tensor of any dtype as it lies in a file.
struct RawTensor {
  std::string name;
  std::string location;         // "model.safetensors: offset 1234"
  std::string_view dtype_name;  // "I32"; static storage
  Shape shape;
  const std::byte* data = nullptr;  // aligned or not
};

// What one matrix [out, in] is stored as; null where it is not there. Words of
// 32 bits hold w = 32 / bits numbers, from the lowest bits up:
//
//            GPTQ                            AWQ
//   qweight  I32 [in / w, out], inputs       I32 [in, out / w], outputs 0, 2,
//            k, k + 1, ...                   4, 6, 1, 3, 5, 7 of 8
//   qzeros   I32 [groups, out / w], in       I32 [groups, out / w], as qweight
//            order; minus 1 in its first
//            format
//   scales   F16, BF16 or F32 [groups, out]
//   g_idx    I32 [in], the group of each     none: group_size neighbours each
//            input; or none, as AWQ
//
// compressed-tensors has other names, and two formats:
//
//            int-quantized                   pack-quantized
//   qweight  weight: I8 [out, in], signed    weight_packed: I32 [out, in / w],
//                                            inputs k, k + 1, ...
//   qzeros   weight_zero_point: I8 [out,     weight_zero_point: I32 [out / w,
//            groups], signed; or none: 0     groups], outputs in order; or
//            none:
//                                            the middle
//   scales   weight_scale: F16, BF16 or F32 [out, groups]; or one for all
//   g_idx    weight_g_idx: I32 [in], the group of each input; or none
//   shape                                    weight_shape: I64 or I32 [2], out
//                                            and in
//
// Source: AutoGPTQ 0.7.1 qlinear_cuda_old.py; AutoAWQ 0.2.9 linear/gemm.py;
// compressed-tensors 0.12.2 compressors/quantized_compressors.
struct PackedParts {
  const RawTensor* qweight = nullptr;
  const RawTensor* qzeros = nullptr;
  const RawTensor* scales = nullptr;
  const RawTensor* g_idx = nullptr;
  const RawTensor* shape = nullptr;
};

class PackedMatrix final : public RowMaker {
 public:
  // `module` is the X of X.qweight, for messages. What the parts point into
  // outlives the matrix.
  // Errors: DATA_LOSS for a part that is missing, has another dtype or a shape
  // that does not fit the others, or a group that does not exist.
  static absl::StatusOr<std::unique_ptr<PackedMatrix>> Create(
      const std::string& module, const PackedParts& parts,
      const QuantizationConfig& config);

  // Q8_C where each output has one scale, numbers of 8 bits and a zero point in
  // the middle, if activations are meant to be int8 or the scales are no F16
  // numbers. Else Q4_0 or Q8_0 where every zero point is the middle, Q4_Z or
  // Q8_Z where not, with an order of inputs where g_idx spreads the groups. F32
  // for what these cannot hold; why_float() says what it is then.
  TensorView view() const { return {dtype_, {out_, in_}, nullptr, this}; }
  const std::string& why_float() const { return why_float_; }

  void MakeRows(int64_t first, int64_t count, std::byte* dst) const override;
  std::span<const int32_t> order() const override { return inputs_; }

 private:
  enum class ScaleType : uint8_t { kF16, kBF16, kF32 };

  PackedMatrix() = default;

  absl::Status ReadShapes(const std::string& module, const PackedParts& parts,
                          const QuantizationConfig& config);
  absl::Status ReadScaleType(const RawTensor& scales);
  absl::Status ReadRows(const std::string& module, const PackedParts& parts,
                        const QuantizationConfig& config);
  absl::Status ReadRowsShape(const PackedParts& parts,
                             const QuantizationConfig& config);
  absl::Status ReadGroups(const std::string& module, const PackedParts& parts,
                          const QuantizationConfig& config);
  // Neighbours are groups.
  void FillGroups(int64_t group_size);
  bool FindOrder();
  std::optional<std::string> OddScale() const;
  bool AllZerosAreMiddle() const;
  void ChooseType(bool int8_activations);

  float ScaleAt(int64_t group, int64_t row) const;
  int ZeroAt(int64_t group, int64_t row) const;
  // numbers[i] of input input_at(i), for i in [0, count).
  template <typename InputAt>
  void ReadColumn(int64_t row, int64_t count, const InputAt& input_at,
                  uint8_t* numbers) const;
  uint8_t NumberAt(int64_t input, int64_t row) const;
  // Numbers of places [first, first + 32).
  void ReadNumbers(int64_t row, int64_t first, uint8_t* numbers) const;
  void MakeFloats(int64_t row, float* dst) const;

  WordOrder words_ = WordOrder::kGptq;
  int bits_ = 4;
  int per_word_ = 8;
  uint32_t add_to_zeros_ = 0;  // to a whole word
  int64_t out_ = 0;
  int64_t in_ = 0;
  int64_t num_groups_ = 0;
  bool signed_bytes_ = false;  // numbers and zero points, instead of words
  bool one_scale_ = false;     // of the whole matrix
  bool one_zero_ = false;      // as well
  const std::byte* qweight_ = nullptr;
  const std::byte* qzeros_ = nullptr;  // null: the middle
  const std::byte* scales_ = nullptr;
  ScaleType scale_type_ = ScaleType::kF16;
  std::vector<int32_t> groups_;  // by input
  std::vector<int32_t> inputs_;  // by place; empty: in order
  DType dtype_ = DType::kF32;
  std::string why_float_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_PACKED_MATRIX_H_
