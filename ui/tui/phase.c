#include "ui/tui/phase.h"

#include <stdio.h>

void phase_open(struct phase *p, int64_t ms)
{
    p->kind = PHASE_LOADING;
    p->since_ms = p->reads_ms = ms;
    progress_start(&p->progress, ms);
}

static void read_prompt(struct phase *p, int64_t ms)
{
    p->kind = PHASE_READING;
    p->reads_ms = ms;
    p->n_tokens = 0;
    p->rate = (struct rate){0};         /* reading, tools and the user's pause are not decoding */
    progress_start(&p->progress, ms);
}

void phase_turn(struct phase *p, int64_t ms)
{
    if (!p->turn)
        p->asked_ms = ms;
    p->turn = true;
    p->stopping = p->asking = false;
    if (p->ready) {
        p->since_ms = ms;
        read_prompt(p, ms);
    }
}

void phase_event(struct phase *p, const struct chat_event *ev, int64_t ms)
{
    if (ev->replayed)                   /* the beginning of an answer that goes on: it is still to be read */
        return;
    switch (ev->kind) {
    case CHAT_LOADING:
        progress_add(&p->progress, ms, ev->done, ev->total, 0);
        break;
    case CHAT_MODELS:
        p->kind = p->ready ? p->kind : PHASE_CHOOSING;
        break;
    case CHAT_READY:
        p->ready = true;
        p->kind = PHASE_IDLE;
        if (p->turn)
            phase_turn(p, ms);
        break;
    case CHAT_PREFILL:
        progress_add(&p->progress, ms, ev->done, ev->total, ev->cached);
        break;
    case CHAT_REASONING:
        p->kind = PHASE_THINKING;
        break;
    case CHAT_TEXT:
        p->kind = PHASE_ANSWERING;
        break;
    case CHAT_CALL:
    case CHAT_APPROVE:
    case CHAT_RUNS:
        p->kind = PHASE_CALLING;
        p->asking = ev->kind == CHAT_APPROVE;
        p->calls_ms = ms;
        snprintf(p->tool, sizeof p->tool, "%s", ev->name);
        break;
    case CHAT_TOOL_RESULT:
        p->asking = false;
        read_prompt(p, ms);
        break;
    case CHAT_DONE:
        p->kind = p->ready ? PHASE_IDLE : p->kind == PHASE_CHOOSING ? PHASE_CHOOSING : PHASE_LOADING;
        p->turn = p->stopping = p->asking = false;
        break;
    case CHAT_FATAL:
        p->kind = PHASE_DEAD;
        p->turn = p->stopping = p->asking = false;
        break;
    default:
        break;
    }
}

void phase_tokens(struct phase *p, int n_tokens, int64_t ms)
{
    if (n_tokens > p->n_tokens && p->kind != PHASE_READING)
        rate_add(&p->rate, ms, n_tokens - p->n_tokens);
    p->n_tokens = n_tokens;
}

int phase_seconds(const struct phase *p, int64_t ms)
{
    return (int)((ms - (p->kind == PHASE_CALLING ? p->calls_ms : p->since_ms)) / 1000);
}

const char *phase_name(const struct phase *p)
{
    static const char *const names[] = {"opening", "loading", "which model?", "ready", "reading", "thinking", "answering", "running", "no model"};
    return p->stopping ? "stopping" : p->asking ? "waiting for approval" : names[p->kind];
}
