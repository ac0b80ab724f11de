// Which hooks a loaded model has, how wide they are, and why the others are
// refused.
#ifndef HEADRACE_ENGINE_HOOK_STATES_H_
#define HEADRACE_ENGINE_HOOK_STATES_H_

#include <vector>

#include "engine/engine.h"
#include "engine/model/decoder_description.h"

namespace headrace {

// One per hook point, in order of the enum.
std::vector<HookPointState> DescribeHooks(const DecoderDescription& model);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_HOOK_STATES_H_
