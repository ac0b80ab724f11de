// One model on disk, whatever its format: named tensors in mapped memory, and
// the file's metadata. A format is one file and one line in the table of
// weight_source.cc.
#ifndef HEADRACE_ENGINE_WEIGHTS_WEIGHT_SOURCE_H_
#define HEADRACE_ENGINE_WEIGHTS_WEIGHT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/tensor/tensor_view.h"
#include "nlohmann/json.hpp"

namespace headrace {

enum class WeightFormat : uint8_t { kGguf, kSafetensors, kLlama2c };

// A tensor as it is stored, or as it is made from several that are. Shape is
// row-major, [out, in] for matrices, whatever order the file lists it in.
struct StoredTensor {
  std::string name;
  TensorView view;
  int64_t bytes = 0;
  std::string location;  // "model.gguf: offset 1234", for messages
};

// Hands over all bytes of a tensor in order, in one piece or several; of one
// whose rows have an order, that too.
void VisitBytes(const StoredTensor& tensor,
                absl::FunctionRef<void(std::span<const std::byte>)> visit);

// Of a file that holds tensors, when it was opened.
struct FileState {
  int64_t size = 0;
  uint64_t inode = 0;
  absl::Time modified;  // its bytes
  absl::Time changed;   // its bytes, names, owner: nothing sets it back
};

// Immutable, thread-safe. Tensors stay mapped as long as this lives.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual WeightFormat format() const = 0;
  virtual std::string format_name() const = 0;  // "GGUF v3"
  // In order of name.
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  // Null when there is no such tensor.
  const StoredTensor* Find(std::string_view name) const;

  // What the files say beside the tensors:
  //   GGUF: its key-value pairs, by key.
  //   safetensors: {"config": config.json, "generation_config": …,
  //                 "tokenizer": tokenizer.json, "tokenizer_config": …,
  //                 "chat_template": text of chat_template.jinja}, each when
  //                 the folder has it.
  //   llama2.c: its header {"dim", "hidden_dim", "n_layers", "n_heads",
  //                 "n_kv_heads", "vocab_size" (positive), "seq_len",
  //                 "shared_classifier" (bool)} and, when tok512.bin or
  //                 tokenizer.bin lies beside it, {"tokenizer": {"tokens":
  //                 [...], "scores": [...]}}; tokens are byte strings held as
  //                 Latin-1 text so that JSON can carry them.
  // Objects keep the file's order; looking up a member is linear in its size.
  virtual const nlohmann::ordered_json& metadata() const = 0;
  // Empties metadata(), once all was read that is needed: a vocabulary takes
  // tens of megabytes as JSON.
  virtual void DropMetadata() = 0;
  // Gives memory of tensors that were read back; they can be read again.
  virtual void ReleasePages() const = 0;
  virtual std::vector<FileState> file_states() const = 0;
  // Found while opening: contradictions that were resolved, stray files.
  virtual const std::vector<std::string>& warnings() const = 0;
};

// Opens a file (.gguf, .bin of llama2.c, .safetensors) or a folder. Every
// offset, shape and count is checked before it is used.
//
// Errors: NOT_FOUND; DATA_LOSS for malformed files, naming the file, the
// tensor or key, the offset, what was found and what was wanted; UNIMPLEMENTED
// naming a tensor of a ggml type that is not supported; INVALID_ARGUMENT for a
// folder of several models, or a file of no known format.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeightSource(
    const std::string& path);

// SHA-256 over name, dtype, shape and bytes of every tensor in order of name;
// lower-case hex. Fed for each: "NAME\nDTYPE\n[SHAPE, …]\n", then the bytes.
std::string HashWeights(const WeightSource& source);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_WEIGHT_SOURCE_H_
