#include "engine/tokenizer/spm_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/utf8.h"

namespace headrace {
namespace {

bool IsMade(const SpmPiece& piece) {
  return piece.kind == TokenKind::kNormal || piece.kind == TokenKind::kUnused;
}

// Scores as priorities: 0 for the highest, equal scores the same.
absl::StatusOr<std::vector<uint32_t>> RankScores(
    const std::vector<SpmPiece>& pieces) {
  std::vector<uint32_t> order(pieces.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    if (std::isnan(pieces[i].score)) {
      return absl::DataLossError(
          absl::StrFormat("the score of token %d is not a number", i));
    }
    order[i] = i;
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return pieces[a].score > pieces[b].score;
  });
  std::vector<uint32_t> ranks(pieces.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && pieces[order[i]].score < pieces[order[i - 1]].score) ++rank;
    ranks[order[i]] = rank;
  }
  return ranks;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpmModel>> SpmModel::Create(
    const std::vector<SpmPiece>& pieces, std::string_view space,
    std::optional<int32_t> unk_id) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> ranks, RankScores(pieces));
  std::unique_ptr<SpmModel> model(new SpmModel());
  model->unk_id_ = unk_id;
  model->byte_ids_.fill(-1);
  model->pieces_.reserve(pieces.size());
  bool only_leads = true;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const SpmPiece& piece = pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (piece.kind == TokenKind::kByte && piece.text.size() == 1) {
      model->byte_ids_[static_cast<uint8_t>(piece.text[0])] = id;
    }
    if (!IsMade(piece)) continue;
    model->pieces_.emplace(piece.text, MergeResult{ranks[i], id});
    model->longest_ = std::max(model->longest_, piece.text.size());
    only_leads = only_leads && OnlyLeads(space, piece.text);
  }
  if (only_leads && model->pieces_.contains(space)) model->word_start_ = space;
  return model;
}

void SpmModel::AppendUnknown(std::string_view character,
                             std::vector<int32_t>* ids) const {
  for (const char byte : character) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    if (id >= 0) {
      ids->push_back(id);
    } else if (unk_id_) {
      ids->push_back(*unk_id_);
      return;
    }
  }
}

void SpmModel::Tokenize(std::string_view word, MergeScratch* scratch,
                        std::vector<int32_t>* ids) const {
  std::vector<MergeSymbol>& symbols = scratch->symbols;
  symbols.clear();
  size_t begin = 0;
  while (begin < word.size()) {
    const Utf8Part part = NextUtf8(word.substr(begin));
    const size_t length = part.status == Utf8Status::kValid ? part.length : 1;
    const auto it = pieces_.find(word.substr(begin, length));
    symbols.push_back({it == pieces_.end() ? -1 : it->second.id,
                       static_cast<uint32_t>(begin),
                       static_cast<uint32_t>(length)});
    begin += length;
  }
  if (symbols.empty()) return;
  MergeSymbols(
      [this, word](const MergeSymbol& left,
                   const MergeSymbol& right) -> std::optional<MergeResult> {
        const size_t length = left.length + right.length;
        if (length > longest_) return std::nullopt;
        const auto it = pieces_.find(word.substr(left.begin, length));
        if (it == pieces_.end()) return std::nullopt;
        return it->second;
      },
      scratch);
  for (int32_t i = 0; i >= 0; i = symbols[i].next) {
    if (symbols[i].id >= 0) {
      ids->push_back(symbols[i].id);
    } else {
      AppendUnknown(word.substr(symbols[i].begin, symbols[i].length), ids);
    }
  }
}

}  // namespace headrace
