/* What was typed before, over all sessions and in both front ends: one JSON string per line, appended under a lock, for the owner only.
 *
 * Several programs may write the same file at once.  Lines that are not JSON strings are skipped and stay; when the file
 * has more than twice `size` lines as it is opened or closed, it is replaced by its last `size`.  A file that cannot be read is left alone; that, and
 * when one cannot be written, is said once (log_warn), and history lives in memory. */
#ifndef Q35_UI_TUI_HISTORY_H
#define Q35_UI_TUI_HISTORY_H

#include <stdbool.h>

struct history;

struct history *history_open(const char *path, int size);       /* path NULL: in memory only; size: entries that are kept, >= 1 */
void history_close(struct history *h);
int  history_n(const struct history *h);
const char *history_at(const struct history *h, int i);         /* from the oldest, 0, on */
/* Not what begins with a blank, nor the same twice.  What is longer than 256 kB is not written. */
void history_add(struct history *h, const char *text);
/* Walking: `draft` is kept for the way back, which ends with it.  NULL at the ends.  Valid until the next call but
 * history_search(). */
const char *history_older(struct history *h, const char *draft);
const char *history_newer(struct history *h);
void history_rest(struct history *h);                           /* the next walk starts at the newest */
/* The i-th newest entry that contains `what`, from 0, each text once; NULL: there is none.  Case counts only if `what` has
 * capitals. */
const char *history_search(const struct history *h, const char *what, int i);

#endif
