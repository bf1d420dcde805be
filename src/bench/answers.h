/* Prompts through the engine, as a chat would send them. */
#pragma once

#include "bench/report.h"
#include "engine/engine.h"

struct tokenizer;

struct question {
    const char *name, *text;
    int         max_tokens;
};

extern const struct question answers_report[], answers_five[];  /* config/bench_prompts.def */
enum { ANSWERS_QUESTIONS = 5 };         /* of each */

struct asked {                          /* some answers together */
    int    n_answers;
    struct stats stats;
    struct stats each[ANSWERS_QUESTIONS];       /* by question */
    double sum_tok_s, sum_decode_tok_s; /* of each answer: all tokens over all time, and those after the first one over theirs */
    double sum_pos;                     /* of the middle of each answer */
};

struct answers {
    struct report    *r;
    struct engine    *g;
    struct tokenizer *tokenizer;
    int               depth;            /* drafts a step; -1: as many as pay */
    int               n_alternatives;   /* likely tokens that are returned with each token */
    double            limit_s;          /* an answer that takes longer is cut; 0: no limit */
};

/* Loads the model and reports its figures as facts.  False with the reason, or because the report was stopped; must be closed either
 * way. */
bool answers_open(struct answers *x, struct report *r, const struct engine_options *o, struct err *e);
/* Asks the questions and reports a table of answers.  Ends early if the report is stopped or has no time left.  False with the reason if the
 * device fails. */
bool answers_ask(struct answers *x, const char *title, const struct question *q, int n, struct asked *sum, struct err *e);
/* A table of drafts by source and position: of all answers, then of those to each question, since code, prose and JSON differ. */
void answers_drafts(struct answers *x, const struct question *q, const struct asked *sum);
void answers_close(struct answers *x);

/* Returns the number of steps that verified exactly n drafts of that source.  Steps without drafts count as the MTP block's. */
int  asked_steps(const struct asked *a, enum draft_source by, int n);
