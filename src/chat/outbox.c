#include "chat/outbox.h"

#include <stdlib.h>

#include "base/grow.h"

struct chat_event *outbox_post(struct outbox *b, enum chat_event_kind kind, const char *name, const char *text, size_t n)
{
    __typeof__(&b->lists[0]) l = &b->lists[b->in];
    l->events = grow(l->events, l->n, &l->cap, sizeof *l->events);
    struct chat_event *ev = &l->events[l->n++];
    *ev = (struct chat_event){
        .kind = kind,
        .name = name ? arena_strdup(&l->mem, name) : "",
        .text = n ? arena_strndup(&l->mem, text, n) : "",
        .n = n,
    };
    return ev;
}

const char *outbox_copy(struct outbox *b, const char *text, size_t n)
{
    return arena_strndup(&b->lists[b->in].mem, text, n);
}

const struct chat_event *outbox_take(struct outbox *b, int *n)
{
    __typeof__(&b->lists[0]) l = &b->lists[b->in], other = &b->lists[!b->in];
    arena_free(&other->mem);
    other->n = 0;
    b->in = !b->in;
    *n = l->n;
    return l->events;
}

int outbox_waiting(const struct outbox *b)
{
    return b->lists[b->in].n;
}

void outbox_free(struct outbox *b)
{
    for (int i = 0; i < 2; i++) {
        free(b->lists[i].events);
        arena_free(&b->lists[i].mem);
    }
    *b = (struct outbox){0};
}
