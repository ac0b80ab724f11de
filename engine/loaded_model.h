// A model as it comes from disk: weights still mapped, described, with its
// tokenizer and chat template.
#ifndef HEADRACE_ENGINE_LOADED_MODEL_H_
#define HEADRACE_ENGINE_LOADED_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/model/decoder_description.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/weight_source.h"

namespace headrace {

struct LoadedModel {
  std::unique_ptr<WeightSource> source;
  DecoderDescription description;
  std::unique_ptr<Tokenizer> tokenizer;         // null: token ids only
  std::unique_ptr<ChatTemplate> chat_template;  // null: none
  ModelInfo info;  // all but what depends on the machine
};

// Opens, validates and describes the model of `options`, and resolves the
// RoPE that its sequences have by default. Packs nothing.
absl::StatusOr<LoadedModel> LoadModel(const EngineOptions& options);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_LOADED_MODEL_H_
