/* /tokenize and /detokenize: a text or a conversation -> tokens, and back.  Both the fields of vLLM and those of llama.cpp are read and told. */
#ifndef Q35_SERVE_TOKENS_H
#define Q35_SERVE_TOKENS_H

#include "base/buf.h"
#include "base/err.h"
#include "chat/options.h"
#include "chat/responder.h"

/* Appends the reply's body.  False with a sentence for the client. */
bool tokens_of_text(struct responder *r, struct text body, const struct options *o, struct buf *out, struct err *e);
bool text_of_tokens(struct responder *r, struct text body, struct buf *out, struct err *e);

#endif
