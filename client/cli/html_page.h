// Pages that carry their data and need no network.
#ifndef HEADRACE_CLIENT_CLI_HTML_PAGE_H_
#define HEADRACE_CLIENT_CLI_HTML_PAGE_H_

#include <string>

#include "absl/status/status.h"

namespace headrace::cli {

// Writes `page`, one of html_pages.h, with `json` as its data, and says where.
// Errors: NOT_FOUND when the file cannot be written.
absl::Status WriteHtmlPage(const char* page, const std::string& json,
                           const std::string& path);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_HTML_PAGE_H_
