#include "server/convert/compression.h"

#include <zstd.h>

#include <cstddef>

namespace headrace {

namespace {

constexpr int kLevel = 1;
// Of the data, at the most.
constexpr double kWorthwhile = 0.95;

}  // namespace

std::optional<std::string> CompressZstd(std::string_view data) {
  std::string frame(ZSTD_compressBound(data.size()), '\0');
  const size_t size = ZSTD_compress(frame.data(), frame.size(), data.data(),
                                    data.size(), kLevel);
  if (ZSTD_isError(size) != 0 ||
      static_cast<double>(size) >
          kWorthwhile * static_cast<double>(data.size())) {
    return std::nullopt;
  }
  frame.resize(size);
  return frame;
}

}  // namespace headrace
