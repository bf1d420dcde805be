#include "chat/summary.h"

#include <string.h>

#include "chat/state.h"

/* How the model sees it. */
#define INTRO "Summary of our conversation so far, which it replaces:\n\n"

void summary_over(struct chat *c)
{
    for (int i = 0; i < c->t.n_all; i++)
        c->t.all[i]->skipped = false;
}

enum end summary_take(struct chat *c, enum end end, const char **why)
{
    const struct answer *a = &c->turn.answer;
    struct text said = text_trim((struct text){buf_str(&a->content), a->content.len});
    if (end == END_INTERRUPTED || end_failed(end))
        return end;
    *why = a->looped ? "the summary repeats itself, so it is not offered" : said.n ? "" : "the model wrote no summary";
    if (**why)
        return END_FAILED;
    if (end != END_STOP)
        state_note(c, "the summary was cut off: it has no more room");
    buf_reset(&c->summary.text);
    buf_adds(&c->summary.text, INTRO);
    buf_add(&c->summary.text, said.p, said.n);
    return END_STOP;
}

void summary_advise(struct chat *c)
{
    enum { PERCENT = 85 };
    struct buf note = {0};
    int percent = c->info.n_ctx ? (int)(100.0 * c->turn.stats.ctx_used / c->info.n_ctx) : 0;
    bool full = percent >= PERCENT && percent <= 100;         /* above that the prompt was refused, with advice of its own */
    if (full && !c->summary.told && c->front.can_ask && !strcmp(options_text(c->o, OPT_compact), "ask")) {
        buf_addf(&note, "the context is %d %% full: /compact puts a summary in its place, /drop N leaves parts of /context out", percent);
        state_note(c, note.data);
        buf_free(&note);
    }
    c->summary.told = full;
}
