/* One range of one file: requests it from the hub, follows redirects, and after a failure requests the rest. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "fetch/cache.h"
#include "fetch/hub.h"

enum { MAX_HOPS = 8 };

struct range {
    struct fetch            *f;
    const struct fetch_repo *r;
    const struct fetch_file *file;
    uint64_t    first, end;             /* the part that is still missing */
    fetch_take *take;
    void       *arg;
    bool        refused;                /* take() returned false: do not try again */
};

enum outcome { DONE, AGAIN, NEVER };

/* --- the answer ------------------------------------------------------------------------------------------------------ */

/* Without quotes and W/. */
static bool same_tag(const char *tag, const char *hash)
{
    size_t n = strlen(hash);
    if (!strncmp(tag, "W/", 2))
        tag += 2;
    bool quoted = *tag == '"';
    tag += quoted;
    return !strncmp(tag, hash, n) && (quoted ? !strcmp(tag + n, "\"") : !tag[n]);
}

/* The hub's own answer must be for the listed commit and file. */
static bool is_same_file(const struct range *g, const char *url, const struct http_reply *r, struct err *e)
{
    const char *commit = buf_str(&r->headers[HTTP_COMMIT]), *tag = buf_str(&r->headers[HTTP_LINKED_ETAG]);
    bool has_body = r->status == 200 || r->status == 206;
    if (!hub_is_ours(g->f, url))
        return true;
    if (!*tag && has_body)
        tag = buf_str(&r->headers[HTTP_ETAG]);
    if (*commit && strcmp(commit, g->r->commit))
        return err_set(e, "%s changed while it was read: it was commit %s, now the hub answers for %s", g->r->name, g->r->commit, commit);
    if (*tag && g->file->hash[0] && !same_tag(tag, g->file->hash))
        return err_set(e, "%s of %s changed while it was read: its hash was %s, now the hub says %s", g->file->path, g->r->name,
                       g->file->hash, tag);
    return true;
}

static bool is_range(const struct range *g, const struct http_reply *r, struct err *e)
{
    const char *said = buf_str(&r->headers[HTTP_RANGE]);
    uint64_t first, last, total;
    int used = 0;
    if (r->status == 200 && g->first == 0 && g->end == g->file->bytes)
        return true;                    /* the whole file was requested */
    if (r->status == 200)
        return err_set(e, "bytes %" PRIu64 " to %" PRIu64 " of %s were requested, but the hub sent the whole file", g->first, g->end - 1,
                       g->file->path);
    bool ok = sscanf(said, "bytes %" SCNu64 "-%" SCNu64 "/%n", &first, &last, &used) == 2 && used && first == g->first &&
              last == g->end - 1 && (!strcmp(said + used, "*") || (sscanf(said + used, "%" SCNu64, &total) == 1 && total == g->file->bytes));
    return ok || err_set(e, "bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 " of %s were requested, but the hub sent \"%s\"", g->first,
                         g->end - 1, g->file->bytes, g->file->path, said);
}

struct body {
    struct range *g;
    const char   *url;
};

static bool begin_body(void *arg, const struct http_reply *r, struct err *e)
{
    struct body *b = arg;
    return is_same_file(b->g, b->url, r, e) && is_range(b->g, r, e);
}

static bool take_body(void *arg, const void *bytes, size_t n, struct err *e)
{
    struct range *g = ((struct body *)arg)->g;
    uint64_t left = g->end - g->first;
    size_t mine = n < left ? n : (size_t)left;
    if (!g->take(g->arg, bytes, mine, e)) {
        g->refused = true;
        return false;
    }
    g->first += mine;
    return mine == n || err_set(e, "more came than was asked for");      /* not reported: all requested bytes have arrived */
}

/* --- the way to it --------------------------------------------------------------------------------------------------- */

static void resolve_url(const struct range *g, struct buf *url)
{
    buf_addf(url, "%s/", g->f->endpoint.data);
    http_escape(url, g->r->name, "/");
    buf_addf(url, "/resolve/%s/", g->r->commit);
    http_escape(url, g->file->path, "/");
}

/* One answer.  AGAIN with *next set is a redirect. */
static enum outcome hop(struct range *g, struct http *h, const char *url, struct buf *next, struct err *e)
{
    struct body body = {g, url};
    struct http_reply r = {0};
    const char *token = hub_is_ours(g->f, url) && g->f->token.len ? g->f->token.data : NULL;
    struct http_request q = {
        .url = url, .token = token, .ranged = true, .first = g->first, .last = g->end - 1, .stall_s = g->f->o.stall_s, .stop = &g->f->stop,
        .begin = begin_body, .take = take_body, .arg = &body,
    };
    enum http_result result = http_ask(h, &q, &r, e);
    enum outcome out = AGAIN;
    if (result == HTTP_HOPELESS || (result == HTTP_ENDED && (g->refused || fetch_stopped(g->f))))
        out = NEVER;
    if (g->first == g->end)
        out = DONE;
    if (result != HTTP_ANSWERED)
        goto done;
    hub_note_limits(g->f, &r);
    if (r.status == 200 || r.status == 206) {
        if (out == AGAIN)
            err_set(e, "the connection ended %" PRIu64 " bytes too early", g->end - g->first);
    } else if (r.status >= 300 && r.status < 400 && r.location.len) {
        if (!is_same_file(g, url, &r, e))
            goto done;
        if (!http_may_follow(url, r.location.data)) {
            err_set(e, "%s is redirected from https to \"%s\", which is not safe", g->file->path, r.location.data);
            out = NEVER;
            goto done;
        }
        buf_add(next, r.location.data, r.location.len);
    } else {
        struct buf what = {0};
        buf_addf(&what, "%s of %s", g->file->path, g->r->name);
        out = hub_refusal(g->f, url, &r, what.data, e) ? AGAIN : NEVER;
        buf_free(&what);
    }
done:
    http_reply_free(&r);
    return out;
}

/* Requests the range from the hub and follows redirects.  Every attempt starts at the hub, since the address that it returns is signed
 * for this range only and expires. */
static enum outcome attempt(struct range *g, struct http *h, struct err *e)
{
    struct buf url = {0}, next = {0};
    enum outcome out = AGAIN;
    resolve_url(g, &url);
    for (int i = 0; i < MAX_HOPS; i++) {
        buf_reset(&next);
        out = hub_wait(g->f, e) ? hop(g, h, url.data, &next, e) : NEVER;
        if (!next.len)
            break;
        buf_reset(&url);
        buf_add(&url, next.data, next.len);
        err_set(e, "%s: more than %d redirects", g->file->path, MAX_HOPS);
    }
    buf_free(&url);
    buf_free(&next);
    return out;
}

static bool asked(struct range *g, struct err *e)
{
    struct http *h = hub_take(g->f);
    struct err why = {0};
    enum outcome out = AGAIN;
    for (int failures = 0; g->first < g->end && out == AGAIN;) {
        uint64_t before = g->first;
        out = attempt(g, h, &why);
        if (out != AGAIN)
            break;
        failures = g->first > before ? 1 : failures + 1;
        if (failures >= g->f->o.tries) {
            err_set(e, "cannot get %s of %s, tried %d times: %s", g->file->path, g->r->name, failures, why.msg);
            break;
        }
        if (!hub_back_off(g->f, failures, &why))
            out = NEVER;
    }
    hub_give(g->f, h);
    if (out == NEVER)
        err_set(e, "%s", why.msg);
    return g->first == g->end;
}

/* --- without the hub -------------------------------------------------------------------------------------------------- */

static bool local(struct range *g, struct err *e)
{
    static const size_t PIECE = 1 << 20;
    struct buf path = {0}, bytes = {0};
    bool ok = cache_repo(&path, g->r->name, e);
    if (ok)
        buf_addf(&path, "/snapshots/%s/%s", g->r->commit, g->file->path);
    int fd = ok ? open(path.data, O_RDONLY | O_CLOEXEC) : -1;
    if (ok && fd < 0)
        ok = err_set(e, "cannot open %s: %s (HF_HUB_OFFLINE is set)", path.data, strerror(errno));
    buf_reserve(&bytes, PIECE);
    while (ok && g->first < g->end) {
        size_t n = g->end - g->first < PIECE ? (size_t)(g->end - g->first) : PIECE;
        ssize_t got = pread(fd, bytes.data, n, (off_t)g->first);
        if (got <= 0)
            ok = err_set(e, "cannot read %s: %s", path.data, got < 0 ? strerror(errno) : "it is shorter than it was");
        else
            ok = g->take(g->arg, bytes.data, (size_t)got, e);
        g->first += ok ? (uint64_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    buf_free(&path);
    buf_free(&bytes);
    return ok;
}

/* --------------------------------------------------------------------------------------------------------------------- */

bool fetch_range_to(struct fetch *f, const struct fetch_repo *r, const struct fetch_file *file, uint64_t offset, uint64_t n, fetch_take *to,
                    void *arg, struct err *e)
{
    struct range g = {.f = f, .r = r, .file = file, .first = offset, .end = offset + n, .take = to, .arg = arg};
    if (offset > file->bytes || n > file->bytes - offset)
        return err_set(e, "%s of %s has %" PRIu64 " bytes, %" PRIu64 " from %" PRIu64 " on were requested", file->path, r->name, file->bytes, n,
                       offset);
    return f->offline ? local(&g, e) : asked(&g, e);
}

static bool into_memory(void *arg, const void *bytes, size_t n, struct err *e)
{
    char **at = arg;
    (void)e;
    memcpy(*at, bytes, n);
    *at += n;
    return true;
}

bool fetch_range(struct fetch *f, const struct fetch_repo *r, const struct fetch_file *file, uint64_t offset, size_t n, void *dst,
                 struct err *e)
{
    char *at = dst;
    return fetch_range_to(f, r, file, offset, n, into_memory, &at, e);
}
