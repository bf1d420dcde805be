#include "serve/checkpoint_path.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "session/file.h"

#define SUFFIX ".jsonl" SESSION_CHECKPOINT

static bool refuse(const char *path, const char *why, struct err *e)
{
    return err_set(e, "%s %s", path, why);
}

/* The part of the path up to its last slash, or behind it. */
static void folder_of(const char *path, struct buf *out)
{
    const char *slash = strrchr(path, '/');
    buf_reset(out);
    buf_add(out, path, slash ? (size_t)(slash - path) + 1 : 0);
}

static bool same_folder(const char *a, const char *b)
{
    struct buf x = {0}, y = {0};
    struct stat here, there;
    folder_of(a, &x);
    folder_of(b, &y);
    bool same = *a == '/' && !stat(buf_str(&x), &here) && !stat(buf_str(&y), &there) && here.st_dev == there.st_dev
             && here.st_ino == there.st_ino;
    buf_free(&x);
    buf_free(&y);
    return same;
}

/* optional: it may be missing. */
static bool is_own_file(const char *path, bool optional, struct err *e)
{
    struct stat st;
    if (lstat(path, &st))
        return (optional && errno == ENOENT) || err_set(e, "cannot use %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return refuse(path, "is not a regular file", e);
    return st.st_uid == geteuid() || refuse(path, "belongs to another user", e);
}

/* The name of the conversation, between the last slash and the suffix.  False: it has none. */
static bool name_of(const char *path, struct buf *name)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    size_t n = strlen(file), suffix = strlen(SUFFIX);
    if (n <= suffix || strcmp(file + n - suffix, SUFFIX))
        return false;
    buf_add(name, file, n - suffix);
    return true;
}

static bool check(const char *path, struct buf *own, struct err *e)
{
    struct buf name = {0}, session = {0};
    bool ok = name_of(path, &name) || refuse(path, "is not the checkpoint of a conversation", e);
    ok = ok && session_path_of(name.data, &session, e);
    if (ok && !same_folder(path, session.data))
        ok = refuse(path, "is not in the folder where the q35chat that has loaded the model keeps conversations", e);
    if (ok)
        session_checkpoint(session.data, own);
    ok = ok && is_own_file(session.data, false, e) && is_own_file(own->data, true, e);
    buf_free(&name);
    buf_free(&session);
    return ok;
}

bool checkpoint_path(struct text path, struct buf *own, struct err *e)
{
    struct buf text = {0};
    bool ok = (path.n && path.n < PATH_MAX && !memchr(path.p, 0, path.n)) || err_set(e, "path is not the path of a file");
    buf_add(&text, path.p, ok ? path.n : 0);
    ok = ok && check(text.data, own, e);
    buf_free(&text);
    return ok;
}
