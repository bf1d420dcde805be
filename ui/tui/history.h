/* The history of typed messages, shared by all sessions and both front ends: a file of one JSON string per line that only the user can read.
 *
 * Several programs may write the file at once; each line is appended under a lock.  Lines that are no JSON strings are skipped and stay.  If the file
 * has more than twice `size` lines when it is opened or closed, only the last `size` are kept.  If it cannot be read or written, that is said once
 * (err_warn), a file that cannot be read is left alone, and the history is kept in memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Changed by the functions only, except `back`. */
struct history {
    char **entries;                     /* oldest first */
    int    n, size;
    char  *path;                        /* NULL: in memory only */
    int    n_lines;                     /* lines of the file, as far as known */
    size_t n_bytes;
    int    back;                        /* walking: this many entries before the end is shown; 0: at rest, set it so when a walk ends */
    char  *draft;
};

struct history *history_open(const char *path, int size);       /* path NULL: in memory only; size: entries that are kept, 0: none */
void history_close(struct history *h);
/* Adds an entry, unless it begins with a blank or equals the newest one.  Entries above 256 kB are not written to the file. */
void history_add(struct history *h, const char *text);
/* Walk to the next older and newer entry.  The first call of a walk keeps `draft`, with which the way back ends.  NULL at the ends.  Valid until the
 * next call, except history_search(). */
const char *history_older(struct history *h, const char *draft);
const char *history_newer(struct history *h);
/* The i-th newest entry that contains `what`, from 0; equal entries count once.  NULL: there is none.  Case counts only if `what` has capitals. */
const char *history_search(const struct history *h, const char *what, int i);
