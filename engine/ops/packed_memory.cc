#include "engine/ops/packed_memory.h"

#include <algorithm>
#include <utility>

namespace headrace {
namespace {

constexpr size_t kAlignment = AlignedBuffer<std::byte>::kAlignment;
// What of a piece is not used takes no memory.
constexpr size_t kPieceBytes = size_t{64} << 20;

}  // namespace

void PackedMemory::Adopt(std::vector<PackedRun> kept) {
  kept_ = std::move(kept);
}

PackedRun PackedMemory::Take(DType dtype, int64_t in, int64_t out,
                             absl::FunctionRef<void(std::byte*)> pack) {
  PackedRun run = {.dtype = dtype, .in = in, .out = out};
  const size_t index = taken_.runs.size();
  if (index < kept_.size() && kept_[index].dtype == dtype &&
      kept_[index].in == in && kept_[index].out == out) {
    run.data = kept_[index].data;
  } else {
    const std::shared_ptr<std::byte> data =
        Allocate(static_cast<size_t>(run.bytes()));
    pack(data.get());
    run.data = data;
    taken_.packed = true;
  }
  taken_.runs.push_back(run);
  return run;
}

PackedMemory::Taken PackedMemory::Finish() {
  kept_.clear();
  return std::exchange(taken_, {});
}

std::shared_ptr<std::byte> PackedMemory::Allocate(size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (piece_ == nullptr || piece_->size() - used_ < bytes) {
    piece_ = std::make_shared<AlignedBuffer<std::byte>>(
        std::max(kPieceBytes, bytes));
    used_ = 0;
  }
  std::byte* data = piece_->data() + used_;
  used_ += bytes;
  return {piece_, data};
}

}  // namespace headrace
