/* The files of a repository: resolves the revision to a commit, then reads a recursive listing page by page. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fetch/cache.h"
#include "fetch/hub.h"

enum { MAX_PAGES = 1000, MAX_PAGE_BYTES = 64 << 20, MAX_PATH = 1000 };

/* --- asking ------------------------------------------------------------------------------------------------------------ */

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

/* <https://...>; rel="next", or the address without the host */
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

/* One attempt, with redirects.  False; *again is set if another attempt may help. */
static bool ask_once(struct fetch *f, struct http *h, const char *url, const char *what, struct page *p, bool *again, struct err *e)
{
    enum { MAX_HOPS = 8 };
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

static bool ask(struct fetch *f, const char *url, const char *what, struct page *p, struct err *e)
{
    struct http *h = hub_take(f);
    struct err why = {0};
    bool ok = false, again = true;
    int failures = 0;
    while (!ok && again) {
        ok = ask_once(f, h, url, what, p, &again, &why);
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

/* --- what was answered -------------------------------------------------------------------------------------------------- */

static bool is_hex(const char *s, size_t n)
{
    return s && strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

/* Is the path safe to append to any directory?  Not absolute, no "..", no characters with a meaning for terminals or shells. */
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

static bool no_two_alike(const struct fetch_repo *r, struct err *e)
{
    for (int i = 1; i < r->n_files; i++)
        if (!strcmp(r->files[i - 1].path, r->files[i].path))
            return err_set(e, "the hub's list of %s names %s twice", r->name, r->files[i].path);
    return true;
}

static bool find_commit(struct fetch *f, struct fetch_repo *r, const char *what, struct err *e)
{
    struct buf url = {0};
    struct page p = {0};
    buf_addf(&url, "%s/api/models/", f->endpoint.data);
    http_escape(&url, r->name, "/");
    buf_adds(&url, "/revision/");
    http_escape(&url, r->revision, "");
    bool ok = ask(f, url.data, what, &p, e);
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
        ok = ok && ask(f, url.data, what, &p, e);
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
    return ok && no_two_alike(r, e);
}

/* --- without the hub ------------------------------------------------------------------------------------------------------ */

static bool list_local(struct fetch_repo *r, struct err *e)
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

/* --------------------------------------------------------------------------------------------------------------------------- */

/* Letters, digits, "-._" and one slash between two of them. */
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
    bool ok = f->offline ? list_local(r, e) : find_commit(f, r, what.data, e) && list_files(f, r, what.data, e);
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
