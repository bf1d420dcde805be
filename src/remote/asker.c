#include "remote/asker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/quiet.h"
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
    pthread_t thread;
    pthread_mutex_t lock;               /* over what follows */
    pthread_cond_t woken;
    struct asked *waiting;              /* the first one */
    uint32_t now;                       /* tag of the one that is asked; 0: none is */
    bool quit;
    atomic_bool stop;                   /* the request under way ends */
    struct buf line;                    /* the thread's own: the beginning of the next one */
};

static void tell(struct asker *a, enum asker_what what, uint32_t tag, const char *text, size_t n)
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

static bool take(void *arg, const void *bytes, size_t n, struct err *e)
{
    struct asker *a = arg;
    const char *at = bytes, *end = at + n;
    for (const char *stop; (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
        buf_add(&a->line, at, (size_t)(stop - at));
        tell(a, ASKER_LINE, a->now, buf_str(&a->line), a->line.len);
        buf_reset(&a->line);
    }
    buf_add(&a->line, at, (size_t)(end - at));
    return a->line.len <= MAX_LINE || err_set(e, "a line of the answer has more than %d MiB", MAX_LINE >> 20);
}

static void ask(struct asker *a, struct http *h, const struct asked *q)
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
    enum http_result result = http_ask(h, &request, &r, &e);
    if (atomic_load(&a->stop) || (result == HTTP_ANSWERED && r.status == 200))
        tell(a, ASKER_ENDED, q->tag, "", 0);
    else if (result == HTTP_ANSWERED)
        tell(a, ASKER_REFUSED, q->tag, buf_str(&refused), refused.len);
    else
        tell(a, ASKER_BROKEN, q->tag, e.msg, strlen(e.msg));
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

/* NULL: the end. */
static struct asked *next(struct asker *a)
{
    struct asked *q = NULL;
    pthread_mutex_lock(&a->lock);
    a->now = 0;
    while (!a->waiting && !a->quit)
        pthread_cond_wait(&a->woken, &a->lock);
    if (!a->quit) {
        q = a->waiting;
        a->waiting = q->next;
        a->now = q->tag;
        atomic_store(&a->stop, false);
    }
    pthread_mutex_unlock(&a->lock);
    return q;
}

static void *run(void *arg)
{
    struct asker *a = arg;
    struct http *h = http_open();
    for (struct asked *q; (q = next(a)); asked_free(q))
        ask(a, h, q);
    http_close(h);
    return NULL;
}

/* ---- the owner's side ---- */

static void asker_free(struct asker *a)
{
    for (struct asked *q = a->waiting, *after; q; q = after) {
        after = q->next;
        asked_free(q);
    }
    pthread_cond_destroy(&a->woken);
    pthread_mutex_destroy(&a->lock);
    buf_free(&a->line);
    free(a->socket);
    free(a);
}

struct asker *asker_open(const char *socket, struct mailbox *out, struct err *e)
{
    struct asker *a = memory_zeroed(1, sizeof *a);
    a->socket = memory_strdup(socket);
    a->out = out;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->woken, NULL);
    if (!quiet_thread(&a->thread, run, a))
        return a;
    err_set(e, "cannot start a thread that asks another q35chat");
    asker_free(a);
    return NULL;
}

void asker_close(struct asker *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->quit = true;
    atomic_store(&a->stop, true);
    pthread_cond_signal(&a->woken);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
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
    pthread_mutex_lock(&a->lock);
    struct asked **end = &a->waiting;
    while (*end)
        end = &(*end)->next;
    *end = q;
    pthread_cond_signal(&a->woken);
    pthread_mutex_unlock(&a->lock);
}

void asker_stop(struct asker *a, uint32_t tag)
{
    struct asked *dropped = NULL;
    pthread_mutex_lock(&a->lock);
    for (struct asked **at = &a->waiting; *at && !dropped; at = dropped ? at : &(*at)->next)
        if ((*at)->tag == tag) {
            dropped = *at;
            *at = dropped->next;
        }
    if (!dropped && a->now == tag)
        atomic_store(&a->stop, true);
    pthread_mutex_unlock(&a->lock);
    if (dropped) {
        tell(a, ASKER_ENDED, tag, "", 0);
        asked_free(dropped);
    }
}
