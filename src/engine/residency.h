/* Which conversation gives up its place in memory when another one needs it: the one that is cheapest to have back.
 *
 *   price = tokens / (READ if it has a file) / 2 ^ (idle seconds / HALF_S)
 *
 * in tokens to compute again.  Rows that come back from a file cost little, and a conversation that nobody has continued for long is less likely to
 * be.  Two rules come before the price:
 *
 *   side place     of three places or more, long conversations take all but one.  Titles, counts and other short requests always find that one, or
 *                  one that is as cheap, and wait while it is in use (residency_waits).
 *   shares         the only long conversation of a client goes last, when others need its place; its own client may replace it.
 *
 * A conversation that grows long where it is stays there, so more of them than that are possible; then the cheapest one goes.
 * Pure functions; see tests/unit/test_residency.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    RESIDENCY_LONG = 2048,              /* tokens: seconds of a prompt, from here on */
    RESIDENCY_READ = 16,                /* reading the rows of a token takes less than this part of the time to compute them */
    RESIDENCY_HALF_S = 600,             /* seconds in which the price falls by half */
};

struct seat {
    int      n;                         /* tokens of the conversation; 0: the place is empty */
    bool     busy;                      /* it cannot be taken */
    bool     kept;                      /* the conversation has a file */
    uint32_t client;                    /* whose it is */
    double   idle_s;                    /* since it was used last */
};

/* The one that needs a place. */
struct newcomer {
    int      n;                         /* tokens of the prompt */
    uint32_t client;
};

double residency_price(const struct seat *s);
/* Returns the index of the place to take, of n_all > 0; -1: all are busy. */
int  residency_choose(const struct seat *all, int n_all, const struct newcomer *who);
/* True if the prompt is short and should wait: only a long conversation's place could be taken now, and a short one is under way whose place can be
 * taken soon. */
bool residency_waits(const struct seat *all, int n_all, const struct newcomer *who);
