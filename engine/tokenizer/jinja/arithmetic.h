// Python's arithmetic on numbers: int of 64 bits (more is an error), float,
// bool as int; division and modulo with Python's signs.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_ARITHMETIC_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_ARITHMETIC_H_

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/value.h"

namespace headrace {

// Both operands are numbers.
// Errors: INVALID_ARGUMENT for division by zero and for results that do not
// fit.
absl::StatusOr<JinjaValue> ApplyToNumbers(BinaryOperator op,
                                          const JinjaValue& left,
                                          const JinjaValue& right);

// Python's round(): halves go to the even neighbour; a float stays a float,
// an integer an integer.
// Errors: INVALID_ARGUMENT for integers beyond 64 bits.
absl::StatusOr<JinjaValue> RoundNumber(const JinjaValue& value,
                                       int64_t precision);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_ARITHMETIC_H_
