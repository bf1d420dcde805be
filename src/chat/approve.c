/* The user's word on the call that waits for it. */
#include <string.h>

#include "base/unicode.h"
#include "chat/state.h"

static const struct answer_call *asked(const struct chat *c)
{
    return &c->turn.answer.calls[c->calls.next];
}

void chat_asked_command(const struct chat *c, struct buf *out)
{
    if (c->turn.state == TURN_ASKING)
        tool_command(tools_find(c->calls.tools, asked(c)->name), out);
}

void chat_refuse(struct chat *c, const char *why)
{
    struct buf text = {0};
    if (c->turn.state != TURN_ASKING)
        return;
    buf_adds(&text, TOOL_REFUSED);
    if (*why) {
        buf_adds(&text, ": ");
        unicode_replace(&text, why, strlen(why));
    }
    calls_deny(c, text.data, text.len);
    turn_after_calls(c);
    buf_free(&text);
}

void chat_approve(struct chat *c, enum chat_answer answer)
{
    if (c->turn.state != TURN_ASKING)
        return;
    if (answer == CHAT_NO) {
        chat_refuse(c, "");
        return;
    }
    if (answer == CHAT_ALWAYS)
        buf_addf(&c->calls.always, "%s,", asked(c)->name);
    calls_run(c, asked(c)->arguments.p, asked(c)->arguments.n);
    turn_after_calls(c);
}

bool chat_approve_edited(struct chat *c, const char *arguments, size_t n, struct err *e)
{
    struct buf clean = {0};
    if (c->turn.state != TURN_ASKING)
        return err_set(e, "no tool asks");
    const struct answer_call *call = asked(c);
    unicode_replace(&clean, arguments, n);
    bool ok = tool_check_arguments(buf_str(&clean), clean.len, e);
    if (ok && (clean.len != call->arguments.n || memcmp(buf_str(&clean), call->arguments.p, clean.len))) {
        buf_addf(&c->calls.edited, "[the user changed the arguments; it ran with: %s]\n", clean.data);
        outbox_post(&c->out, CHAT_TOOL_OUTPUT, call->name, c->calls.edited.data, c->calls.edited.len);
    }
    if (ok) {
        calls_run(c, buf_str(&clean), clean.len);
        turn_after_calls(c);
    }
    buf_free(&clean);
    return ok;
}
