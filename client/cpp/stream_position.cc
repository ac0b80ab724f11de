#include "client/cpp/stream_position.h"

#include <utility>

namespace headrace::client {

void StreamPosition::Add(const v1::GenerateResponse& event) {
  if (event.has_header()) AddHeader(event.header());
  if (event.has_prompt_logprobs()) ++prompt_logprobs_;
  if (event.has_activations()) AddRows(event.activations());
  if (event.has_derived()) AddRows(event.derived());
  if (!event.has_token()) return;
  if (tokens_.size() <= event.token().choice()) {
    tokens_.resize(event.token().choice() + 1);
  }
  ++tokens_[event.token().choice()];
}

void StreamPosition::Add(const v1::ForwardResponse& event) {
  if (event.has_header()) AddHeader(event.header());
  if (event.has_logprobs()) ++prompt_logprobs_;
  if (event.has_activations()) AddRows(event.activations());
  if (event.has_derived()) AddRows(event.derived());
}

void StreamPosition::AddHeader(const v1::Header& header) {
  replay_id_ = header.replay_id();
  seed_ = header.sampling().seed();
}

void StreamPosition::AddRows(const v1::ActivationChunk& chunk) {
  rows_[{.hook = chunk.hook(),
         .derived = -1,
         .layer = chunk.has_layer() ? int64_t{chunk.layer()} : -1,
         .head = chunk.has_head() ? int64_t{chunk.head()} : -1,
         .choice = chunk.choice()}] += chunk.row_count();
}

void StreamPosition::AddRows(const v1::Derived& derived) {
  rows_[{.hook = derived.hook(),
         .derived = derived.spec(),
         .layer = derived.has_layer() ? int64_t{derived.layer()} : -1,
         .head = -1,
         .choice = derived.choice()}] += derived.row_count();
}

v1::ResumeCursor StreamPosition::Cursor() const {
  v1::ResumeCursor cursor;
  cursor.set_replay_id(replay_id_);
  cursor.mutable_tokens()->Assign(tokens_.begin(), tokens_.end());
  cursor.set_prompt_logprobs(prompt_logprobs_);
  for (const auto& [key, count] : rows_) {
    v1::ReceivedRows& rows = *cursor.add_rows();
    rows.set_hook(static_cast<v1::HookPoint>(key.hook));
    if (key.derived >= 0) rows.set_derived(static_cast<uint32_t>(key.derived));
    if (key.layer >= 0) rows.set_layer(static_cast<uint32_t>(key.layer));
    if (key.head >= 0) rows.set_head(static_cast<uint32_t>(key.head));
    rows.set_choice(key.choice);
    rows.set_rows(count);
  }
  return cursor;
}

v1::GenerateRequest StreamPosition::Continue(
    v1::GenerateRequest request) const {
  if (replay_id_.empty()) return request;  // it broke before its header
  request.mutable_sampling()->set_seed(seed_);
  *request.mutable_resume() = Cursor();
  return request;
}

v1::ForwardRequest StreamPosition::Continue(v1::ForwardRequest request) const {
  if (!replay_id_.empty()) *request.mutable_resume() = Cursor();
  return request;
}

}  // namespace headrace::client
