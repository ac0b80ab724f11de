// ContextExtension ↔ the engine's rotary encodings.
#ifndef HEADRACE_SERVER_CONVERT_ROPE_H_
#define HEADRACE_SERVER_CONVERT_ROPE_H_

#include <optional>

#include "engine/engine.h"
#include "headrace/v1/context_extension.pb.h"

namespace headrace {

// Only the form: what the values mean is ResolveRequestRope()'s to judge.
RopeRequest ToRopeRequest(const v1::ContextExtension& extension);

// Nullopt (a model that rotates nothing) becomes ROPE_TYPE_NO_ROPE.
v1::EffectiveRope ToProto(const std::optional<EffectiveRope>& rope);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_ROPE_H_
