/* A pull parser for the two large tables of a tokenizer.json: half a million strings take 0.1 s, as a tree of objects they take
 * 0.6 s.  All other JSON in the project is read with jansson. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Reads p .. end.  The caller sets both, keeps the text alive and frees `unescaped`. */
struct jscan {
    const char *p, *end;
    struct buf  unescaped;
};

/* Each function skips white space first.  False if something else follows; the position is then undefined. */
bool jscan_char(struct jscan *j, char c);
/* The string is valid until the next call and may be invalid UTF-8. */
bool jscan_string(struct jscan *j, const char **s, size_t *n);
bool jscan_int(struct jscan *j, int64_t *v);
/* Skips one value.  Brackets are counted, not matched, so the inside of the value is not checked. */
bool jscan_skip(struct jscan *j);
void jscan_space(struct jscan *j);
