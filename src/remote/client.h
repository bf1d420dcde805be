/* A connection to an OpenAI-compatible server on a thread of its own: asks which models there are, then one answer after another.
 * Called from one owner thread; nothing here waits for the server but client_close(), which waits a tenth of a second at most. */
#ifndef Q35_REMOTE_CLIENT_H
#define Q35_REMOTE_CLIENT_H

#include "base/err.h"
#include "remote/completion.h"
#include "remote/dialect.h"

struct client_options {
    const char *url;                    /* with or without "/v1" at its end; or "unix:PATH" */
    const char *model;                  /* NULL: the only one that the server has, or CLIENT_OFFER */
    const char *dialect;                /* NULL: found out */
    const char *key;                    /* NULL: none is sent */
    const char *key_from;               /* what holds a key for it, for sentences */
    const char *ca_file;                /* of the certificate authorities to trust; NULL: the usual ones */
    int silence_s;                      /* an answer that brings nothing for so long has broken; 0: 600 */
};

enum client_event_kind {
    CLIENT_LOADING,                     /* delta.done, delta.total: bytes; the server loads its model */
    CLIENT_READY,                       /* model and the length of its context are known */
    CLIENT_OFFER,                       /* text: names of models, each ended by a zero byte, of which client_choose() may take one; where none was
                                         * taken before, it must.  Where the server has others than it had, or does not take the one, a note says
                                         * so */
    CLIENT_FATAL,                       /* text: why there is no model; only client_close() is left */
    CLIENT_NOTE,                        /* text: a sentence for the user */
    CLIENT_DELTA,                       /* delta, text: as struct completion_delta */
    CLIENT_DONE,                        /* how; text: why it failed, or empty */
};

enum client_end { CLIENT_ANSWERED, CLIENT_LENGTH, CLIENT_FILTERED, CLIENT_STOPPED, CLIENT_FAILED, CLIENT_TOO_LONG };

struct client_event {
    enum client_event_kind kind;
    enum client_end how;
    bool unreachable;                   /* with CLIENT_FAILED: nobody was there, or went away before the first word */
    struct completion_delta delta;      /* its text is the event's */
    struct completion_figures figures;  /* with CLIENT_DONE, and as far as they are known before */
    struct buf text;
};

struct client;
/* NULL with the reason: the address is none, a wrong dialect, no thread. */
struct client *client_open(const struct client_options *o, struct err *e);
void client_close(struct client *c);

int  client_fd(const struct client *c);                         /* readable while events wait */
/* Valid until the next drain. */
const struct client_event *client_drain(struct client *c, int *n);
/* After CLIENT_READY, and never while an answer is under way: takes the body.  goes_on: the answer continues one.  One CLIENT_DONE follows. */
void client_ask(struct client *c, struct buf *body, bool goes_on);
/* Likewise, and after CLIENT_OFFER: the model of that name; CLIENT_READY follows, of the one before where it cannot be had, or CLIENT_OFFER again.
 * "": CLIENT_OFFER with the names as they are now, or a note. */
void client_choose(struct client *c, const char *name);
void client_stop(struct client *c);                             /* the answer under way ends soon, with CLIENT_STOPPED */

/* After CLIENT_READY, until client_choose(). */
const struct remote_model *client_model(const struct client *c);
/* The name under which reasoning came last; NULL: none came yet. */
const char *client_reasoning_name(const struct client *c);

#endif
