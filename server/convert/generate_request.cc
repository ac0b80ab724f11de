#include "server/convert/generate_request.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "openssl/sha.h"
#include "server/convert/capture.h"
#include "server/convert/capture_estimate.h"
#include "server/convert/context_limits.h"
#include "server/convert/enums.h"
#include "server/convert/hook_selection.h"
#include "server/convert/interventions.h"
#include "server/convert/prompt.h"
#include "server/convert/resume.h"
#include "server/convert/rope.h"
#include "server/convert/sampling.h"
#include "server/convert/violations.h"

namespace headrace {

namespace {

constexpr int32_t kMaxPriority = 100;
constexpr size_t kMaxNameBytes = 128;

void CheckLength(const std::string& text, const char* field,
                 Violations& violations) {
  if (text.size() <= kMaxNameBytes) return;
  violations.Add(field, absl::StrCat("must have at most ", kMaxNameBytes,
                                     " bytes; has ", text.size()));
}

// Equal salts, and only those, share prefixes: 64 bits of SHA-256, so that no
// tenant can construct another's.
uint64_t HashSalt(const std::string& salt) {
  if (salt.empty()) return 0;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(salt.data()), salt.size(),
         digest);
  uint64_t hash = 0;
  for (int i = 0; i < 8; ++i) hash = hash << 8 | digest[i];
  return hash;
}

void ResolveRest(const v1::GenerateRequest& proto, Request& request,
                 Violations& violations) {
  if (proto.priority() < -kMaxPriority || proto.priority() > kMaxPriority) {
    violations.Add("priority",
                   absl::StrCat("must be from ", -kMaxPriority, " to ",
                                kMaxPriority, "; is ", proto.priority()));
  }
  request.priority = proto.priority();
  CheckLength(proto.client_request_id(), "client_request_id", violations);
  CheckLength(proto.cache().salt(), "cache.salt", violations);
  request.tenant = proto.cache().salt();
  if (!proto.cache().has_use_prefix() || proto.cache().use_prefix()) {
    request.sequence.prefix_salt = HashSalt(proto.cache().salt());
  }
  if (proto.has_skip_special_tokens()) {
    request.skip_special_tokens = proto.skip_special_tokens();
  }
}

void FillHeads(const HookSelection& selection, v1::ResolvedHook& hook) {
  hook.set_top_keys(static_cast<uint32_t>(selection.top_keys));
  v1::LayerHeads* heads = nullptr;
  for (const LayerHead& at : selection.heads) {
    const auto layer = static_cast<uint32_t>(at.layer);
    if (heads == nullptr || heads->layer() != layer) {
      heads = hook.add_heads();
      heads->set_layer(layer);
    }
    heads->add_heads(static_cast<uint32_t>(at.head));
  }
}

void FillHooks(const Request& request, const ServingContext& context,
               google::protobuf::RepeatedPtrField<v1::ResolvedHook>& hooks) {
  for (const HookSelection& selection : request.sequence.capture.hooks) {
    v1::ResolvedHook& hook = *hooks.Add();
    hook.set_hook(ToProto(selection.hook));
    hook.set_width(static_cast<uint32_t>(selection.heads.empty()
                                             ? WidthOf(selection.hook, context)
                                             : selection.key_width));
    FillHeads(selection, hook);
    for (const int32_t layer : selection.layers) {
      if (layer >= 0) hook.add_layers(static_cast<uint32_t>(layer));
    }
  }
}

v1::Header MakeHeader(const v1::GenerateRequest& proto, const Request& request,
                      const ServingContext& context) {
  const ModelInfo& model = context.engine->model();
  const SequenceOptions& sequence = request.sequence;
  v1::Header header;
  header.set_client_request_id(proto.client_request_id());
  header.set_model(model.config.name);
  *header.mutable_sampling() = ToProto(sequence.sampling, request.num_choices);
  header.set_prompt_token_count(static_cast<uint32_t>(sequence.prompt.size()));
  header.set_max_tokens(static_cast<uint32_t>(request.stop.max_tokens));
  *header.mutable_rope() = ToProto(sequence.rope);
  header.set_numerics(ToProto(model.numerics));
  header.set_compute_dtype(model.numerics == Numerics::kExact ? "f32" : "int8");
  header.set_residual_dtype("f32");
  header.set_kv_cache_dtype(std::string(LayoutOf(model.kv_cache_dtype).name));
  header.set_wire_dtype(ToProto(request.delivery.dtype));
  FillHooks(request, context, *header.mutable_hooks());
  const CaptureEstimate estimate = EstimateCapture(request);
  header.set_activation_rows_expected(estimate.prompt_rows +
                                      estimate.generated_rows_max);
  header.set_activation_bytes_expected(estimate.bytes_max);
  header.set_weights_sha256(model.weights_sha256);
  header.set_build(context.build);
  if (proto.has_capture()) {
    header.set_cached_rows(sequence.capture.leaves_out_cached
                               ? v1::CACHED_ROWS_LEAVE_OUT
                               : v1::CACHED_ROWS_RECOMPUTE);
  }
  header.set_replay_id(ReplayId(proto, request, context));
  if (!proto.has_tokens()) {
    header.mutable_prompt_token_ids()->Assign(sequence.prompt.begin(),
                                              sequence.prompt.end());
  }
  return header;
}

}  // namespace

absl::StatusOr<ResolvedGenerate> ResolveGenerate(
    const v1::GenerateRequest& proto, const ServingContext& context) {
  RETURN_IF_ERROR(CheckModelName(proto.model(), context));
  Violations violations;
  ResolvedGenerate resolved;
  Request& request = resolved.request;
  request.sequence.prompt = ResolvePrompt(proto, context, violations);
  ResolveSampling(proto.sampling(), context, request, violations);
  ResolveStop(proto.stop(), context, request, violations);
  if (proto.has_logprobs()) {
    request.sequence.logprobs =
        ResolveLogprobs(proto.logprobs(), context, violations);
  }
  if (proto.has_capture()) {
    ResolveCapture(proto.capture(), context, request, violations);
  }
  request.sequence.interventions = ResolveInterventions(
      proto.interventions(), request.sequence.prompt, context, violations);
  std::optional<int64_t> max_tokens;
  if (proto.stop().has_max_tokens()) max_tokens = proto.stop().max_tokens();
  ResolveContext(proto.context_extension(), max_tokens, context, request,
                 violations);
  ResolveRest(proto, request, violations);
  if (proto.has_resume()) ResolveResume(proto, context, request, violations);
  RETURN_IF_ERROR(violations.ToStatus());
  // Before anything is counted by position: there may be billions.
  RETURN_IF_ERROR(CheckFitsKvCache(request, context.kv_cache_rows));
  if (proto.has_capture()) {
    RETURN_IF_ERROR(LayOutCapture(proto.capture(), context, request));
  }
  resolved.header = MakeHeader(proto, request, context);
  return resolved;
}

v1::GenerateRequest AsGenerate(const v1::ForwardRequest& proto) {
  v1::GenerateRequest generate;
  generate.set_model(proto.model());
  switch (proto.prompt_case()) {
    case v1::ForwardRequest::kText:
      generate.set_text(proto.text());
      break;
    case v1::ForwardRequest::kTokens:
      *generate.mutable_tokens() = proto.tokens();
      break;
    case v1::ForwardRequest::kChat:
      *generate.mutable_chat() = proto.chat();
      break;
    case v1::ForwardRequest::PROMPT_NOT_SET:
      break;
  }
  if (proto.has_add_special_tokens()) {
    generate.set_add_special_tokens(proto.add_special_tokens());
  }
  generate.set_parse_special(proto.parse_special());
  if (proto.has_logprobs()) {
    v1::LogprobsOptions& logprobs = *generate.mutable_logprobs();
    logprobs = proto.logprobs();
    // All that Forward can report is about the prompt.
    logprobs.set_prompt(logprobs.prompt() || logprobs.top_n() > 0 ||
                        !logprobs.of_token_ids().empty());
  }
  if (proto.has_context_extension()) {
    *generate.mutable_context_extension() = proto.context_extension();
  }
  if (proto.has_capture()) *generate.mutable_capture() = proto.capture();
  if (proto.has_cache()) *generate.mutable_cache() = proto.cache();
  if (proto.has_resume()) *generate.mutable_resume() = proto.resume();
  *generate.mutable_interventions() = proto.interventions();
  generate.mutable_stop()->set_max_tokens(0);
  generate.mutable_sampling()->set_temperature(0);
  generate.mutable_sampling()->set_seed(0);
  generate.set_priority(proto.priority());
  generate.set_client_request_id(proto.client_request_id());
  return generate;
}

absl::StatusOr<v1::EstimateCaptureResponse> HandleEstimateCapture(
    const v1::EstimateCaptureRequest& proto, const ServingContext& context) {
  ASSIGN_OR_RETURN(const ResolvedGenerate resolved,
                   ResolveGenerate(proto.request(), context));
  const CaptureEstimate estimate = EstimateCapture(resolved.request);
  v1::EstimateCaptureResponse response;
  response.set_prompt_token_count(resolved.header.prompt_token_count());
  response.set_prompt_rows(estimate.prompt_rows);
  response.set_generated_rows_max(estimate.generated_rows_max);
  response.set_bytes_max(estimate.bytes_max);
  response.set_messages_max(estimate.messages_max);
  *response.mutable_hooks() = resolved.header.hooks();
  return response;
}

}  // namespace headrace
