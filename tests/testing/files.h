// Files and folders that live as long as one test. Failure to write is a
// broken machine, not a result: these functions die on it.
#ifndef HEADRACE_TESTS_TESTING_FILES_H_
#define HEADRACE_TESTS_TESTING_FILES_H_

#include <string>
#include <string_view>

namespace headrace {

// A fresh empty folder below the system's temporary folder, removed with all
// that is in it when this goes.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  // path()/name; `name` may hold slashes.
  std::string Join(std::string_view name) const;

 private:
  std::string path_;
};

// Writes `bytes` to `path`, making the folders above it.
void WriteFile(const std::string& path, std::string_view bytes);
std::string ReadFile(const std::string& path);

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_FILES_H_
