#include "engine/tokenizer/chat_template.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/jinja/callable.h"
#include "engine/tokenizer/jinja/interpreter.h"
#include "engine/tokenizer/jinja/json_text.h"
#include "engine/tokenizer/jinja/operators.h"
#include "engine/tokenizer/jinja/parser.h"
#include "engine/tokenizer/jinja/plain_text.h"
#include "engine/tokenizer/jinja/syntax_tree.h"
#include "engine/tokenizer/jinja/unicode.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr JinjaLimits kLimits;

// Variables that the request may not set under another name.
bool IsReserved(std::string_view name) {
  return name == "messages" || name == "tools" ||
         name == "add_generation_prompt";
}

absl::Status CheckInput(const ChatInput& input) {
  if (!input.messages.is_array()) {
    return absl::InvalidArgumentError("messages is not a list");
  }
  for (size_t i = 0; i < input.messages.size(); ++i) {
    if (!input.messages[i].is_object()) {
      return absl::InvalidArgumentError(
          Concat("messages[", i, "] is not an object"));
    }
  }
  if (!input.tools.is_null() && !input.tools.is_array()) {
    return absl::InvalidArgumentError("tools is not a list");
  }
  if (!input.template_kwargs.is_null() && !input.template_kwargs.is_object()) {
    return absl::InvalidArgumentError("template_kwargs is not an object");
  }
  for (const auto& [name, value] : input.template_kwargs.items()) {
    if (!IsReserved(name)) continue;
    return absl::InvalidArgumentError(Concat(
        "template_kwargs.", name, " would hide the request's own ", name));
  }
  return absl::OkStatus();
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::ignore);
}

// The text of the last message that a continuation goes on from: its content,
// or the last part of it that has text.
absl::StatusOr<std::string*> FinalText(Json& messages) {
  if (messages.empty() ||
      messages.back().value("role", Json()) != Json("assistant")) {
    return absl::InvalidArgumentError(
        "continue_final_message needs a last message with role 'assistant'");
  }
  Json& message = messages.back();
  const auto content = message.find("content");
  if (content != message.end() && content->is_string()) {
    return &content->get_ref<std::string&>();
  }
  if (content != message.end() && content->is_array()) {
    for (size_t i = content->size(); i > 0; --i) {
      Json& part = (*content)[i - 1];
      if (part.is_object() && part.contains("text") &&
          part["text"].is_string()) {
        return &part["text"].get_ref<std::string&>();
      }
    }
  }
  return absl::InvalidArgumentError(
      "continue_final_message needs text in the last message");
}

// Where a continued conversation ends. As transformers does it
// (utils/chat_template_utils.py, 4.57): a tag behind the last message's text
// shows where the template put its end.
struct Continuation {
  std::string text;  // of the last message
  std::string tag;   // not in the request
};

absl::StatusOr<Continuation> TagFinalMessage(const ChatInput& input,
                                             Json& messages) {
  if (input.add_generation_prompt) {
    return absl::InvalidArgumentError(
        "continue_final_message and add_generation_prompt exclude each other");
  }
  ASSIGN_OR_RETURN(std::string * text, FinalText(messages));
  const std::string request =
      Concat(Dump(messages), Dump(input.tools), Dump(input.template_kwargs));
  Continuation continuation = {*text, "CONTINUE_FINAL_MESSAGE_TAG"};
  for (int i = 0; request.find(continuation.tag) != std::string::npos; ++i) {
    continuation.tag = Concat("CONTINUE_FINAL_MESSAGE_TAG_", i, "_");
  }
  text->append(Concat(continuation.tag, " "));
  return continuation;
}

absl::StatusOr<MarkedText> CutAtTag(const Continuation& continuation,
                                    const MarkedText& rendered) {
  const std::string_view bytes = rendered.bytes();
  const std::string_view text = continuation.text;
  const TextRange stripped =
      StripRight(text, StripLeft(text, {0, text.size()}));
  const size_t end = bytes.rfind(continuation.tag);
  if (end == std::string::npos ||
      FindText(bytes,
               text.substr(stripped.begin, stripped.end - stripped.begin),
               0) == std::string::npos) {
    return absl::InvalidArgumentError(
        "continue_final_message: the chat template does not keep the last "
        "message's text, so that it cannot be continued");
  }
  if (bytes.substr(end + continuation.tag.size()).starts_with(' ')) {
    return rendered.Slice(0, end);
  }
  // The template trimmed the message, so the space before the tag is what it
  // would have taken off.
  return rendered.Slice(0, StripRight(bytes, {0, end}).end);
}

RenderedChat ToSegments(const MarkedText& text) {
  RenderedChat chat;
  for (const MarkedText::Run& run : text.runs()) {
    chat.segments.push_back(
        {.text = text.bytes().substr(run.begin, run.end - run.begin),
         .parse_special = run.origin == TextOrigin::kTemplate});
  }
  return chat;
}

}  // namespace

std::string RenderedChat::text() const {
  std::string text;
  for (const TextSegment& segment : segments) text.append(segment.text);
  return text;
}

struct ChatTemplate::Impl {
  std::string source;
  std::string bos_token;
  std::string eos_token;
  SyntaxTree tree;

  absl::StatusOr<JinjaInterpreter::Context> MakeContext(
      const ChatInput& input, const Json& messages) const;
};

absl::StatusOr<JinjaInterpreter::Context> ChatTemplate::Impl::MakeContext(
    const ChatInput& input, const Json& messages) const {
  JinjaInterpreter::Context context(static_cast<size_t>(tree.names.size()));
  const auto set = [&](std::string_view name, JinjaValue value) {
    const int id = tree.names.Find(name);
    if (id >= 0) context[static_cast<size_t>(id)] = std::move(value);
  };
  // A tokenizer without such a token leaves the variable undefined.
  if (!bos_token.empty()) set("bos_token", JinjaValue::Text(bos_token));
  if (!eos_token.empty()) set("eos_token", JinjaValue::Text(eos_token));
  set("documents", JinjaValue());
  set("add_generation_prompt", JinjaValue::Bool(input.add_generation_prompt));
  ASSIGN_OR_RETURN(JinjaValue message_list, FromJson(kLimits, messages));
  set("messages", std::move(message_list));
  ASSIGN_OR_RETURN(JinjaValue tool_list, FromJson(kLimits, input.tools));
  set("tools", std::move(tool_list));
  for (const auto& [name, json] : input.template_kwargs.items()) {
    ASSIGN_OR_RETURN(JinjaValue value, FromJson(kLimits, json));
    set(name, std::move(value));
  }
  return context;
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(
    std::string source, std::string bos_token, std::string eos_token) {
  absl::StatusOr<SyntaxTree> tree = ParseTemplate(source);
  if (!tree.ok()) {
    return absl::InvalidArgumentError(
        Concat("chat template, ", std::string(tree.status().message())));
  }
  auto impl =
      std::make_unique<Impl>(Impl{std::move(source), std::move(bos_token),
                                  std::move(eos_token), *std::move(tree)});
  // The constructor is private.
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
}

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

std::string_view ChatTemplate::source() const { return impl_->source; }

absl::StatusOr<RenderedChat> ChatTemplate::Render(
    const ChatInput& input) const {
  RETURN_IF_ERROR(CheckInput(input));
  Json messages = input.messages;
  std::optional<Continuation> continuation;
  if (input.continue_final_message) {
    ASSIGN_OR_RETURN(continuation, TagFinalMessage(input, messages));
  }
  ASSIGN_OR_RETURN(JinjaInterpreter::Context context,
                   impl_->MakeContext(input, messages));
  JinjaRuntime runtime = {
      JinjaBudget(kLimits),
      input.local_time.has_value()
          ? *input.local_time
          : absl::ToCivilSecond(absl::Now(), absl::LocalTimeZone())};
  JinjaInterpreter interpreter(impl_->tree, runtime, std::move(context));
  absl::StatusOr<MarkedText> text = interpreter.Run();
  if (!text.ok()) {
    return absl::InvalidArgumentError(Concat(
        runtime.refused ? "the chat template refuses: " : "chat template, ",
        std::string(text.status().message())));
  }
  if (continuation.has_value()) {
    ASSIGN_OR_RETURN(*text, CutAtTag(*continuation, *text));
  }
  return ToSegments(*text);
}

}  // namespace headrace
