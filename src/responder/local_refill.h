/* Why a prompt was read further back than its new tokens, in words. */
#ifndef Q35_RESPONDER_LOCAL_REFILL_H
#define Q35_RESPONDER_LOCAL_REFILL_H

#include "base/buf.h"
#include "base/ids.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

/* "the prompt parts from what was there at token 1200, ...": a line about the prompt `ids`. */
void refill_say(const struct refill *r, const struct ids *ids, const struct tokenizer *tok, struct buf *out);

#endif
