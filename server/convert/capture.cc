#include "server/convert/capture.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/capture/hook_selection.h"
#include "server/convert/capture_estimate.h"
#include "server/convert/derived.h"
#include "server/convert/error_details.h"
#include "server/convert/hook_selection.h"
#include "server/convert/row_selection.h"
#include "server/convert/vectors.h"
#include "server/vectors/row_keeper.h"

namespace headrace {

namespace {

constexpr uint32_t kMinChunkBytes = 4 << 10;
constexpr uint32_t kMaxChunkBytes = 2 << 20;

std::optional<WireDtype> ToWireDtype(v1::WireDtype dtype) {
  switch (dtype) {
    case v1::WIRE_DTYPE_UNSPECIFIED:
    case v1::WIRE_DTYPE_F32:
      return WireDtype::kF32;
    case v1::WIRE_DTYPE_BF16:
      return WireDtype::kBF16;
    case v1::WIRE_DTYPE_F16:
      return WireDtype::kF16;
    case v1::WIRE_DTYPE_INT8:
      return WireDtype::kInt8;
    default:
      return std::nullopt;
  }
}

std::optional<SlowReaderPolicy> ToPolicy(v1::SlowReaderPolicy policy) {
  switch (policy) {
    case v1::SLOW_READER_POLICY_UNSPECIFIED:
    case v1::SLOW_READER_POLICY_PAUSE_SEQUENCE:
      return SlowReaderPolicy::kPauseSequence;
    case v1::SLOW_READER_POLICY_DROP_WITH_GAPS:
      return SlowReaderPolicy::kDropWithGaps;
    case v1::SLOW_READER_POLICY_CANCEL:
      return SlowReaderPolicy::kCancel;
    default:
      return std::nullopt;
  }
}

std::optional<Compression> ToCompression(v1::Compression compression) {
  switch (compression) {
    case v1::COMPRESSION_UNSPECIFIED:
    case v1::COMPRESSION_NONE:
      return Compression::kNone;
    case v1::COMPRESSION_ZSTD:
      return Compression::kZstd;
    default:
      return std::nullopt;
  }
}

CaptureDelivery ResolveDelivery(const v1::CaptureSpec& proto,
                                Violations& violations) {
  CaptureDelivery delivery;
  if (const auto dtype = ToWireDtype(proto.dtype())) {
    delivery.dtype = *dtype;
  } else {
    violations.Add("capture.dtype",
                   absl::StrCat("must be a WireDtype; is ",
                                static_cast<int>(proto.dtype())));
  }
  if (const auto policy = ToPolicy(proto.policy())) {
    delivery.policy = *policy;
  } else {
    violations.Add("capture.policy",
                   absl::StrCat("must be a SlowReaderPolicy; is ",
                                static_cast<int>(proto.policy())));
  }
  const uint32_t chunk_bytes = proto.chunk_bytes();
  if (chunk_bytes != 0) delivery.chunk_bytes = chunk_bytes;
  if (chunk_bytes != 0 &&
      (chunk_bytes < kMinChunkBytes || chunk_bytes > kMaxChunkBytes)) {
    violations.Add("capture.chunk_bytes",
                   absl::StrCat("must be 0, or from ", kMinChunkBytes, " to ",
                                kMaxChunkBytes, "; is ", chunk_bytes));
  }
  if (const auto compression = ToCompression(proto.compression())) {
    delivery.compression = *compression;
  } else {
    violations.Add("capture.compression",
                   absl::StrCat("must be a Compression; is ",
                                static_cast<int>(proto.compression())));
  }
  delivery.feed_last_token = proto.rows().feed_last_token();
  return delivery;
}

bool LeavesOutCached(v1::CachedRows policy, Violations& violations) {
  switch (policy) {
    case v1::CACHED_ROWS_UNSPECIFIED:
    case v1::CACHED_ROWS_RECOMPUTE:
      return false;
    case v1::CACHED_ROWS_LEAVE_OUT:
      return true;
    default:
      violations.Add(
          "capture.cached_rows",
          absl::StrCat("must be a CachedRows; is ", static_cast<int>(policy)));
      return false;
  }
}

absl::Duration TimeToLive(const v1::KeepRows& proto,
                          const ServingContext& context,
                          Violations& violations) {
  return ResolveTimeToLive(proto.has_time_to_live()
                               ? std::optional(proto.time_to_live())
                               : std::nullopt,
                           "capture.keep.time_to_live", context, violations);
}

void ResolveKeep(const v1::CaptureSpec& proto, const ServingContext& context,
                 Request& request, Violations& violations) {
  TimeToLive(proto.keep(), context, violations);
  request.sends_kept = proto.keep().send();
  if (proto.hooks().empty()) {
    violations.Add("capture.keep", "needs `hooks`, whose rows are to be kept");
  }
  if (request.num_choices > 1) {
    violations.Add("capture.keep",
                   absl::StrCat("needs a single choice; sampling.n is ",
                                request.num_choices));
  }
  for (const HookSelection& hook : request.sequence.capture.hooks) {
    if (hook.heads.empty()) continue;
    violations.Add("capture.keep",
                   absl::StrCat("cannot keep ",
                                std::string(GetHookPointInfo(hook.hook).name),
                                ": nothing can be replaced with such rows"));
  }
}

// Reserves what the rows may take.
absl::Status MakeKeeper(const v1::KeepRows& proto,
                        const ServingContext& context, Request& request) {
  int64_t bytes_per_position = 0;
  for (const HookSelection& hook : request.sequence.capture.hooks) {
    bytes_per_position +=
        hook.num_rows() * KeptRowBytes(WidthOf(hook.hook, context));
  }
  absl::StatusOr<Reservation> bytes = context.vectors->Reserve(
      bytes_per_position * SelectedPositionsMax(request));
  if (!bytes.ok()) return QuotaExceeded(bytes.status(), "max_vector_bytes");
  Violations none;  // it was checked
  request.keeper = std::make_shared<RowKeeper>(
      context.vectors, *std::move(bytes), TimeToLive(proto, context, none));
  return absl::OkStatus();
}

// The last position that may have a row that the plan selects.
int64_t MaxPosition(const Request& request) {
  const SequenceOptions& sequence = request.sequence;
  return sequence.capture.rows.generated.empty()
             ? static_cast<int64_t>(sequence.prompt.size()) - 1
             : sequence.max_rows - 1;
}

}  // namespace

void ResolveCapture(const v1::CaptureSpec& proto, const ServingContext& context,
                    Request& request, Violations& violations) {
  CapturePlan& plan = request.sequence.capture;
  plan.hooks =
      ResolveHooks(proto.hooks(), "capture.hooks", context, violations);
  plan.derived =
      ResolveDerived(proto.derived(), "capture.derived", context, violations);
  if (proto.hooks().empty() && proto.derived().empty() && !proto.checks()) {
    violations.Add("capture.hooks",
                   "must not be empty, unless `derived` or `checks` is set");
  }
  plan.rows = ResolveRows(proto.rows(), "capture.rows",
                          static_cast<int64_t>(request.sequence.prompt.size()),
                          context.vocab_size(), violations);
  plan.checks = proto.checks();
  plan.before_interventions = proto.before_interventions();
  plan.leaves_out_cached = LeavesOutCached(proto.cached_rows(), violations);
  request.delivery = ResolveDelivery(proto, violations);
  if (proto.has_keep()) ResolveKeep(proto, context, request, violations);
}

absl::Status LayOutCapture(const v1::CaptureSpec& proto,
                           const ServingContext& context, Request& request) {
  CapturePlan& plan = request.sequence.capture;
  const ModelConfig& config = context.engine->model().config;
  const int64_t positions = MaxPosition(request) + 1;
  for (HookSelection& hook : plan.hooks) {
    if (hook.heads.empty()) continue;
    hook.key_width = KeyRowWidth(
        std::min(positions, config.sliding_window.value_or(positions)),
        hook.top_keys);
  }
  CapturePlan sent = plan;
  if (proto.has_keep() && !request.sends_kept) sent.hooks.clear();
  request.layout = MakeCaptureLayout(sent, context.engine->hooks(),
                                     {.num_layers = config.num_hidden_layers,
                                      .num_heads = config.num_attention_heads},
                                     request.delivery, context.max_ring_bytes);
  return proto.has_keep() ? MakeKeeper(proto.keep(), context, request)
                          : absl::OkStatus();
}

}  // namespace headrace
