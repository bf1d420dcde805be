/* How systemd passes sockets to a service, and how the service reports its state, as sd_listen_fds(3) and sd_notify(3) describe. */
#ifndef Q35_SERVE_SYSTEMD_H
#define Q35_SERVE_SYSTEMD_H

enum { SYSTEMD_FIRST_FD = 3 };

/* The number of sockets that systemd opened for this process, descriptors from SYSTEMD_FIRST_FD on.  Child processes do not inherit them. */
int systemd_sockets(void);
/* Sends lines such as "READY=1\nSTATUS=..." to systemd.  Does nothing if NOTIFY_SOCKET is not set. */
void systemd_tell(const char *lines);

#endif
