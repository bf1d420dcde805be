#include "base/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

/* For file systems without links.  Between the look and the move somebody else may take the name. */
static bool look_and_move(const char *from, const char *to)
{
    if (access(to, F_OK))
        return !rename(from, to);
    errno = EEXIST;
    return false;
}

bool file_move(const char *from, const char *to)
{
    if (link(from, to))
        return errno != EEXIST && errno != ENOENT && look_and_move(from, to);
    if (!unlink(from))
        return true;
    int why = errno;
    unlink(to);
    errno = why;
    return false;
}

void file_sync_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct buf dir = {0};
    buf_add(&dir, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
    int fd = open(dir.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    buf_free(&dir);
}
