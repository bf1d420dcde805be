/* What another program asks a server over its unix socket. */
#ifndef Q35_SERVE_CONTROL_H
#define Q35_SERVE_CONTROL_H

#include "base/buf.h"
#include "base/err.h"
#include "chat/options.h"

enum control_found { CONTROL_NONE, CONTROL_FOUND, CONTROL_FAILED };

/* What a server says of itself. */
struct control_state {
    struct buf model, root, options;    /* name, directory, options of the engine (serve/engine_key.h) */
    int  protocol;                      /* that it speaks with other q35chats (config/limits.h); 0: one from before there were numbers */
    int  n_ctx;                         /* 0: it loads */
    int  n_running, n_waiting, n_unread;        /* answers under way, requests that wait, answers that wait for their clients to read */
    int  n_connections;                 /* of others, beside the one that asked */
    double loaded_bytes, total_bytes;
};

/* NONE: no server listens there. */
enum control_found control_look(const char *socket, struct control_state *s, struct err *e);
void control_state_free(struct control_state *s);
enum control_found control_stop(const char *socket, struct err *e);
/* The socket that `given` names, or the usual one. */
void control_socket(const char *given, struct buf *path);

#endif
