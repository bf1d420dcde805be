#include "chat/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/unicode.h"
#include "chat/place.h"
#include "chat/record.h"

#define MAX_FILE ((size_t)1 << 30)

struct session {
    int fd;
    char *path;
    struct buf header;                  /* its line, for a rewrite */
};

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
        place_expand(path, name);
    } else if (!is_name(name)) {
        ok = err_set(e, "a session needs a name such as 'holiday', or a path with a slash in it");
    } else {
        buf_addf(&file, "sessions/%s.jsonl", name);
        ok = place_state(path, file.data, e);
    }
    buf_free(&file);
    return ok;
}

static struct session *session_of(int fd, const char *path, const char *header, size_t n)
{
    struct session *s = memory_got(calloc(1, sizeof *s));
    s->fd = fd;
    s->path = memory_strdup(path);
    buf_add(&s->header, header, n);
    return s;
}

void session_close(struct session *s)
{
    if (!s)
        return;
    close(s->fd);
    free(s->path);
    buf_free(&s->header);
    free(s);
}

const char *session_path(const struct session *s)
{
    return s->path;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

/* Appends in one go and waits for the disk. */
static bool append(int fd, const char *path, const struct buf *text, struct err *e)
{
    size_t done = 0;
    off_t before = lseek(fd, 0, SEEK_END);
    while (done < text->len) {
        ssize_t k = write(fd, text->data + done, text->len - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        done += (size_t)k;
    }
    int why = errno;
    if (done < text->len && ftruncate(fd, before))
        why = errno;                    /* the torn line stays; reading drops it */
    if (done < text->len)
        return err_set(e, "cannot write %s: %s", path, strerror(why));
    if (fsync(fd) && errno != EINVAL)   /* EINVAL: a file that cannot be synced, such as a pipe */
        return err_set(e, "cannot write %s: %s", path, strerror(errno));
    return true;
}

/* Takes `lines`. */
static bool put(struct session *s, struct buf *lines, struct err *e)
{
    bool ok = append(s->fd, s->path, lines, e);
    buf_free(lines);
    return ok;
}

bool session_append(struct session *s, const struct entry *m, struct err *e)
{
    struct buf line = {0};
    record_entry(&line, m);
    return put(s, &line, e);
}

bool session_replace(struct session *s, const struct entry *m, struct err *e)
{
    struct buf lines = {0};
    record_go(&lines, m->number);
    record_forget(&lines, m->depth);
    record_entry(&lines, m);
    return put(s, &lines, e);
}

bool session_system(struct session *s, const char *text, struct err *e)
{
    struct buf line = {0};
    record_system(&line, text);
    return put(s, &line, e);
}

bool session_title(struct session *s, const char *text, struct err *e)
{
    struct buf line = {0};
    record_title(&line, text);
    return put(s, &line, e);
}

bool session_keep(struct session *s, int n, struct err *e)
{
    struct buf line = {0};
    record_keep(&line, n);
    return put(s, &line, e);
}

bool session_forget(struct session *s, int n, struct err *e)
{
    struct buf line = {0};
    record_forget(&line, n);
    return put(s, &line, e);
}

bool session_go(struct session *s, int number, struct err *e)
{
    struct buf line = {0};
    record_go(&line, number);
    return put(s, &line, e);
}

bool session_add(struct session *s, const struct transcript *t, struct err *e)
{
    struct buf lines = {0};
    record_transcript(&lines, t);
    return put(s, &lines, e);
}

bool session_rewrite(struct session *s, const struct transcript *t, struct err *e)
{
    struct buf path = {0}, lines = {0};
    buf_addf(&path, "%s.new", s->path);
    buf_add(&lines, s->header.data, s->header.len);
    record_transcript(&lines, t);
    int fd = open(path.data, O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 || err_set(e, "cannot make %s: %s", path.data, strerror(errno));
    if (ok && flock(fd, LOCK_EX | LOCK_NB))
        ok = err_set(e, "%s is in use by another q35chat", path.data);
    ok = ok && append(fd, path.data, &lines, e);
    if (ok && rename(path.data, s->path))
        ok = err_set(e, "cannot write %s: %s", s->path, strerror(errno));
    if (ok) {
        close(s->fd);
        s->fd = fd;
    } else if (fd >= 0) {
        unlink(path.data);
        close(fd);
    }
    buf_free(&path);
    buf_free(&lines);
    return ok;
}

/* A name that sorts by time; the process id keeps two programs apart. */
static void fresh_name(char *name, size_t size)
{
    time_t now = time(NULL);
    struct tm tm;
    char date[32];
    localtime_r(&now, &tm);
    strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", &tm);
    snprintf(name, size, "%s-%d", date, (int)getpid());
}

struct session *session_create(const char *name, const char *model, struct err *e)
{
    struct buf path = {0}, header = {0};
    struct session *s = NULL;
    char base[64], fresh[80];
    fresh_name(base, sizeof base);
    int fd = -1;
    for (int i = 0; i < 100 && fd < 0; i++) {           /* two conversations within one second */
        snprintf(fresh, sizeof fresh, i ? "%s-%d" : "%s", base, i);
        if (!session_path_of(name ? name : fresh, &path, e))
            goto out;
        fd = open(path.data, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && (errno != EEXIST || name))
            break;
    }
    if (fd < 0) {
        err_set(e, "cannot make %s: %s", path.data, errno == EEXIST ? "it exists already, choose another name" : strerror(errno));
        goto out;
    }
    flock(fd, LOCK_EX | LOCK_NB);
    record_header(&header, model);
    s = session_of(fd, path.data, header.data, header.len);
    if (!append(fd, path.data, &header, e)) {
        unlink(path.data);
        session_close(s);
        s = NULL;
    }
out:
    buf_free(&path);
    buf_free(&header);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* The length of the good part goes to *good. */
static bool read_all(const struct buf *text, const char *path, struct transcript *t, size_t *good, struct err *e)
{
    int line = 1;
    *good = 0;
    for (size_t at = 0; at < text->len; line++) {
        const char *p = text->data + at, *end = memchr(p, '\n', text->len - at);
        size_t n = end ? (size_t)(end - p) : text->len - at;
        bool last = at + n + 1 >= text->len;
        if (line == 1 && !record_read_header(p, end ? n : 0, path, e))
            return false;
        if (line > 1 && !(end && record_read(p, n, t)))         /* torn at the end: the machine or the program went down */
            return last || err_set(e, "%s:%d: the line is damaged; the file was left as it is", path, line);
        at += n + 1;
        *good = at;
    }
    return line > 1 || err_set(e, "%s is empty", path);
}

bool session_read(const char *name, struct transcript *t, struct err *e)
{
    struct buf path = {0}, text = {0};
    size_t good;
    bool ok = session_path_of(name, &path, e) && buf_read_file(&text, path.data, MAX_FILE, e)
           && read_all(&text, path.data, t, &good, e);
    if (!ok)
        transcript_free(t);
    buf_free(&path);
    buf_free(&text);
    return ok;
}

/* The file, for us alone; -1 if that cannot be. */
static int open_locked(const char *path, struct err *e)
{
    struct stat here, there;
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (fd < 0) {
        err_set(e, errno == ENOENT ? "cannot open %s: %s" : "cannot write %s: %s", path, strerror(errno));
        return -1;
    }
    /* a rewrite puts another file in its place */
    if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &here) && !stat(path, &there) && here.st_ino == there.st_ino)
        return fd;
    err_set(e, "%s is in use by another q35chat", path);
    close(fd);
    return -1;
}

/* A message that was never answered, or calls that were, must not break the next prompt: nothing to mend here, the template
 * takes them. */
struct session *session_open(const char *name, struct transcript *t, struct buf *note, struct err *e)
{
    struct buf path = {0}, text = {0};
    struct session *s = NULL;
    size_t good;
    int fd = session_path_of(name, &path, e) ? open_locked(path.data, e) : -1;
    if (fd < 0 || !buf_read_file(&text, path.data, MAX_FILE, e) || !read_all(&text, path.data, t, &good, e))
        goto out;
    if (good < text.len) {
        buf_addf(note, "the last line of %s was cut off and is dropped", path.data);
        if (ftruncate(fd, (off_t)good)) {
            err_set(e, "cannot write %s: %s", path.data, strerror(errno));
            goto out;
        }
    }
    s = session_of(fd, path.data, text.data, strcspn(text.data, "\n") + 1);
    fd = -1;
out:
    if (fd >= 0)
        close(fd);
    if (!s)
        transcript_free(t);
    buf_free(&path);
    buf_free(&text);
    return s;
}
