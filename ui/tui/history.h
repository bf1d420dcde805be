/* What was typed before, over all sessions: one JSON string per line, appended under a lock, for the owner only. */
#ifndef Q35_UI_TUI_HISTORY_H
#define Q35_UI_TUI_HISTORY_H

#include <stdbool.h>

struct history;

struct history *history_open(const char *path, int size);       /* path NULL: in memory only; an unreadable file is left alone */
void history_close(struct history *h);
void history_add(struct history *h, const char *text);          /* not what begins with a blank, nor the same twice */
/* Walking: `draft` is kept for the way back.  NULL at the ends. */
const char *history_older(struct history *h, const char *draft);
const char *history_newer(struct history *h);
void history_rest(struct history *h);                           /* the next walk starts at the newest */
/* The i-th newest entry that contains `what` (smart case), from 0; NULL: there is none. */
const char *history_search(const struct history *h, const char *what, int i);

#endif
