// Python's printf-style formatting of strings: '%s: %03d' % (name, number).
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_PERCENT_FORMAT_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_PERCENT_FORMAT_H_

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/budget.h"
#include "engine/tokenizer/jinja/value.h"

namespace headrace {

// `format` is a string; `arguments` a tuple of them, or the only one. Knows %s
// %r %d %i %u %f %F %e %E %g %G %x %X %% with flags, width and precision.
// Errors: INVALID_ARGUMENT for other conversions, %(name)s among them, for
// values of the wrong type and for too few or too many.
absl::StatusOr<JinjaValue> PercentFormat(JinjaBudget& budget,
                                         const JinjaValue& format,
                                         const JinjaValue& arguments);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_PERCENT_FORMAT_H_
