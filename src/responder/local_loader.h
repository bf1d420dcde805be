/* Reads the tokenizer, and sorts its tokens for guides, on a thread of its own, while the weights are loaded. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "guide/vocabulary.h"
#include "text/tokenizer.h"

struct loader;

/* guides: the tokens are sorted, too, which takes some 0.1 s.  NULL with the reason if no thread can be started. */
struct loader *loader_start(const char *dir, bool guides, struct err *e);
int  loader_fd(const struct loader *l);         /* readable when the thread is done */
/* Takes the result if the thread is done: true once, then *tok is the tokenizer, or NULL with the reason. */
bool loader_take(struct loader *l, struct tokenizer **tok, struct err *e);
/* After that: the vocabulary for guides, once; NULL: it was not made. */
struct guide_vocabulary *loader_take_vocabulary(struct loader *l);
/* Closes a tokenizer that was not taken.  Waits LOADER_MOMENT_MS for the thread; a thread that hangs in a file that does not answer cleans up by
 * itself later.  NULL is accepted. */
void loader_stop(struct loader *l);

enum { LOADER_MOMENT_MS = 1000 };
