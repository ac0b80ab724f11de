// Packed weights kept on disk, so that the next server of the same model maps
// them instead of packing, and shares their memory with others.
#ifndef HEADRACE_ENGINE_PACKED_CACHE_H_
#define HEADRACE_ENGINE_PACKED_CACHE_H_

#include <span>
#include <utility>
#include <vector>

#include "engine/base/cache_folder.h"
#include "engine/base/thread_team.h"
#include "engine/ops/packed_image.h"
#include "engine/ops/packed_run.h"

namespace headrace {

// A file for each key. Trouble with the folder is a warning in the log, never
// an error: weights are then packed as without it.
class PackedCache {
 public:
  explicit PackedCache(CacheFolder folder) : folder_(std::move(folder)) {}

  // The runs of `key`, in the file's mapped pages. Empty when there are none,
  // or what is there is damaged.
  std::vector<PackedRun> Load(ThreadTeam& team,
                              const PackedImageKey& key) const;
  // Keeps them, and removes the files that were used least lately.
  void Save(ThreadTeam& team, const PackedImageKey& key,
            std::span<const PackedRun> runs) const;

 private:
  CacheFolder folder_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_PACKED_CACHE_H_
