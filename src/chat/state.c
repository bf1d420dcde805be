#include "chat/state.h"

#include <string.h>

const char *state_model(const struct chat *c)
{
    return c->responder->address ? c->responder->address : c->responder->model;
}

bool state_usable(const struct chat *c, struct err *e)
{
    if (c->turn.state == TURN_DEAD)
        return err_set(e, "the engine has stopped; you can only save now");
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

void state_note(struct chat *c, const char *text)
{
    outbox_post(&c->out, CHAT_NOTE, NULL, text, strlen(text));
}
