#include "engine/capture/intervention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "engine/capture/dot.h"

namespace headrace {
namespace {

// row -= amount * vector
void Subtract(std::span<float> row, double amount,
              std::span<const float> vector) {
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(row[i] - amount * vector[i]);
  }
}

}  // namespace

std::span<const float> RowFor(const Intervention& intervention, int32_t layer,
                              int64_t position) {
  if (!intervention.from.has_value()) return intervention.vector;
  const RowsFrom& from = *intervention.from;
  return from.source->Find(from.hook.value_or(intervention.where.hook),
                           from.layer.value_or(layer), position + from.offset);
}

void Apply(const Intervention& intervention, std::span<const float> vector,
           std::span<float> row) {
  const float value = intervention.value;
  switch (intervention.op) {
    case InterventionOp::kAdd:
      for (size_t i = 0; i < row.size(); ++i) row[i] += value * vector[i];
      return;
    case InterventionOp::kScale:
      for (float& x : row) x *= value;
      return;
    case InterventionOp::kProjectOut:
      return Subtract(row, value * Dot(row, vector) / Dot(vector, vector),
                      vector);
    case InterventionOp::kCap: {
      const double norm = std::sqrt(Dot(vector, vector));
      const double excess = Dot(row, vector) / norm - value;
      if (excess > 0) Subtract(row, excess / norm, vector);
      return;
    }
    case InterventionOp::kReplace:
      std::copy(vector.begin(), vector.end(), row.begin());
      return;
    case InterventionOp::kZero:
      std::fill(row.begin(), row.end(), 0.0f);
      return;
  }
}

}  // namespace headrace
