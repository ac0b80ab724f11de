#include "server/convert/embed_request.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/convert/context_limits.h"
#include "server/convert/enums.h"
#include "server/convert/hook_selection.h"
#include "server/convert/prompt.h"
#include "server/convert/violations.h"

namespace headrace {

namespace {

constexpr int kMaxInputs = 64;

void ResolveHook(const v1::EmbedRequest& proto, const ServingContext& context,
                 ResolvedEmbed& embed, Violations& violations) {
  if (proto.hook() != v1::HOOK_POINT_UNSPECIFIED) {
    const auto hook = CheckPlainHook(proto.hook(), "hook", context, violations);
    if (!hook.has_value()) return;
    embed.hook = *hook;
  }
  if (!GetHookPointInfo(embed.hook).per_layer) {
    if (proto.has_layer()) {
      violations.Add("layer", "cannot be set: the hook has no layer");
    }
  } else {
    constexpr int32_t kLastLayer = -1;
    embed.layer = CheckLayer(proto.has_layer() ? proto.layer() : kLastLayer,
                             "layer", context, violations)
                      .value_or(0);
  }
  embed.width = WidthOf(embed.hook, context);
}

std::vector<int32_t> ResolveInput(const v1::EmbedInput& input,
                                  const std::string& field,
                                  const EncodeOptions& options,
                                  const ServingContext& context,
                                  Violations& violations) {
  const size_t before = violations.count();
  std::vector<int32_t> ids;
  switch (input.input_case()) {
    case v1::EmbedInput::kText:
      ids = EncodeText(input.text(), options, field + ".text", context,
                       violations);
      break;
    case v1::EmbedInput::kTokens:
      ids =
          CheckTokenIds(input.tokens(), field + ".tokens", context, violations);
      break;
    case v1::EmbedInput::INPUT_NOT_SET:
      break;
  }
  if (ids.empty() && violations.count() == before) {
    violations.Add(field, "must not be empty; has 0 tokens");
  }
  return ids;
}

Request MakeRequest(std::vector<int32_t> prompt, const ResolvedEmbed& embed) {
  Request request;
  SequenceOptions& sequence = request.sequence;
  sequence.prompt = std::move(prompt);
  sequence.sampling.temperature = 0;
  sequence.prefix_salt = 0;
  sequence.capture.hooks = {{.hook = embed.hook, .layers = {embed.layer}}};
  PhaseRows& rows = sequence.capture.rows.prompt;
  rows.all = embed.pooling == Pooling::kMean;
  rows.last = embed.pooling == Pooling::kLast;
  return request;
}

Pooling ResolvePooling(v1::Pooling pooling, Violations& violations) {
  if (pooling == v1::POOLING_LAST) return Pooling::kLast;
  if (pooling != v1::POOLING_MEAN && pooling != v1::POOLING_UNSPECIFIED) {
    violations.Add("pooling",
                   absl::StrCat("must be POOLING_MEAN or POOLING_LAST; is ",
                                static_cast<int>(pooling)));
  }
  return Pooling::kMean;
}

}  // namespace

absl::StatusOr<ResolvedEmbed> ResolveEmbed(const v1::EmbedRequest& proto,
                                           const ServingContext& context) {
  RETURN_IF_ERROR(CheckModelName(proto.model(), context));
  Violations violations;
  ResolvedEmbed embed{.normalize = proto.normalize()};
  embed.pooling = ResolvePooling(proto.pooling(), violations);
  ResolveHook(proto, context, embed, violations);
  if (proto.inputs().empty() || proto.inputs_size() > kMaxInputs) {
    violations.Add("inputs", absl::StrCat("must be from 1 to ", kMaxInputs,
                                          "; are ", proto.inputs_size()));
    return violations.ToStatus();
  }
  EncodeOptions options{.parse_special = proto.parse_special()};
  if (proto.has_add_special_tokens()) {
    options.add_special_tokens = proto.add_special_tokens();
  }
  for (int i = 0; i < proto.inputs_size(); ++i) {
    const std::string field = Indexed("inputs", i);
    Request request = MakeRequest(
        ResolveInput(proto.inputs(i), field, options, context, violations),
        embed);
    Violations limits;
    ResolveContext(proto.context_extension(), /*max_tokens=*/0, context,
                   request, limits);
    // The extension is the same for every input: name its faults once.
    for (const FieldViolation& violation : limits.list()) {
      if (violation.field == "prompt") {
        violations.Add(field, violation.description);
      } else if (i == 0) {
        violations.Add(violation.field, violation.description);
      }
    }
    embed.requests.push_back(std::move(request));
  }
  RETURN_IF_ERROR(violations.ToStatus());
  for (const Request& request : embed.requests) {
    RETURN_IF_ERROR(CheckFitsKvCache(request, context.kv_cache_rows));
  }
  RETURN_IF_ERROR(CheckReplySize(
      proto.inputs_size() * embed.width * static_cast<int64_t>(sizeof(float)),
      "send fewer inputs"));
  return embed;
}

v1::EmbedResponse MakeEmbedResponse(
    const ResolvedEmbed& embed,
    const std::vector<std::vector<float>>& vectors) {
  v1::EmbedResponse response;
  std::string& data = *response.mutable_data();
  for (size_t i = 0; i < vectors.size(); ++i) {
    data.append(reinterpret_cast<const char*>(vectors[i].data()),
                vectors[i].size() * sizeof(float));
    response.add_token_counts(
        static_cast<uint32_t>(embed.requests[i].sequence.prompt.size()));
  }
  response.set_width(static_cast<uint32_t>(embed.width));
  response.set_hook(ToProto(embed.hook));
  if (embed.layer >= 0) response.set_layer(static_cast<uint32_t>(embed.layer));
  return response;
}

}  // namespace headrace
