// Position as an additive write on the residual bus: learned (GPT-2) or
// sinusoidal (Vaswani et al. 2017, section 3.5), or none.
#ifndef HEADRACE_ENGINE_POSITION_ADDITIVE_POSITION_H_
#define HEADRACE_ENGINE_POSITION_ADDITIVE_POSITION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace headrace {

// Immutable, thread-safe.
class AdditivePosition {
 public:
  // Writes nothing.
  AdditivePosition() = default;
  // table: [num_positions, hidden_size]. Positions beyond it do not exist:
  // limit() is num_positions.
  static AdditivePosition Learned(std::vector<float> table,
                                  int64_t hidden_size);
  // PE[p, 2i] = sin(p / 10000^(2i / hidden_size)), PE[p, 2i + 1] = cos(same),
  // in float64, rounded once. `hidden_size` is even.
  static AdditivePosition Sinusoidal(int64_t hidden_size);

  bool writes() const { return kind_ != Kind::kNone; }
  // Positions that exist; nullopt: no limit.
  std::optional<int64_t> limit() const;
  // What is added to the row at `position`: dst [hidden_size].
  void Write(int64_t position, std::span<float> dst) const;

 private:
  enum class Kind : uint8_t { kNone, kLearned, kSinusoidal };
  Kind kind_ = Kind::kNone;
  int64_t hidden_size_ = 0;
  std::vector<float> table_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_POSITION_ADDITIVE_POSITION_H_
