#include "server/convert/models.h"

#include <cstdint>
#include <string>

#include "engine/base/status_macros.h"
#include "server/convert/enums.h"
#include "server/convert/rope.h"

namespace headrace {

namespace {

void FillDimensions(const ModelConfig& config, v1::Model& proto) {
  proto.set_name(config.name);
  proto.set_architecture(config.architecture);
  proto.set_hidden_size(static_cast<uint32_t>(config.hidden_size));
  proto.set_intermediate_size(static_cast<uint32_t>(config.intermediate_size));
  proto.set_num_hidden_layers(static_cast<uint32_t>(config.num_hidden_layers));
  proto.set_num_attention_heads(
      static_cast<uint32_t>(config.num_attention_heads));
  proto.set_num_key_value_heads(
      static_cast<uint32_t>(config.num_key_value_heads));
  proto.set_head_dim(static_cast<uint32_t>(config.head_dim));
  proto.set_vocab_size(static_cast<uint32_t>(config.vocab_size));
  proto.set_max_position_embeddings(
      static_cast<uint32_t>(config.max_position_embeddings));
}

void FillTokenizer(const Engine& engine, v1::Model& proto) {
  proto.set_has_chat_template(engine.chat_template() != nullptr);
  const Tokenizer* tokenizer = engine.tokenizer();
  if (tokenizer == nullptr) return;
  proto.set_tokenizer_vocab_size(
      static_cast<uint32_t>(tokenizer->vocab_size()));
  if (tokenizer->bos_token_id().has_value()) {
    proto.set_bos_token_id(static_cast<uint32_t>(*tokenizer->bos_token_id()));
  }
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    if (tokenizer->KindOf(id) == TokenKind::kControl) {
      proto.add_control_token_ids(static_cast<uint32_t>(id));
    }
  }
}

v1::Model DescribeModel(const ServingContext& context) {
  const ModelInfo& model = context.engine->model();
  v1::Model proto;
  FillDimensions(model.config, proto);
  FillTokenizer(*context.engine, proto);
  *proto.mutable_rope() = ToProto(model.rope);
  proto.set_context_length(static_cast<uint32_t>(model.context_length));
  proto.set_numerics(ToProto(model.numerics));
  proto.set_weight_format(model.weight_format);
  proto.set_weight_dtype(model.weight_dtype);
  proto.set_kv_cache_dtype(std::string(LayoutOf(model.kv_cache_dtype).name));
  proto.set_weights_sha256(model.weights_sha256);
  proto.set_weight_bytes(model.weight_bytes);
  proto.set_parameter_count(model.parameter_count);
  proto.mutable_end_token_ids()->Assign(model.end_token_ids.begin(),
                                        model.end_token_ids.end());
  proto.set_threads(static_cast<uint32_t>(model.num_threads));
  proto.set_isa(model.isa);
  proto.mutable_warnings()->Assign(model.warnings.begin(),
                                   model.warnings.end());
  return proto;
}

v1::HookPointInfo DescribeHook(const HookPointState& state,
                               int64_t layer_count) {
  const HookPointInfo& info = GetHookPointInfo(state.hook);
  v1::HookPointInfo proto;
  proto.set_hook(ToProto(state.hook));
  proto.set_name(std::string(info.name));
  if (info.per_layer) proto.set_layer_count(static_cast<uint32_t>(layer_count));
  proto.set_width(static_cast<uint32_t>(state.width));
  proto.set_head_count(static_cast<uint32_t>(state.num_heads));
  proto.set_capturable(state.capturable);
  proto.set_writable(state.writable);
  proto.set_refusal(state.refusal);
  proto.set_bytes_per_row(
      static_cast<uint32_t>(WireRowBytes(WireDtype::kF32, state.width)));
  proto.set_transformer_lens(std::string(info.transformer_lens));
  proto.set_llama_cpp(std::string(info.llama_cpp));
  proto.set_hugging_face(std::string(info.hugging_face));
  return proto;
}

}  // namespace

absl::StatusOr<v1::ListModelsResponse> HandleListModels(
    const v1::ListModelsRequest& /*proto*/, const ServingContext& context) {
  v1::ListModelsResponse response;
  *response.add_models() = DescribeModel(context);
  return response;
}

absl::StatusOr<v1::GetModelResponse> HandleGetModel(
    const v1::GetModelRequest& proto, const ServingContext& context) {
  RETURN_IF_ERROR(CheckModelName(proto.model(), context));
  v1::GetModelResponse response;
  *response.mutable_model() = DescribeModel(context);
  return response;
}

absl::StatusOr<v1::ListHookPointsResponse> HandleListHookPoints(
    const v1::ListHookPointsRequest& proto, const ServingContext& context) {
  RETURN_IF_ERROR(CheckModelName(proto.model(), context));
  const int64_t layers = context.engine->model().config.num_hidden_layers;
  v1::ListHookPointsResponse response;
  for (const HookPointState& state : context.engine->hooks()) {
    *response.add_hooks() = DescribeHook(state, layers);
  }
  return response;
}

}  // namespace headrace
