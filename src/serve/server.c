#include "serve/server.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "serve/control.h"
#include "serve/server_state.h"

/* ---- news ---- */

static void send_state(struct server *s)
{
    struct buf lines = {0};
    if (s->attached.n) {
        attached_add_state(s, &lines);
        attached_send(&s->attached, &lines);
    }
    buf_free(&lines);
}

static void refuse_waiting(const struct queue *q, const char *why, bool attached)
{
    for (struct job *j = q->first; j; j = j->next)
        if (attached || !j->question.format->attached)
            job_refuse(j, 503, why, NULL);
}

/* Refuses all requests, running and waiting, those of attached chats only if `attached`. */
static void refuse_all(struct server *s, const char *why, bool attached)
{
    for (int i = 0; i < s->n_lanes; i++) {
        const struct lane *l = &s->lanes[i];
        if (l->now && !l->now_over && (attached || !l->now->question.format->attached))
            job_refuse(l->now, 503, why, NULL);
    }
    refuse_waiting(&s->waiting, why, attached);
    refuse_waiting(&s->unread, why, attached);
}

/* Refuses all requests because the model is gone. */
static void fail_all(struct server *s, const char *why)
{
    if (s->state == SERVER_FAILED)      /* each lane reports it */
        return;
    attached_end(&s->attached);
    s->state = SERVER_FAILED;
    err_set(&s->why, "%s", why);
    refuse_all(s, why, true);
}

/* Begins to answer requests, and sends the new state to those who watch it. */
static void become_ready(struct server *s)
{
    s->ready = true;
    if (*s->check.why.msg)
        err_warn("%s", s->check.why.msg);
    send_state(s);
}

/* Takes news of a lane's responder. */
static void on_news(const struct news *it, void *arg)
{
    struct lane *l = arg;
    struct server *s = l->s;
    const bool first = l == s->lanes;   /* news for all lanes are reported once */
    if (first && s->check.runs && selfcheck_take(&s->check, l->r, it))
        become_ready(s);
    switch (it->kind) {
    case NEWS_LOADING:
        s->loaded = it->done;
        s->to_load = it->total;
        if (first)
            send_state(s);
        break;
    case NEWS_READY:
        if (first && !(s->so.self_check && selfcheck_begin(&s->check, l->r)))
            become_ready(s);
        break;
    case NEWS_NOTE:
        if (first)
            err_warn("%.*s", (int)it->text.n, it->text.p);
        break;
    case NEWS_RESTORED:
    case NEWS_SAVED:
        if (first)
            attached_send_filed(&s->attached, it);
        break;
    case NEWS_FATAL:
        fail_all(s, it->text.p);
        break;
    default:
        lane_take(l, it);
    }
}

/* Handles a client that went away: its request is dropped or its answer stopped. */
static void gone(void *arg, struct exchange *x)
{
    struct server *s = arg;
    struct job *j = exchange_data(x);
    if (readings_gone(&s->readings, x))
        return;
    if (!j) {
        attached_gone(&s->attached, x);
        return;
    }
    j->x = NULL;
    s->metrics.left++;
    if (j->in)
        job_end_waiting(s, j);
    else
        lane_left(lane_of(s, j));
}

/* ---- the whole ---- */

enum { RECALL_BYTES = 32 << 20 };       /* several thousand answers */

struct server *server_open(struct responder *const *all, int n, const struct server_options *so, struct err *e)
{
    struct responder *r = n > 0 ? all[0] : NULL;
    if (!r)
        return NULL;
    CHECK(n <= SERVER_ANSWERS);
    struct server *s = memory_zeroed(1, sizeof *s);
    const struct web_owner owner = {.begun = routes_begun, .asked = routes_asked, .gone = gone, .arg = s};
    recall_init(&s->recall, RECALL_BYTES);
    s->r = r;
    s->so = *so;
    s->unused_ns = clock_ns();
    s->opened_s = time(NULL);
    s->n_lanes = n;
    for (int i = 0; i < n; i++) {
        s->lanes[i] = (struct lane){.s = s, .r = all[i]};
        all[i]->fn = on_news;
        all[i]->arg = &s->lanes[i];
    }
    s->ready = r->ops->info(r) != NULL && r->can.tokens;
    const char *slash = strrchr(r->model, '/');         /* clients know the model by the last part of its path */
    buf_adds(&s->model, slash && slash[1] ? slash + 1 : r->model);
    control_engine_key(so->engine ? so->engine : so->o, &s->options);
    if (!readings_init(&s->readings, routes_read, s))
        err_set(e, "cannot start a server: %s", strerror(errno));
    else
        s->web = web_open(&owner, e);
    if (s->web) {
        web_watch(s->web, s->readings.notes.fd);
        return s;
    }
    server_close(s);
    return NULL;
}

void server_hold(struct server *s, bool hold)
{
    s->held = hold;
    for (int i = 0; hold && i < s->n_lanes; i++)
        lane_pause(&s->lanes[i]);
}

void server_close(struct server *s)
{
    if (!s)
        return;
    if (s->state != SERVER_FAILED)      /* attached chats continue by themselves when their streams break off */
        refuse_all(s, WEB_CLOSING, false);
    s->state = SERVER_STOPPED;
    web_close(s->web);                  /* calls gone() for each exchange under way */
    readings_free(&s->readings);
    for (int i = s->n_lanes - 1; i >= 0; i--) {         /* the first one is last: the others may be its guests */
        struct lane *l = &s->lanes[i];
        if (l->now)
            lane_end(l);
        l->r->ops->close(l->r);
    }
    recall_free(&s->recall);
    selfcheck_free(&s->check);
    buf_free(&s->model);
    buf_free(&s->options);
    attached_free(&s->attached);
    free(s);
}

bool server_listen(struct server *s, int fd, struct err *e)
{
    return web_listen(s->web, fd, e);
}

int server_n_open(const struct server *s)
{
    return s->waiting.n + s->unread.n + lanes_running(s);
}

static int is_other(const struct job *j)
{
    return j->x && !j->question.format->attached;
}

static int n_others_in(const struct queue *q)
{
    int n = 0;
    for (const struct job *j = q->first; j; j = j->next)
        n += is_other(j);
    return n;
}

int server_n_others(const struct server *s)
{
    int n = s->attached.n;
    for (int i = 0; i < s->n_lanes; i++) {
        const struct lane *l = &s->lanes[i];
        n += l->now && !l->now_over && is_other(l->now);
    }
    n += n_others_in(&s->waiting) + n_others_in(&s->unread);
    return s->state == SERVER_RUNS ? n : 0;
}

void server_leave_chat(struct server *s)
{
    struct buf line = {0};
    s->so.of_chat = false;
    s->so.n_spare = 0;
    buf_adds(&line, "{\"note\": \"the chat that had loaded the model has left; it stays loaded while it is used\"}\n");
    attached_send(&s->attached, &line);
    buf_free(&line);
}

void server_shut(struct server *s)
{
    s->shut = true;
    web_shut(s->web);
}

int server_fd(const struct server *s)
{
    return web_fd(s->web);
}

int server_fds(const struct server *s, struct pollfd fds[SERVER_MAX_FDS])
{
    int n = s->r->ops->fds(s->r, fds);
    fds[n++] = (struct pollfd){.fd = web_fd(s->web), .events = POLLIN};
    return n;
}

bool server_is_ready(const struct server *s)
{
    return s->ready;
}

static double unused_ms_left(const struct server *s)
{
    return s->so.keep_s * 1000.0 - clock_ms_since(s->unused_ns);
}

/* Returns the lane for the next request of the queue; NULL: the request waits. */
static struct lane *free_lane(struct server *s)
{
    const bool may = s->ready && s->state == SERVER_RUNS && !s->held && s->waiting.n && lanes_running(s) < lanes_at_once(s);
    for (int i = 0; i < s->n_lanes && may; i++)
        if (!s->lanes[i].now)
            return &s->lanes[i];
    return NULL;
}

/* Returns the milliseconds until an answer of which too much is unread is ended.  Those of attached chats stay, since these may be suspended, unless
 * the server accepts no connections any more and only finishes what is under way. */
static double unread_ms_left(const struct server *s, const struct job *j)
{
    const bool stays = !s->so.send_timeout_s || (j->question.format->attached && !s->shut);
    return stays ? INFINITY : s->so.send_timeout_s * 1000.0 - exchange_unread_ms(j->x);
}

/* Returns the milliseconds until a stream has been silent for too long. */
static double silent_ms_left(const struct server *s)
{
    double left = INFINITY;
    for (const struct job *j = s->waiting.first; j; j = j->next)
        left = fmin(left, job_silent_ms_left(j));
    for (int i = 0; i < s->n_lanes; i++)
        if (s->lanes[i].now && !s->lanes[i].now_over)
            left = fmin(left, job_silent_ms_left(s->lanes[i].now));
    return left;
}

static void break_silence(struct server *s)
{
    for (struct job *j = s->waiting.first; j; j = j->next)
        job_break_silence(j);
    for (int i = 0; i < s->n_lanes; i++)
        if (s->lanes[i].now && !s->lanes[i].now_over)
            job_break_silence(s->lanes[i].now);
}

static bool has_been_read(const struct job *j)
{
    return !job_is_unread(j, JOB_LITTLE_UNREAD);
}

int server_timeout(struct server *s)
{
    int web = free_lane(s) ? 0 : web_timeout(s->web);       /* a request may have come while replies went out */
    double left = s->so.keep_s && s->unused_ns ? unused_ms_left(s) : INFINITY;
    for (const struct job *j = s->unread.first; j; j = j->next)         /* what was unread may have gone out since the last look */
        left = fmin(left, has_been_read(j) ? 0 : unread_ms_left(s, j));
    left = fmin(left, silent_ms_left(s));
    int own = left > INT_MAX / 2 ? -1 : left > 0 ? (int)left + 1 : 0;
    return own < 0 || (web >= 0 && web < own) ? web : own;
}

static void end_unread(struct server *s, struct job *j)
{
    struct err why;
    err_set(&why, "nothing of the answer could be sent for %d s, since it was not read: it ends here", s->so.send_timeout_s);
    s->metrics.unread++;
    job_end(s, j, &(struct news){.kind = NEWS_DONE, .end = END_FAILED, .text = text_of(why.msg)});
    job_free(j);
}

/* Pauses answers of which too much is unread.  Those whose clients have read continue, in the order in which they were paused; those whose clients
 * do not read are ended.  Called between two drains: a pause within one would lose tokens that the responder has counted and not reported yet. */
static void watch_readers(struct server *s)
{
    for (int i = 0; i < s->n_lanes; i++)
        if (s->lanes[i].now && job_is_unread(s->lanes[i].now, JOB_MOST_UNREAD))
            lane_pause(&s->lanes[i]);
    for (struct job *j = s->unread.first, *next; j; j = next) {
        const bool reads = has_been_read(j), ends = !reads && unread_ms_left(s, j) <= 0;
        next = j->next;
        if (reads || ends)
            queue_remove(j);
        if (reads) {
            job_waits(j, clock_ns());
            queue_add(&s->waiting, j);
        } else if (ends) {
            end_unread(s, j);
        }
    }
}

/* Notes since when no client has used the server, and ends it after the time of --keep. */
static void watch_use(struct server *s)
{
    bool used = web_n_clients(s->web) || lanes_running(s) || s->waiting.n;
    if (used)
        s->unused_ns = 0;
    else if (!s->unused_ns)
        s->unused_ns = clock_ns();
    if (!used && s->so.keep_s && s->state == SERVER_RUNS && unused_ms_left(s) <= 0)
        s->state = SERVER_UNUSED;
}

static void end_over(struct server *s)
{
    for (int i = 0; i < s->n_lanes; i++)
        if (s->lanes[i].now && s->lanes[i].now_over) {
            lane_read_again(&s->lanes[i]);
            lane_end(&s->lanes[i]);
        }
}

enum server_state server_run(struct server *s, struct err *e)
{
    web_run(s->web);
    readings_take(&s->readings);
    s->r->ops->drain(s->r);
    end_over(s);
    watch_readers(s);
    for (struct lane *l; (l = free_lane(s));) {
        lane_start(l);
        end_over(s);
    }
    break_silence(s);
    web_run(s->web);                    /* what was written goes out */
    watch_use(s);
    if (s->state == SERVER_FAILED)
        err_set(e, "%s", s->why.msg);
    return s->state;
}
