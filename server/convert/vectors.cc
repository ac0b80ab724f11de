#include "server/convert/vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace headrace {

std::optional<std::vector<float>> ResolveVector(const v1::Vector& proto,
                                                const std::string& field,
                                                int64_t width,
                                                Violations& violations) {
  const std::string& bytes = proto.f32();
  const auto wanted = static_cast<size_t>(width) * sizeof(float);
  if (bytes.size() != wanted) {
    violations.Add(
        field + ".f32",
        absl::StrCat("must hold ", width, " float32 values in ", wanted,
                     " bytes, as many as the hook is wide; has ", bytes.size(),
                     " bytes"));
    return std::nullopt;
  }
  std::vector<float> vector(static_cast<size_t>(width));
  std::memcpy(vector.data(), bytes.data(), bytes.size());
  const auto bad = std::find_if(vector.begin(), vector.end(),
                                [](float x) { return !std::isfinite(x); });
  if (bad != vector.end()) {
    violations.Add(Indexed(field + ".f32", bad - vector.begin()),
                   absl::StrCat("must be finite; is ", *bad));
    return std::nullopt;
  }
  return vector;
}

}  // namespace headrace
