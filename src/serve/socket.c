#include "serve/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unixsocket.h"

enum { BACKLOG = 128 };

/* ---- unix ---- */

/* Makes the folder of the socket, if it does not exist. */
static bool make_folder(const char *path, struct err *e)
{
    struct buf dir = {0};
    const char *slash = strrchr(path, '/');
    buf_add(&dir, path, slash ? (size_t)(slash - path) : 0);
    const bool ok = !dir.len || !mkdir(dir.data, 0700) || errno == EEXIST || err_set(e, "cannot make %s: %s", dir.data, strerror(errno));
    buf_free(&dir);
    return ok && unixsocket_folder(path, e);
}

/* True if a program listens at the address. */
static bool is_taken(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool taken = fd >= 0 && (!connect(fd, (const struct sockaddr *)at, sizeof *at) || errno == EAGAIN);    /* EAGAIN: its backlog is full */
    if (fd >= 0)
        close(fd);
    return taken;
}

/* Locks a file beside the socket, so that one program at a time uses it.  A server that ends listens no more but keeps the lock until its memory is
 * free: that is waited for. -1 with the reason. */
static int lock_beside(const struct sockaddr_un *at, struct err *e)
{
    enum { PATIENCE_MS = 10000, STEP_MS = 20 };
    const int64_t since = clock_ns();
    struct buf name = {0};
    buf_addf(&name, "%s.lock", at->sun_path);
    int fd = open(name.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        err_set(e, "cannot make %s: %s", name.data, strerror(errno));
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
        const int why = errno;
        if (why == EWOULDBLOCK && !is_taken(at) && clock_ms_since(since) < PATIENCE_MS) {
            poll(NULL, 0, STEP_MS);
            continue;
        }
        err_set(e, why == EWOULDBLOCK ? "a chat or a server runs on %s already: end the chat, or the server with q35chat serve stop"
                                      : "cannot lock %s.lock: %s", at->sun_path, strerror(why));
        close(fd);
        fd = -1;
    }
    buf_free(&name);
    return fd;
}

bool socket_is_held(const char *path)
{
    struct buf name = {0};
    buf_addf(&name, "%s.lock", path);
    const int fd = open(name.data, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    const bool held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    buf_free(&name);
    return held;
}

/* Listens on a Unix socket of this user alone, in place of one that nobody uses. -1 with the reason. */
static int listen_at(const struct sockaddr_un *at, struct err *e)
{
    if (is_taken(at)) {                 /* while the lock is ours: not by a q35chat but by systemd, which would start one */
        err_set(e, "another program listens on %s; systemctl --user stop q35chat.socket ends that if it is systemd", at->sun_path);
        return -1;
    }
    unlink(at->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t before = umask(0177);
    bool ok = fd >= 0 && !bind(fd, (const struct sockaddr *)at, sizeof *at) && !listen(fd, BACKLOG);
    umask(before);
    if (ok)
        return fd;
    err_set(e, "cannot listen on %s: %s", at->sun_path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

int socket_listen_unix(const char *path, int *lock, struct err *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    *lock = -1;
    if (strlen(path) >= sizeof at.sun_path) {
        err_set(e, "the socket's path is longer than %zu bytes, --socket FILE names another: %s", sizeof at.sun_path - 1, path);
        return -1;
    }
    strcpy(at.sun_path, path);
    if (!make_folder(path, e) || (*lock = lock_beside(&at, e)) < 0)
        return -1;
    int fd = listen_at(&at, e);
    if (fd < 0) {
        close(*lock);
        *lock = -1;
    }
    return fd;
}

/* ---- TCP ---- */

/* "HOST:PORT" or "[HOST]:PORT" */
static bool split(const char *address, char *host, size_t n, const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    bool brackets = length > 1 && address[0] == '[' && address[length - 1] == ']';
    if (!colon || !colon[1] || !length || length >= n || strtol(colon + 1, NULL, 10) > UINT16_MAX)     /* getaddrinfo() takes it modulo 65536 */
        return false;
    memcpy(host, address + brackets, length - 2 * brackets);
    host[length - 2 * brackets] = 0;
    *port = colon + 1;
    return strspn(*port, "0123456789") == strlen(*port);
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* Listens on a TCP address. -1 with the reason. */
static int listen_on(const struct addrinfo *a, const char *address, struct err *e)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, BACKLOG))
        return fd;
    err_set(e, "cannot listen on %s: %s", address, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Resolves an address; the result must be freed.  NULL with the reason. */
static struct addrinfo *look_up(const char *address, bool any, struct err *e)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[256];
    const char *port;
    if (!split(address, host, sizeof host, &port)) {
        err_set(e, "the address is '%s', expected 127.0.0.1:PORT or [::1]:PORT, the port at most 65535", address);
        return NULL;
    }
    if (getaddrinfo(host, port, &hints, &found)) {
        err_set(e, "unknown address %s", host);
        return NULL;
    }
    if (any || is_loopback(found->ai_addr))
        return found;
    err_set(e, "%s can be reached from other machines, and nothing here is encrypted: put a server with TLS in front of 127.0.0.1, or add --i-know",
            host);
    freeaddrinfo(found);
    return NULL;
}

bool socket_check_tcp(const char *address, bool any, struct err *e)
{
    struct addrinfo *found = look_up(address, any, e);
    if (found)
        freeaddrinfo(found);
    return found;
}

int socket_listen_tcp(const char *address, bool any, struct err *e)
{
    struct addrinfo *found = look_up(address, any, e);
    if (!found)
        return -1;
    int fd = listen_on(found, address, e);
    freeaddrinfo(found);
    return fd;
}

bool socket_take(int fd, bool any, bool *tcp, struct err *e)
{
    struct sockaddr_storage name = {0};
    socklen_t size = sizeof name, n = sizeof(int);
    int listens = 0, flags = fcntl(fd, F_GETFL);
    if (flags < 0 || getsockname(fd, (struct sockaddr *)&name, &size) || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) || !listens)
        return err_set(e, "descriptor %d of LISTEN_FDS is not a socket that listens", fd);
    *tcp = name.ss_family != AF_UNIX;
    if (*tcp && !any && !is_loopback((const struct sockaddr *)&name))
        return err_set(e, "descriptor %d of LISTEN_FDS can be reached from other machines, and nothing here is encrypted: put a server with TLS "
                       "in front of 127.0.0.1, or add --i-know", fd);
    return !fcntl(fd, F_SETFL, flags | O_NONBLOCK) || err_set(e, "cannot use descriptor %d of LISTEN_FDS: %s", fd, strerror(errno));
}

bool socket_is_local_name(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (!strncasecmp(host, names[i], n) && (!host[n] || (host[n] == ':' && strspn(host + n + 1, "0123456789") == strlen(host + n + 1))))
            return true;
    }
    return false;
}

/* ---- systemd ---- */

int socket_systemd(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    long n = pid && fds && strtol(pid, NULL, 10) == (long)getpid() ? strtol(fds, NULL, 10) : 0;
    unsetenv("LISTEN_PID");             /* the variables are meant for this process alone */
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    for (long i = 0; i < n; i++)
        if (fcntl(SOCKET_FIRST_FD + (int)i, F_SETFD, FD_CLOEXEC))
            return (int)i;
    return n > 0 ? (int)n : 0;
}

void socket_notify_systemd(const char *lines)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    if (!n || n >= sizeof to.sun_path)
        return;
    memcpy(to.sun_path, path, n);
    if (*path == '@')                   /* in the abstract namespace */
        to.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)!sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    close(fd);
}

/* ---- the other end ---- */

/* Appends an address as /proc/net/tcp has it: words of 32 bits as this machine stores them, then the port. */
static bool add_address(struct buf *out, const struct sockaddr_storage *a)
{
    uint32_t words[4] = {0};
    const bool v6 = a->ss_family == AF_INET6;
    const struct sockaddr_in *in = (const void *)a;
    const struct sockaddr_in6 *in6 = (const void *)a;
    if (!v6 && a->ss_family != AF_INET)
        return false;
    memcpy(words, v6 ? (const void *)&in6->sin6_addr : (const void *)&in->sin_addr, v6 ? 16 : 4);
    for (int i = 0; i < (v6 ? 4 : 1); i++)
        buf_addf(out, "%08X", words[i]);
    buf_addf(out, ":%04X ", ntohs(v6 ? in6->sin6_port : in->sin_port));
    return true;
}

/* True if a process holds the socket that the table lists with these two addresses. */
static bool is_held(const char *table, const char *addresses)
{
    char line[512];
    bool held = false;
    FILE *f = fopen(table, "re");
    while (f && !held && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, addresses);
        unsigned long inode = 0;
        held = at && sscanf(at + strlen(addresses), "%*x %*x:%*x %*x:%*x %*x %*u %*u %lu", &inode) == 1 && inode;
    }
    if (f)
        fclose(f);
    return held;
}

bool socket_peer_waits(int fd)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t n_own = sizeof own, n_peer = sizeof peer;
    struct buf addresses = {0};
    const bool known = !getsockname(fd, (struct sockaddr *)&own, &n_own) && !getpeername(fd, (struct sockaddr *)&peer, &n_peer)
                       && add_address(&addresses, &peer) && add_address(&addresses, &own);      /* as the client's end has them */
    const bool waits = known && is_held(peer.ss_family == AF_INET6 ? "/proc/self/net/tcp6" : "/proc/self/net/tcp", addresses.data);
    buf_free(&addresses);
    return waits;
}
