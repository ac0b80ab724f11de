// The packed weights of a model as one piece of bytes, which can be kept in a
// file and mapped: a head that says what they are, and the runs one after the
// other, as they lie in memory.
#ifndef HEADRACE_ENGINE_OPS_PACKED_IMAGE_H_
#define HEADRACE_ENGINE_OPS_PACKED_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/thread_team.h"
#include "engine/ops/packed_run.h"

namespace headrace {

// To be raised with any change of where packing puts a byte, or of this file's
// head: images of another version are made again. A test compares what packing
// does with what it did.
inline constexpr uint32_t kPackedLayoutVersion = 1;

struct PackedImageKey {
  std::string weights_sha256;  // HashWeights()
  std::string isa;             // OpsContext::isa(), at most 32 characters
};

// What comes before the bytes of `runs`, with check sums of them.
std::string PackedImageHead(ThreadTeam& team, const PackedImageKey& key,
                            std::span<const PackedRun> runs);

// The runs of an image, which share `bytes` (aligned to 64). Nothing in it is
// believed. Errors: DATA_LOSS saying what is wrong, also of a good image with
// another key.
absl::StatusOr<std::vector<PackedRun>> ParsePackedImage(
    ThreadTeam& team, const PackedImageKey& key,
    const std::shared_ptr<const std::byte>& bytes, size_t size);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_PACKED_IMAGE_H_
