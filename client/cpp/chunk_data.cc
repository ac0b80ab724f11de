#include "client/cpp/chunk_data.h"

#include <zstd.h>

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "engine/checksum/crc32c.h"

namespace headrace::client {
namespace {

// Bytes of a value; 0 when the type is not known here.
size_t ValueBytes(v1::WireDtype dtype) {
  switch (dtype) {
    case v1::WIRE_DTYPE_F32:
      return 4;
    case v1::WIRE_DTYPE_BF16:
    case v1::WIRE_DTYPE_F16:
      return 2;
    case v1::WIRE_DTYPE_INT8:
      return 1;
    default:
      return 0;
  }
}

std::string Name(const v1::ActivationChunk& chunk) {
  return absl::StrCat("activation chunk ", chunk.sequence_number());
}

// At most `size` bytes are made of it, whatever it claims.
absl::StatusOr<std::string_view> Decompress(const v1::ActivationChunk& chunk,
                                            size_t size, std::string& scratch) {
  scratch.resize(size);
  const size_t got = ZSTD_decompress(scratch.data(), size, chunk.data().data(),
                                     chunk.data().size());
  if (ZSTD_isError(got) != 0) {
    return absl::DataLossError(
        absl::StrCat(Name(chunk), ": zstd: ", ZSTD_getErrorName(got)));
  }
  return std::string_view(scratch).substr(0, got);
}

}  // namespace

absl::StatusOr<std::string_view> ChunkData(const v1::ActivationChunk& chunk,
                                           std::string& scratch) {
  const size_t value_bytes = ValueBytes(chunk.dtype());
  if (value_bytes == 0) {
    return absl::UnimplementedError(
        absl::StrCat("this client does not read the wire type ",
                     static_cast<int>(chunk.dtype())));
  }
  const size_t size =
      value_bytes * chunk.row_count() * static_cast<size_t>(chunk.width());
  std::string_view data = chunk.data();
  if (chunk.compression() == v1::COMPRESSION_ZSTD) {
    const absl::StatusOr<std::string_view> decompressed =
        Decompress(chunk, size, scratch);
    if (!decompressed.ok()) return decompressed.status();
    data = *decompressed;
  } else if (chunk.compression() > v1::COMPRESSION_ZSTD) {
    return absl::UnimplementedError(
        absl::StrCat("this client does not read the compression ",
                     static_cast<int>(chunk.compression())));
  }
  if (data.size() != size ||
      chunk.positions_size() != static_cast<int>(chunk.row_count())) {
    return absl::DataLossError(
        absl::StrCat(Name(chunk), " has ", data.size(), " bytes, not ", size));
  }
  if (ExtendCrc32c(0, data) != chunk.crc32c()) {
    return absl::DataLossError(Name(chunk) + ": wrong checksum");
  }
  return data;
}

}  // namespace headrace::client
