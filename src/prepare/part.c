#include "prepare/part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"
#include "fetch/cache.h"
#include "fetch/digest.h"

const char part_suffix[] = ".q35part";

struct part {
    struct buf final, path, journal;
    const struct fetch_file *f;
    int      fd;
    uint64_t range_bytes;
    int      n_ranges;
    pthread_mutex_t lock;               /* protects the members below */
    uint64_t *got;                      /* bytes present of each range, from its start */
    bool     *taken;
    uint64_t  total;                    /* sum of got */
    uint64_t  committed;                /* total at the last write of the journal */
    struct digest *digest;
    uint64_t  hashed;                   /* bytes covered by it */
    bool      hashing;                  /* a thread is hashing and owns digest */
    uint64_t  saved;                    /* bytes covered by the state of the journal */
    char      state[DIGEST_HEX];
};

static uint64_t range_length(const struct part *p, int i)
{
    uint64_t at = (uint64_t)i * p->range_bytes;
    return p->f->bytes - at < p->range_bytes ? p->f->bytes - at : p->range_bytes;
}

/* --- the journal -------------------------------------------------------------------------------------------------- */

static const char magic[] = "q35chat download 1";

static void write_journal(const struct part *p, struct buf *out)
{
    buf_addf(out, "%s\nbytes %" PRIu64 "\nrange %" PRIu64 "\nhash %s\nhashed %" PRIu64 " %s\ngot", magic, p->f->bytes, p->range_bytes,
             p->f->hash, p->saved, p->saved ? p->state : "0");
    for (int i = 0; i < p->n_ranges; i++)
        buf_addf(out, " %" PRIu64, p->got[i]);
    buf_adds(out, "\nend\n");
}

static void set_ranges(struct part *p, uint64_t range_bytes)
{
    p->range_bytes = range_bytes;
    p->n_ranges = (int)((p->f->bytes + range_bytes - 1) / range_bytes);
    free(p->got);
    free(p->taken);
    p->got = memory_zeroed((size_t)p->n_ranges + 1, sizeof *p->got);
    p->taken = memory_zeroed((size_t)p->n_ranges + 1, sizeof *p->taken);
}

/* Returns the number of contiguous bytes from the start. */
static uint64_t in_order(const struct part *p)
{
    uint64_t n = 0;
    for (int i = 0; i < p->n_ranges; i++) {
        n += p->got[i];
        if (p->got[i] < range_length(p, i))
            break;
    }
    return n;
}

/* Takes the progress of a download from its journal.  False if the journal is of another file, or not readable. */
static bool parse_journal(struct part *p, const char *text)
{
    char hash[DIGEST_HEX], state[DIGEST_HEX];
    uint64_t bytes, range, hashed;
    int used = 0;
    if (sscanf(text, "q35chat download 1 bytes %" SCNu64 " range %" SCNu64 " hash %64s hashed %" SCNu64 " %64s got%n", &bytes, &range, hash,
               &hashed, state, &used) != 5 || !used || bytes != p->f->bytes || strcmp(hash, p->f->hash) || range < 1 || range > bytes + (1 << 30) ||
        bytes / range > 1 << 20)
        return false;
    set_ranges(p, range);
    const char *s = text + used;
    for (int i = 0; i < p->n_ranges; i++) {
        char *end;
        errno = 0;
        p->got[i] = strtoull(s, &end, 10);
        if (end == s || errno || p->got[i] > range_length(p, i))
            return false;
        p->total += p->got[i];
        s = end;
    }
    if (strcmp(s, "\nend\n") || hashed > in_order(p))
        return false;
    if (hashed && p->f->lfs && digest_load(p->digest, state, hashed)) {
        p->hashed = p->saved = hashed;
        memcpy(p->state, state, sizeof state);
    }
    return true;
}

/* Reads the journal.  False if there is nothing to continue. */
static bool read_journal(struct part *p)
{
    enum { LONGEST = 32 << 20 };
    struct buf text = {0};
    struct stat st;
    bool ok = !fstat(p->fd, &st) && (uint64_t)st.st_size == p->f->bytes && file_read(&text, p->journal.data, LONGEST, NULL) &&
              parse_journal(p, buf_str(&text));
    buf_free(&text);
    return ok;
}

/* Removes the journal, and the temporary one that a kill may have left.  False, with errno, if the journal is still there. */
static bool drop_journal(const char *journal)
{
    struct buf fresh = {0};
    buf_addf(&fresh, "%s.new", journal);
    unlink(fresh.data);
    buf_free(&fresh);
    return !unlink(journal) || errno == ENOENT;
}

/* --- opening and closing --------------------------------------------------------------------------------------------- */

/* Begins with an empty file.  It gets its size when the old journal is gone for good: a journal beside a file of the right size is believed. */
static bool start_over(struct part *p, uint64_t range_bytes, struct err *e)
{
    set_ranges(p, range_bytes);
    p->total = p->hashed = p->saved = 0;
    if (ftruncate(p->fd, 0))
        return err_set(e, "cannot empty %s: %s", p->path.data, strerror(errno));
    if (!drop_journal(p->journal.data))
        return err_set(e, "cannot remove %s: %s", p->journal.data, strerror(errno));
    file_sync_name(p->journal.data);
    if (ftruncate(p->fd, (off_t)p->f->bytes))
        return err_set(e, "cannot make %s as large as %" PRIu64 " bytes: %s", p->path.data, p->f->bytes, strerror(errno));
    return true;
}

struct part *part_open(const char *final, const struct fetch_file *f, uint64_t range_bytes, struct err *e)
{
    struct part *p = memory_zeroed(1, sizeof *p);
    p->f = f;
    pthread_mutex_init(&p->lock, NULL);
    p->digest = digest_open(f->lfs, f->bytes);
    buf_adds(&p->final, final);
    buf_addf(&p->path, "%s%s", final, part_suffix);
    buf_addf(&p->journal, "%s.journal", p->path.data);
    bool ok = cache_make_parents(p->path.data, e);
    p->fd = ok ? open(p->path.data, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (ok && p->fd < 0)
        ok = err_set(e, "cannot make %s: %s", p->path.data, strerror(errno));
    if (ok && flock(p->fd, LOCK_EX | LOCK_NB))
        ok = err_set(e, "%s is being downloaded by another q35chat", final);
    if (ok && !read_journal(p))
        ok = start_over(p, range_bytes, e);
    p->committed = p->total;
    if (ok)
        return p;
    part_close(p);
    return NULL;
}

void part_close(struct part *p)
{
    if (!p)
        return;
    if (p->fd >= 0)
        close(p->fd);
    digest_close(p->digest);
    pthread_mutex_destroy(&p->lock);
    buf_free(&p->final);
    buf_free(&p->path);
    buf_free(&p->journal);
    free(p->got);
    free(p->taken);
    free(p);
}

uint64_t part_left(const char *final)
{
    struct buf path = {0};
    struct stat st;
    buf_addf(&path, "%s%s", final, part_suffix);
    uint64_t n = stat(path.data, &st) ? 0 : (uint64_t)st.st_blocks * 512;
    buf_free(&path);
    return n;
}

void part_drop(const char *final)
{
    struct buf path = {0}, journal = {0};
    buf_addf(&path, "%s%s", final, part_suffix);
    buf_addf(&journal, "%s.journal", path.data);
    int fd = open(path.data, O_RDWR | O_CLOEXEC);
    if (fd < 0 || !flock(fd, LOCK_EX | LOCK_NB)) {
        drop_journal(journal.data);
        unlink(path.data);
    }
    if (fd >= 0)
        close(fd);
    buf_free(&path);
    buf_free(&journal);
}

/* --- ranges ----------------------------------------------------------------------------------------------------------- */

static int free_range(const struct part *p)
{
    for (int i = 0; i < p->n_ranges; i++)
        if (!p->taken[i] && p->got[i] < range_length(p, i))
            return i;
    return -1;
}

int part_take(struct part *p)
{
    pthread_mutex_lock(&p->lock);
    int i = free_range(p);
    if (i >= 0)
        p->taken[i] = true;
    pthread_mutex_unlock(&p->lock);
    return i;
}

bool part_has_free(struct part *p)
{
    pthread_mutex_lock(&p->lock);
    bool any = free_range(p) >= 0;
    pthread_mutex_unlock(&p->lock);
    return any;
}

void part_give(struct part *p, int range)
{
    pthread_mutex_lock(&p->lock);
    p->taken[range] = false;
    pthread_mutex_unlock(&p->lock);
}

void part_missing(struct part *p, int range, uint64_t *offset, uint64_t *n)
{
    pthread_mutex_lock(&p->lock);
    *offset = (uint64_t)range * p->range_bytes + p->got[range];
    *n = range_length(p, range) - p->got[range];
    pthread_mutex_unlock(&p->lock);
}

uint64_t part_bytes(struct part *p)
{
    pthread_mutex_lock(&p->lock);
    uint64_t n = p->total;
    pthread_mutex_unlock(&p->lock);
    return n;
}

/* --- bytes ------------------------------------------------------------------------------------------------------------ */

/* Adds `n` bytes at `hashed` to the hash.  The caller has set `hashing`. */
static void hash(struct part *p, const void *bytes, size_t n)
{
    char state[DIGEST_HEX] = "";
    digest_add(p->digest, bytes, n);
    uint64_t saved = p->f->lfs ? digest_save(p->digest, state) : 0;
    pthread_mutex_lock(&p->lock);
    p->hashed += n;
    p->saved = saved;
    memcpy(p->state, state, sizeof state);
    p->hashing = false;
    pthread_mutex_unlock(&p->lock);
}

bool part_write(struct part *p, int range, const void *bytes, size_t n, struct err *e)
{
    pthread_mutex_lock(&p->lock);
    uint64_t at = (uint64_t)range * p->range_bytes + p->got[range];
    pthread_mutex_unlock(&p->lock);
    if (!file_write_at(p->fd, bytes, n, at))
        return err_set(e, "cannot write %s: %s; what was downloaded stays; run the same command to continue", p->path.data, strerror(errno));
    pthread_mutex_lock(&p->lock);
    p->got[range] += n;
    p->total += n;
    bool mine = !p->hashing && p->hashed == at;
    if (mine)
        p->hashing = true;
    pthread_mutex_unlock(&p->lock);
    if (mine)
        hash(p, bytes, n);
    return true;
}

bool part_hash_rest(struct part *p, struct err *e)
{
    enum { PIECE = 1 << 20 };
    char *piece = NULL;
    bool ok = true;
    while (ok) {
        pthread_mutex_lock(&p->lock);
        uint64_t at = p->hashed, n = p->hashing ? 0 : in_order(p) - at;
        if (n)
            p->hashing = true;
        pthread_mutex_unlock(&p->lock);
        if (!n)
            break;
        if (n > PIECE)
            n = PIECE;
        if (!piece)
            piece = memory_alloc(PIECE);
        ssize_t k = pread(p->fd, piece, n, (off_t)at);
        if (k > 0) {
            hash(p, piece, (size_t)k);
            continue;
        }
        ok = err_set(e, "cannot read %s: %s", p->path.data, k < 0 ? strerror(errno) : "it has become shorter");
        pthread_mutex_lock(&p->lock);
        p->hashing = false;
        pthread_mutex_unlock(&p->lock);
    }
    free(piece);
    return ok;
}

bool part_is_whole(struct part *p)
{
    pthread_mutex_lock(&p->lock);
    bool whole = p->hashed == p->f->bytes;
    pthread_mutex_unlock(&p->lock);
    return whole;
}

/* --- the disk ---------------------------------------------------------------------------------------------------------- */

/* Writes the journal to a second file that replaces the old one atomically; its name is fixed, so a kill leaves at most one. */
static bool replace(const char *path, const struct buf *text)
{
    struct buf fresh = {0};
    buf_addf(&fresh, "%s.new", path);
    int fd = open(fresh.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool ok = fd >= 0 && file_write(fd, text->data, text->len) && !fdatasync(fd);
    if (fd >= 0)
        ok = !close(fd) && ok;
    ok = ok && !rename(fresh.data, path);
    buf_free(&fresh);
    return ok;
}

bool part_commit(struct part *p, struct err *e)
{
    struct buf text = {0};
    pthread_mutex_lock(&p->lock);
    uint64_t total = p->total;
    bool due = total != p->committed;
    if (due)
        write_journal(p, &text);
    pthread_mutex_unlock(&p->lock);
    bool ok = true;
    if (due) {
        ok = !fdatasync(p->fd) && replace(p->journal.data, &text);
        if (!ok)
            err_set(e, "cannot write %s: %s", p->journal.data, strerror(errno));
        pthread_mutex_lock(&p->lock);
        p->committed = ok ? total : p->committed;
        pthread_mutex_unlock(&p->lock);
    }
    buf_free(&text);
    return ok;
}

bool part_finish(struct part *p, bool *wrong, struct err *e)
{
    char hex[DIGEST_HEX];
    digest_end(p->digest, hex);
    *wrong = strcmp(hex, p->f->hash) != 0;
    if (*wrong) {
        drop_journal(p->journal.data);
        unlink(p->path.data);
        return err_set(e, "%s was downloaded with the hash %s, expected %s as in the hub's list", p->f->path, hex, p->f->hash);
    }
    if (fdatasync(p->fd) || rename(p->path.data, p->final.data))
        return err_set(e, "cannot write %s: %s", p->final.data, strerror(errno));
    drop_journal(p->journal.data);
    file_sync_name(p->final.data);
    return true;
}
