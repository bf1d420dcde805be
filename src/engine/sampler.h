/* How an id comes from logits, for requests and for those who explain them.  The device does it: step_logits and step_pick (kernels/step.h).
 *
 * Order: logit bias, repetition penalty, presence penalty, temperature (so far as vLLM), top-k, top-p over what top-k
 * left, min-p (the order of Hugging Face).  Ties go to the lower id.  Temperature 0 is arg-max after bias and penalties.
 *
 * Drafts need no second rule: pick from the target distribution p; a draft d counts as accepted when it is what was picked.
 * That accepts d with probability p(d) and otherwise picks from p without d, renormalised, which is exact.  One random
 * number is drawn per picked id, so a seed gives the same answer at every draft depth. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/request.h"

/* How many ids can be picked: the vocabulary without its padding. */
int  sampler_n_ids(const struct sampling *how, int vocab);
/* Refuses numbers that mean nothing (a negative temperature, a bias for an id outside the vocabulary). */
bool sampler_check(const struct sampling *how, int vocab, struct err *e);
/* The state of the random stream after the first n_answer_prefix ids of an answer. */
uint64_t sampler_stream(const struct sampling *how);
/* Why no id can be picked; both return false. */
bool sampler_bad_logit(struct err *e, int id, float logit);
bool sampler_all_banned(struct err *e, int n_ids);

/* The id with the greatest logit, the lowest among equals. */
int32_t sampler_argmax(const float *logits, int vocab);
