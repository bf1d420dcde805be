/* The token ids of the next request.
 *
 * Within a turn, a request after tool calls begins with what the engine already holds: the prompt before and the ids that
 * were sampled.  Where the template writes the same text, these ids are taken as they are, because encoding that text may
 * give others and lose the cache; only the rest is encoded. */
#ifndef Q35_CHAT_PROMPT_H
#define Q35_CHAT_PROMPT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"
#include "chat/transcript.h"
#include "text/tokenizer.h"

struct prompt {
    struct ids ids;
    int  keep_at;               /* for engine_submit() */
    struct ids held;            /* what the engine holds of this turn; empty at the first request */
    struct buf held_text;       /* the same as text, control tokens by name */
    int  spliced;               /* how many of `ids` came from `held` */
};

/* Renders and encodes.  `more`: a message of the user behind all, or NULL.  False with the template's refusal. */
bool prompt_make(struct prompt *p, const struct transcript *t, const struct text *tools, int n_tools, bool thinking, const char *more,
                 const struct tokenizer *tok, struct err *e);
void prompt_answered(struct prompt *p, const struct ids *sampled, const struct tokenizer *tok);  /* `ids` were answered by these */
/* The ids that the next prompt begins with, whatever the user says. */
bool prompt_beginning(const struct transcript *t, const struct text *tools, int n_tools, const struct tokenizer *tok, struct ids *out);
/* Tokens of a prompt of these and one short message: what system prompt and tools cost are differences. */
int  prompt_head(const char *system, const struct text *tools, int n_tools, const struct tokenizer *tok);
void prompt_forget(struct prompt *p);                   /* a new turn begins */
void prompt_free(struct prompt *p);

#endif
