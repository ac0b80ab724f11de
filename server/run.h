// A server's whole life in a process: load, announce, serve until a signal,
// drain.
#ifndef HEADRACE_SERVER_RUN_H_
#define HEADRACE_SERVER_RUN_H_

#include "server/server_options.h"

namespace headrace {

// Returns the process's exit status: 0 after SIGTERM or SIGINT, 1 when the
// server could not start (with the reason on stderr). Call before any other
// thread starts: it takes these signals for the process. A second signal ends
// the grace of a drain.
int RunServer(ServerOptions options);

}  // namespace headrace

#endif  // HEADRACE_SERVER_RUN_H_
