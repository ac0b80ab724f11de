#include "client/cli/html_page.h"

#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace headrace::cli {

absl::Status WriteHtmlPage(const char* page, const std::string& json,
                           const std::string& path) {
  // "</script>" in a text must not end the page's own script.
  const std::string data = absl::StrReplaceAll(json, {{"<", "\\u003c"}});
  std::ofstream file(path, std::ios::binary);
  file << absl::StrReplaceAll(page, {{"\"@DATA@\"", data}});
  file.flush();
  if (!file) return absl::NotFoundError(absl::StrCat("cannot write ", path));
  std::cerr << path << "\n";
  return absl::OkStatus();
}

}  // namespace headrace::cli
