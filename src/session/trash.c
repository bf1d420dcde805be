#include "session/trash.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "option/paths.h"
#include "session/file.h"
#include "session/kept.h"
#include "session/list.h"

#define SUFFIX ".jsonl"
#define UNSENT ".unsent"                /* what a front end keeps beside a session */

enum { DAY_S = 24 * 60 * 60, MOST_OF_A_NAME = 100 };

static bool path_in_trash(struct buf *path, const char *name, struct err *e)
{
    struct buf file = {0};
    buf_addf(&file, "trash/%s" SUFFIX, name);
    bool ok = paths_state(path, file.data, e);
    buf_free(&file);
    return ok;
}

/* Moves the draft that belongs to a session with it. */
static void move_unsent(const struct buf *from, const struct buf *to)
{
    struct buf a = {0}, b = {0};
    buf_addf(&a, "%s" UNSENT, from->data);
    buf_addf(&b, "%s" UNSENT, to->data);
    file_move(a.data, b.data);          /* rarely exists */
    buf_free(&a);
    buf_free(&b);
}

bool trash_put(struct buf *name, struct buf *path, struct err *e)
{
    struct buf from = {0}, as = {0}, beside = {0};
    int fd = sessions_hold(name->data, &from, e);
    bool ok = fd >= 0, moved = false;
    for (int i = 1; ok && !moved && i <= MOST_OF_A_NAME; i++) {
        buf_reset(&as);
        buf_addf(&as, i > 1 ? "%s-%d" : "%s", name->data, i);
        ok = path_in_trash(path, as.data, e);
        moved = ok && file_move(from.data, path->data);
        if (!moved && ok && errno != EEXIST)
            break;
    }
    if (ok && !moved)
        ok = err_set(e, "cannot move %s to %s: %s", from.data, path->data, strerror(errno));
    if (ok) {
        move_unsent(&from, path);
        kept_move(from.data, path->data);
        session_checkpoint(from.data, &beside);
        unlink(beside.data);            /* large, and can be computed again */
        buf_reset(name);
        buf_adds(name, as.data);
    }
    if (fd >= 0)
        close(fd);
    buf_free(&from);
    buf_free(&as);
    buf_free(&beside);
    return ok;
}

bool trash_take(const char *name, struct err *e)
{
    struct buf from = {0}, to = {0};
    bool ok = !strchr(name, '/') || err_set(e, "restore a conversation by its name, not by a path");
    ok = ok && session_path_of(name, &to, e) && path_in_trash(&from, name, e);
    if (ok && !file_move(from.data, to.data))
        ok = errno == ENOENT   ? err_set(e, "no conversation %s in the trash", name)
             : errno == EEXIST ? err_set(e, "the conversation %s exists again; delete it or rename its file %s first", name, to.data)
                               : err_set(e, "cannot move %s to %s: %s", from.data, to.data, strerror(errno));
    if (ok) {
        move_unsent(&from, &to);
        kept_move(from.data, to.data);
    }
    buf_free(&from);
    buf_free(&to);
    return ok;
}

/* --- sweeping ------------------------------------------------------------------------------------------------------ */

static bool ends_in(const char *name, size_t n, const char *end)
{
    return n > strlen(end) && !strncmp(name + n - strlen(end), end, strlen(end));
}

/* True for "NAME.jsonl.Ab12Cd", as mkstemp() makes it, "NAME.jsonl.unsent.Ab12Cd" and "NAME.jsonl.checkpoint.Ab12Cd". */
static bool is_temporary(const char *file)
{
    enum { RANDOM = 6 };
    const char *end = strrchr(file, '.');
    if (!end || strlen(end + 1) != RANDOM || !strcmp(end, UNSENT))
        return false;
    for (const char *p = end + 1; *p; p++)
        if (!isalnum((unsigned char)*p))
            return false;
    size_t n = (size_t)(end - file);
    n -= ends_in(file, n, UNSENT) ? strlen(UNSENT) : ends_in(file, n, SESSION_CHECKPOINT) ? strlen(SESSION_CHECKPOINT) : 0;
    return ends_in(file, n, SUFFIX);
}

static bool is_checkpoint(const char *file)
{
    size_t n = strlen(file);
    return ends_in(file, n, SUFFIX SESSION_CHECKPOINT);
}

/* True if a file of the trash was moved there long ago (moving sets its time of change), or if a file beside the sessions was left by a program that
 * was killed. */
static bool is_due(bool in_trash, const char *file, const struct stat *st, int64_t now_s)
{
    if (in_trash)
        return now_s - st->st_ctim.tv_sec > (int64_t)TRASH_DAYS * DAY_S;
    return now_s - st->st_mtim.tv_sec > DAY_S && (is_temporary(file) || (ends_in(file, strlen(file), SUFFIX) && !st->st_size));
}

/* Deletes a file unless a program has locked it, and the pictures of a session with it.  folder: the directory's path. */
static void delete_unused(int dir, const struct buf *folder, const char *file)
{
    struct buf path = {0};
    buf_addf(&path, "%s/%s", folder->data, file);
    int fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && !unlinkat(dir, file, 0))
        kept_delete(path.data);
    buf_free(&path);
    if (fd >= 0)
        close(fd);
}

/* Deletes checkpoint files whose session file is gone. */
static void delete_orphans(void)
{
    struct buf path = {0}, session = {0};
    DIR *d = paths_state(&path, "sessions", NULL) ? opendir(path.data) : NULL;
    for (struct dirent *f; d && (f = readdir(d));) {
        if (!is_checkpoint(f->d_name))
            continue;
        buf_reset(&session);
        buf_add(&session, f->d_name, strlen(f->d_name) - strlen(SESSION_CHECKPOINT));
        if (faccessat(dirfd(d), session.data, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
            delete_unused(dirfd(d), &path, f->d_name);
    }
    if (d)
        closedir(d);
    buf_free(&path);
    buf_free(&session);
}

/* Deletes the files of the trash, or of the sessions, that are due. */
static void sweep_folder(bool in_trash, int64_t now_s)
{
    struct buf path = {0};
    struct stat st;
    DIR *d = paths_state(&path, in_trash ? "trash" : "sessions", NULL) ? opendir(path.data) : NULL;
    for (struct dirent *f; d && (f = readdir(d));)
        if (!fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) && is_due(in_trash, f->d_name, &st, now_s))
            delete_unused(dirfd(d), &path, f->d_name);
    if (d)
        closedir(d);
    buf_free(&path);
}

void trash_sweep(int64_t now_s)
{
    sweep_folder(true, now_s);
    sweep_folder(false, now_s);
    delete_orphans();
}

/* --- room for checkpoints ------------------------------------------------------------------------------------------- */

/* Finds the oldest checkpoint other than `own`; false: there is no other.  *all: bytes of all checkpoints. */
static bool oldest_checkpoint(DIR *d, const char *own, struct buf *name, size_t *all)
{
    struct timespec oldest = {0};
    struct stat st;
    buf_reset(name);
    *all = 0;
    rewinddir(d);
    for (struct dirent *f; (f = readdir(d));) {
        if (!is_checkpoint(f->d_name) || fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        *all += (size_t)st.st_blocks * 512;
        bool older = !name->len || st.st_mtim.tv_sec < oldest.tv_sec
                  || (st.st_mtim.tv_sec == oldest.tv_sec && st.st_mtim.tv_nsec < oldest.tv_nsec);
        if (strcmp(f->d_name, own) && older) {
            oldest = st.st_mtim;
            buf_reset(name);
            buf_adds(name, f->d_name);
        }
    }
    return name->len;
}

bool trash_trim(size_t room, const char *own)
{
    struct buf path = {0}, name = {0};
    struct stat st;
    size_t all = 0;
    const char *slash = strrchr(own, '/'), *own_name = slash ? slash + 1 : own;
    bool fits = stat(own, &st) || (size_t)st.st_blocks * 512 <= room;
    if (!fits)
        unlink(own);
    DIR *d = paths_state(&path, "sessions/", NULL) ? opendir(path.data) : NULL;
    while (d && oldest_checkpoint(d, own_name, &name, &all) && all > room && !unlinkat(dirfd(d), name.data, 0))
        continue;
    if (d)
        closedir(d);
    buf_free(&path);
    buf_free(&name);
    return fits;
}
