/* The token ids of the next request.
 *
 * Within a turn, a request after tool calls begins with what the engine already holds: the prompt before and the ids that
 * were sampled.  Where the template writes the same text, these ids are taken as they are, because encoding that text may
 * give others and lose the cache; only the rest is encoded. */
#ifndef Q35_RESPONDER_LOCAL_PROMPT_H
#define Q35_RESPONDER_LOCAL_PROMPT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"
#include "text/message.h"
#include "text/tokenizer.h"

struct prompt {
    struct ids ids;
    int  snapshot_pos;          /* for engine_submit() */
    struct ids held;            /* what the engine holds of this turn; empty at the first request */
    struct buf held_text;       /* the same as text, control tokens by name */
    int  spliced;               /* how many of `ids` came from `held` */
};

/* The ids of a prompt of which nothing is held, if somebody has made them before. */
struct made {
    const struct ids *ids;
    int snapshot_pos;
};

/* Renders and encodes.  made: NULL, or its ids are taken where all would be encoded.  False with the template's refusal. */
bool prompt_make(struct prompt *p, const struct conversation *c, const struct made *made, const struct tokenizer *tok, struct err *e);
void prompt_answered(struct prompt *p, const struct ids *sampled, const struct tokenizer *tok);  /* `ids` were answered by these */
/* The ids with which the prompt begins whatever the last message says. */
bool prompt_beginning(const struct conversation *c, const struct tokenizer *tok, struct ids *out);
/* The same of a prompt whose beginning `head` is known and whose last message begins with these whole words. */
bool prompt_typed(const struct ids *head, const char *words, const struct tokenizer *tok, struct ids *out);
void prompt_forget(struct prompt *p);                   /* a new turn begins */
void prompt_free(struct prompt *p);

#endif
