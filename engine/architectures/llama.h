// The Llama family: Llama 1 to 3.x, SmolLM2, Mistral. Pre-norm sequential
// blocks, RMSNorm, grouped-query attention under RoPE, SiLU-gated MLP.
// Source: Touvron et al. 2023, arXiv:2302.13971; transformers 4.57
// modeling_llama.py and modeling_mistral.py.
#ifndef HEADRACE_ENGINE_ARCHITECTURES_LLAMA_H_
#define HEADRACE_ENGINE_ARCHITECTURES_LLAMA_H_

#include "absl/status/statusor.h"
#include "engine/model/decoder_description.h"
#include "engine/weights/weight_source.h"

namespace headrace {

// From GGUF (architecture "llama"), Hugging Face folders and llama2.c files.
absl::StatusOr<DecoderDescription> DescribeLlama(const WeightSource& source);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ARCHITECTURES_LLAMA_H_
