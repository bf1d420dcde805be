/* The token ids of the next request.
 *
 * Within a turn, a request after tool calls begins with tokens that the engine holds: the prompt before it and the ids that were sampled.  Where the
 * template writes the same text, these ids are used as they are, because encoding the text again may give others and lose the cache; only the rest is
 * encoded. */
#pragma once

#include <stdbool.h>

#include "answer/stats.h"
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

/* The ids of a whole prompt, where they were made before (responder_ops.prompt). */
struct made {
    const struct ids *ids;
    int snapshot_pos;
};

/* Renders and encodes.  made: NULL, or the ids for a prompt of which the engine holds nothing.  False with the template's refusal. */
bool prompt_make(struct prompt *p, const struct conversation *c, const struct made *made, const struct tokenizer *tok, struct err *e);
/* Notes that `ids` were answered with these. */
void prompt_answered(struct prompt *p, const struct ids *sampled, const struct tokenizer *tok);
/* Makes the ids with which the prompt begins whatever its last message says. */
bool prompt_beginning(const struct conversation *c, const struct tokenizer *tok, struct ids *out);
/* Makes the ids with which a prompt begins whose beginning `head` is known and whose last message begins like this one: pictures, whole words. */
bool prompt_typed(const struct ids *head, const struct message *typed, const struct tokenizer *tok, struct ids *out);
void prompt_forget(struct prompt *p);                   /* a new turn begins */
void prompt_free(struct prompt *p);

/* Appends why more of the prompt `ids` was computed than what is new in it, as a line. */
void refill_describe(const struct refill *r, const struct ids *ids, const struct tokenizer *tok, struct buf *out);
