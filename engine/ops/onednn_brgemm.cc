#include "engine/ops/onednn_brgemm.h"

#include <algorithm>
#include <utility>

#include "absl/log/check.h"
#include "engine/ops/kernels/packed_layout.h"

namespace headrace {

#ifdef DNNL_EXPERIMENTAL_UKERNEL

OneDnnBrgemm::OneDnnBrgemm(const OneDnnLibrary& library, const Shape& shape)
    : library_(&library), integers_(shape.src != dnnl_f32) {
  dnnl_brgemm_t kernel = nullptr;
  if (library.brgemm_create(&kernel, shape.rows, kernels::kPanelColumns,
                            shape.k_count, /*batch_size=*/1, shape.ld_src,
                            /*ldb=*/kernels::kPanelColumns,
                            /*ldc=*/kernels::kPanelColumns, shape.src,
                            shape.weights, shape.dst) != dnnl_success) {
    return;
  }
  kernel_.reset(kernel);
  size_t scratch_bytes = 0;
  if (library.brgemm_set_add_c(kernel, shape.accumulate ? 1 : 0) !=
          dnnl_success ||
      library.brgemm_finalize(kernel) != dnnl_success ||
      library.brgemm_get_scratchpad_size(kernel, &scratch_bytes) !=
          dnnl_success ||
      scratch_bytes > kScratchBytes ||
      library.brgemm_generate(kernel) != dnnl_success) {
    kernel_.reset();
  }
  needs_scratch_ = scratch_bytes > 0;
}

void OneDnnBrgemm::Execute(const void* src, const void* weights, void* dst,
                           std::byte* scratch) const {
  static constexpr dnnl_dim_t kNoOffsets[2] = {0, 0};
  CHECK(scratch != nullptr || !needs_scratch_);
  if (integers_) {
    CHECK_EQ(library_->brgemm_set_hw_context(kernel_.get()), dnnl_success);
  }
  CHECK_EQ(library_->brgemm_execute(kernel_.get(), src, weights, kNoOffsets,
                                    dst, scratch),
           dnnl_success);
}

void OneDnnBrgemm::ReleaseTiles() const {
  // Says that there are none on other machines.
  if (integers_) library_->brgemm_release_hw_context();
}

void OneDnnBrgemm::Destroy::operator()(dnnl_brgemm_t kernel) const {
  LoadOneDnn()->brgemm_destroy(kernel);
}

bool OneDnnBrgemms::Compile(const OneDnnLibrary& library,
                            OneDnnBrgemm::Shape shape) {
  src_row_bytes_ = shape.ld_src * (shape.src == dnnl_f32 ? 4 : 1);
  for (shape.rows = 1; shape.rows <= kMaxRows; shape.rows = Next(shape.rows)) {
    OneDnnBrgemm kernel(library, shape);
    if (!kernel.ok()) return false;
    (shape.rows < kRowStep ? few_ : multiples_).push_back(std::move(kernel));
  }
  return true;
}

bool OneDnnBrgemms::needs_scratch() const {
  const auto needs = [](const OneDnnBrgemm& k) { return k.needs_scratch(); };
  return std::ranges::any_of(few_, needs) ||
         std::ranges::any_of(multiples_, needs);
}

void OneDnnBrgemms::Execute(const void* src, int64_t num_rows,
                            const void* weights, void* dst,
                            std::byte* scratch) const {
  const int64_t most = num_rows / kRowStep * kRowStep;
  if (most > 0) {
    multiples_[static_cast<size_t>(most / kRowStep - 1)].Execute(src, weights,
                                                                 dst, scratch);
  }
  if (most < num_rows) {
    constexpr int64_t kDstRowBytes = kernels::kPanelColumns * 4;
    few_[static_cast<size_t>(num_rows - most - 1)].Execute(
        static_cast<const std::byte*>(src) + most * src_row_bytes_, weights,
        static_cast<std::byte*>(dst) + most * kDstRowBytes, scratch);
  }
}

#endif  // DNNL_EXPERIMENTAL_UKERNEL

}  // namespace headrace
