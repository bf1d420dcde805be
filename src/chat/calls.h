/* Runs the tools that an answer calls, one after the other, until one must be waited for or all have results: calls_over(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct chat;

void calls_begin(struct chat *c);                       /* the answer has ended */
void calls_step(struct chat *c);                        /* a call runs: posts its output, and its result when it has ended */
void calls_run(struct chat *c, const char *arguments, size_t n);        /* the call that awaits approval runs, with these arguments */
void calls_deny(struct chat *c, const char *why, size_t n);             /* ... does not run, and this is its result */
void calls_stop(struct chat *c);                        /* the user interrupts: the running call too, the others are refused */
void calls_kill(struct chat *c);                        /* ends the interrupted call at once */
bool calls_over(const struct chat *c);
