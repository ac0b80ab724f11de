// Early return on error, for functions that return absl::Status or
// absl::StatusOr. Not for tests (use ASSERT_TRUE on .ok()).
#ifndef HEADRACE_ENGINE_BASE_STATUS_MACROS_H_
#define HEADRACE_ENGINE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define HEADRACE_CONCAT_INNER_(a, b) a##b
#define HEADRACE_CONCAT_(a, b) HEADRACE_CONCAT_INNER_(a, b)

// Returns from the enclosing function when `expr` is not OK.
#define RETURN_IF_ERROR(expr)                       \
  do {                                              \
    if (absl::Status status_macro_status_ = (expr); \
        !status_macro_status_.ok()) {               \
      return status_macro_status_;                  \
    }                                               \
  } while (false)

// Assigns the value of a StatusOr to `lhs`, or returns its error. `lhs` may be
// a declaration, which takes no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL_(HEADRACE_CONCAT_(status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL_(status_or, lhs, expr) \
  auto status_or = (expr);                           \
  if (!status_or.ok()) {                             \
    return std::move(status_or).status();            \
  }                                                  \
  lhs = std::move(status_or).value()
// NOLINTEND(bugprone-macro-parentheses)

#endif  // HEADRACE_ENGINE_BASE_STATUS_MACROS_H_
