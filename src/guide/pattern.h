/* Regular expressions of ECMA-262 as terms over UTF-8.  Not accepted: \b, \B, look-behind, back references, \p{...}, and look-ahead but at the
 * beginning of a part that reaches to the end of the text. */
#pragma once

#include "base/err.h"
#include "guide/term.h"

/* Stores the texts that match; `whole`: from beginning to end, otherwise somewhere, as JSON schema has it.  The sentence of a failure
 * says why the pattern cannot be enforced: "a\b" has a word boundary.  It does not name the place. */
bool pattern_term(struct terms *t, struct text pattern, bool whole, uint32_t *term, struct err *e);
