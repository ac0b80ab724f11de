// What a page shows of a trace: norms of its rows and the cosines between
// layers.
#ifndef HEADRACE_CLIENT_CLI_TRACE_REPORT_H_
#define HEADRACE_CLIENT_CLI_TRACE_REPORT_H_

#include <map>
#include <string>
#include <vector>

#include "client/cli/activation_table.h"
#include "headrace/v1/generation.pb.h"
#include "nlohmann/json.hpp"

namespace headrace::cli {

// {"model", "build", "tokens": [{"text"}], "hooks": [{"name", "layers",
// "positions", "norms": [layer][position], "cosines":
// [position][layer][layer]}]}; `pieces` are the tokens' bytes, by position.
std::string TraceJson(const v1::Header& header,
                      const std::vector<std::string>& pieces,
                      const ActivationTable& activations,
                      const std::map<v1::HookPoint, v1::HookPointInfo>& hooks);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_TRACE_REPORT_H_
