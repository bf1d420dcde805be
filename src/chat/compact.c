/* A summary by the model in place of the conversation before it.  The request is the conversation as it stands and one more message,
 * which becomes no entry: so nothing that the engine has read is read again, and until the user takes the summary nothing changes.
 * Taken, it is an entry like any other: what stands before it on the path stays there, and prompts begin with it (chat/sent.c). */
#include "chat/asking.h"
#include "chat/sent.h"
#include "chat/state.h"

/* The summary may have an eighth of the context, but within these bounds; of a small context a quarter. */
static int room(const struct chat *c)
{
    enum { LEAST = 256, MOST = 2048 };
    if (!c->info.n_ctx)
        return MOST;
    int n = c->info.n_ctx / 8;
    n = n < LEAST ? LEAST : n > MOST ? MOST : n;
    return n < c->info.n_ctx / 4 ? n : c->info.n_ctx / 4;
}

static void describe(const struct chat *c, const char *hint, struct buf *out)
{
    buf_reset(out);
    buf_addf(out, "Write a summary of our conversation so far. It will replace the messages above: you will see only the summary. So keep what I "
                  "asked for, every fact, decision, name, number, path and piece of code that may be needed, and what is still open. Write at "
                  "most %d words in the language of the conversation, and nothing but the summary.", c->summary.room / 2);
    if (*hint)
        buf_addf(out, "\n\nAbove all keep: %s", hint);
}

/* --- making it fit ------------------------------------------------------------------------------------------------ */

/* Entries that are sent whole and may be left out of what is summed up; tools' results first, the last exchange never. */
static bool can_skip(struct chat *c, int i, enum sent how, bool results)
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

/* The request and the room for the summary, within the context. */
static bool fit(struct chat *c, struct buf *told, struct err *e)
{
    int results = 0, messages = 0, n;
    while (c->info.n_ctx) {
        int prompt = asking_count(c, TURN_SUMMARY, e);
        if (prompt < 0)
            return false;
        int excess = prompt + c->summary.room - c->info.n_ctx;
        if (excess <= 0)
            break;
        if ((n = skip(c, excess, true)))
            results += n;
        else if ((n = skip(c, excess, false)))
            messages += n;
        else
            return err_set(e, "a summary has no room: the conversation and %d tokens for it are %d more than the context holds; /drop N first "
                           "(/context has the numbers)", c->summary.room, excess);
    }
    if (results || messages)
        buf_addf(told, "the context is too full to summarise all of it: the oldest %d tool results and %d messages are left out of the summary",
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
    if (!state_usable(c, e))
        return false;
    if (!state_ready(c))
        return err_set(e, "the model is not loaded yet");
    if (n_summed(c) < 2)
        return err_set(e, "nothing to summarise yet");
    c->summary.room = room(c);
    describe(c, hint, &c->summary.request);
    persist_system(c);
    bool ok = fit(c, &told, e);
    if (ok && told.len)
        state_note(c, told.data);
    buf_free(&told);
    if (ok)
        turn_begin(c, TURN_SUMMARY);
    else
        summary_over(c);
    return ok;
}

bool chat_sums_up(const struct chat *c)
{
    return c->turn.kind == TURN_SUMMARY;
}

/* --- the user's word ------------------------------------------------------------------------------------------------ */

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
