#include "client/cli/text_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace headrace::cli {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  // A folder can be opened, and has nothing to read.
  std::error_code error;
  if (!file || std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path));
  }
  return text.str();
}

}  // namespace headrace::cli
