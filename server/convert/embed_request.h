// v1.EmbedRequest: one internal request per input, and how their rows become
// one vector each.
#ifndef HEADRACE_SERVER_CONVERT_EMBED_REQUEST_H_
#define HEADRACE_SERVER_CONVERT_EMBED_REQUEST_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "headrace/v1/generation.pb.h"
#include "server/batching/request.h"
#include "server/convert/serving_context.h"

namespace headrace {

enum class Pooling : uint8_t {
  kMean,  // over the prompt's rows, summed in order of position in float64
  kLast,  // the last row
};

struct ResolvedEmbed {
  // Without a layout: their rows go to a pooling sink, not to a stream.
  std::vector<Request> requests;
  HookPoint hook = HookPoint::kFinalNormOut;
  int32_t layer = -1;  // -1 where the hook has none
  int64_t width = 0;
  Pooling pooling = Pooling::kMean;
  bool normalize = false;
};

// Errors: NOT_FOUND (model); INVALID_ARGUMENT with every violation;
// RESOURCE_EXHAUSTED for a reply that would be too large.
absl::StatusOr<ResolvedEmbed> ResolveEmbed(const v1::EmbedRequest& proto,
                                           const ServingContext& context);

// `vectors`: one per request, `width` values each.
v1::EmbedResponse MakeEmbedResponse(
    const ResolvedEmbed& embed, const std::vector<std::vector<float>>& vectors);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_EMBED_REQUEST_H_
