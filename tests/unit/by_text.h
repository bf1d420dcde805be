/* A responder that knows only texts, like a remote server: no token ids, no counting, no probabilities.  It gives the answers of the
 * scripted engine, so that both use the same scripts and checks. */
#pragma once

#include "base/memory.h"
#include "responder/responder.h"
#include "fake_engine.h"
#include "text/stream.h"
#include "text/template.h"

struct by_text {
    struct responder base;
    struct engine *engine;
    struct model_info info;
    struct stream *stream;
    struct detok detok;
    struct buf piece;
    struct stats stats;
    bool replayed;                      /* the parser gets the given beginning of the answer */
    uint32_t serial;                    /* 0: no request */
    bool known, dead;
};

static bool by_text_finds_too_long;     /* a request that was taken is found too long, as servers do */

static inline struct by_text *by_text_of(struct responder *r)
{
    return (struct by_text *)r;
}

static inline void by_text_tell(struct by_text *b, enum news_kind kind, const char *text)
{
    b->base.fn(&(struct news){.kind = kind, .text = text_of(text)}, b->base.arg);
}

static inline void by_text_delta(const struct delta *d, void *arg)
{
    static const enum news_kind kinds[] = {NEWS_REASONING, NEWS_TEXT, NEWS_CALL_BEGIN, NEWS_CALL_PIECE, NEWS_CALL};
    struct by_text *b = arg;
    b->base.fn(&(struct news){.kind = kinds[d->kind], .text = d->text, .truncated = d->truncated, .replayed = b->replayed,
                                .stats = &b->stats}, b->base.arg);
}

/* The prompt as a server would see it, for the tests. */
static inline bool by_text_prompt(const struct request *q, struct ids *ids, int *snapshot_pos, struct err *e)
{
    struct arena mem = {0};
    struct segments all = {0};
    struct conversation c = {.messages = (struct message *)q->messages, .n_messages = q->n_messages, .tools = (struct text *)q->tools,
                             .n_tools = q->n_tools, .thinking = q->thinking, .generation_prompt = true};
    bool ok = template_render(&c, &all, &mem, e) && segments_encode(&all, fake.tok, ids, snapshot_pos, e);
    const struct text thought = q->prefix.reasoning, said = q->prefix.content;
    tokenizer_encode(fake.tok, thought.p, thought.n, false, ids);
    if (thought.n && said.n)
        tokenizer_encode(fake.tok, "\n</think>\n\n", 11, true, ids);
    tokenizer_encode(fake.tok, said.p, said.n, false, ids);
    arena_free(&mem);
    return ok;
}

static inline void by_text_begin(struct by_text *b, const struct request *q)
{
    const struct given *g = &q->prefix;
    stream_close(b->stream);
    b->stream = stream_open(q->tools, q->n_tools, q->thinking, by_text_delta, b);
    b->detok = (struct detok){0};
    b->replayed = true;
    stream_push(b->stream, g->reasoning.p ? g->reasoning.p : "", g->reasoning.n);
    if (g->reasoning.n && g->content.n)
        stream_push(b->stream, "\n</think>\n\n", 11);
    stream_push(b->stream, g->content.p ? g->content.p : "", g->content.n);
    b->replayed = false;
}

static inline enum request_result by_text_request(struct responder *r, const struct request *q, struct err *e)
{
    struct by_text *b = by_text_of(r);
    struct ids ids = {0};
    int snapshot_pos = 0;
    CHECK(!b->serial && b->known && !q->prefix.tokens);
    if (!by_text_prompt(q, &ids, &snapshot_pos, e)) {
        ids_free(&ids);
        return REQUEST_REFUSED;
    }
    bool fits = !b->info.n_ctx || ids.n < b->info.n_ctx;
    if (!fits)
        err_set(e, "the prompt has %d tokens, the context holds %d", ids.n, b->info.n_ctx);
    b->stats = (struct stats){0};
    if (fits) {
        by_text_begin(b, q);
        struct sampling s = q->sampling;
        s.n_ids = tokenizer_n_ids(fake.tok);
        b->serial = engine_submit(b->engine, q->conversation, spans_text(ids.data, ids.n), snapshot_pos, &s);
    }
    ids_free(&ids);
    return fits ? REQUEST_TAKEN : REQUEST_TOO_LONG;
}

static inline void by_text_interrupt(struct responder *r)
{
    if (by_text_of(r)->serial)
        engine_interrupt(by_text_of(r)->engine, by_text_of(r)->serial);
}

static inline int by_text_fds(const struct responder *r, struct pollfd fds[RESPONDER_MAX_FDS])
{
    const struct by_text *b = (const struct by_text *)r;
    fds[0] = (struct pollfd){.fd = engine_fd(b->engine), .events = POLLIN};
    return !b->dead;
}

static inline void by_text_done(struct by_text *b, const struct event *ev)
{
    detok_flush(&b->detok, &b->piece);
    stream_push(b->stream, buf_str(&b->piece), b->piece.len);
    buf_reset(&b->piece);
    stream_finish(b->stream, ev->finish != END_STOP);
    b->serial = 0;
    const enum end end = by_text_finds_too_long ? END_TOO_LONG : ev->finish;
    b->base.fn(&(struct news){.kind = NEWS_DONE, .end = end, .text = text_of(ev->message), .stats = &b->stats}, b->base.arg);
}

static inline void by_text_event(struct by_text *b, const struct event *ev)
{
    b->stats = ev->stats;
    for (int i = 0; i < ev->n; i++) {
        detok_push(&b->detok, fake.tok, ev->ids[i], true, &b->piece);
        stream_push(b->stream, buf_str(&b->piece), b->piece.len);
        buf_reset(&b->piece);
    }
    if (ev->kind == EV_DONE)
        by_text_done(b, ev);
}

static inline void by_text_drain(struct responder *r)
{
    struct by_text *b = by_text_of(r);
    struct event_list l = b->dead ? (struct event_list){0} : engine_drain(b->engine);
    for (int i = 0; i < l.n && !b->dead; i++) {
        const struct event *ev = &l.events[i];
        if (ev->kind == EV_LOADING || ev->kind == EV_PREFILL)
            b->base.fn(&(struct news){.kind = ev->kind == EV_LOADING ? NEWS_LOADING : NEWS_READING, .done = ev->done, .total = ev->total},
                       b->base.arg);
        if (ev->kind == EV_READY) {
            const struct model_info *from = engine_info(b->engine);
            b->info = (struct model_info){.temperature = from->temperature, .top_p = from->top_p, .top_k = from->top_k, .n_ctx = from->n_ctx};
            snprintf(b->info.model, sizeof b->info.model, "%s", from->model);
            b->known = true;
            by_text_tell(b, NEWS_READY, "");
        }
        b->dead = ev->kind == EV_FATAL;
        if (b->dead)
            by_text_tell(b, NEWS_FATAL, ev->message);
        if (b->serial && ev->serial == b->serial && ev->kind != EV_PREFILL)
            by_text_event(b, ev);
    }
}

static inline const struct model_info *by_text_info(const struct responder *r)
{
    const struct by_text *b = (const struct by_text *)r;
    return b->known ? &b->info : NULL;
}

static inline void by_text_close(struct responder *r)
{
    struct by_text *b = by_text_of(r);
    engine_close(b->engine);
    stream_close(b->stream);
    buf_free(&b->piece);
    free(b);
}

static inline struct responder *by_text_open(void)
{
    static const struct responder_ops ops = {
        .request = by_text_request, .interrupt = by_text_interrupt, .fds = by_text_fds, .drain = by_text_drain, .info = by_text_info,
        .close = by_text_close,
    };
    struct by_text *b = memory_zeroed(1, sizeof *b);
    b->base = (struct responder){.ops = &ops, .can = {.begin_text = true}, .model = "http://server/v1"};
    b->engine = engine_open(NULL, NULL);
    return &b->base;
}
