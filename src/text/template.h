/* The chat template of Qwen3.5 (docs/formats.md): conversation -> segments. */
#pragma once

#include "base/err.h"
#include "base/ids.h"
#include "base/memory.h"
#include "text/message.h"
#include "text/tokenizer.h"

/* A piece of the prompt: a control token by name ("<|im_start|>"), plain text without control tokens, or tokens. */
struct segment {
    bool        control;
    struct text text;
    const int32_t *ids;                 /* [n_ids] that decode to the text; NULL: the text is encoded */
    int         n_ids;
};
struct segments {
    struct segment *items;
    int n, cap;
    int keep;           /* items[0..keep) is the longest prefix that the prompt of the next turn shares: it ends before the
                         * first reply whose reasoning the next user message drops, or before a message that is fleeting */
};

/* Appends to `out` (in `a`); false with the template's refusal. */
bool template_render(const struct conversation *c, struct segments *out, struct arena *a, struct err *e);
/* Returns whether a user asks something in the message: reasoning is kept after the last such message.  Clients may also return tool results in user
 * messages. */
bool template_is_query(const struct message *m);
/* Appends the text of all segments. */
void segments_text(const struct segments *s, struct buf *out);
/* Encodes the segments: control tokens by id, each run of plain text as one text with specials off.  *snapshot_pos (may be NULL)
 * receives the number of ids of items[0..keep).  False if the vocabulary lacks a control token. */
bool segments_encode(const struct segments *s, const struct tokenizer *t, struct ids *out, int *snapshot_pos, struct err *e);
