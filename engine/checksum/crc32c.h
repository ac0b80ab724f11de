// CRC-32C, of rows that travel and of files that are kept.
#ifndef HEADRACE_ENGINE_CHECKSUM_CRC32C_H_
#define HEADRACE_ENGINE_CHECKSUM_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace headrace {

// The checksum of what `crc` is that of, followed by `data`. That of nothing
// is 0.
uint32_t ExtendCrc32c(uint32_t crc, std::string_view data);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CHECKSUM_CRC32C_H_
