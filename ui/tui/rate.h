/* How many events came per second, over the last two seconds.  Plain value, valid as {0}; the caller gives the time. */
#ifndef Q35_UI_TUI_RATE_H
#define Q35_UI_TUI_RATE_H

#include <stdint.h>

enum { RATE_SLOTS = 20, RATE_SLOT_MS = 100 };

struct rate {
    int64_t slot;               /* the newest slot: ms / RATE_SLOT_MS */
    int64_t first_ms;           /* time of the first event */
    int     n[RATE_SLOTS];      /* [slot % RATE_SLOTS] events */
};

void   rate_add(struct rate *r, int64_t ms, int n);
double rate_now(const struct rate *r, int64_t ms);      /* per second; 0: nothing came, or the first event is too recent */

#endif
