// v1.Chat to what a chat template takes.
#ifndef HEADRACE_SERVER_CONVERT_CHAT_H_
#define HEADRACE_SERVER_CONVERT_CHAT_H_

#include "engine/engine.h"
#include "headrace/v1/generation.pb.h"
#include "server/convert/violations.h"

namespace headrace {

// Checks the form of a chat; violations are below "chat".
ChatInput ToChatInput(const v1::Chat& chat, Violations& violations);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_CHAT_H_
