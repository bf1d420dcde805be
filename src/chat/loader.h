/* Reads the tokenizer on a thread of its own, beside the weights. */
#ifndef Q35_CHAT_LOADER_H
#define Q35_CHAT_LOADER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "text/tokenizer.h"

struct loader {
    const char *dir;                    /* of the caller */
    pthread_t thread;
    bool running;
    int  fd;                            /* readable when it is done */
    struct tokenizer *tok;
    struct err e;
};

void loader_start(struct loader *l, const char *dir);
/* Takes the result if it is there: true once, then *tok is the tokenizer, or NULL with the reason. */
bool loader_take(struct loader *l, struct tokenizer **tok, struct err *e);
void loader_stop(struct loader *l);     /* waits; closes a tokenizer that was not taken */

#endif
