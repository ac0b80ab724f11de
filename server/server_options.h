// What a server is started with. The defaults here are the only defaults.
#ifndef HEADRACE_SERVER_SERVER_OPTIONS_H_
#define HEADRACE_SERVER_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/engine.h"
#include "server/auth/credentials.h"

namespace headrace {

struct ServerOptions {
  EngineOptions engine;

  // host:port or unix:path; port 0 lets the system choose.
  std::vector<std::string> listen = {"127.0.0.1:50051"};
  TlsOptions tls;
  bool allow_insecure_remote = false;
  std::string metrics_listen;  // host:port of /metrics; empty: none
  bool channelz = false;
  // Connections are asked to close after so long, so that clients find new
  // replicas.
  absl::Duration max_connection_age = absl::InfiniteDuration();

  int64_t max_num_seqs = 64;  // sequences that run together
  int64_t max_queue = 256;    // requests that wait
  // How long prompts may hold up a step of the sequences that decode.
  absl::Duration max_decode_stall = absl::Milliseconds(200);
  // Whether running sequences give way to requests of a higher priority.
  bool preemption = true;
  // Tokens that prompt lookup may guess per sequence and step; 0: none. On:
  // ordinary answers were not slower in any run of speculation_benchmark, and
  // repetitions a third faster.
  int64_t speculative_ngram = 8;
  // Captured rows that may wait for one request's reader.
  int64_t max_capture_bytes = 32 << 20;

  // Vectors and kept rows: what they may take together (0: a sixteenth of the
  // memory), and for how long.
  int64_t max_vector_bytes = 0;
  absl::Duration max_vector_ttl = absl::Hours(24);

  // A reader that takes nothing for so long is ended when other requests wait
  // for what it occupies.
  absl::Duration max_reader_stall = absl::Seconds(60);

  // After SIGTERM: how long NOT_SERVING is shown before new requests are
  // refused, and how long running ones may go on after that.
  absl::Duration drain_notice = absl::ZeroDuration();
  absl::Duration drain_grace = absl::Seconds(30);
  // A step that takes longer makes the server NOT_SERVING.
  absl::Duration stall_after = absl::Seconds(120);
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_SERVER_OPTIONS_H_
