#include "engine/model/hook_point.h"

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace headrace {
namespace {

constexpr bool kOnce = false;
constexpr bool kPerLayer = true;

// One line per hook. Aliases: TransformerLens 2.x HookedTransformer; llama.cpp
// 2025-02 graph names; Hugging Face module outputs of the Llama family.
constexpr std::array<HookPointInfo, 25> kHookPoints = {{
    {HookPoint::kEmbed, "embed", kOnce, "hook_embed", "inp_embd",
     "model.embed_tokens"},
    {HookPoint::kPositionWrite, "position_write", kOnce, "hook_pos_embed", "",
     ""},
    {HookPoint::kResidPre, "resid_pre", kPerLayer, "blocks.{l}.hook_resid_pre",
     "", "model.layers.{l} (input)"},
    {HookPoint::kAttnNormScale, "attn_norm_scale", kPerLayer,
     "blocks.{l}.ln1.hook_scale", "", ""},
    {HookPoint::kAttnNormOut, "attn_norm_out", kPerLayer, "", "attn_norm-{l}",
     "model.layers.{l}.input_layernorm"},
    {HookPoint::kQ, "q", kPerLayer, "blocks.{l}.attn.hook_q", "Qcur-{l}",
     "model.layers.{l}.self_attn.q_proj"},
    {HookPoint::kK, "k", kPerLayer, "blocks.{l}.attn.hook_k", "Kcur-{l}",
     "model.layers.{l}.self_attn.k_proj"},
    {HookPoint::kV, "v", kPerLayer, "blocks.{l}.attn.hook_v", "Vcur-{l}",
     "model.layers.{l}.self_attn.v_proj"},
    {HookPoint::kQRotated, "q_rotated", kPerLayer, "blocks.{l}.attn.hook_rot_q",
     "", ""},
    {HookPoint::kKRotated, "k_rotated", kPerLayer, "blocks.{l}.attn.hook_rot_k",
     "", ""},
    {HookPoint::kAttnScores, "attn_scores", kPerLayer,
     "blocks.{l}.attn.hook_attn_scores", "kq-{l}", ""},
    {HookPoint::kAttnProbs, "attn_probs", kPerLayer,
     "blocks.{l}.attn.hook_pattern", "kq_soft_max_ext-{l}", ""},
    {HookPoint::kZ, "z", kPerLayer, "blocks.{l}.attn.hook_z", "kqv_out-{l}",
     "model.layers.{l}.self_attn.o_proj (input)"},
    {HookPoint::kAttnOut, "attn_out", kPerLayer, "blocks.{l}.hook_attn_out",
     "attn_out-{l}", "model.layers.{l}.self_attn"},
    {HookPoint::kResidMid, "resid_mid", kPerLayer, "blocks.{l}.hook_resid_mid",
     "ffn_inp-{l}", "model.layers.{l}.post_attention_layernorm (input)"},
    {HookPoint::kMlpNormScale, "mlp_norm_scale", kPerLayer,
     "blocks.{l}.ln2.hook_scale", "", ""},
    {HookPoint::kMlpNormOut, "mlp_norm_out", kPerLayer, "", "ffn_norm-{l}",
     "model.layers.{l}.post_attention_layernorm"},
    {HookPoint::kMlpGate, "mlp_gate", kPerLayer, "blocks.{l}.mlp.hook_pre",
     "ffn_gate-{l}", "model.layers.{l}.mlp.gate_proj"},
    {HookPoint::kMlpUp, "mlp_up", kPerLayer, "blocks.{l}.mlp.hook_pre_linear",
     "ffn_up-{l}", "model.layers.{l}.mlp.up_proj"},
    {HookPoint::kMlpAct, "mlp_act", kPerLayer, "blocks.{l}.mlp.hook_post",
     "ffn_gate_par-{l}", "model.layers.{l}.mlp.down_proj (input)"},
    {HookPoint::kMlpOut, "mlp_out", kPerLayer, "blocks.{l}.hook_mlp_out",
     "ffn_out-{l}", "model.layers.{l}.mlp"},
    {HookPoint::kResidPost, "resid_post", kPerLayer,
     "blocks.{l}.hook_resid_post", "l_out-{l}", "model.layers.{l}"},
    {HookPoint::kFinalNormScale, "final_norm_scale", kOnce,
     "ln_final.hook_scale", "", ""},
    {HookPoint::kFinalNormOut, "final_norm_out", kOnce, "", "result_norm",
     "model.norm"},
    {HookPoint::kLogits, "logits", kOnce, "", "result_output", "lm_head"},
}};

}  // namespace

std::span<const HookPointInfo> AllHookPoints() { return kHookPoints; }

const HookPointInfo& GetHookPointInfo(HookPoint hook) {
  return kHookPoints[static_cast<size_t>(hook)];
}

std::optional<HookPoint> HookPointFromName(std::string_view name) {
  for (const HookPointInfo& info : kHookPoints) {
    if (info.name == name) return info.hook;
  }
  return std::nullopt;
}

std::string TransformerLensName(HookPoint hook, int32_t layer) {
  return absl::StrReplaceAll(
      std::string(GetHookPointInfo(hook).transformer_lens),
      {{"{l}", absl::StrCat(layer)}});
}

}  // namespace headrace
