#include "server/vectors/content_hash.h"

#include <algorithm>
#include <array>

#include "absl/log/check.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace headrace {

ContentHash::ContentHash() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ != nullptr);
  CHECK_EQ(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr), 1);
}

void ContentHash::Add(std::string_view bytes) {
  CHECK_EQ(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()), 1);
}

std::string ContentHash::Finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  CHECK_EQ(EVP_DigestFinal_ex(context_.get(), digest.data(), &size), 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

bool IsContentHash(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace headrace
