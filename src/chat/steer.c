/* What an engine in the process allows: to look at an answer's tokens, to take another way from one of them, to go on with an
 * answer that was stopped, to end the reasoning. */
#include "chat/state.h"

/* --- tokens ------------------------------------------------------------------------------------------------------ */

/* Of an answer that was loaded: its ids say which tokens there are and where, but not how they came about. */
static void replay(const struct chat *c, struct entry *m)
{
    struct answer a = {0};
    int n_tools, end = tokenizer_special(c->tok, "</think>");
    const struct text *tools = tools_schemas(c->tools, &n_tools);
    bool thinking = m->m.reasoning.n > 0;
    for (int i = 0; i < m->ids.n && !thinking; i++)
        thinking = m->ids.data[i] == end;
    answer_begin(&a, c->tok, tools, n_tools, thinking, NULL, 0);
    for (int i = 0; i < m->ids.n; i++)
        answer_push(&a, m->ids.data[i], CHAT_SAMPLED, NULL, false);
    answer_finish(&a, true);
    m->made = a.tokens;
    a.tokens = (struct tokens){0};
    answer_free(&a);
}

static struct text reasoning_of(const struct chat *c, int i)
{
    return i < 0 ? (struct text){c->answer.reasoning.data, c->answer.reasoning.len} : c->t.entries[i]->m.reasoning;
}

static struct text content_of(const struct chat *c, int i)
{
    return i < 0 ? (struct text){c->answer.content.data, c->answer.content.len} : c->t.entries[i]->m.content;
}

/* NULL: there are none. */
static const struct tokens *tokens_of(const struct chat *c, int i)
{
    if (i < 0)
        return c->serial ? &c->answer.tokens : NULL;
    if (i >= c->t.n || !c->tok)
        return NULL;
    struct entry *m = c->t.entries[i];
    if (!m->made.n && m->ids.n)
        replay(c, m);
    return &m->made;
}

int chat_n_tokens(const struct chat *c, int i)
{
    const struct tokens *t = tokens_of(c, i);
    return t ? t->n : 0;
}

static const char *piece(const struct chat *c, int32_t id, size_t *n)
{
    const char *bytes = tokenizer_bytes(c->tok, id, n);
    return bytes ? bytes : "";
}

bool chat_token(const struct chat *c, int i, int k, struct chat_token *out)
{
    const struct tokens *t = tokens_of(c, i);
    if (!t || k < 0 || k >= t->n)
        return false;
    const struct token *from = &t->all[k];
    size_t end = from->reasoning ? reasoning_of(c, i).n : content_of(c, i).n;
    *out = (struct chat_token){.reasoning = from->reasoning, .at = from->at < end ? from->at : end, .how = from->how, .prob = from->prob};
    out->text = piece(c, from->id, &out->n);
    if (t->near) {
        const struct alternatives *a = &t->near[k];
        out->n_alternatives = a->n;
        for (int j = 0; j < a->n; j++) {
            out->alternatives[j].text = piece(c, a->ids[j], &out->alternatives[j].n);
            out->alternatives[j].prob = a->probs[j];
        }
    }
    return true;
}

/* --- another way, and further on the same ------------------------------------------------------------------------- */

/* Answers what stands before message i, beginning as c->begun says. */
static void answer_again(struct chat *c, int i)
{
    keep_cut(c, i);
    round_turn(c);
}

bool chat_branch_token(struct chat *c, int i, int k, int alternative, struct err *e)
{
    if (!chat_usable(c, e))
        return false;
    const struct tokens *t = i < 1 ? NULL : tokens_of(c, i);
    if (!t || k < 0 || k >= t->n)
        return err_set(e, "there is no such token");
    if (!t->near || alternative < 0 || alternative >= t->near[k].n)
        return err_set(e, "what else was likely there is no longer known");
    struct outlook o = tokens_outlook(t, k);
    o.prob = o.probs[alternative];
    tokens_copy(&c->begun, t, k);
    tokens_add(&c->begun, (struct token){.id = o.ids[alternative], .how = CHAT_FORCED}, &o);
    c->begun.seeded = false;
    c->variant = transcript_n_children(&c->t, c->t.entries[i - 1]);
    answer_again(c, i);
    return true;
}

bool chat_continue(struct chat *c, struct err *e)
{
    if (!chat_usable(c, e))
        return false;
    const int last = c->t.n - 1;
    if (last < 1 || c->t.entries[last]->m.role != ROLE_ASSISTANT || !c->t.entries[last]->stopped)
        return err_set(e, "the last answer was not stopped");
    const struct tokens *t = tokens_of(c, last);
    if (!t || !t->n)
        return err_set(e, c->tok ? "the tokens of the last answer are not known" : "the model is not there yet");
    tokens_copy(&c->begun, t, t->n);
    c->continued = c->t.entries[last];
    answer_again(c, last);
    return true;
}

bool chat_answer_now(struct chat *c)
{
    if (c->state != ANSWERING || !c->serial || c->interrupted || !answer_reasons(&c->answer))
        return false;
    if (!c->answer_now)
        engine_interrupt(c->engine, c->serial);
    c->answer_now = true;               /* round.c goes on when its end has come */
    return true;
}
