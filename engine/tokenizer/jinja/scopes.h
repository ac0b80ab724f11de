// jinja2 decides at compile time which names a region sets before it reads
// them; those are undefined until set, even when the request has a variable of
// that name. This finds them.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_SCOPES_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_SCOPES_H_

#include "engine/tokenizer/jinja/syntax_tree.h"

namespace headrace {

// Fills every Scope of the tree. Source: jinja2 3.1.6, idtracking.py.
void AnalyzeScopes(SyntaxTree& tree);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_SCOPES_H_
