// Which tokens a sequence has seen, counted as they come: what penalties look
// at, without walking the sequence at each step.
#ifndef HEADRACE_ENGINE_SAMPLING_TOKEN_HISTORY_H_
#define HEADRACE_ENGINE_SAMPLING_TOKEN_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace headrace {

// Thread-compatible.
class TokenHistory {
 public:
  struct Entry {
    int32_t token = 0;
    int64_t generated = 0;  // times; 0: in the prompt only
  };

  void AddPrompt(std::span<const int32_t> prompt);
  void AddGenerated(int32_t token);

  // Each distinct token once, in order of its first appearance.
  std::span<const Entry> entries() const { return entries_; }

 private:
  Entry& EntryOf(int32_t token);

  std::vector<Entry> entries_;
  std::unordered_map<int32_t, size_t> index_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SAMPLING_TOKEN_HISTORY_H_
