#include "serve/halfclosed.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"

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

/* Whether a process holds the socket that the table lists with these two addresses. */
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

bool halfclosed_peer_waits(int fd)
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
