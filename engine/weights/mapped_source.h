// The one implementation of WeightSource: what every format's parser fills in.
#ifndef HEADRACE_ENGINE_WEIGHTS_MAPPED_SOURCE_H_
#define HEADRACE_ENGINE_WEIGHTS_MAPPED_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/aligned_buffer.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/weight_source.h"
#include "nlohmann/json.hpp"

namespace headrace {

struct SourceParts {
  WeightFormat format = WeightFormat::kGguf;
  std::string format_name;
  std::vector<StoredTensor> tensors;  // in any order
  nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
  std::vector<std::string> warnings;
  std::vector<MappedFile> files;  // what the tensors point into
  std::vector<std::unique_ptr<const RowMaker>> makers;  // the same
};

// Adds a tensor of `bytes` bytes at `offset` of `file`; the caller has checked
// that they are inside it.
void AddStoredTensor(const MappedFile& file, uint64_t offset, int64_t bytes,
                     std::string name, TensorView view, SourceParts& parts);

// Sorts the tensors and copies those whose elements are not aligned in the
// file. Errors: DATA_LOSS for two tensors of one name, naming both places;
// ABORTED when a file changed meanwhile.
absl::StatusOr<std::unique_ptr<WeightSource>> MakeMappedSource(
    SourceParts parts);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_MAPPED_SOURCE_H_
