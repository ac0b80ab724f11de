// A gRPC stream of bytes and nothing else: what the transport alone can carry
// between two processes here.
#ifndef HEADRACE_TESTS_BENCHMARKS_CAPTURE_BYTE_STREAM_H_
#define HEADRACE_TESTS_BENCHMARKS_CAPTURE_BYTE_STREAM_H_

#include <cstdint>
#include <string>

namespace headrace {

// Serves streams until the process is killed; prints the chosen port of
// 127.0.0.1 as a line of its own.
void ServeBytes();

// Reads `messages` messages of `message_bytes` bytes each; dies when others
// come. Returns seconds.
double ReadBytes(const std::string& address, int64_t messages,
                 int64_t message_bytes);

}  // namespace headrace

#endif  // HEADRACE_TESTS_BENCHMARKS_CAPTURE_BYTE_STREAM_H_
