// v1.RowSelector: rows by phase, resolved to absolute positions.
#ifndef HEADRACE_SERVER_CONVERT_ROW_SELECTION_H_
#define HEADRACE_SERVER_CONVERT_ROW_SELECTION_H_

#include <cstdint>
#include <string>

#include "engine/capture/capture_plan.h"
#include "headrace/v1/activations.pb.h"
#include "server/convert/violations.h"

namespace headrace {

// Negative positions count from the end of the prompt. `prompt_length` 0: the
// prompt itself is not valid, so positions are not checked against it.
RowSelection ResolveRows(const v1::RowSelector& proto, const std::string& field,
                         int64_t prompt_length, int64_t vocab_size,
                         Violations& violations);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_ROW_SELECTION_H_
