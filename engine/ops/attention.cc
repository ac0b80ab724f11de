#include "engine/ops/attention.h"

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/aligned_buffer.h"
#include "engine/ops/attention_plan.h"
#include "engine/ops/kernels/attention_kernel.h"
#include "engine/ops/kernels/sum_of_lanes.h"

namespace headrace {
namespace {

using kernels::AttentionState;
using kernels::kMaxAttentionRows;

// Floats per thread for the results of split units.
constexpr int64_t kPartialFloatsPerThread = int64_t{2} << 20;

// What one thread works in.
struct ThreadMemory {
  explicit ThreadMemory(int64_t width)
      : floats(static_cast<size_t>(
            kMaxAttentionRows * (width + kernels::kSumLanes + 1) +
            kernels::kMaxRunRows * (kernels::kKeysPerTile + 2) +
            2 * AttentionStateFloats(kMaxAttentionRows, width))),
        shorts(
            static_cast<size_t>(kMaxAttentionRows * width +
                                kernels::kMaxRunRows * kernels::kKeysPerTile)) {
    float* next = floats.data();
    const auto take = [&next](int64_t count) {
      return std::exchange(next, next + count);
    };
    workspace = {.q = take(kMaxAttentionRows * width),
                 .scores = take(kernels::kMaxRunRows * kernels::kKeysPerTile),
                 .factors = take(kernels::kMaxRunRows),
                 .sums = take(kMaxAttentionRows * kernels::kSumLanes),
                 .integer_q = shorts.data(),
                 .q_scales = take(kMaxAttentionRows),
                 .weights = shorts.data() + kMaxAttentionRows * width,
                 .weight_scales = take(kernels::kMaxRunRows)};
    float* states = next;
    part = AttentionStateAt(states, kMaxAttentionRows);
    total = AttentionStateAt(
        states + AttentionStateFloats(kMaxAttentionRows, width),
        kMaxAttentionRows);
  }

  AlignedBuffer<float> floats;
  AlignedBuffer<int16_t> shorts;
  kernels::AttentionWorkspace workspace;
  AttentionState part;
  AttentionState total;
};

}  // namespace

struct AttentionScratch::Memory {
  int64_t width = 0;  // head_dim, padded
  std::vector<ThreadMemory> threads;
  // Left uninitialised: a page of it costs nothing before its first use.
  std::unique_ptr<float[]> partials_memory;
  float* partials = nullptr;  // aligned
  int64_t num_partials = 0;
  AttentionPlan plan;
  // Parts of each unit that are not finished.
  std::unique_ptr<std::atomic<int64_t>[]> unfinished;
  size_t num_unfinished = 0;
};

AttentionScratch::AttentionScratch(int num_threads, int64_t head_dim)
    : memory_(std::make_unique<Memory>()) {
  Memory& memory = *memory_;
  memory.width = KvLayout{.head_dim = head_dim}.width();
  for (int i = 0; i < num_threads; ++i) {
    memory.threads.emplace_back(memory.width);
  }
  memory.num_partials = num_threads * kPartialFloatsPerThread;
  size_t bytes = (static_cast<size_t>(memory.num_partials) * sizeof(float)) +
                 AlignedBuffer<float>::kAlignment;
  memory.partials_memory =
      std::make_unique_for_overwrite<float[]>(bytes / sizeof(float));
  void* aligned = memory.partials_memory.get();
  aligned =
      std::align(AlignedBuffer<float>::kAlignment,
                 bytes - AlignedBuffer<float>::kAlignment, aligned, bytes);
  memory.partials = static_cast<float*>(aligned);
}

AttentionScratch::~AttentionScratch() = default;

namespace {

// One unit from its first key to its results.
void RunUnit(const AttentionUnit& unit, ThreadMemory& thread, float* dst,
             int64_t dst_row_stride) {
  kernels::PrepareQueries(unit.rows, thread.workspace);
  kernels::AttendPart(unit.rows, unit.first_part, thread.workspace,
                      thread.total);
  for (int64_t part = 1; part < unit.num_parts; ++part) {
    kernels::AttendPart(unit.rows, unit.first_part + part, thread.workspace,
                        thread.part);
    kernels::MergePart(unit.rows, thread.part, thread.total);
  }
  kernels::FinishRows(unit.rows, thread.total, dst, dst_row_stride);
}

// The state of a part of a split unit.
AttentionState PartialState(const AttentionUnit& unit, int64_t part,
                            float* partials) {
  const int64_t num_rows = unit.rows.num_rows();
  return AttentionStateAt(
      partials + unit.partials_offset +
          part * AttentionStateFloats(num_rows, unit.rows.width()),
      num_rows);
}

// Merges the parts of a split unit, all of which are finished.
void MergeUnit(const AttentionUnit& unit, float* partials, float* dst,
               int64_t dst_row_stride) {
  const AttentionState total = PartialState(unit, 0, partials);
  for (int64_t part = 1; part < unit.num_parts; ++part) {
    kernels::MergePart(unit.rows, PartialState(unit, part, partials), total);
  }
  kernels::FinishRows(unit.rows, total, dst, dst_row_stride);
}

void CheckInputs(const AttentionInputs& inputs, int64_t width) {
  const KvLayout& layout = inputs.layout;
  CHECK_EQ(layout.width(), width);
  CHECK(!IsInteger(layout.dtype) ||
        layout.head_dim <= KvLayout::kMaxIntegerHeadDim);
  CHECK_EQ(layout.block_size % KvLayout::kPositionsPerLine, 0);
  CHECK_EQ(inputs.num_attention_heads % layout.num_key_value_heads, 0);
  for (const AttentionSequence& sequence : inputs.sequences) {
    CHECK_GE(
        static_cast<int64_t>(sequence.block_table.size()) * layout.block_size,
        sequence.first_position + sequence.num_rows);
  }
}

}  // namespace

void Attention(ThreadTeam& team, const AttentionInputs& inputs,
               AttentionScratch& scratch, float* dst, int64_t dst_row_stride) {
  AttentionScratch::Memory& memory = *scratch.memory_;
  CheckInputs(inputs, memory.width);
  CHECK_LE(static_cast<size_t>(team.num_threads()), memory.threads.size());
  AttentionPlan& plan = memory.plan;
  plan.Build(inputs, team.num_threads(), memory.num_partials);
  if (memory.num_unfinished < plan.units.size()) {
    memory.num_unfinished = plan.units.size();
    memory.unfinished =
        std::make_unique<std::atomic<int64_t>[]>(memory.num_unfinished);
  }
  for (size_t i = 0; i < plan.units.size(); ++i) {
    memory.unfinished[i].store(plan.units[i].num_parts,
                               std::memory_order_relaxed);
  }
  const auto run_task = [&](int64_t index, int thread_index) {
    const AttentionTask& task = plan.tasks[static_cast<size_t>(index)];
    const AttentionUnit& unit = plan.units[static_cast<size_t>(task.unit)];
    ThreadMemory& thread = memory.threads[static_cast<size_t>(thread_index)];
    float* unit_dst = dst + unit.dst_row * dst_row_stride +
                      unit.first_head * inputs.layout.head_dim;
    if (!unit.split()) {
      RunUnit(unit, thread, unit_dst, dst_row_stride);
      return;
    }
    kernels::PrepareQueries(unit.rows, thread.workspace);
    kernels::AttendPart(unit.rows, unit.first_part + task.part,
                        thread.workspace,
                        PartialState(unit, task.part, memory.partials));
    std::atomic<int64_t>& unfinished =
        memory.unfinished[static_cast<size_t>(task.unit)];
    if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      MergeUnit(unit, memory.partials, unit_dst, dst_row_stride);
    }
  };
  team.ParallelFor(static_cast<int64_t>(plan.tasks.size()), run_task);
}

}  // namespace headrace
