// What a request (or a server flag) asks of the rotary encoding, and what it
// gets: context extension.
#ifndef HEADRACE_ENGINE_ROPE_EXTENSION_H_
#define HEADRACE_ENGINE_ROPE_EXTENSION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/field_violation.h"
#include "engine/rope/rope_params.h"

namespace headrace {

struct RopeRequest {
  enum class Kind : uint8_t {
    kUnset,    // what the file says
    kNone,     // the unscaled base of what the file says
    kAuto,     // the mildest YaRN that fits, none when it fits already
    kScaling,  // `scaling`, in place of the file's
  };
  Kind kind = Kind::kUnset;
  // kScaling only: the method and its fields. An unset original length is the
  // file's; an unset factor of yarn and longrope is max_context / original.
  // Theta, dimensions and max_position_embeddings are the file's: what this
  // says about them is ignored.
  RopeParams scaling;
  std::optional<double> rope_theta;  // replaces the file's base, for any kind
  // Positions that the request may use; what dynamic NTK, LongRoPE and auto
  // are resolved at. 0: no more than it needs, up to what the method serves.
  int64_t max_context = 0;
  // The request names no end (max_tokens unset): it may use all that the
  // method serves.
  bool open_ended = false;
};

struct RopeResolution {
  // Set when there is no violation and the model has a rotary encoding.
  std::optional<EffectiveRope> rope;
  // Fields are relative to the ContextExtension message: "max_context",
  // "rope_theta", "rope_scaling.yarn.factor".
  std::vector<FieldViolation> violations;
};

// Resolves `request` for a sequence on a model whose file says `file_params`
// (null: the model has no rotary encoding; valid otherwise). All that is wrong
// is reported at once.
//
//   needed_positions: prompt + max_tokens; prompt + 1 when open_ended. Only
//                     `auto`, dynamic NTK and LongRoPE look at it. That the
//                     prompt fits rope.context_length is the caller's to
//                     check: without scaling it need not.
//
// max_context may not exceed what the method serves: factor * original length,
// or max_position_embeddings for longrope, llama3 and without scaling. Only
// kNone, the unscaled base asked for by name, may go beyond it.
RopeResolution ResolveExtension(const RopeParams* file_params,
                                RopePairing pairing, const RopeRequest& request,
                                int64_t needed_positions);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_EXTENSION_H_
