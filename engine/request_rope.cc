// What a request asks of RoPE, on top of what the server was started with.
#include "engine/engine.h"

namespace headrace {

RopeResolution ResolveRequestRope(const ModelInfo& model,
                                  const RopeRequest& request,
                                  int64_t needed_positions) {
  RopeRequest merged = request;
  if (request.kind == RopeRequest::Kind::kUnset) {
    merged.kind = model.rope_request.kind;
    merged.scaling = model.rope_request.scaling;
    if (!merged.rope_theta.has_value()) {
      merged.rope_theta = model.rope_request.rope_theta;
    }
    if (merged.max_context == 0) {
      merged.max_context = model.rope_request.max_context;
    }
  }
  const RopeParams* file =
      model.config.rope.has_value() ? &*model.config.rope : nullptr;
  return ResolveExtension(file, model.config.rope_pairing, merged,
                          needed_positions);
}

}  // namespace headrace
