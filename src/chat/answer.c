#include "chat/answer.h"

#include <string.h>

static void take_delta(const struct delta *d, void *arg)
{
    struct answer *a = arg;
    if (answer_is_over(a))
        return;
    switch (d->kind) {
    case DELTA_REASONING:
        tokens_place(&a->tokens, true, d->from, d->text.n, a->reasoning.len);
        buf_add(&a->reasoning, d->text.p, d->text.n);
        break;
    case DELTA_CONTENT:
        tokens_place(&a->tokens, false, d->from, d->text.n, a->n_told);
        a->n_told += d->text.n;
        stopper_push(&a->stopper, d->text.p, d->text.n, &a->content);
        break;
    case DELTA_CALL_BEGIN:
        stopper_finish(&a->stopper, &a->content);
        a->too_many = a->n_calls == ANSWER_MAX_CALLS;
        a->call_name = arena_strndup(&a->mem, d->text.p, d->text.n);
        break;
    case DELTA_CALL_END:
        a->calls = arena_grow(&a->mem, a->calls, a->n_calls, &a->cap_calls, sizeof *a->calls);
        a->calls[a->n_calls++] = (struct answer_call){
            a->call_name ? a->call_name : "", {arena_strndup(&a->mem, d->text.p, d->text.n), d->text.n}, d->truncated};
        break;
    }
}

void answer_begin(struct answer *a, const struct tokenizer *tok, const struct text *tools, int n_tools, bool thinking,
                  const char *const *stops, int n_stops)
{
    buf_reset(&a->reasoning);
    buf_reset(&a->content);
    buf_reset(&a->piece);
    arena_free(&a->mem);
    a->ids.n = 0;
    tokens_reset(&a->tokens);
    a->tokens.thinking = thinking;
    a->n_pushed = a->n_told = 0;
    a->calls = NULL;
    a->n_calls = a->cap_calls = 0;
    a->too_many = false;
    a->loop = (struct loop){0};
    a->call_name = NULL;
    a->tok = tok;
    a->detok = (struct detok){0};
    stopper_reset(&a->stopper, stops, n_stops);
    stream_close(a->stream);
    a->stream = stream_open(tools, n_tools, thinking, take_delta, a);
}

static void push_piece(struct answer *a)
{
    if (a->piece.len)
        stream_push(a->stream, a->piece.data, a->piece.len);
    a->n_pushed += a->piece.len;
    buf_reset(&a->piece);
}

bool answer_is_over(const struct answer *a)
{
    return a->stopper.hit || a->too_many;
}

bool answer_reasons(const struct answer *a)
{
    return stream_in_reasoning(a->stream);
}

void answer_push(struct answer *a, int32_t id, enum chat_token_how how, const struct outlook *o, bool is_stop)
{
    const size_t from = a->n_pushed + (size_t)a->detok.n_held;
    ids_add(&a->ids, id);
    loop_push(&a->loop, &a->ids);
    tokens_add(&a->tokens, (struct token){.id = id, .from = from, .how = (uint8_t)how, .reasoning = answer_reasons(a)}, o);
    if (is_stop)
        return;
    detok_push(&a->detok, a->tok, id, true, &a->piece);
    push_piece(a);
}

void answer_finish(struct answer *a, bool cut)
{
    detok_flush(&a->detok, &a->piece);
    push_piece(a);
    stream_finish(a->stream, cut);
    stopper_finish(&a->stopper, &a->content);
}

void answer_free(struct answer *a)
{
    stream_close(a->stream);
    stopper_free(&a->stopper);
    buf_free(&a->reasoning);
    buf_free(&a->content);
    buf_free(&a->piece);
    ids_free(&a->ids);
    tokens_free(&a->tokens);
    arena_free(&a->mem);
    *a = (struct answer){0};
}
