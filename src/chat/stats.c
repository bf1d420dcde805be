#include "chat/stats.h"

void stats_add(struct chat_stats *to, const struct chat_stats *s, bool goes_on)
{
    if (!goes_on) {
        to->n_prompt += s->n_prompt;
        to->n_cached += s->n_cached;
        to->n_ahead += s->n_ahead;
        to->n_typed += s->n_typed;
        to->refilled = s->refilled;
    }
    to->n_tokens += s->n_tokens;
    to->n_timed += s->n_timed;
    to->n_steps += s->n_steps;
    to->prefill_ms += s->prefill_ms;
    to->decode_ms += s->decode_ms;
    to->bytes += s->bytes;
    for (int i = 0; i < CHAT_MAX_DEPTH; i++) {
        to->drafted[i] += s->drafted[i];
        to->accepted[i] += s->accepted[i];
        to->looked_up[i] += s->looked_up[i];
        to->looked_up_accepted[i] += s->looked_up_accepted[i];
    }
}
