/* Reads the tokenizer on a thread of its own, beside the weights. */
#ifndef Q35_RESPONDER_LOCAL_LOADER_H
#define Q35_RESPONDER_LOCAL_LOADER_H

#include <stdbool.h>

#include "base/err.h"
#include "text/tokenizer.h"

struct loader;

/* NULL with the reason if there is no thread to be had. */
struct loader *loader_start(const char *dir, struct err *e);
int  loader_fd(const struct loader *l);         /* readable when it is done */
/* Takes the result if it is there: true once, then *tok is the tokenizer, or NULL with the reason. */
bool loader_take(struct loader *l, struct tokenizer **tok, struct err *e);
/* Closes a tokenizer that was not taken.  Waits a moment for the thread; one that hangs in a file that does not answer is left
 * behind and cleans up by itself.  NULL is accepted. */
void loader_stop(struct loader *l);

enum { LOADER_MOMENT_MS = 1000 };

#endif
