/* What the parts of a struct fetch share: who is asked, how long to wait, connections that are free. */
#ifndef Q35_FETCH_HUB_H
#define Q35_FETCH_HUB_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "fetch/fetch.h"
#include "fetch/http.h"

struct fetch {
    struct fetch_options o;
    struct buf  endpoint;               /* without a slash at its end */
    struct buf  token;                  /* empty: none */
    bool        offline;
    atomic_bool stop;
    pthread_mutex_t lock;               /* over what follows */
    pthread_cond_t  woken;              /* by fetch_stop() */
    struct http   **idle;               /* connections that nobody uses */
    int             n_idle, cap_idle;
    int64_t         not_before_ns;      /* the hub asked for no request before */
    uint32_t        jitter;             /* state of a small random generator */
};

struct http *hub_take(struct fetch *f);
void         hub_give(struct fetch *f, struct http *h);

bool hub_is_ours(const struct fetch *f, const char *url);       /* the hub itself: gets the token */
/* Waits for as long as the hub asked for.  False when stopped. */
bool hub_wait(struct fetch *f, struct err *e);
/* Notes what an answer says of limits. */
void hub_note_limits(struct fetch *f, const struct http_reply *r);
/* Waits before the next try; `failures` of them brought nothing so far.  False when stopped. */
bool hub_back_off(struct fetch *f, int failures, struct err *e);
/* One sentence about an answer that is none; true if asking again may help. */
bool hub_refusal(const struct fetch *f, const char *url, const struct http_reply *r, const char *what, struct err *e);

#endif
