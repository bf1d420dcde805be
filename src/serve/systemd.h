/* What systemd and a service tell each other, as sd_listen_fds(3) and sd_notify(3) describe it: sockets that systemd opened, and the service's
 * state. */
#ifndef Q35_SERVE_SYSTEMD_H
#define Q35_SERVE_SYSTEMD_H

enum { SYSTEMD_FIRST_FD = 3 };

/* How many sockets were opened for this process, from SYSTEMD_FIRST_FD on.  Programs that this one starts do not get them. */
int systemd_sockets(void);
/* Sends lines such as "READY=1\nSTATUS=...".  Does nothing when systemd has not asked for them (NOTIFY_SOCKET). */
void systemd_tell(const char *lines);

#endif
