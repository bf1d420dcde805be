#include "base/move.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

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
