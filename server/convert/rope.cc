#include "server/convert/rope.h"

#include <cstdint>

#include "server/convert/enums.h"

namespace headrace {

namespace {

// The value of an optional field of a message, or nothing.
#define HEADRACE_OPTIONAL(message, field) \
  ((message).has_##field() ? std::optional((message).field()) : std::nullopt)

void FillYarn(const v1::YarnScaling& yarn, RopeParams& params) {
  params.type = RopeType::kYarn;
  params.factor = HEADRACE_OPTIONAL(yarn, factor);
  params.original_max_position_embeddings =
      HEADRACE_OPTIONAL(yarn, original_max_position_embeddings);
  params.attention_factor = HEADRACE_OPTIONAL(yarn, attention_factor);
  params.beta_fast = HEADRACE_OPTIONAL(yarn, beta_fast);
  params.beta_slow = HEADRACE_OPTIONAL(yarn, beta_slow);
  params.mscale = HEADRACE_OPTIONAL(yarn, mscale);
  params.mscale_all_dim = HEADRACE_OPTIONAL(yarn, mscale_all_dim);
  params.truncate = HEADRACE_OPTIONAL(yarn, truncate);
}

void FillLongRope(const v1::LongRopeScaling& longrope, RopeParams& params) {
  params.type = RopeType::kLongRope;
  params.short_factor.assign(longrope.short_factor().begin(),
                             longrope.short_factor().end());
  params.long_factor.assign(longrope.long_factor().begin(),
                            longrope.long_factor().end());
  params.factor = HEADRACE_OPTIONAL(longrope, factor);
  params.original_max_position_embeddings =
      HEADRACE_OPTIONAL(longrope, original_max_position_embeddings);
  params.attention_factor = HEADRACE_OPTIONAL(longrope, attention_factor);
}

void FillLlama3(const v1::Llama3Scaling& llama3, RopeParams& params) {
  params.type = RopeType::kLlama3;
  params.factor = llama3.factor();
  params.low_freq_factor = HEADRACE_OPTIONAL(llama3, low_freq_factor);
  params.high_freq_factor = HEADRACE_OPTIONAL(llama3, high_freq_factor);
  params.original_max_position_embeddings =
      HEADRACE_OPTIONAL(llama3, original_max_position_embeddings);
}

void FillProportional(const v1::ProportionalScaling& proportional,
                      RopeParams& params) {
  params.type = RopeType::kProportional;
  params.partial_rotary_factor = proportional.partial_rotary_factor();
  params.factor = HEADRACE_OPTIONAL(proportional, factor);
}

#undef HEADRACE_OPTIONAL

void FillFactor(RopeType type, double factor, RopeParams& params) {
  params.type = type;
  params.factor = factor;
}

void FillScaling(const v1::RopeScaling& scaling, RopeRequest& request) {
  using Method = v1::RopeScaling::MethodCase;
  request.kind = RopeRequest::Kind::kScaling;
  RopeParams& params = request.scaling;
  switch (scaling.method_case()) {
    case Method::METHOD_NOT_SET:
      request.kind = RopeRequest::Kind::kUnset;
      return;
    case Method::kNone:
      request.kind = RopeRequest::Kind::kNone;
      return;
    case Method::kAuto:
      request.kind = RopeRequest::Kind::kAuto;
      return;
    case Method::kLinear:
      return FillFactor(RopeType::kLinear, scaling.linear().factor(), params);
    case Method::kNtk:
      return FillFactor(RopeType::kNtk, scaling.ntk().factor(), params);
    case Method::kDynamicNtk:
      return FillFactor(RopeType::kDynamicNtk, scaling.dynamic_ntk().factor(),
                        params);
    case Method::kYarn:
      return FillYarn(scaling.yarn(), params);
    case Method::kLongrope:
      return FillLongRope(scaling.longrope(), params);
    case Method::kLlama3:
      return FillLlama3(scaling.llama3(), params);
    case Method::kProportional:
      return FillProportional(scaling.proportional(), params);
  }
}

void FillMethodParameters(const RopeParams& params, v1::EffectiveRope& proto) {
  if (params.factor) proto.set_factor(*params.factor);
  if (params.original_max_position_embeddings) {
    proto.set_original_max_position_embeddings(
        static_cast<uint32_t>(*params.original_max_position_embeddings));
  }
  if (params.beta_fast) proto.set_beta_fast(*params.beta_fast);
  if (params.beta_slow) proto.set_beta_slow(*params.beta_slow);
  if (params.mscale) proto.set_mscale(*params.mscale);
  if (params.mscale_all_dim) proto.set_mscale_all_dim(*params.mscale_all_dim);
  if (params.truncate) proto.set_truncate(*params.truncate);
  if (params.low_freq_factor) {
    proto.set_low_freq_factor(*params.low_freq_factor);
  }
  if (params.high_freq_factor) {
    proto.set_high_freq_factor(*params.high_freq_factor);
  }
  if (params.partial_rotary_factor) {
    proto.set_partial_rotary_factor(*params.partial_rotary_factor);
  }
  proto.mutable_short_factor()->Assign(params.short_factor.begin(),
                                       params.short_factor.end());
  proto.mutable_long_factor()->Assign(params.long_factor.begin(),
                                      params.long_factor.end());
}

}  // namespace

RopeRequest ToRopeRequest(const v1::ContextExtension& extension) {
  RopeRequest request;
  FillScaling(extension.rope_scaling(), request);
  if (extension.has_rope_theta()) request.rope_theta = extension.rope_theta();
  request.max_context = extension.max_context();
  return request;
}

v1::EffectiveRope ToProto(const std::optional<EffectiveRope>& rope) {
  v1::EffectiveRope proto;
  if (!rope.has_value()) {
    proto.set_type(v1::ROPE_TYPE_NO_ROPE);
    return proto;
  }
  const RopeParams& params = rope->params;
  proto.set_type(ToProto(params.type));
  proto.set_rope_theta(params.rope_theta);
  proto.set_rotary_dim(static_cast<uint32_t>(params.rotary_dim));
  proto.set_head_dim(static_cast<uint32_t>(params.head_dim));
  proto.set_pairing(ToProto(rope->pairing));
  proto.set_attention_factor(rope->attention_factor);
  proto.mutable_inv_freqs()->Assign(rope->inv_freqs.begin(),
                                    rope->inv_freqs.end());
  proto.set_hash(rope->hash);
  proto.set_context_length(static_cast<uint32_t>(rope->context_length));
  FillMethodParameters(params, proto);
  return proto;
}

}  // namespace headrace
