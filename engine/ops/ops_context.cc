#include "engine/ops/ops_context.h"

#include <cstdlib>
#include <string_view>

#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ops/kernels/isa.h"
#include "engine/ops/onednn_gemm.h"
#include "engine/ops/onednn_int8_gemm.h"

namespace headrace {

namespace {

// oneDNN can be capped once in a process, before its first use.
void CapOneDnn(const std::string& isa) {
  static const std::string capped_at =
      OneDnnGemm::CapIsa(isa) ? isa : std::string();
  if (capped_at != isa) {
    LOG(WARNING) << "HEADRACE_ISA=" << isa
                 << " came too late for oneDNN, which this process has used";
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<OpsContext>> OpsContext::Create(
    int num_threads, const WorkerPlacement& placement) {
  if (num_threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_threads is ", num_threads, "; at least 1"));
  }
  const char* cap = std::getenv("HEADRACE_ISA");
  const absl::Status capped = kernels::CapIsa(cap == nullptr ? "" : cap);
  if (!capped.ok()) {
    return absl::Status(capped.code(),
                        absl::StrCat("HEADRACE_ISA: ", capped.message()));
  }
  if (cap != nullptr && *cap != '\0') CapOneDnn(cap);
  std::unique_ptr<OpsContext> context(new OpsContext(num_threads, placement));
  LOG(INFO) << "kernels: " << context->isa() << ", " << num_threads
            << " compute thread" << (num_threads == 1 ? "" : "s")
            << placement.Words();
  return context;
}

OpsContext::OpsContext(int num_threads, const WorkerPlacement& placement)
    : team_(num_threads, placement),
      isa_(kernels::ChosenIsa()),
      gemm_(std::make_unique<OneDnnGemm>()),
      int8_gemm_(std::make_unique<OneDnnInt8Gemm>()) {
  for (int i = 0; i < num_threads; ++i) scratch_.emplace_back(kScratchBytes);
}

OpsContext::~OpsContext() = default;

}  // namespace headrace
