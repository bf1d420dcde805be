/* Answers at once: how many tokens a second they come to in all. */
#ifndef Q35_BENCH_CROWD_H
#define Q35_BENCH_CROWD_H

#include "bench/subject.h"

/* A table of one to o->answers answers, without drafts and with drafts that are right by lot.  there: the plain read of another machine, GB/s,
 * on which memory is the limit, too; 0: none.  False with the reason when the device fails. */
bool crowd_report(struct subject *s, struct report *r, double there, struct err *e);

#endif
