#include "remote/asker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/worker.h"
#include "fetch/http.h"

enum { MAX_LINE = 16 << 20, FOREVER_S = 1 << 30 };

struct asked {
    struct asked *next;
    uint32_t tag;
    char *path;
    struct buf body;
    int silence_s;
};

struct asker {
    char *socket;
    struct mailbox *out;
    struct worker worker;               /* its lock guards the queue */
    struct asked *waiting;              /* the first request of the queue */
    uint32_t now;                       /* tag of the request under way; 0: there is no request */
    atomic_bool stop;                   /* the request under way ends */

    /* used by the thread only */
    struct http *http;
    struct buf line;                    /* the beginning of the next line */
};

static void post(struct asker *a, enum asker_what what, uint32_t tag, const char *text, size_t n)
{
    struct asker_event ev = {.what = what, .tag = tag};
    buf_add(&ev.text, text, n);
    mailbox_post(a->out, &ev);
}

/* ---- the thread ---- */

static bool begin(void *arg, const struct http_reply *r, struct err *e)
{
    (void)arg, (void)r, (void)e;
    return true;
}

/* Posts each complete line of the reply.  False if a line is too long. */
static bool take(void *arg, const void *bytes, size_t n, struct err *e)
{
    struct asker *a = arg;
    const char *at = bytes, *end = at + n;
    for (const char *stop; (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
        buf_add(&a->line, at, (size_t)(stop - at));
        post(a, ASKER_LINE, a->now, buf_str(&a->line), a->line.len);
        buf_reset(&a->line);
    }
    buf_add(&a->line, at, (size_t)(end - at));
    return a->line.len <= MAX_LINE || err_set(e, "a line of the answer has more than %d MiB", MAX_LINE >> 20);
}

/* Sends a request and posts its lines and its end: ended, refused with the reply's text, or broken with the reason. */
static void send_request(struct asker *a, const struct asked *q)
{
    struct buf url = {0}, refused = {0};
    struct http_reply r = {0};
    struct err e = {{0}};
    buf_addf(&url, "http://localhost%s", q->path);
    const struct http_request request = {
        .url = url.data, .socket = a->socket, .post = buf_str(&q->body), .post_bytes = q->body.len,
        .stall_s = q->silence_s ? q->silence_s : FOREVER_S, .stop = &a->stop, .begin = begin, .take = take, .arg = a, .refusal = &refused,
    };
    buf_reset(&a->line);
    enum http_result result = http_ask(a->http, &request, &r, &e);
    if (atomic_load(&a->stop) || (result == HTTP_ANSWERED && r.status == 200))
        post(a, ASKER_ENDED, q->tag, "", 0);
    else if (result == HTTP_ANSWERED)
        post(a, ASKER_REFUSED, q->tag, buf_str(&refused), refused.len);
    else
        post(a, ASKER_BROKEN, q->tag, e.msg, strlen(e.msg));
    http_reply_free(&r);
    buf_free(&url);
    buf_free(&refused);
}

static void asked_free(struct asked *q)
{
    free(q->path);
    buf_free(&q->body);
    free(q);
}

/* One step of the worker, called with the lock: sends the next request that waits, without it. */
static int64_t ask_step(void *arg)
{
    struct asker *a = arg;
    struct asked *q = a->waiting;
    if (!q)
        return WORKER_IDLE;
    a->waiting = q->next;
    a->now = q->tag;
    atomic_store(&a->stop, false);
    worker_unlock(&a->worker);
    if (!a->http)
        a->http = http_open();
    send_request(a, q);
    asked_free(q);
    worker_lock(&a->worker);
    a->now = 0;
    return WORKER_AGAIN;
}

/* ---- the owner's side ---- */

/* Frees the asker with the requests that were not sent. */
static void asker_free(struct asker *a)
{
    for (struct asked *q = a->waiting, *after; q; q = after) {
        after = q->next;
        asked_free(q);
    }
    http_close(a->http);
    buf_free(&a->line);
    free(a->socket);
    free(a);
}

struct asker *asker_open(const char *socket, struct mailbox *out, struct err *e)
{
    struct asker *a = memory_zeroed(1, sizeof *a);
    a->socket = memory_strdup(socket);
    a->out = out;
    if (worker_start(&a->worker, 1, ask_step, a))
        return a;
    err_set(e, "cannot start a thread that asks another q35chat");
    asker_free(a);
    return NULL;
}

void asker_close(struct asker *a)
{
    if (!a)
        return;
    worker_lock(&a->worker);
    a->worker.ending = true;            /* first, so that no further request begins and clears `stop` */
    atomic_store(&a->stop, true);
    worker_unlock(&a->worker);
    worker_stop(&a->worker);
    asker_free(a);
}

void asker_ask(struct asker *a, uint32_t tag, const char *path, struct buf *body, int silence_s)
{
    struct asked *q = memory_zeroed(1, sizeof *q);
    q->tag = tag;
    q->path = memory_strdup(path);
    q->body = *body;
    q->silence_s = silence_s;
    *body = (struct buf){0};
    worker_lock(&a->worker);
    struct asked **end = &a->waiting;
    while (*end)
        end = &(*end)->next;
    *end = q;
    worker_wake(&a->worker);
    worker_unlock(&a->worker);
}

void asker_stop(struct asker *a, uint32_t tag)
{
    struct asked *dropped = NULL;
    worker_lock(&a->worker);
    for (struct asked **at = &a->waiting; *at && !dropped; at = dropped ? at : &(*at)->next)
        if ((*at)->tag == tag) {
            dropped = *at;
            *at = dropped->next;
        }
    if (!dropped && a->now == tag)
        atomic_store(&a->stop, true);
    worker_unlock(&a->worker);
    if (dropped) {
        post(a, ASKER_ENDED, tag, "", 0);
        asked_free(dropped);
    }
}
