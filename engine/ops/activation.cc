#include "engine/ops/activation.h"

#include "engine/ops/kernels/activation_kernel.h"
#include "engine/ops/row_tasks.h"

namespace headrace {

ActivateRow ActivateRowOf(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return kernels::SiluRow;
    case Activation::kGeluErf:
      return kernels::GeluErfRow;
    case Activation::kGeluTanh:
      return kernels::GeluTanhRow;
  }
  return nullptr;  // not reached: every enumerator returns
}

void Activate(ThreadTeam& team, Activation activation,
              const ActivationInputs& inputs, float* dst) {
  const ActivateRow function = ActivateRowOf(activation);
  ForEachRow(team, inputs.num_rows, inputs.width,
             [&](int64_t row, int /*thread_index*/) {
               const int64_t offset = row * inputs.row_stride;
               function(inputs.gate + offset,
                        inputs.up == nullptr ? nullptr : inputs.up + offset,
                        inputs.width, dst + row * inputs.width);
             });
}

}  // namespace headrace
