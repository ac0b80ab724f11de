#include "server/convert/enums.h"

namespace headrace {

// The protocol numbers the hooks in the engine's order, from 1.
v1::HookPoint ToProto(HookPoint hook) {
  return static_cast<v1::HookPoint>(static_cast<int>(hook) + 1);
}

std::optional<HookPoint> FromProto(v1::HookPoint hook) {
  if (hook == v1::HOOK_POINT_UNSPECIFIED || !v1::HookPoint_IsValid(hook)) {
    return std::nullopt;
  }
  return static_cast<HookPoint>(static_cast<int>(hook) - 1);
}

v1::Phase ToProto(Phase phase) {
  switch (phase) {
    case Phase::kPrompt:
      return v1::PHASE_PROMPT;
    case Phase::kGenerated:
      return v1::PHASE_GENERATED;
  }
  return v1::PHASE_UNSPECIFIED;
}

v1::WireDtype ToProto(WireDtype dtype) {
  switch (dtype) {
    case WireDtype::kF32:
      return v1::WIRE_DTYPE_F32;
    case WireDtype::kBF16:
      return v1::WIRE_DTYPE_BF16;
    case WireDtype::kF16:
      return v1::WIRE_DTYPE_F16;
    case WireDtype::kInt8:
      return v1::WIRE_DTYPE_INT8;
  }
  return v1::WIRE_DTYPE_UNSPECIFIED;
}

v1::NumericsMode ToProto(Numerics numerics) {
  switch (numerics) {
    case Numerics::kExact:
      return v1::NUMERICS_MODE_EXACT;
    case Numerics::kFast:
      return v1::NUMERICS_MODE_FAST;
  }
  return v1::NUMERICS_MODE_UNSPECIFIED;
}

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStopToken:
      return v1::FINISH_REASON_STOP_TOKEN;
    case FinishReason::kStopString:
      return v1::FINISH_REASON_STOP_STRING;
    case FinishReason::kMaxTokens:
      return v1::FINISH_REASON_MAX_TOKENS;
    case FinishReason::kContextFull:
      return v1::FINISH_REASON_CONTEXT_FULL;
    case FinishReason::kTimeLimit:
      return v1::FINISH_REASON_TIME_LIMIT;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

v1::RopeType ToProto(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return v1::ROPE_TYPE_DEFAULT;
    case RopeType::kLinear:
      return v1::ROPE_TYPE_LINEAR;
    case RopeType::kNtk:
      return v1::ROPE_TYPE_NTK;
    case RopeType::kDynamicNtk:
      return v1::ROPE_TYPE_DYNAMIC_NTK;
    case RopeType::kYarn:
      return v1::ROPE_TYPE_YARN;
    case RopeType::kLongRope:
      return v1::ROPE_TYPE_LONGROPE;
    case RopeType::kLlama3:
      return v1::ROPE_TYPE_LLAMA3;
    case RopeType::kProportional:
      return v1::ROPE_TYPE_PROPORTIONAL;
  }
  return v1::ROPE_TYPE_UNSPECIFIED;
}

v1::RopePairing ToProto(RopePairing pairing) {
  switch (pairing) {
    case RopePairing::kHalfSplit:
      return v1::ROPE_PAIRING_HALF_SPLIT;
    case RopePairing::kInterleaved:
      return v1::ROPE_PAIRING_INTERLEAVED;
  }
  return v1::ROPE_PAIRING_UNSPECIFIED;
}

}  // namespace headrace
