#include "ui/tui/figures.h"

enum { SAMPLE_MS = 200, MACHINE_MS = 1000 };

void figures_follow(struct figures *f, struct host *h)
{
    if (h->recount && h->chat) {
        f->n_parts = chat_context(h->chat, &f->parts);
        f->ctx = chat_context_used(h->chat);
        f->not_counted = chat_not_counted(h->chat);
        h->recount = false;
    }
    if (f->n_turns != h->n_turns)
        steps_begin(&f->steps);
    f->n_turns = h->n_turns;
}

void figures_came(struct figures *f, struct host *h)
{
    struct stats now;
    figures_follow(f, h);
    chat_stats_now(h->chat, &now);
    steps_add(&f->steps, &now);
}

static bool shows_machine(const struct host *h)
{
    return h->chat && (h->looks.panel || host_busy(h));
}

void figures_sample(struct figures *f, struct host *h)
{
    figures_follow(f, h);
    if (h->ms - f->sampled_ms < SAMPLE_MS && f->phase == h->phase.kind)
        return;
    f->sampled_ms = h->ms;
    f->phase = h->phase.kind;
    f->progress = h->phase.progress;
    f->tok_s = rate_now(&h->phase.rate, h->ms);
    if (h->chat)
        chat_stats_now(h->chat, &f->turn);
    if (host_busy(h)) {
        f->ctx = chat_context_used(h->chat);
        steps_sample(&f->steps, &f->turn);
        steps_recent(&f->steps, &f->recent);
    }
    if (shows_machine(h) && h->ms - f->machine_ms >= MACHINE_MS) {
        f->machine_ms = h->ms;
        chat_machine(h->chat, &f->machine);
    }
}

int figures_timeout(const struct figures *f, const struct host *h)
{
    int64_t sample_ms = f->sampled_ms + SAMPLE_MS - h->ms, machine_ms = f->machine_ms + MACHINE_MS - h->ms;
    int64_t soonest = -1;
    if (shows_machine(h))
        soonest = machine_ms > sample_ms ? machine_ms : sample_ms;
    if (host_busy(h) || h->phase.kind == PHASE_LOADING)
        soonest = sample_ms;            /* never later than the machine's */
    else if (soonest < 0 && !shows_machine(h))
        return -1;
    return soonest > 0 ? (int)soonest : 0;
}
