/* Connections over unix sockets between programs of one user.  A path can lead to another user's socket by the time it is opened, so what counts is
 * the process at the other end of the connection itself. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Checks the folder of the socket at `path`: it is the user's own or root's, no link of another user, and others cannot replace what is in it.
 * False with the sentence, and errno: EPERM, or the reason why the folder cannot be read. */
bool unixsocket_folder(const char *path, struct err *e);
/* Checks the folder, and who listens at the other end of `fd`, a connection to `path`.  False with the sentence, and errno EPERM if one of them is
 * another user's.  Root's programs count as the user's own. */
bool unixsocket_check(int fd, const char *path, struct err *e);
/* Connects to the socket at `path` and checks it, without waiting for longer than patience_ms while its backlog is full.  The descriptor,
 * non-blocking; -1 with the sentence, and errno: EPERM as above; ENOENT or ECONNREFUSED if nobody listens; EAGAIN if the backlog stayed full. */
int unixsocket_connect(const char *path, int patience_ms, struct err *e);
