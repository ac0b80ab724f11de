// Compression of a chunk's data on the wire.
#ifndef HEADRACE_SERVER_CONVERT_COMPRESSION_H_
#define HEADRACE_SERVER_CONVERT_COMPRESSION_H_

#include <optional>
#include <string>
#include <string_view>

namespace headrace {

// One Zstandard frame, level 1, that states the size of its content; nullopt
// when it would not be 5 % smaller than `data`.
std::optional<std::string> CompressZstd(std::string_view data);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_COMPRESSION_H_
