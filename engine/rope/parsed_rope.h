// What a model file says about RoPE, with what was odd about it.
#ifndef HEADRACE_ENGINE_ROPE_PARSED_ROPE_H_
#define HEADRACE_ENGINE_ROPE_PARSED_ROPE_H_

#include <string>
#include <vector>

#include "engine/rope/rope_params.h"

namespace headrace {

struct ParsedRope {
  RopeParams params;  // valid: ResolveRope accepts them
  // Unknown or unused keys, contradictions that were resolved, defaults that
  // the file should have stated. For the log and ModelInfo::warnings.
  std::vector<std::string> warnings;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_PARSED_ROPE_H_
