// The only way in which anything is written on the residual bus: by adding.
#ifndef HEADRACE_ENGINE_OPS_RESIDUAL_ADD_H_
#define HEADRACE_ENGINE_OPS_RESIDUAL_ADD_H_

#include <cstdint>

#include "engine/base/thread_team.h"

namespace headrace {

// bus[i] += write[i] for i in [0, n): one rounded float32 addition each, so a
// reader can repeat it exactly. The two do not overlap.
void AddToBus(ThreadTeam& team, float* bus, const float* write, int64_t n);

// write[i] *= scale, rounded: what a model with a residual multiplier (Granite)
// does before AddToBus(), so that the row which is captured is the row which is
// added.
void ScaleWrite(float* write, float scale, int64_t n);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_RESIDUAL_ADD_H_
