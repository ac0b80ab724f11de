// How errors about files read: "model.gguf: offset 1234: …", with names from
// the file made safe to print.
#ifndef HEADRACE_ENGINE_WEIGHTS_FILE_ERROR_H_
#define HEADRACE_ENGINE_WEIGHTS_FILE_ERROR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace headrace {

// DATA_LOSS "FILE: MESSAGE".
absl::Status FileError(std::string_view file, std::string_view message);
// DATA_LOSS "FILE: offset OFFSET: MESSAGE".
absl::Status FileErrorAt(std::string_view file, uint64_t offset,
                         std::string_view message);

// A name from a file in double quotes, escaped, cut after 100 bytes.
std::string Quoted(std::string_view name);

// Words of a library about the file: as they are when they are UTF-8, else
// escaped.
std::string Printable(std::string_view text);

// Whether `text` is well-formed UTF-8: no surrogates, nothing overlong.
bool IsUtf8(std::string_view text);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_FILE_ERROR_H_
