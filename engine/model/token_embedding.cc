#include "engine/model/token_embedding.h"

#include "engine/tensor/block_formats.h"

namespace headrace {

void TokenEmbedding::Read(int32_t token, std::span<float> row) {
  DequantizeRow(table_, token, row);
  if (++rows_read_ < kMaxRows) return;
  rows_read_ = 0;
  release_pages_();
}

}  // namespace headrace
