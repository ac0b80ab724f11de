#include "server/batching/wire_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/tensor/half.h"

namespace headrace {

namespace {

static_assert(std::endian::native == std::endian::little,
              "rows are copied to the wire as they lie in memory");

NarrowingLoss AppendBFloat16(std::span<const float> values, std::string& data) {
  NarrowingLoss loss;
  const size_t begin = data.size();
  data.resize(begin + values.size() * sizeof(uint16_t));
  char* out = data.data() + begin;
  for (const float value : values) {
    const uint16_t narrow = FloatToBFloat16(value);
    std::memcpy(out, &narrow, sizeof(narrow));
    out += sizeof(narrow);
    const float back = BFloat16ToFloat(narrow);
    if (std::isinf(back) && std::isfinite(value)) {
      ++loss.overflow_count;
    } else if (std::isfinite(value)) {
      loss.max_abs_error = std::max(loss.max_abs_error, std::abs(back - value));
    }
  }
  return loss;
}

}  // namespace

NarrowingLoss AppendWireRow(std::span<const float> values, WireDtype dtype,
                            std::string& data) {
  switch (dtype) {
    case WireDtype::kF32:
      data.append(reinterpret_cast<const char*>(values.data()),
                  values.size_bytes());
      return {};
    case WireDtype::kBF16:
      return AppendBFloat16(values, data);
  }
  return {};
}

}  // namespace headrace
