#include "fetch/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
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
#include "fetch/hub.h"

enum { STALL_S = 20, TRIES = 8 };
enum { MAX_PAGES = 1000, MAX_PAGE_BYTES = 64 << 20, MAX_PATH = 1000, MAX_HOPS = 8 };

static bool is_on(const char *name)
{
    const char *v = getenv(name);
    return v && (!strcmp(v, "1") || !strcasecmp(v, "on") || !strcasecmp(v, "yes") || !strcasecmp(v, "true"));
}

static void trim(struct buf *b)
{
    while (b->len && strchr(" \t\r\n", b->data[b->len - 1]))
        b->data[--b->len] = 0;
    size_t lead = strspn(buf_str(b), " \t\r\n");
    buf_consume(b, lead);
}

/* Reads the access token from the environment or the file it is kept in; none is fine.  False if it is more than one word. */
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

/* --- a page of the list ------------------------------------------------------------------------------------------------- */

struct page {
    struct buf text, next;              /* the body; URL of the next page, empty on the last one */
    bool too_long;
};

static bool begin_page(void *arg, const struct http_reply *r, struct err *e)
{
    struct page *p = arg;
    (void)r, (void)e;
    buf_reset(&p->text);
    return true;
}

static bool take_page(void *arg, const void *bytes, size_t n, struct err *e)
{
    struct page *p = arg;
    p->too_long = p->text.len + n > MAX_PAGE_BYTES;
    if (p->too_long)
        return err_set(e, "the hub's answer is longer than %d MiB; a list of files was expected", MAX_PAGE_BYTES >> 20);
    buf_add(&p->text, bytes, n);
    return true;
}

/* Finds the address of the next page in a header like <https://...>; rel="next"; the host may be missing. */
static void next_page(const struct fetch *f, const char *link, struct buf *next)
{
    buf_reset(next);
    for (const char *s = link; (s = strchr(s, '<')); s++) {
        const char *end = strchr(s, '>'), *comma = end ? strchr(end, ',') : NULL, *rel = end ? strstr(end, "rel=\"next\"") : NULL;
        if (rel && (!comma || rel < comma)) {
            buf_adds(next, s[1] == '/' ? f->endpoint.data : "");
            buf_add(next, s + 1, (size_t)(end - s - 1));
            return;
        }
    }
}

/* Makes one attempt, with redirects.  False: *again is true if another attempt may help. */
static bool try_page(struct fetch *f, struct http *h, const char *url, const char *what, struct page *p, bool *again, struct err *e)
{
    struct http_reply r = {0};
    struct buf at = {0};
    bool ok = false, redirected = true;
    buf_adds(&at, url);
    for (int hop = 0; redirected && hop < MAX_HOPS; hop++) {
        struct http_request q = {
            .url = at.data, .token = hub_is_ours(f, at.data) && f->token.len ? f->token.data : NULL, .stall_s = f->o.stall_s,
            .stop = &f->stop, .begin = begin_page, .take = take_page, .arg = p,
        };
        enum http_result result = hub_wait(f, e) ? http_ask(h, &q, &r, e) : HTTP_ENDED;
        redirected = false;
        *again = result == HTTP_BROKEN;
        if (result != HTTP_ANSWERED)
            break;
        hub_note_limits(f, &r);
        redirected = r.status >= 300 && r.status < 400 && r.location.len && http_may_follow(at.data, r.location.data);
        ok = r.status == 200;
        if (redirected) {
            err_set(e, "more than %d redirects for %s", MAX_HOPS, what);
            buf_reset(&at);
            buf_add(&at, r.location.data, r.location.len);
        } else if (!ok) {
            *again = hub_refusal(f, at.data, &r, what, e);
        }
    }
    if (ok)
        next_page(f, buf_str(&r.headers[HTTP_LINK]), &p->next);
    buf_free(&at);
    http_reply_free(&r);
    return ok;
}

/* Requests a page of the hub's API, again after failures that may pass. `what` names the repository in messages. */
static bool request_page(struct fetch *f, const char *url, const char *what, struct page *p, struct err *e)
{
    struct http *h = hub_take(f);
    struct err why = {0};
    bool ok = false, again = true;
    int failures = 0;
    while (!ok && again) {
        ok = try_page(f, h, url, what, p, &again, &why);
        again = again && !ok && ++failures < f->o.tries && hub_back_off(f, failures, &why);
    }
    hub_give(f, h);
    if (ok)
        return true;
    return failures ? err_set(e, "cannot list %s of %s, tried %d times: %s", what, f->endpoint.data, failures, why.msg) : err_set(e, "%s", why.msg);
}

static json_t *parse(const struct page *p, const char *what, struct err *e)
{
    json_error_t je;
    json_t *j = json_loadb(buf_str(&p->text), p->text.len, 0, &je);
    if (!j)
        err_set(e, "the hub's answer for %s is not JSON (%s); HF_ENDPOINT may not be the address of a hub", what, je.text);
    return j;
}

/* --- the list of a repository ---------------------------------------------------------------------------------------------- */

static bool is_hex(const char *s, size_t n)
{
    return s && strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

/* True if the path may be appended to any directory: not absolute, no "..", no characters with a meaning for terminals or shells. */
static bool is_safe(const char *path)
{
    if (!*path || *path == '/' || strlen(path) > MAX_PATH || path[strlen(path) - 1] == '/')
        return false;
    for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (!strcspn(part, "/") || (part[0] == '.' && (strcspn(part, "/") == 1 || (part[1] == '.' && strcspn(part, "/") == 2))))
            return false;
    for (const char *s = path; *s; s++)
        if ((unsigned char)*s < ' ' || *s == '\\' || *s == 0x7f)
            return false;
    return true;
}

/* Adds an entry of the hub's list; folders are skipped, an unsafe path or a missing hash is refused. */
static bool add_file(struct fetch_repo *r, int *cap, json_t *entry, struct err *e)
{
    const char *type = json_string_value(json_object_get(entry, "type")), *path = json_string_value(json_object_get(entry, "path"));
    const char *hash = json_string_value(json_object_get(entry, "oid"));
    json_t *size = json_object_get(entry, "size"), *lfs = json_object_get(entry, "lfs");
    if (type && !strcmp(type, "directory"))
        return true;
    if (json_is_object(lfs)) {
        hash = json_string_value(json_object_get(lfs, "oid"));
        size = json_object_get(lfs, "size") ? json_object_get(lfs, "size") : size;
    }
    if (hash && !strncmp(hash, "sha256:", 7))
        hash += 7;
    if (!type || !path || !json_is_integer(size) || json_integer_value(size) < 0 || !is_hex(hash, json_is_object(lfs) ? 64 : 40))
        return err_set(e, "the hub's list of %s has an entry without path, size or hash", r->name);
    if (!is_safe(path))
        return err_set(e, "the hub's list of %s has the file name \"%s\", which is not a safe relative path", r->name, path);
    r->files = memory_grow(r->files, r->n_files, cap, sizeof *r->files);
    struct fetch_file *f = &r->files[r->n_files++];
    *f = (struct fetch_file){.path = memory_strdup(path), .bytes = (uint64_t)json_integer_value(size), .lfs = json_is_object(lfs)};
    memcpy(f->hash, hash, strlen(hash) + 1);
    return true;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct fetch_file *)a)->path, ((const struct fetch_file *)b)->path);
}

/* Finds the commit of the repository's revision. */
static bool find_commit(struct fetch *f, struct fetch_repo *r, const char *what, struct err *e)
{
    struct buf url = {0};
    struct page p = {0};
    buf_addf(&url, "%s/api/models/", f->endpoint.data);
    http_escape(&url, r->name, "/");
    buf_adds(&url, "/revision/");
    http_escape(&url, r->revision, "");
    bool ok = request_page(f, url.data, what, &p, e);
    json_t *j = ok ? parse(&p, what, e) : NULL;
    const char *commit = json_string_value(json_object_get(j, "sha"));
    ok = j != NULL;
    if (ok && !is_hex(commit, 40))
        ok = err_set(e, "the hub does not say which commit %s is", what);
    else if (ok)
        memcpy(r->commit, commit, 41);
    json_decref(j);
    buf_free(&p.text);
    buf_free(&p.next);
    buf_free(&url);
    return ok;
}

/* Lists all files of the commit, by path, over as many pages as the hub's list has. */
static bool list_files(struct fetch *f, struct fetch_repo *r, const char *what, struct err *e)
{
    struct buf url = {0};
    struct page p = {0};
    int pages = 0, cap = 0;
    bool ok = true;
    buf_addf(&url, "%s/api/models/", f->endpoint.data);
    http_escape(&url, r->name, "/");
    buf_addf(&url, "/tree/%s?recursive=true", r->commit);
    while (ok && url.len) {
        ok = ++pages <= MAX_PAGES || err_set(e, "the hub's list of %s does not end after %d pages", r->name, MAX_PAGES);
        ok = ok && request_page(f, url.data, what, &p, e);
        json_t *j = ok ? parse(&p, what, e) : NULL;
        ok = j != NULL;
        if (ok && !json_is_array(j))
            ok = err_set(e, "the hub's list of %s is not a list", what);
        for (size_t i = 0; ok && i < json_array_size(j); i++)
            ok = add_file(r, &cap, json_array_get(j, i), e);
        json_decref(j);
        buf_reset(&url);
        buf_add(&url, buf_str(&p.next), p.next.len);
    }
    if (ok && !r->n_files)
        ok = err_set(e, "%s holds no files", what);
    if (r->n_files)
        qsort(r->files, (size_t)r->n_files, sizeof *r->files, by_path);
    buf_free(&p.text);
    buf_free(&p.next);
    buf_free(&url);
    for (int i = 1; ok && i < r->n_files; i++)
        if (!strcmp(r->files[i - 1].path, r->files[i].path))
            ok = err_set(e, "the hub's list of %s names %s twice", r->name, r->files[i].path);
    return ok;
}

/* Lists the files in the cache on this machine. */
static bool list_cached(struct fetch_repo *r, struct err *e)
{
    struct buf folder = {0}, dir = {0};
    bool ok = cache_repo(&folder, r->name, e);
    if (ok && !cache_commit(folder.data, r->revision, r->commit))
        ok = err_set(e, "%s, revision %s, is not in %s, and HF_HUB_OFFLINE is set", r->name, r->revision, folder.data);
    if (ok) {
        cache_snapshot(&dir, folder.data, r->commit);
        ok = cache_list(dir.data, r, e);
    }
    buf_free(&folder);
    buf_free(&dir);
    return ok;
}

/* True for letters, digits, "-._" and one slash between two of them. */
static bool is_name(const char *name)
{
    size_t n = strlen(name), slash = strcspn(name, "/");
    return n && n < 200 && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/") == n && slash && name[0] != '.' &&
           (slash == n || (name[slash + 1] && name[slash + 1] != '.' && !strchr(name + slash + 1, '/'))) && !strstr(name, "--") &&
           !strstr(name, "..");
}

bool fetch_is_name(const char *name, const char *revision, struct err *e)
{
    if (!is_name(name))
        return err_set(e, "\"%s\" is not the name of a repository; expected ORG/NAME", name);
    return !revision || !*revision || is_safe(revision) || err_set(e, "\"%s\" is not a revision; expected a branch, a tag or a commit", revision);
}

bool fetch_list(struct fetch *f, const char *name, const char *revision, struct fetch_repo *r, struct err *e)
{
    struct buf what = {0};
    *r = (struct fetch_repo){.name = memory_strdup(name), .revision = memory_strdup(revision && *revision ? revision : "main")};
    if (!fetch_is_name(name, revision, e))
        return false;
    buf_addf(&what, "%s", name);
    if (strcmp(r->revision, "main"))
        buf_addf(&what, ", revision %s", r->revision);
    bool ok = f->offline ? list_cached(r, e) : find_commit(f, r, what.data, e) && list_files(f, r, what.data, e);
    buf_free(&what);
    return ok;
}

void fetch_repo_free(struct fetch_repo *r)
{
    for (int i = 0; i < r->n_files; i++)
        free((char *)r->files[i].path);
    free(r->files);
    free(r->name);
    free(r->revision);
    *r = (struct fetch_repo){0};
}

const struct fetch_file *fetch_find(const struct fetch_repo *r, const char *path)
{
    struct fetch_file key = {.path = path};
    return r->n_files ? bsearch(&key, r->files, (size_t)r->n_files, sizeof *r->files, by_path) : NULL;
}

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

/* --- a range of a file ------------------------------------------------------------------------------------------------ */

/* True if an ETag is this hash, quoted or not, weak or not. */
static bool same_tag(const char *tag, const char *hash)
{
    size_t n = strlen(hash);
    if (!strncmp(tag, "W/", 2))
        tag += 2;
    bool quoted = *tag == '"';
    tag += quoted;
    return !strncmp(tag, hash, n) && (quoted ? !strcmp(tag + n, "\"") : !tag[n]);
}

/* Checks that the hub's own reply is for the listed commit and file; other hosts do not say. */
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

/* Checks that the reply has exactly the bytes that were requested. */
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

/* Passes bytes of the reply on, up to the end of the range.  False if the taker refuses them, or more bytes came. */
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
    return mine == n || err_set(e, "more bytes came than were requested");      /* not shown: all requested bytes have arrived */
}

/* Sends one request.  AGAIN with *next set is a redirect. */
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
    buf_addf(&url, "%s/", g->f->endpoint.data);
    http_escape(&url, g->r->name, "/");
    buf_addf(&url, "/resolve/%s/", g->r->commit);
    http_escape(&url, g->file->path, "/");
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

/* Requests the range, and after a failure its rest, until it is complete or too many attempts failed. */
static bool read_from_hub(struct range *g, struct err *e)
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

/* Reads the range from the cache on this machine. */
static bool read_from_cache(struct range *g, struct err *e)
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

bool fetch_range_to(struct fetch *f, const struct fetch_repo *r, const struct fetch_file *file, uint64_t offset, uint64_t n, fetch_take *to,
                    void *arg, struct err *e)
{
    struct range g = {.f = f, .r = r, .file = file, .first = offset, .end = offset + n, .take = to, .arg = arg};
    if (offset > file->bytes || n > file->bytes - offset)
        return err_set(e, "%s of %s has %" PRIu64 " bytes, %" PRIu64 " from %" PRIu64 " on were requested", file->path, r->name, file->bytes, n,
                       offset);
    return f->offline ? read_from_cache(&g, e) : read_from_hub(&g, e);
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
