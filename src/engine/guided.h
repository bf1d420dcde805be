/* The guide of an answer under way: its place in the text behind the tokens whose results were taken, and what that admits.
 *
 * A step picks without a mask, as if there were no guide, and the guide looks at what was picked.  If it refuses the last token, only that row
 * is picked once more, under a mask over the vocabulary.  The other tokens of a step are drafts, which the guide had to admit before they were
 * verified.  So an answer has the same tokens at every number of drafts, and a token that the guide admits costs no mask.
 *
 * Where a guide of calls rests (guide_rests()) nothing is refused, and a step is what it is without a guide: the stepper keeps nothing.  A draft that
 * begins a call is not verified there, so that its call begins behind the newest token, and the next step is one under a guide.
 *
 * The request's ids that end an answer are admissible where the text is complete; while reasoning, where an empty text would be. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "guide/guide.h"
#include "engine/request.h"

struct step_result;

/* {0}: there is no guide. */
struct guided {
    struct guide *guide;                /* the request's */
    const struct sampling *how;
    struct guide_state at;
    int n_ids;                          /* of a mask */
    uint32_t *mask;                     /* that of guided_mask() */
    bool ended;                         /* an end id was accepted */
};

/* Begins at the end of the prompt.  False with the reason if the guide refuses the beginning of the answer that the prompt ends with; an optional
 * guide (guide_is_optional()) is then left out. */
bool guided_begin(struct guided *g, const struct sampling *how, struct spans prompt, int vocab, struct err *e);
/* When *g is where it stays: its place is kept until guided_free(), and the guide too, which may outlive the request. */
void guided_watch(struct guided *g);
void guided_free(struct guided *g);
/* How many of the ids, from the first on, the guide admits one after the other, and a step may verify: something must be able to follow the last. */
int  guided_admits(const struct guided *g, const int32_t *ids, int n);
/* Accepts the tokens of a result, and returns -1; or the index of the one that the guide refuses, and accepts none. */
int  guided_refuses(struct guided *g, const struct step_result *r);
/* Makes the mask for that row of the result, of what is admissible as far as the work for a token suffices.  False: nothing is. */
bool guided_mask(struct guided *g, const struct step_result *r, int row);
/* True if nothing is refused behind the tokens that were accepted, or there is no guide. */
bool guided_rests(const struct guided *g);
/* True if what was refused last may be admissible: to find out would have taken too much work. */
bool guided_is_full(const struct guided *g);
/* True if the text is complete and nothing else may follow. */
bool guided_is_over(const struct guided *g);
