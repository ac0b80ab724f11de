#include "client/cli/activation_table.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cpp/chunk_data.h"

namespace headrace::cli {
namespace {

size_t ValueBytes(v1::WireDtype dtype) {
  if (dtype == v1::WIRE_DTYPE_F32) return 4;
  return dtype == v1::WIRE_DTYPE_INT8 ? 1 : 2;
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
void Decode(const v1::ActivationChunk& chunk, std::string_view data,
            std::vector<float>& out) {
  const size_t begin = out.size();
  const size_t width = chunk.width();
  const size_t bytes = ValueBytes(chunk.dtype());
  out.resize(begin + chunk.row_count() * width);
  float* values = out.data() + begin;
  for (size_t i = 0; i < chunk.row_count() * width; ++i) {
    values[i] = LoadValue(data.data() + i * bytes, chunk.dtype());
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

absl::Status CheckNumber(const v1::ActivationChunk& chunk,
                         uint64_t expected_number) {
  if (chunk.sequence_number() == expected_number) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("activation chunk ", chunk.sequence_number(), " came where ",
                   expected_number, " was due"));
}

// Rows of a head with their keys.
absl::Status AddRowsByKey(const v1::ActivationChunk& chunk,
                          const std::vector<float>& values,
                          AttentionArray& array) {
  const auto rows = static_cast<int>(chunk.row_count());
  const auto width = static_cast<int>(chunk.width());
  const bool ranked = !chunk.key_positions().empty();
  if (chunk.key_starts_size() != rows || chunk.key_counts_size() != rows ||
      (ranked && chunk.key_positions_size() != rows * width) ||
      std::any_of(chunk.key_counts().begin(), chunk.key_counts().end(),
                  [&](uint32_t count) { return count > chunk.width(); })) {
    return absl::DataLossError(absl::StrCat("activation chunk ",
                                            chunk.sequence_number(),
                                            ": its keys do not fit its rows"));
  }
  std::vector<AttentionArray::Row>& head = array.heads[chunk.head()];
  for (int r = 0; r < rows; ++r) {
    const auto begin = values.begin() + static_cast<int64_t>(r) * width;
    AttentionArray::Row& row = head.emplace_back();
    row.position = chunk.positions(r);
    row.first_key = chunk.key_starts(r);
    row.values.assign(begin, begin + chunk.key_counts(r));
    if (!ranked) continue;
    const auto keys = chunk.key_positions().begin() + r * width;
    row.keys.assign(keys, keys + chunk.key_counts(r));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t AttentionArray::keys() const {
  size_t most = 0;
  for (const auto& [head, rows] : heads) {
    for (const Row& row : rows) {
      const size_t first =
          row.keys.empty() ? static_cast<size_t>(row.first_key) : 0;
      most = std::max(most, first + row.values.size());
    }
  }
  return static_cast<int64_t>(most);
}

std::vector<float> AttentionArray::Dense(float empty) const {
  const auto width = static_cast<size_t>(keys());
  std::vector<float> dense;
  for (const auto& [head, rows] : heads) {
    for (const Row& row : rows) {
      const size_t first =
          row.keys.empty() ? static_cast<size_t>(row.first_key) : 0;
      dense.resize(dense.size() + first, empty);
      dense.insert(dense.end(), row.values.begin(), row.values.end());
      dense.resize(dense.size() + width - first - row.values.size(), empty);
    }
  }
  return dense;
}

std::vector<int64_t> AttentionArray::KeyPositions() const {
  const auto width = static_cast<size_t>(keys());
  std::vector<int64_t> positions;
  for (const auto& [head, rows] : heads) {
    for (const Row& row : rows) {
      if (row.keys.empty()) return {};
      positions.insert(positions.end(), row.keys.begin(), row.keys.end());
      positions.resize(positions.size() + width - row.keys.size(), -1);
    }
  }
  return positions;
}

absl::Status ActivationTable::Add(const v1::ActivationChunk& chunk) {
  if (absl::Status status = CheckNumber(chunk, next_chunk_); !status.ok()) {
    return status;
  }
  std::string scratch;
  const absl::StatusOr<std::string_view> data =
      client::ChunkData(chunk, scratch);
  if (!data.ok()) return data.status();
  if (chunk.dtype() == v1::WIRE_DTYPE_INT8) {
    if (absl::Status status = CheckScales(chunk); !status.ok()) return status;
  }
  ++next_chunk_;
  const Key key = {chunk.hook(), chunk.has_layer()
                                     ? static_cast<int64_t>(chunk.layer())
                                     : -1};
  if (chunk.has_head()) {
    std::vector<float> values;
    Decode(chunk, *data, values);
    return AddRowsByKey(chunk, values, attention_[key]);
  }
  ActivationArray& array = arrays_[key];
  array.width = chunk.width();
  array.positions.insert(array.positions.end(), chunk.positions().begin(),
                         chunk.positions().end());
  Decode(chunk, *data, array.values);
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
