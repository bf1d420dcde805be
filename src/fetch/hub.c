#include "fetch/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"

enum { FIRST_BACK_OFF_MS = 500, MAX_BACK_OFF_MS = 30000, UNSAID_WAIT_S = 10, MAX_WAIT_S = 3600, NOTE_EVERY_S = 10 };

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

/* Sleeps until that time.  False when stopped. */
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

/* Returns "t" of a header like: "resolvers";r=0;t=55.  0 if requests remain or the header is absent. */
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

/* Notes a failure, at most one every NOTE_EVERY_S, since several connections fail at once for one reason. */
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
    if (failures > 2)                   /* a connection that is lost now and then is not worth a note */
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
