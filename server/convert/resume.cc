#include "server/convert/resume.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/convert/enums.h"
#include "server/convert/error_details.h"
#include "server/convert/sampling.h"
#include "server/vectors/content_hash.h"

namespace headrace {

namespace {

// More than choices, hooks, layers and heads need.
constexpr int kMaxReceivedRows = 1 << 16;

// One order of a map's entries.
std::string Serialize(const v1::GenerateRequest& proto) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  proto.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

// Why the request's stream depends on more than its bits; empty when not.
std::string ClockedBy(const v1::GenerateRequest& proto,
                      const Request& request) {
  if (request.stop.time_limit.has_value()) return "stop.time_limit";
  if (request.delivery.policy == SlowReaderPolicy::kDropWithGaps) {
    return "capture.policy DROP_WITH_GAPS";
  }
  if (request.sequence.capture.leaves_out_cached) {
    return "capture.cached_rows LEAVE_OUT";
  }
  if (request.sequence.sampling.temperature > 0 &&
      !proto.sampling().has_seed()) {
    return "a random seed: set sampling.seed to that of the Header";
  }
  return "";
}

void ResolveRows(const v1::ResumeCursor& proto, const Request& request,
                 StreamCursor& cursor, Violations& violations) {
  if (proto.rows_size() > kMaxReceivedRows) {
    violations.Add("resume.rows",
                   absl::StrCat("must be at most ", kMaxReceivedRows, "; are ",
                                proto.rows_size()));
    return;
  }
  for (int i = 0; i < proto.rows_size(); ++i) {
    const v1::ReceivedRows& rows = proto.rows(i);
    const auto hook = FromProto(rows.hook());
    if (!hook.has_value()) {
      violations.Add(Indexed("resume.rows", i) + ".hook",
                     absl::StrCat("must name a hook of the model; is ",
                                  static_cast<int>(rows.hook())));
      continue;
    }
    const auto or_none = [](bool has, uint32_t value) {
      return has ? static_cast<int32_t>(value) : -1;
    };
    cursor.rows[{.choice = static_cast<int32_t>(rows.choice()),
                 .derived = or_none(rows.has_derived(), rows.derived()),
                 .hook = *hook,
                 .layer = or_none(rows.has_layer(), rows.layer()),
                 .head = or_none(rows.has_head(), rows.head())}] +=
        static_cast<int64_t>(rows.rows());
  }
  if (proto.tokens_size() > request.num_choices) {
    violations.Add(
        "resume.tokens",
        absl::StrCat("must be at most one per choice, ", request.num_choices,
                     "; are ", proto.tokens_size()));
  }
  cursor.tokens.assign(proto.tokens().begin(), proto.tokens().end());
  cursor.prompt_logprobs = proto.prompt_logprobs();
}

}  // namespace

std::string ReplayId(const v1::GenerateRequest& proto, const Request& request,
                     const ServingContext& context) {
  v1::GenerateRequest same = proto;
  same.clear_resume();
  same.clear_model();
  same.clear_priority();
  same.clear_client_request_id();
  // Texts and chats are what they became; they may have looked at the clock.
  same.clear_add_special_tokens();
  same.clear_parse_special();
  same.mutable_tokens()->mutable_ids()->Assign(request.sequence.prompt.begin(),
                                               request.sequence.prompt.end());
  *same.mutable_sampling() =
      ToProto(request.sequence.sampling, request.num_choices);
  if (request.sequence.sampling.temperature == 0) {
    same.mutable_sampling()->clear_seed();  // nothing is drawn
  }
  const ModelInfo& model = context.engine->model();
  ContentHash hash;
  for (const std::string& part :
       {Serialize(same), model.weights_sha256, context.build, model.isa,
        absl::StrCat(static_cast<int>(model.numerics)),
        absl::StrCat(static_cast<int>(model.kv_cache_dtype)),
        absl::StrCat(request.stop.max_tokens),
        absl::StrCat(request.sequence.rope ? request.sequence.rope->hash
                                           : 0)}) {
    hash.Add(absl::StrCat(part.size(), ":"));
    hash.Add(part);
  }
  return hash.Finish();
}

void ResolveResume(const v1::GenerateRequest& proto,
                   const ServingContext& context, Request& request,
                   Violations& violations) {
  const v1::ResumeCursor& resume = proto.resume();
  const std::string clock = ClockedBy(proto, request);
  if (!clock.empty()) {
    violations.Add("resume",
                   "cannot continue a stream that depends on " + clock);
    return;
  }
  if (violations.empty() &&
      resume.replay_id() != ReplayId(proto, request, context)) {
    violations.Add("resume.replay_id",
                   absl::StrCat("must be that of this request on this server; "
                                "is \"",
                                Shortened(resume.replay_id(), 80),
                                "\": the request, the model or the build is "
                                "another"));
  }
  ResolveRows(resume, request, request.resume, violations);
}

}  // namespace headrace
