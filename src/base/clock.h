/* Time: a monotonic clock, times of day for people, waiting for results that take about as long every time, and the order of waiting requests. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

int64_t clock_ns(void);
int64_t clock_ms(void);
double  clock_ms_since(int64_t start_ns);
/* Time since the start of this thread in which it was ready to run and had no processor; 0 where the kernel does not count it. */
int64_t clock_waited_ns(void);

/* Local time.  `then_s` is a Unix time; each function appends, and appends nothing for 0, an unknown time. */
void when_clock(struct buf *out, int64_t then_s, int64_t now_s);        /* "14:02"; on another day than now_s as when_minute() */
void when_minute(struct buf *out, int64_t then_s);                      /* "2026-01-31 14:02" */
/* Appends an age: "just now", "7 min ago", "today 14:02", "yesterday 14:02", within a week "Mon 14:02", else "2026-01-31". */
void when_ago(struct buf *out, int64_t then_s, int64_t now_s);

/* Waiting for a result that takes about as long every time: sleep through most of it, then poll, since a sleep ends late.
 * Plain arithmetic; the caller has the clock.  {0} is valid: no time is known yet. */
struct patience {
    int64_t usual_ns;
};
/* How long to sleep before the next look, after waited_ns; 0: look again at once. */
int64_t patience_nap_ns(const struct patience *p, int64_t waited_ns);
/* The result arrived after waited_ns.  slept: it was already there when the nap ended, so waited_ns is an upper bound. */
void    patience_learn(struct patience *p, int64_t waited_ns, bool slept);

/* The order of waiting requests: the first one due goes first.  Where a person waits, a request is due when it arrives.  A request of a program has
 * patience and is due that much later: persons who arrive until then go before it, those who arrive afterwards do not.  So a person hardly notices
 * programs, and no program waits without end. */
enum { DUE_PATIENCE_MS = 20000 };       /* of programs: a batch hardly notices it, and an answer or two for a person fit in */

/* When a request that arrived at since_ns is due. */
static inline int64_t due_ns(int64_t since_ns, int patience_ms)
{
    return since_ns + (int64_t)patience_ms * 1000000;
}

/* The rest of the patience of a request that is due at `due`. */
static inline int due_patience_ms(int64_t due, int64_t now_ns)
{
    return due > now_ns ? (int)((due - now_ns) / 1000000) : 0;
}
