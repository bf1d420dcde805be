#include "engine/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/due.h"
#include "base/lock.h"
#include "base/memory.h"

bool requests_init(struct requests *q, struct err *e)
{
    *q = (struct requests){.last = &q->first};
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    return mailbox_init(&q->events, sizeof(struct event)) || err_set(e, "cannot start the engine: %s", strerror(errno));
}

void save_order_free(struct save_order *s)
{
    if (s)
        free(s->path);
    free(s);
}

static void request_free(struct request *r)
{
    if (!r)
        return;
    free(r->ids);
    free(r->bias_ids);
    free(r->bias);
    free(r->restore);
    free(r);
}

void requests_free(struct requests *q)
{
    for (struct request *r = q->first, *next; r; r = next) {
        next = r->next;
        request_free(r);
    }
    free(q->ahead_ids);
    for (struct save_order *s = q->saves, *next; s; s = next) {
        next = s->next;
        save_order_free(s);
    }
    mailbox_free(&q->events);
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->lock);
}

void requests_post(struct requests *q, const struct event *ev)
{
    mailbox_post(&q->events, ev);
}

static void post_done(struct requests *q, uint32_t serial, const struct outcome *o)
{
    struct event ev = {.kind = EV_DONE, .serial = serial, .finish = o->finish, .stats = o->stats};
    if (o->finish == END_FAILED)
        snprintf(ev.message, sizeof ev.message, "%s", o->why.msg);
    requests_post(q, &ev);
}

/* ---- the owner thread ---- */

static void *copy(const void *p, int n, size_t size)
{
    if (n <= 0)
        return NULL;
    void *c = memory_alloc((size_t)n * size);
    return memcpy(c, p, (size_t)n * size);
}

/* Called under the lock. */
static void drop_ahead(struct requests *q)
{
    free(q->ahead_ids);
    q->ahead_ids = NULL;
    q->ahead_ends = true;
}

void engine_read_ahead(struct engine *g, uint64_t sequence, const int32_t *ids, int n_ids, int snapshot_pos)
{
    struct requests *q = engine_requests(g);
    lock_take(&q->lock, LOCK_REQUESTS);
    drop_ahead(q);
    q->n_ahead++;                       /* saves that were requested before do not wait for this one */
    if (!q->dead && n_ids > 0) {
        q->ahead_ids = copy(ids, n_ids, sizeof *ids);
        q->ahead = (struct beginning){.sequence = sequence, .ids = q->ahead_ids, .n = n_ids, .snapshot_pos = snapshot_pos};
        pthread_cond_signal(&q->work);
    }
    lock_release(&q->lock, LOCK_REQUESTS);
}

/* Called under the lock. */
static void add_request(struct requests *q, struct request *r)
{
    *q->last = r;
    q->last = &r->next;
    drop_ahead(q);
    pthread_cond_signal(&q->work);
}

void engine_restore(struct engine *g, uint64_t sequence, const char *path)
{
    struct requests *q = engine_requests(g);
    struct request *r = memory_zeroed(1, sizeof *r);
    r->restore = memory_strdup(path);
    r->sequence = sequence;
    r->due = clock_ns();
    lock_take(&q->lock, LOCK_REQUESTS);
    if (!q->dead)
        add_request(q, r);
    const bool dead = q->dead;
    lock_release(&q->lock, LOCK_REQUESTS);
    if (dead)
        request_free(r);
}

/* Appends a save, which replaces an earlier one of its sequence.  Called under the lock. */
static void add_save(struct requests *q, struct save_order *s)
{
    struct save_order **at = &q->saves;
    while (*at) {
        struct save_order *old = *at;
        if (old->sequence != s->sequence) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        save_order_free(old);
    }
    *at = s;
}

void engine_save(struct engine *g, uint64_t sequence, const char *path)
{
    struct requests *q = engine_requests(g);
    struct save_order *s = memory_zeroed(1, sizeof *s);
    s->path = memory_strdup(path);
    s->sequence = sequence;
    lock_take(&q->lock, LOCK_REQUESTS);
    s->after = q->ahead.sequence == sequence ? q->n_ahead : 0;
    if (q->dead)
        save_order_free(s);
    else
        add_save(q, s);
    pthread_cond_signal(&q->work);
    lock_release(&q->lock, LOCK_REQUESTS);
}

uint32_t engine_submit(struct engine *g, uint64_t sequence, const int32_t *ids, int n_ids, int snapshot_pos, const struct sampling *s)
{
    struct requests *q = engine_requests(g);
    struct request *r = memory_zeroed(1, sizeof *r);
    r->sequence = sequence;
    r->ids = copy(ids, n_ids, sizeof *ids);
    r->n = n_ids;
    r->snapshot_pos = snapshot_pos;
    r->bias_ids = copy(s->bias_ids, s->n_bias, sizeof *s->bias_ids);
    r->bias = copy(s->bias, s->n_bias, sizeof *s->bias);
    r->stats.n_prompt = n_ids;
    r->sampling = *s;
    r->sampling.bias_ids = r->bias_ids;
    r->sampling.bias = r->bias;
    r->submitted_ns = clock_ns();
    r->due = due_ns(r->submitted_ns, s->patience_ms);
    if (!++q->last_serial)
        ++q->last_serial;
    uint32_t serial = r->serial = q->last_serial;

    lock_take(&q->lock, LOCK_REQUESTS);
    const bool dead = q->dead;
    const struct outcome refused = {.finish = END_FAILED, .why = q->why_dead};
    if (!dead)
        add_request(q, r);
    lock_release(&q->lock, LOCK_REQUESTS);
    if (dead) {
        post_done(q, serial, &refused);
        request_free(r);
    }
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

void engine_interrupt(struct engine *g, uint32_t serial)
{
    struct requests *q = engine_requests(g);
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
        if ((!best || (*p)->due < (*best)->due) && !is_behind(q, *p) && may(arg, (*p)->sequence))
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
static struct save_order *take_save(struct requests *q, requests_may_begin *may, void *arg)
{
    struct save_order **at = &q->saves;
    while (*at && ((q->n_saving && (*at)->sequence != q->saving_of) || (q->ahead_ids && (*at)->after == q->n_ahead) || !may(arg, (*at)->sequence)))
        at = &(*at)->next;
    struct save_order *s = *at;
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

/* Under the lock, while nothing is answered.  False: there is none. */
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
    } else if (q->ahead_ids && may(arg, q->ahead.sequence)) {
        w->ahead = q->ahead;
        w->ahead_ids = q->ahead_ids;
        q->ahead_ids = NULL;
        q->ahead_ends = false;
    }
    return w->rows || w->ahead_ids;
}

bool requests_next(struct requests *q, bool busy, requests_may_begin *may, void *arg, struct work *w)
{
    *w = (struct work){0};
    lock_take(&q->lock, LOCK_REQUESTS);
    while (!requests_closing(q) && !(w->request = take_next(q, may, arg)) && !busy && !take_rest(q, may, arg, w))
        pthread_cond_wait(&q->work, &q->lock);
    lock_release(&q->lock, LOCK_REQUESTS);
    return w->request || w->recheck || w->save || w->rows || w->ahead_ids;
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
    if (w->ahead_ids && !q->ahead_ends) {
        q->ahead = w->ahead;
        q->ahead_ids = w->ahead_ids;
    } else {
        free(w->ahead_ids);
    }
    lock_release(&q->lock, LOCK_REQUESTS);
}

static bool any_may(void *arg, uint64_t sequence)
{
    (void)arg, (void)sequence;
    return true;
}

struct save_order *requests_last_save(struct requests *q)
{
    lock_take(&q->lock, LOCK_REQUESTS);
    drop_ahead(q);                      /* the engine closes: nothing is read ahead any more */
    struct save_order *s = take_save(q, any_may, NULL);
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
    if (!r->restore && !atomic_load(&r->cancelled))
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
        if (!r->restore)
            post_done(q, r->serial, o);
        request_free(r);
    }
}
