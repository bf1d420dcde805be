#include "serve/response.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

/* ---- for formats ---- */

int response_n_tokens(const struct response *r, const struct stats *s)
{
    return r->question->reads_only ? 0 : response_is_over(r) ? r->n_made : s->n_tokens;
}

double response_log(float prob)
{
    return prob > 0 ? log((double)prob) : -9999;
}

/* ---- tokens with probabilities ---- */

static size_t characters(struct text t)
{
    size_t n = 0;
    for (size_t i = 0; i < t.n; i++)
        n += ((unsigned char)t.p[i] & 0xc0) != 0x80;
    return n;
}

/* Keeps a token of the answer's text or calls until its text is sent, if the client wants probabilities. */
static void keep_token(struct response *r, const struct news *it)
{
    if (r->question->n_alternatives < 0 || it->token.reasoning || it->token.prob < 0)
        return;
    const struct text piece = r->responder->ops->piece(r->responder, it->token.id);
    r->tokens.all = memory_grow(r->tokens.all, r->tokens.n, &r->tokens.cap, sizeof *r->tokens.all);
    struct response_token *t = &r->tokens.all[r->tokens.n++];
    *t = (struct response_token){it->token.id, it->token.prob, it->token.from + piece.n, r->n_characters, {0}};
    if (it->alternatives)
        t->alternatives = *it->alternatives;
    if (t->alternatives.n > r->question->n_alternatives)
        t->alternatives.n = r->question->n_alternatives;
    r->n_characters += characters(piece);
}

/* Drops tokens that were not sent and end at or before byte `from`, where the next text begins: white space and markup. */
static void drop_tokens_before(struct response *r, size_t from)
{
    int to = r->n_sent;
    for (int i = r->n_sent; i < r->tokens.n; i++)
        if (r->tokens.all[i].end > from)
            r->tokens.all[to++] = r->tokens.all[i];
    r->tokens.n = to;
}

/* ---- parts of the answer ---- */

/* Adds text to the content, and sends it if the reply is a stream. */
static void send_text(struct response *r, const struct buf *text)
{
    if (!text->len)
        return;
    buf_add(&r->content, text->data, text->len);
    if (r->question->streams) {
        r->format->text(r, (struct text){text->data, text->len});
        r->tokens.n = 0;
    } else {
        r->n_sent = r->tokens.n;
    }
}

static void take_text(struct response *r, struct text t, size_t from)
{
    struct buf out = {0};
    if (!r->stopper.held.len)           /* the tokens of text that is held back are sent with it */
        drop_tokens_before(r, from);
    stopper_push(&r->stopper, t.p, t.n, &out);
    send_text(r, &out);
    buf_free(&out);
}

/* Sends the text that the stopper holds back: it is no stop string. */
static void release_text(struct response *r)
{
    struct buf out = {0};
    stopper_finish(&r->stopper, &out);
    send_text(r, &out);
    buf_free(&out);
}

static void take_reasoning(struct response *r, struct text t)
{
    r->tokens.n = r->n_sent;
    buf_add(&r->reasoning, t.p, t.n);
    if (r->question->streams && r->format->reasoning)
        r->format->reasoning(r, t);
}

/* Begins a call; one without an id gets one. */
static void begin_call(struct response *r, struct text name, struct text id)
{
    release_text(r);
    r->calls.all = memory_grow(r->calls.all, r->calls.n, &r->calls.cap, sizeof *r->calls.all);
    struct response_call *call = &r->calls.all[r->calls.n++];
    *call = (struct response_call){0};
    buf_adds(&call->id, id.n ? "" : "call_");
    id.n ? buf_add(&call->id, id.p, id.n) : buf_add_random(&call->id, 24);
    buf_add(&call->name, name.p, name.n);
    buf_addc(&call->arguments, '{');
    r->in_call = true;
    if (r->question->streams) {
        if (r->format->call_begin)
            r->format->call_begin(r, call);
        r->tokens.n = 0;
    }
}

/* Takes the next part of the arguments. */
static void add_piece(struct response *r, struct text t)
{
    struct response_call *call = &r->calls.all[r->calls.n - 1];
    if (!t.n)
        return;
    buf_add(&call->arguments, t.p, t.n);
    if (r->question->streams) {
        if (r->format->call_piece)
            r->format->call_piece(r, call, t);
        r->tokens.n = 0;
    }
}

/* Takes a part that begins with the brace if it is the first one. */
static void take_piece(struct response *r, struct text t)
{
    const size_t known = r->calls.all[r->calls.n - 1].arguments.len == 1;
    add_piece(r, (struct text){t.p + known, t.n - known});
}

/* arguments: an object; truncated: the beginning of one, its brace at least.  If a parameter came twice, they do not begin with the parts that were
 * sent: they are sent after those, and of keys that are there twice programs take the last. */
static void end_call(struct response *r, struct text arguments, bool truncated)
{
    r->broken |= truncated;
    if (!r->in_call)
        return;
    struct response_call *call = &r->calls.all[r->calls.n - 1];
    const struct text sent = {call->arguments.data, call->arguments.len};
    if (arguments.n >= sent.n && !memcmp(arguments.p, sent.p, sent.n)) {
        add_piece(r, (struct text){arguments.p + sent.n, arguments.n - sent.n});
    } else if (arguments.n > 1) {
        add_piece(r, text_of(", "));
        add_piece(r, (struct text){arguments.p + 1, arguments.n - 1});
    }
    call->truncated = truncated;
    r->in_call = false;
    r->called = r->question->one_call && !truncated;
    if (r->question->streams && r->format->call_end)
        r->format->call_end(r, call);
}

void response_begin(struct response *r, const struct question *q, const struct responder *responder, const char *model)
{
    *r = (struct response){.question = q, .format = q->format, .responder = responder, .model = model, .created = (int64_t)time(NULL)};
    r->own = r->format->own_bytes ? memory_zeroed(1, r->format->own_bytes) : NULL;
    buf_adds(&r->id, r->format->id);
    buf_add_random(&r->id, 24);
    stopper_reset(&r->stopper, q->stops, q->n_stops);
    if (q->streams && r->format->begin)
        r->format->begin(r);
}

bool response_is_over(const struct response *r)
{
    return r->stopper.hit || r->called;
}

bool response_news(struct response *r, const struct news *it)
{
    const struct format *f = r->format;
    if (response_is_over(r))
        return false;
    if (it->replayed || (r->question->reads_only && it->kind != NEWS_READING))  /* the client has that already, or does not want it */
        return true;
    if (it->kind == NEWS_READING && r->question->streams && r->question->wants_progress) {
        f->progress(r, it);
    } else if (it->kind == NEWS_TOKEN) {
        r->n_made += it->token.source != TOKEN_FORCED;
        r->n_reasoning += it->token.reasoning && it->token.source != TOKEN_FORCED;
        keep_token(r, it);
        if (f->token && r->question->streams)
            f->token(r, it);
    } else if (it->kind == NEWS_REASONING && f->text) {
        take_reasoning(r, it->text);
    } else if (it->kind == NEWS_TEXT && f->text) {
        take_text(r, it->text, it->from);
    } else if (it->kind == NEWS_CALL_BEGIN && f->text && !it->truncated) {
        begin_call(r, it->text, it->id);
    } else if (it->kind == NEWS_CALL_PIECE && f->text && r->in_call) {
        take_piece(r, it->text);
    } else if (it->kind == NEWS_CALL && f->text) {
        end_call(r, it->text, it->truncated);
    }
    return !response_is_over(r);
}

/* ---- the end ---- */

void response_fail(struct response *r, const struct refusal *f, const struct news *last)
{
    struct refusal own = *f;
    own.request_id = r->request_id.len ? r->request_id.data : NULL;
    r->failed = f->status;
    if (r->question->streams)
        r->format->fail(r, &own, last);
    else
        r->format->error(&own, &r->out);
}

void response_done(struct response *r, const struct news *it)
{
    static const struct stats nothing;
    struct news last = *it;
    last.stats = it->stats ? it->stats : &nothing;
    if (r->in_call)                     /* its end did not come */
        end_call(r, text_of("{"), true);
    if (end_failed(it->end)) {
        const int status = it->end == END_REFUSED ? 400 : 500;
        response_fail(r, &(struct refusal){.status = status, .message = it->text.n ? it->text.p : "the engine failed"}, &last);
        return;
    }
    release_text(r);
    r->cut_by = response_is_over(r) ? NULL : it->end == END_LENGTH || r->question->reads_only ? "limit" : it->end == END_CONTEXT ? "context"
              : it->end == END_INTERRUPTED ? "interrupt" : r->broken ? "model" : NULL;
    const enum response_finish finish = r->cut_by ? RESPONSE_LENGTH : r->stopper.hit ? RESPONSE_STOPPED
                                      : r->calls.n ? RESPONSE_CALLS : RESPONSE_ENDED;
    if (r->question->streams)
        r->format->end(r, finish, &last);
    else
        r->format->whole(r, finish, last.stats);
}

void response_free(struct response *r)
{
    for (int i = 0; i < r->calls.n; i++) {
        struct response_call *call = &r->calls.all[i];
        buf_free(&call->id);
        buf_free(&call->name);
        buf_free(&call->arguments);
    }
    if (r->format->free)
        r->format->free(r);
    stopper_free(&r->stopper);
    buf_free(&r->id);
    buf_free(&r->request_id);
    buf_free(&r->out);
    buf_free(&r->reasoning);
    buf_free(&r->content);
    free(r->calls.all);
    free(r->tokens.all);
    free(r->own);
}
