/* Requests on their way to the engine thread, and events on their way back; part of struct engine.  The owner thread adds requests, interrupts them
 * and drains the events; the engine thread takes the next piece of work and reports on it.  Every submit ends in exactly one EV_DONE. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/mailbox.h"
#include "engine/request.h"

/* A submit with copies of everything it points to; or a restore or a save, which have a path, but no serial and no EV_DONE. */
struct request {
    uint32_t        serial;
    enum { REQUEST_SUBMIT, REQUEST_RESTORE, REQUEST_SAVE } kind;
    char           *path;
    uint64_t        sequence;
    struct span_buf prompt;
    int             snapshot_pos;
    struct sampling sampling;
    int64_t         submitted_ns, due;  /* due: base/clock.h, ns */
    int32_t        *bias_ids;           /* sampling.bias_ids points here */
    float          *bias;
    /* used by requests.c alone */
    struct request *next;
    struct stats    stats;              /* as of the last event about it */
    uint64_t        after;              /* of a save: the n_ahead of the beginning of its sequence that is read before it; 0: there is none */
    atomic_bool     cancelled;          /* its EV_DONE is out, nothing else may follow; set under the lock */
};

struct requests {
    struct mailbox   events;
    pthread_mutex_t  lock;              /* guards what is below, and the stats of the running requests; LOCK_REQUESTS (base/lock.h) */
    pthread_cond_t   work;
    struct request  *first, **last;     /* waiting; `last` is where the next one is linked */
    struct request  *running;           /* a list, too */
    struct beginning ahead;
    struct span_buf  ahead_spans;       /* the tokens of `ahead`; empty: nothing is to be read ahead */
    uint64_t         n_ahead;           /* counts engine_read_ahead(): the number of `ahead` */
    bool             ahead_ends;        /* the beginning that is being read is not wanted any more */
    struct request  *saves;             /* in order, at most one of a sequence */
    int              n_saving;          /* saves that have begun and not ended */
    uint64_t         saving_of;         /* the sequence of these: all are of the same */
    bool             rows_wanted;       /* a save that has begun wants the next rows */
    bool             recheck;           /* what the engine thread waits for may have happened */
    bool             dead;              /* no submit will be served any more */
    struct err       why_dead;
    atomic_bool      closing;
    uint32_t         last_serial;       /* owner thread only */
};

/* A piece of work of the engine thread: one of these.  It frees ahead_spans with span_buf_free(), the save with request_free(). */
struct work {
    struct request  *request;
    struct request  *save;
    bool             recheck;           /* what it waited for may have happened */
    bool             rows;              /* the save under way wants some */
    struct beginning ahead;
    struct span_buf  ahead_spans;       /* the tokens of `ahead`; empty: there is none */
};

bool requests_init(struct requests *q, struct err *e);
void requests_free(struct requests *q);               /* after the engine thread has ended */

/* ---- the owner thread */
/* Queues the request, which is the queue's from here on.  A submit gets a serial, > 0, which is returned; if the engine has ended, its EV_DONE is
 * posted at once.  A save replaces an older one of its sequence. */
uint32_t requests_add(struct requests *q, struct request *r);
void requests_read_ahead(struct requests *q, const struct beginning *b);                /* as engine_read_ahead(); copies the tokens */
void requests_interrupt(struct requests *q, uint32_t serial);                           /* as engine_interrupt() */
void requests_close(struct requests *q);                                                /* the engine thread is to end */

/* ---- the engine thread */
bool requests_closing(struct requests *q);
/* True if a request or a save of that conversation can begin beside what runs. */
typedef bool requests_may_begin(void *arg, uint64_t sequence, const struct request *r);
/* Takes the next piece of work.  busy: answers are under way; then it is a request that may begin, or nothing.  Else this waits until there is
 * something.  Of several requests the one that is due first (sampling.patience_ms) is next, but never before an older one about the same
 * conversation.  A request counts as running from here on, until requests_done().  False when there is no work, or the engine closes. */
bool requests_next(struct requests *q, bool busy, requests_may_begin *may, void *arg, struct work *w);
/* Puts back a request or a beginning that must wait, after all: it is next again when it may begin, unless it is no longer wanted. */
void requests_put_back(struct requests *q, struct work *w);
bool requests_ahead_ends(void *requests);             /* there is more urgent work than to read ahead */
struct request *requests_last_save(struct requests *q);         /* one that had not begun when the engine closed; NULL: none */
void request_free(struct request *r);
/* Called on any thread when a save that was taken has ended.  Until all have, those of other sequences wait. */
void requests_saved(struct requests *q);
/* Called on any thread when requests that had to wait may begin, or there is other work (work.recheck). */
void requests_recheck(struct requests *q);
void requests_want_rows(struct requests *q);          /* on any thread: work.rows is next, when there is no request */
void requests_post(struct requests *q, const struct event *ev);               /* on any thread: an event that is about no request */
bool requests_cancelled(struct requests *q, const struct request *r);         /* or the engine closes */
/* Posts an event about a running request.  False if the request was interrupted: then its last event is out. */
bool requests_report(struct requests *q, struct request *r, const struct event *ev, const struct stats *stats);
void requests_done(struct requests *q, struct request *r, const struct outcome *o);   /* frees it */
/* Ends requests that wait with the outcome `o`, later ones with END_FAILED and o->why. */
void requests_end(struct requests *q, const struct outcome *o);
