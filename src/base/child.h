/* Runs another program for its output: without a terminal, in a session of its own, with limits of memory (1.5 GB of addresses), processor time
 * (20 s), time (CHILD_MS) and output.  Waits for its end; none is left behind. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "base/buf.h"

enum { CHILD_WORDS = 16, CHILD_MS = 30000, CHILD_NOT_FOUND = 127 };

/* words: the program, which is looked for in PATH, and its arguments, ended by NULL; at most CHILD_WORDS.  Appends at most `most` bytes of output.
 * Returns the exit status, CHILD_NOT_FOUND if there is no such program, -1 if a limit ended it. */
int child_run(const char *const *words, size_t most, struct buf *out);
/* The same, which ends soon after *ends (may be NULL) becomes true: with -1, the child killed. */
int child_run_until(const char *const *words, size_t most, struct buf *out, const atomic_bool *ends);
