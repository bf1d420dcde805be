/* The sockets on which a server listens, also those that systemd passes to it, and the other ends of its connections. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* Makes a listening unix socket at `path`, which only the user of this process can connect to, and its folder.  *lock: a locked file next to it, so
 * that a path has one server at a time; the caller closes it at the end.  Replaces a socket that a killed server left.  -1 with the reason. */
int  socket_listen_unix(const char *path, int *lock, struct err *e);
/* True while a server has the lock of that path. */
bool socket_is_held(const char *path);
/* Makes a listening socket at "127.0.0.1:PORT", "[::1]:PORT" or "localhost:PORT"; at another address only with `any`.  -1 with the reason. */
int  socket_listen_tcp(const char *address, bool any, struct err *e);
/* Checks such an address without opening anything.  False with the reason. */
bool socket_check_tcp(const char *address, bool any, struct err *e);
/* Makes a listening socket that another program opened fit for use.  *tcp: it is not a unix socket.  False with the reason: it does not listen, or
 * other machines can reach it and `any` is false. */
bool socket_take(int fd, bool any, bool *tcp, struct err *e);
/* True if a Host header names this machine itself.  That of a web page whose own name was made to resolve to this machine does not. */
bool socket_is_local_name(const char *host);

/* Returns the number of sockets that systemd opened for this process, descriptors from SOCKET_FIRST_FD on (sd_listen_fds(3)).  Child processes do not
 * inherit them. */
enum { SOCKET_FIRST_FD = 3 };
int  socket_systemd(void);
/* Sends lines such as "READY=1\nSTATUS=..." to systemd (sd_notify(3)).  Does nothing if NOTIFY_SOCKET is not set. */
void socket_notify_systemd(const char *lines);

/* True if the other end of this TCP connection, which has sent its end of data, is still held by a process of this machine.  shutdown() and close()
 * look the same over TCP until something is sent; the kernel's table of sockets tells them apart.  False for clients on other machines. */
bool socket_peer_waits(int fd);
