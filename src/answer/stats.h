/* The figures of an answer: of one request for it, or of a turn, which may have several.  config/stats.def says what they mean, how they add up and
 * how they are written.  Plain values, valid as {0}. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "answer/token.h"
#include "base/buf.h"

struct json_t;

/* Drafts that steps have verified. */
struct draft_count { int drafted, accepted; };

/* Why more of a prompt was computed than what is new in it.  {0}: no more was. */
struct refill {
    bool happened;
    bool resident;                      /* the conversation was in memory, but there was no snapshot near enough; else it was not in memory */
    bool from_file;                     /* the snapshot that the prompt continues came from a checkpoint file */
    int  common;                        /* tokens that the prompt shares with the conversation in memory */
    int  pos;                           /* position of the nearest snapshot within these; 0: there is none */
};

struct stats {
#define STAT(type, name, ...) type name;
#define TURN_STAT(type, name, ...) type name;
#define FIGURE(...)
#include "config/stats.def"
    struct draft_count drafts[DRAFT_SOURCES][LIMIT_DRAFTS];  /* by source and position in the step */
    struct refill refill;               /* of the newest request that read a prompt */
};

/* Adds the figures of a request to a sum.  continues: the request continued the answer that the sum is of, so that its prompt is that one's. */
void stats_add(struct stats *to, const struct stats *s, bool continues);
/* Returns the figures that were added to `then` to make `now`. */
struct stats stats_between(const struct stats *then, const struct stats *now);
/* All figures of a request are unknown: -1. */
struct stats stats_unknown(void);
/* Overwrites the figures that are known in `s`. */
void stats_overwrite(struct stats *to, const struct stats *s);

struct draft_count stats_drafts(const struct stats *s, enum draft_source by);        /* of all positions */
struct draft_count stats_all_drafts(const struct stats *s);                          /* and of all sources */
const char *drafts_share_name(enum draft_source by);   /* on the status line and in the panel */
/* accepted / drafted; negative without drafts. */
static inline double drafts_share(struct draft_count d) { return d.drafted > 0 ? (double)d.accepted / d.drafted : -1; }
/* "accept", wherever it is shown: the share of the MTP block's drafts that was accepted.  Negative when it drafted nothing. */
static inline double stats_acceptance(const struct stats *s) { return drafts_share(stats_drafts(s, DRAFT_MTP)); }
/* Tokens after the first, over the time after the first. */
static inline double stats_tok_s(const struct stats *s) { return s->decode_ms > 0 ? s->n_timed * 1000.0 / s->decode_ms : 0; }
/* The first token of each round comes from the prompt, not from a step.  0 without steps. */
static inline double stats_tokens_per_step(const struct stats *s) { return s->n_steps ? (double)(s->n_tokens - s->n_rounds) / s->n_steps : 0; }
/* Memory traffic per token, in 10^9 bytes; 0: not known. */
static inline double stats_gb_per_token(const struct stats *s)
{
    return s->n_tokens > s->n_rounds ? s->bytes * 1e-9 / (s->n_tokens - s->n_rounds) : 0;
}

/* Appends the figures of a request as a JSON object, for another q35chat. */
void stats_write(const struct stats *s, struct buf *out);
/* Reads them.  A figure that is missing is 0; counts are at most LIMIT_CTX, so that sums do not overflow. */
void stats_read(struct stats *s, const struct json_t *v);
/* Adds the figures of a turn to the object `j`, as --json prints them. */
void stats_to_json(const struct stats *s, struct json_t *j);
