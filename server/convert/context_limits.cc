#include "server/convert/context_limits.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert/rope.h"

namespace headrace {

void ResolveContext(const v1::ContextExtension& extension,
                    std::optional<int64_t> max_tokens,
                    const ServingContext& context, Request& request,
                    Violations& violations) {
  const ModelInfo& model = context.engine->model();
  SequenceOptions& sequence = request.sequence;
  const auto length = static_cast<int64_t>(sequence.prompt.size());
  RopeRequest rope_request = ToRopeRequest(extension);
  rope_request.open_ended = !max_tokens.has_value();
  RopeResolution resolution =
      ResolveRequestRope(model, rope_request, length + max_tokens.value_or(1));
  violations.AddAll("context_extension", resolution.violations);
  if (!resolution.violations.empty() || length == 0) return;
  sequence.rope = std::move(resolution.rope);

  const int64_t positions = sequence.rope.has_value()
                                ? sequence.rope->context_length
                                : model.context_length;
  // A token must fit beside the prompt, unless none is asked for.
  if (length + std::min<int64_t>(1, max_tokens.value_or(1)) > positions) {
    violations.Add("prompt",
                   absl::StrCat("must leave room to generate in a context of ",
                                positions, " tokens; has ", length, " tokens"));
    return;
  }
  // Without a wish of its own a request takes no more than the cache holds.
  const int64_t usable =
      max_tokens.has_value()
          ? positions
          : std::clamp(context.kv_cache_rows, length + 1, positions);
  const int64_t room = usable - length;
  request.stop.limited_by_context = !max_tokens || *max_tokens > room;
  request.stop.max_tokens = std::min(max_tokens.value_or(room), room);
  // The token sampled last has no row, unless it is fed back.
  const int64_t fed =
      request.stop.max_tokens - (request.delivery.feed_last_token ? 0 : 1);
  sequence.max_rows = length + std::max<int64_t>(0, fed);
}

}  // namespace headrace
