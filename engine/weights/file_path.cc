#include "engine/weights/file_path.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace headrace {

std::string BaseName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, slash == 0 ? 1 : slash);
}

std::string JoinPath(const std::string& folder, std::string_view name) {
  return absl::StrFormat("%s%s%s", folder, folder.ends_with('/') ? "" : "/",
                         name);
}

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(folder, error);
  const std::filesystem::directory_iterator end;
  while (!error && it != end) {
    std::error_code ignored;  // a dangling link is listed: it has a name
    if (!it->is_directory(ignored)) {
      names.push_back(it->path().filename().string());
    }
    it.increment(error);
  }
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("cannot list ", folder));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace headrace
