#include "engine/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/memory.h"
#include "config/limits.h"

enum {
    PAGE = 4096,                        /* everything begins at a multiple of this, so that no write touches the bytes of another one */
    ROOT_AT = PAGE,                     /* two roots, a page each */
    DATA_AT = 3 * PAGE,
    MOST_SECTIONS = 1 << 20,
    LOCK_TRIES = 100, LOCK_TRY_MS = 20,
};
static const char MAGIC[16] = "q35chat session";

/* The first page. */
struct header {
    char     magic[16];
    uint32_t version, unused;
    struct fingerprint identity;
    uint64_t checksum;                  /* of the members above */
};

/* A root has the place of the index.  Of two intact roots the one with the greater number counts; a commit overwrites the other one. */
struct root {
    uint64_t number;                    /* from 1 on; 0: no root */
    uint64_t index_at, index_bytes, index_checksum;
    uint64_t checksum;                  /* of the members above */
};

/* The index consists of this head, the sections, the ids and, up to its end, the pictures. */
struct index_head { uint64_t n_sections, n_ids; };

struct extent { uint64_t from, to; };
struct extents { struct extent *all; int n, cap; };

struct checkpoint {
    int   fd;
    char *path;
    struct root     root;               /* the root that counts */
    struct extents  held;               /* parts of the file that it refers to, which must not be overwritten */
    struct extents  fresh;              /* parts of the file that were written since the last commit */
    struct checkpoint_section *sections;
    int   n_sections, cap_sections;
    struct span_buf spans;
    struct fingerprint identity;
    uint32_t version;
    size_t written;
};

/* --- places in the file ------------------------------------------------------------------------------------------- */

static uint64_t whole_pages(uint64_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

static void extents_add(struct extents *l, uint64_t at, uint64_t bytes)
{
    l->all = memory_grow(l->all, l->n, &l->cap, sizeof *l->all);
    l->all[l->n++] = (struct extent){at, at + whole_pages(bytes)};
}

static int by_place(const void *a, const void *b)
{
    const struct extent *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Returns all parts of the file that are in use, by offset. */
static struct extents taken(const struct checkpoint *c)
{
    struct extents all = {0};
    extents_add(&all, 0, DATA_AT);
    for (int i = 0; i < c->held.n; i++)
        extents_add(&all, c->held.all[i].from, c->held.all[i].to - c->held.all[i].from);
    for (int i = 0; i < c->fresh.n; i++)
        extents_add(&all, c->fresh.all[i].from, c->fresh.all[i].to - c->fresh.all[i].from);
    qsort(all.all, (size_t)all.n, sizeof *all.all, by_place);
    return all;
}

/* Returns the offset of the first unused gap that is large enough, or of the end. */
static uint64_t free_place(const struct checkpoint *c, uint64_t bytes)
{
    struct extents all = taken(c);
    uint64_t end = all.all[0].to;
    for (int i = 1; i < all.n && all.all[i].from < end + whole_pages(bytes); i++)
        end = all.all[i].to > end ? all.all[i].to : end;
    free(all.all);
    return end;
}

/* Gives unused parts back to the file system, if that can punch holes. */
static void give_back(struct checkpoint *c)
{
    struct extents all = taken(c);
    uint64_t end = all.all[0].to;
    for (int i = 1; i < all.n; i++) {
        if (all.all[i].from > end)
            (void)!fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)end, (off_t)(all.all[i].from - end));
        end = all.all[i].to > end ? all.all[i].to : end;
    }
    free(all.all);
    (void)!ftruncate(c->fd, (off_t)end);
}

/* Makes `held` the parts that the root refers to, and `fresh` empty.  Called after a root was read or written. */
static void hold(struct checkpoint *c)
{
    c->held.n = c->fresh.n = 0;
    if (c->root.number)
        extents_add(&c->held, c->root.index_at, c->root.index_bytes);
    for (int i = 0; i < c->n_sections; i++)
        extents_add(&c->held, c->sections[i].at, c->sections[i].bytes);
}

/* --- reading and writing ------------------------------------------------------------------------------------------- */

/* Writes bytes at this place of the file and counts them. */
static bool put(struct checkpoint *c, const void *from, uint64_t bytes, uint64_t at, struct err *e)
{
    if (!file_write_at(c->fd, from, bytes, at))
        return err_set(e, "cannot write %s: %s", c->path, strerror(errno));
    c->written += bytes;
    return true;
}

static bool sync_file(const struct checkpoint *c, struct err *e)
{
    return !fdatasync(c->fd) || errno == EINVAL || err_set(e, "cannot write %s: %s", c->path, strerror(errno));
}

static bool damaged(const struct checkpoint *c, const char *what, struct err *e)
{
    return err_set(e, "%s is damaged: %s", c->path, what);
}

static void fill_header(const struct checkpoint *c, void *page)
{
    struct header h = {.version = c->version, .identity = c->identity};
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    h.checksum = checksum(&h, offsetof(struct header, checksum));
    memcpy(page, &h, sizeof h);
}

/* Makes the file one that has pictures, before the first index that has some. */
static bool raise_version(struct checkpoint *c, struct err *e)
{
    char page[PAGE] = {0};
    if (!c->spans.pictures.n || c->version == CHECKPOINT_VERSION)
        return true;
    c->version = CHECKPOINT_VERSION;
    fill_header(c, page);
    return put(c, page, sizeof page, 0, e) && sync_file(c, e);
}

/* --- opening ------------------------------------------------------------------------------------------------------- */

/* Reads the first page and checks magic, version, checksum and that the file belongs to this model and its settings. */
static bool read_header(struct checkpoint *c, struct err *e)
{
    struct header h;
    if (!file_read_at(c->fd, &h, sizeof h, 0) || memcmp(h.magic, MAGIC, sizeof MAGIC))
        return err_set(e, "%s is no checkpoint of a conversation", c->path);
    c->version = h.version;
    if (h.version != CHECKPOINT_VERSION && h.version != CHECKPOINT_TEXT_VERSION)
        return err_set(e, "%s is of version %u, expected %d or %d", c->path, h.version, CHECKPOINT_TEXT_VERSION, CHECKPOINT_VERSION);
    if (h.checksum != checksum(&h, offsetof(struct header, checksum)))
        return damaged(c, "the checksum of its first page is wrong", e);
    if (h.identity.low != c->identity.low || h.identity.high != c->identity.high)
        return err_set(e, "%s is of another model, KV recipe or --prompt-math", c->path);
    return true;
}

/* True if the section lies within the file and its rows follow those of the sections before, which end at *n_rows. */
static bool section_ok(const struct checkpoint_section *s, uint64_t size, int32_t *n_rows)
{
    bool ok = checkpoint_is_rows(s) ? s->from == *n_rows && s->end > s->from && s->end <= s->to : s->from == s->to && s->end == s->to && s->from > 0;
    if (checkpoint_is_rows(s))
        *n_rows = s->end;
    return ok && !s->unused && s->at % PAGE == 0 && s->at >= DATA_AT && s->at <= size && (s->bytes || checkpoint_is_rows(s))
           && s->bytes <= size - s->at;
}

/* Returns the size of an index without pictures. */
static uint64_t text_bytes(struct index_head h)
{
    return sizeof h + h.n_sections * sizeof(struct checkpoint_section) + h.n_ids * sizeof(int32_t);
}

/* UINT64_MAX: the length of the index fits no number of pictures. */
static uint64_t n_pictures(const struct root *r, struct index_head h)
{
    const uint64_t bytes = r->index_bytes - text_bytes(h);
    return bytes % sizeof(struct picture) ? UINT64_MAX : bytes / sizeof(struct picture);
}

/* Reads the counts of the index and checks them against its length: the size of a sparse file is no measure of its content. */
static bool read_index_head(const struct checkpoint *c, const struct root *r, uint64_t size, struct index_head *h)
{
    return r->index_at >= DATA_AT && r->index_at % PAGE == 0 && r->index_at <= size && r->index_bytes <= size - r->index_at
        && r->index_bytes >= sizeof *h && file_read_at(c->fd, h, sizeof *h, r->index_at) && h->n_sections <= MOST_SECTIONS && h->n_ids <= LIMIT_CTX
        && r->index_bytes >= text_bytes(*h)
        && (r->index_bytes == text_bytes(*h) || (c->version > CHECKPOINT_TEXT_VERSION && n_pictures(r, *h) <= LIMIT_PICTURES));
}

/* Fills sections and spans from the bytes of an index, whose head is `h`. False if a section or the spans are not valid. */
static bool take_index(struct checkpoint *c, const char *index, const struct root *r, struct index_head h, uint64_t size)
{
    c->sections = memory_resized(c->sections, h.n_sections * sizeof *c->sections);
    c->n_sections = c->cap_sections = (int)h.n_sections;
    memcpy(c->sections, index + sizeof h, h.n_sections * sizeof *c->sections);
    int32_t n_rows = 0;
    for (int i = 0; i < c->n_sections; i++)
        if (!section_ok(&c->sections[i], size, &n_rows) || c->sections[i].end > (int32_t)h.n_ids)
            return false;
    if (n_rows != (int32_t)h.n_ids)
        return false;
    /* The parts of the index need not lie where their types may be read. */
    const size_t n_ids = (size_t)h.n_ids, n = (size_t)n_pictures(r, h);
    int32_t *ids = memory_alloc(n_ids * sizeof *ids);
    struct picture *pictures = memory_alloc(n * sizeof *pictures);
    memcpy(ids, index + text_bytes(h) - n_ids * sizeof *ids, n_ids * sizeof *ids);
    memcpy(pictures, index + text_bytes(h), n * sizeof *pictures);
    const struct spans s = {ids, (int)n_ids, pictures, (int)n};
    const bool ok = spans_valid(s);
    span_buf_cut(&c->spans, 0);
    if (ok)
        span_buf_add(&c->spans, s, s.n);
    free(ids);
    free(pictures);
    return ok;
}

/* Reads the index that the root points to and makes it the current one.  False if it is damaged. */
static bool read_root(struct checkpoint *c, const struct root *r, uint64_t size)
{
    struct index_head h;
    if (!read_index_head(c, r, size, &h))
        return false;
    char *index = memory_alloc(r->index_bytes);
    bool ok = file_read_at(c->fd, index, r->index_bytes, r->index_at) && checksum(index, r->index_bytes) == r->index_checksum
           && take_index(c, index, r, h, size);
    free(index);
    if (ok)
        c->root = *r;
    return ok;
}

/* Takes the newer root if it and its index can be read, else the other one. */
static bool read_roots(struct checkpoint *c, struct err *e)
{
    static const struct root none;
    struct root r[2];
    struct stat st;
    if (fstat(c->fd, &st) || !file_read_at(c->fd, &r[0], sizeof r[0], ROOT_AT) || !file_read_at(c->fd, &r[1], sizeof r[1], ROOT_AT + PAGE)
        || st.st_size < DATA_AT)
        return damaged(c, "it ends too early", e);
    if (!memcmp(&r[0], &none, sizeof none) && !memcmp(&r[1], &none, sizeof none))
        return true;                    /* a file that was just made */
    bool good[2];
    for (int i = 0; i < 2; i++)
        good[i] = r[i].number && r[i].number < UINT64_MAX / 2 && r[i].number % 2 == (uint64_t)i
               && r[i].checksum == checksum(&r[i], offsetof(struct root, checksum));
    for (int i = 0; i < 2; i++) {
        int newest = good[1] && (!good[0] || r[1].number > r[0].number);
        if (good[newest] && read_root(c, &r[newest], (uint64_t)st.st_size))
            return true;
        good[newest] = false;
    }
    return damaged(c, "its index cannot be read", e);
}

/* Locks the file.  Waits a little: a program that is about to end may still hold the lock. */
static bool lock(const struct checkpoint *c, int how, struct err *e)
{
    const struct timespec moment = {.tv_nsec = LOCK_TRY_MS * 1000000L};
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (!flock(c->fd, how | LOCK_NB))
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_set(e, "cannot lock %s: %s", c->path, strerror(errno));
        nanosleep(&moment, NULL);
    }
    return err_set(e, "%s is in use by another q35chat", c->path);
}

static struct checkpoint *make(const char *path, int fd, struct fingerprint identity)
{
    struct checkpoint *c = memory_zeroed(1, sizeof *c);
    c->fd = fd;
    c->path = memory_strdup(path);
    c->identity = identity;
    c->version = CHECKPOINT_TEXT_VERSION;
    return c;
}

void checkpoint_close(struct checkpoint *c)
{
    if (!c)
        return;
    close(c->fd);
    free(c->path);
    free(c->held.all);
    free(c->fresh.all);
    free(c->sections);
    span_buf_free(&c->spans);
    free(c);
}

/* Opens and locks a checkpoint.  NULL if that failed, or with *useless if the file has no contents that this model can use; a missing file leaves `e`
 * empty. */
static struct checkpoint *open_as(const char *path, struct fingerprint identity, int flags, int lock_as, bool *useless, struct err *e)
{
    struct stat st;
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) {
        *useless = errno == ELOOP;      /* the file is a symbolic link */
        if (errno != ENOENT)
            err_set(e, "cannot open %s: %s", path, strerror(errno));
        return NULL;
    }
    struct checkpoint *c = make(path, fd, identity);
    bool ok = (!fstat(fd, &st) && S_ISREG(st.st_mode)) || err_set(e, "%s is not a regular file", path);
    ok = ok && lock(c, lock_as, e);
    *useless = ok && !(read_header(c, e) && read_roots(c, e));
    if (!ok || *useless) {
        checkpoint_close(c);
        return NULL;
    }
    hold(c);
    return c;
}

struct checkpoint *checkpoint_open(const char *path, struct fingerprint identity, bool *useless, struct err *e)
{
    *e = (struct err){0};
    *useless = false;
    return open_as(path, identity, O_RDONLY, LOCK_SH, useless, e);
}

/* Makes a file under another name and renames it when its first pages are written. */
static struct checkpoint *make_file(const char *path, struct fingerprint identity, struct err *e)
{
    struct buf tmp = {0};
    char pages[DATA_AT] = {0};
    buf_addf(&tmp, "%s.XXXXXX", path);
    int fd = mkostemp(tmp.data, O_CLOEXEC);
    struct checkpoint *c = fd < 0 ? NULL : make(path, fd, identity);
    bool ok = c || err_set(e, "cannot make %s: %s", path, strerror(errno));
    if (c)
        fill_header(c, pages);
    ok = ok && lock(c, LOCK_EX, e) && put(c, pages, sizeof pages, 0, e);       /* the first commit waits for the disk */
    if (ok && rename(tmp.data, path))
        ok = err_set(e, "cannot make %s: %s", path, strerror(errno));
    if (!ok && c) {
        unlink(tmp.data);
        checkpoint_close(c);
    }
    buf_free(&tmp);
    return ok ? c : NULL;
}

static bool still_named(const struct checkpoint *c)
{
    struct stat here, there;
    return !fstat(c->fd, &here) && !stat(c->path, &there) && here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

struct checkpoint *checkpoint_edit(const char *path, struct fingerprint identity, struct err *e)
{
    bool useless = false;
    *e = (struct err){0};
    struct checkpoint *c = open_as(path, identity, O_RDWR, LOCK_EX, &useless, e);
    if (c && still_named(c))
        return c;
    if (!c && !useless && *e->msg)
        return NULL;
    checkpoint_close(c);
    return make_file(path, identity, e);
}

/* --- contents -------------------------------------------------------------------------------------------------------- */

struct spans checkpoint_spans(const struct checkpoint *c)
{
    return spans_of(&c->spans);
}

const struct checkpoint_section *checkpoint_sections(const struct checkpoint *c, int *n)
{
    *n = c->n_sections;
    return c->sections;
}

bool checkpoint_read(const struct checkpoint *c, const struct checkpoint_section *s, void *to, struct err *e)
{
    if (!file_read_at(c->fd, to, s->bytes, s->at))
        return errno ? err_set(e, "cannot read %s: %s", c->path, strerror(errno)) : damaged(c, "it ends too early", e);
    if (checksum(to, s->bytes) == s->checksum)
        return true;
    return err_set(e, "%s is damaged: the checksum of its %s %d is wrong", c->path, checkpoint_is_rows(s) ? "rows from" : "states at", s->from);
}

/* Drops the sections for which goes() is true. */
static void keep_sections(struct checkpoint *c, bool (*goes)(const struct checkpoint_section *s, int pos), int pos)
{
    int n = 0;
    for (int i = 0; i < c->n_sections; i++)
        if (!goes(&c->sections[i], pos))
            c->sections[n++] = c->sections[i];
    c->n_sections = n;
}

static bool is_behind(const struct checkpoint_section *s, int pos)
{
    return checkpoint_is_rows(s) ? s->from >= pos : s->from > pos;
}

void checkpoint_cut(struct checkpoint *c, int n)
{
    if (n >= c->spans.ids.n)
        return;
    span_buf_cut(&c->spans, n);
    keep_sections(c, is_behind, n);
    for (int i = 0; i < c->n_sections; i++)
        c->sections[i].end = c->sections[i].end < n ? c->sections[i].end : n;
}

static bool stands_at(const struct checkpoint_section *s, int pos)
{
    return !checkpoint_is_rows(s) && s->from == pos;
}

void checkpoint_drop_states(struct checkpoint *c, int pos)
{
    keep_sections(c, stands_at, pos);
}

/* Writes a section into free space and appends it to the list; it counts only after the next root is written. */
static bool add(struct checkpoint *c, int from, int to, const void *data, size_t bytes, struct err *e)
{
    struct checkpoint_section s = {.from = from, .to = to, .end = to, .at = free_place(c, bytes), .bytes = bytes, .checksum = checksum(data, bytes)};
    if (c->n_sections == MOST_SECTIONS)
        return err_set(e, "%s has %d sections already, and no more are taken", c->path, MOST_SECTIONS);
    if (!put(c, data, bytes, s.at, e))
        return false;
    extents_add(&c->fresh, s.at, bytes);
    c->sections = memory_grow(c->sections, c->n_sections, &c->cap_sections, sizeof *c->sections);
    c->sections[c->n_sections++] = s;
    return true;
}

bool checkpoint_add_rows(struct checkpoint *c, struct spans s, int to, const void *rows, size_t bytes, struct err *e)
{
    CHECK(to > c->spans.ids.n);
    if (!add(c, c->spans.ids.n, to, rows, bytes, e))
        return false;
    span_buf_add(&c->spans, s, to);
    return true;
}

bool checkpoint_add_states(struct checkpoint *c, int pos, const void *states, size_t bytes, struct err *e)
{
    CHECK(pos > 0 && pos <= c->spans.ids.n && bytes);
    return add(c, pos, pos, states, bytes, e);
}

bool checkpoint_commit(struct checkpoint *c, struct err *e)
{
    struct index_head h = {.n_sections = (uint64_t)c->n_sections, .n_ids = (uint64_t)c->spans.ids.n};
    struct buf index = {0};
    buf_add(&index, &h, sizeof h);
    buf_add(&index, c->sections, (size_t)c->n_sections * sizeof *c->sections);
    buf_add(&index, c->spans.ids.data, (size_t)c->spans.ids.n * sizeof(int32_t));
    buf_add(&index, c->spans.pictures.all, (size_t)c->spans.pictures.n * sizeof(struct picture));
    struct root r = {.number = c->root.number + 1, .index_at = free_place(c, index.len), .index_bytes = index.len};
    r.index_checksum = checksum(index.data, index.len);
    r.checksum = checksum(&r, offsetof(struct root, checksum));
    char page[PAGE] = {0};
    memcpy(page, &r, sizeof r);
    bool ok = raise_version(c, e) && put(c, index.data, index.len, r.index_at, e) && sync_file(c, e)
              && put(c, page, sizeof page, ROOT_AT + r.number % 2 * PAGE, e) && sync_file(c, e);
    buf_free(&index);
    if (!ok)
        return false;
    c->root = r;
    hold(c);
    give_back(c);
    return true;
}

size_t checkpoint_bytes(const struct checkpoint *c)
{
    size_t n = DATA_AT;
    for (int i = 0; i < c->held.n; i++)
        n += c->held.all[i].to - c->held.all[i].from;
    return n;
}

size_t checkpoint_written(const struct checkpoint *c)
{
    return c->written;
}
