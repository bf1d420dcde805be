/* TCP: whether a client that sends nothing more still waits for its reply. */
#ifndef Q35_SERVE_HALFCLOSED_H
#define Q35_SERVE_HALFCLOSED_H

#include <stdbool.h>

/* True if the other end of this TCP connection, which has sent its end of data, is still held by a process of this machine.  shutdown() and close()
 * look the same over TCP until something is sent; the kernel's table of sockets tells them apart.  False for clients on other machines. */
bool halfclosed_peer_waits(int fd);

#endif
