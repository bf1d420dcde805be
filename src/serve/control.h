/* Requests to a running server over its unix socket: for its state, or to stop. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "option/options.h"

/* NONE: no server listens at the socket.  BUSY: a program of the user's listens, but does not answer, or has no place for another connection.
 * FAILED: the socket is another user's, or the program that listens is not q35chat. */
enum control_found { CONTROL_NONE, CONTROL_FOUND, CONTROL_BUSY, CONTROL_FAILED };

/* The state of a server. */
struct control_state {
    struct buf model, root, options;    /* name, directory, options of the engine (control_engine_key()) */
    struct buf why;                     /* why its self-check failed; empty: it did not */
    struct buf address, key_file;       /* over TCP; empty: it listens on its unix socket alone */
    int  protocol;                      /* version of its protocol with other q35chats (config/limits.h); 0: older than the first number */
    int  n_ctx;                         /* context in tokens; 0: the model is loading */
    int  n_running, n_waiting, n_unread;        /* answers under way, requests in the queue, answers paused until their clients read */
    int  n_connections;                 /* open connections, without this one */
    double loaded_bytes, total_bytes;   /* while the model loads */
};

enum control_found control_look(const char *socket, struct control_state *s, struct err *e);
void control_state_free(struct control_state *s);
/* Stops a server and waits until it has let go of its socket, for at most `patience_s`.  FAILED also if it still has it then. */
enum control_found control_stop(const char *socket, int patience_s, struct err *e);
/* Appends the options that shape an engine, as one text.  Engines of the same model with the same text give the same answers. */
void control_engine_key(const struct options *o, struct buf *out);
/* Sets `path` to the socket that `given` names, or to the usual one. */
void control_socket(const char *given, struct buf *path);
