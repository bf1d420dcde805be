/* Text <-> token ids for the Qwen3.5 family: byte-level BPE read from tokenizer.json (and tokenizer_config.json).
 * A tokenizer is immutable once open; any thread may use it.  It has no state of a conversation or a model. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"

struct tokenizer;

/* Reads DIR/tokenizer.json and, if it exists, the added tokens of DIR/tokenizer_config.json.
 * NULL on failure, with the file and the reason in `e`. */
struct tokenizer *tokenizer_open(const char *dir, struct err *e);
void tokenizer_close(struct tokenizer *t);

/* Appends the ids of `text` to `out`.  With `specials`, added tokens in the text become their ids.  Without,
 * they are encoded as plain text; use this for text of a user or a tool.  Like other encoders, this one does not search for
 * tokens that only tokenizer_config.json lists.  Invalid UTF-8 counts as U+FFFD, one per maximal ill-formed part. */
void tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, bool specials, struct ids *out);

/* Returns the id of an added token such as "<|im_end|>", or -1. */
int32_t tokenizer_special(const struct tokenizer *t, const char *name);
int  tokenizer_n_ids(const struct tokenizer *t);                /* largest id + 1 */
/* Returns the bytes of a token (not NUL-terminated, not always UTF-8); NULL and 0 for an unused id. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, size_t *len);
bool tokenizer_is_added(const struct tokenizer *t, int32_t id);         /* listed among the added tokens */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);       /* ... and hidden by skip_special */
/* Returns a sentence about a correction made while reading (such as another split pattern), or NULL. */
const char *tokenizer_notice(const struct tokenizer *t);

/* Streaming decode: appends only complete characters to `out`; an incomplete UTF-8 sequence waits in `d`.  detok_flush(), or an
 * added token that is shown, turns it into U+FFFD (one per maximal ill-formed part).  A skipped token has no effect. */
struct detok {
    unsigned char held[4];
    int           n_held;
};
void detok_push(struct detok *d, const struct tokenizer *t, int32_t id, bool skip_special, struct buf *out);
void detok_flush(struct detok *d, struct buf *out);
