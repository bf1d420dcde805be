/* The sampling values: the user's, else those of the chosen preset, else the checkpoint's defaults. */
#ifndef Q35_OPTION_PRESET_H
#define Q35_OPTION_PRESET_H

#include <float.h>

#include "option/options.h"
#include "responder/responder.h"

/* A user's top_p of 0 is the narrowest nucleus; to the engine 0 would be all. */
static inline float preset_top_p(float top_p) { return top_p > 0 ? top_p : FLT_MIN; }

/* Fills *s.  With preset = auto the values of generation_config.json count as a whole set;
 * a checkpoint without them gets the card's values, thinking or plain.  Seed 0 when the user gave none. */
void preset_sampling(const struct options *o, const struct responder_info *info, struct request_sampling *s);
/* Two lines for /preset; info NULL: the checkpoint's own values are not known yet. */
void preset_describe(const struct options *o, const struct responder_info *info, struct buf *out);
/* A line with the value in force of an option of sampling that was not given, or what else is in force of drafts and lookup; nothing for
 * others. */
void preset_explain(const struct options *o, const struct responder_info *info, enum option_id id, struct buf *out);
/* "thinking T 0.6": whose values, and how hot; "greedy" where it makes no difference. */
void preset_name(const struct options *o, const struct responder_info *info, struct buf *out);

#endif
