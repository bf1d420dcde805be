/* The line of a debug command that speaks token ids. */
#ifndef Q35_DEBUG_REQUEST_H
#define Q35_DEBUG_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/ids.h"

struct debug_request {
    struct ids ids;                     /* at least one, within the vocabulary */
    struct ids stop;                    /* may be empty */
    int max_tokens, draft, depth;       /* -1 when not given */
};

/* Other keys are ignored.  Free it either way. */
bool debug_request_read(struct debug_request *q, const char *line, size_t n, int vocab, struct err *e);
void debug_request_free(struct debug_request *q);

#endif
