#include "chat/answer.h"

static void take_token(struct answer *a, const struct news *it)
{
    ids_add(&a->ids, it->token.id);
    loop_push(&a->loop, &a->ids);
    a->looped = a->guarded && a->loop.span;
    tokens_add(&a->tokens, it->token, it->alternatives);
}

static void take_call(struct answer *a, const struct news *it)
{
    a->calls = arena_grow(&a->mem, a->calls, a->n_calls, &a->cap_calls, sizeof *a->calls);
    a->calls[a->n_calls++] = (struct answer_call){
        a->call_name ? a->call_name : "", {arena_strndup(&a->mem, it->text.p, it->text.n), it->text.n}, it->truncated};
}

void answer_take(struct answer *a, const struct news *it)
{
    if (a->stopper.hit || a->too_many)          /* one that repeats itself keeps the text of its last token */
        return;
    switch (it->kind) {
    case NEWS_TOKEN:
        take_token(a, it);
        break;
    case NEWS_REASONING:
        tokens_place(&a->tokens, true, it->from, it->text.n, a->reasoning.len);
        buf_add(&a->reasoning, it->text.p, it->text.n);
        break;
    case NEWS_TEXT:
        tokens_place(&a->tokens, false, it->from, it->text.n, a->n_told);
        a->n_told += it->text.n;
        stopper_push(&a->stopper, it->text.p, it->text.n, &a->content);
        break;
    case NEWS_CALL_BEGIN:
        stopper_finish(&a->stopper, &a->content);
        a->too_many = a->n_calls == ANSWER_MAX_CALLS;
        a->call_name = arena_strndup(&a->mem, it->text.p, it->text.n);
        break;
    case NEWS_CALL:
        take_call(a, it);
        break;
    default:
        return;
    }
    a->gained |= !it->replayed;
}

void answer_begin(struct answer *a, bool thinking, const char *const *stops, int n_stops)
{
    buf_reset(&a->reasoning);
    buf_reset(&a->content);
    arena_free(&a->mem);
    a->ids.n = 0;
    tokens_reset(&a->tokens);
    a->tokens.thinking = thinking;
    a->n_told = 0;
    a->calls = NULL;
    a->n_calls = a->cap_calls = 0;
    a->too_many = a->guarded = a->looped = a->gained = false;
    a->loop = (struct loop){0};
    a->call_name = NULL;
    const char **own = arena_array(&a->mem, (size_t)n_stops + 1, sizeof *own);          /* /set may change the list in the middle */
    for (int i = 0; i < n_stops; i++)
        own[i] = stops[i];
    stopper_reset(&a->stopper, own, n_stops);
}

bool answer_is_over(const struct answer *a)
{
    return a->stopper.hit || a->too_many || a->looped;
}

void answer_finish(struct answer *a)
{
    stopper_finish(&a->stopper, &a->content);
}

struct entry *answer_entry(const struct answer *a, struct transcript *t, bool whole)
{
    struct entry *m = transcript_add(t, ROLE_ASSISTANT, buf_str(&a->content), a->content.len);
    entry_reasoning(m, buf_str(&a->reasoning), a->reasoning.len);
    for (int i = 0; i < a->n_calls && whole; i++)
        entry_call(m, a->calls[i].name, a->calls[i].arguments.p, a->calls[i].arguments.n);
    if (!a->stopper.hit)
        ids_append(&m->ids, a->ids.data, a->ids.n);
    return m;
}

void answer_free(struct answer *a)
{
    stopper_free(&a->stopper);
    buf_free(&a->reasoning);
    buf_free(&a->content);
    ids_free(&a->ids);
    tokens_free(&a->tokens);
    arena_free(&a->mem);
    *a = (struct answer){0};
}
