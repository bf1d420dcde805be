/* A client of an OpenAI-compatible server, with its own thread: it requests the list of models, then one answer after another.  Called from one
 * owner thread.  Only client_close() waits for the server, a tenth of a second at most. */
#pragma once

#include "base/err.h"
#include "remote/completion.h"
#include "remote/dialect.h"

struct client_options {
    const char *url;                    /* with or without "/v1" at the end; or "unix:PATH" */
    const char *model;                  /* NULL: the server's only model; if it has several, CLIENT_OFFER comes */
    const char *dialect;                /* a name of config/dialects.def; NULL: recognized from the server's replies */
    const char *key;                    /* the API key; NULL: none is sent */
    const char *key_from;               /* the file or variable that holds the key, for sentences */
    const char *ca_file;                /* certificate authorities to trust; NULL: those of the system */
    int silence_s;                      /* an answer without a new byte for so long counts as broken; 0: 600 */
};

enum client_event_kind {
    CLIENT_LOADING,                     /* the server loads its model; delta.done, delta.total: bytes */
    CLIENT_READY,                       /* the model and the size of its context are known */
    CLIENT_OFFER,                       /* text: names of the server's models, each ended by a zero byte.  client_choose() may choose one, and must
                                         * if none was chosen before.  A note follows if the list has changed, or the server refuses a model */
    CLIENT_FATAL,                       /* text: why there is no model; only client_close() may be called */
    CLIENT_NOTE,                        /* text: a sentence for the user */
    CLIENT_DELTA,                       /* delta, text: as in struct completion_delta */
    CLIENT_DONE,                        /* how; text: the reason, if the answer failed, else empty */
};

enum client_end { CLIENT_ANSWERED, CLIENT_LENGTH, CLIENT_CONTEXT, CLIENT_BROKEN, CLIENT_FILTERED, CLIENT_STOPPED, CLIENT_FAILED, CLIENT_TOO_LONG };

struct client_event {
    enum client_event_kind kind;
    enum client_end how;
    bool unreachable;                   /* with CLIENT_FAILED: there was no server, or it went away before the first word */
    struct completion_delta delta;      /* its text points to `text`, its id to `id` */
    struct stats stats;                 /* complete with CLIENT_DONE, before that as far as they are known */
    struct buf text, id;
};

struct client;
/* NULL with the reason: no valid address, an unknown dialect, no thread. */
struct client *client_open(const struct client_options *o, struct err *e);
void client_close(struct client *c);

int  client_fd(const struct client *c);                         /* readable while events wait */
/* The *n events since the last call; valid until the next one. */
const struct client_event *client_drain(struct client *c, int *n);
/* Asks for an answer and empties `body` (remote/body.h).  Only after CLIENT_READY, and not while an answer is under way.  continues: the answer
 * continues an earlier one.  An answer of more than `most` bytes fails.  One CLIENT_DONE follows. */
void client_ask(struct client *c, struct buf *body, bool continues, size_t most);
/* Changes to the model of this name.  Only after CLIENT_READY or CLIENT_OFFER, and not while an answer is under way.  CLIENT_READY follows, with the
 * former model if the server refuses this one, or CLIENT_OFFER if there was none.  "": requests the list; CLIENT_OFFER or CLIENT_NOTE follows. */
void client_choose(struct client *c, const char *name);
void client_stop(struct client *c);                             /* the answer under way ends soon, with CLIENT_STOPPED */

/* The chosen model; valid from CLIENT_READY until client_choose(). */
const struct remote_model *client_model(const struct client *c);
/* The name of the field in which reasoning came last; NULL: none came yet. */
const char *client_reasoning_name(const struct client *c);
