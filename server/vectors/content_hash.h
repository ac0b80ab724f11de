// SHA-256 of what is stored: its name.
#ifndef HEADRACE_SERVER_VECTORS_CONTENT_HASH_H_
#define HEADRACE_SERVER_VECTORS_CONTENT_HASH_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "openssl/evp.h"

namespace headrace {

// Thread-compatible.
class ContentHash {
 public:
  ContentHash();

  void Add(std::string_view bytes);
  // The object's bytes as they lie in memory, little-endian.
  template <typename T>
  void AddValues(std::span<const T> values) {
    Add({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  // Ends it: 64 lowercase hexadecimal digits.
  std::string Finish();

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

// Whether `text` is what Finish() could give.
bool IsContentHash(std::string_view text);

}  // namespace headrace

#endif  // HEADRACE_SERVER_VECTORS_CONTENT_HASH_H_
