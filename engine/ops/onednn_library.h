// oneDNN, loaded when something first asks for it: only products in float32
// and those of int8 rows use it, and having it costs a process 4 MiB of its own
// and 6 ms.
#ifndef HEADRACE_ENGINE_OPS_ONEDNN_LIBRARY_H_
#define HEADRACE_ENGINE_OPS_ONEDNN_LIBRARY_H_

#include "oneapi/dnnl/dnnl.h"
#include "oneapi/dnnl/dnnl_ukernel.h"

namespace headrace {

// Its functions that we use, under their names without dnnl_.
struct OneDnnLibrary {
  decltype(&dnnl_set_max_cpu_isa) set_max_cpu_isa = nullptr;
#ifdef DNNL_EXPERIMENTAL_UKERNEL
  decltype(&dnnl_brgemm_create) brgemm_create = nullptr;
  decltype(&dnnl_brgemm_destroy) brgemm_destroy = nullptr;
  decltype(&dnnl_brgemm_set_add_C) brgemm_set_add_c = nullptr;
  decltype(&dnnl_brgemm_finalize) brgemm_finalize = nullptr;
  decltype(&dnnl_brgemm_get_scratchpad_size) brgemm_get_scratchpad_size =
      nullptr;
  decltype(&dnnl_brgemm_generate) brgemm_generate = nullptr;
  decltype(&dnnl_brgemm_set_hw_context) brgemm_set_hw_context = nullptr;
  decltype(&dnnl_brgemm_release_hw_context) brgemm_release_hw_context = nullptr;
  decltype(&dnnl_brgemm_execute) brgemm_execute = nullptr;
#endif
};

// Null, and the log says why, if the version that this was built with is not
// installed. It stays loaded. Thread-safe.
const OneDnnLibrary* LoadOneDnn();

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ONEDNN_LIBRARY_H_
