#include "engine/position/additive_position.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace headrace {

AdditivePosition AdditivePosition::Learned(std::vector<float> table,
                                           int64_t hidden_size) {
  AdditivePosition position;
  position.kind_ = Kind::kLearned;
  position.hidden_size_ = hidden_size;
  position.table_ = std::move(table);
  return position;
}

AdditivePosition AdditivePosition::Sinusoidal(int64_t hidden_size) {
  AdditivePosition position;
  position.kind_ = Kind::kSinusoidal;
  position.hidden_size_ = hidden_size;
  return position;
}

std::optional<int64_t> AdditivePosition::limit() const {
  if (kind_ != Kind::kLearned) return std::nullopt;
  return static_cast<int64_t>(table_.size()) / hidden_size_;
}

void AdditivePosition::Write(int64_t position, std::span<float> dst) const {
  switch (kind_) {
    case Kind::kNone:
      std::fill(dst.begin(), dst.end(), 0.0f);
      return;
    case Kind::kLearned:
      std::copy_n(table_.begin() + position * hidden_size_, hidden_size_,
                  dst.begin());
      return;
    case Kind::kSinusoidal:
      for (size_t i = 0; i + 1 < dst.size(); i += 2) {
        const double exponent =
            static_cast<double>(i) / static_cast<double>(hidden_size_);
        const double angle =
            static_cast<double>(position) / std::pow(10000.0, exponent);
        dst[i] = static_cast<float>(std::sin(angle));
        dst[i + 1] = static_cast<float>(std::cos(angle));
      }
      return;
  }
}

}  // namespace headrace
