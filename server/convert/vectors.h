// v1.Vector: float32 values for a hook.
#ifndef HEADRACE_SERVER_CONVERT_VECTORS_H_
#define HEADRACE_SERVER_CONVERT_VECTORS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headrace/v1/interventions.pb.h"
#include "server/convert/violations.h"

namespace headrace {

// The vector's values, or nullopt and a violation when they are not `width`
// finite ones.
std::optional<std::vector<float>> ResolveVector(const v1::Vector& proto,
                                                const std::string& field,
                                                int64_t width,
                                                Violations& violations);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_VECTORS_H_
