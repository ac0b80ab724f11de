// The hash of a model's weights, known again without reading them all.
#ifndef HEADRACE_ENGINE_KNOWN_WEIGHTS_H_
#define HEADRACE_ENGINE_KNOWN_WEIGHTS_H_

#include <string>

#include "absl/time/time.h"
#include "engine/base/cache_folder.h"
#include "engine/weights/weight_source.h"

namespace headrace {

// HashWeights(source), which `folder` remembers. Files are taken for those of
// an earlier call when size, inode and times of change are the same, and a
// sample of every tensor too, as inodes and times may all be equal in an image
// of a file system. `now`: files that changed a moment ago are not remembered,
// as they could change again within a tick of their clock.
std::string HashKnownWeights(const WeightSource& source,
                             const CacheFolder& folder, absl::Time now);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_KNOWN_WEIGHTS_H_
