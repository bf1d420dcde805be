/* The code blocks of an answer. */
#ifndef Q35_UI_CODE_H
#define Q35_UI_CODE_H

#include <stdbool.h>

#include "base/buf.h"

/* Appends their text, without fences, with an empty line between two.  False: there is none. */
bool code_blocks(const struct buf *answer, struct buf *out);

#endif
