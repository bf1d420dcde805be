#include "serve/recall.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct recalled {
    struct recalled *next;
    struct arena mem;                   /* of the following */
    size_t bytes;
    struct message m;                   /* with reasoning, content and calls as they were sent, and `said` */
};

void recall_init(struct recall *l, size_t most_bytes)
{
    *l = (struct recall){.most = most_bytes};
    l->end = &l->first;
    pthread_mutex_init(&l->lock, NULL);
}

/* Forgets the oldest answer. */
static void drop_first(struct recall *l)
{
    struct recalled *a = l->first;
    l->first = a->next;
    if (!l->first)
        l->end = &l->first;
    l->bytes -= a->bytes;
    arena_free(&a->mem);
    free(a);
}

void recall_free(struct recall *l)
{
    while (l->first)
        drop_first(l);
    pthread_mutex_destroy(&l->lock);
}

/* ---- keeping ---- */

static struct text kept(struct recalled *a, struct text t)
{
    a->bytes += t.n;
    return (struct text){arena_strndup(&a->mem, t.n ? t.p : "", t.n), t.n};
}

static struct text kept_buf(struct recalled *a, const struct buf *b)
{
    return kept(a, (struct text){buf_str(b), b->len});
}

/* Copies the tokens and their text, without the one that ended the answer: the template writes it. */
static void keep_tokens(struct recalled *a, const struct responder *by, const struct tokens *tokens)
{
    struct buf text = {0};
    int32_t *ids = arena_array(&a->mem, (size_t)tokens->n, sizeof *ids);
    int n = 0;
    for (; n < tokens->n; n++) {
        const struct text piece = by->ops->piece(by, tokens->all[n].id);
        if (text_is(piece, "<|im_end|>") || text_is(piece, "<|endoftext|>"))
            break;
        ids[n] = tokens->all[n].id;
        buf_add(&text, piece.p, piece.n);
    }
    a->bytes += (size_t)n * sizeof *ids;
    a->m.said = (struct said){ids, n, kept_buf(a, &text), a->m.said.thinks};
    buf_free(&text);
}

static void keep_calls(struct recalled *a, const struct response *r)
{
    a->m.calls = arena_array(&a->mem, (size_t)r->calls.n, sizeof *a->m.calls);
    for (int i = 0; i < r->calls.n; i++) {
        const struct response_call *c = &r->calls.all[i];
        a->m.calls[i] = (struct call){kept_buf(a, &c->name), kept_buf(a, &c->arguments), kept_buf(a, &c->id)};
    }
    a->m.n_calls = r->calls.n;
}

/* True if the answer is whole: nothing of it was cut off, and the client has all of it. */
static bool is_whole(const struct response *r, const struct tokens *tokens)
{
    for (int i = 0; i < r->calls.n; i++)
        if (r->calls.all[i].truncated)
            return false;
    return r->calls.n && tokens->n && !r->in_call && !r->cut_by && !r->failed && !r->question->plain && !response_is_over(r);
}

void recall_keep(struct recall *l, const struct response *r, const struct tokens *tokens)
{
    if (!is_whole(r, tokens))
        return;
    struct recalled *a = memory_zeroed(1, sizeof *a);
    a->bytes = sizeof *a;
    a->m.said.thinks = r->question->request.thinking;
    a->m.reasoning = kept_buf(a, &r->reasoning);
    a->m.content = kept_buf(a, &r->content);
    keep_calls(a, r);
    keep_tokens(a, r->responder, tokens);
    pthread_mutex_lock(&l->lock);
    *l->end = a;
    l->end = &a->next;
    l->bytes += a->bytes;
    while (l->bytes > l->most)
        drop_first(l);
    pthread_mutex_unlock(&l->lock);
}

/* ---- finding ---- */

/* True if two texts of JSON have the same value, however they are written. */
static bool same_value(struct text a, struct text b)
{
    enum { FLAGS = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL };
    if (text_same(a, b))
        return true;
    json_t *x = json_loadb(a.p, a.n, FLAGS, NULL), *y = json_loadb(b.p, b.n, FLAGS, NULL);
    const bool same = x && y && json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}

/* True if the message is this answer, perhaps without its reasoning. */
static bool is_answer(const struct message *m, const struct message *answer)
{
    const struct text reasoning = text_trim(m->reasoning);
    if (m->n_calls != answer->n_calls || !text_same(text_trim(m->content), text_trim(answer->content)) ||
        (reasoning.n && !text_same(reasoning, text_trim(answer->reasoning))))
        return false;
    for (int i = 0; i < m->n_calls; i++)
        if (!text_same(m->calls[i].id, answer->calls[i].id) || !text_same(m->calls[i].name, answer->calls[i].name) ||
            !same_value(m->calls[i].arguments, answer->calls[i].arguments))
            return false;
    return true;
}

/* Gives a message the ids of the answer that it repeats, if that is remembered. */
static void apply(const struct recall *l, struct message *m, struct arena *mem)
{
    const struct recalled *a = l->first;
    while (a && !text_same(a->m.calls[0].id, m->calls[0].id))
        a = a->next;
    if (!a || !is_answer(m, &a->m))
        return;
    const struct said *said = &a->m.said;
    int32_t *ids = arena_array(mem, (size_t)said->n + 1, sizeof *ids);
    memcpy(ids, said->ids, (size_t)said->n * sizeof *ids);
    m->said = (struct said){ids, said->n, {arena_strndup(mem, said->text.p, said->text.n), said->text.n}, said->thinks};
}

void recall_apply(struct recall *l, struct question *q)
{
    struct message *all = (struct message *)q->request.messages;        /* in q->mem */
    pthread_mutex_lock(&l->lock);
    for (int i = 0; l->first && i < q->request.n_messages; i++)
        if (all[i].role == ROLE_ASSISTANT && all[i].n_calls && all[i].calls[0].id.n)
            apply(l, &all[i], &q->mem);
    pthread_mutex_unlock(&l->lock);
}
