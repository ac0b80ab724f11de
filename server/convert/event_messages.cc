#include "server/convert/event_messages.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/convert/compression.h"
#include "server/convert/enums.h"

namespace headrace {

namespace {

std::string PieceOf(int32_t token, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return {};
  return std::string(tokenizer->TokenBytes(token));
}

v1::TokenLogprob ToProto(const TokenLogprob& logprob,
                         const Tokenizer* tokenizer) {
  v1::TokenLogprob proto;
  proto.set_id(static_cast<uint32_t>(logprob.token));
  proto.set_logprob(logprob.logprob);
  proto.set_rank(static_cast<uint32_t>(logprob.rank));
  proto.set_piece(PieceOf(logprob.token, tokenizer));
  return proto;
}

void FillLogprobs(const std::vector<TokenLogprob>& logprobs,
                  const Tokenizer* tokenizer,
                  google::protobuf::RepeatedPtrField<v1::TokenLogprob>& out) {
  for (const TokenLogprob& logprob : logprobs) {
    *out.Add() = ToProto(logprob, tokenizer);
  }
}

v1::Checks ToProto(const CaptureChecks& checks) {
  v1::Checks proto;
  proto.set_rows_checked(checks.rows_checked);
  proto.set_resid_mid_checked(checks.resid_mid_checked);
  proto.set_resid_mid_failed(checks.resid_mid_failed);
  proto.set_resid_post_checked(checks.resid_post_checked);
  proto.set_resid_post_failed(checks.resid_post_failed);
  proto.set_max_sum_relative_error(checks.max_sum_relative_error);
  return proto;
}

v1::Gap ToProto(const RowGap& gap) {
  v1::Gap proto;
  proto.set_choice(static_cast<uint32_t>(gap.choice));
  proto.set_cached(gap.cached);
  proto.set_first_position(static_cast<uint32_t>(gap.first_position));
  proto.set_last_position(static_cast<uint32_t>(gap.last_position));
  return proto;
}

// What ActivationChunk and Derived have in common.
template <typename Message>
void FillRows(const ActivationChunk& chunk, Message& proto) {
  proto.set_hook(ToProto(chunk.hook));
  if (chunk.layer >= 0) proto.set_layer(static_cast<uint32_t>(chunk.layer));
  proto.set_row_count(static_cast<uint32_t>(chunk.positions.size()));
  proto.set_width(static_cast<uint32_t>(chunk.width));
  proto.mutable_positions()->Assign(chunk.positions.begin(),
                                    chunk.positions.end());
  proto.mutable_token_ids()->Assign(chunk.tokens.begin(), chunk.tokens.end());
  proto.set_phase(ToProto(chunk.phase));
  proto.set_crc32c(chunk.crc32c);
  proto.set_sequence_number(chunk.sequence_number);
  proto.set_choice(static_cast<uint32_t>(chunk.choice));
}

void FillData(ActivationChunk& chunk, v1::ActivationChunk& proto) {
  if (chunk.compression == Compression::kZstd) {
    std::optional<std::string> compressed = CompressZstd(chunk.data);
    if (compressed.has_value()) {
      proto.set_compression(v1::COMPRESSION_ZSTD);
      proto.set_data(*std::move(compressed));
      return;
    }
  }
  proto.set_compression(v1::COMPRESSION_NONE);
  proto.set_data(std::move(chunk.data));
}

void FillKeys(const ActivationChunk& chunk, v1::ActivationChunk& proto) {
  proto.set_head(static_cast<uint32_t>(chunk.head));
  proto.mutable_key_starts()->Assign(chunk.key_starts.begin(),
                                     chunk.key_starts.end());
  proto.mutable_key_counts()->Assign(chunk.key_counts.begin(),
                                     chunk.key_counts.end());
  proto.mutable_key_positions()->Assign(chunk.ids.begin(), chunk.ids.end());
}

v1::KeptRows ToProto(const KeptReceipt& kept) {
  v1::KeptRows proto;
  proto.set_handle(kept.sha256);
  proto.set_expires_in(absl::ToDoubleSeconds(kept.time_to_live));
  proto.set_rows(static_cast<uint64_t>(kept.rows));
  proto.set_bytes(static_cast<uint64_t>(kept.bytes));
  return proto;
}

}  // namespace

v1::Token ToProto(TokenEvent event, const Tokenizer* tokenizer) {
  v1::Token proto;
  proto.set_choice(static_cast<uint32_t>(event.choice));
  proto.set_index(static_cast<uint32_t>(event.index));
  proto.set_id(static_cast<uint32_t>(event.token));
  proto.set_piece(PieceOf(event.token, tokenizer));
  proto.set_text(std::move(event.text));
  proto.set_special(event.special);
  if (event.logprobs.has_value()) {
    proto.set_logprob(event.logprobs->token.logprob);
    proto.set_rank(static_cast<uint32_t>(event.logprobs->token.rank));
    FillLogprobs(event.logprobs->top, tokenizer, *proto.mutable_top_logprobs());
    FillLogprobs(event.logprobs->of_token_ids, tokenizer,
                 *proto.mutable_of_token_ids());
  }
  return proto;
}

v1::PromptLogprobs ToProto(const PromptLogprobsEvent& event,
                           const Tokenizer* tokenizer) {
  v1::PromptLogprobs proto;
  proto.set_position(static_cast<uint32_t>(event.logprobs.position));
  *proto.mutable_token() = ToProto(event.logprobs.token, tokenizer);
  FillLogprobs(event.logprobs.top, tokenizer, *proto.mutable_top_logprobs());
  FillLogprobs(event.logprobs.of_token_ids, tokenizer,
               *proto.mutable_of_token_ids());
  return proto;
}

v1::ActivationChunk ToProto(ActivationChunk chunk) {
  v1::ActivationChunk proto;
  FillRows(chunk, proto);
  proto.set_dtype(ToProto(chunk.dtype));
  FillData(chunk, proto);
  if (chunk.head >= 0) FillKeys(chunk, proto);
  proto.set_max_abs_error(chunk.max_abs_error);
  proto.set_overflow_count(chunk.overflow_count);
  proto.mutable_scales()->Assign(chunk.scales.begin(), chunk.scales.end());
  for (const RowOutlier& outlier : chunk.outliers) {
    proto.add_outlier_rows(static_cast<uint32_t>(outlier.row));
    proto.add_outlier_dimensions(static_cast<uint32_t>(outlier.dimension));
    proto.add_outlier_values(outlier.value);
  }
  return proto;
}

v1::Derived DerivedToProto(ActivationChunk chunk, const Tokenizer* tokenizer) {
  v1::Derived proto;
  FillRows(chunk, proto);
  proto.set_spec(static_cast<uint32_t>(chunk.derived));
  proto.set_values(std::move(chunk.data));
  proto.mutable_ids()->Assign(chunk.ids.begin(), chunk.ids.end());
  if (tokenizer != nullptr) {
    for (const int32_t id : chunk.ids) proto.add_pieces(PieceOf(id, tokenizer));
  }
  proto.mutable_rows_averaged()->Assign(chunk.rows_averaged.begin(),
                                        chunk.rows_averaged.end());
  return proto;
}

v1::ChoiceEnd ToProto(ChoiceEndEvent event) {
  v1::ChoiceEnd proto;
  proto.set_choice(static_cast<uint32_t>(event.choice));
  proto.set_text(std::move(event.text));
  proto.set_finish_reason(ToProto(event.reason));
  proto.set_stop_string(std::move(event.stop_string));
  if (event.stop_token_id.has_value()) {
    proto.set_stop_token_id(static_cast<uint32_t>(*event.stop_token_id));
  }
  proto.set_generated(static_cast<uint32_t>(event.generated));
  return proto;
}

v1::End ToProto(const EndEvent& event) {
  v1::End proto;
  v1::Usage& usage = *proto.mutable_usage();
  usage.set_prompt_tokens(static_cast<uint32_t>(event.prompt_tokens));
  usage.set_cached_tokens(static_cast<uint32_t>(event.cached_tokens));
  usage.set_generated_tokens(static_cast<uint32_t>(event.generated_tokens));
  v1::Timings& timings = *proto.mutable_timings();
  timings.set_queue(absl::ToDoubleSeconds(event.timings.queue));
  timings.set_prefill(absl::ToDoubleSeconds(event.timings.prefill));
  timings.set_decode(absl::ToDoubleSeconds(event.timings.decode));
  timings.set_stalled(absl::ToDoubleSeconds(event.timings.stalled));
  for (const HookRowCount& rows : event.rows) {
    v1::HookRows& hook = *proto.add_rows();
    if (rows.derived >= 0) {
      hook.set_derived(static_cast<uint32_t>(rows.derived));
    }
    hook.set_hook(ToProto(rows.hook));
    hook.set_rows(rows.rows);
  }
  for (const RowGap& gap : event.gaps) *proto.add_gaps() = ToProto(gap);
  if (event.checks.has_value()) {
    *proto.mutable_checks() = ToProto(*event.checks);
  }
  if (event.kept.has_value()) *proto.mutable_kept() = ToProto(*event.kept);
  proto.mutable_interventions_applied()->Assign(
      event.interventions_applied.begin(), event.interventions_applied.end());
  return proto;
}

}  // namespace headrace
