#include "engine/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "guide/guide.h"

bool requests_init(struct requests *q, struct err *e)
{
    *q = (struct requests){.last = &q->first};
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    return mailbox_init(&q->events, sizeof(struct event)) || err_set(e, "cannot start the engine: %s", strerror(errno));
}

void request_free(struct request *r)
{
    if (!r)
        return;
    span_buf_free(&r->prompt);
    free(r->bias_ids);
    free(r->bias);
    guide_release(r->sampling.guide);
    free(r->path);
    free(r);
}

static void free_list(struct request *r)
{
    for (struct request *next; r; r = next) {
        next = r->next;
        request_free(r);
    }
}

void requests_free(struct requests *q)
{
    free_list(q->first);
    free_list(q->saves);
    span_buf_free(&q->ahead_spans);
    mailbox_free(&q->events);
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->lock);
}

void requests_post(struct requests *q, const struct event *ev)
{
    mailbox_post(&q->events, ev);
}

/* Posts the last event of a request. */
static void post_done(struct requests *q, uint32_t serial, const struct outcome *o)
{
    struct event ev = {.kind = EV_DONE, .serial = serial, .finish = o->finish, .stats = o->stats};
    if (end_failed(o->finish))
        snprintf(ev.message, sizeof ev.message, "%s", o->why.msg);
    requests_post(q, &ev);
}

/* ---- the owner thread ---- */

/* Called under the lock. */
static void drop_ahead(struct requests *q)
{
    span_buf_free(&q->ahead_spans);
    q->ahead_ends = true;
}

void requests_read_ahead(struct requests *q, const struct beginning *b)
{
    lock_take(&q->lock, LOCK_REQUESTS);
    drop_ahead(q);
    q->n_ahead++;                       /* saves that were requested before do not wait for this one */
    if (!q->dead && b->spans.n > 0) {
        span_buf_add(&q->ahead_spans, b->spans, b->spans.n);
        q->ahead = *b;
        q->ahead.spans = spans_of(&q->ahead_spans);
        pthread_cond_signal(&q->work);
    }
    lock_release(&q->lock, LOCK_REQUESTS);
}

/* Appends a save, which replaces an earlier one of its sequence.  Called under the lock. */
static void add_save(struct requests *q, struct request *r)
{
    struct request **at = &q->saves;
    while (*at) {
        struct request *old = *at;
        if (old->sequence != r->sequence) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        request_free(old);
    }
    r->after = q->ahead.sequence == r->sequence ? q->n_ahead : 0;
    *at = r;
}

uint32_t requests_add(struct requests *q, struct request *r)
{
    const bool submit = r->kind == REQUEST_SUBMIT;
    if (submit && !++q->last_serial)
        ++q->last_serial;
    const uint32_t serial = r->serial = submit ? q->last_serial : 0;
    lock_take(&q->lock, LOCK_REQUESTS);
    const bool dead = q->dead;
    const struct outcome refused = {.finish = END_FAILED, .why = q->why_dead};
    if (!dead && r->kind == REQUEST_SAVE) {
        add_save(q, r);
    } else if (!dead) {
        *q->last = r;
        q->last = &r->next;
        drop_ahead(q);
    }
    pthread_cond_signal(&q->work);
    lock_release(&q->lock, LOCK_REQUESTS);
    if (dead && submit)
        post_done(q, serial, &refused);
    if (dead)
        request_free(r);
    return serial;
}

/* Takes the request at that place out of those that wait.  Called under the lock. */
static struct request *take_waiting(struct requests *q, struct request **at)
{
    struct request *r = *at;
    *at = r->next;
    if (!*at)
        q->last = at;
    return r;
}

void requests_interrupt(struct requests *q, uint32_t serial)
{
    struct outcome o = {.finish = END_INTERRUPTED};
    lock_take(&q->lock, LOCK_REQUESTS);
    drop_ahead(q);
    struct request *running = q->running, *waiting = NULL;
    while (running && running->serial != serial)
        running = running->next;
    for (struct request **p = &q->first; *p && !waiting;)
        if ((*p)->serial == serial)
            waiting = take_waiting(q, p);
        else
            p = &(*p)->next;
    bool cancels = running && !atomic_load(&running->cancelled);
    if (cancels) {
        atomic_store(&running->cancelled, true);
        o.stats = running->stats;
    } else if (waiting) {
        o.stats = waiting->stats;
    }
    lock_release(&q->lock, LOCK_REQUESTS);
    if (cancels || waiting)             /* on this thread, since the engine's may be in the middle of a long step */
        post_done(q, serial, &o);
    request_free(waiting);
}

void requests_close(struct requests *q)
{
    lock_take(&q->lock, LOCK_REQUESTS);
    atomic_store(&q->closing, true);
    pthread_cond_signal(&q->work);
    lock_release(&q->lock, LOCK_REQUESTS);
}

/* ---- the engine thread ---- */

bool requests_closing(struct requests *q)
{
    return atomic_load(&q->closing);
}

/* True if an older request about the same conversation waits. */
static bool is_behind(const struct requests *q, const struct request *r)
{
    const struct request *older = q->first;
    while (older != r && !(r->sequence && older->sequence == r->sequence))
        older = older->next;
    return older != r;
}

/* Takes the request that is due first, of those that may begin; it runs from here on.  NULL: there is none.  Called under the lock. */
static struct request *take_next(struct requests *q, requests_may_begin *may, void *arg)
{
    struct request **best = NULL;
    for (struct request **p = &q->first; *p; p = &(*p)->next)
        if ((!best || (*p)->due < (*best)->due) && !is_behind(q, *p) && may(arg, (*p)->sequence, *p))
            best = p;
    struct request *r = best ? take_waiting(q, best) : NULL;
    if (r) {
        r->next = q->running;
        q->running = r;
    }
    return r;
}

/* Takes the first save that may begin, after what was to be read ahead of it; NULL: there is none.  A newer save of the sequence that is being saved
 * may begin, and replaces the older one.  Called under the lock. */
static struct request *take_save(struct requests *q, requests_may_begin *may, void *arg)
{
    struct request **at = &q->saves;
    while (*at && ((q->n_saving && (*at)->sequence != q->saving_of) || (q->ahead_spans.ids.n && (*at)->after == q->n_ahead) ||
                   !may(arg, (*at)->sequence, NULL)))
        at = &(*at)->next;
    struct request *s = *at;
    if (s) {
        *at = s->next;
        q->n_saving++;
        q->saving_of = s->sequence;
    }
    return s;
}

void requests_saved(struct requests *q)
{
    lock_take(&q->lock, LOCK_REQUESTS);
    q->n_saving--;
    pthread_cond_signal(&q->work);
    lock_release(&q->lock, LOCK_REQUESTS);
}

/* Takes work that may be done while no request is answered: a check, a save, rows to write, a read-ahead.  Called under the lock.  False if there is
 * none. */
static bool take_rest(struct requests *q, requests_may_begin *may, void *arg, struct work *w)
{
    w->recheck = q->recheck;
    q->recheck = false;
    if (!w->recheck)
        w->save = take_save(q, may, arg);
    if (w->recheck || w->save)
        return true;
    if (q->rows_wanted) {
        w->rows = true;
        q->rows_wanted = false;
    } else if (q->ahead_spans.ids.n && may(arg, q->ahead.sequence, NULL)) {
        w->ahead = q->ahead;
        w->ahead_spans = q->ahead_spans;
        q->ahead_spans = (struct span_buf){0};
        q->ahead_ends = false;
    }
    return w->rows || w->ahead_spans.ids.n;
}

bool requests_next(struct requests *q, bool busy, requests_may_begin *may, void *arg, struct work *w)
{
    *w = (struct work){0};
    lock_take(&q->lock, LOCK_REQUESTS);
    while (!requests_closing(q) && !(w->request = take_next(q, may, arg)) && !busy && !take_rest(q, may, arg, w))
        pthread_cond_wait(&q->work, &q->lock);
    lock_release(&q->lock, LOCK_REQUESTS);
    return w->request || w->recheck || w->save || w->rows || w->ahead_spans.ids.n;
}

/* Called under the lock. */
static void take_running(struct requests *q, const struct request *r)
{
    struct request **p = &q->running;
    while (*p != r)
        p = &(*p)->next;
    *p = r->next;
}

void requests_put_back(struct requests *q, struct work *w)
{
    struct request *r = w->request;
    lock_take(&q->lock, LOCK_REQUESTS);
    if (r)
        take_running(q, r);
    if (r && atomic_load(&r->cancelled)) {
        request_free(r);
    } else if (r) {
        if (!(r->next = q->first))
            q->last = &r->next;
        q->first = r;
    }
    if (w->ahead_spans.ids.n && !q->ahead_ends) {
        q->ahead = w->ahead;
        q->ahead_spans = w->ahead_spans;
    } else {
        span_buf_free(&w->ahead_spans);
    }
    lock_release(&q->lock, LOCK_REQUESTS);
}

static bool any_may(void *arg, uint64_t sequence, const struct request *r)
{
    (void)arg, (void)sequence, (void)r;
    return true;
}

struct request *requests_last_save(struct requests *q)
{
    lock_take(&q->lock, LOCK_REQUESTS);
    drop_ahead(q);                      /* the engine closes: nothing is read ahead any more */
    struct request *s = take_save(q, any_may, NULL);
    lock_release(&q->lock, LOCK_REQUESTS);
    return s;
}

void requests_recheck(struct requests *q)
{
    lock_take(&q->lock, LOCK_REQUESTS);
    q->recheck = true;
    pthread_cond_signal(&q->work);
    lock_release(&q->lock, LOCK_REQUESTS);
}

void requests_want_rows(struct requests *q)
{
    lock_take(&q->lock, LOCK_REQUESTS);
    q->rows_wanted = true;
    pthread_cond_signal(&q->work);
    lock_release(&q->lock, LOCK_REQUESTS);
}

bool requests_ahead_ends(void *requests)
{
    struct requests *q = requests;
    lock_take(&q->lock, LOCK_REQUESTS);
    bool ends = q->ahead_ends || q->first || requests_closing(q);
    lock_release(&q->lock, LOCK_REQUESTS);
    return ends;
}

bool requests_cancelled(struct requests *q, const struct request *r)
{
    return atomic_load(&r->cancelled) || requests_closing(q);
}

bool requests_report(struct requests *q, struct request *r, const struct event *ev, const struct stats *stats)
{
    lock_take(&q->lock, LOCK_REQUESTS);
    bool wanted = !atomic_load(&r->cancelled);
    if (wanted) {
        r->stats = *stats;
        requests_post(q, ev);
    }
    lock_release(&q->lock, LOCK_REQUESTS);
    return wanted;
}

void requests_done(struct requests *q, struct request *r, const struct outcome *o)
{
    lock_take(&q->lock, LOCK_REQUESTS);
    take_running(q, r);
    lock_release(&q->lock, LOCK_REQUESTS);
    if (r->kind == REQUEST_SUBMIT && !atomic_load(&r->cancelled))
        post_done(q, r->serial, o);
    request_free(r);
}

void requests_end(struct requests *q, const struct outcome *o)
{
    lock_take(&q->lock, LOCK_REQUESTS);
    struct request *r = q->first, *next;
    q->first = NULL;
    q->last = &q->first;
    q->dead = true;
    q->why_dead = o->why;
    lock_release(&q->lock, LOCK_REQUESTS);
    for (; r; r = next) {
        next = r->next;
        if (r->kind == REQUEST_SUBMIT)
            post_done(q, r->serial, o);
        request_free(r);
    }
}
