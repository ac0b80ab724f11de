#include "client/cli/direction_file.h"

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/tensor/block_formats.h"
#include "engine/weights/weight_source.h"

namespace headrace::cli {
namespace {

constexpr char kPrefix[] = "direction.";
constexpr char kDecoder[] = "W_dec";

std::vector<float> RowOf(const TensorView& view, int64_t row, int64_t width) {
  std::vector<float> values(static_cast<size_t>(width));
  DequantizeRow(view.dtype, view.row(row), values);
  return values;
}

// direction.N of every layer that has one, by layer.
absl::StatusOr<std::vector<Direction>> ReadControlVector(
    const WeightSource& source) {
  std::vector<Direction> directions;
  for (const StoredTensor& tensor : source.tensors()) {
    absl::string_view number(tensor.name);
    int64_t layer = 0;
    if (!absl::ConsumePrefix(&number, kPrefix) ||
        !absl::SimpleAtoi(number, &layer) || tensor.view.shape.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          tensor.location, ": ", tensor.name,
          " is no direction.N of one dimension, as control vectors have"));
    }
    directions.push_back(
        {.layer = layer, .values = RowOf(tensor.view, 0, tensor.view.dim(0))});
  }
  std::sort(
      directions.begin(), directions.end(),
      [](const Direction& a, const Direction& b) { return a.layer < b.layer; });
  return directions;
}

absl::StatusOr<std::vector<Direction>> ReadDecoder(
    const StoredTensor& decoder, const std::vector<int64_t>& features) {
  const TensorView& view = decoder.view;
  if (view.shape.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(decoder.location, ": W_dec is no matrix"));
  }
  if (features.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--features is missing: W_dec has ", view.dim(0),
                     " of them, [features, width]"));
  }
  std::vector<Direction> directions;
  for (const int64_t feature : features) {
    if (feature < 0 || feature >= view.dim(0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--features must be from 0 to ", view.dim(0) - 1, "; has ", feature));
    }
    directions.push_back(
        {.feature = feature, .values = RowOf(view, feature, view.dim(1))});
  }
  return directions;
}

}  // namespace

absl::StatusOr<std::vector<Direction>> ReadDirections(
    const std::string& path, const std::vector<int64_t>& features) {
  const auto source = OpenWeightSource(path);
  if (!source.ok()) return source.status();
  const nlohmann::ordered_json& metadata = (*source)->metadata();
  const auto architecture = metadata.find("general.architecture");
  if (architecture != metadata.end() && *architecture == "controlvector") {
    if (!features.empty()) {
      return absl::InvalidArgumentError(
          "--features is of sparse autoencoders; this is a control vector");
    }
    return ReadControlVector(**source);
  }
  const StoredTensor* decoder = (*source)->Find(kDecoder);
  if (decoder != nullptr) return ReadDecoder(*decoder, features);
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   " holds no directions: neither a GGUF control vector "
                   "(general.architecture is controlvector) nor a W_dec"));
}

}  // namespace headrace::cli
