#include "session/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/syncer.h"
#include "base/unicode.h"
#include "option/paths.h"
#include "session/kept.h"

#define MAX_FILE ((size_t)1 << 30)

struct session {
    int fd;
    char *path;
    struct buf header;                  /* the first line, for a rewrite */
    struct buf owed;                    /* lines to write before the next one */
    bool damaged;                       /* it has lines that could not be read */
    bool fresh;                         /* its name is not on the disk yet */
    struct syncer *syncer;              /* NULL: not needed yet */
};

/* True if a conversation may have this name: 1 to 200 bytes of valid UTF-8 without control characters that do not begin with a dot. */
static bool is_name(const char *name)
{
    size_t n = strlen(name);
    if (!n || n > 200 || *name == '.' || !unicode_valid(name, n))
        return false;
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127)
            return false;
    return true;
}

bool session_path_of(const char *name, struct buf *path, struct err *e)
{
    struct buf file = {0};
    bool ok = true;
    buf_reset(path);
    if (strchr(name, '/')) {
        paths_expand(path, name);
    } else if (!is_name(name)) {
        ok = err_set(e, "expected a name such as 'holiday', or a path with a slash in it");
    } else {
        buf_addf(&file, "sessions/%s.jsonl", name);
        ok = paths_state(path, file.data, e);
    }
    buf_free(&file);
    return ok;
}

/* Finds the file of an existing conversation. */
static bool find_path(const char *name, struct buf *path, struct err *e)
{
    if (!session_path_of(name, path, e))
        return false;
    return strchr(name, '/') || !access(path->data, F_OK) || errno != ENOENT
        || err_set(e, "no conversation %s; /sessions and q35chat session list show the names", name);
}

bool session_exists(const char *name, struct err *e)
{
    struct buf path = {0};
    bool ok = find_path(name, &path, e) && (!access(path.data, R_OK) || err_set(e, "cannot open %s: %s", path.data, strerror(errno)));
    buf_free(&path);
    return ok;
}

bool session_read_only(const char *name)
{
    struct buf path = {0};
    bool yes = session_path_of(name, &path, NULL) && !access(path.data, R_OK) && access(path.data, W_OK) && (errno == EROFS || errno == EACCES);
    buf_free(&path);
    return yes;
}

static struct session *new_session(int fd, const char *path, const char *header, size_t n)
{
    struct session *s = memory_zeroed(1, sizeof *s);
    s->fd = fd;
    s->path = memory_strdup(path);
    buf_add(&s->header, header, n);
    return s;
}

void session_close(struct session *s)
{
    if (!s)
        return;
    if (s->syncer)
        syncer_wait(s->syncer);
    syncer_close(s->syncer);
    close(s->fd);
    free(s->path);
    buf_free(&s->header);
    buf_free(&s->owed);
    free(s);
}

const char *session_path(const struct session *s)
{
    return s->path;
}

void session_checkpoint(const char *file, struct buf *path)
{
    buf_reset(path);
    buf_addf(path, "%s" SESSION_CHECKPOINT, file);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

/* Appends all of the text, or nothing. */
static bool append_text(int fd, const char *path, const struct buf *text, struct err *e)
{
    off_t before = lseek(fd, 0, SEEK_END);
    if (file_write(fd, text->data, text->len))
        return true;
    int why = errno;
    if (ftruncate(fd, before))
        why = errno;                    /* the torn line stays; reading drops it */
    return err_set(e, "cannot write %s: %s", path, strerror(why));
}

static bool sync_file(int fd, const char *path, struct err *e)
{
    return !fsync(fd) || errno == EINVAL        /* EINVAL: a file that cannot be synced, such as a pipe */
        || err_set(e, "cannot write %s: %s", path, strerror(errno));
}

/* Appends the lines after those that are owed, and frees them. */
static bool append_lines(struct session *s, struct buf *lines, struct err *e)
{
    struct buf all = {0};
    buf_add(&all, buf_str(&s->owed), s->owed.len);
    buf_add(&all, buf_str(lines), lines->len);
    bool ok = append_text(s->fd, s->path, &all, e);
    if (ok)
        buf_reset(&s->owed);
    buf_free(&all);
    buf_free(lines);
    return ok;
}

/* Brings the file to disk on the syncer's thread, `soon` about once a second; waits for the disk if there can be no thread. */
static bool sync_session(struct session *s, bool soon, struct err *e)
{
    if (!s->syncer)
        s->syncer = syncer_open(s->fd, s->fresh ? s->path : NULL);
    if (s->syncer) {
        s->fresh = false;
        (soon ? syncer_want : syncer_now)(s->syncer);
        return session_check(s, e);
    }
    if (!sync_file(s->fd, s->path, e))
        return false;
    if (s->fresh)
        file_sync_name(s->path);
    s->fresh = false;
    return true;
}

bool session_put(struct session *s, struct buf *lines, struct err *e)
{
    return append_lines(s, lines, e) && sync_session(s, false, e);
}

bool session_part(struct session *s, const struct answer_part *p, struct err *e)
{
    struct buf line = {0};
    record_part(&line, p);
    return append_lines(s, &line, e) && sync_session(s, true, e);
}

bool session_check(struct session *s, struct err *e)
{
    int failed = s->syncer ? syncer_failed(s->syncer) : 0;
    return !failed || err_set(e, "cannot write %s: %s", s->path, strerror(failed));
}

int session_fd(const struct session *s)
{
    return s->syncer ? syncer_fd(s->syncer) : -1;
}

bool session_settled(struct session *s)
{
    return !s->syncer || syncer_settled(s->syncer);
}

bool session_wait(struct session *s, struct err *e)
{
    if (s->syncer)
        syncer_wait(s->syncer);
    return session_check(s, e);
}

/* Replaces the file in one step: the lines, which are freed, go to a new file, which then gets the name. */
static bool replace_file(struct session *s, struct buf *lines, struct err *e)
{
    struct buf path = {0};
    buf_addf(&path, "%s.XXXXXX", s->path);
    int fd = mkostemp(path.data, O_APPEND | O_CLOEXEC);
    bool ok = fd >= 0 || err_set(e, "cannot make %s: %s", path.data, strerror(errno));
    if (ok && flock(fd, LOCK_EX | LOCK_NB))
        ok = err_set(e, "cannot lock %s: %s", path.data, strerror(errno));
    ok = ok && append_text(fd, path.data, lines, e) && sync_file(fd, path.data, e);
    if (ok && rename(path.data, s->path))
        ok = err_set(e, "cannot write %s: %s", s->path, strerror(errno));
    if (ok) {
        file_sync_name(s->path);
        syncer_close(s->syncer);
        s->syncer = NULL;
        s->fresh = false;
        close(s->fd);
        s->fd = fd;
        buf_reset(&s->owed);
    } else if (fd >= 0) {
        unlink(path.data);
        close(fd);
    }
    buf_free(&path);
    buf_free(lines);
    return ok;
}

/* Keeps a copy of the unreadable file as FILE.damaged. */
static void keep_damaged(const struct session *s)
{
    struct buf path = {0};
    buf_addf(&path, "%s.damaged", s->path);
    if (link(s->path, path.data))
        err_warn("cannot keep the damaged lines of %s as %s: %s", s->path, path.data, strerror(errno));
    buf_free(&path);
}

bool session_model(struct session *s, const char *model)
{
    return record_header_model(&s->header, model);
}

bool session_rewrite(struct session *s, const struct transcript *t, struct err *e)
{
    struct buf lines = {0};
    buf_add(&lines, s->header.data, s->header.len);
    record_transcript(&lines, t);
    if (s->damaged)
        keep_damaged(s);
    return replace_file(s, &lines, e);
}

/* Makes a name that sorts by time, with the process id for two programs in one second. */
static void fresh_name(char *name, size_t size)
{
    time_t now = time(NULL);
    struct tm tm;
    char date[32];
    localtime_r(&now, &tm);
    strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", &tm);
    snprintf(name, size, "%s-%d", date, (int)getpid());
}

/* Makes a locked file with its first line; -1 and errno.  The file gets its name when it has the line, so that a program that is killed in between
 * leaves no file without it.  Does not wait for the disk: after a power failure the file may be empty or missing. */
static int make_file(const char *path, const struct buf *header)
{
    struct buf tmp = {0};
    buf_addf(&tmp, "%s.XXXXXX", path);
    int fd = mkostemp(tmp.data, O_APPEND | O_CLOEXEC);
    bool ok = fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && file_write(fd, header->data, header->len)
           && file_move(tmp.data, path);
    int why = errno;
    if (fd >= 0 && !ok) {
        unlink(tmp.data);
        close(fd);
    }
    buf_free(&tmp);
    errno = why;
    return ok ? fd : -1;
}

struct session *session_create(const char *name, const char *model, struct err *e)
{
    struct buf path = {0}, header = {0};
    struct session *s = NULL;
    char base[64], fresh[80];
    fresh_name(base, sizeof base);
    int fd = -1;
    record_header(&header, model);
    for (int i = 0; i < 100 && fd < 0; i++) {           /* two conversations within one second */
        snprintf(fresh, sizeof fresh, i ? "%s-%d" : "%s", base, i);
        if (!session_path_of(name ? name : fresh, &path, e))
            goto out;
        fd = make_file(path.data, &header);
        if (fd < 0 && (errno != EEXIST || name))
            break;
    }
    if (fd < 0) {
        err_set(e, errno == EEXIST ? "%s exists; choose another name" : "cannot make %s: %s", path.data, strerror(errno));
        goto out;
    }
    s = new_session(fd, path.data, header.data, header.len);
    s->fresh = true;
out:
    buf_free(&path);
    buf_free(&header);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* The contents of a file as they were read. */
struct contents {
    struct buf text, owed;              /* owed: lines to write before the next one, see record_finish() */
    size_t good;                        /* bytes of whole lines */
    int    n_damaged, first_damaged, last_damaged;      /* line numbers */
    struct { size_t at, n; } *parts;    /* lines with parts of answers */
    int    n_parts, cap_parts, n_old;   /* n_old: the first ones, of answers that were finished later */
};

static void contents_free(struct contents *f)
{
    buf_free(&f->text);
    buf_free(&f->owed);
    free(f->parts);
}

/* Applies a line to the transcript, and notes damage and parts of answers. */
static void read_line(struct contents *f, int number, size_t at, size_t n, struct transcript *t, struct unfinished *u)
{
    const char *line = f->text.data + at;
    switch (record_read(line, n, t, u)) {
    case RECORD_DAMAGED:
        f->last_damaged = number;
        f->first_damaged = f->n_damaged++ ? f->first_damaged : number;
        if (record_read_damaged(line, n, t, u))
            f->n_old = f->n_parts;
        break;
    case RECORD_PART:
        f->parts = memory_grow(f->parts, f->n_parts, &f->cap_parts, sizeof *f->parts);
        f->parts[f->n_parts].at = at;
        f->parts[f->n_parts++].n = n + 1;
        break;
    case RECORD_MOVE: f->n_old = f->n_parts; break;
    case RECORD_OTHER:
        break;
    }
}

/* Describes the damage in `note`. */
static void describe_damage(const struct contents *f, const char *path, struct buf *note)
{
    if (f->n_damaged == 1)
        buf_addf(note, "line %d of %s is damaged and was left out", f->first_damaged, path);
    else if (f->n_damaged)
        buf_addf(note, "%d lines of %s are damaged and were left out, the first is line %d, the last line %d", f->n_damaged, path,
                 f->first_damaged, f->last_damaged);
    if (f->good < f->text.len)
        buf_addf(note, "%sthe last line of %s was cut off and is dropped", f->n_damaged ? "; " : "", path);
}

/* Reads a conversation's file into `t`; damaged lines are skipped and described in `note`.  False if it is no such file. */
static bool read_all(struct contents *f, const char *path, struct transcript *t, struct buf *note, struct err *e)
{
    struct unfinished u = {0};
    if (!file_read(&f->text, path, MAX_FILE, e))
        return false;
    if (!f->text.len)
        return err_set(e, "%s is empty", path);
    const char *end = memchr(f->text.data, '\n', f->text.len);
    if (!record_read_header(f->text.data, end ? (size_t)(end - f->text.data) : 0, path, e))
        return false;
    f->good = (size_t)(end - f->text.data) + 1;
    for (int line = 2; (end = memchr(f->text.data + f->good, '\n', f->text.len - f->good)); line++) {
        size_t n = (size_t)(end - f->text.data) - f->good;
        read_line(f, line, f->good, n, t, &u);
        f->good += n + 1;
    }
    record_finish(t, &u, &f->owed);
    unfinished_free(&u);
    describe_damage(f, path, note);
    kept_read(path, t, note);
    return true;
}

bool session_read(const char *name, struct transcript *t, struct buf *note, struct err *e)
{
    struct buf path = {0};
    struct contents f = {0};
    bool ok = find_path(name, &path, e) && read_all(&f, path.data, t, note, e);
    if (!ok)
        transcript_free(t);
    buf_free(&path);
    contents_free(&f);
    return ok;
}

/* Writes the file without the parts of finished answers if these are most of it.  All other lines stay as they are; a failure costs only space. */
static void drop_old_parts(struct session *s, const struct contents *f)
{
    enum { WORTH = 64 << 10 };
    size_t bytes = 0, from = 0;
    struct buf lines = {0}, owed = {0};
    for (int i = 0; i < f->n_old; i++)
        bytes += f->parts[i].n;
    if (bytes < WORTH || bytes < f->good / 2)
        return;
    for (int i = 0; i < f->n_old; i++) {
        buf_add(&lines, f->text.data + from, f->parts[i].at - from);
        from = f->parts[i].at + f->parts[i].n;
    }
    buf_add(&lines, f->text.data + from, f->good - from);
    buf_add(&owed, buf_str(&s->owed), s->owed.len);     /* for the end of those lines */
    if (replace_file(s, &lines, NULL))
        buf_add(&s->owed, buf_str(&owed), owed.len);
    buf_free(&owed);
}

/* Waits a little for the lock: a program that was just killed may still have it. */
static bool lock_patiently(int fd)
{
    enum { TRIES = 25, TRY_MS = 20 };
    const struct timespec moment = {.tv_nsec = TRY_MS * 1000000L};
    for (int i = 0; i < TRIES; i++) {
        if (!flock(fd, LOCK_EX | LOCK_NB))
            return true;
        nanosleep(&moment, NULL);
    }
    return false;
}

/* Opens and locks the file; -1 with the reason. */
static int open_locked(const char *path, struct err *e)
{
    struct stat here, there;
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (fd < 0) {
        err_set(e, errno == ENOENT ? "cannot open %s: %s" : "cannot write %s: %s", path, strerror(errno));
        return -1;
    }
    /* a rewrite puts another file in its place */
    if (lock_patiently(fd) && !fstat(fd, &here) && !stat(path, &there) && here.st_ino == there.st_ino)
        return fd;
    err_set(e, "%s is in use by another q35chat", path);
    close(fd);
    return -1;
}

bool session_in_use(const char *name)
{
    struct buf path = {0};
    int fd = session_path_of(name, &path, NULL) ? open(path.data, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    bool used = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    buf_free(&path);
    return used;
}

struct session *session_open(const char *name, struct transcript *t, struct buf *note, struct err *e)
{
    struct buf path = {0};
    struct contents f = {0};
    struct session *s = NULL;
    int fd = find_path(name, &path, e) ? open_locked(path.data, e) : -1;
    if (fd < 0 || !read_all(&f, path.data, t, note, e))
        goto out;
    if (f.good < f.text.len && ftruncate(fd, (off_t)f.good)) {
        err_set(e, "cannot write %s: %s", path.data, strerror(errno));
        goto out;
    }
    s = new_session(fd, path.data, f.text.data, strcspn(f.text.data, "\n") + 1);
    fd = -1;
    s->damaged = f.n_damaged > 0;
    buf_add(&s->owed, buf_str(&f.owed), f.owed.len);
    drop_old_parts(s, &f);
out:
    if (fd >= 0)
        close(fd);
    if (!s)
        transcript_free(t);
    buf_free(&path);
    contents_free(&f);
    return s;
}
