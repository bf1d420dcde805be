/* A text between two markdown fences that nothing in it can close: longer than any run of backticks that it has. */
#ifndef Q35_SESSION_FENCE_H
#define Q35_SESSION_FENCE_H

#include "base/buf.h"
#include "base/text.h"

void fence_add(struct buf *out, const char *language, struct text t);   /* no line feed behind the last fence */

#endif
