// Comes before everything else in builds with sanitizers. Debian's Abseil is
// built without them, so its headers must not think otherwise: under ASan they
// would lay out hash tables as the library does not, and poison memory that the
// library then uses. Our code is instrumented all the same.
#ifndef HEADRACE_TESTS_TESTING_SANITIZERS_ABSEIL_AS_BUILT_H_
#define HEADRACE_TESTS_TESTING_SANITIZERS_ABSEIL_AS_BUILT_H_

#include "absl/base/config.h"

#undef ABSL_HAVE_ADDRESS_SANITIZER
#undef ABSL_HAVE_LEAK_SANITIZER
#undef ABSL_HAVE_THREAD_SANITIZER

#endif  // HEADRACE_TESTS_TESTING_SANITIZERS_ABSEIL_AS_BUILT_H_
