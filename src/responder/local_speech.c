#include "responder/local_speech.h"

static void take_delta(const struct delta *d, void *arg)
{
    static const enum news_kind kinds[] = {
        [DELTA_REASONING] = NEWS_REASONING, [DELTA_CONTENT] = NEWS_TEXT, [DELTA_CALL_BEGIN] = NEWS_CALL_BEGIN, [DELTA_CALL_END] = NEWS_CALL,
    };
    struct speech *s = arg;
    s->fn(&(struct news){.kind = kinds[d->kind], .text = d->text, .from = d->from, .truncated = d->truncated, .replayed = s->replayed}, s->arg);
}

void speech_begin_plain(struct speech *s, const struct tokenizer *tok, news_fn *fn, void *arg)
{
    s->ids.n = 0;
    s->replayed = false;
    s->tok = tok;
    s->fn = fn;
    s->arg = arg;
    s->detok = (struct detok){0};
    s->n_pushed = 0;
    buf_reset(&s->piece);
    stream_close(s->stream);
    s->stream = NULL;
}

void speech_begin(struct speech *s, const struct tokenizer *tok, const struct text *tools, int n_tools, bool thinking, news_fn *fn, void *arg)
{
    speech_begin_plain(s, tok, fn, arg);
    s->stream = stream_open(tools, n_tools, thinking, take_delta, s);
}

static void push_piece(struct speech *s)
{
    const struct text piece = {s->piece.data, s->piece.len};
    if (piece.n && s->stream)
        stream_push(s->stream, piece.p, piece.n);
    else if (piece.n)
        s->fn(&(struct news){.kind = NEWS_TEXT, .text = piece, .from = s->n_pushed, .replayed = s->replayed}, s->arg);
    s->n_pushed += s->piece.len;
    buf_reset(&s->piece);
}

bool speech_reasons(const struct speech *s)
{
    return s->stream && stream_in_reasoning(s->stream);
}

void speech_push(struct speech *s, struct token t, const struct logprobs *alternatives, bool is_stop)
{
    t.from = s->n_pushed + (size_t)s->detok.n_held;
    t.reasoning = speech_reasons(s);
    ids_add(&s->ids, t.id);
    s->fn(&(struct news){.kind = NEWS_TOKEN, .token = t, .alternatives = alternatives, .replayed = s->replayed, .stats = s->stats}, s->arg);
    if (is_stop)
        return;
    detok_push(&s->detok, s->tok, t.id, true, &s->piece);
    push_piece(s);
}

void speech_finish(struct speech *s, bool cut)
{
    detok_flush(&s->detok, &s->piece);
    push_piece(s);
    if (s->stream)
        stream_finish(s->stream, cut);
}

void speech_free(struct speech *s)
{
    stream_close(s->stream);
    buf_free(&s->piece);
    ids_free(&s->ids);
}
