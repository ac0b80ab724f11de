// Scalar models of the norms and activations that follow the written order of
// operations, and so give the same bits as the kernels.
#ifndef HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ELEMENTWISE_REFERENCE_H_
#define HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ELEMENTWISE_REFERENCE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace headrace::testing {

float ExpInOrder(float x);
float SiluInOrder(float x);
float GeluErfInOrder(float x);
float GeluTanhInOrder(float x);

// One row; `scale` receives the factor.
std::vector<float> RmsNormInOrder(std::span<const float> src,
                                  std::span<const float> weight, double eps,
                                  float& scale);
std::vector<float> LayerNormInOrder(std::span<const float> src,
                                    std::span<const float> weight,
                                    std::span<const float> bias, double eps,
                                    float& scale);

// `size` values with the given mean and deviation.
std::vector<float> NormalValues(int64_t size, float mean, float deviation,
                                uint32_t seed);

// Units in the last place between a float and the exact value it stands for.
double UlpError(float actual, double exact);

}  // namespace headrace::testing

#endif  // HEADRACE_TESTS_ENGINE_OPS_ATTENTION_ELEMENTWISE_REFERENCE_H_
