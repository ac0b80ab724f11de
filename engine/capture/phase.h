// The two phases of a sequence.
#ifndef HEADRACE_ENGINE_CAPTURE_PHASE_H_
#define HEADRACE_ENGINE_CAPTURE_PHASE_H_

#include <cstdint>

namespace headrace {

// A row belongs to the prompt, or to a token that was generated and fed back.
enum class Phase : uint8_t { kPrompt, kGenerated };

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_PHASE_H_
