// What an ActivationChunk carries, made ready to be read.
#ifndef HEADRACE_CLIENT_CPP_CHUNK_DATA_H_
#define HEADRACE_CLIENT_CPP_CHUNK_DATA_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "headrace/v1/activations.pb.h"

namespace headrace::client {

// The chunk's values, row_count x width of its dtype, little-endian: its data,
// or what `scratch` gets when that is compressed. Errors: DATA_LOSS when size
// or checksum is wrong; UNIMPLEMENTED for a dtype or compression of a newer
// server.
absl::StatusOr<std::string_view> ChunkData(const v1::ActivationChunk& chunk,
                                           std::string& scratch);

}  // namespace headrace::client

#endif  // HEADRACE_CLIENT_CPP_CHUNK_DATA_H_
