#include "client/cpp/memory.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace headrace::client {

void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
}

}  // namespace headrace::client
