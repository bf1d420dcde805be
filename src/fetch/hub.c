#include "fetch/hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "fetch/cache.h"

enum { STALL_S = 20, TRIES = 8, FIRST_BACK_OFF_MS = 500, MAX_BACK_OFF_MS = 30000, UNSAID_WAIT_S = 10, MAX_WAIT_S = 3600, NOTE_EVERY_S = 10 };

static bool is_on(const char *name)
{
    const char *v = getenv(name);
    return v && (!strcmp(v, "1") || !strcasecmp(v, "on") || !strcasecmp(v, "yes") || !strcasecmp(v, "true"));
}

/* --- the token ------------------------------------------------------------------------------------------------------ */

static void trim(struct buf *b)
{
    while (b->len && strchr(" \t\r\n", b->data[b->len - 1]))
        b->data[--b->len] = 0;
    size_t lead = strspn(buf_str(b), " \t\r\n");
    buf_consume(b, lead);
}

static bool read_token(struct fetch *f, struct err *e)
{
    enum { LONGEST = 4096 };
    const char *given = getenv("HF_TOKEN"), *file = getenv("HF_TOKEN_PATH");
    struct buf path = {0};
    bool ok = true;
    if (given && *given)
        buf_adds(&f->token, given);
    else if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        ;
    else if (file && *file)
        buf_adds(&path, file);
    else if (cache_home(&path, NULL))
        buf_adds(&path, "/token");
    if (path.len && access(path.data, F_OK) == 0)
        ok = file_read(&f->token, path.data, LONGEST, e);
    trim(&f->token);
    if (ok && strpbrk(buf_str(&f->token), " \t\r\n"))
        ok = err_set(e, "%s holds more than one word; a token was expected", path.len ? path.data : "HF_TOKEN");
    buf_free(&path);
    return ok;
}

/* --- opening and closing --------------------------------------------------------------------------------------------- */

struct fetch *fetch_open(const struct fetch_options *o, struct err *e)
{
    const char *endpoint = getenv("HF_ENDPOINT");
    struct fetch *f = memory_zeroed(1, sizeof *f);
    f->o = o ? *o : (struct fetch_options){0};
    f->o.stall_s = f->o.stall_s ? f->o.stall_s : STALL_S;
    f->o.tries = f->o.tries ? f->o.tries : TRIES;
    f->offline = is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE");
    f->jitter = (uint32_t)clock_ns() | 1;
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&f->woken, &clock);
    pthread_condattr_destroy(&clock);
    buf_adds(&f->endpoint, endpoint && *endpoint ? endpoint : "https://huggingface.co");
    while (f->endpoint.len && f->endpoint.data[f->endpoint.len - 1] == '/')
        f->endpoint.data[--f->endpoint.len] = 0;
    bool ok = strncasecmp(f->endpoint.data, "http://", 7) == 0 || strncasecmp(f->endpoint.data, "https://", 8) == 0;
    if (!ok)
        err_set(e, "HF_ENDPOINT is \"%s\"; an address that begins with https:// or http:// was expected", f->endpoint.data);
    if (ok && read_token(f, e))
        return f;
    fetch_close(f);
    return NULL;
}

void fetch_close(struct fetch *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->n_idle; i++)
        http_close(f->idle[i]);
    free(f->idle);
    pthread_cond_destroy(&f->woken);
    pthread_mutex_destroy(&f->lock);
    buf_free(&f->endpoint);
    buf_free(&f->token);
    free(f);
}

void fetch_stop(struct fetch *f)
{
    atomic_store(&f->stop, true);
    pthread_mutex_lock(&f->lock);
    pthread_cond_broadcast(&f->woken);
    pthread_mutex_unlock(&f->lock);
}

bool fetch_stopped(const struct fetch *f)
{
    return atomic_load(&f->stop);
}

bool fetch_offline(const struct fetch *f)
{
    return f->offline;
}

struct http *hub_take(struct fetch *f)
{
    pthread_mutex_lock(&f->lock);
    struct http *h = f->n_idle ? f->idle[--f->n_idle] : NULL;
    pthread_mutex_unlock(&f->lock);
    return h ? h : http_open();
}

void hub_give(struct fetch *f, struct http *h)
{
    pthread_mutex_lock(&f->lock);
    f->idle = memory_grow(f->idle, f->n_idle, &f->cap_idle, sizeof *f->idle);
    f->idle[f->n_idle++] = h;
    pthread_mutex_unlock(&f->lock);
}

bool hub_is_ours(const struct fetch *f, const char *url)
{
    return http_same_origin(f->endpoint.data, url);
}

/* --- waiting --------------------------------------------------------------------------------------------------------- */

/* False when stopped. */
static bool sleep_until(struct fetch *f, int64_t ns, struct err *e)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    pthread_mutex_lock(&f->lock);
    while (!atomic_load(&f->stop) && clock_ns() < ns)
        pthread_cond_timedwait(&f->woken, &f->lock, &t);
    pthread_mutex_unlock(&f->lock);
    return !atomic_load(&f->stop) || err_set(e, "stopped");
}

bool hub_wait(struct fetch *f, struct err *e)
{
    pthread_mutex_lock(&f->lock);
    int64_t ns = f->not_before_ns;
    pthread_mutex_unlock(&f->lock);
    return sleep_until(f, ns, e);
}

/* "t" of a header like: "resolvers";r=0;t=55.  0 if requests remain or the header is absent. */
static int limit_wait_s(const char *header)
{
    const char *r = strstr(header, ";r="), *t = strstr(header, ";t=");
    return r && t && atoi(r + 3) == 0 ? atoi(t + 3) : 0;
}

void hub_note_limits(struct fetch *f, const struct http_reply *r)
{
    int wait_s = limit_wait_s(buf_str(&r->headers[HTTP_LIMIT]));
    if (r->status == 429 && r->retry_after_s > wait_s)
        wait_s = r->retry_after_s;
    if (r->status == 429 && wait_s <= 0)
        wait_s = UNSAID_WAIT_S;
    if (wait_s <= 0)
        return;
    wait_s = wait_s < MAX_WAIT_S ? wait_s : MAX_WAIT_S;
    int64_t until = clock_ns() + wait_s * INT64_C(1000000000);
    pthread_mutex_lock(&f->lock);
    bool later = until > f->not_before_ns + 1000000000;         /* every connection gets the same limit; report it once */
    if (until > f->not_before_ns)
        f->not_before_ns = until;
    pthread_mutex_unlock(&f->lock);
    if (later && f->o.note) {
        char text[100];
        snprintf(text, sizeof text, "the hub limits requests and asks to wait for %d s", wait_s);
        f->o.note(f->o.arg, text);
    }
}

/* Several connections fail at once for one reason. */
static void note_failure(struct fetch *f, int failures, const struct err *why)
{
    struct buf text = {0};
    pthread_mutex_lock(&f->lock);
    int64_t now = clock_ns();
    bool due = f->o.note && (!f->noted_ns || now - f->noted_ns > NOTE_EVERY_S * INT64_C(1000000000));
    if (due)
        f->noted_ns = now;
    pthread_mutex_unlock(&f->lock);
    buf_addf(&text, "%s; attempt %d of %d follows", why->msg, failures + 1, f->o.tries);
    if (due)
        f->o.note(f->o.arg, text.data);
    buf_free(&text);
}

bool hub_back_off(struct fetch *f, int failures, struct err *e)
{
    if (failures > 2)                   /* one that is lost now and then is nobody's concern */
        note_failure(f, failures, e);
    int64_t ms = FIRST_BACK_OFF_MS;
    for (int i = 1; i < failures && ms < MAX_BACK_OFF_MS; i++)
        ms *= 2;
    if (ms > MAX_BACK_OFF_MS)
        ms = MAX_BACK_OFF_MS;
    pthread_mutex_lock(&f->lock);
    f->jitter ^= f->jitter << 13;
    f->jitter ^= f->jitter >> 17;
    f->jitter ^= f->jitter << 5;
    ms = ms / 2 + (int64_t)(f->jitter % (uint32_t)ms);          /* times 0.5 to 1.5, so that connections do not retry in step */
    pthread_mutex_unlock(&f->lock);
    return sleep_until(f, clock_ns() + ms * 1000000, e);
}

/* --- refusals -------------------------------------------------------------------------------------------------------- */

bool hub_refusal(const struct fetch *f, const char *url, const struct http_reply *r, const char *what, struct err *e)
{
    struct buf host = {0};
    const char *said = buf_str(&r->headers[HTTP_MESSAGE]);
    bool ours = hub_is_ours(f, url), again = false;
    http_host(url, &host);
    const char *at = buf_str(&host);
    if (ours && (r->status == 401 || r->status == 403))
        err_set(e, "%s refuses %s (status %d%s%s): %s", at, what, r->status, *said ? ", " : "", said,
                f->token.len ? "the token does not give access to it, or its licence was not accepted on the hub's page"
                             : "it does not exist, or needs an access token in HF_TOKEN");
    else if (ours && r->status == 404)
        err_set(e, "%s does not have %s (status 404%s%s)", at, what, *said ? ", " : "", said);
    else {
        again = r->status == 408 || r->status == 416 || r->status == 429 || r->status >= 500 || !ours;
        err_set(e, "%s answered status %d for %s%s%s", at, r->status, what, *said ? ": " : "", said);
    }
    buf_free(&host);
    return again;
}
