// Names of files and what lies beside them. Symbolic links are not followed:
// what lies beside a file is found by the name that was given.
#ifndef HEADRACE_ENGINE_WEIGHTS_FILE_PATH_H_
#define HEADRACE_ENGINE_WEIGHTS_FILE_PATH_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headrace {

// "b" of "a/b": the part after the last slash.
std::string BaseName(const std::string& path);
// "a" of "a/b", "." of "b", "/" of "/b".
std::string FolderOf(const std::string& path);
// "a/b" of "a" and "b".
std::string JoinPath(const std::string& folder, std::string_view name);

bool IsFolder(const std::string& path);
// Whether there is a file, or a link to one, at `path`.
bool IsFile(const std::string& path);
// The names of the files in a folder, sorted; sub-folders are left out.
absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_FILE_PATH_H_
