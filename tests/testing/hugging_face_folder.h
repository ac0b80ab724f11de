// A TestModel as a folder in Hugging Face's layout: config.json, safetensors,
// tokenizer.json and their companions.
#ifndef HEADRACE_TESTS_TESTING_HUGGING_FACE_FOLDER_H_
#define HEADRACE_TESTS_TESTING_HUGGING_FACE_FOLDER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "engine/tensor/dtype.h"
#include "nlohmann/json.hpp"
#include "tests/testing/test_model.h"

namespace headrace {

struct FolderOptions {
  DType dtype = DType::kF32;  // kF32, kF16 or kBF16
  // More than 1: model-0000i-of-0000N.safetensors and
  // model.safetensors.index.json.
  size_t num_shards = 1;
  // Also a model.safetensors with every tensor zero, beside the index.
  bool stray_model_file = false;
  bool has_tokenizer = true;
  // Members set in or taken out of config.json last, as for rope_scaling.
  nlohmann::ordered_json config_set = nlohmann::ordered_json::object();
  std::vector<std::string> config_remove;
};

// Writes into `folder`, making it. Files: config.json,
// generation_config.json, the weights, and with a tokenizer tokenizer.json and
// tokenizer_config.json (with the chat template).
void WriteHuggingFaceFolder(const TestModel& model, const std::string& folder,
                            const FolderOptions& options = {});

// tokenizer.json of a vocabulary. SentencePiece becomes BPE with byte
// fallback; its merges come from the scores, as converters derive them.
nlohmann::ordered_json TokenizerJson(const TestVocabulary& vocabulary);

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_HUGGING_FACE_FOLDER_H_
