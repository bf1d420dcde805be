#include "ui/tui/rate.h"

#include <stdbool.h>

/* Slots that were passed over since the newest one are empty. */
static void advance(struct rate *r, int64_t slot)
{
    if (slot - r->slot >= RATE_SLOTS)
        r->slot = slot - RATE_SLOTS;
    while (r->slot < slot)
        r->n[++r->slot % RATE_SLOTS] = 0;
}

void rate_add(struct rate *r, int64_t ms, int n)
{
    int64_t slot = ms / RATE_SLOT_MS;
    bool idle = r->first_ms == 0 || slot - r->slot >= RATE_SLOTS;
    advance(r, slot);
    if (idle)
        r->first_ms = ms ? ms : 1;      /* the first ones took a time that nobody measured: they do not count */
    else
        r->n[r->slot % RATE_SLOTS] += n;
}

double rate_now(const struct rate *r, int64_t ms)
{
    int64_t window = RATE_SLOTS * RATE_SLOT_MS, since = ms - r->first_ms, oldest = ms / RATE_SLOT_MS - RATE_SLOTS + 1;
    long n = 0;
    for (int64_t s = r->slot; s > r->slot - RATE_SLOTS && s >= oldest && s >= 0; s--)
        n += r->n[s % RATE_SLOTS];
    if (!r->first_ms || !n || since < RATE_SLOT_MS * 2)
        return 0;
    /* the newest slot is not over yet */
    double over = (double)(window - RATE_SLOT_MS + ms % RATE_SLOT_MS);
    return 1000.0 * (double)n / (since < over ? (double)since : over);
}
