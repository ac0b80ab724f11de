#include "server/convert/prompt.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/convert/chat.h"

namespace headrace {

namespace {

constexpr char kNoTokenizer[] =
    "needs a tokenizer, and the model's folder has none: send token ids";

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

// The model's template, or the request's own, kept in `own`.
const ChatTemplate* FindTemplate(const v1::Chat& chat,
                                 const ServingContext& context,
                                 std::unique_ptr<ChatTemplate>& own,
                                 Violations& violations) {
  if (chat.template_().empty()) {
    const ChatTemplate* model_template = context.engine->chat_template();
    if (model_template == nullptr) {
      violations.Add("chat.template",
                     "is missing, and the model's files carry no template");
    }
    return model_template;
  }
  const Tokenizer& tokenizer = *context.engine->tokenizer();
  const auto text_of = [&tokenizer](std::optional<int32_t> id) {
    return std::string(tokenizer.TokenBytes(id.value_or(-1)));
  };
  const std::vector<int32_t>& ends = tokenizer.end_token_ids();
  absl::StatusOr<std::unique_ptr<ChatTemplate>> parsed =
      ChatTemplate::Parse(chat.template_(), text_of(tokenizer.bos_token_id()),
                          ends.empty() ? "" : text_of(ends.front()));
  if (!parsed.ok()) {
    violations.Add("chat.template", MessageOf(parsed.status()));
    return nullptr;
  }
  own = *std::move(parsed);
  return own.get();
}

}  // namespace

std::vector<int32_t> EncodeText(std::string_view text,
                                const EncodeOptions& options,
                                const std::string& field,
                                const ServingContext& context,
                                Violations& violations) {
  const Tokenizer* tokenizer = context.engine->tokenizer();
  if (tokenizer == nullptr) {
    violations.Add(field, kNoTokenizer);
    return {};
  }
  return tokenizer->Encode(text, options);
}

std::vector<int32_t> CheckTokenIds(const v1::TokenIds& tokens,
                                   const std::string& field,
                                   const ServingContext& context,
                                   Violations& violations) {
  std::vector<int32_t> ids;
  ids.reserve(tokens.ids_size());
  const std::string ids_field = field + ".ids";
  for (int i = 0; i < tokens.ids_size(); ++i) {
    if (violations.CheckTokenId(ids_field, i, tokens.ids(i),
                                context.vocab_size())) {
      ids.push_back(static_cast<int32_t>(tokens.ids(i)));
    }
  }
  return ids;
}

std::optional<RenderedChat> RenderChat(const v1::Chat& chat,
                                       const ServingContext& context,
                                       Violations& violations) {
  if (context.engine->tokenizer() == nullptr) {
    violations.Add("chat", kNoTokenizer);
    return std::nullopt;
  }
  if (chat.messages().empty()) {
    violations.Add("chat.messages", "must not be empty: the prompt has none");
    return std::nullopt;
  }
  const size_t before = violations.count();
  const ChatInput input = ToChatInput(chat, violations);
  std::unique_ptr<ChatTemplate> own;
  const ChatTemplate* chat_template =
      FindTemplate(chat, context, own, violations);
  if (violations.count() != before) return std::nullopt;
  absl::StatusOr<RenderedChat> rendered = chat_template->Render(input);
  if (!rendered.ok()) {
    violations.Add("chat.messages", MessageOf(rendered.status()));
    return std::nullopt;
  }
  return *std::move(rendered);
}

std::vector<int32_t> EncodeChat(const RenderedChat& chat,
                                const ServingContext& context) {
  return context.engine->tokenizer()->EncodeSegments(
      chat.segments, /*add_special_tokens=*/false);
}

std::vector<int32_t> ResolvePrompt(const v1::GenerateRequest& request,
                                   const ServingContext& context,
                                   Violations& violations) {
  using Prompt = v1::GenerateRequest::PromptCase;
  const size_t before = violations.count();
  std::vector<int32_t> ids;
  switch (request.prompt_case()) {
    case Prompt::PROMPT_NOT_SET:
      violations.Add("prompt", "is missing: send text, tokens or chat");
      return {};
    case Prompt::kText: {
      EncodeOptions options{.parse_special = request.parse_special()};
      if (request.has_add_special_tokens()) {
        options.add_special_tokens = request.add_special_tokens();
      }
      ids = EncodeText(request.text(), options, "text", context, violations);
      break;
    }
    case Prompt::kTokens:
      ids = CheckTokenIds(request.tokens(), "tokens", context, violations);
      break;
    case Prompt::kChat:
      if (request.chat().messages().empty()) break;  // an empty prompt
      if (const auto chat = RenderChat(request.chat(), context, violations)) {
        ids = EncodeChat(*chat, context);
      }
      break;
  }
  if (violations.count() != before) return {};
  if (ids.empty()) violations.Add("prompt", "must not be empty; has 0 tokens");
  return ids;
}

}  // namespace headrace
