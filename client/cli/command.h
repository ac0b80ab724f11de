// A subcommand: one function in one file, one line in the table of main.cc.
#ifndef HEADRACE_CLIENT_CLI_COMMAND_H_
#define HEADRACE_CLIENT_CLI_COMMAND_H_

#include "absl/status/status.h"
#include "client/cli/cli_options.h"
#include "client/cpp/client.h"

namespace headrace::cli {

// Each runs to its end and reports trouble as a status; main.cc prints it.
absl::Status RunBench(client::Client& client, const CliOptions& options);
absl::Status RunChat(client::Client& client, const CliOptions& options);
absl::Status RunContextReport(client::Client& client,
                              const CliOptions& options);
absl::Status RunDetokenize(client::Client& client, const CliOptions& options);
absl::Status RunEstimate(client::Client& client, const CliOptions& options);
absl::Status RunGenerate(client::Client& client, const CliOptions& options);
absl::Status RunHealth(client::Client& client, const CliOptions& options);
absl::Status RunHooks(client::Client& client, const CliOptions& options);
absl::Status RunLens(client::Client& client, const CliOptions& options);
absl::Status RunModels(client::Client& client, const CliOptions& options);
absl::Status RunTokenize(client::Client& client, const CliOptions& options);
absl::Status RunTrace(client::Client& client, const CliOptions& options);
absl::Status RunVectors(client::Client& client, const CliOptions& options);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_COMMAND_H_
