#include "server/convert/tokenize.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/detokenizer.h"
#include "server/convert/prompt.h"
#include "server/convert/violations.h"

namespace headrace {

namespace {

constexpr int kMaxTexts = 1024;
constexpr char kSplitText[] = "split the text over several calls";

// Bytes of a varint.
int64_t VarintBytes(uint64_t value) {
  int64_t bytes = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++bytes;
  }
  return bytes;
}

// Bytes of `ids` as packed varints, and of their pieces with tag and length.
int64_t EncodedBytes(const std::vector<int32_t>& ids) {
  int64_t bytes = 0;
  for (const int32_t id : ids) bytes += VarintBytes(static_cast<uint64_t>(id));
  return bytes;
}

int64_t PieceBytes(const std::vector<int32_t>& ids,
                   const Tokenizer& tokenizer) {
  int64_t bytes = 0;
  for (const int32_t id : ids) {
    const size_t size = tokenizer.TokenBytes(id).size();
    bytes += 1 + VarintBytes(size) + static_cast<int64_t>(size);
  }
  return bytes;
}

v1::Tokenized ToTokenized(const std::vector<int32_t>& ids,
                          const Tokenizer& tokenizer) {
  v1::Tokenized tokenized;
  tokenized.mutable_ids()->Assign(ids.begin(), ids.end());
  for (const int32_t id : ids) {
    tokenized.add_pieces(std::string(tokenizer.TokenBytes(id)));
  }
  return tokenized;
}

}  // namespace

absl::StatusOr<v1::TokenizeResponse> HandleTokenize(
    const v1::TokenizeRequest& proto, const ServingContext& context) {
  RETURN_IF_ERROR(CheckModelName(proto.model(), context));
  Violations violations;
  if (proto.texts().empty() || proto.texts_size() > kMaxTexts) {
    violations.Add("texts", absl::StrCat("must be from 1 to ", kMaxTexts,
                                         "; are ", proto.texts_size()));
  }
  EncodeOptions options{.parse_special = proto.parse_special()};
  if (proto.has_add_special_tokens()) {
    options.add_special_tokens = proto.add_special_tokens();
  }
  std::vector<std::vector<int32_t>> results;
  int64_t bytes = 0;
  for (int i = 0; i < proto.texts_size() && violations.empty(); ++i) {
    results.push_back(EncodeText(proto.texts(i), options, Indexed("texts", i),
                                 context, violations));
    if (!violations.empty()) break;
    bytes += EncodedBytes(results.back()) +
             PieceBytes(results.back(), *context.engine->tokenizer());
  }
  RETURN_IF_ERROR(violations.ToStatus());
  RETURN_IF_ERROR(CheckReplySize(bytes, kSplitText));
  v1::TokenizeResponse response;
  for (const std::vector<int32_t>& ids : results) {
    *response.add_results() = ToTokenized(ids, *context.engine->tokenizer());
  }
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> HandleDetokenize(
    const v1::DetokenizeRequest& proto, const ServingContext& context) {
  RETURN_IF_ERROR(CheckModelName(proto.model(), context));
  Violations violations;
  const Tokenizer* tokenizer = context.engine->tokenizer();
  if (tokenizer == nullptr) {
    violations.Add("model", "has no tokenizer");
    return violations.ToStatus();
  }
  std::vector<int32_t> ids;
  ids.reserve(proto.ids_size());
  int64_t bytes = 0;
  for (int i = 0; i < proto.ids_size(); ++i) {
    if (!violations.CheckTokenId("ids", i, proto.ids(i),
                                 context.vocab_size())) {
      continue;
    }
    ids.push_back(static_cast<int32_t>(proto.ids(i)));
    bytes += static_cast<int64_t>(tokenizer->TokenBytes(ids.back()).size());
  }
  RETURN_IF_ERROR(violations.ToStatus());
  // Bytes and text.
  RETURN_IF_ERROR(
      CheckReplySize(2 * bytes, "split the ids over several calls"));
  v1::DetokenizeResponse response;
  std::string data = tokenizer->Decode(ids, proto.skip_special_tokens());
  response.set_text(ToValidUtf8(data));
  response.set_data(std::move(data));
  return response;
}

absl::StatusOr<v1::ApplyChatTemplateResponse> HandleApplyChatTemplate(
    const v1::ApplyChatTemplateRequest& proto, const ServingContext& context) {
  RETURN_IF_ERROR(CheckModelName(proto.model(), context));
  Violations violations;
  const std::optional<RenderedChat> chat =
      RenderChat(proto.chat(), context, violations);
  RETURN_IF_ERROR(violations.ToStatus());
  const std::vector<int32_t> ids = EncodeChat(*chat, context);
  std::string text = ToValidUtf8(chat->text());
  RETURN_IF_ERROR(CheckReplySize(
      static_cast<int64_t>(text.size()) + EncodedBytes(ids), kSplitText));
  v1::ApplyChatTemplateResponse response;
  response.set_text(std::move(text));
  response.mutable_ids()->Assign(ids.begin(), ids.end());
  return response;
}

}  // namespace headrace
