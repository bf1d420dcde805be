#include "engine/requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/due.h"
#include "base/memory.h"

bool requests_init(struct requests *q, struct err *e)
{
    *q = (struct requests){.last = &q->first};
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    return mailbox_init(&q->events, sizeof(struct event)) || err_set(e, "cannot start the engine: %s", strerror(errno));
}

void save_free(struct save *s)
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
    for (struct save *s = q->saves, *next; s; s = next) {
        next = s->next;
        save_free(s);
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

/* Under the lock. */
static void drop_ahead(struct requests *q)
{
    free(q->ahead_ids);
    q->ahead_ids = NULL;
    q->ahead_ends = true;
}

void requests_read_ahead(struct requests *q, uint64_t sequence, const int32_t *ids, int n_ids, int snapshot_pos)
{
    pthread_mutex_lock(&q->lock);
    drop_ahead(q);
    q->n_ahead++;                       /* saves that were asked for before do not wait for this one */
    if (!q->dead && n_ids > 0) {
        q->ahead_ids = copy(ids, n_ids, sizeof *ids);
        q->ahead = (struct beginning){.sequence = sequence, .ids = q->ahead_ids, .n = n_ids, .snapshot_pos = snapshot_pos};
        pthread_cond_signal(&q->work);
    }
    pthread_mutex_unlock(&q->lock);
}

/* Under the lock. */
static void add_request(struct requests *q, struct request *r)
{
    *q->last = r;
    q->last = &r->next;
    drop_ahead(q);
    pthread_cond_signal(&q->work);
}

void requests_restore(struct requests *q, uint64_t sequence, const char *path)
{
    struct request *r = memory_zeroed(1, sizeof *r);
    r->restore = memory_strdup(path);
    r->sequence = sequence;
    r->due = clock_ns();
    pthread_mutex_lock(&q->lock);
    if (!q->dead)
        add_request(q, r);
    bool dead = q->dead;
    pthread_mutex_unlock(&q->lock);
    if (dead)
        request_free(r);
}

/* Under the lock: it is the last one, and the only one of its sequence. */
static void add_save(struct requests *q, struct save *s)
{
    struct save **at = &q->saves;
    while (*at) {
        struct save *old = *at;
        if (old->sequence != s->sequence) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        save_free(old);
    }
    *at = s;
}

void requests_save(struct requests *q, uint64_t sequence, const char *path)
{
    struct save *s = memory_zeroed(1, sizeof *s);
    s->path = memory_strdup(path);
    s->sequence = sequence;
    pthread_mutex_lock(&q->lock);
    s->after = q->ahead.sequence == sequence ? q->n_ahead : 0;
    if (q->dead)
        save_free(s);
    else
        add_save(q, s);
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
}

static struct request *make_request(const int32_t *ids, int n_ids, int snapshot_pos, const struct sampling *s)
{
    struct request *r = memory_zeroed(1, sizeof *r);
    r->ids = copy(ids, n_ids, sizeof *ids);
    r->n = n_ids;
    r->snapshot_pos = snapshot_pos;
    r->bias_ids = copy(s->bias_ids, s->n_bias, sizeof *s->bias_ids);
    r->bias = copy(s->bias, s->n_bias, sizeof *s->bias);
    r->stats.n_prompt = n_ids;
    r->how = *s;
    r->how.bias_ids = r->bias_ids;
    r->how.bias = r->bias;
    r->submitted_ns = clock_ns();
    r->due = due_ns(r->submitted_ns, s->patience_ms);
    return r;
}

uint32_t requests_submit(struct requests *q, uint64_t sequence, const int32_t *ids, int n_ids, int snapshot_pos, const struct sampling *s)
{
    struct request *r = make_request(ids, n_ids, snapshot_pos, s);
    r->sequence = sequence;
    if (!++q->last_serial)
        ++q->last_serial;
    uint32_t serial = r->serial = q->last_serial;

    pthread_mutex_lock(&q->lock);
    const bool dead = q->dead;
    const struct outcome refused = {.finish = END_FAILED, .why = q->why_dead};
    if (!dead)
        add_request(q, r);
    pthread_mutex_unlock(&q->lock);
    if (dead) {
        post_done(q, serial, &refused);
        request_free(r);
    }
    return serial;
}

/* Under the lock: takes the request at that place out of those that wait. */
static struct request *take(struct requests *q, struct request **at)
{
    struct request *r = *at;
    *at = r->next;
    if (!*at)
        q->last = at;
    return r;
}

/* Under the lock: takes out the waiting request of that serial.  NULL: there is none. */
static struct request *take_waiting(struct requests *q, uint32_t serial)
{
    for (struct request **p = &q->first; *p; p = &(*p)->next)
        if ((*p)->serial == serial)
            return take(q, p);
    return NULL;
}

/* Under the lock. */
static struct request *find_running(struct requests *q, uint32_t serial)
{
    struct request *r = q->running;
    while (r && r->serial != serial)
        r = r->next;
    return r;
}

void requests_interrupt(struct requests *q, uint32_t serial)
{
    struct outcome o = {.finish = END_INTERRUPTED};
    pthread_mutex_lock(&q->lock);
    drop_ahead(q);
    struct request *running = find_running(q, serial), *waiting = take_waiting(q, serial);
    bool cancels = running && !atomic_load(&running->cancelled);
    if (cancels) {
        atomic_store(&running->cancelled, true);
        o.stats = running->stats;
    } else if (waiting) {
        o.stats = waiting->stats;
    }
    pthread_mutex_unlock(&q->lock);
    if (cancels || waiting)             /* from here: the engine thread may be in the middle of a long step */
        post_done(q, serial, &o);
    request_free(waiting);
}

void requests_close(struct requests *q)
{
    pthread_mutex_lock(&q->lock);
    atomic_store(&q->closing, true);
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
}

/* ---- the engine thread ---- */

bool requests_closing(struct requests *q)
{
    return atomic_load(&q->closing);
}

/* Is there an older waiting request about the same conversation? */
static bool is_behind(const struct requests *q, const struct request *r)
{
    const struct request *older = q->first;
    while (older != r && !(r->sequence && older->sequence == r->sequence))
        older = older->next;
    return older != r;
}

/* Under the lock: of those that may begin the one that is due first. */
static struct request **find_next(struct requests *q, requests_may_begin *may, void *arg)
{
    struct request **best = NULL;
    for (struct request **p = &q->first; *p; p = &(*p)->next)
        if ((!best || (*p)->due < (*best)->due) && !is_behind(q, *p) && may(arg, (*p)->sequence))
            best = p;
    return best;
}

/* Under the lock. */
static struct request *take_next(struct requests *q, requests_may_begin *may, void *arg)
{
    struct request **p = find_next(q, may, arg);
    struct request *r = p ? take(q, p) : NULL;
    if (r) {
        r->next = q->running;
        q->running = r;
    }
    return r;
}

/* Under the lock: a beginning of its sequence that was asked for before the save is still to be read. */
static bool is_early(const struct requests *q, const struct save *s)
{
    return q->ahead_ids && s->after == q->n_ahead;
}

/* Under the lock: the first save that may begin; NULL: there is none.  Of one sequence a newer one may, and takes the older one's place. */
static struct save *take_save(struct requests *q, requests_may_begin *may, void *arg)
{
    struct save **at = &q->saves;
    while (*at && ((q->n_saving && (*at)->sequence != q->saving_of) || is_early(q, *at) || !may(arg, (*at)->sequence)))
        at = &(*at)->next;
    struct save *s = *at;
    if (s) {
        *at = s->next;
        q->n_saving++;
        q->saving_of = s->sequence;
    }
    return s;
}

void requests_saved(struct requests *q)
{
    pthread_mutex_lock(&q->lock);
    q->n_saving--;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
}

/* Under the lock, while nothing is answered.  False: there is none. */
static bool take_rest(struct requests *q, requests_may_begin *may, void *arg, struct work *w)
{
    w->looks = q->looks;
    q->looks = false;
    if (!w->looks)
        w->save = take_save(q, may, arg);
    if (w->looks || w->save)
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
    pthread_mutex_lock(&q->lock);
    while (!requests_closing(q) && !(w->request = take_next(q, may, arg)) && !busy && !take_rest(q, may, arg, w))
        pthread_cond_wait(&q->work, &q->lock);
    pthread_mutex_unlock(&q->lock);
    return w->request || w->looks || w->save || w->rows || w->ahead_ids;
}

/* Under the lock. */
static void put_back_request(struct requests *q, struct request *r)
{
    struct request **p = &q->running;
    while (*p != r)
        p = &(*p)->next;
    *p = r->next;
    if (!(r->next = q->first))
        q->last = &r->next;
    q->first = r;
}

void requests_put_back(struct requests *q, struct work *w)
{
    struct request *r = w->request;
    pthread_mutex_lock(&q->lock);
    if (r)
        put_back_request(q, r);
    if (r && atomic_load(&r->cancelled)) {
        take(q, &q->first);
        request_free(r);
    }
    if (w->ahead_ids && !q->ahead_ends) {
        q->ahead = w->ahead;
        q->ahead_ids = w->ahead_ids;
    } else {
        free(w->ahead_ids);
    }
    pthread_mutex_unlock(&q->lock);
}

static bool any_may(void *arg, uint64_t sequence)
{
    (void)arg, (void)sequence;
    return true;
}

struct save *requests_last_save(struct requests *q)
{
    pthread_mutex_lock(&q->lock);
    drop_ahead(q);                      /* the engine closes: nothing is read ahead any more */
    struct save *s = take_save(q, any_may, NULL);
    pthread_mutex_unlock(&q->lock);
    return s;
}

void requests_look_again(struct requests *q)
{
    pthread_mutex_lock(&q->lock);
    q->looks = true;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
}

void requests_want_rows(struct requests *q)
{
    pthread_mutex_lock(&q->lock);
    q->rows_wanted = true;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
}

bool requests_ahead_ends(struct requests *q)
{
    pthread_mutex_lock(&q->lock);
    bool ends = q->ahead_ends || q->first || requests_closing(q);
    pthread_mutex_unlock(&q->lock);
    return ends;
}

bool requests_cancelled(struct requests *q, const struct request *r)
{
    return atomic_load(&r->cancelled) || requests_closing(q);
}

bool requests_report(struct requests *q, struct request *r, const struct event *ev, const struct stats *stats)
{
    pthread_mutex_lock(&q->lock);
    bool heard = !atomic_load(&r->cancelled);
    if (heard) {
        r->stats = *stats;
        requests_post(q, ev);
    }
    pthread_mutex_unlock(&q->lock);
    return heard;
}

void requests_done(struct requests *q, struct request *r, const struct outcome *o)
{
    pthread_mutex_lock(&q->lock);
    struct request **p = &q->running;
    while (*p != r)
        p = &(*p)->next;
    *p = r->next;
    pthread_mutex_unlock(&q->lock);
    if (!r->restore && !atomic_load(&r->cancelled))
        post_done(q, r->serial, o);
    request_free(r);
}

void requests_end(struct requests *q, const struct outcome *o)
{
    pthread_mutex_lock(&q->lock);
    struct request *r = q->first, *next;
    q->first = NULL;
    q->last = &q->first;
    q->dead = true;
    q->why_dead = o->why;
    pthread_mutex_unlock(&q->lock);
    for (; r; r = next) {
        next = r->next;
        if (!r->restore)
            post_done(q, r->serial, o);
        request_free(r);
    }
}
