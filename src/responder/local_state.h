/* The inside of the responder in this process, for the files local*.c.  Nobody else includes this. */
#ifndef Q35_RESPONDER_LOCAL_STATE_H
#define Q35_RESPONDER_LOCAL_STATE_H

#include "base/buf.h"
#include "responder/local.h"
#include "responder/local_bias.h"
#include "responder/local_loader.h"
#include "responder/local_prompt.h"
#include "responder/local_refill.h"
#include "responder/local_source.h"
#include "responder/local_speech.h"

/* The answer under way.  It is one request to the engine, or several: one that ends where the reasoning's budget does, or that
 * end_thought() ends, is followed by one that goes on behind </think>.
 *
 *     SILENT -> SPEAKING | TO_BUDGET                  request()
 *     SPEAKING, TO_BUDGET -> LEAVING_THOUGHT          end_thought()
 *     TO_BUDGET, LEAVING_THOUGHT -> SPEAKING          the engine's request has ended, the next one is made
 *     SPEAKING, TO_BUDGET, LEAVING_THOUGHT -> STOPPING        interrupt()
 *     any but SILENT -> SILENT                        the answer has ended */
enum speaking { SILENT, SPEAKING, TO_BUDGET, LEAVING_THOUGHT, STOPPING };

struct local {
    struct responder  base;
    struct source    *source;
    struct tokenizer *tok;              /* NULL: not read yet */
    struct loader    *loader;           /* of the tokenizer; NULL: it was taken */
    struct local     *host;             /* whose source and tokenizer it uses; NULL: its own */
    struct local     *guests, *next;    /* those that use its own; the next one of them */
    struct buf        dir, notice;
    struct model_info info;
    bool   known;                       /* info is filled */
    bool   ready;                       /* and the tokenizer is there */
    bool   dead;
    bool   tells;                       /* that the model is another program's is told when it is ready */
    bool   gone;                        /* that the source is gone was told */

    uint64_t       conversation;        /* of the answer */
    struct prompt  prompt;
    struct ids     head;                /* what the next prompt begins with, as it was last read ahead */
    struct biases  biases;
    struct sampling sampling;           /* of the answer, but for what differs between its requests to the engine */
    int            think_budget;
    struct speech  speech;
    enum speaking  speaking;
    uint32_t       serial;              /* of the engine's request */
    bool           goes_on;             /* it is not the answer's first one */
    bool           answered_before;     /* the conversation has an older answer */
    bool           telling;             /* events of the engine are being told */
    bool           enough;              /* the owner wants none of the tokens that still come */
    struct stats ended, so_far;    /* of the requests that have ended; with the one under way */
};

/* local_request.c: one answer, from the request on */
enum request_result local_request(struct responder *r, const struct request *q, struct err *e);
int  local_count_prompt(struct responder *r, const struct request *q, struct err *e);
bool local_prompt(struct responder *r, const struct request *q, struct ids *out, int *snapshot_pos, struct err *e);
void local_read_ahead(struct responder *r, const struct request *q);
void local_interrupt(struct responder *r);
bool local_end_thought(struct responder *r);
void local_event(struct local *l, const struct event *ev);     /* reading, tokens, done */
void local_break_off(struct local *l);                 /* the engine is gone: what was held back is told */
void local_gone(struct local *l);                      /* nobody is there any more: NEWS_GONE */

/* local_tokens.c */
bool local_tokens(struct responder *r, const struct spoken *s, struct tokens *out);
bool local_says(struct responder *r, const struct spoken *s, const struct tokens *t);

#endif
