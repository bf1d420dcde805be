/* Answers at once: how many tokens a second they come to in all. */
#ifndef Q35_BENCH_CROWD_H
#define Q35_BENCH_CROWD_H

#include "bench/subject.h"

/* A table of one to o->answers answers, without drafts and with drafts that are right by lot.  False with the reason when the device fails. */
bool crowd_report(struct subject *s, struct report *r, struct err *e);

#endif
