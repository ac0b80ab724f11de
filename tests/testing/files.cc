#include "tests/testing/files.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/log/check.h"
#include "absl/strings/str_format.h"

namespace headrace {

TempFolder::TempFolder() {
  path_ = (std::filesystem::temp_directory_path() / "headrace_test_XXXXXX")
              .string();
  PCHECK(mkdtemp(path_.data()) != nullptr) << path_;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::Join(std::string_view name) const {
  return absl::StrFormat("%s/%s", path_, name);
}

void WriteFile(const std::string& path, std::string_view bytes) {
  std::filesystem::create_directories(
      std::filesystem::path(path).parent_path());
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  CHECK(stream.good()) << "cannot write " << path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  CHECK(stream.good()) << "cannot read " << path;
  return {std::istreambuf_iterator<char>(stream),
          std::istreambuf_iterator<char>()};
}

}  // namespace headrace
