/* Pull reader over JSON text, for the two tables that make a tokenizer.json large: half a million strings take 0.6 s as a
 * tree of objects and 0.1 s this way.  Everything else in the project reads JSON with jansson. */
#ifndef Q35_TEXT_JSCAN_H
#define Q35_TEXT_JSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Reads p .. end.  The caller sets both, keeps the text alive and frees `unescaped`. */
struct jscan {
    const char *p, *end;
    struct buf  unescaped;
};

/* Each skips white space first and returns false, having moved nowhere useful, when something else stands there. */
bool jscan_char(struct jscan *j, char c);
/* Valid until the next call; not checked for UTF-8. */
bool jscan_string(struct jscan *j, const char **s, size_t *n);
bool jscan_int(struct jscan *j, int64_t *v);
/* Steps over one value.  Brackets are counted, not matched: who cares what is inside must read it. */
bool jscan_skip(struct jscan *j);
void jscan_space(struct jscan *j);

#endif
