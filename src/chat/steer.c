/* What an engine in the process allows: to look at an answer's tokens, to take another way from one of them, to go on with an
 * answer that was stopped, to end the reasoning. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "chat/state.h"

/* --- tokens ------------------------------------------------------------------------------------------------------ */

/* What an answer's ids were read with: which tools there were, and whether it began with reasoning, is not kept with it. */
struct reading {
    const struct text *tools;
    int  n_tools;
    bool thinking;
};

/* Of an answer that was cut the ids may say more: what the parser held back did not reach the disk. */
static bool says(const struct buf *found, struct text stored, bool cut)
{
    return (found->len == stored.n || (cut && found->len > stored.n)) && !memcmp(buf_str(found), stored.p ? stored.p : "", stored.n);
}

/* Do these ids make the texts of m?  Then `a` has their tokens. */
static bool reads_as(const struct chat *c, const struct ids *ids, enum chat_token_how how, struct reading r, const struct entry *m, struct answer *a)
{
    answer_begin(a, c->tok, r.tools, r.n_tools, r.thinking, NULL, 0);
    for (int i = 0; i < ids->n; i++) {
        if (ids->data[i] < 0 || ids->data[i] >= tokenizer_n_ids(c->tok))
            return false;
        answer_push(a, ids->data[i], how, NULL, false);
    }
    answer_finish(a, m->stopped);
    return says(&a->reasoning, m->m.reasoning, m->cut) && says(&a->content, m->m.content, m->cut);
}

/* Schemas of the tools that m calls: they may no longer be offered. */
static struct text *own_tools(const struct entry *m, struct arena *mem)
{
    struct text *tools = arena_array(mem, (size_t)m->m.n_calls + 1, sizeof *tools);
    for (int i = 0; i < m->m.n_calls; i++) {
        struct text name = m->m.calls[i].name;
        json_t *schema = json_pack("{s:s, s:{s:s%}}", "type", "function", "function", "name", name.p, name.n);
        char *text = memory_got(schema ? json_dumps(schema, JSON_COMPACT) : memory_strdup("{}"));
        tools[i] = (struct text){arena_strndup(mem, text, strlen(text)), strlen(text)};
        free(text);
        json_decref(schema);
    }
    return tools;
}

/* Finds the reading with which the ids make the texts of m, and gives their tokens.  False: there is none, they are of another
 * tokenizer. */
static bool read_ids(const struct chat *c, const struct ids *ids, enum chat_token_how how, const struct entry *m, struct tokens *out)
{
    struct answer a = {0};
    struct arena mem = {0};
    int n_tools, end = tokenizer_special(c->tok, "</think>");
    const struct text *offered = tools_schemas(c->tools, &n_tools), *own = own_tools(m, &mem);
    bool thinking = m->m.reasoning.n > 0, found = false;
    for (int i = 0; i < ids->n && !thinking; i++)
        thinking = ids->data[i] == end;
    for (int k = 0; k < 4 && !found; k++) {
        bool other = k & 1;
        struct reading r = {k & 2 ? own : offered, k & 2 ? m->m.n_calls : n_tools, thinking != other};
        found = reads_as(c, ids, how, r, m, &a);
    }
    if (found) {
        *out = a.tokens;
        a.tokens = (struct tokens){0};
    }
    answer_free(&a);
    arena_free(&mem);
    return found;
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
    if (!m->made.n && m->ids.n && !m->foreign)
        m->foreign = !read_ids(c, &m->ids, CHAT_SAMPLED, m, &m->made);
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

/* Answers what stands before message i, beginning as c->begun says; the answers that there were stay beside. */
static void answer_again(struct chat *c, int i)
{
    c->variant = transcript_n_children(&c->t, c->t.entries[i - 1]);
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
    answer_again(c, i);
    return true;
}

/* The tokens of an answer whose ids cannot be used: those of its text. */
static bool encode_again(const struct chat *c, const struct entry *m, struct tokens *out)
{
    struct ids ids = {0};
    struct text thought = m->m.reasoning, said = m->m.content;
    tokenizer_encode(c->tok, thought.p, thought.n, false, &ids);
    if (thought.n && said.n)
        tokenizer_encode(c->tok, "\n</think>\n\n", strlen("\n</think>\n\n"), true, &ids);
    tokenizer_encode(c->tok, said.p, said.n, false, &ids);
    bool ok = ids.n && read_ids(c, &ids, CHAT_FORCED, m, out);
    ids_free(&ids);
    return ok;
}

/* With the tools that are offered now a call may be text, and text a call: do the tokens still make the texts of m? */
static bool reads_the_same(const struct chat *c, const struct tokens *t, const struct entry *m)
{
    struct answer a = {0};
    struct ids ids = {0};
    struct reading r = {.thinking = t->thinking};
    r.tools = tools_schemas(c->tools, &r.n_tools);
    for (int i = 0; i < t->n; i++)
        ids_add(&ids, t->all[i].id);
    bool same = reads_as(c, &ids, CHAT_SAMPLED, r, m, &a);
    answer_free(&a);
    ids_free(&ids);
    return same;
}

/* What answer i goes on with is its tokens, if they are this model's and say what they said.  Else it is what its text encodes
 * to, which may be other tokens than were sampled: that is told. */
static bool begin_with(struct chat *c, int i, struct err *e)
{
    const struct entry *m = c->t.entries[i];
    const struct tokens *t = tokens_of(c, i);
    if (!c->tok)
        return err_set(e, "the model is not there yet");
    if (t->n && reads_the_same(c, t, m)) {
        tokens_copy(&c->begun, t, t->n);
        return true;
    }
    struct tokens again = {0};
    bool ok = encode_again(c, m, &again)
            || err_set(e, "the last answer cannot go on: the tokenizer of this model does not give its text back; /regen answers anew");
    ok = ok && (reads_the_same(c, &again, m)
                || err_set(e, "the last answer cannot go on: with the tools of now its text is a tool call; /tools changes them, /regen answers anew"));
    if (ok) {
        tokens_copy(&c->begun, &again, again.n);
        round_post(c, CHAT_NOTE,
                   m->foreign ? "the tokens of the last answer are not those of this model: it goes on from its text, and perhaps in another way"
                   : t->n     ? "the last answer called tools that are not offered now: it goes on from its text, and perhaps in another way"
                              : "the tokens of the last answer were not kept: it goes on from its text, and perhaps in another way");
    }
    tokens_free(&again);
    return ok;
}

/* The answer whose calls have not all been answered, at the path's end; -1: there is none. */
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
    if (last->youngest || last->summary)                 /* it was answered; the path ends here because the user went back */
        return CHAT_WHOLE;
    if (unrun(c) >= 0)
        return CHAT_UNRUN;
    return last->m.role == ROLE_ASSISTANT ? CHAT_WHOLE : CHAT_UNANSWERED;
}

static bool go_on(struct chat *c, struct err *e)
{
    const int last = c->t.n - 1;
    if (!begin_with(c, last, e))
        return false;
    c->continued = c->t.entries[last];
    transcript_cut(&c->t, last);        /* on disk it keeps its place until there is more of it */
    round_turn(c);
    return true;
}

bool chat_continue(struct chat *c, struct err *e)
{
    if (!chat_usable(c, e))
        return false;
    switch (chat_rest(c)) {
    case CHAT_STOPPED:
    case CHAT_CUT:
        return go_on(c, e);
    case CHAT_UNANSWERED:
        c->variant = 0;
        round_turn(c);
        return true;
    case CHAT_UNRUN:
        answer_again(c, unrun(c));
        return true;
    default:
        return err_set(e, "the last answer was not stopped");
    }
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
