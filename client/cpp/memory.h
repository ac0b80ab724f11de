// How a program that reads many rows uses its memory.
#ifndef HEADRACE_CLIENT_CPP_MEMORY_H_
#define HEADRACE_CLIENT_CPP_MEMORY_H_

namespace headrace::client {

// Lets glibc keep what messages took for the next ones, up to 64 MB a thread,
// where it would return the pages after each message and be given them again,
// zeroed: a stream of rows is half as fast again. It concerns the whole
// process, so a program calls it, in its main(), and the SDK does not.
void KeepFreedMemory();

}  // namespace headrace::client

#endif  // HEADRACE_CLIENT_CPP_MEMORY_H_
