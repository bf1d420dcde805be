#include "chat/state.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

const char *state_model(const struct chat *c)
{
    return c->responder->address ? c->responder->address : c->responder->model;
}

bool state_usable(const struct chat *c, struct err *e)
{
    if (c->turn.state == TURN_DEAD)
        return err_set(e, "there is no model to answer: leave, and come back with -c when it is there, or with --model or --endpoint");
    if (c->summary.text.len)
        return err_set(e, "accept or discard the summary first");
    return c->turn.state == TURN_IDLE || err_set(e, "the last message is still being answered; Ctrl-C stops it");
}

const char *state_role(const struct entry *m)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool", "other"};
    return m->summary ? "summary" : roles[m->m.role];
}

uint64_t state_mix(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

uint64_t state_conversation(const struct chat *c)
{
    const char *path = c->persist.session ? session_path(c->persist.session) : NULL;
    return path ? state_mix(STATE_MIX, path, strlen(path)) : 0;
}

void state_note(struct chat *c, const char *fmt, ...)
{
    struct buf note = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_addv(&note, fmt, ap);
    va_end(ap);
    outbox_post(&c->out, CHAT_NOTE, NULL, note.data, note.len);
    buf_free(&note);
}

/* ---- events for the front end ---- */

struct chat_event *outbox_post(struct outbox *b, enum chat_event_kind kind, const char *name, const char *text, size_t n)
{
    __typeof__(&b->lists[0]) l = &b->lists[b->in];
    l->events = memory_grow(l->events, l->n, &l->cap, sizeof *l->events);
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
