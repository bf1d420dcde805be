/* /tokenize and /detokenize: from a text or a conversation to tokens, and back.  Reads and writes the fields of vLLM and of llama.cpp. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "option/options.h"
#include "responder/responder.h"
#include "serve/seen.h"

/* Bytes of the longest piece of the vocabulary. */
size_t tokens_longest(const struct responder *r);
/* True if the JSON text `body` has more than `most` values.  Counts commas and brackets, so that a body which would take many times its size in
 * memory is refused before it is parsed. */
bool tokens_too_many(struct text body, size_t most);
/* Append the body of the reply.  False with a sentence for the client. */
bool tokens_of_text(struct responder *r, struct text body, const struct options *o, struct look *l, struct buf *out, struct err *e);
bool text_of_tokens(struct responder *r, struct text body, const struct options *o, struct look *l, struct buf *out, struct err *e);
