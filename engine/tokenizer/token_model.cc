#include "engine/tokenizer/token_model.h"

namespace headrace {

bool OnlyLeads(std::string_view mark, std::string_view piece) {
  while (piece.starts_with(mark)) piece.remove_prefix(mark.size());
  return piece.find(mark) == std::string_view::npos;
}

}  // namespace headrace
