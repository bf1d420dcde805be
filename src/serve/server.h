/* One responder for many clients, over HTTP, as OpenAI's servers speak (docs/serve.md).  Requests wait in a queue.
 * Several are answered at once where the responder can do that.  On one thread: the owner polls the descriptors and calls server_run(). */
#ifndef Q35_SERVE_SERVER_H
#define Q35_SERVE_SERVER_H

#include <poll.h>

#include "base/err.h"
#include "chat/options.h"
#include "chat/responder.h"

struct server_options {
    const struct options *o;            /* what a request leaves open; must outlive the server */
    int  n_waiting;                     /* requests in the queue; more are sent away with 429 */
    int  send_timeout_s;                /* ends an answer of which nothing could be sent for so long because its client does not read; 0: never.
                                         * Not those of attached chats, which may be suspended */
    int  keep_s;                        /* the server ends when it had no client for so long; 0: never */
    const char *key;                    /* that clients over TCP must send; NULL: none may come over TCP */
    bool any_host;                      /* clients over TCP may call it by any name (Host) */
    int  n_spare;                       /* answers at once that the responder gives and the server leaves to others */
    bool of_chat;                       /* a chat has the engine: clients do not end it */
};

enum server_state { SERVER_RUNS, SERVER_STOPPED, SERVER_UNUSED, SERVER_FAILED };
enum { SERVER_MAX_FDS = RESPONDER_MAX_FDS + 1, SERVER_ANSWERS = 16 };

struct server;
/* n responders for answers at once, at most SERVER_ANSWERS: one and guests of it, or guests of one.  Takes them, also when it fails.  NULL with the
 * reason; n 0: there is none, and `e` has the reason already. */
struct server *server_open(struct responder *const *all, int n, const struct server_options *so, struct err *e);
void server_close(struct server *s);
bool server_listen(struct server *s, int fd, struct err *e);    /* takes the socket */
int  server_fds(const struct server *s, struct pollfd fds[SERVER_MAX_FDS]);
int  server_fd(const struct server *s);                 /* that of the clients alone */
int  server_timeout(struct server *s);                  /* for poll(): ms, -1 for ever */
bool server_is_ready(const struct server *s);           /* the model is loaded */
/* Answers under way are paused, and go on behind their last tokens when they are released; none begins in between. */
void server_hold(struct server *s, bool hold);
int  server_n_open(const struct server *s);             /* answers under way and requests that wait */
int  server_n_others(const struct server *s);           /* q35chats that are attached, and answers for others; 0 when the model is gone */
void server_leave_chat(struct server *s);               /* the chat that had the engine has left: clients may end it, and are told */
void server_shut(struct server *s);                     /* no further connections are accepted */
/* STOPPED: a client asked for that; UNUSED: nobody came for `keep_s`; FAILED: the model is gone, `e` says why. */
enum server_state server_run(struct server *s, struct err *e);

#endif
