#include "server/code_pages.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace headrace {
namespace {

int ReleaseSegments(dl_phdr_info* info, size_t /*size*/, void* /*unused*/) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    // Relocated data would be lost; it lies in writable segments alone.
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const uintptr_t begin = (info->dlpi_addr + segment.p_vaddr) / page * page;
    const uintptr_t end = info->dlpi_addr + segment.p_vaddr + segment.p_memsz;
    // A hint; failure is harmless. The loader gives addresses as numbers.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 0;
}

}  // namespace

void ReleaseCodePages() { dl_iterate_phdr(ReleaseSegments, nullptr); }

}  // namespace headrace
