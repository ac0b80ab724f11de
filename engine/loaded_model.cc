#include "engine/loaded_model.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "engine/architectures/registry.h"
#include "engine/base/cache_folder.h"
#include "engine/base/status_macros.h"
#include "engine/known_weights.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/kv_layout.h"
#include "engine/tokenizer/tokenizer_factory.h"
#include "nlohmann/json.hpp"

namespace headrace {
namespace {

TokenizerFormat TokenizerFormatOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kGguf:
      return TokenizerFormat::kGguf;
    case WeightFormat::kSafetensors:
      return TokenizerFormat::kHuggingFace;
    case WeightFormat::kLlama2c:
      return TokenizerFormat::kLlama2c;
  }
  return TokenizerFormat::kGguf;
}

const nlohmann::ordered_json* FindKey(const nlohmann::ordered_json& object,
                                      const std::string& key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// The template that a Hugging Face folder names: chat_template.jinja, or
// tokenizer_config.json's chat_template (a string, or a list of named ones of
// which "default" counts).
std::optional<std::string> HuggingFaceTemplate(
    const nlohmann::ordered_json& metadata) {
  if (const auto* file = FindKey(metadata, "chat_template")) {
    if (file->is_string()) return file->get<std::string>();
  }
  const auto* config = FindKey(metadata, "tokenizer_config");
  const auto* value =
      config == nullptr ? nullptr : FindKey(*config, "chat_template");
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) return std::nullopt;
  for (const nlohmann::ordered_json& entry : *value) {
    const auto* name = FindKey(entry, "name");
    const auto* text = FindKey(entry, "template");
    if (name != nullptr && text != nullptr && *name == "default" &&
        text->is_string()) {
      return text->get<std::string>();
    }
  }
  return std::nullopt;
}

std::optional<std::string> TemplateSource(const WeightSource& source) {
  switch (source.format()) {
    case WeightFormat::kGguf: {
      const auto* value = FindKey(source.metadata(), "tokenizer.chat_template");
      if (value == nullptr || !value->is_string()) return std::nullopt;
      return value->get<std::string>();
    }
    case WeightFormat::kSafetensors:
      return HuggingFaceTemplate(source.metadata());
    case WeightFormat::kLlama2c:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string TokenText(const Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id.has_value() ? std::string(tokenizer.TokenBytes(*id))
                        : std::string();
}

// A template that cannot be run is an error at load, never a fallback.
absl::Status LoadChatTemplate(LoadedModel& model) {
  if (model.tokenizer == nullptr) return absl::OkStatus();
  std::optional<std::string> source = TemplateSource(*model.source);
  if (!source.has_value()) return absl::OkStatus();
  const Tokenizer& tokenizer = *model.tokenizer;
  const std::vector<int32_t>& ends = tokenizer.end_token_ids();
  ASSIGN_OR_RETURN(
      model.chat_template,
      ChatTemplate::Parse(
          std::move(*source), TokenText(tokenizer, tokenizer.bos_token_id()),
          ends.empty() ? std::string() : TokenText(tokenizer, ends.front())));
  return absl::OkStatus();
}

// The commonest type among the matrices, by elements.
std::string CommonestDtype(const WeightSource& source) {
  std::map<std::string, int64_t> elements;
  for (const StoredTensor& tensor : source.tensors()) {
    if (tensor.view.shape.size() < 2) continue;
    elements[std::string(LayoutOf(tensor.view.dtype).name)] +=
        NumElements(tensor.view.shape);
  }
  std::string commonest;
  int64_t most = 0;
  for (const auto& [name, count] : elements) {
    if (count > most) {
      most = count;
      commonest = name;
    }
  }
  return commonest;
}

// The id that requests use: what the file calls itself, else its file name.
std::string ModelName(const ModelConfig& config, const std::string& path) {
  if (!config.name.empty()) return config.name;
  const std::filesystem::path file(path);
  return file.has_stem() ? file.stem().string()
                         : file.parent_path().filename().string();
}

absl::Status ResolveDefaults(const EngineOptions& options, ModelInfo& info) {
  info.rope_request = options.rope;
  const int64_t trained = info.config.max_position_embeddings;
  const int64_t wanted =
      options.rope.max_context > 0 ? options.rope.max_context : trained;
  RopeRequest open_ended = options.rope;
  open_ended.open_ended = true;
  const RopeResolution resolution = ResolveExtension(
      info.config.rope.has_value() ? &*info.config.rope : nullptr,
      info.config.rope_pairing, open_ended, wanted);
  if (!resolution.violations.empty()) {
    std::vector<std::string> messages;
    for (const FieldViolation& violation : resolution.violations) {
      messages.push_back(
          absl::StrCat(violation.field, ": ", violation.description));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "context extension of the server: ", absl::StrJoin(messages, "; ")));
  }
  info.rope = resolution.rope;
  info.context_length =
      info.rope.has_value() ? info.rope->context_length : wanted;
  return absl::OkStatus();
}

KvCacheDtype DefaultKvCacheDtype(const ModelInfo& info) {
  const bool integers = info.numerics == Numerics::kFast &&
                        info.config.head_dim <= KvLayout::kMaxIntegerHeadDim;
  return integers ? KvCacheDtype::kInt16 : KvCacheDtype::kF32;
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModel(const EngineOptions& options) {
  LoadedModel model;
  ASSIGN_OR_RETURN(model.source, OpenWeightSource(options.model_path));
  const WeightSource& source = *model.source;
  ASSIGN_OR_RETURN(model.description, DescribeModel(source));
  ASSIGN_OR_RETURN(
      model.tokenizer,
      CreateTokenizer(source.metadata(), TokenizerFormatOf(source.format())));
  RETURN_IF_ERROR(LoadChatTemplate(model));

  ModelInfo& info = model.info;
  info.config = model.description.config;
  info.config.name = ModelName(info.config, options.model_path);
  info.numerics = options.numerics;
  info.kv_cache_dtype =
      options.kv_cache_dtype.value_or(DefaultKvCacheDtype(info));
  info.weight_format = source.format_name();
  info.weight_dtype = CommonestDtype(source);
  info.weights_sha256 =
      options.packed_cache_dir.empty()
          ? HashWeights(source)
          : HashKnownWeights(source, CacheFolder(options.packed_cache_dir),
                             absl::Now());
  for (const StoredTensor& tensor : source.tensors()) {
    info.weight_bytes += tensor.bytes;
    info.parameter_count += NumElements(tensor.view.shape);
  }
  if (model.tokenizer != nullptr) {
    info.end_token_ids = model.tokenizer->end_token_ids();
  }
  info.warnings = source.warnings();
  info.warnings.insert(info.warnings.end(), model.description.warnings.begin(),
                       model.description.warnings.end());
  RETURN_IF_ERROR(ResolveDefaults(options, info));
  model.source->DropMetadata();
  return model;
}

}  // namespace headrace
