#include "engine/capture/row_mean.h"

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace headrace {
namespace {

class RowMean final : public DerivedQuantity {
 public:
  explicit RowMean(const DerivedSpec& spec) : spec_(spec) {}

  bool Reads(HookPoint hook, int32_t layer) const override {
    return spec_.where.Has(hook, layer);
  }

  void OnRows(const SelectedRows& rows, Emit /*emit*/) override {
    for (const SelectedRows::Row& row : rows.rows) {
      Sum& sum = sums_[{row.phase, rows.layer}];
      sum.values.resize(row.values.size());
      for (size_t i = 0; i < row.values.size(); ++i) {
        sum.values[i] += row.values[i];
      }
      ++sum.rows;
      sum.last_position = row.position;
      sum.last_token = row.token;
    }
  }

  void OnEnd(EmitTotal emit) const override {
    for (const auto& [key, sum] : sums_) {
      std::vector<float> mean(sum.values.size());
      for (size_t i = 0; i < mean.size(); ++i) {
        mean[i] =
            static_cast<float>(sum.values[i] / static_cast<double>(sum.rows));
      }
      emit({.hook = spec_.where.hook,
            .layer = key.second,
            .phase = key.first,
            .position = sum.last_position,
            .token = sum.last_token,
            .values = mean,
            .rows_averaged = sum.rows});
    }
  }

 private:
  struct Sum {
    std::vector<double> values;
    int64_t rows = 0;
    int64_t last_position = 0;
    int32_t last_token = 0;
  };

  const DerivedSpec& spec_;
  std::map<std::pair<Phase, int32_t>, Sum> sums_;  // by phase and layer
};

}  // namespace

std::unique_ptr<DerivedQuantity> MakeMean(const DerivedSpec& spec) {
  return std::make_unique<RowMean>(spec);
}

}  // namespace headrace
