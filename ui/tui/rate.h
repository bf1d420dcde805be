/* How many of something came per second of late.  Plain value, valid as {0}; time comes from outside. */
#ifndef Q35_UI_TUI_RATE_H
#define Q35_UI_TUI_RATE_H

#include <stdint.h>

enum { RATE_SLOTS = 20, RATE_SLOT_MS = 100 };           /* over the last 2 s */

struct rate {
    int64_t slot;               /* the newest: ms / RATE_SLOT_MS */
    int64_t first_ms;           /* when it began */
    int     n[RATE_SLOTS];      /* by slot, modulo */
};

void   rate_add(struct rate *r, int64_t ms, int n);
double rate_now(const struct rate *r, int64_t ms);      /* per second; 0: nothing came, or it began too short ago to tell */

#endif
