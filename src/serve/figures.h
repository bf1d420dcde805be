/* Figures of a server since its start, in the text format of Prometheus. */
#ifndef Q35_SERVE_FIGURES_H
#define Q35_SERVE_FIGURES_H

#include "base/buf.h"
#include "responder/responder.h"

/* Plain value, valid as {0}. */
struct figures {
    unsigned long long requests, refused, overloaded;           /* requests for answers: all, wrong ones, those that met a full queue */
    unsigned long long left, unread;                            /* answers whose client went away before the end; whose client did not read */
    unsigned long long answers, failed;
    unsigned long long prompt_tokens, cached_tokens, tokens, drafted, accepted;
    double prefill_s, decode_s;
};

void figures_add(struct figures *f, const struct stats *s);
/* running: answers under way; waiting: requests in the queue; unread: answers paused until their clients read. */
void figures_write(const struct figures *f, int running, int waiting, int unread, int clients, struct buf *out);

#endif
