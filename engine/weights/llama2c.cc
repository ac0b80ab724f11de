#include "engine/weights/llama2c.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/weights/byte_cursor.h"
#include "engine/weights/checked_math.h"
#include "engine/weights/file_error.h"
#include "engine/weights/file_path.h"
#include "engine/weights/llama2c_vocabulary.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/mapped_source.h"

namespace headrace {
namespace {

constexpr int32_t kNewerVersionsMagic = 0x616b3432;  // "ak42"

struct Header {
  int64_t dim = 0;
  int64_t hidden_dim = 0;
  int64_t n_layers = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t vocab_size = 0;
  int64_t seq_len = 0;
  bool shared_classifier = true;
};

// A run of equal tensors in the file: one, or one per layer.
struct Section {
  std::string_view name;  // empty: not a weight
  Shape shape;
  int64_t count = 1;
  bool per_layer = false;
};

absl::StatusOr<Header> ParseHeader(std::span<const std::byte> file,
                                   std::string_view name) {
  ByteCursor cursor(file);
  int64_t numbers[7];
  for (int64_t& number : numbers) {
    const std::optional<int32_t> value = cursor.Read<int32_t>();
    if (!value.has_value()) {
      return FileError(name, absl::StrFormat("has %d bytes; a llama2.c header "
                                             "takes 28",
                                             file.size()));
    }
    number = *value;
  }
  if (numbers[0] == kNewerVersionsMagic) {
    return FileErrorAt(name, 0,
                       absl::StrFormat("a llama2.c checkpoint of version %d; "
                                       "only version 0 is supported",
                                       numbers[1]));
  }
  Header header{.dim = numbers[0],
                .hidden_dim = numbers[1],
                .n_layers = numbers[2],
                .n_heads = numbers[3],
                .n_kv_heads = numbers[4],
                .vocab_size = numbers[5] < 0 ? -numbers[5] : numbers[5],
                .seq_len = numbers[6],
                .shared_classifier = numbers[5] > 0};
  const bool positive = header.dim > 0 && header.hidden_dim > 0 &&
                        header.n_layers > 0 && header.n_heads > 0 &&
                        header.n_kv_heads > 0 && header.vocab_size > 0 &&
                        header.seq_len > 0;
  // Two lanes per rotated pair; whole heads; whole groups of heads.
  if (!positive || header.dim % (2 * header.n_heads) != 0 ||
      header.n_heads % header.n_kv_heads != 0) {
    return FileErrorAt(
        name, 0,
        absl::StrFormat("not a llama2.c header: dim %d, hidden_dim %d, "
                        "n_layers %d, n_heads %d, n_kv_heads %d, vocab_size "
                        "%d, seq_len %d",
                        numbers[0], numbers[1], numbers[2], numbers[3],
                        numbers[4], numbers[5], numbers[6]));
  }
  return header;
}

std::vector<Section> SectionsOf(const Header& h) {
  const int64_t head_size = h.dim / h.n_heads;
  const int64_t kv_dim = h.n_kv_heads * head_size;
  const auto layers = [&h](std::string_view name, Shape shape) {
    return Section{name, std::move(shape), h.n_layers, /*per_layer=*/true};
  };
  std::vector<Section> sections = {
      {"token_embd", {h.vocab_size, h.dim}},
      layers("attn_norm", {h.dim}),
      layers("attn_q", {h.dim, h.dim}),
      layers("attn_k", {kv_dim, h.dim}),
      layers("attn_v", {kv_dim, h.dim}),
      layers("attn_output", {h.dim, h.dim}),
      layers("ffn_norm", {h.dim}),
      layers("ffn_gate", {h.hidden_dim, h.dim}),
      layers("ffn_down", {h.dim, h.hidden_dim}),
      layers("ffn_up", {h.hidden_dim, h.dim}),
      {"output_norm", {h.dim}},
      {"", {h.seq_len, head_size}},  // cosines and sines, no longer used
  };
  if (!h.shared_classifier) {
    sections.push_back({"output", {h.vocab_size, h.dim}});
  }
  return sections;
}

// Of the whole file; nullopt when it does not fit 64 bits.
std::optional<uint64_t> FileBytes(const std::vector<Section>& sections) {
  std::optional<uint64_t> total = 7 * sizeof(int32_t);
  for (const Section& section : sections) {
    std::optional<uint64_t> bytes =
        CheckedMul(sizeof(float), static_cast<uint64_t>(section.count));
    for (const int64_t dim : section.shape) {
      if (bytes.has_value()) bytes = CheckedMul(*bytes, dim);
    }
    if (!bytes.has_value() || !total.has_value()) return std::nullopt;
    total = CheckedAdd(*total, *bytes);
  }
  return total;
}

absl::Status CheckSize(const MappedFile& file,
                       const std::vector<Section>& sections) {
  const std::optional<uint64_t> wanted = FileBytes(sections);
  if (wanted == file.bytes().size()) return absl::OkStatus();
  return FileError(
      file.name(),
      absl::StrFormat("has %d bytes; its header asks for %s",
                      file.bytes().size(),
                      wanted ? absl::StrCat(*wanted) : "more than 2^64"));
}

void AddSections(const MappedFile& file, const std::vector<Section>& sections,
                 SourceParts& parts) {
  uint64_t offset = 7 * sizeof(int32_t);
  for (const Section& section : sections) {
    const int64_t bytes =
        NumElements(section.shape) * static_cast<int64_t>(sizeof(float));
    for (int64_t i = 0; i < section.count; ++i, offset += bytes) {
      if (section.name.empty()) continue;
      AddStoredTensor(file, offset, bytes,
                      section.per_layer
                          ? absl::StrFormat("blk.%d.%s.weight", i, section.name)
                          : absl::StrFormat("%s.weight", section.name),
                      TensorView{.dtype = DType::kF32, .shape = section.shape},
                      parts);
    }
  }
}

nlohmann::ordered_json ToJson(const Header& header) {
  return {{"dim", header.dim},
          {"hidden_dim", header.hidden_dim},
          {"n_layers", header.n_layers},
          {"n_heads", header.n_heads},
          {"n_kv_heads", header.n_kv_heads},
          {"vocab_size", header.vocab_size},
          {"seq_len", header.seq_len},
          {"shared_classifier", header.shared_classifier}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenLlama2c(
    const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  ASSIGN_OR_RETURN(const Header header, ParseHeader(file.bytes(), file.name()));
  const std::vector<Section> sections = SectionsOf(header);
  RETURN_IF_ERROR(CheckSize(file, sections));
  SourceParts parts{.format = WeightFormat::kLlama2c,
                    .format_name = "llama2.c"};
  parts.metadata = ToJson(header);
  for (const std::string& name :
       {absl::StrCat("tok", header.vocab_size, ".bin"),
        std::string("tokenizer.bin")}) {
    const std::string vocabulary = JoinPath(FolderOf(path), name);
    if (!IsFile(vocabulary)) continue;
    ASSIGN_OR_RETURN(parts.metadata["tokenizer"],
                     ReadLlama2cVocabulary(vocabulary, header.vocab_size));
    break;
  }
  AddSections(file, sections, parts);
  parts.files.push_back(std::move(file));
  return MakeMappedSource(std::move(parts));
}

bool LooksLikeLlama2c(std::span<const std::byte> file) {
  const absl::StatusOr<Header> header = ParseHeader(file, "");
  return header.ok() && FileBytes(SectionsOf(*header)) == file.size();
}

}  // namespace headrace
