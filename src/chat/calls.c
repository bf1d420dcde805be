#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/unicode.h"
#include "chat/state.h"

enum { INTERRUPT_MS = 2000 };           /* so long may a tool take to end when it was asked to */

static void request_after_calls(struct chat *c)
{
    if (c->interrupted)
        round_finish(c, CHAT_INTERRUPTED, "");
    else if (c->stats.n_rounds > options_int(c->o, OPT_tool_rounds))
        round_finish(c, CHAT_TOOL_ROUNDS, "the limit of tool_rounds is reached");
    else
        round_request(c);
}

static struct chat_event *answer_call(struct chat *c, const char *text, size_t n)
{
    const char *name = c->answer.calls[c->next_call++].name;
    struct entry *m = transcript_add(&c->t, ROLE_TOOL, text, n);
    entry_tool(m, name);
    keep_entry(c, m);
    return outbox_post(&c->out, CHAT_TOOL_RESULT, name, text, n);
}

static void refuse_call(struct chat *c, const char *why)
{
    answer_call(c, why, strlen(why));
}

static void deny_call(struct chat *c, const char *why, size_t n)
{
    answer_call(c, why, n)->denied = true;
}

static void unknown_call(struct chat *c, const char *name)
{
    struct buf why = {0};
    buf_addf(&why, "error: there is no tool %s; there are ", name);
    tools_names(c->tools, true, &why);
    answer_call(c, why.data, why.len);
    buf_free(&why);
}

static void start_call(struct chat *c, const struct tool *tool, const char *arguments, size_t n)
{
    struct err e = {0};
    c->run = tool_start(tool, arguments, n, &e);
    c->shown_output = 0;
    if (c->run) {
        c->state = RUNNING;
        return;
    }
    char why[sizeof e.msg + 8];
    snprintf(why, sizeof why, "error: %s", e.msg);
    refuse_call(c, why);
}

/* The result of the call that ran, behind the word about its arguments. */
static void answer_run(struct chat *c, const struct buf *result)
{
    buf_add(&c->edited, buf_str(result), result->len);
    answer_call(c, buf_str(&c->edited), c->edited.len);
}

/* Posts what the running tool has printed since the last time. */
static void show_output(struct chat *c)
{
    struct buf text = {0};
    size_t n;
    const char *s = tool_output(c->run, &n);
    if (n > c->shown_output) {
        unicode_replace(&text, s + c->shown_output, n - c->shown_output);
        outbox_post(&c->out, CHAT_TOOL_OUTPUT, c->answer.calls[c->next_call].name, buf_str(&text), text.len);
        c->shown_output = n;
    }
    buf_free(&text);
}

static void go_on(struct chat *c, bool stopped);

void calls_step(struct chat *c)
{
    struct buf result = {0};
    if (tool_step(c->run, &result)) {
        tool_close(c->run);
        c->run = NULL;
        c->state = CALLING;
        if (c->interrupted)
            refuse_call(c, TOOL_INTERRUPTED);
        else
            answer_run(c, &result);
    } else if (c->interrupted && clock_ms_since(c->asked_ns) > INTERRUPT_MS) {
        calls_kill(c);
    } else {
        show_output(c);
    }
    buf_free(&result);
}

void calls_kill(struct chat *c)
{
    tool_close(c->run);
    c->run = NULL;
    go_on(c, true);
}

/* Goes on with the calls until one has to be waited for, or all are answered.  stopped: the next one has run. */
static void go_on(struct chat *c, bool stopped)
{
    c->state = CALLING;
    while (c->state == CALLING && c->next_call < c->answer.n_calls) {
        const struct answer_call *call = &c->answer.calls[c->next_call];
        const struct tool *tool = tools_find(c->tools, call->name);
        buf_reset(&c->edited);
        if (c->interrupted) {
            refuse_call(c, stopped ? TOOL_INTERRUPTED : TOOL_NOT_RUN);
            stopped = false;
            continue;
        }
        if (!tool) {
            unknown_call(c, call->name);
            continue;
        }
        enum tool_approval may = tool_approval(tool, options_text(c->o, OPT_tools_approve));
        if (may == TOOL_ASK && tool_listed(tool, buf_str(&c->always)))
            may = TOOL_RUN;
        if (may == TOOL_ASK && c->front.can_ask) {
            outbox_post(&c->out, CHAT_APPROVE, call->name, call->arguments.p, call->arguments.n);
            c->state = ASKING;
            c->asked_ns = clock_ns();
        } else if (may == TOOL_RUN) {
            start_call(c, tool, call->arguments.p, call->arguments.n);
            if (c->run)
                calls_step(c);         /* a built-in has ended already */
        } else {
            deny_call(c, TOOL_NOT_ALLOWED, strlen(TOOL_NOT_ALLOWED));
        }
    }
    if (c->state == CALLING)
        request_after_calls(c);
}

void calls_next(struct chat *c)
{
    go_on(c, false);
}

/* --- what the user decides -------------------------------------------------------------------------------------- */

static void decided(struct chat *c)
{
    c->start_ns += clock_ns() - c->asked_ns;
}

static void run_asked(struct chat *c, const char *arguments, size_t n)
{
    start_call(c, tools_find(c->tools, c->answer.calls[c->next_call].name), arguments, n);
    if (!c->run)
        calls_next(c);
}

void chat_asked_command(const struct chat *c, struct buf *out)
{
    if (c->state == ASKING)
        tool_command(tools_find(c->tools, c->answer.calls[c->next_call].name), out);
}

void chat_refuse(struct chat *c, const char *why)
{
    struct buf text = {0};
    if (c->state != ASKING)
        return;
    decided(c);
    buf_adds(&text, TOOL_REFUSED);
    if (*why) {
        buf_adds(&text, ": ");
        unicode_replace(&text, why, strlen(why));
    }
    deny_call(c, text.data, text.len);
    calls_next(c);
    buf_free(&text);
}

void chat_approve(struct chat *c, enum chat_answer answer)
{
    if (c->state != ASKING)
        return;
    const struct answer_call *call = &c->answer.calls[c->next_call];
    if (answer == CHAT_NO) {
        chat_refuse(c, "");
        return;
    }
    decided(c);
    if (answer == CHAT_ALWAYS)
        buf_addf(&c->always, "%s,", call->name);
    run_asked(c, call->arguments.p, call->arguments.n);
}

bool chat_approve_edited(struct chat *c, const char *arguments, size_t n, struct err *e)
{
    struct buf clean = {0};
    if (c->state != ASKING)
        return err_set(e, "no tool asks");
    const struct answer_call *call = &c->answer.calls[c->next_call];
    unicode_replace(&clean, arguments, n);
    bool ok = tool_check_arguments(buf_str(&clean), clean.len, e);
    if (ok && (clean.len != call->arguments.n || memcmp(buf_str(&clean), call->arguments.p, clean.len))) {
        buf_addf(&c->edited, "[the user changed the arguments; it ran with: %s]\n", clean.data);
        outbox_post(&c->out, CHAT_TOOL_OUTPUT, call->name, c->edited.data, c->edited.len);
    }
    if (ok) {
        decided(c);
        run_asked(c, buf_str(&clean), clean.len);
    }
    buf_free(&clean);
    return ok;
}
