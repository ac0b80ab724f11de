// Models that exist as files, read back so that they can be written in another
// format or with other metadata.
#ifndef HEADRACE_TESTS_TESTING_REWRITE_MODEL_H_
#define HEADRACE_TESTS_TESTING_REWRITE_MODEL_H_

#include <string>
#include <utility>
#include <vector>

#include "engine/weights/weight_source.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/test_model.h"

namespace headrace {

// A llama2.c checkpoint, or a GGUF file of architecture "llama", in Hugging
// Face's terms: q and k rows back in half-split order, weights dequantised to
// float32. Dies on what it does not know. Write the result with
// WriteGgufModel() or WriteHuggingFaceFolder().
TestModel ReadModel(const WeightSource& source);

// Writes a GGUF model again, tensors as they are stored, with keys set,
// replaced and removed. Numbers keep their value, not their width: integers
// become u32 or i32 where they fit.
void RewriteGguf(const WeightSource& source, const std::string& path,
                 const std::vector<std::pair<std::string, GgufValue>>& set,
                 const std::vector<std::string>& remove = {});

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_REWRITE_MODEL_H_
