/* Requests with large bodies are read on threads of their own, up to the tokens of their prompts, since the thread of the server may be the one that
 * draws a chat's screen.  Small ones are read at once. */
#ifndef Q35_SERVE_READING_H
#define Q35_SERVE_READING_H

#include "base/mailbox.h"
#include "serve/job.h"
#include "serve/web.h"

/* The two ways to read a body: to a question for the model, or to a reply at once.  Either runs on any thread; the other is NULL. */
struct reader {
    bool (*question)(struct question *q, struct text body, const struct options *o, struct err *e);
    bool (*reply)(struct responder *r, struct text body, const struct options *o, struct buf *out, struct err *e);
};

struct reading {
    struct reading *next;
    struct exchange *x;                 /* NULL: the client has gone */
    const struct reader *how;
    struct responder *r;                /* NULL: its tokenizer is not there yet */
    struct options *o;                  /* a copy: those of a chat can change meanwhile */
    struct mailbox *done;
    size_t most_values;                 /* of the body */
    struct buf body;
    struct text text;                   /* the body, wherever it is */
    struct buf interrupted;             /* names of answers that were interrupted meanwhile, each behind a zero byte and before one */
    bool runs;
    pthread_t thread;

    bool ok;                            /* the results: */
    struct err e;                       /* why not */
    struct job *job;                    /* of `question` */
    struct buf out;                     /* of `reply` */
};

/* Calls this with the results, which it may take out of rd. */
typedef void reading_done(void *arg, struct reading *rd);

struct readings {
    struct reading *first;              /* those under way, and those that wait for a thread */
    struct mailbox done;                /* pointers to those that have been read */
    reading_done *fn;
    void *arg;
};

bool readings_init(struct readings *l, reading_done *fn, void *arg);    /* false with errno */
void readings_free(struct readings *l);         /* waits for the threads */
/* Reads the body of x; rd has x, how, r and most_values.  The results come within the call or within readings_take(). */
void readings_add(struct readings *l, const struct reading *rd, const struct options *o);
void readings_take(struct readings *l);         /* when the mailbox is readable */
/* An answer of this name, which may be asked for in a body that is being read, was interrupted; reading_was_interrupted() is true of it then. */
void readings_interrupt(struct readings *l, struct text name);
bool reading_was_interrupted(const struct reading *rd);
bool readings_gone(struct readings *l, const struct exchange *x);       /* the client has gone; false: it has none here */

#endif
