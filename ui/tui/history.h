/* The history of typed messages, shared by all sessions and both front ends: a file of one JSON string per line that only the user can read.
 *
 * Several programs may write the file at once; each line is appended under a lock.  Lines that are no JSON strings are skipped and stay.  If the file
 * has more than twice `size` lines when it is opened or closed, only the last `size` are kept.  If it cannot be read or written, that is said once
 * (err_warn), a file that cannot be read is left alone, and the history is kept in memory. */
#ifndef Q35_UI_TUI_HISTORY_H
#define Q35_UI_TUI_HISTORY_H

#include <stdbool.h>

struct history;

struct history *history_open(const char *path, int size);       /* path NULL: in memory only; size: entries that are kept, 0: none */
void history_close(struct history *h);
int  history_n(const struct history *h);
const char *history_at(const struct history *h, int i);         /* from the oldest, 0, on */
/* Adds an entry, unless it begins with a blank or equals the newest one.  Entries above 256 kB are not written to the file. */
void history_add(struct history *h, const char *text);
/* Walk to the next older and newer entry.  The first call of a walk keeps `draft`, with which the way back ends.  NULL at the ends.  Valid until the
 * next call, except history_search(). */
const char *history_older(struct history *h, const char *draft);
const char *history_newer(struct history *h);
bool history_walks(const struct history *h);                    /* an older entry was shown last */
void history_rest(struct history *h);                           /* the next walk starts at the newest */
/* The i-th newest entry that contains `what`, from 0; equal entries count once.  NULL: there is none.  Case counts only if `what` has capitals. */
const char *history_search(const struct history *h, const char *what, int i);

#endif
