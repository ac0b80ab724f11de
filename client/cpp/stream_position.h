// Follows a stream, so that another one can continue it if it breaks.
#ifndef HEADRACE_CLIENT_CPP_STREAM_POSITION_H_
#define HEADRACE_CLIENT_CPP_STREAM_POSITION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "headrace/v1/generation.pb.h"

namespace headrace::client {

// Thread-compatible. Give it every event that was taken, of the first stream
// and of those that continue it; then set `resume` of the same request, and its
// seed, from Continue().
class StreamPosition {
 public:
  void Add(const v1::GenerateResponse& event);
  void Add(const v1::ForwardResponse& event);

  // `request` as it has to be sent to go on from here.
  v1::GenerateRequest Continue(v1::GenerateRequest request) const;
  v1::ForwardRequest Continue(v1::ForwardRequest request) const;

 private:
  struct Rows {
    int hook;
    int64_t derived, layer, head;  // -1: none
    uint32_t choice;
    auto operator<=>(const Rows&) const = default;
  };

  void AddHeader(const v1::Header& header);
  void AddRows(const v1::ActivationChunk& chunk);
  void AddRows(const v1::Derived& derived);
  v1::ResumeCursor Cursor() const;

  std::string replay_id_;
  uint64_t seed_ = 0;
  std::map<Rows, uint64_t> rows_;
  std::vector<uint32_t> tokens_;  // by choice
  uint32_t prompt_logprobs_ = 0;
};

}  // namespace headrace::client

#endif  // HEADRACE_CLIENT_CPP_STREAM_POSITION_H_
