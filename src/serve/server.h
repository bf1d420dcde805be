/* The server lets many clients use one responder over HTTP, with the API of OpenAI's servers (docs/serve.md).  Requests wait in a queue; several are
 * answered at once if the responder can do that.  It has no thread: the owner polls the descriptors and calls server_run(). */
#pragma once

#include <poll.h>

#include "base/err.h"
#include "responder/responder.h"
#include "serve/server_options.h"

enum { SERVER_MAX_FDS = RESPONDER_MAX_FDS + 1 };

struct server;
/* all: n responders of one engine, for n answers at once, at most SERVER_ANSWERS.  Owns them from now on, also when it fails.  NULL with the reason;
 * n 0: opening a responder failed, and `e` has the reason already. */
struct server *server_open(struct responder *const *all, int n, const struct server_options *so, struct err *e);
void server_close(struct server *s);
bool server_listen(struct server *s, int fd, struct err *e);    /* owns the socket from now on */
int  server_fds(const struct server *s, struct pollfd fds[SERVER_MAX_FDS]);
int  server_fd(const struct server *s);                 /* the descriptor for clients, without those of responders */
int  server_timeout(struct server *s);                  /* for poll(): ms, -1 for ever */
bool server_is_ready(const struct server *s);           /* the model is loaded */
/* hold: pauses the answers under way, and begins none.  Not hold: they continue after their last tokens. */
void server_hold(struct server *s, bool hold);
int  server_n_open(const struct server *s);             /* answers under way and requests in the queue */
int  server_n_others(const struct server *s);           /* attached q35chats, and answers for other clients; 0 when the model is gone */
void server_leave_chat(struct server *s);               /* so.of_chat is over: clients can stop the server; attached chats are notified */
void server_shut(struct server *s);                     /* accepts no further connections */
/* Does what there is to do.  FAILED: with the reason. */
enum server_state server_run(struct server *s, struct err *e);
