// HashWeights(): one number that says which weights answered.
#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/log/check.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/tensor_view.h"
#include "engine/weights/weight_source.h"

namespace headrace {

std::string HashWeights(const WeightSource& source) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
      EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  CHECK(context != nullptr);
  CHECK_EQ(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr), 1);
  for (const StoredTensor& tensor : source.tensors()) {
    const std::string head = absl::StrCat(
        tensor.name, "\n", std::string(LayoutOf(tensor.view.dtype).name), "\n",
        ShapeToString(tensor.view.shape), "\n");
    CHECK_EQ(EVP_DigestUpdate(context.get(), head.data(), head.size()), 1);
    VisitBytes(tensor, [&](std::span<const std::byte> bytes) {
      CHECK_EQ(EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()), 1);
    });
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  CHECK_EQ(EVP_DigestFinal_ex(context.get(), digest, &size), 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace headrace
