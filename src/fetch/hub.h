/* The shared parts of a struct fetch: address of the hub, rate limits, idle connections. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "fetch/http.h"
#include "fetch/repo.h"

struct fetch {
    struct fetch_options o;
    struct buf  endpoint;               /* without a trailing slash */
    struct buf  token;                  /* empty: none */
    bool        offline;
    atomic_bool stop;
    pthread_mutex_t lock;               /* protects the members below */
    pthread_cond_t  woken;              /* by fetch_stop() */
    struct http   **idle;               /* unused connections */
    int             n_idle, cap_idle;
    int64_t         not_before_ns;      /* the hub takes no request before this time */
    int64_t         noted_ns;           /* a failure was noted at this time; 0: none */
    uint32_t        jitter;             /* state of a small random number generator */
};

struct http *hub_take(struct fetch *f);
void         hub_give(struct fetch *f, struct http *h);

bool hub_is_ours(const struct fetch *f, const char *url);       /* true for the hub itself, which gets the token */
/* Waits for the time that the hub requested.  False if stopped. */
bool hub_wait(struct fetch *f, struct err *e);
/* Records the rate limits of a reply. */
void hub_note_limits(struct fetch *f, const struct http_reply *r);
/* Waits before the next attempt, after `failures` attempts without data; `e` is the reason of the last one.  From the third on the reason
 * is noted, but not each time.  False if stopped. */
bool hub_back_off(struct fetch *f, int failures, struct err *e);
/* Describes a refusal in one sentence; true if another attempt may help. */
bool hub_refusal(const struct fetch *f, const char *url, const struct http_reply *r, const char *what, struct err *e);
