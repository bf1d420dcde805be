/* Feeds a download with damaged input, from others and from earlier runs: a hub's lists, its headers and ranges, the journal of a download that was
 * killed, the record of a checkpoint's sources.  All are valid ones that are changed at random.  The hub is a function here, in the place of
 * http_ask(). */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/file.h"
#include "base/memory.h"
#include "fetch/digest.h"
#include "fetch/hub.h"
#include "prepare/part.h"
#include "prepare/provenance.h"
#include "tests/fuzz/disk.h"
#include "tests/fuzz/mutate.h"
#include "tests/tmpdir.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define SHA256 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- the hub ---- */

static const char endpoint[] = "https://hub.test";
static const char *const commits[] = {"{\"sha\": \"" COMMIT "\", \"id\": \"org/name\"}"};
static const char *const pages[] = {
    "[{\"type\": \"file\", \"oid\": \"" COMMIT "\", \"size\": 12, \"path\": \"config.json\"}, {\"type\": \"directory\", \"oid\": \"" COMMIT
    "\", \"size\": 0, \"path\": \"sub\"}]",
    "[{\"type\": \"file\", \"oid\": \"" COMMIT "\", \"size\": 3, \"path\": \"sub/model-00001-of-00002.safetensors\", \"lfs\": {\"oid\": \"" SHA256
    "\", \"size\": 5000}}]",
    "[{\"type\": \"file\", \"oid\": \"" COMMIT "\", \"size\": 3, \"path\": \"a b.txt\", \"lfs\": {\"oid\": \"sha256:" SHA256
    "\"}}, {\"type\": \"file\", \"oid\": \"" COMMIT "\", \"size\": 9, \"path\": \"\xe6\x97\xa5.json\"}]",
};
static const char *const list_words[] = {
    "\"path\"", "\"../x\"", "\"/etc/passwd\"", "\"a//b\"", "\"./a\"", "\"a/..\"", "\"a/\"", "\"\"", "\"config.json\"", "\"lfs\": {}", "\"lfs\": null",
    "\"size\": -1", "\"size\": 18446744073709551615", "\"type\": \"directory\"", "\"type\": \"file\"", "\"oid\": \"sha256:\"", COMMIT, SHA256,
    "\\u0000",
    "\\u001b[2J", "\\\\", "ABCDEF", "[", "]", "{", "}", "null", ",",
};
static const char *const links[] = {
    "<https://hub.test/api/models/org/name/tree/x?cursor=a>; rel=\"next\"", "</api/models/org/name/tree/x?cursor=b>; rel=\"next\"",
    "<https://hub.test/first>; rel=\"first\", <https://hub.test/next>; rel=\"next\"", "<https://elsewhere.test/tree>; rel=\"next\"",
};
static const char *const link_words[] = {"<", ">", ";", ",", "rel=\"next\"", "rel=\"first\"", "/", "http://hub.test", "file:///etc/passwd", "<>"};
static const char *const limits[] = {"\"resolvers\";r=0;t=55", "\"api\";r=5;t=300", "r=0;t=1;r=0;t=99999999999", ";t=-5;r=0"};
static const char *const locations[] = {
    "https://cdn.test/x?sig=1", "http://hub.test/x", "/relative", "https://hub.test.evil/", "https://hub.test@evil.test/", "ftp://x/",
};

static struct {
    bool honest;                        /* it answers as a hub should */
    int  n_asked, n_sent;               /* requests; bytes that were accepted */
    bool told;                          /* the token went elsewhere */
    bool wrong_range;                   /* bytes were accepted of a reply that says that they are others */
    char file[5000];                    /* what the ranges are of */
    size_t n_file;
} hub;

/* 0 to 255 at each position, and so on. */
static char byte_at(size_t i)
{
    return (char)(i * 7 + i / 251);
}

static void set_header(struct http_reply *r, enum http_header h, const char *text, const char *const *words, uint32_t n_words)
{
    buf_reset(&r->headers[h]);
    buf_adds(&r->headers[h], text);
    if (!hub.honest && one_in(2))
        mutate(&r->headers[h], words, n_words, text);
    if (r->headers[h].data)
        r->headers[h].len = strlen(r->headers[h].data);         /* headers have no zero bytes */
}

/* Sends the body in pieces.  False: it was not wanted to its end. */
static bool send_body(const struct http_request *q, const struct http_reply *r, const char *body, size_t n, struct err *e)
{
    if (n && !q->begin(q->arg, r, e))
        return false;
    for (size_t at = 0, k; at < n; at += k) {
        k = 1 + rnd(one_in(2) ? 8 : (uint32_t)n);
        k = k < n - at ? k : n - at;
        if (!q->take(q->arg, body + at, k, e))
            return false;
        hub.n_sent += (int)k;
    }
    return true;
}

static bool send_text(const struct http_request *q, const struct http_reply *r, const char *text, const char *other, struct err *e)
{
    struct buf body = {0};
    buf_adds(&body, text);
    if (!hub.honest)
        mutate(&body, list_words, COUNT(list_words), other);
    const bool ok = send_body(q, r, buf_str(&body), body.len, e);
    buf_free(&body);
    return ok;
}

/* A range, or other bytes under the name of it. */
static bool send_range(const struct http_request *q, struct http_reply *r, struct err *e)
{
    unsigned long long first = q->first, last = q->last, total = hub.n_file;
    struct buf says = {0};
    r->status = 206;
    unsigned long long *const wrong = &(unsigned long long *[]){&first, &last, &total}[rnd(3)][0];
    const bool lies = !hub.honest && one_in(4);
    if (lies)
        *wrong += 1 + rnd(3);
    buf_addf(&says, "bytes %llu-%llu/%llu", first, last, total);
    const bool odd = !lies && !hub.honest && one_in(4);
    if (odd)
        mutate(&says, extreme_numbers, COUNT(extreme_numbers), says.data);
    buf_add(&r->headers[HTTP_RANGE], buf_str(&says), strlen(buf_str(&says)));
    buf_free(&says);
    size_t n = (size_t)(q->last - q->first + 1);
    if (!hub.honest && one_in(3))
        n = rnd((uint32_t)n + 40);
    const int before = hub.n_sent;
    char *bytes = memory_alloc(n ? n : 1);
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at((size_t)q->first + i);
    const bool ok = send_body(q, r, bytes, n, e);
    hub.wrong_range |= lies && hub.n_sent > before;
    free(bytes);
    return ok;
}

static void add_headers(struct http_reply *r)
{
    set_header(r, HTTP_ETAG, one_in(2) ? "\"" SHA256 "\"" : "W/\"" COMMIT "\"", list_words, COUNT(list_words));
    set_header(r, HTTP_COMMIT, COMMIT, list_words, COUNT(list_words));
    set_header(r, HTTP_LIMIT, ANY(limits), extreme_numbers, COUNT(extreme_numbers));
    if (hub.n_asked < 12 && one_in(3))
        set_header(r, HTTP_LINK, ANY(links), link_words, COUNT(link_words));
    if (one_in(4))
        set_header(r, HTTP_MESSAGE, "Repository not found", odd_bytes, COUNT(odd_bytes));
    r->retry_after_s = one_in(4) ? (int)rnd(1u << 31) - (1 << 30) : 0;
}

static void refuse(struct http_reply *r)
{
    static const int statuses[] = {301, 302, 307, 400, 401, 403, 404, 408, 416, 429, 500, 503, 100, 0, -1, 999};
    r->status = ANY(statuses);
    if (r->status > 300 && r->status < 400 && rnd(4))
        buf_adds(&r->location, ANY(locations));
}

enum http_result __wrap_http_ask(struct http *h, const struct http_request *q, struct http_reply *r, struct err *e);
enum http_result __wrap_http_ask(struct http *h, const struct http_request *q, struct http_reply *r, struct err *e)
{
    static const enum http_result failures[] = {HTTP_BROKEN, HTTP_HOPELESS};
    (void)h;
    http_reply_free(r);
    hub.n_asked++;
    hub.told |= q->token && !http_same_origin(endpoint, q->url);
    if (!hub.honest && one_in(20)) {
        err_set(e, "no connection");
        return ANY(failures);
    }
    r->status = 200;
    if (!hub.honest || q->ranged)
        add_headers(r);
    if (hub.honest && q->ranged)
        buf_reset(&r->headers[HTTP_ETAG]);
    bool ok = true;
    if (!hub.honest && one_in(10))
        refuse(r);
    else if (q->ranged)
        ok = send_range(q, r, e);
    else
        ok = strstr(q->url, "/revision/") ? send_text(q, r, commits[0], pages[0], e)
                                          : send_text(q, r, hub.honest ? pages[hub.n_asked % 2] : ANY(pages), ANY(pages), e);
    return ok ? HTTP_ANSWERED : HTTP_ENDED;
}

/* Nothing waits here; what would be waited is looked at. */
bool __wrap_hub_wait(struct fetch *f, struct err *e);
bool __wrap_hub_wait(struct fetch *f, struct err *e)
{
    return !fetch_stopped(f) || err_set(e, "stopped");
}

bool __wrap_hub_back_off(struct fetch *f, int failures, struct err *e);
bool __wrap_hub_back_off(struct fetch *f, int failures, struct err *e)
{
    (void)e;
    assert_true(failures > 0 && failures < f->o.tries);
    return true;
}

static struct fetch *open_hub(void)
{
    const struct fetch_options o = {.tries = 3};
    struct err e;
    hub.n_asked = hub.n_sent = 0;
    hub.told = hub.wrong_range = false;
    struct fetch *f = fetch_open(&o, &e);
    assert_non_null(f);
    return f;
}

static const char *wrong_hub(const struct fetch *f)
{
    if (hub.told)
        return "the token went to another server";
    if (f->not_before_ns && f->not_before_ns > clock_ns() + INT64_C(3601) * 1000000000)
        return "the hub can make it wait for more than an hour";
    return NULL;
}

/* ---- lists ---- */

static bool is_safe_path(const char *s)
{
    if (!*s || *s == '/' || strlen(s) > 1000)
        return false;
    for (const char *part = s; part;) {
        const size_t n = strcspn(part, "/");
        if (!n || (n == 1 && !strncmp(part, ".", 1)) || (n == 2 && !strncmp(part, "..", 2)))
            return false;
        part = part[n] ? part + n + 1 : NULL;
    }
    for (; *s; s++)
        if (iscntrl((unsigned char)*s) || *s == '\\')
            return false;
    return true;
}

static bool is_hash(const char *s, size_t n)
{
    return strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

static const char *wrong_list(const struct fetch_repo *r)
{
    if (!is_hash(r->commit, 40) || !r->n_files)
        return "the list has no commit or no files";
    for (int i = 0; i < r->n_files; i++) {
        const struct fetch_file *f = &r->files[i];
        if (!is_safe_path(f->path))
            return "a path is not a safe relative one";
        if (!is_hash(f->hash, f->lfs ? 64 : 40))
            return "a hash has the wrong length";
        if (f->bytes > INT64_MAX)
            return "a size is negative";
        if (i && strcmp(r->files[i - 1].path, f->path) >= 0)
            return "the files are not sorted, or one is there twice";
        if (fetch_find(r, f->path) != f)
            return "a file is not found by its path";
    }
    return NULL;
}

static void test_list__any_answer_is_refused_or_gives_safe_paths_and_hashes(void **state)
{
    struct long_run run;
    long listed = 0;
    (void)state;
    for (run = long_run_begin(0, 3000); next_input(&run);) {
        struct fetch_repo r;
        struct err e = {{0}};
        hub.honest = one_in(16);
        struct fetch *f = open_hub();
        const bool ok = fetch_list(f, "org/name", one_in(4) ? "v1.0" : NULL, &r, &e);
        const char *wrong = ok ? wrong_list(&r) : *e.msg ? NULL : "a list is refused without a reason";
        if (hub.honest && !ok)
            wrong = "an honest list is refused";
        wrong = wrong ? wrong : wrong_hub(f);
        if (wrong)
            fail_input(&run, wrong, e.msg, strlen(e.msg));
        listed += ok;
        fetch_repo_free(&r);
        fetch_close(f);
    }
    long_run_print(&run, run.n, "lists");
    print_message("%ld accepted\n", listed);
    assert_true(listed > 0);
}

/* ---- ranges ---- */

struct taken {
    size_t first, n;
    bool   wrong;
};

static bool take_bytes(void *arg, const void *bytes, size_t n, struct err *e)
{
    struct taken *t = arg;
    (void)e;
    for (size_t i = 0; i < n; i++)
        t->wrong |= ((const char *)bytes)[i] != byte_at(t->first + t->n + i);
    t->n += n;
    return true;
}

static void test_range__each_byte_comes_once_and_none_of_another_range(void **state)
{
    const struct fetch_file file = {.path = "sub/model.safetensors", .bytes = 5000, .lfs = true, .hash = SHA256};
    const struct fetch_repo repo = {.name = (char[]){"org/name"}, .revision = (char[]){"main"}, .commit = COMMIT};
    struct long_run run;
    long whole = 0;
    (void)state;
    hub.n_file = file.bytes;
    for (run = long_run_begin(0, 2000); next_input(&run);) {
        struct err e = {{0}};
        struct taken t = {.first = rnd(5000)};
        const size_t n = 1 + rnd(one_in(2) ? 20 : (uint32_t)(5000 - t.first));
        const bool fits = n <= 5000 - t.first;
        const char *wrong = NULL;
        hub.honest = one_in(8);
        struct fetch *f = open_hub();
        const bool ok = fetch_range_to(f, &repo, &file, t.first, n, take_bytes, &t, &e);
        if (t.n > n || (ok && t.n != n))
            wrong = "more or fewer bytes came than were asked for";
        if (t.wrong)
            wrong = "a byte came twice, or not in order";
        if (hub.wrong_range)
            wrong = "bytes were accepted of a reply that names another range";
        if (hub.honest && fits && !ok)
            wrong = "an honest range is refused";
        if (!ok && !*e.msg)
            wrong = "a range is refused without a reason";
        wrong = wrong ? wrong : wrong_hub(f);
        if (wrong)
            fail_input(&run, wrong, e.msg, strlen(e.msg));
        whole += ok;
        fetch_close(f);
    }
    long_run_print(&run, run.n, "ranges");
    print_message("%ld whole\n", whole);
    assert_true(whole > 0);
}

/* ---- bytes of a server ---- */

static const char *const replies[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"abc\"\r\nX-Repo-Commit: " COMMIT "\r\n\r\nhello",
    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/10\r\nContent-Length: 5\r\nX-Linked-Etag: W/\"x\"\r\n\r\nhello",
    "HTTP/1.1 302 Found\r\nLocation: https://cdn.test/x?y\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 100 Continue\r\nETag: a\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
    "HTTP/1.0 429 Slow down\r\nRetry-After: 7\r\nRateLimit: \"api\";r=0;t=9\r\nX-Error-Message: no\r\n\r\nbusy",
    "HTTP/1.1 404 Not Found\r\nLink: <https://a/>; rel=\"next\"\r\nContent-Length: 2\r\n\r\n{}",
};
static const char *const reply_words[] = {
    "HTTP/1.1 ", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 206 x\r\n", "\r\n", "\r\n\r\n", "Content-Length: ", "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n", "ETag:", "ETag: \t x \r\n",
    "Content-Range: bytes ", "Location: ", "Retry-After: ", "X-Repo-Commit:", "ffffffff", "0\r\n\r\n", ":", " ", "Content-Encoding: gzip\r\n",
};
static struct {
    pthread_mutex_t lock;
    int listener;
    struct buf raw;                     /* what it sends to whoever asks */
} raw_server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *serve_raw(void *arg)
{
    char piece[4096];
    (void)arg;
    for (int fd; (fd = accept(raw_server.listener, NULL, NULL)) >= 0; close(fd)) {
        if (recv(fd, piece, sizeof piece, 0) < 0)
            continue;
        pthread_mutex_lock(&raw_server.lock);
        (void)!send(fd, buf_str(&raw_server.raw), raw_server.raw.len, MSG_NOSIGNAL);
        pthread_mutex_unlock(&raw_server.lock);
        shutdown(fd, SHUT_WR);
        while (recv(fd, piece, sizeof piece, 0) > 0)
            ;
    }
    return NULL;
}

struct raw_body {
    struct buf bytes;
    int status;                         /* when it began; 0: it did not */
};

static bool begin_raw(void *arg, const struct http_reply *r, struct err *e)
{
    (void)e;
    ((struct raw_body *)arg)->status = r->status;
    return true;
}

static bool take_raw(void *arg, const void *bytes, size_t n, struct err *e)
{
    (void)e;
    buf_add(&((struct raw_body *)arg)->bytes, bytes, n);
    return true;
}

enum http_result __real_http_ask(struct http *h, const struct http_request *q, struct http_reply *r, struct err *e);

/* One request; appends all that came of it to `seen`. */
static const char *ask_raw(struct http *h, const char *path, struct buf *seen)
{
    atomic_bool stop = false;
    struct raw_body body = {{0}};
    struct buf refusal = {0};
    struct http_reply r = {0};
    struct err e = {{0}};
    const char *wrong = NULL;
    const struct http_request q = {
        .url = "http://localhost/x", .socket = path, .stall_s = 20, .stop = &stop, .begin = begin_raw, .take = take_raw, .arg = &body,
        .refusal = &refusal,
    };
    const enum http_result result = __real_http_ask(h, &q, &r, &e);
    if (result != HTTP_ANSWERED && !*e.msg)
        wrong = "a request fails without a reason";
    if (body.status && body.status != 200 && body.status != 206)
        wrong = "the body of a refusal is taken for the file";
    if (body.bytes.len && !body.status)
        wrong = "a body comes before its head";
    if (body.bytes.len + refusal.len > raw_server.raw.len)
        wrong = "more came than was sent";
    for (int i = 0; i < HTTP_N_HEADERS; i++) {
        const char *text = buf_str(&r.headers[i]);
        if (strchr(text, '\n') || *text == ' ' || *text == '\t' || r.headers[i].len > 16 << 10)
            wrong = "a header has a line end, begins with a blank or is too long";
        buf_addf(seen, "%s|", text);
    }
    buf_addf(seen, "%d %d %d %s %s ", (int)result, r.status, r.retry_after_s, buf_str(&r.location), e.msg);
    buf_add(seen, buf_str(&body.bytes), body.bytes.len);
    buf_add(seen, buf_str(&refusal), refusal.len);
    http_reply_free(&r);
    buf_free(&body.bytes);
    buf_free(&refusal);
    return wrong;
}

static void test_http__any_bytes_give_a_reply_or_a_reason_and_the_same_twice(void **state)
{
    struct buf once = {0}, twice = {0}, b = {0};
    struct long_run run;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct tmpdir d;
    pthread_t thread;
    (void)state;
    assert_true(tmpdir_make(&d));
    snprintf(at.sun_path, sizeof at.sun_path, "%s/sock", d.path);
    raw_server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(!bind(raw_server.listener, (struct sockaddr *)&at, sizeof at) && !listen(raw_server.listener, 16));
    assert_int_equal(pthread_create(&thread, NULL, serve_raw, NULL), 0);
    struct http *h = http_open();
    for (run = long_run_begin(0, 400); next_input(&run);) {
        buf_reset(&b);
        buf_adds(&b, ANY(replies));
        mutate(&b, reply_words, COUNT(reply_words), ANY(replies));
        pthread_mutex_lock(&raw_server.lock);
        buf_reset(&raw_server.raw);
        buf_add(&raw_server.raw, buf_str(&b), b.len);
        pthread_mutex_unlock(&raw_server.lock);
        buf_reset(&once);
        buf_reset(&twice);
        const char *wrong = ask_raw(h, at.sun_path, &once), *again = ask_raw(h, at.sun_path, &twice);
        wrong = wrong ? wrong : again;
        if (!wrong && (once.len != twice.len || memcmp(once.data, twice.data, once.len)))
            wrong = "the same bytes give another reply";
        if (wrong)
            fail_input(&run, wrong, buf_str(&b), b.len);
    }
    long_run_print(&run, 2 * run.n, "replies");
    http_close(h);                      /* its connection, on which the thread may still wait */
    shutdown(raw_server.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(raw_server.listener);
    tmpdir_drop(&d, "sock");
    tmpdir_remove(&d);
    buf_free(&once);
    buf_free(&twice);
    buf_free(&b);
    buf_free(&raw_server.raw);
}

/* ---- the journal ---- */

static const char *const journal_words[] = {
    "q35chat download 1", "bytes ", "range ", "hash ", "hashed ", "got", "end", "\n", " ", "0", "64", "128", "99", SHA256, "-1", "q35chat download 2",
};
static struct tmpdir dir;
static char final_path[96], part_path[112], journal_path[128];

static void name_files(void)
{
    snprintf(final_path, sizeof final_path, "%s/file", dir.path);
    snprintf(part_path, sizeof part_path, "%s%s", final_path, part_suffix);
    snprintf(journal_path, sizeof journal_path, "%s.journal", part_path);
}

struct download {
    struct fetch_file f;
    char   bytes[3000];
    bool   spoiled;                     /* a wrong byte was written, or the files of an earlier run were changed */
};

static void hash_of(const char *bytes, size_t n, bool sha256, char hex[DIGEST_HEX])
{
    struct digest *d = digest_open(sha256, n);
    digest_add(d, bytes, n);
    digest_end(d, hex);
    digest_close(d);
}

static void new_download(struct download *d)
{
    *d = (struct download){.f = {.path = "file", .bytes = one_in(10) ? rnd(3) : 1 + rnd(sizeof d->bytes), .lfs = rnd(4)}};
    for (size_t i = 0; i < d->f.bytes; i++)
        d->bytes[i] = (char)rnd(256);
    hash_of(d->bytes, d->f.bytes, d->f.lfs, d->f.hash);
    unlink(final_path);
    unlink(part_path);
    unlink(journal_path);
}

/* Damages the files that a run has left, as a crash or another program may. */
static void spoil(struct download *d)
{
    struct buf b = {0};
    const char *path = one_in(4) ? part_path : journal_path;
    if (file_read(&b, path, 1 << 20, NULL) && b.len) {
        mutate(&b, journal_words, COUNT(journal_words), b.data);
        /* only its size: bytes that the journal calls hashed are not read again */
        if (path == part_path) {
            struct buf was = {0};
            assert_true(file_read(&was, path, 1 << 20, NULL));
            const size_t n = b.len;
            buf_reset(&b);
            buf_add(&b, was.data, n < was.len ? n : was.len);
            while (b.len < n)
                buf_addc(&b, 'x');
            buf_free(&was);
        }
        assert_true(file_replace_unsynced(path, buf_str(&b), b.len));
        d->spoiled = true;
    }
    buf_free(&b);
}

static const char *write_some(struct download *d, struct part *p, int range)
{
    struct err e = {{0}};
    uint64_t at, left;
    part_missing(p, range, &at, &left);
    if (at > d->f.bytes || left > d->f.bytes - at || !left)
        return "a missing range is not in the file";
    const size_t n = 1 + rnd((uint32_t)left);
    char piece[sizeof d->bytes];
    memcpy(piece, d->bytes + at, n);
    if (one_in(60)) {
        piece[rnd((uint32_t)n)] ^= 1;
        d->spoiled = true;
    }
    if (!part_write(p, range, piece, n, &e))
        return *e.msg ? "the bytes could not be written" : "a write fails without a reason";
    return NULL;
}

static const char *finish(struct download *d, struct part *p)
{
    struct err e = {{0}};
    struct buf b = {0};
    char hex[DIGEST_HEX] = "";
    bool wrong = false;
    const bool finished = part_finish(p, &wrong, &e), remains = disk.mode == DISK_WORKS && (!access(part_path, F_OK) || !access(journal_path, F_OK));
    if (finished) {
        assert_true(file_read(&b, final_path, 1 << 20, NULL));
        hash_of(b.data ? b.data : "", b.len, d->f.lfs, hex);
        const bool same = b.len == d->f.bytes && !strcmp(hex, d->f.hash);
        buf_free(&b);
        return wrong ? "a wrong file was finished" : !same ? "a file with wrong bytes got its name"
               : remains ? "remains are left" : NULL;
    }
    if (wrong)
        return !d->spoiled ? "a right file has a wrong hash" : remains ? "a wrong file stays" : NULL;
    return disk.mode != DISK_WORKS ? NULL : "a file could not be finished";
}

/* A run of the program until it ends, is killed, or has the file. */
static const char *download_once(struct download *d, bool *over)
{
    struct err e = {{0}};
    const char *wrong = NULL;
    struct part *p = part_open(final_path, &d->f, 1 + rnd(700), &e);
    if (!p)
        return disk.mode != DISK_WORKS ? NULL : "a download cannot be opened";
    for (int steps = (int)rnd(60); steps && !wrong && !*over; steps--) {
        const int range = part_take(p);
        if (part_bytes(p) > d->f.bytes)
            wrong = "more bytes are there than the file has";
        if (range < 0 && !part_hash_rest(p, &e))
            wrong = "what is there cannot be hashed";
        if (range < 0 && !wrong && !part_is_whole(p))
            wrong = "nothing is missing, and it is not whole";
        if (range >= 0) {
            wrong = wrong ? wrong : write_some(d, p, range);
            part_give(p, range);
        } else if (!wrong) {
            wrong = finish(d, p);
            *over = true;
        }
        if (!*over && one_in(4) && !part_commit(p, &e) && disk.mode == DISK_WORKS)
            wrong = "the journal cannot be written";
        if (one_in(3))
            part_hash_rest(p, &e);
    }
    part_close(p);                      /* what was not committed is forgotten: a kill */
    return wrong;
}

/* A file of the wrong size begins again while calls fail.  If its journal stays, and the file has its size by then, zeros count as downloaded. */
static void test_part__an_old_journal_is_not_believed_beside_a_new_file(void **state)
{
    struct download d;
    struct err e;
    (void)state;
    assert_true(tmpdir_make(&dir));
    name_files();
    rnd_state = 1;
    do
        new_download(&d);
    while (d.f.bytes < 100 || !d.f.lfs);
    for (uint32_t dice = 0; dice < 200; dice++) {
        struct part *p = part_open(final_path, &d.f, d.f.bytes, &e);
        assert_non_null(p);
        assert_true(part_write(p, 0, d.bytes, d.f.bytes - 1, &e) && part_commit(p, &e));
        part_close(p);
        assert_int_equal(truncate(part_path, 10), 0);
        disk.mode = DISK_FLAKY;
        disk.dice = dice * 40503;
        part_close(part_open(final_path, &d.f, d.f.bytes, &e));
        disk.mode = DISK_WORKS;
        p = part_open(final_path, &d.f, d.f.bytes, &e);
        assert_non_null(p);
        assert_int_equal(part_bytes(p), 0);
        part_close(p);
        part_drop(final_path);
    }
    tmpdir_remove(&dir);
}

static void test_part__no_journal_gives_a_file_with_wrong_bytes(void **state)
{
    struct download d;
    struct long_run run;
    struct buf journal = {0};
    long finished = 0;
    (void)state;
    assert_true(tmpdir_make(&dir));
    name_files();
    for (run = long_run_begin(0, 60); next_input(&run);) {
        const char *wrong = NULL;
        bool over = false;
        const bool spoils = one_in(2);
        new_download(&d);
        for (int runs = 0; runs < 40 && !wrong && !over; runs++) {
            disk.mode = one_in(8) ? (enum disk_mode)rnd(N_DISK_MODES) : DISK_WORKS;
            wrong = download_once(&d, &over);
            disk.mode = DISK_WORKS;
            if (spoils && one_in(3))
                spoil(&d);
        }
        buf_reset(&journal);
        file_read(&journal, journal_path, 1 << 20, NULL);
        if (wrong)
            fail_input(&run, wrong, buf_str(&journal), journal.len);
        finished += !access(final_path, F_OK);
        part_drop(final_path);
        if (!access(part_path, F_OK) || !access(journal_path, F_OK) || part_left(final_path))
            fail_input(&run, "remains are left after they were dropped", "", 0);
    }
    long_run_print(&run, run.n, "downloads");
    print_message("%ld finished\n", finished);
    assert_true(finished > 0);
    tmpdir_drop(&dir, "file");
    tmpdir_remove(&dir);
    buf_free(&journal);
}

/* ---- the record of a checkpoint's sources ---- */

static const char *const records[] = {
    "{\"format\": 1, \"program\": \"q35chat 0.1.0\", \"layout\": \"linked\", \"int4\": {\"repo\": \"a/b\", \"commit\": \"" COMMIT
    "\", \"fingerprint\": \"" SHA256 "\"}, \"fp8\": {\"repo\": null, \"commit\": null, \"fingerprint\": null}, \"files\": {\"x\": {\"bytes\": 5, "
    "\"sha256\": \"" SHA256 "\"}}, \"tensors\": {\"t\": {\"bytes\": 12345678901, \"sha256\": null}}}",
    "{\"format\": 1, \"program\": \"q\", \"layout\": \"compact\", \"int4\": {}, \"fp8\": {}, \"files\": {}, \"tensors\": {}}",
};
static const char *const record_words[] = {
    "\"format\": 1", "\"program\":", "\"layout\":", "\"files\":", "\"tensors\":", "\"bytes\":", "\"sha256\":", "\"\"", "null", "{}", "[]",
    "\"x\": {}", "-5", ",",
    "\\u0000", "\\u00e9",
};

static const char *print_twice(const char *folder)
{
    struct provenance p, again = {0};
    struct buf once = {0}, twice = {0};
    struct err e = {{0}};
    bool there;
    const char *wrong = NULL;
    if (!provenance_read(&p, folder, &there, &e)) {
        wrong = *e.msg && there ? NULL : "a record is refused without a reason";
    } else {
        provenance_print(&p, &once);
        assert_true(tmpdir_put(&dir, PROVENANCE_FILE, buf_str(&once), once.len));
        if (!provenance_read(&again, folder, &there, &e))
            wrong = "a record that was printed is not read again";
        else if (provenance_print(&again, &twice), strcmp(buf_str(&once), buf_str(&twice)))
            wrong = "a record changes when it is printed and read";
        else if (!provenance_same_sources(&p, &again) || p.n_files != again.n_files || p.n_tensors != again.n_tensors)
            wrong = "a record has other sources when it is read again";
        for (int i = 0; i < p.n_files && !wrong; i++)
            if (!provenance_find(again.files, again.n_files, p.files[i].name))
                wrong = "a file of the record is lost";
    }
    provenance_free(&p);
    provenance_free(&again);
    buf_free(&once);
    buf_free(&twice);
    return wrong;
}

static void test_provenance__any_record_is_refused_or_prints_itself_again(void **state)
{
    struct buf b = {0};
    struct long_run run;
    (void)state;
    assert_true(tmpdir_make(&dir));
    for (run = long_run_begin(0, 2000); next_input(&run);) {
        buf_reset(&b);
        buf_adds(&b, ANY(records));
        mutate(&b, record_words, COUNT(record_words), ANY(records));
        assert_true(tmpdir_put(&dir, PROVENANCE_FILE, buf_str(&b), b.len));
        const char *wrong = print_twice(dir.path);
        if (wrong)
            fail_input(&run, wrong, buf_str(&b), b.len);
    }
    long_run_print(&run, run.n, "records");
    tmpdir_drop(&dir, PROVENANCE_FILE);
    tmpdir_remove(&dir);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list__any_answer_is_refused_or_gives_safe_paths_and_hashes),
        cmocka_unit_test(test_range__each_byte_comes_once_and_none_of_another_range),
        cmocka_unit_test(test_http__any_bytes_give_a_reply_or_a_reason_and_the_same_twice),
        cmocka_unit_test(test_part__an_old_journal_is_not_believed_beside_a_new_file),
        cmocka_unit_test(test_part__no_journal_gives_a_file_with_wrong_bytes),
        cmocka_unit_test(test_provenance__any_record_is_refused_or_prints_itself_again),
    };
    setenv("HF_ENDPOINT", endpoint, 1);
    setenv("HF_TOKEN", "hf_secret", 1);
    unsetenv("HF_HUB_OFFLINE");
    unsetenv("TRANSFORMERS_OFFLINE");
    return cmocka_run_group_tests_name("downloads fuzz", tests, NULL, NULL);
}
