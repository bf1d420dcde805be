/* Reads the tokenizer on a thread of its own, while the weights are loaded. */
#ifndef Q35_RESPONDER_LOCAL_LOADER_H
#define Q35_RESPONDER_LOCAL_LOADER_H

#include <stdbool.h>

#include "base/err.h"
#include "text/tokenizer.h"

struct loader;

/* NULL with the reason if no thread can be started. */
struct loader *loader_start(const char *dir, struct err *e);
int  loader_fd(const struct loader *l);         /* readable when the thread is done */
/* Takes the result if the thread is done: true once, then *tok is the tokenizer, or NULL with the reason. */
bool loader_take(struct loader *l, struct tokenizer **tok, struct err *e);
/* Closes a tokenizer that was not taken.  Waits LOADER_MOMENT_MS for the thread; a thread that hangs in a file that does not answer cleans up by
 * itself later.  NULL is accepted. */
void loader_stop(struct loader *l);

enum { LOADER_MOMENT_MS = 1000 };

#endif
