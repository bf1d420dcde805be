/* Requests to another q35chat over its unix socket: POSTs, one after the other, on a thread of its own.  A reply is lines, each a JSON object, which
 * are told as they come.  Several askers may tell into one mailbox, of struct asker_event.  Called from one owner thread; nothing here waits for the
 * other program but asker_close(), which waits a tenth of a second at most. */
#ifndef Q35_REMOTE_ASKER_H
#define Q35_REMOTE_ASKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mailbox.h"

/* Each request ends in exactly one event that is no line. */
enum asker_what {
    ASKER_LINE,
    ASKER_ENDED,                        /* the whole reply has come, or it was stopped */
    ASKER_REFUSED,                      /* text: what the other program said */
    ASKER_BROKEN,                       /* text: nobody is there, or the connection broke */
};
struct asker_event {
    enum asker_what what;
    uint32_t tag;                       /* the request's */
    struct buf text;                    /* the taker's */
};

struct asker;
/* NULL with the reason. */
struct asker *asker_open(const char *socket, struct mailbox *out, struct err *e);
void asker_close(struct asker *a);      /* what was not asked yet is not asked any more */
/* Takes the body.  silence_s: a reply that brings nothing for so long has broken; 0: it may take any time. */
void asker_ask(struct asker *a, uint32_t tag, const char *path, struct buf *body, int silence_s);
/* The request of that tag ends within a tenth of a second, or is not asked at all. */
void asker_stop(struct asker *a, uint32_t tag);

#endif
