/* Of which tokens an answer's texts are made: its ids, if they are this tokenizer's; or what its texts encode to.  A reading counts if
 * it gives the same texts. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "chat/answer.h"
#include "responder/local_state.h"

/* What ids were read with: which tools there were, and whether the answer began with reasoning, is not kept with it. */
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

static void take(const struct news *it, void *arg)
{
    answer_take(arg, it);
}

/* Do these ids make these texts?  Then `a` has their tokens. */
static bool reads_as(const struct local *l, const struct ids *ids, struct reading r, const struct spoken *s, struct answer *a)
{
    struct speech speech = {0};
    bool known = true;
    answer_begin(a, r.thinking, NULL, 0);
    speech_begin(&speech, l->tok, r.tools, r.n_tools, r.thinking, take, a);
    for (int i = 0; i < ids->n && known; i++) {
        known = ids->data[i] >= 0 && ids->data[i] < tokenizer_n_ids(l->tok);
        if (known)
            speech_push(&speech, (struct token){.id = ids->data[i], .source = s->ids ? TOKEN_SAMPLED : TOKEN_FORCED, .prob = -1}, NULL, false);
    }
    speech_finish(&speech, s->stopped);
    answer_finish(a);
    speech_free(&speech);
    return known && says(&a->reasoning, s->m->reasoning, s->cut) && says(&a->content, s->m->content, s->cut);
}

/* Schemas of the tools that m calls: they may no longer be offered. */
static struct text *own_tools(const struct message *m, struct arena *mem)
{
    struct text *tools = arena_array(mem, (size_t)m->n_calls + 1, sizeof *tools);
    for (int i = 0; i < m->n_calls; i++) {
        struct text name = m->calls[i].name;
        json_t *schema = json_pack("{s:s, s:{s:s%}}", "type", "function", "function", "name", name.p, name.n);
        char *text = memory_got(schema ? json_dumps(schema, JSON_COMPACT) : memory_strdup("{}"));
        tools[i] = (struct text){arena_strndup(mem, text, strlen(text)), strlen(text)};
        free(text);
        json_decref(schema);
    }
    return tools;
}

static bool thinks(const struct local *l, const struct ids *ids, const struct message *m)
{
    int end = tokenizer_special(l->tok, "</think>");
    bool thinking = m->reasoning.n > 0;
    for (int i = 0; i < ids->n && !thinking; i++)
        thinking = ids->data[i] == end;
    return thinking;
}

static bool read_ids(const struct local *l, const struct ids *ids, const struct spoken *s, struct tokens *out)
{
    struct answer a = {0};
    struct arena mem = {0};
    const struct text *own = own_tools(s->m, &mem);
    bool thinking = thinks(l, ids, s->m), found = false;
    for (int k = 0; k < 4 && !found; k++) {
        bool other = k & 1;
        struct reading r = {k & 2 ? own : s->tools, k & 2 ? s->m->n_calls : s->n_tools, thinking != other};
        found = reads_as(l, ids, r, s, &a);
    }
    if (found) {
        *out = a.tokens;
        a.tokens = (struct tokens){0};
    }
    answer_free(&a);
    arena_free(&mem);
    return found;
}

bool local_tokens(struct responder *r, const struct spoken *s, struct tokens *out)
{
    const struct local *l = (const struct local *)r;
    struct text thought = s->m->reasoning, said = s->m->content;
    struct ids ids = {0};
    if (s->ids)
        return read_ids(l, s->ids, s, out);
    tokenizer_encode(l->tok, thought.p, thought.n, false, &ids);
    if (thought.n && said.n)
        tokenizer_encode(l->tok, "\n</think>\n\n", strlen("\n</think>\n\n"), true, &ids);
    tokenizer_encode(l->tok, said.p, said.n, false, &ids);
    bool ok = ids.n && ids.n <= l->info.n_ctx && read_ids(l, &ids, s, out);
    ids_free(&ids);
    return ok;
}

bool local_says(struct responder *r, const struct spoken *s, const struct tokens *t)
{
    struct answer a = {0};
    struct ids ids = {0};
    for (int i = 0; i < t->n; i++)
        ids_add(&ids, t->all[i].id);
    bool same = reads_as((const struct local *)r, &ids, (struct reading){s->tools, s->n_tools, t->thinking}, s, &a);
    answer_free(&a);
    ids_free(&ids);
    return same;
}
