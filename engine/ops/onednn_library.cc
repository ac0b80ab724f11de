#include "engine/ops/onednn_library.h"

#include <dlfcn.h>

#include <optional>

#include "absl/log/log.h"

namespace headrace {
namespace {

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<OneDnnLibrary> Load() {
  void* library = dlopen(HEADRACE_ONEDNN, RTLD_NOW | RTLD_LOCAL);
  OneDnnLibrary found;
  if (library == nullptr ||
      !Find(library, "dnnl_set_max_cpu_isa", found.set_max_cpu_isa)
#ifdef DNNL_EXPERIMENTAL_UKERNEL
      || !Find(library, "dnnl_brgemm_create", found.brgemm_create) ||
      !Find(library, "dnnl_brgemm_destroy", found.brgemm_destroy) ||
      !Find(library, "dnnl_brgemm_set_add_C", found.brgemm_set_add_c) ||
      !Find(library, "dnnl_brgemm_finalize", found.brgemm_finalize) ||
      !Find(library, "dnnl_brgemm_get_scratchpad_size",
            found.brgemm_get_scratchpad_size) ||
      !Find(library, "dnnl_brgemm_generate", found.brgemm_generate) ||
      !Find(library, "dnnl_brgemm_set_hw_context",
            found.brgemm_set_hw_context) ||
      !Find(library, "dnnl_brgemm_release_hw_context",
            found.brgemm_release_hw_context) ||
      !Find(library, "dnnl_brgemm_execute", found.brgemm_execute)
#endif
  ) {
    LOG(WARNING) << "oneDNN cannot be loaded: " << dlerror();
    return std::nullopt;
  }
  return found;
}

}  // namespace

const OneDnnLibrary* LoadOneDnn() {
  static const std::optional<OneDnnLibrary> library = Load();
  return library.has_value() ? &*library : nullptr;
}

}  // namespace headrace
