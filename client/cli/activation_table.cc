#include "client/cli/activation_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/crc/crc32c.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace headrace::cli {
namespace {

int64_t ValueBytes(v1::WireDtype dtype) {
  switch (dtype) {
    case v1::WIRE_DTYPE_F32:
      return 4;
    case v1::WIRE_DTYPE_BF16:
    case v1::WIRE_DTYPE_F16:
      return 2;
    case v1::WIRE_DTYPE_INT8:
      return 1;
    default:
      return 0;  // not known here
  }
}

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

float LoadValue(const char* bytes, v1::WireDtype dtype) {
  switch (dtype) {
    case v1::WIRE_DTYPE_BF16:
      return std::bit_cast<float>(static_cast<uint32_t>(Load<uint16_t>(bytes))
                                  << 16);
    case v1::WIRE_DTYPE_F16:
      return static_cast<float>(Load<_Float16>(bytes));
    case v1::WIRE_DTYPE_INT8:
      return static_cast<float>(Load<int8_t>(bytes));
    default:
      return Load<float>(bytes);
  }
}

// Appends the chunk's rows; widening is exact.
void Decode(const v1::ActivationChunk& chunk, std::vector<float>& out) {
  const size_t begin = out.size();
  const size_t width = chunk.width();
  const auto bytes = static_cast<size_t>(ValueBytes(chunk.dtype()));
  out.resize(begin + chunk.row_count() * width);
  float* values = out.data() + begin;
  for (size_t i = 0; i < chunk.row_count() * width; ++i) {
    values[i] = LoadValue(chunk.data().data() + i * bytes, chunk.dtype());
  }
  if (chunk.dtype() != v1::WIRE_DTYPE_INT8) return;
  for (size_t i = 0; i < chunk.row_count() * width; ++i) {
    values[i] *= chunk.scales(static_cast<int>(i / width));
  }
  for (int i = 0; i < chunk.outlier_rows_size(); ++i) {
    values[chunk.outlier_rows(i) * width + chunk.outlier_dimensions(i)] =
        chunk.outlier_values(i);
  }
}

// What INT8 rows need beside their data.
absl::Status CheckScales(const v1::ActivationChunk& chunk) {
  const bool complete =
      chunk.scales_size() == static_cast<int>(chunk.row_count()) &&
      chunk.outlier_dimensions_size() == chunk.outlier_rows_size() &&
      chunk.outlier_values_size() == chunk.outlier_rows_size() &&
      std::all_of(chunk.outlier_rows().begin(), chunk.outlier_rows().end(),
                  [&](uint32_t row) { return row < chunk.row_count(); }) &&
      std::all_of(
          chunk.outlier_dimensions().begin(), chunk.outlier_dimensions().end(),
          [&](uint32_t dimension) { return dimension < chunk.width(); });
  if (complete) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("activation chunk ", chunk.sequence_number(),
                   ": its scales or outliers do not fit its rows"));
}

absl::Status CheckChunk(const v1::ActivationChunk& chunk,
                        uint64_t expected_number) {
  if (chunk.sequence_number() != expected_number) {
    return absl::DataLossError(
        absl::StrCat("activation chunk ", chunk.sequence_number(),
                     " came where ", expected_number, " was due"));
  }
  if (ValueBytes(chunk.dtype()) == 0) {
    return absl::UnimplementedError(
        absl::StrCat("this client does not read the wire type ",
                     static_cast<int>(chunk.dtype())));
  }
  const auto expected_bytes = static_cast<size_t>(
      ValueBytes(chunk.dtype()) * chunk.row_count() * chunk.width());
  if (chunk.data().size() != expected_bytes ||
      chunk.positions_size() != static_cast<int>(chunk.row_count())) {
    return absl::DataLossError(
        absl::StrCat("activation chunk ", chunk.sequence_number(), " has ",
                     chunk.data().size(), " bytes, not ", expected_bytes));
  }
  if (static_cast<uint32_t>(absl::ComputeCrc32c(chunk.data())) !=
      chunk.crc32c()) {
    return absl::DataLossError(absl::StrCat(
        "activation chunk ", chunk.sequence_number(), ": wrong checksum"));
  }
  if (chunk.dtype() == v1::WIRE_DTYPE_INT8) return CheckScales(chunk);
  return absl::OkStatus();
}

}  // namespace

absl::Status ActivationTable::Add(const v1::ActivationChunk& chunk) {
  if (absl::Status status = CheckChunk(chunk, next_chunk_); !status.ok()) {
    return status;
  }
  ++next_chunk_;
  ActivationArray& array =
      arrays_[{chunk.hook(),
               chunk.has_layer() ? static_cast<int64_t>(chunk.layer()) : -1}];
  array.width = chunk.width();
  array.positions.insert(array.positions.end(), chunk.positions().begin(),
                         chunk.positions().end());
  Decode(chunk, array.values);
  return absl::OkStatus();
}

const ActivationArray* ActivationTable::Find(v1::HookPoint hook,
                                             int64_t layer) const {
  const auto found = arrays_.find({hook, layer});
  return found == arrays_.end() ? nullptr : &found->second;
}

absl::Status ActivationTable::VerifySum(v1::HookPoint before,
                                        v1::HookPoint write,
                                        v1::HookPoint after, int64_t layer,
                                        int64_t& checked) const {
  const ActivationArray* parts[] = {Find(before, layer), Find(write, layer),
                                    Find(after, layer)};
  for (const ActivationArray* part : parts) {
    if (part == nullptr) return absl::OkStatus();
  }
  for (const ActivationArray* part : parts) {
    if (part->positions != parts[2]->positions) {
      return absl::DataLossError(absl::StrCat(
          "layer ", layer, " has different rows of ",
          v1::HookPoint_Name(before), ", ", v1::HookPoint_Name(write), " and ",
          v1::HookPoint_Name(after)));
    }
  }
  for (int64_t r = 0; r < parts[2]->rows(); ++r, ++checked) {
    for (int64_t i = 0; i < parts[2]->width; ++i) {
      const float sum = parts[0]->row(r)[i] + parts[1]->row(r)[i];
      if (sum == parts[2]->row(r)[i]) continue;
      return absl::DataLossError(absl::StrCat(
          v1::HookPoint_Name(before), " + ", v1::HookPoint_Name(write),
          " != ", v1::HookPoint_Name(after), " at layer ", layer, ", position ",
          parts[2]->positions[static_cast<size_t>(r)], ", dimension ", i));
    }
  }
  return absl::OkStatus();
}

absl::Status ActivationTable::Verify(int64_t& checked) const {
  for (const auto& [key, unused] : arrays_) {
    absl::Status status;
    if (key.first == v1::HOOK_POINT_RESID_MID) {
      status = VerifySum(v1::HOOK_POINT_RESID_PRE, v1::HOOK_POINT_ATTN_OUT,
                         v1::HOOK_POINT_RESID_MID, key.second, checked);
    } else if (key.first == v1::HOOK_POINT_RESID_POST) {
      status = VerifySum(v1::HOOK_POINT_RESID_MID, v1::HOOK_POINT_MLP_OUT,
                         v1::HOOK_POINT_RESID_POST, key.second, checked);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string ArrayName(const v1::HookPointInfo& hook, int64_t layer) {
  std::string name = hook.transformer_lens();
  if (name.empty()) {
    name = layer < 0 ? hook.name() : absl::StrCat("blocks.{l}.", hook.name());
  }
  if (hook.hook() == v1::HOOK_POINT_LOGITS) name = "logits";
  return absl::StrReplaceAll(name, {{"{l}", absl::StrCat(layer)}});
}

}  // namespace headrace::cli
