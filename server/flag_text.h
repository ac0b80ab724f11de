// What a command line may say beside plain flags: help that exits with 0, and
// flags that are given several times.
#ifndef HEADRACE_SERVER_FLAG_TEXT_H_
#define HEADRACE_SERVER_FLAG_TEXT_H_

#include <string>
#include <vector>

namespace headrace {

// "--name a --name=b" becomes "--name=a,b" at the place of the first.
std::vector<std::string> JoinRepeatedFlag(const std::vector<std::string>& args,
                                          const std::string& name);

// Does any argument before "--" ask for help ("--help", "-h")?
bool AsksForHelp(const std::vector<std::string>& args);

// `usage`, and every flag that the source file ending in `file` defines, with
// its default.
std::string FlagHelp(const std::string& usage, const std::string& file);

}  // namespace headrace

#endif  // HEADRACE_SERVER_FLAG_TEXT_H_
