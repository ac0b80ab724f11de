// What tokens are, for people.
#ifndef HEADRACE_CLIENT_CLI_TOKEN_PIECES_H_
#define HEADRACE_CLIENT_CLI_TOKEN_PIECES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace headrace::cli {

// The bytes of a token, as the server's tokenizer has it.
absl::StatusOr<std::string> PieceOfToken(client::Client& client,
                                         const std::string& model, uint32_t id);

// UTF-8; bytes that are none by themselves, as half a character is, become
// U+FFFD.
std::string ReadableText(const std::string& piece);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_TOKEN_PIECES_H_
