// Code and constants of the program and its libraries, tens of megabytes, of
// which a server needs little at a time: most ran when it started, and Linux
// maps 64 KiB around each page that is looked at.
#ifndef HEADRACE_SERVER_CODE_PAGES_H_
#define HEADRACE_SERVER_CODE_PAGES_H_

namespace headrace {

// Gives their pages back to the system; those that are looked at again come
// from the page cache, hundreds in a millisecond. Thread-safe.
void ReleaseCodePages();

}  // namespace headrace

#endif  // HEADRACE_SERVER_CODE_PAGES_H_
