#include "engine/capture/row_measures.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "engine/capture/dot.h"

namespace headrace {
namespace {

double Norm(std::span<const float> row) { return std::sqrt(Dot(row, row)); }

class RowMeasure : public DerivedQuantity {
 public:
  explicit RowMeasure(const DerivedSpec& spec) : spec_(spec) {}
  bool Reads(HookPoint hook, int32_t layer) const override {
    return spec_.where.Has(hook, layer);
  }
  const DerivedSpec& spec() const { return spec_; }

 private:
  const DerivedSpec& spec_;
};

class RowNorm final : public RowMeasure {
 public:
  using RowMeasure::RowMeasure;
  void OnRows(const SelectedRows& rows, Emit emit) override {
    for (const SelectedRows::Row& row : rows.rows) {
      const auto norm = static_cast<float>(Norm(row.values));
      emit({row.index, rows.hook, rows.layer, std::span(&norm, 1), {}});
    }
  }
};

class Projection final : public RowMeasure {
 public:
  using RowMeasure::RowMeasure;
  void OnRows(const SelectedRows& rows, Emit emit) override {
    std::vector<float> values(spec().vectors.size());
    for (const SelectedRows::Row& row : rows.rows) {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(Dot(row.values, spec().vectors[i]));
      }
      emit({row.index, rows.hook, rows.layer, values, {}});
    }
  }
};

class Cosine final : public RowMeasure {
 public:
  using RowMeasure::RowMeasure;
  void OnRows(const SelectedRows& rows, Emit emit) override {
    const bool first = rows.layer == spec().where.layers.front();
    for (const SelectedRows::Row& row : rows.rows) {
      if (before_.size() <= row.index) before_.resize(row.index + 1);
      std::vector<float>& before = before_[row.index];
      if (!first) {
        const auto cosine = static_cast<float>(
            Dot(before, row.values) / (Norm(before) * Norm(row.values)));
        emit({row.index, rows.hook, rows.layer, std::span(&cosine, 1), {}});
      }
      before.assign(row.values.begin(), row.values.end());
    }
  }

 private:
  std::vector<std::vector<float>> before_;  // by index, of the layer before
};

}  // namespace

std::unique_ptr<DerivedQuantity> MakeNorm(const DerivedSpec& spec) {
  return std::make_unique<RowNorm>(spec);
}
std::unique_ptr<DerivedQuantity> MakeProjection(const DerivedSpec& spec) {
  return std::make_unique<Projection>(spec);
}
std::unique_ptr<DerivedQuantity> MakeCosine(const DerivedSpec& spec) {
  return std::make_unique<Cosine>(spec);
}

}  // namespace headrace
