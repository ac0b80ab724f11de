#include "engine/capture/attribution.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/capture/dot.h"

namespace headrace {
namespace {

class Attribution final : public DerivedQuantity {
 public:
  Attribution(const DerivedSpec& spec, Unembedding& unembedding,
              const DerivedDimensions& dimensions)
      : spec_(spec), num_heads_(static_cast<size_t>(dimensions.num_heads)) {
    for (size_t i = 0; i < spec.token_ids.size(); ++i) {
      std::vector<float> direction =
          unembedding.TokenDirection(spec.token_ids[i]);
      if (!spec.contrast_ids.empty()) {
        const std::vector<float> contrast =
            unembedding.TokenDirection(spec.contrast_ids[i]);
        for (size_t k = 0; k < direction.size(); ++k) {
          direction[k] -= contrast[k];
        }
      }
      directions_.push_back(std::move(direction));
    }
    if (!spec.by_head) return;
    for (int32_t layer = 0; layer < dimensions.num_layers; ++layer) {
      std::vector<std::vector<float>>& heads = head_directions_.emplace_back();
      for (const std::vector<float>& direction : directions_) {
        heads.push_back(unembedding.HeadDirection(layer, direction));
      }
    }
  }

  bool Reads(HookPoint hook, int32_t /*layer*/) const override {
    switch (hook) {
      case HookPoint::kEmbed:
      case HookPoint::kPositionWrite:
      case HookPoint::kMlpOut:
      case HookPoint::kFinalNormScale:
      case HookPoint::kLogits:
        return true;
      case HookPoint::kAttnOut:
        return !spec_.by_head;
      case HookPoint::kZ:
        return spec_.by_head;
      default:
        return false;
    }
  }

  void OnRows(const SelectedRows& rows, Emit emit) override {
    for (const SelectedRows::Row& row : rows.rows) {
      if (parts_.size() <= row.index) parts_.resize(row.index + 1);
      OnRow(rows, row, parts_[row.index], emit);
    }
  }

 private:
  // What one row has come to, by token.
  struct Parts {
    std::vector<std::vector<double>> by_token;
    double scale = 1;
  };

  void OnRow(const SelectedRows& rows, const SelectedRows::Row& row,
             Parts& parts, Emit emit) const {
    switch (rows.hook) {
      case HookPoint::kEmbed:
        parts.by_token.assign(directions_.size(), {});
        return Append(row.values, parts);
      case HookPoint::kPositionWrite:
        for (size_t t = 0; t < directions_.size(); ++t) {
          parts.by_token[t][0] += Dot(row.values, directions_[t]);
        }
        return;
      case HookPoint::kAttnOut:
      case HookPoint::kMlpOut:
        return Append(row.values, parts);
      case HookPoint::kZ:
        return AppendHeads(rows.layer, row.values, parts);
      case HookPoint::kFinalNormScale:
        parts.scale = row.values[0];
        return;
      case HookPoint::kLogits:
        return Finish(row, parts, emit);
      default:
        return;
    }
  }

  void Append(std::span<const float> write, Parts& parts) const {
    for (size_t t = 0; t < directions_.size(); ++t) {
      parts.by_token[t].push_back(Dot(write, directions_[t]));
    }
  }

  void AppendHeads(int32_t layer, std::span<const float> z,
                   Parts& parts) const {
    const auto& directions = head_directions_[static_cast<size_t>(layer)];
    const size_t head_dim = z.size() / num_heads_;
    for (size_t t = 0; t < directions.size(); ++t) {
      for (size_t begin = 0; begin < z.size(); begin += head_dim) {
        parts.by_token[t].push_back(
            Dot(z.subspan(begin, head_dim),
                std::span(directions[t]).subspan(begin, head_dim)));
      }
    }
  }

  void Finish(const SelectedRows::Row& row, const Parts& parts,
              Emit emit) const {
    std::vector<float> values;
    for (size_t t = 0; t < directions_.size(); ++t) {
      double logit = row.values[static_cast<size_t>(spec_.token_ids[t])];
      if (!spec_.contrast_ids.empty()) {
        logit -= row.values[static_cast<size_t>(spec_.contrast_ids[t])];
      }
      double sum = 0;
      for (const double part : parts.by_token[t]) {
        values.push_back(static_cast<float>(part / parts.scale));
        sum += part / parts.scale;
      }
      values.push_back(static_cast<float>(logit - sum));
      values.push_back(static_cast<float>(logit));
    }
    emit({row.index, HookPoint::kLogits, -1, values, {}});
  }

  const DerivedSpec& spec_;
  const size_t num_heads_;
  std::vector<std::vector<float>> directions_;  // by token
  // By layer and token: along z.
  std::vector<std::vector<std::vector<float>>> head_directions_;
  std::vector<Parts> parts_;  // by index
};

}  // namespace

std::unique_ptr<DerivedQuantity> MakeAttribution(
    const DerivedSpec& spec, Unembedding& unembedding,
    const DerivedDimensions& dimensions) {
  return std::make_unique<Attribution>(spec, unembedding, dimensions);
}

}  // namespace headrace
