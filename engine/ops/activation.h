// Elementwise non-linearities of the MLP, alone or as a gate.
#ifndef HEADRACE_ENGINE_OPS_ACTIVATION_H_
#define HEADRACE_ENGINE_OPS_ACTIVATION_H_

#include <cstdint>

#include "engine/base/thread_team.h"

namespace headrace {

enum class Activation : uint8_t {
  kSilu,      // x * sigmoid(x); Hugging Face "silu", "swish"
  kGeluErf,   // x * P(X < x), X normal; "gelu"
  kGeluTanh,  // its tanh approximation; "gelu_new", "gelu_pytorch_tanh"
};

struct ActivationInputs {
  const float* gate = nullptr;  // [num_rows, width]
  const float* up = nullptr;    // [num_rows, width], or null: no product
  int64_t num_rows = 0;
  int64_t width = 0;
  int64_t row_stride = 0;  // of gate and up, in floats; >= width
};

// dst = activation(gate) * up.
//
//   dst: [num_rows, width], dense; may be `gate` or `up` when that is dense
//
// Each element is computed by itself. SiLU is within 2 ulp; the GELUs are
// within 2 ulp for arguments of size 1, and where the exponent of their tails
// is large within 2e-6 of the result or 1e-11 of the argument. Non-finite
// arguments give non-finite results or the limit. Equal in every bit on every
// instruction set with fused multiply-add. Source: Hendrycks and Gimpel 2016,
// arXiv:1606.08415; Shazeer 2020, arXiv:2002.05202 (gated forms); formulas as
// in transformers 4.57 activations.py.
void Activate(ThreadTeam& team, Activation activation,
              const ActivationInputs& inputs, float* dst);

// The same for one row of n elements: dst may be gate or up.
using ActivateRow = void (*)(const float* gate, const float* up, int64_t n,
                             float* dst);
ActivateRow ActivateRowOf(Activation activation);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_ACTIVATION_H_
