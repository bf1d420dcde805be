/* The prompts of config/bench_prompts.def through the engine, as a chat would ask them. */
#ifndef Q35_BENCH_ANSWERS_H
#define Q35_BENCH_ANSWERS_H

#include "bench/report.h"
#include "engine/engine.h"

struct answers {                        /* of all prompts together */
    int    n_tokens, n_steps, n_drafted;
    int    n_after_first;               /* tokens behind the first one of each answer; decode_ms is their time */
    double decode_ms;
};

/* Loads the model, reports that as a fact, then two tables: answers, and drafts by position.  Ends early if the report is stopped or has
 * no time left.  False with the reason if the model cannot be loaded or the device fails. */
bool answers_run(struct answers *a, struct report *r, const struct engine_options *o, struct err *e);

#endif
