#include "engine/model/decoder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/model/attention_writer.h"
#include "engine/model/mlp_writer.h"
#include "engine/ops/rms_norm.h"
#include "engine/tensor/block_formats.h"

namespace headrace {
namespace {

size_t Elements(int64_t rows, int64_t width) {
  return static_cast<size_t>(rows * width);
}

int64_t RotaryPairs(const ModelConfig& config) {
  if (!config.rope.has_value()) return 0;
  // Gemma 4's ladder spans the whole head, partly with frequency zero.
  return (config.rope->type == RopeType::kProportional
              ? config.head_dim
              : config.rope->rotary_dim) /
         2;
}

}  // namespace

StepBuffers::StepBuffers(const ModelConfig& config, int64_t max_rows)
    : normed(Elements(max_rows, config.hidden_size)),
      qkv(Elements(max_rows, (config.num_attention_heads +
                              2 * config.num_key_value_heads) *
                                 config.head_dim)),
      z(Elements(max_rows, config.num_attention_heads * config.head_dim)),
      gate_up(Elements(max_rows, 2 * config.intermediate_size)),
      act(Elements(max_rows, config.intermediate_size)),
      write(Elements(max_rows, config.hidden_size)),
      scale(Elements(max_rows, 1)),
      shown(Elements(max_rows, config.num_attention_heads * config.head_dim)),
      rotary(max_rows, RotaryPairs(config)) {}

Decoder::Decoder(OpsContext& ops, const DecoderDescription& description,
                 std::vector<DecoderBlock> blocks, LinearWeights lm_head,
                 const DecoderOptions& options)
    : ops_(ops),
      config_(description.config),
      release_pages_(options.release_pages),
      embed_tokens_(description.embed_tokens, options.release_pages),
      lm_head_view_(description.lm_head),
      additive_position_(description.additive_position),
      blocks_(std::move(blocks)),
      final_norm_(description.final_norm),
      lm_head_(std::move(lm_head)),
      bus_(options.max_rows, config_.hidden_size),
      buffers_(config_, options.max_rows),
      attention_(ops.team().num_threads(), config_.head_dim),
      gathered_tile_(Elements(kLogitsTile, config_.hidden_size)),
      statistics_tile_(Elements(kLogitsTile, config_.hidden_size)),
      normed_tile_(Elements(kLogitsTile, config_.hidden_size)),
      scale_tile_(Elements(kLogitsTile, 1)),
      logits_tile_(Elements(kLogitsTile, config_.vocab_size)) {
  for (const LayerDescription& layer : description.layers) {
    o_projs_.push_back(layer.attention.o_proj);
  }
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Create(
    OpsContext& ops, const DecoderDescription& description,
    const DecoderOptions& options,
    absl::FunctionRef<void(int64_t, int64_t)> on_layer) {
  const auto num_layers = static_cast<int64_t>(description.layers.size());
  std::vector<DecoderBlock> blocks;
  for (int64_t i = 0; i < num_layers; ++i) {
    const LayerDescription& layer = description.layers[static_cast<size_t>(i)];
    std::vector<std::unique_ptr<Writer>> writers;
    ASSIGN_OR_RETURN(writers.emplace_back(),
                     AttentionWriter::Create(
                         ops, description.config, static_cast<int32_t>(i),
                         layer.attention, options.numerics));
    ASSIGN_OR_RETURN(writers.emplace_back(),
                     MlpWriter::Create(ops, static_cast<int32_t>(i), layer.mlp,
                                       options.numerics));
    blocks.emplace_back(static_cast<int32_t>(i), std::move(writers));
    options.release_pages();
    on_layer(i + 1, num_layers + 1);
  }
  ASSIGN_OR_RETURN(
      LinearWeights lm_head,
      LinearWeights::Pack(ops, std::array{description.lm_head},
                          options.numerics, RowPrecision::kTwiceInt8));
  options.release_pages();
  on_layer(num_layers + 1, num_layers + 1);
  return std::unique_ptr<Decoder>(new Decoder(
      ops, description, std::move(blocks), std::move(lm_head), options));
}

int64_t Decoder::packed_bytes() const {
  int64_t bytes = lm_head_.packed_bytes();
  for (const DecoderBlock& block : blocks_) bytes += block.packed_bytes();
  return bytes;
}

void Decoder::Forward(const StepRows& rows, PagedKvStorage& kv) {
  StepContext step{.ops = ops_,
                   .kv = kv,
                   .attention = attention_,
                   .buffers = buffers_,
                   .rows = rows};
  bus_.Begin(rows.num_rows());
  Embed(step);
  if (additive_position_.writes()) WritePositions(step);
  SetRotaryRows(rows);
  for (const DecoderBlock& block :
       std::span(blocks_).first(blocks_.size() - 1)) {
    block.Forward(step, bus_);
  }
  ForwardOutputs(step);
}

void Decoder::ForwardOutputs(StepContext& step) {
  const DecoderBlock& block = blocks_.back();
  const std::span<const int32_t> outputs = step.rows.outputs;
  if (step.rows.observer != nullptr ||
      std::ssize(outputs) == step.rows.num_rows()) {
    block.Forward(step, bus_);
    return;
  }
  block.StoreKv(step, bus_);  // of all rows; Forward() stores some again
  if (outputs.empty()) return;
  std::vector<int32_t> tokens;
  std::vector<StepSequence> sequences;
  auto sequence = step.rows.sequences.begin();
  for (const int32_t row : outputs) {
    while (row >= sequence->first_row + sequence->num_rows) ++sequence;
    sequences.push_back(*sequence);
    sequences.back().first_row = std::ssize(tokens);
    sequences.back().num_rows = 1;
    sequences.back().first_position += row - sequence->first_row;
    tokens.push_back(step.rows.tokens[static_cast<size_t>(row)]);
  }
  const StepRows kept = {
      .tokens = tokens, .sequences = sequences, .outputs = outputs};
  StepContext step_of_kept{.ops = step.ops,
                           .kv = step.kv,
                           .attention = step.attention,
                           .buffers = step.buffers,
                           .rows = kept};
  SetRotaryRows(kept);
  bus_.Keep(outputs);
  block.Forward(step_of_kept, bus_);
  bus_.Restore(outputs);
}

void Decoder::Embed(StepContext& step) {
  const StepRows& rows = step.rows;
  for (int64_t i = 0; i < rows.num_rows(); ++i) {
    embed_tokens_.Read(rows.tokens[static_cast<size_t>(i)], bus_.row(i));
  }
  step.Tap(HookPoint::kEmbed, -1, bus_.writable_rows(), config_.hidden_size);
}

void Decoder::WritePositions(StepContext& step) {
  const int64_t width = config_.hidden_size;
  float* write = buffers_.write.data();
  for (const StepSequence& sequence : step.rows.sequences) {
    for (int64_t i = 0; i < sequence.num_rows; ++i) {
      additive_position_.Write(sequence.first_position + i,
                               {write + (sequence.first_row + i) * width,
                                static_cast<size_t>(width)});
    }
  }
  step.Tap(HookPoint::kPositionWrite, -1, write, width);
  bus_.Add(ops_.team(), write);
}

void Decoder::SetRotaryRows(const StepRows& rows) {
  for (const StepSequence& sequence : rows.sequences) {
    if (sequence.rope == nullptr) continue;
    ops_.team().ParallelFor(
        sequence.num_rows, [&](int64_t i, int /*thread_index*/) {
          buffers_.rotary.SetRow(sequence.first_row + i,
                                 sequence.first_position + i, *sequence.rope);
        });
  }
}

std::vector<std::span<const float>> Decoder::BusRows(
    std::span<const int32_t> step_rows) {
  std::vector<std::span<const float>> rows;
  rows.reserve(step_rows.size());
  for (const int32_t row : step_rows) rows.emplace_back(bus_.row(row));
  return rows;
}

void Decoder::NormTile(std::span<const std::span<const float>> rows,
                       std::span<const std::span<const float>> statistics) {
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].begin(), rows[i].end(),
              gathered_tile_.data() + i * rows[i].size());
    std::copy(statistics[i].begin(), statistics[i].end(),
              statistics_tile_.data() + i * statistics[i].size());
  }
  RmsNorm(ops_.team(),
          {.src = gathered_tile_.data(),
           .statistics = statistics_tile_.data(),
           .num_rows = static_cast<int64_t>(rows.size()),
           .weight = final_norm_.weight,
           .eps = final_norm_.eps},
          normed_tile_.data(), scale_tile_.data());
}

void Decoder::FinalNorm(std::span<const int32_t> step_rows,
                        StepObserver& observer) {
  for (size_t i = 0; i < step_rows.size(); i += kLogitsTile) {
    const std::span<const int32_t> tile =
        step_rows.subspan(i, std::min(kLogitsTile, step_rows.size() - i));
    const std::vector<std::span<const float>> rows = BusRows(tile);
    NormTile(rows, rows);
    const auto show = [&](HookPoint hook, const float* data, int64_t width) {
      observer.OnRows({.hook = hook,
                       .layer = -1,
                       .data = data,
                       .writable = nullptr,
                       .width = width,
                       .stride = width,
                       .step_rows = tile,
                       .num_rows = static_cast<int64_t>(tile.size())});
    };
    show(HookPoint::kFinalNormScale, scale_tile_.data(), 1);
    show(HookPoint::kFinalNormOut, normed_tile_.data(), config_.hidden_size);
  }
}

void Decoder::Unembed(std::span<const std::span<const float>> rows,
                      std::span<const std::span<const float>> statistics,
                      TakeLogits take) {
  for (size_t i = 0; i < rows.size(); i += kLogitsTile) {
    const size_t num_rows = std::min(kLogitsTile, rows.size() - i);
    NormTile(rows.subspan(i, num_rows), statistics.subspan(i, num_rows));
    Linear(ops_, lm_head_, normed_tile_.data(), static_cast<int64_t>(num_rows),
           {.rows = logits_tile_.data(), .stride = config_.vocab_size});
    take(i,
         {logits_tile_.data(),
          Elements(static_cast<int64_t>(num_rows), config_.vocab_size)},
         num_rows);
  }
}

std::vector<float> Decoder::TokenDirection(int32_t token) const {
  std::vector<float> direction(static_cast<size_t>(config_.hidden_size));
  DequantizeRow(lm_head_view_, token, direction);
  release_pages_();
  for (size_t i = 0; i < direction.size(); ++i) {
    direction[i] *= final_norm_.weight[i];
  }
  return direction;
}

std::vector<float> Decoder::HeadDirection(
    int32_t layer, std::span<const float> direction) const {
  const TensorView& o_proj = o_projs_[static_cast<size_t>(layer)];
  std::vector<float> row(static_cast<size_t>(o_proj.dim(1)));
  std::vector<double> sum(row.size());
  for (int64_t i = 0; i < o_proj.dim(0); ++i) {
    DequantizeRow(o_proj, i, row);
    const double weight = direction[static_cast<size_t>(i)];
    for (size_t k = 0; k < row.size(); ++k) sum[k] += weight * row[k];
  }
  release_pages_();
  return {sum.begin(), sum.end()};
}

void Decoder::Logits(std::span<const int32_t> step_rows, StepObserver* observer,
                     TakeStepLogits take) {
  const int64_t vocab_size = config_.vocab_size;
  const std::vector<std::span<const float>> rows = BusRows(step_rows);
  Unembed(rows, rows,
          [&](size_t first, std::span<const float> logits, size_t num_rows) {
            const std::span<const int32_t> tile =
                step_rows.subspan(first, num_rows);
            if (observer != nullptr) {
              observer->OnRows({.hook = HookPoint::kLogits,
                                .layer = -1,
                                .data = logits.data(),
                                .writable = nullptr,
                                .width = vocab_size,
                                .stride = vocab_size,
                                .step_rows = tile,
                                .num_rows = static_cast<int64_t>(num_rows)});
            }
            take(tile, logits);
          });
}

}  // namespace headrace
