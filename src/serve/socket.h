/* The sockets on which a server listens. */
#ifndef Q35_SERVE_SOCKET_H
#define Q35_SERVE_SOCKET_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* A listening unix socket at `path` that its owner alone can use; makes the folder above it.  *lock: a file beside it that stays locked until it
 * is closed, so that there is one server for a path, and a socket that a killed one left is replaced.  -1 with the reason. */
int  socket_listen_unix(const char *path, int *lock, struct err *e);
/* "127.0.0.1:PORT", "[::1]:PORT" or "localhost:PORT"; another address only with `any`.  -1 with the reason. */
int  socket_listen_tcp(const char *address, bool any, struct err *e);
/* Makes a listening socket that another program opened fit for use.  *tcp: it is not a unix socket.  False with the reason: it does not listen, or
 * other machines can reach it and `any` is false. */
bool socket_take(int fd, bool any, bool *tcp, struct err *e);
/* Whether a Host header names this machine itself: a page of another site, whose name was made to lead here, does not. */
bool socket_is_local_name(const char *host);

#endif
