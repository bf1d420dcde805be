/* How a server is opened, and how it ends.  Plain values, for its owner and for its inside. */
#pragma once

#include "option/options.h"
#include "serve/keys.h"

struct server_options {
    const struct options *o;            /* values for what a request leaves open; must outlive the server */
    const struct options *engine;       /* those with which the engine was loaded; NULL: o */
    int  n_waiting;                     /* most requests in the queue; more get status 429 */
    int  send_timeout_s;                /* an answer ends when its client has read nothing for so long; 0: never.  Answers of attached chats, which
                                         * may be suspended, do not end so */
    int  keep_s;                        /* the server ends when it had no client for so long; 0: never */
    struct keys *keys;                  /* one of which clients over TCP must send; NULL: TCP is not allowed.  May be read again between two calls */
    const char *address, *key_file;     /* the address over TCP, and the file with the key, for `serve clients`; NULL: none */
    bool self_check;                    /* the model is asked a question before the first client (serve/selfcheck.h) */
    bool any_host;                      /* clients over TCP may call it by any name (Host) */
    const char *const *aliases;         /* other names of the model */
    int  n_aliases;
    bool any_model;                     /* a request may name any model */
    const char *const *origins;         /* of web pages that may use the server */
    int  n_origins;
    int  n_spare;                       /* how many of the responder's answers at once are not for clients of the server */
    bool of_chat;                       /* the engine belongs to a chat: clients cannot stop the server */
};

enum { SERVER_ANSWERS = 16 };           /* most answers at once */
/* STOPPED: a client stopped the server; UNUSED: no client for keep_s; FAILED: the model is gone. */
enum server_state { SERVER_RUNS, SERVER_STOPPED, SERVER_UNUSED, SERVER_FAILED };
