/* A summary by the model in place of the conversation before it.  The request is the conversation as it stands and one more message,
 * which becomes no entry: so nothing that the engine has read is read again, and until the user takes the summary nothing changes.
 * Taken, it is an entry like any other: what stands before it on the path stays there, and prompts begin with it (chat/sent.c). */
#include <stdlib.h>
#include <string.h>

#include "chat/sent.h"
#include "chat/state.h"

/* How the model sees it. */
#define INTRO "Summary of our conversation so far, which it replaces:\n\n"

/* The summary may have an eighth of the context, but within these bounds; of a small context a quarter. */
static int room(const struct chat *c)
{
    enum { LEAST = 256, MOST = 2048 };
    int n = c->info.n_ctx / 8;
    n = n < LEAST ? LEAST : n > MOST ? MOST : n;
    return n < c->info.n_ctx / 4 ? n : c->info.n_ctx / 4;
}

static void describe(const struct chat *c, const char *hint, struct buf *out)
{
    buf_reset(out);
    buf_addf(out, "Write a summary of our conversation so far. It will replace the messages above: you will see only the summary. So keep what I "
                  "asked for, every fact, decision, name, number, path and piece of code that may be needed, and what is still open. Write at "
                  "most %d words in the language of the conversation, and nothing but the summary.", c->compact.room / 2);
    if (*hint)
        buf_addf(out, "\n\nAbove all keep: %s", hint);
}

/* --- making it fit ------------------------------------------------------------------------------------------------ */

/* Entries that are sent whole and may be left out of what is summed up; tools' results first, the last exchange never. */
static bool can_skip(const struct chat *c, int i, enum sent how, bool results)
{
    const struct entry *m = c->t.entries[i];
    return how == SENT_WHOLE && m->mark != MARK_PINNED && (m->m.role == ROLE_TOOL) == results && (results || i < transcript_last_user(&c->t))
        && context_entry_frees(c, i) > 0;
}

/* The oldest, until they are `excess` tokens.  How many; 0: there are none left. */
static int skip(struct chat *c, int excess, bool results)
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

static void skip_none(struct chat *c)
{
    for (int i = 0; i < c->t.n_all; i++)
        c->t.all[i]->skipped = false;
}

/* The request and the room for the summary, within the context. */
static bool fit(struct chat *c, struct buf *told, struct err *e)
{
    int results = 0, messages = 0, n;
    for (;;) {
        int prompt = round_count_prompt(c, e);
        if (prompt < 0)
            return false;
        int excess = prompt + c->compact.room - c->info.n_ctx;
        if (excess <= 0)
            break;
        if ((n = skip(c, excess, true)))
            results += n;
        else if ((n = skip(c, excess, false)))
            messages += n;
        else
            return err_set(e, "a summary has no room: the conversation and %d tokens for it are %d more than the context holds; /drop N first "
                           "(/context has the numbers)", c->compact.room, excess);
    }
    if (results || messages)
        buf_addf(told, "the context is too full to sum up all of it: the oldest %d tool results and %d messages are left out of the summary",
                 results, messages);
    return true;
}

/* --- the turn ----------------------------------------------------------------------------------------------------- */

static int n_summed(const struct chat *c)
{
    struct arena mem = {0};
    const enum sent *how = sent_all(&c->t, SENT_NEXT, &mem);
    int n = 0;
    for (int i = 0; i < c->t.n; i++)
        n += how[i] != SENT_NOT && c->t.entries[i]->mark != MARK_PINNED && !c->t.entries[i]->summary;
    arena_free(&mem);
    return n;
}

bool chat_compact(struct chat *c, const char *hint, struct err *e)
{
    struct buf told = {0};
    if (!chat_usable(c, e))
        return false;
    if (!c->ready)
        return err_set(e, "the model is not there yet");
    if (n_summed(c) < 2)
        return err_set(e, "there is nothing to sum up yet");
    c->compact.on = true;
    c->compact.room = room(c);
    describe(c, hint, &c->compact.request);
    keep_system(c);
    c->thinking = false;
    bool ok = fit(c, &told, e);
    if (ok && told.len)
        round_post(c, CHAT_NOTE, told.data);
    buf_free(&told);
    c->variant = 0;
    if (ok)
        round_turn(c);
    else
        compact_over(c);
    return ok;
}

bool chat_sums_up(const struct chat *c)
{
    return c->compact.on;
}

void compact_over(struct chat *c)
{
    c->compact.on = false;
    skip_none(c);
}

void compact_answered(struct chat *c, enum chat_end end, const char *why)
{
    struct text said = text_trim((struct text){buf_str(&c->answer.content), c->answer.content.len});
    if (end == CHAT_INTERRUPTED) {
        round_finish(c, CHAT_INTERRUPTED, "");
    } else if (end == CHAT_FAILED) {
        round_finish(c, CHAT_FAILED, why);
    } else if (c->answer.looped) {
        round_finish(c, CHAT_FAILED, "the summary repeats itself, so it is not offered");
    } else if (!said.n) {
        round_finish(c, CHAT_FAILED, "the model wrote no summary");
    } else {
        if (end != CHAT_ANSWERED)
            round_post(c, CHAT_NOTE, "the summary was cut off: it has no more room");
        buf_reset(&c->compact.text);
        buf_adds(&c->compact.text, INTRO);
        buf_add(&c->compact.text, said.p, said.n);
        round_finish(c, CHAT_ANSWERED, "");
    }
}

/* --- the user's word ------------------------------------------------------------------------------------------------ */

bool chat_proposes(const struct chat *c, struct buf *out)
{
    if (!c->compact.text.len)
        return false;
    if (out)
        buf_addf(out, "in place of %d messages: the next prompt has %d tokens instead of %d", n_summed(c), context_if_summed(c, &c->compact.text),
                 chat_context_used(c).tokens);
    return true;
}

void chat_decide(struct chat *c, bool take)
{
    if (!c->compact.text.len)
        return;
    if (take) {
        struct entry *m = transcript_add(&c->t, ROLE_USER, c->compact.text.data, c->compact.text.len);
        m->summary = true;
        keep_entry(c, m);
    }
    buf_free(&c->compact.text);
}

/* --- a word in time ------------------------------------------------------------------------------------------------- */

void compact_advise(struct chat *c)
{
    enum { PERCENT = 85 };
    struct buf note = {0};
    int percent = c->info.n_ctx ? (int)(100.0 * c->stats.ctx_used / c->info.n_ctx) : 0;
    bool full = percent >= PERCENT;
    if (full && !c->compact.told && c->front.can_ask && !strcmp(options_text(c->o, OPT_compact), "ask")) {
        buf_addf(&note, "the context is %d %% full: /compact puts a summary in its place, /drop N leaves parts of /context out", percent);
        round_post(c, CHAT_NOTE, note.data);
        buf_free(&note);
    }
    c->compact.told = full;
}
