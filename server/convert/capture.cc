#include "server/convert/capture.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/convert/derived.h"
#include "server/convert/hook_selection.h"
#include "server/convert/row_selection.h"

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
  delivery.feed_last_token = proto.rows().feed_last_token();
  return delivery;
}

}  // namespace

void ResolveCapture(const v1::CaptureSpec& proto, const ServingContext& context,
                    Request& request, Violations& violations) {
  const size_t before = violations.count();
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
  request.delivery = ResolveDelivery(proto, violations);
  if (violations.count() != before) return;
  const ModelConfig& config = context.engine->model().config;
  request.layout = MakeCaptureLayout(plan, context.engine->hooks(),
                                     {.num_layers = config.num_hidden_layers,
                                      .num_heads = config.num_attention_heads},
                                     request.delivery, context.max_ring_bytes);
}

}  // namespace headrace
