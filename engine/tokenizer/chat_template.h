// Chat templates: a sandboxed subset of Jinja2 that renders what transformers
// renders. No I/O, no attribute escape; bounded steps and output.
#ifndef HEADRACE_ENGINE_TOKENIZER_CHAT_TEMPLATE_H_
#define HEADRACE_ENGINE_TOKENIZER_CHAT_TEMPLATE_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "engine/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"

namespace headrace {

// A rendered conversation. Text that came from messages is marked, so that it
// can never turn into control tokens; what the template itself wrote may.
struct RenderedChat {
  std::vector<TextSegment> segments;  // parse_special: written by the template
  std::string text() const;           // the concatenation
};

struct ChatInput {
  // [{"role": ..., "content": ..., ...}], as OpenAI and transformers have it.
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools;            // null when there are none
  nlohmann::ordered_json template_kwargs;  // object; extra variables
  bool add_generation_prompt = true;
  // End inside the last message, which must be the assistant's.
  bool continue_final_message = false;
  // What strftime_now() shows; the machine's local time when absent.
  std::optional<absl::CivilSecond> local_time;
};

// Immutable, thread-safe.
class ChatTemplate {
 public:
  // Errors: INVALID_ARGUMENT naming the construct that is not supported and
  // its line.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(
      std::string source, std::string bos_token, std::string eos_token);
  ~ChatTemplate();

  // Errors: INVALID_ARGUMENT with the template's own words when it refuses
  // (raise_exception), or naming what is undefined, unknown or too large.
  absl::StatusOr<RenderedChat> Render(const ChatInput& input) const;

  std::string_view source() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_CHAT_TEMPLATE_H_
