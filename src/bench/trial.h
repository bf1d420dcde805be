/* Answers in which drafts are right with a given chance, so that drafting can be measured with weights that are random. */
#ifndef Q35_BENCH_TRIAL_H
#define Q35_BENCH_TRIAL_H

#include "bench/subject.h"

/* Two tables: steps at each number of drafts, and answers by the chance that a draft is right when all before it were.  Everything but that
 * chance is as in a chat.  `there`: the same at so many GB/s; 0: not asked for.  False with the reason when the device fails. */
bool trial_report(struct subject *s, struct report *r, double there, struct err *e);

#endif
