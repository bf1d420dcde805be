/* The sampling values in force: those of the user, else of the chosen preset, else the checkpoint's defaults. */
#pragma once

#include <float.h>

#include "option/options.h"
#include "responder/responder.h"

/* Returns the top_p for the engine, where 0 means all tokens: for users it is the narrowest nucleus. */
static inline float preset_top_p(float top_p) { return top_p > 0 ? top_p : FLT_MIN; }

/* Fills *s.  With preset = auto the values of generation_config.json are used as a whole; a checkpoint without them gets those of the model card,
 * thinking or plain.  Seed 0 if the user set none. */
void preset_sampling(const struct options *o, const struct model_info *info, struct sampling *s);
/* Appends two lines for /preset; info NULL: the checkpoint's own values are not known yet. */
void preset_describe(const struct options *o, const struct model_info *info, struct buf *out);
/* Appends a line with the value in force of a sampling option that the user has not set; for other options what options_explain() says, and what
 * limits drafts and lookup. */
void preset_explain(const struct options *o, const struct model_info *info, enum option_id id, struct buf *out);
/* Appends "thinking, temperature 0.6", or "greedy". */
void preset_name(const struct options *o, const struct model_info *info, struct buf *out);
