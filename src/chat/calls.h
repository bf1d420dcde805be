/* The tools that an answer calls, one after the other, until one has to be waited for or all are answered: calls_over().  What follows
 * then is the turn's to know. */
#ifndef Q35_CHAT_CALLS_H
#define Q35_CHAT_CALLS_H

#include "base/buf.h"
#include "tool/tool.h"

struct chat;

struct calls {
    struct tools    *tools;
    struct buf       always;            /* tools that were allowed for good, with commas */
    int              next;              /* of the answer's calls: it is asked about, runs, or comes next */
    struct tool_run *run;               /* NULL: none runs */
    size_t           shown_output;      /* bytes of what it printed that were posted */
    struct buf       edited;            /* what its result begins with: that the user changed the arguments */
    int64_t          asked_ns;          /* when the user was asked; or when the running tool was asked to end */
};

void calls_begin(struct chat *c);                       /* of the answer that has ended */
void calls_step(struct chat *c);                        /* one runs: looks whether it has ended */
void calls_run(struct chat *c, const char *arguments, size_t n);        /* what was asked about runs, with these */
void calls_deny(struct chat *c, const char *why, size_t n);             /* ... does not, and the model is told why */
void calls_stop(struct chat *c);                        /* the user wants an end: the running one is asked to, others are refused */
void calls_kill(struct chat *c);                        /* the one that was asked to is ended at once */
bool calls_over(const struct chat *c);

#endif
