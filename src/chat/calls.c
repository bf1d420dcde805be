#include "chat/calls.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/unicode.h"
#include "chat/files.h"
#include "chat/saving.h"
#include "chat/state.h"

enum { INTERRUPT_MS = 2000 };           /* time for a tool to end after an interrupt */

/* Records and posts the result of the next call. */
static struct chat_event *answer_with(struct chat *c, const char *text, size_t n, const struct attached *files)
{
    const struct answer_call *call = &c->turn.answer.calls[c->calls.next++];
    bool aside = c->turn.kind == TURN_ASIDE;
    struct entry *m = transcript_add(aside ? &c->aside : &c->t, ROLE_TOOL, text, n);
    entry_tool(m, call->name, call->id);
    for (int i = 0; files && i < files->n; i++)
        entry_attach(m, &files->files[i]);
    if (!aside)
        persist_entry(c, m);
    return outbox_post(&c->out, CHAT_TOOL_RESULT, call->name, text, n);
}

static struct chat_event *answer_call(struct chat *c, const char *text, size_t n)
{
    return answer_with(c, text, n, NULL);
}

static void refuse_call(struct chat *c, const char *why)
{
    answer_call(c, why, strlen(why));
}

/* Answers a call of a tool that there is not, with the names of those that there are. */
static void unknown_call(struct chat *c, const char *name)
{
    struct buf why = {0};
    buf_addf(&why, "error: unknown tool %s; there are ", name);
    tools_names(c->calls.tools, true, &why);
    answer_call(c, why.data, why.len);
    buf_free(&why);
}

/* Starts a tool for the next call of the answer.  A tool that cannot start is answered with the error. */
static void start_call(struct chat *c, const struct tool *tool, const char *arguments, size_t n)
{
    struct err e = {0};
    c->calls.run = tool_start(tool, arguments, n, &e);
    c->calls.shown_output = 0;
    if (c->calls.run) {
        c->turn.state = TURN_RUNNING;
        outbox_post(&c->out, CHAT_RUNS, c->turn.answer.calls[c->calls.next].name, NULL, 0);
        return;
    }
    char why[sizeof e.msg + 8];
    snprintf(why, sizeof why, "error: %s", e.msg);
    refuse_call(c, why);
}

/* Posts the output of the running tool since the last time. */
static void show_output(struct chat *c)
{
    struct buf text = {0};
    size_t n;
    const char *s = tool_output(c->calls.run, &n);
    if (n > c->calls.shown_output) {
        unicode_replace(&text, s + c->calls.shown_output, n - c->calls.shown_output);
        outbox_post(&c->out, CHAT_TOOL_OUTPUT, c->turn.answer.calls[c->calls.next].name, buf_str(&text), text.len);
        c->calls.shown_output = n;
    }
    buf_free(&text);
}

/* Records the result, with the pictures that it names, unless some are still being read. */
static void end_call(struct chat *c)
{
    const struct tool *tool = tools_find(c->calls.tools, c->turn.answer.calls[c->calls.next].name);
    const struct buf *result = &c->calls.edited;
    const bool stopped = c->turn.state == TURN_STOPPING;
    const bool shows = !stopped && tool && tool_shows_pictures(tool) && c->responder->can.pictures && c->turn.kind != TURN_ASIDE;
    struct attached files = {0};
    c->calls.reads = shows && !files_shown(c, buf_str(result), result->len, &files);
    if (!c->calls.reads) {
        c->turn.state = stopped ? TURN_REFUSING : TURN_CALLING;
        if (stopped)
            refuse_call(c, TOOL_INTERRUPTED);
        else
            answer_with(c, buf_str(result), result->len, &files);
    }
    attach_free(&files);
}

/* Closes the tool that has run and ends its call with the result. */
static void end_run(struct chat *c, const struct buf *result)
{
    tool_close(c->calls.run);
    c->calls.run = NULL;
    buf_add(&c->calls.edited, buf_str(result), result->len);    /* after a note about edited arguments */
    end_call(c);
}

/* Posts the output of the running call, or its result if it has ended. */
static void step_running(struct chat *c)
{
    struct buf result = {0};
    if (c->calls.reads) {
        end_call(c);
        return;
    }
    if (c->turn.state == TURN_STOPPING && clock_ms_since(c->calls.asked_ns) > INTERRUPT_MS)
        tool_kill(c->calls.run);
    if (tool_step(c->calls.run, &result))
        end_run(c, &result);
    else
        show_output(c);
    buf_free(&result);
}

/* Returns whether a call may run, must be approved, or is refused. */
static enum tool_approval approval_of(const struct chat *c, const struct tool *tool)
{
    enum tool_approval may = tool_approval(tool, options_text(c->o, OPT_tools_approve));
    if (may == TOOL_ASK && tool_listed(tool, buf_str(&c->calls.always)))
        return TOOL_RUN;
    return may == TOOL_ASK && !c->front.can_ask ? TOOL_DENY : may;
}

/* Runs the call, asks the user, or refuses it. */
static void take_call(struct chat *c, const struct answer_call *call)
{
    const struct tool *tool = tools_find(c->calls.tools, call->name);
    buf_reset(&c->calls.edited);
    if (c->turn.state == TURN_REFUSING) {
        refuse_call(c, TOOL_NOT_RUN);
    } else if (!tool) {
        unknown_call(c, call->name);
    } else {
        switch (approval_of(c, tool)) {
        case TOOL_ASK:
            outbox_post(&c->out, CHAT_APPROVE, call->name, call->arguments.p, call->arguments.n);
            c->turn.state = TURN_ASKING;
            c->calls.asked_ns = clock_ns();
            break;
        case TOOL_RUN:
            start_call(c, tool, call->arguments.p, call->arguments.n);
            if (c->calls.run)
                step_running(c);         /* a built-in tool has ended already */
            break;
        default:
            answer_call(c, TOOL_NOT_ALLOWED, strlen(TOOL_NOT_ALLOWED))->denied = true;
        }
    }
}

/* True if the next call may begin. */
static bool continues(const struct chat *c)
{
    return c->turn.state == TURN_CALLING || c->turn.state == TURN_REFUSING;
}

bool calls_over(const struct chat *c)
{
    return continues(c) && c->calls.next == c->turn.answer.n_calls;
}

static void next_calls(struct chat *c)
{
    while (continues(c) && !calls_over(c))
        take_call(c, &c->turn.answer.calls[c->calls.next]);
}

void calls_begin(struct chat *c)
{
    c->calls.next = 0;
    c->turn.state = c->turn.state == TURN_ENDING ? TURN_REFUSING : TURN_CALLING;
    next_calls(c);
}

void calls_step(struct chat *c)
{
    step_running(c);
    next_calls(c);
}

/* --- decisions of the user -------------------------------------------------------------------------------------- */

/* Resumes the turn after a question, without counting the time that the user took. */
static void resume_turn(struct chat *c)
{
    c->turn.start_ns += clock_ns() - c->calls.asked_ns;
    c->turn.state = TURN_CALLING;
}

void calls_run(struct chat *c, const char *arguments, size_t n)
{
    resume_turn(c);
    start_call(c, tools_find(c->calls.tools, c->turn.answer.calls[c->calls.next].name), arguments, n);
    next_calls(c);
}

void calls_deny(struct chat *c, const char *why, size_t n)
{
    resume_turn(c);
    answer_call(c, why, n)->denied = true;
    next_calls(c);
}

void calls_stop(struct chat *c)
{
    if (c->calls.reads) {
        c->turn.state = TURN_STOPPING;
        end_call(c);
        next_calls(c);
    } else if (c->turn.state == TURN_RUNNING) {
        tool_interrupt(c->calls.run);
        c->calls.asked_ns = clock_ns();
        c->turn.state = TURN_STOPPING;
    } else {
        resume_turn(c);
        c->turn.state = TURN_REFUSING;
        next_calls(c);
    }
}

void calls_kill(struct chat *c)
{
    tool_kill(c->calls.run);
}
