/* Events on their way to the front end: one list is filled while the other is being read. */
#ifndef Q35_CHAT_OUTBOX_H
#define Q35_CHAT_OUTBOX_H

#include "base/arena.h"
#include "chat/chat.h"

struct outbox {
    struct { struct chat_event *events; int n, cap; struct arena mem; } lists[2];
    int in;
};

/* A new event with its own copies of text and name (NULL: ""); valid until it is given out. */
struct chat_event *outbox_post(struct outbox *b, enum chat_event_kind kind, const char *name, const char *text, size_t n);
const char *outbox_copy(struct outbox *b, const char *text, size_t n);  /* of a text that an event carries besides */
const struct chat_event *outbox_take(struct outbox *b, int *n);         /* valid until the next take */
int  outbox_waiting(const struct outbox *b);
void outbox_free(struct outbox *b);

#endif
