// The checkpoints of karpathy/llama2.c, version 0: a header of seven numbers
// and float32 weights in a fixed order.
#ifndef HEADRACE_ENGINE_WEIGHTS_LLAMA2C_H_
#define HEADRACE_ENGINE_WEIGHTS_LLAMA2C_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "engine/weights/weight_source.h"

namespace headrace {

// Opens a checkpoint. Tensors get GGUF's names of a Llama ("blk.0.attn_q.
// weight", "output.weight" only when stored); q and k rows are interleaved, as
// GGUF has them. The vocabulary is tok<vocab_size>.bin or tokenizer.bin beside
// the file, when there is one.
//
// Errors: DATA_LOSS naming the file: a header without sense, a size that is
// not exactly the header's, a broken vocabulary.
// Source: run.c and export.py (legacy_export) of llama2.c.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenLlama2c(
    const std::string& path);

// Whether the header makes sense and asks for exactly `file.size()` bytes.
bool LooksLikeLlama2c(std::span<const std::byte> file);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_LLAMA2C_H_
