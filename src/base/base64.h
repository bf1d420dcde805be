/* Bytes as text in base64 (RFC 4648, 4), as data: addresses hold them. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/text.h"

void base64_add(struct buf *out, struct text bytes);            /* appends the text, with its padding */
/* Appends the bytes.  False, and nothing is appended, if the text has another character, a wrong length or bits that are left over.  Padding may be
 * missing; white space is not skipped. */
bool base64_read(struct buf *out, struct text text);
