// Standard input, output and error that were closed before the start.
#ifndef HEADRACE_SERVER_STANDARD_DESCRIPTORS_H_
#define HEADRACE_SERVER_STANDARD_DESCRIPTORS_H_

namespace headrace {

// Fills the places of closed ones, so that nothing else gets their numbers and
// with them the log. What is written there fails. For a program's
// .preinit_array: gRPC opens descriptors while it is loaded.
void FillClosedStandardDescriptors();

}  // namespace headrace

#endif  // HEADRACE_SERVER_STANDARD_DESCRIPTORS_H_
