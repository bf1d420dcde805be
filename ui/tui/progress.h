/* How far loading or reading a prompt has come, and when it will be done.  Plain value; the caller gives the time.
 *
 * The bar never goes back.  The time left is estimated from the rate of the last chunks, since later chunks of a prompt are slower; it is rounded up,
 * and shown after two chunks.  It does not grow; if the estimate does, the text says that it takes longer. */
#ifndef Q35_UI_TUI_PROGRESS_H
#define Q35_UI_TUI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ui/tui/cells.h"

enum { PROGRESS_CHUNKS = 8 };

struct progress {
    size_t done, total, cached;                         /* cached: the part of `done` that was in the cache */
    struct { int64_t ms; size_t done; } chunk[PROGRESS_CHUNKS];         /* [i % PROGRESS_CHUNKS] the last chunks */
    int     n_chunks;
    int64_t end_ms;             /* the time of the end that was shown; 0: none was shown yet */
    bool    longer;             /* it will take longer than was shown */
};

void   progress_start(struct progress *p, int64_t ms);
void   progress_add(struct progress *p, int64_t ms, size_t done, size_t total, size_t cached);
double progress_rate(const struct progress *p);         /* per second, over the last chunks; 0: not known yet */
int    progress_left_s(const struct progress *p, int64_t ms);   /* whole seconds, rounded up; -1: not known yet */
int    progress_percent(const struct progress *p);      /* 0..100, 100 only when it is done; -1: total is not known */

/* Append parts as text: "[====####----]" of so many columns; "1.2 of 4.5 GB"; "92.1 MB/s", nothing while it is not known; "about 7 s left", after a
 * comma unless `out` is empty. */
void progress_bar(struct buf *out, const struct progress *p, int columns);
void progress_bytes(struct buf *out, const struct progress *p);
void progress_bytes_s(struct buf *out, const struct progress *p);
void progress_left(struct buf *out, const struct progress *p, int64_t ms);

/* Draw two rows (one if the area has no more): the bar, with '=' for what was cached, '#' for what was done, '-' for the rest, and figures beside it:
 * tokens of a prompt, bytes of weights. */
enum { PROGRESS_ROWS = 2 };
void progress_draw_prompt(const struct progress *p, int64_t ms, struct cells *c, struct area a);
void progress_draw_load(const struct progress *p, int64_t ms, struct cells *c, struct area a);

#endif
