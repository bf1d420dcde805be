/* Finds stop strings in text that arrives in pieces.  Holds back what may be the beginning of one, with the blanks before it. */
#ifndef Q35_CHAT_STOPPER_H
#define Q35_CHAT_STOPPER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct stopper {
    const char *const *stops;           /* of the caller */
    int  n_stops;
    struct buf held;
    bool hit;                           /* one was found: everything after it is dropped */
};

void stopper_push(struct stopper *s, const char *text, size_t n, struct buf *out);
void stopper_finish(struct stopper *s, struct buf *out);        /* the end of the text: what was held is text after all */
void stopper_reset(struct stopper *s, const char *const *stops, int n_stops);
void stopper_free(struct stopper *s);

#endif
