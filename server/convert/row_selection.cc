#include "server/convert/row_selection.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace headrace {

namespace {

// Windows are looked through for every row.
constexpr int kMaxWindows = 64;

class RowResolver {
 public:
  RowResolver(int64_t prompt_length, int64_t vocab_size, Violations& violations)
      : prompt_length_(prompt_length),
        vocab_size_(vocab_size),
        violations_(violations) {}

  PhaseRows ResolvePhase(const v1::PhaseRows& proto, const std::string& field,
                         Phase phase);
  absl::flat_hash_set<int64_t> ResolvePositions(
      const google::protobuf::RepeatedField<int64_t>& positions,
      const std::string& field, std::optional<Phase> phase);
  absl::flat_hash_set<int32_t> CheckIds(
      const google::protobuf::RepeatedField<uint32_t>& ids,
      const std::string& field);

 private:
  int64_t FromTheFront(int64_t position) const {
    return position < 0 ? position + prompt_length_ : position;
  }
  void ResolveWindow(const v1::PositionWindow& window, const std::string& field,
                     PhaseRows& rows);

  const int64_t prompt_length_;
  const int64_t vocab_size_;
  Violations& violations_;
};

absl::flat_hash_set<int64_t> RowResolver::ResolvePositions(
    const google::protobuf::RepeatedField<int64_t>& positions,
    const std::string& field, std::optional<Phase> phase) {
  absl::flat_hash_set<int64_t> resolved;
  if (prompt_length_ == 0) return resolved;
  for (int i = 0; i < positions.size(); ++i) {
    const int64_t position = FromTheFront(positions[i]);
    const bool in_prompt = position >= 0 && position < prompt_length_;
    if (phase == Phase::kPrompt && !in_prompt) {
      violations_.Add(Indexed(field, i),
                      absl::StrCat("must be from ", -prompt_length_, " to ",
                                   prompt_length_ - 1,
                                   ", within the prompt; is ", positions[i]));
    } else if (phase == Phase::kGenerated && position < prompt_length_) {
      violations_.Add(Indexed(field, i),
                      absl::StrCat("must be at least ", prompt_length_,
                                   ", behind the prompt; is ", positions[i]));
    } else if (position < 0) {
      violations_.Add(Indexed(field, i),
                      absl::StrCat("must be at least ", -prompt_length_,
                                   "; is ", positions[i]));
    } else {
      resolved.insert(position);
    }
  }
  return resolved;
}

void RowResolver::ResolveWindow(const v1::PositionWindow& window,
                                const std::string& field, PhaseRows& rows) {
  if (prompt_length_ == 0) return;
  const int64_t begin = FromTheFront(window.begin());
  const bool to_the_end = window.begin() < 0 && window.end() == 0;
  const int64_t end = to_the_end ? prompt_length_ : FromTheFront(window.end());
  if (begin < 0 || begin >= end) {
    violations_.Add(field,
                    absl::StrCat("must begin at a position, and before "
                                 "its end; is [",
                                 window.begin(), ", ", window.end(), ")"));
    return;
  }
  rows.windows.push_back({.begin = begin,
                          .end = end,
                          .stride = std::max<int64_t>(1, window.stride())});
}

absl::flat_hash_set<int32_t> RowResolver::CheckIds(
    const google::protobuf::RepeatedField<uint32_t>& ids,
    const std::string& field) {
  absl::flat_hash_set<int32_t> checked;
  for (int i = 0; i < ids.size(); ++i) {
    if (violations_.CheckTokenId(field, i, ids[i], vocab_size_)) {
      checked.insert(static_cast<int32_t>(ids[i]));
    }
  }
  return checked;
}

PhaseRows RowResolver::ResolvePhase(const v1::PhaseRows& proto,
                                    const std::string& field, Phase phase) {
  PhaseRows rows{.all = proto.all(),
                 .stride = std::max<int64_t>(1, proto.stride()),
                 .last = proto.last()};
  if (proto.stride() != 0 && !proto.all()) {
    violations_.Add(field + ".stride",
                    "needs `all`; a window has a stride of its own");
  }
  if (proto.last() && phase == Phase::kGenerated) {
    violations_.Add(field + ".last", "can be set for the prompt only");
  }
  rows.positions =
      ResolvePositions(proto.positions(), field + ".positions", phase);
  rows.token_ids = CheckIds(proto.token_ids(), field + ".token_ids");
  if (proto.windows_size() > kMaxWindows) {
    violations_.Add(field + ".windows",
                    absl::StrCat("must be at most ", kMaxWindows, "; are ",
                                 proto.windows_size()));
    return rows;
  }
  for (int i = 0; i < proto.windows_size(); ++i) {
    ResolveWindow(proto.windows(i), Indexed(field + ".windows", i), rows);
  }
  return rows;
}

bool NamesRows(const v1::PhaseRows& rows) {
  return rows.all() || rows.last() || !rows.positions().empty() ||
         !rows.windows().empty() || !rows.token_ids().empty();
}

}  // namespace

RowSelection ResolveRows(const v1::RowSelector& proto, const std::string& field,
                         int64_t prompt_length, int64_t vocab_size,
                         Violations& violations) {
  RowResolver resolver(prompt_length, vocab_size, violations);
  RowSelection rows;
  rows.prompt =
      resolver.ResolvePhase(proto.prompt(), field + ".prompt", Phase::kPrompt);
  rows.generated = resolver.ResolvePhase(
      proto.generated(), field + ".generated", Phase::kGenerated);
  rows.exclude_positions = resolver.ResolvePositions(
      proto.exclude_positions(), field + ".exclude_positions", std::nullopt);
  rows.exclude_token_ids = resolver.CheckIds(proto.exclude_token_ids(),
                                             field + ".exclude_token_ids");
  if (!NamesRows(proto.prompt()) && !NamesRows(proto.generated())) {
    violations.Add(field, "must select rows of the prompt or of generation");
  }
  return rows;
}

}  // namespace headrace
