#include "base/unixsocket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

enum { AGAIN_MS = 20 };

static bool is_own(uid_t user)
{
    return user == geteuid() || user == 0;
}

static bool refuse_folder(struct err *e, const char *name, const char *why)
{
    err_set(e, "%s %s: a socket there is not safe", name, why);
    errno = EPERM;
    return false;
}

/* Checks the folder.  lstat() comes first: a link of another user can point anywhere by the time that it is followed. */
static bool check_folder(const char *name, struct err *e)
{
    struct stat st;
    if (lstat(name, &st))
        return err_set(e, "cannot use %s: %s", name, strerror(errno));
    if (!is_own(st.st_uid))
        return refuse_folder(e, name, "belongs to another user");
    if (S_ISLNK(st.st_mode) && st.st_uid != 0)
        return refuse_folder(e, name, "is a link");
    if (S_ISLNK(st.st_mode) && stat(name, &st))
        return err_set(e, "cannot use %s: %s", name, strerror(errno));
    if (!is_own(st.st_uid))
        return refuse_folder(e, name, "belongs to another user");
    if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
        return refuse_folder(e, name, "can be written by other users");
    return true;
}

bool unixsocket_folder(const char *path, struct err *e)
{
    struct buf dir = {0};
    const char *slash = strrchr(path, '/');
    buf_add(&dir, path, slash ? (size_t)(slash - path) : 0);
    const bool ok = check_folder(slash == path ? "/" : slash ? buf_str(&dir) : ".", e);
    const int why = errno;
    buf_free(&dir);
    errno = why;
    return ok;
}

/* Connects, waiting while the backlog is full (EAGAIN); otherwise a unix socket connects at once or not at all. */
static bool connects(int fd, const struct sockaddr_un *at, int patience_ms)
{
    const struct timespec moment = {.tv_nsec = AGAIN_MS * 1000000L};
    const int64_t start = clock_ns();
    for (;;) {
        if (!connect(fd, (const struct sockaddr *)at, sizeof *at))
            return true;
        if (errno != EAGAIN || clock_ms_since(start) >= patience_ms)
            return false;
        nanosleep(&moment, NULL);
    }
}

bool unixsocket_check(int fd, const char *path, struct err *e)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (!unixsocket_folder(path, e))
        return false;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
        return err_set(e, "cannot find out who listens on %s: %s", path, strerror(errno));
    if (is_own(peer.uid))
        return true;
    err_set(e, "the program that listens on %s is another user's (uid %u): nothing was sent to it", path, (unsigned)peer.uid);
    errno = EPERM;
    return false;
}

int unixsocket_connect(const char *path, int patience_ms, struct err *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at.sun_path) {
        err_set(e, "the path of the socket has more than %zu bytes: %s", sizeof at.sun_path - 1, path);
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(at.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = (fd >= 0 && connects(fd, &at, patience_ms)) || err_set(e, "cannot connect to %s: %s", path, strerror(errno));
    ok = ok && unixsocket_check(fd, path, e);
    if (ok)
        return fd;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}
