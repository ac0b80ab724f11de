#include "engine/ops/onednn_brgemm.h"

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

#endif  // DNNL_EXPERIMENTAL_UKERNEL

}  // namespace headrace
