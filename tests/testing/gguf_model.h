// A TestModel as GGUF: one file, or a split set.
#ifndef HEADRACE_TESTS_TESTING_GGUF_MODEL_H_
#define HEADRACE_TESTS_TESTING_GGUF_MODEL_H_

#include <string>
#include <utility>
#include <vector>

#include "engine/tensor/dtype.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/test_model.h"

namespace headrace {

struct GgufModelOptions {
  // For matrices; one-dimensional tensors are F32 always, and a matrix whose
  // rows are no whole number of blocks stays F32.
  DType dtype = DType::kF32;
  // Applied last: keys to set or replace (any stored type), keys to leave out.
  std::vector<std::pair<std::string, GgufValue>> set;
  std::vector<std::string> remove;
  // More than 1: the tensors of a split set.
  size_t num_shards = 1;
};

// Architecture "llama" for llama and mistral, with q and k permuted to the
// interleaved layout; "qwen2", "qwen3" as they are. Writes the tokenizer too.
//
// With one shard, writes `path`. With more, `path` is the name without its
// "-00001-of-00002.gguf". Returns the paths written, in order.
std::vector<std::string> WriteGgufModel(const TestModel& model,
                                        const std::string& path,
                                        const GgufModelOptions& options = {});

// "blk.0.attn_q.weight" for "model.layers.0.self_attn.q_proj.weight".
std::string GgufTensorName(const std::string& hugging_face_name);
// And back. Both die on a name they do not know.
std::string HuggingFaceTensorName(const std::string& gguf_name);

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_GGUF_MODEL_H_
