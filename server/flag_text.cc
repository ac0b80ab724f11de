#include "server/flag_text.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace headrace {

namespace {

// Whether `arg` is the flag, "--name" or "--name=value".
bool IsFlag(std::string_view arg, const std::string& name,
            std::string_view& value) {
  if (!arg.starts_with("-")) return false;
  arg.remove_prefix(arg.starts_with("--") ? 2 : 1);
  if (!arg.starts_with(name)) return false;
  value = arg.substr(name.size());
  return value.empty() || value.starts_with("=");
}

}  // namespace

std::vector<std::string> JoinRepeatedFlag(const std::vector<std::string>& args,
                                          const std::string& name) {
  std::vector<std::string> joined;
  std::string values;
  size_t place = 0;  // of the first occurrence; 0 is the program
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") {
      joined.insert(joined.end(), args.begin() + static_cast<ptrdiff_t>(i),
                    args.end());
      break;
    }
    std::string_view value;
    const bool next_is_value = i + 1 < args.size();
    if (!IsFlag(args[i], name, value) || (value.empty() && !next_is_value)) {
      joined.push_back(args[i]);
      continue;
    }
    if (place == 0) {
      place = joined.size();
      joined.emplace_back();
    } else {
      values += ",";
    }
    values += value.empty() ? args[++i] : std::string(value.substr(1));
  }
  if (place != 0) joined[place] = absl::StrCat("--", name, "=", values);
  return joined;
}

bool AsksForHelp(const std::vector<std::string>& args) {
  const auto end = std::find(args.begin(), args.end(), "--");
  return std::any_of(args.begin(), end, [](const std::string& arg) {
    return arg == "--help" || arg == "-help" || arg == "-h";
  });
}

std::string FlagHelp(const std::string& usage, const std::string& file) {
  std::map<std::string, const absl::CommandLineFlag*> sorted;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (absl::EndsWith(flag->Filename(), file)) {
      sorted[std::string(name)] = flag;
    }
  }
  std::string text = absl::StrCat(usage, "\n\nFlags:\n");
  for (const auto& [name, flag] : sorted) {
    const std::string value = flag->DefaultValue();
    absl::StrAppend(&text, "  --", name, "\n      ", flag->Help(),
                    value.empty() ? "" : absl::StrCat(" Default: ", value, "."),
                    "\n");
  }
  return text;
}

}  // namespace headrace
