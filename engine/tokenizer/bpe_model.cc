#include "engine/tokenizer/bpe_model.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/utf8.h"

namespace headrace {
namespace {

// U+2581, which SentencePiece writes for a space.
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

int32_t IdOr(const BpePieces& pieces, std::string_view piece, int32_t absent) {
  const auto it = pieces.ids.find(piece);
  return it == pieces.ids.end() ? absent : it->second;
}

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

std::optional<std::pair<std::string_view, std::string_view>> SplitMerge(
    std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || space == 0 ||
      space + 1 == text.size() || text.find(' ', space + 1) != text.npos) {
    return std::nullopt;
  }
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

absl::StatusOr<std::unique_ptr<BpeModel>> BpeModel::Create(
    const BpePieces& pieces, const BpeOptions& options) {
  std::unique_ptr<BpeModel> model(new BpeModel(options));
  RETURN_IF_ERROR(model->AddMerges(pieces));
  RETURN_IF_ERROR(model->FindBytes(pieces));
  if (options.ignore_merges || !options.byte_level) model->KeepWords(pieces);
  const auto leads = [](const auto& entry) {
    return OnlyLeads(kSpaceMark, entry.first);
  };
  if (!options.byte_level && !options.ignore_merges &&
      pieces.ids.contains(kSpaceMark) &&
      std::all_of(pieces.ids.begin(), pieces.ids.end(), leads)) {
    model->word_start_ = kSpaceMark;
  }
  return model;
}

absl::Status BpeModel::AddMerges(const BpePieces& pieces) {
  merges_.reserve(pieces.merges.size());
  std::string joined;
  for (size_t i = 0; i < pieces.merges.size(); ++i) {
    const auto& [left, right] = pieces.merges[i];
    joined.assign(left);
    joined.append(right);
    const int32_t left_id = IdOr(pieces, left, -1);
    const int32_t right_id = IdOr(pieces, right, -1);
    const int32_t merged_id = IdOr(pieces, joined, -1);
    if (left_id < 0 || right_id < 0 || merged_id < 0) {
      const std::string_view absent = left_id < 0    ? left
                                      : right_id < 0 ? right
                                                     : joined;
      return absl::DataLossError(
          absl::StrFormat("merge %d (%s + %s): %s is not in the vocabulary", i,
                          Quote(left), Quote(right), Quote(absent)));
    }
    merges_[PairKey(left_id, right_id)] = {static_cast<uint32_t>(i), merged_id};
  }
  return absl::OkStatus();
}

absl::Status BpeModel::FindBytes(const BpePieces& pieces) {
  can_fall_back_ = options_.byte_fallback;
  bool all_bytes = true;
  std::string piece;
  for (int byte = 0; byte < 256; ++byte) {
    piece.clear();
    AppendUtf8(ByteLevelChar(static_cast<uint8_t>(byte)), &piece);
    byte_ids_[byte] = IdOr(pieces, piece, -1);
    fallback_ids_[byte] = IdOr(pieces, absl::StrFormat("<0x%02X>", byte), -1);
    all_bytes = all_bytes && byte_ids_[byte] >= 0;
    can_fall_back_ = can_fall_back_ && fallback_ids_[byte] >= 0;
  }
  if (options_.byte_level && options_.byte_fallback && !all_bytes) {
    return absl::UnimplementedError(
        "byte_fallback over a byte-level alphabet that lacks bytes is not "
        "supported");
  }
  return absl::OkStatus();
}

void BpeModel::KeepWords(const BpePieces& pieces) {
  words_.reserve(pieces.ids.size());
  for (const auto& [piece, id] : pieces.ids) {
    if (!options_.byte_level) {
      words_.emplace(piece, id);
    } else if (std::optional<std::string> bytes = FromByteLevel(piece)) {
      words_.emplace(*std::move(bytes), id);
    }
  }
}

void BpeModel::StartUnit(std::string_view word, uint32_t begin, uint32_t length,
                         std::vector<MergeSymbol>* symbols) const {
  const std::string_view unit = word.substr(begin, length);
  int32_t id = -1;
  if (options_.byte_level) {
    id = byte_ids_[static_cast<uint8_t>(unit[0])];
  } else if (const auto it = words_.find(unit); it != words_.end()) {
    id = it->second;
  }
  if (id < 0 && can_fall_back_) {
    for (uint32_t i = 0; i < length; ++i) {
      symbols->push_back(
          {fallback_ids_[static_cast<uint8_t>(unit[i])], begin + i, 1});
    }
    return;
  }
  if (id < 0) {
    if (!options_.unk_id) return;
    id = *options_.unk_id;
    if (options_.fuse_unk && !symbols->empty() && symbols->back().id == id &&
        symbols->back().begin + symbols->back().length == begin) {
      symbols->back().length += length;
      return;
    }
  }
  symbols->push_back({id, begin, length});
}

void BpeModel::Start(std::string_view word,
                     std::vector<MergeSymbol>* symbols) const {
  symbols->clear();
  size_t begin = 0;
  while (begin < word.size()) {
    size_t length = 1;
    if (!options_.byte_level) {
      const Utf8Part part = NextUtf8(word.substr(begin));
      if (part.status == Utf8Status::kValid) length = part.length;
    }
    StartUnit(word, static_cast<uint32_t>(begin), static_cast<uint32_t>(length),
              symbols);
    begin += length;
  }
}

void BpeModel::Tokenize(std::string_view word, MergeScratch* scratch,
                        std::vector<int32_t>* ids) const {
  if (options_.ignore_merges) {
    const auto it = words_.find(word);
    if (it != words_.end()) {
      ids->push_back(it->second);
      return;
    }
  }
  Start(word, &scratch->symbols);
  if (scratch->symbols.empty()) return;
  MergeSymbols(
      [this](const MergeSymbol& left,
             const MergeSymbol& right) -> std::optional<MergeResult> {
        const auto it = merges_.find(PairKey(left.id, right.id));
        if (it == merges_.end()) return std::nullopt;
        return it->second;
      },
      scratch);
  for (int32_t i = 0; i >= 0; i = scratch->symbols[i].next) {
    ids->push_back(scratch->symbols[i].id);
  }
}

}  // namespace headrace
