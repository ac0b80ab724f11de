#include "engine/architectures/llama.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/architectures/llama_config.h"
#include "engine/architectures/tensor_binder.h"
#include "engine/base/status_macros.h"

namespace headrace {
namespace {

// Tensor names of one format; "{l}" stands for the layer.
struct TensorNames {
  std::string_view embed_tokens, final_norm, lm_head;
  std::string_view attn_norm, q_proj, k_proj, v_proj, o_proj;
  std::string_view mlp_norm, gate_proj, up_proj, down_proj;
};

constexpr TensorNames kHuggingFaceNames = {
    .embed_tokens = "model.embed_tokens.weight",
    .final_norm = "model.norm.weight",
    .lm_head = "lm_head.weight",
    .attn_norm = "model.layers.{l}.input_layernorm.weight",
    .q_proj = "model.layers.{l}.self_attn.q_proj.weight",
    .k_proj = "model.layers.{l}.self_attn.k_proj.weight",
    .v_proj = "model.layers.{l}.self_attn.v_proj.weight",
    .o_proj = "model.layers.{l}.self_attn.o_proj.weight",
    .mlp_norm = "model.layers.{l}.post_attention_layernorm.weight",
    .gate_proj = "model.layers.{l}.mlp.gate_proj.weight",
    .up_proj = "model.layers.{l}.mlp.up_proj.weight",
    .down_proj = "model.layers.{l}.mlp.down_proj.weight",
};

// GGUF's, which the llama2.c reader gives its tensors too.
constexpr TensorNames kGgufNames = {
    .embed_tokens = "token_embd.weight",
    .final_norm = "output_norm.weight",
    .lm_head = "output.weight",
    .attn_norm = "blk.{l}.attn_norm.weight",
    .q_proj = "blk.{l}.attn_q.weight",
    .k_proj = "blk.{l}.attn_k.weight",
    .v_proj = "blk.{l}.attn_v.weight",
    .o_proj = "blk.{l}.attn_output.weight",
    .mlp_norm = "blk.{l}.ffn_norm.weight",
    .gate_proj = "blk.{l}.ffn_gate.weight",
    .up_proj = "blk.{l}.ffn_up.weight",
    .down_proj = "blk.{l}.ffn_down.weight",
};

const TensorNames& NamesOf(WeightFormat format) {
  return format == WeightFormat::kSafetensors ? kHuggingFaceNames : kGgufNames;
}

absl::StatusOr<NormDescription> BindNorm(TensorBinder& binder,
                                         const std::string& name,
                                         const ModelConfig& config) {
  ASSIGN_OR_RETURN(std::vector<float> weight,
                   binder.Vector(name, config.hidden_size));
  return NormDescription{.weight = std::move(weight),
                         .eps = config.rms_norm_eps};
}

absl::StatusOr<LayerDescription> BindLayer(TensorBinder& binder,
                                           const TensorNames& names,
                                           int64_t layer,
                                           const ModelConfig& config) {
  const auto name = [layer](std::string_view pattern) {
    return absl::StrReplaceAll(std::string(pattern),
                               {{"{l}", absl::StrCat(layer)}});
  };
  const int64_t hidden = config.hidden_size;
  const int64_t ffn = config.intermediate_size;
  const int64_t q_width = config.num_attention_heads * config.head_dim;
  const int64_t kv_width = config.num_key_value_heads * config.head_dim;
  LayerDescription out;
  AttentionDescription& attention = out.attention;
  MlpDescription& mlp = out.mlp;
  ASSIGN_OR_RETURN(attention.norm,
                   BindNorm(binder, name(names.attn_norm), config));
  ASSIGN_OR_RETURN(attention.q_proj,
                   binder.Matrix(name(names.q_proj), q_width, hidden));
  ASSIGN_OR_RETURN(attention.k_proj,
                   binder.Matrix(name(names.k_proj), kv_width, hidden));
  ASSIGN_OR_RETURN(attention.v_proj,
                   binder.Matrix(name(names.v_proj), kv_width, hidden));
  ASSIGN_OR_RETURN(attention.o_proj,
                   binder.Matrix(name(names.o_proj), hidden, q_width));
  ASSIGN_OR_RETURN(mlp.norm, BindNorm(binder, name(names.mlp_norm), config));
  ASSIGN_OR_RETURN(mlp.gate_proj,
                   binder.Matrix(name(names.gate_proj), ffn, hidden));
  ASSIGN_OR_RETURN(mlp.up_proj,
                   binder.Matrix(name(names.up_proj), ffn, hidden));
  ASSIGN_OR_RETURN(mlp.down_proj,
                   binder.Matrix(name(names.down_proj), hidden, ffn));
  return out;
}

// A stored head is used whenever it is there; a file that says it is tied and
// stores one is told so.
absl::Status BindHead(TensorBinder& binder, const TensorNames& names,
                      const LlamaConfig& read, DecoderDescription& out) {
  const std::string name(names.lm_head);
  if (!binder.Has(name)) {
    if (!read.tie_word_embeddings.value_or(true)) {
      return absl::DataLossError(absl::StrCat(
          "tensor ", name,
          " is missing, but config.json says tie_word_embeddings = false"));
    }
    out.config.tie_word_embeddings = true;
    out.lm_head = out.embed_tokens;
    return absl::OkStatus();
  }
  if (read.tie_word_embeddings.value_or(false)) {
    out.warnings.push_back(
        absl::StrCat("config.json says tie_word_embeddings = true, but ", name,
                     " is stored: the stored one is used"));
  }
  out.config.tie_word_embeddings = false;
  ASSIGN_OR_RETURN(out.lm_head, binder.Matrix(name, out.config.vocab_size,
                                              out.config.hidden_size));
  return absl::OkStatus();
}

// A bias that is stored but not applied would be silently wrong, unless it is
// zero: early versions of AutoGPTQ wrote one for every matrix.
absl::Status CheckUnused(const TensorBinder& binder,
                         std::vector<std::string>& warnings) {
  std::vector<std::string> unused;
  for (const std::string& name : binder.Unused()) {
    if (absl::EndsWith(name, ".rotary_emb.inv_freq")) continue;
    if (absl::EndsWith(name, ".bias")) {
      if (binder.IsZero(name)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", name,
          ": biases are not supported in the Llama family (attention_bias, "
          "mlp_bias)"));
    }
    unused.push_back(name);
  }
  if (unused.empty()) return absl::OkStatus();
  const size_t count = unused.size();
  if (count > 5) unused.resize(5);
  warnings.push_back(absl::StrCat(
      count, " tensors are not used: ", absl::StrJoin(unused, ", "),
      count > 5 ? ", ..." : ""));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DecoderDescription> DescribeLlama(const WeightSource& source) {
  ASSIGN_OR_RETURN(LlamaConfig read, ReadLlamaConfig(source));
  DecoderDescription out;
  out.config = read.config;
  out.warnings = read.warnings;
  const TensorNames& names = NamesOf(source.format());
  TensorBinder binder(source);
  binder.Ignore("rope_freqs.weight");  // read with the configuration
  ASSIGN_OR_RETURN(
      out.embed_tokens,
      binder.Matrix(std::string(names.embed_tokens), out.config.vocab_size,
                    out.config.hidden_size));
  for (int64_t layer = 0; layer < out.config.num_hidden_layers; ++layer) {
    ASSIGN_OR_RETURN(LayerDescription description,
                     BindLayer(binder, names, layer, out.config));
    out.layers.push_back(std::move(description));
  }
  ASSIGN_OR_RETURN(out.final_norm,
                   BindNorm(binder, std::string(names.final_norm), out.config));
  RETURN_IF_ERROR(BindHead(binder, names, read, out));
  RETURN_IF_ERROR(CheckUnused(binder, out.warnings));
  return out;
}

}  // namespace headrace
