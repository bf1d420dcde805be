#include "chat/summary.h"

#include <string.h>

#include "chat/asking.h"
#include "chat/context.h"
#include "chat/saving.h"
#include "chat/state.h"

/* The beginning of a summary, for the model. */
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
    int percent = c->info.n_ctx ? (int)(100.0 * c->turn.stats.ctx_used / c->info.n_ctx) : 0;
    bool full = percent >= PERCENT && percent <= 100;         /* above 100 the prompt was refused, with advice of its own */
    if (full && !c->summary.advised && c->front.can_ask && !strcmp(options_text(c->o, OPT_compact), "ask"))
        state_note(c, "the context is %d %% full: /compact puts a summary in its place, /drop N leaves parts of /context out", percent);
    c->summary.advised = full;
}

/* --- the request --------------------------------------------------------------------------------------------------- */

/* Returns the tokens of a summary: an eighth of the context within bounds; a quarter of a small context. */
static int summary_room(const struct chat *c)
{
    enum { LEAST = 256, MOST = 2048 };
    if (!c->info.n_ctx)
        return MOST;
    int n = c->info.n_ctx / 8;
    n = n < LEAST ? LEAST : n > MOST ? MOST : n;
    return n < c->info.n_ctx / 4 ? n : c->info.n_ctx / 4;
}

/* Writes the message that asks for the summary. */
static void write_request(const struct chat *c, const char *hint, struct buf *out)
{
    buf_reset(out);
    buf_addf(out, "Write a summary of our conversation so far. It will replace the messages above: you will see only the summary. So keep what I "
                  "asked for, every fact, decision, name, number, path and piece of code that may be needed, and what is still open. Write at "
                  "most %d words in the language of the conversation, and nothing but the summary.", c->summary.room / 2);
    if (*hint)
        buf_addf(out, "\n\nAbove all keep: %s", hint);
}

/* True if an entry is sent whole and may be left out of the summary; the last exchange may not. */
static bool can_skip(struct chat *c, int i, enum sent how, bool results)
{
    const struct entry *m = c->t.entries[i];
    return how == SENT_WHOLE && m->mark != ENTRY_PINNED && (m->m.role == ROLE_TOOL) == results && (results || i < transcript_last_user(&c->t))
        && context_entry_frees(c, i) > 0;
}

/* Leaves out the oldest entries (`results`: of tools) until they are `excess` tokens.  Returns how many; 0: there are none left. */
static int skip_oldest(struct chat *c, int excess, bool results)
{
    struct arena mem = {0};
    const enum sent *how = sent_all(&c->t, SENT_NEXT, &mem);
    int n = 0;
    for (int i = 0; i < c->t.n && excess > 0; i++)
        if (can_skip(c, i, how[i], results)) {
            c->t.entries[i]->skipped = true;
            excess -= context_entry_frees(c, i);
            n++;
        }
    arena_free(&mem);
    return n;
}

/* Makes the request and the room for the summary fit into the context. */
static bool fit(struct chat *c, struct buf *note, struct err *e)
{
    int results = 0, messages = 0, n;
    while (c->info.n_ctx) {
        int prompt = c->responder->can.count ? asking_count(c, TURN_SUMMARY, e) : chat_context_used(c).tokens;
        if (prompt < 0)
            return false;
        int excess = prompt + c->summary.room - c->info.n_ctx;
        if (excess <= 0)
            break;
        if ((n = skip_oldest(c, excess, true)))
            results += n;
        else if ((n = skip_oldest(c, excess, false)))
            messages += n;
        else
            return err_set(e, "a summary has no room: the conversation and %d tokens for it are %d more than the context holds; /drop N first "
                           "(/context has the numbers)", c->summary.room, excess);
    }
    if (results || messages)
        buf_addf(note, "the context is too full to summarise all of it: the oldest %d tool results and %d messages are left out of the summary",
                 results, messages);
    return true;
}

/* Returns how many entries the summary replaces. */
static int n_summed(const struct chat *c)
{
    struct arena mem = {0};
    const enum sent *how = sent_all(&c->t, SENT_NEXT, &mem);
    int n = 0;
    for (int i = 0; i < c->t.n; i++)
        n += how[i] != SENT_NOT && c->t.entries[i]->mark != ENTRY_PINNED && !c->t.entries[i]->summary;
    arena_free(&mem);
    return n;
}

bool summary_request(struct chat *c, const char *hint, struct err *e)
{
    struct buf note = {0};
    if (n_summed(c) < 2)
        return err_set(e, "nothing to summarise yet");
    c->summary.room = summary_room(c);
    write_request(c, hint, &c->summary.request);
    persist_system(c);
    bool ok = fit(c, &note, e);
    if (ok && note.len)
        state_note(c, "%s", note.data);
    buf_free(&note);
    if (!ok)
        summary_over(c);
    return ok;
}

bool chat_sums_up(const struct chat *c)
{
    return c->turn.kind == TURN_SUMMARY;
}

/* --- the decision --------------------------------------------------------------------------------------------------- */

bool chat_proposes(struct chat *c, struct buf *out)
{
    if (!c->summary.text.len)
        return false;
    if (out)
        buf_addf(out, "replace %d messages (next prompt: %d tokens instead of %d)", n_summed(c), context_if_summed(c, &c->summary.text),
                 chat_context_used(c).tokens);
    return true;
}

void chat_decide(struct chat *c, bool take)
{
    if (!c->summary.text.len)
        return;
    if (take) {
        struct entry *m = transcript_add(&c->t, ROLE_USER, c->summary.text.data, c->summary.text.len);
        m->summary = true;
        persist_entry(c, m);
    }
    buf_free(&c->summary.text);
}
