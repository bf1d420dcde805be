/* How a server is opened, and how it ends.  Plain values, for its owner and for its inside. */
#ifndef Q35_SERVE_SERVER_OPTIONS_H
#define Q35_SERVE_SERVER_OPTIONS_H

#include "option/options.h"

struct server_options {
    const struct options *o;            /* values for what a request leaves open; must outlive the server */
    const struct options *engine;       /* those with which the engine was loaded; NULL: o */
    int  n_waiting;                     /* most requests in the queue; more get status 429 */
    int  send_timeout_s;                /* an answer ends when its client has read nothing for so long; 0: never.  Answers of attached chats, which
                                         * may be suspended, do not end so */
    int  keep_s;                        /* the server ends when it had no client for so long; 0: never */
    const char *key;                    /* key that clients over TCP must send; NULL: TCP is not allowed */
    bool any_host;                      /* clients over TCP may call it by any name (Host) */
    int  n_spare;                       /* how many of the responder's answers at once are not for clients of the server */
    bool of_chat;                       /* the engine belongs to a chat: clients cannot stop the server */
};

enum { SERVER_ANSWERS = 16 };           /* most answers at once */
/* STOPPED: a client stopped the server; UNUSED: no client for keep_s; FAILED: the model is gone. */
enum server_state { SERVER_RUNS, SERVER_STOPPED, SERVER_UNUSED, SERVER_FAILED };

#endif
