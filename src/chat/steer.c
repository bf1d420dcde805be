#include "chat/steer.h"

#include "chat/saving.h"
#include "chat/state.h"
#include "chat/turn.h"

/* --- tokens ------------------------------------------------------------------------------------------------------ */

static struct spoken spoken_of(const struct chat *c, const struct entry *m, const struct ids *ids)
{
    struct spoken s = {.m = &m->m, .ids = ids, .stopped = m->stopped, .cut = m->cut};
    s.tools = tools_schemas(c->calls.tools, &s.n_tools);
    return s;
}

/* Finds the tokens of m's texts, by encoding them if ids is NULL.  False: the ids are another model's. */
static bool find_tokens(const struct chat *c, const struct entry *m, const struct ids *ids, struct tokens *out)
{
    const struct spoken s = spoken_of(c, m, ids);
    return c->responder->ops->tokens(c->responder, &s, out);
}

/* True if the tokens decode to the texts of m. */
static bool reads_the_same(const struct chat *c, const struct tokens *t, const struct entry *m)
{
    const struct spoken s = spoken_of(c, m, NULL);
    return c->responder->ops->says(c->responder, &s, t);
}

/* Returns the tokens of answer i; NULL: not known. */
static const struct tokens *tokens_of(struct chat *c, int i)
{
    if (i < 0)
        return turn_answers(&c->turn) ? &c->turn.answer.tokens : NULL;
    if (i >= c->t.n || !c->responder->can.tokens)
        return NULL;
    struct entry *m = c->t.entries[i];
    if (!m->made.n && m->ids.n && !m->foreign)
        m->foreign = !find_tokens(c, m, &m->ids, &m->made);
    return &m->made;
}

int chat_n_tokens(struct chat *c, int i)
{
    const struct tokens *t = tokens_of(c, i);
    return t ? t->n : 0;
}

static const char *piece(const struct chat *c, int32_t id, size_t *n)
{
    struct text t = c->responder->ops->piece(c->responder, id);
    *n = t.n;
    return t.p;
}

bool chat_token(struct chat *c, int i, int k, struct chat_token *out)
{
    const struct tokens *t = tokens_of(c, i);
    if (!t || k < 0 || k >= t->n)
        return false;
    const struct token *from = &t->all[k];
    const struct answer *now = &c->turn.answer;
    size_t end = i < 0 ? (from->reasoning ? now->reasoning.len : now->content.len)
                       : (from->reasoning ? c->t.entries[i]->m.reasoning.n : c->t.entries[i]->m.content.n);
    *out = (struct chat_token){.reasoning = from->reasoning, .at = from->at < end ? from->at : end, .source = from->source, .prob = from->prob};
    out->text = piece(c, from->id, &out->n);
    if (t->alternatives) {
        const struct logprobs *a = &t->alternatives[k];
        out->n_alternatives = a->n;
        for (int j = 0; j < a->n; j++) {
            out->alternatives[j].text = piece(c, a->ids[j], &out->alternatives[j].n);
            out->alternatives[j].prob = a->probs[j];
        }
    }
    return true;
}

/* --- branches and continued answers -------------------------------------------------------------------------------- */

/* Answers the messages before message i, beginning with c->turn.prefix; the former answers become branches. */
static void answer_again(struct chat *c, int i)
{
    persist_cut(c, i);
    turn_begin(c, TURN_AGAIN);
}

bool chat_branch_token(struct chat *c, int i, int k, int alternative, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    if (state_ready(c) && !c->responder->can.begin_tokens)
        return err_set(e, "this server cannot continue from a token");
    const struct tokens *t = i < 1 ? NULL : tokens_of(c, i);
    if (!t || k < 0 || k >= t->n)
        return err_set(e, "no such token");
    if (!t->alternatives || alternative < 0 || alternative >= t->alternatives[k].n)
        return err_set(e, "the alternatives at this token are no longer known");
    const struct logprobs likely = t->alternatives[k];
    tokens_copy(&c->turn.prefix, t, k);
    tokens_add(&c->turn.prefix, (struct token){.id = likely.ids[alternative], .source = TOKEN_FORCED, .prob = likely.probs[alternative]}, &likely);
    c->turn.prefix.seeded = false;
    answer_again(c, i);
    return true;
}

/* Makes the next answer begin with the tokens of answer i, if they are this model's and still decode to its text; otherwise with the tokens that its
 * text encodes to, which may differ from the sampled ones: a note mentions that. */
static bool begin_with(struct chat *c, int i, struct err *e)
{
    const struct entry *m = c->t.entries[i];
    const struct tokens *t = tokens_of(c, i);
    if (c->responder->can.begin_text)
        return true;                    /* c->turn.continued has the texts */
    if (!c->responder->can.tokens)
        return err_set(e, state_ready(c) ? "this server cannot continue an answer; /regen answers again" : "the model is not loaded yet");
    if (t->n && reads_the_same(c, t, m)) {
        tokens_copy(&c->turn.prefix, t, t->n);
        return true;
    }
    struct tokens again = {0};
    bool ok = find_tokens(c, m, NULL, &again)
            || err_set(e, "the last answer cannot be continued: the tokenizer of this model does not give its text back; /regen answers again");
    ok = ok && (reads_the_same(c, &again, m)
                || err_set(e,
                           "the last answer cannot be continued: with the tools that are offered now its text is a tool call; /tools changes "
                           "them, /regen answers again"));
    if (ok) {
        tokens_copy(&c->turn.prefix, &again, again.n);
        state_note(c, "%s",
                   m->foreign ? "the tokens of the last answer are not those of this model: it is continued from its text, and may differ"
                   : t->n     ? "the last answer called tools that are not offered now: it is continued from its text, and may differ"
                              : "the tokens of the last answer were not kept: it is continued from its text, and may differ");
    }
    tokens_free(&again);
    return ok;
}

/* Returns the answer at the end of the path whose calls do not all have results; -1: there is no such answer. */
static int unrun(const struct chat *c)
{
    int i = c->t.n - 1;
    while (i >= 0 && c->t.entries[i]->m.role == ROLE_TOOL)
        i--;
    return i > 0 && c->t.entries[i]->m.role == ROLE_ASSISTANT && c->t.n - 1 - i < c->t.entries[i]->m.n_calls ? i : -1;
}

enum chat_rest chat_rest(const struct chat *c)
{
    const struct entry *last = c->t.n ? c->t.entries[c->t.n - 1] : NULL;
    if (!last)
        return CHAT_WHOLE;
    if (last->m.role == ROLE_ASSISTANT && last->stopped)
        return c->t.n < 2 ? CHAT_WHOLE : last->cut ? CHAT_CUT : CHAT_STOPPED;
    if (last->youngest || last->summary)                 /* it has an answer; the path ends here because the user went back */
        return CHAT_WHOLE;
    if (unrun(c) >= 0)
        return CHAT_UNRUN;
    return last->m.role == ROLE_ASSISTANT ? CHAT_WHOLE : CHAT_UNANSWERED;
}

/* Continues the stopped answer at the end of the path. */
static bool continue_answer(struct chat *c, struct err *e)
{
    const int last = c->t.n - 1;
    if (!begin_with(c, last, e))
        return false;
    c->turn.continued = c->t.entries[last];
    transcript_cut(&c->t, last);        /* in the file it keeps its place until there is more of it */
    turn_begin(c, TURN_AGAIN);
    return true;
}

bool chat_continue(struct chat *c, struct err *e)
{
    if (!state_usable(c, e))
        return false;
    switch (chat_rest(c)) {
    case CHAT_STOPPED:
    case CHAT_CUT: return continue_answer(c, e);
    case CHAT_UNANSWERED:
        turn_begin(c, TURN_AGAIN);
        return true;
    case CHAT_UNRUN:
        answer_again(c, unrun(c));
        return true;
    default:
        return err_set(e, c->t.n ? "the last answer was not stopped" : "no answer yet");
    }
}

bool chat_answer_now(struct chat *c)
{
    return c->turn.state == TURN_ANSWERING && c->responder->can.end_thought && c->responder->ops->end_thought(c->responder);
}
