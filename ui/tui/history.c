#include "ui/tui/history.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"

enum { MAX_ENTRY = 256 << 10, MAX_KEPT = 8 << 20, MAX_FILE = 256 << 20, LOCK_TRIES = 20, LOCK_WAIT_NS = 5000000 };

/* --- entries ---------------------------------------------------------------------------------------------------- */

/* Adds `text`, which is ours now; false if it equals the newest entry, or no entries are kept. */
static bool push(struct history *h, char *text)
{
    if (!h->size || (h->n && !strcmp(h->entries[h->n - 1], text))) {
        free(text);
        return false;
    }
    if (h->n == h->size) {
        free(h->entries[0]);
        memmove(h->entries, h->entries + 1, (size_t)--h->n * sizeof *h->entries);
    }
    h->entries[h->n++] = text;
    return true;
}

/* Returns the text of a line; NULL if it is not a JSON string. */
static char *line_text(const char *line, size_t n)
{
    json_t *s = json_loadb(line, n, JSON_DECODE_ANY, NULL);
    char *text = json_is_string(s) && json_string_length(s) ? memory_strdup(json_string_value(s)) : NULL;
    json_decref(s);
    return text;
}

/* Adds the entries of a file (h NULL: only counts); returns the number of lines, *bad of which are no entries. */
static int read_lines(struct history *h, const struct buf *file, int *bad)
{
    int n = 0;
    *bad = 0;
    for (size_t at = 0; at < file->len; n++) {
        const char *line = file->data + at, *end = memchr(line, '\n', file->len - at);
        size_t len = end ? (size_t)(end - line) : file->len - at;
        char *text = line_text(line, len);
        if (!text)
            ++*bad;
        else if (h)
            push(h, text);
        else
            free(text);
        at += len + 1;
    }
    return n;
}

/* --- the file --------------------------------------------------------------------------------------------------- */

/* Opens and locks the file; -1 with errno.  While we waited for the lock, the file may have been replaced. */
static int open_locked(const char *path)
{
    for (int tries = 0;; tries++) {
        struct stat here, there;
        int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
        if (fd < 0)
            return -1;
        /* Tries to lock the file, but only for a moment: a lock that another program keeps must not block the keyboard. */
        for (int i = 0; i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; i++)
            nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT_NS}, NULL);
        bool same = !fstat(fd, &here) && !stat(path, &there) && here.st_ino == there.st_ino && here.st_dev == there.st_dev;
        if (same || tries == LOCK_TRIES)
            return fd;
        close(fd);
    }
}

/* Appends an entry to the file, under its lock.  False with errno set. */
static bool append(struct history *h, const char *text)
{
    struct buf line = {0};
    json_t *s = json_stringn(text, strlen(text));
    char *json = s ? json_dumps(s, JSON_ENCODE_ANY) : NULL;
    CHECK(json);
    json_decref(s);
    int fd = open_locked(h->path);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    char last = '\n';
    if (end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n')
        buf_addc(&line, '\n');          /* after an incomplete line */
    buf_addf(&line, "%s\n", json);
    bool ok = fd >= 0 && file_write(fd, line.data, line.len);
    int why = errno;
    if (fd >= 0)
        close(fd);
    h->n_lines++;
    h->n_bytes += line.len;
    buf_free(&line);
    free(json);
    errno = why;
    return ok;
}

/* Returns where the last `lines` lines of a file begin, or fewer so that they are at most MAX_KEPT bytes. */
static size_t tail(const struct buf *file, int lines)
{
    size_t at = file->len;
    while (at && lines--) {
        const char *newline = at > 1 ? memrchr(file->data, '\n', at - 1) : NULL;
        size_t start = newline ? (size_t)(newline + 1 - file->data) : 0;
        if (file->len - start > MAX_KEPT)
            break;
        at = start;
    }
    return at;
}

/* Shortens the file.  Reads it again under the lock, since others may have written; leaves a file of another kind alone. */
static void compact(struct history *h)
{
    struct buf file = {0};
    int bad, fd = open_locked(h->path);
    if (fd < 0)
        return;
    if (file_read(&file, h->path, MAX_FILE, NULL) && read_lines(NULL, &file, &bad) > 2 * bad) {
        size_t from = tail(&file, h->size);
        if (file_replace(h->path, file.data + from, file.len - from)) {
            file.len -= from;
            memmove(file.data, file.data + from, file.len);
        }
    }
    h->n_lines = read_lines(NULL, &file, &bad);
    h->n_bytes = file.len;
    close(fd);
    buf_free(&file);
}

static void compact_if_long(struct history *h)
{
    if (h->path && (h->n_lines > 2 * h->size || h->n_bytes > 2 * MAX_KEPT))
        compact(h);
}

/* Reads the file; if it cannot be used, entries are kept only in memory. */
static void load(struct history *h)
{
    struct stat st;
    struct buf file = {0};
    struct err e = {0};
    int bad;
    bool there = !stat(h->path, &st);
    if (!there && errno == ENOENT)
        return;                         /* made by the first entry */
    if (there && !S_ISREG(st.st_mode))
        err_set(&e, "%s is not a plain file", h->path);
    if (*e.msg || !file_read(&file, h->path, MAX_FILE, &e)) {
        err_warn("%s; what you type is remembered only until the end of the program", e.msg);
        free(h->path);
        h->path = NULL;
    } else {
        h->n_lines = read_lines(h, &file, &bad);
        h->n_bytes = file.len;
        compact_if_long(h);
    }
    buf_free(&file);
}

struct history *history_open(const char *path, int size)
{
    struct history *h = memory_zeroed(1, sizeof *h);
    h->size = size;
    h->entries = size ? memory_zeroed((size_t)size, sizeof *h->entries) : NULL;
    if (path && size) {
        h->path = realpath(path, NULL); /* a symbolic link is kept */
        if (!h->path)
            h->path = memory_strdup(path);
        load(h);
    }
    return h;
}

void history_close(struct history *h)
{
    if (!h)
        return;
    compact_if_long(h);
    for (int i = 0; i < h->n; i++)
        free(h->entries[i]);
    free(h->entries);
    free(h->path);
    free(h->draft);
    free(h);
}

void history_add(struct history *h, const char *text)
{
    struct buf clean = {0};
    unicode_replace(&clean, text, strlen(text));
    h->back = 0;
    if (clean.len && !isspace((unsigned char)*clean.data) && push(h, memory_strdup(clean.data)) && h->path && clean.len <= MAX_ENTRY) {
        if (!append(h, clean.data)) {
            err_warn("cannot write %s: %s; what you type is remembered only until the end of the program", h->path, strerror(errno));
            free(h->path);
            h->path = NULL;
        }
    }
    buf_free(&clean);
}

/* --- walking ---------------------------------------------------------------------------------------------------- */

const char *history_older(struct history *h, const char *draft)
{
    if (!h->back) {
        char *before = h->draft;        /* `draft` may be it */
        h->draft = memory_strdup(draft);
        free(before);
    }
    int to = h->back + 1;
    if (to == 1 && h->n && !strcmp(h->entries[h->n - 1], draft))
        to++;                           /* it is shown already */
    if (to > h->n)
        return NULL;
    h->back = to;
    return h->entries[h->n - to];
}

const char *history_newer(struct history *h)
{
    if (!h->back)
        return NULL;
    return --h->back ? h->entries[h->n - h->back] : h->draft;
}

static bool comes_again(const struct history *h, int entry)
{
    for (int i = entry + 1; i < h->n; i++)
        if (!strcmp(h->entries[i], h->entries[entry]))
            return true;
    return false;
}

const char *history_search(const struct history *h, const char *what, int i)
{
    bool any_case = true;
    for (const char *c = what; *c; c++)
        any_case = any_case && !isupper((unsigned char)*c);
    for (int k = h->n - 1; k >= 0; k--) {
        const char *hit = any_case ? strcasestr(h->entries[k], what) : strstr(h->entries[k], what);
        if (hit && !comes_again(h, k) && i-- == 0)
            return h->entries[k];
    }
    return NULL;
}
