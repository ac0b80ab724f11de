// A stream of typed events from a server.
#ifndef HEADRACE_CLIENT_CPP_STREAM_H_
#define HEADRACE_CLIENT_CPP_STREAM_H_

#include <optional>

#include "absl/status/status.h"
#include "headrace/v1/generation.pb.h"

namespace headrace::client {

// Thread-compatible, but for Cancel(), which any thread may call.
template <typename Event>
class EventStream {
 public:
  virtual ~EventStream() = default;
  // The next event; nullopt at the end of the stream, whatever ended it.
  virtual std::optional<Event> Next() = 0;
  // After the end: how the call ended. Before it: cancels first.
  virtual absl::Status Finish() = 0;
  // Stops the work on the server too.
  virtual void Cancel() = 0;
};

using GenerateStream = EventStream<v1::GenerateResponse>;
using ForwardStream = EventStream<v1::ForwardResponse>;

}  // namespace headrace::client

#endif  // HEADRACE_CLIENT_CPP_STREAM_H_
