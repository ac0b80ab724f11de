// The places in a model where rows can be read: the residual bus and what is
// written on it. One table names them all; the order is the order in a pass.
#ifndef HEADRACE_ENGINE_MODEL_HOOK_POINT_H_
#define HEADRACE_ENGINE_MODEL_HOOK_POINT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace headrace {

// Names are those of TransformerLens. kAttnOut and kMlpOut are what is *added*
// to the bus, after any post-norm and scale.
enum class HookPoint : uint8_t {
  kEmbed,
  kPositionWrite,
  kResidPre,
  kAttnNormScale,
  kAttnNormOut,
  kQ,
  kK,
  kV,
  kQRotated,
  kKRotated,
  kAttnScores,
  kAttnProbs,
  kZ,
  kAttnOut,
  kResidMid,
  kMlpNormScale,
  kMlpNormOut,
  kMlpGate,
  kMlpUp,
  kMlpAct,
  kMlpOut,
  kResidPost,
  kFinalNormScale,
  kFinalNormOut,
  kLogits,
};

struct HookPointInfo {
  HookPoint hook;
  std::string_view name;  // "resid_post": the command line's word
  bool per_layer;
  // Aliases; "{l}" stands for the layer. Empty where the other has none.
  std::string_view transformer_lens;  // "blocks.{l}.hook_resid_post"
  std::string_view llama_cpp;         // "l_out-{l}"
  std::string_view hugging_face;      // "model.layers.{l}" (its output)
};

// Every hook point in order of the enum.
std::span<const HookPointInfo> AllHookPoints();
const HookPointInfo& GetHookPointInfo(HookPoint hook);

// By `name`, as in "resid_post"; nullopt when unknown (never a default).
std::optional<HookPoint> HookPointFromName(std::string_view name);

// "blocks.3.hook_resid_post": the alias with the layer filled in.
std::string TransformerLensName(HookPoint hook, int32_t layer);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MODEL_HOOK_POINT_H_
