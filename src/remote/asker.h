/* An asker sends requests to another q35chat over its unix socket: POSTs, one after the other, on its own thread.  A reply consists of lines, each a
 * JSON object, which are posted to a mailbox of struct asker_event as they come; several askers may share one mailbox.  Called from one owner thread.
 * Only asker_close() waits for the other program, a tenth of a second at most. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mailbox.h"

/* Each request ends in exactly one event that is no ASKER_LINE. */
enum asker_what {
    ASKER_LINE,
    ASKER_ENDED,                        /* the whole reply has come, or asker_stop() ended it */
    ASKER_REFUSED,                      /* text: the body of the refusal */
    ASKER_BROKEN,                       /* text: the program does not run, or the connection broke */
};
struct asker_event {
    enum asker_what what;
    uint32_t tag;                       /* of the request */
    struct buf text;                    /* freed by whoever takes the event */
};

struct asker;
/* NULL with the reason. */
struct asker *asker_open(const char *socket, struct mailbox *out, struct err *e);
void asker_close(struct asker *a);      /* requests that were not sent yet are dropped */
/* Queues a request and empties `body` into it.  silence_s: a reply without a new line for so long counts as broken; 0: it may take any time. */
void asker_ask(struct asker *a, uint32_t tag, const char *path, struct buf *body, int silence_s);
/* Ends the request of that tag within a tenth of a second, or drops it if it was not sent yet. */
void asker_stop(struct asker *a, uint32_t tag);
