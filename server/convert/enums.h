// The protocol's enums and the engine's, one to one.
#ifndef HEADRACE_SERVER_CONVERT_ENUMS_H_
#define HEADRACE_SERVER_CONVERT_ENUMS_H_

#include <optional>

#include "engine/engine.h"
#include "headrace/v1/activations.pb.h"
#include "headrace/v1/context_extension.pb.h"
#include "headrace/v1/generation.pb.h"
#include "server/batching/events.h"

namespace headrace {

v1::HookPoint ToProto(HookPoint hook);
v1::Phase ToProto(Phase phase);
v1::WireDtype ToProto(WireDtype dtype);
v1::NumericsMode ToProto(Numerics numerics);
v1::FinishReason ToProto(FinishReason reason);
v1::RopeType ToProto(RopeType type);
v1::RopePairing ToProto(RopePairing pairing);

// Nullopt for UNSPECIFIED and for numbers that no name stands for.
std::optional<HookPoint> FromProto(v1::HookPoint hook);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_ENUMS_H_
