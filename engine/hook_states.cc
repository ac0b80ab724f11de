#include "engine/hook_states.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace headrace {
namespace {

constexpr char kDerived[] =
    "rows can be read but not changed: change what they are computed from";
constexpr char kNoRotation[] =
    "this model does not rotate its queries and keys";
constexpr char kNoPositionWrite[] =
    "this model writes no position on the bus: its positions are rotations of "
    "queries and keys";

int64_t WidthOf(HookPoint hook, const ModelConfig& config) {
  const int64_t q_width = config.num_attention_heads * config.head_dim;
  const int64_t kv_width = config.num_key_value_heads * config.head_dim;
  switch (hook) {
    case HookPoint::kEmbed:
    case HookPoint::kPositionWrite:
    case HookPoint::kResidPre:
    case HookPoint::kAttnNormOut:
    case HookPoint::kAttnOut:
    case HookPoint::kResidMid:
    case HookPoint::kMlpNormOut:
    case HookPoint::kMlpOut:
    case HookPoint::kResidPost:
    case HookPoint::kFinalNormOut:
      return config.hidden_size;
    case HookPoint::kAttnNormScale:
    case HookPoint::kMlpNormScale:
    case HookPoint::kFinalNormScale:
      return 1;
    case HookPoint::kQ:
    case HookPoint::kQRotated:
    case HookPoint::kZ:
      return q_width;
    case HookPoint::kK:
    case HookPoint::kKRotated:
    case HookPoint::kV:
      return kv_width;
    case HookPoint::kAttnScores:
    case HookPoint::kAttnProbs:
      return 0;  // as many as there are keys
    case HookPoint::kMlpGate:
    case HookPoint::kMlpUp:
    case HookPoint::kMlpAct:
      return config.intermediate_size;
    case HookPoint::kLogits:
      return config.vocab_size;
  }
  return 0;
}

// Whether it has a row for each head, with a value for each key.
bool HasHeads(HookPoint hook) {
  return hook == HookPoint::kAttnScores || hook == HookPoint::kAttnProbs;
}

// Why `model` has no rows of the hook; empty when it has.
std::string_view Refusal(HookPoint hook, const DecoderDescription& model) {
  switch (hook) {
    case HookPoint::kPositionWrite:
      return model.additive_position.writes() ? "" : kNoPositionWrite;
    case HookPoint::kQRotated:
    case HookPoint::kKRotated:
      return model.config.rope.has_value() ? "" : kNoRotation;
    default:
      return "";
  }
}

// Whether the pass goes on with what an intervention leaves there.
bool IsWritable(HookPoint hook) {
  switch (hook) {
    case HookPoint::kAttnNormScale:
    case HookPoint::kMlpNormScale:
    case HookPoint::kFinalNormScale:
    case HookPoint::kAttnScores:
    case HookPoint::kAttnProbs:
    case HookPoint::kFinalNormOut:
    case HookPoint::kLogits:
      return false;
    default:
      return true;
  }
}

}  // namespace

std::vector<HookPointState> DescribeHooks(const DecoderDescription& model) {
  std::vector<HookPointState> states;
  for (const HookPointInfo& info : AllHookPoints()) {
    const std::string_view refusal = Refusal(info.hook, model);
    HookPointState state{.hook = info.hook,
                         .width = WidthOf(info.hook, model.config),
                         .capturable = refusal.empty(),
                         .writable = refusal.empty() && IsWritable(info.hook),
                         .refusal = std::string(refusal),
                         .num_heads = HasHeads(info.hook)
                                          ? model.config.num_attention_heads
                                          : 0};
    if (state.capturable && !state.writable) state.refusal = kDerived;
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace headrace
