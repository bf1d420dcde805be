/* Moments for people to read, in local time.  A moment is a Unix time; each function appends, and appends nothing for 0, which means that the
 * moment is not known. */
#ifndef Q35_BASE_WHEN_H
#define Q35_BASE_WHEN_H

#include <stdint.h>

#include "base/buf.h"

void when_clock(struct buf *out, int64_t then_s, int64_t now_s);        /* "14:02"; on another day than now_s as when_minute() */
void when_minute(struct buf *out, int64_t then_s);                      /* "2026-01-31 14:02" */
/* Appends the age of a moment: "just now", "7 min ago", "today 14:02", "yesterday 14:02", within a week "Mon 14:02", else "2026-01-31". */
void when_ago(struct buf *out, int64_t then_s, int64_t now_s);

#endif
