#include "serve/choice.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"
#include "base/unicode.h"
#include "serve/relay.h"
#include "text/pyjson.h"

/* ---- pieces of JSON ---- */

static void quote(struct buf *out, const char *s)
{
    pyjson_quote(text_of(s), out);
}

static void add_string(struct buf *out, const char *key, struct text value)
{
    buf_addf(out, "\"%s\": ", key);
    pyjson_quote(value, out);
}

static void add_reasoning(struct buf *out, struct text value)
{
    add_string(out, "reasoning_content", value);
    buf_adds(out, ", ");
    add_string(out, "reasoning", value);
}

/* Appends 24 random letters and digits, so that no id comes twice, not even after a restart. */
static void add_random(struct buf *out)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    enum { LETTERS = sizeof letters - 1, WANTED = 24, FAIR = 256 / LETTERS * LETTERS };
    unsigned char bytes[2 * WANTED];
    for (int n = 0; n < WANTED;) {
        CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
        for (size_t i = 0; i < sizeof bytes && n < WANTED; i++)
            if (bytes[i] < FAIR) {
                buf_addc(out, letters[bytes[i] % LETTERS]);
                n++;
            }
    }
}

static void add_head(struct choice *r, const char *object)
{
    buf_addf(&r->out, "{\"id\": \"%s\", \"object\": \"%s\", \"created\": %lld, \"model\": ", r->id.data,
             r->question->plain ? "text_completion" : object, (long long)r->created);
    quote(&r->out, r->model);
}

void choice_error(struct buf *out, int status, const char *message, const char *code)
{
    const char *type = status == 401 ? "authentication_error" : status == 429 ? "rate_limit_error"
                     : status >= 500 ? "server_error" : "invalid_request_error";
    buf_adds(out, "{\"error\": {");
    add_string(out, "message", text_of(message));
    buf_addf(out, ", \"type\": \"%s\", \"param\": null, \"code\": ", type);
    code ? quote(out, code) : buf_adds(out, "null");
    buf_adds(out, "}}");
}

/* ---- how likely a token was ---- */

static double log_of(float prob)
{
    return prob > 0 ? log((double)prob) : -9999;        /* what others write, since JSON has no infinity */
}

static void add_token(const struct choice *r, int32_t id, float prob, struct buf *out)
{
    struct text piece = r->responder->ops->piece(r->responder, id);
    add_string(out, "token", piece);
    buf_addf(out, ", \"logprob\": %.6g, \"bytes\": [", log_of(prob));
    for (size_t i = 0; i < piece.n; i++)
        buf_addf(out, "%s%d", i ? ", " : "", (unsigned char)piece.p[i]);
    buf_adds(out, "]");
}

static size_t characters(struct text t)
{
    size_t n = 0;
    for (size_t i = 0; i < t.n; i++)
        n += ((unsigned char)t.p[i] & 0xc0) != 0x80;
    return n;
}

static struct buf *next_value(struct choice *r, int list)
{
    struct buf *out = &r->lists[list].values;
    if (out->len)
        buf_adds(out, ", ");
    return out;
}

static void take_plain_token(struct choice *r, const struct news *it)
{
    const int most = r->question->n_alternatives;
    struct text piece = r->responder->ops->piece(r->responder, it->token.id);
    pyjson_quote(piece, next_value(r, CHOICE_TOKENS));
    buf_addf(next_value(r, CHOICE_PROBS), "%.6g", log_of(it->token.prob));
    buf_addf(next_value(r, CHOICE_OFFSETS), "%zu", r->n_characters);
    struct buf *tops = next_value(r, CHOICE_TOPS);
    buf_adds(tops, "{");
    for (int i = 0; it->alternatives && i < it->alternatives->n && i < most; i++) {
        buf_adds(tops, i ? ", " : "");
        pyjson_quote(r->responder->ops->piece(r->responder, it->alternatives->ids[i]), tops);
        buf_addf(tops, ": %.6g", log_of(it->alternatives->probs[i]));
    }
    buf_adds(tops, "}");
    r->n_characters += characters(piece);
}

/* Are there tokens of the text that is told now? */
static bool has_tokens(const struct choice *r)
{
    return r->logprobs.len || r->lists[CHOICE_TOKENS].values.len;
}

static void add_lists(struct choice *r, struct buf *out)
{
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    for (int i = 0; i < CHOICE_LISTS; i++)
        buf_addf(out, "%s\"%s\": [%.*s]", i ? ", " : "{", names[i], (int)r->lists[i].told, buf_str(&r->lists[i].values));
    buf_adds(out, "}");
}

static void take_token(struct choice *r, const struct news *it)
{
    const int most = r->question->n_alternatives;
    struct buf *out = &r->logprobs;
    if (most < 0 || it->replayed || it->token.reasoning || it->token.prob < 0)
        return;
    if (r->question->plain) {
        take_plain_token(r, it);
        return;
    }
    buf_adds(out, out->len ? ", {" : "{");
    add_token(r, it->token.id, it->token.prob, out);
    buf_adds(out, ", \"top_logprobs\": [");
    for (int i = 0; it->alternatives && i < it->alternatives->n && i < most; i++) {
        buf_adds(out, i ? ", {" : "{");
        add_token(r, it->alternatives->ids[i], it->alternatives->probs[i], out);
        buf_adds(out, "}");
    }
    buf_adds(out, "]}");
    if (r->n_pending < CHOICE_PENDING) {
        r->pending[r->n_pending].end = it->token.from + r->responder->ops->piece(r->responder, it->token.id).n;
        r->pending[r->n_pending++].at = out->len;
    }
}

static void forget_tokens(struct choice *r)
{
    buf_reset(&r->logprobs);
    r->n_pending = 0;
    for (int i = 0; i < CHOICE_LISTS; i++) {
        buf_reset(&r->lists[i].values);
        r->lists[i].told = 0;
    }
}

static void mark_told(struct choice *r)
{
    for (int i = 0; i < CHOICE_LISTS; i++)
        r->lists[i].told = r->lists[i].values.len;
}

/* Drops tokens that end before the text that begins at `from`: white space and markup. */
static void drop_tokens_before(struct choice *r, size_t from)
{
    int n = 0;
    while (n < r->n_pending && r->pending[n].end <= from)
        n++;
    if (!n)
        return;
    size_t at = r->pending[n - 1].at;
    buf_consume(&r->logprobs, at + 2 < r->logprobs.len ? at + 2 : r->logprobs.len);     /* with the comma behind it */
    r->n_pending = 0;
}

/* ---- a stream ---- */

static void add_logprobs(struct choice *r, struct buf *out)
{
    if (r->question->plain)
        add_lists(r, out);
    else
        buf_addf(out, "{\"content\": [%s]}", buf_str(&r->logprobs));
}

/* finish NULL: more of the answer follows. */
static void add_finish(struct choice *r, const char *finish)
{
    buf_adds(&r->out, ", \"finish_reason\": ");
    finish ? quote(&r->out, finish) : buf_adds(&r->out, "null");
    if (finish && r->cut_by)
        buf_addf(&r->out, ", \"truncated\": \"%s\"", r->cut_by);
}

/* Appends an event.  delta: the inside of that object, or its text.  finish NULL: more of the answer follows. */
static void add_event(struct choice *r, const struct buf *delta, const char *finish, const char *more)
{
    struct buf *out = &r->out;
    buf_adds(out, "data: ");
    add_head(r, "chat.completion.chunk");
    if (r->question->plain)
        buf_addf(out, ", \"choices\": [{\"index\": 0, %s", delta->len ? delta->data : "\"text\": \"\"");
    else
        buf_addf(out, ", \"choices\": [{\"index\": 0, \"delta\": {%s}", buf_str(delta));
    if (delta->len && has_tokens(r)) {
        mark_told(r);
        buf_adds(out, ", \"logprobs\": ");
        add_logprobs(r, out);
        forget_tokens(r);
    } else if (r->question->plain) {
        buf_adds(out, ", \"logprobs\": null");
    }
    add_finish(r, finish);
    buf_addf(out, "}]%s}\n\n", more);
}

static void stream_text(struct choice *r, struct text t)
{
    struct buf delta = {0};
    add_string(&delta, r->question->plain ? "text" : "content", t);
    add_event(r, &delta, NULL, "");
    buf_free(&delta);
}

static void stream_reasoning(struct choice *r, struct text t)
{
    struct buf delta = {0};
    add_reasoning(&delta, t);
    add_event(r, &delta, NULL, "");
    buf_free(&delta);
}

static void stream_progress(struct choice *r, const struct news *it)
{
    struct buf more = {0}, none = {0};
    buf_addf(&more, ", \"prompt_progress\": {\"total\": %zu, \"cache\": %zu, \"processed\": %zu}", it->total, it->cached, it->done);
    add_event(r, &none, NULL, more.data);
    buf_free(&more);
}

/* ---- calls ---- */

/* The arguments of a streamed call begin with their brace at once: whatever becomes of the stream, they are no JSON before they are complete.  Empty
 * ones would count as a call without arguments. */
static void begin_call(struct choice *r, struct text name)
{
    struct buf call = {0};
    buf_adds(&call, "\"id\": \"call_");
    add_random(&call);
    buf_adds(&call, "\", \"type\": \"function\", \"function\": {");
    add_string(&call, "name", name);
    buf_adds(&call, ", \"arguments\": ");
    if (r->question->streams) {
        struct buf delta = {0};
        buf_addf(&delta, "\"tool_calls\": [{\"index\": %d, %s\"{\"}}]", r->n_calls, call.data);
        add_event(r, &delta, NULL, "");
        buf_free(&delta);
    } else {
        buf_addf(&r->calls, "%s{%s", r->n_calls ? ", " : "", call.data);
    }
    buf_free(&call);
    r->n_calls++;
    r->in_call = true;
}

/* arguments: an object; truncated: the beginning of one, its brace at least. */
static void end_call(struct choice *r, struct text arguments, bool truncated)
{
    r->in_call = false;
    r->broken |= truncated;
    if (!r->question->streams) {
        pyjson_quote(arguments, &r->calls);
        buf_adds(&r->calls, "}}");
        return;
    }
    struct buf delta = {0};
    buf_addf(&delta, "\"tool_calls\": [{\"index\": %d, \"function\": {\"arguments\": ", r->n_calls - 1);
    pyjson_quote((struct text){arguments.p + 1, arguments.n - 1}, &delta);
    buf_adds(&delta, "}}]");
    add_event(r, &delta, NULL, "");
    buf_free(&delta);
}

/* ---- text ---- */

static void tell_text(struct choice *r, const struct buf *text)
{
    if (!text->len)
        return;
    if (r->question->streams) {
        stream_text(r, (struct text){text->data, text->len});
        return;
    }
    buf_add(&r->content, text->data, text->len);
    mark_told(r);
    if (r->question->plain)
        return;
    if (r->logprobs.len)
        buf_addf(&r->told_logprobs, "%s%s", r->told_logprobs.len ? ", " : "", r->logprobs.data);
    forget_tokens(r);
}

static void take_text(struct choice *r, struct text t, size_t from)
{
    struct buf out = {0};
    drop_tokens_before(r, from);
    stopper_push(&r->stopper, t.p, t.n, &out);
    tell_text(r, &out);
    buf_free(&out);
}

static void take_reasoning(struct choice *r, struct text t)
{
    forget_tokens(r);
    if (r->question->streams)
        stream_reasoning(r, t);
    else
        buf_add(&r->reasoning, t.p, t.n);
}

/* What the stopper holds back is text after all. */
static void release_text(struct choice *r)
{
    struct buf out = {0};
    stopper_finish(&r->stopper, &out);
    tell_text(r, &out);
    buf_free(&out);
}

void choice_begin(struct choice *r, const struct question *q, const struct responder *responder, const char *model)
{
    *r = (struct choice){.question = q, .responder = responder, .model = model, .created = (int64_t)time(NULL)};
    buf_adds(&r->id, q->plain ? "cmpl-" : "chatcmpl-");
    add_random(&r->id);
    stopper_reset(&r->stopper, q->stops, q->n_stops);
    if (q->streams && !q->plain && !q->relayed) {
        struct buf delta = {0};
        buf_adds(&delta, "\"role\": \"assistant\"");
        add_event(r, &delta, NULL, "");
        buf_free(&delta);
    }
}

bool choice_is_over(const struct choice *r)
{
    return r->stopper.hit || r->called;
}

bool choice_news(struct choice *r, const struct news *it)
{
    if (r->question->relayed) {
        relay_news(r, it);
        return true;
    }
    if (choice_is_over(r))
        return false;
    if (it->replayed)                   /* the client has that already */
        return true;
    switch (it->kind) {
    case NEWS_READING:
        if (r->question->streams && r->question->wants_progress)
            stream_progress(r, it);
        break;
    case NEWS_TOKEN:
        r->n_made += it->token.source != TOKEN_FORCED;
        r->n_reasoning += it->token.reasoning && it->token.source != TOKEN_FORCED;
        take_token(r, it);
        break;
    case NEWS_REASONING:
        take_reasoning(r, it->text);
        break;
    case NEWS_TEXT:
        take_text(r, it->text, it->from);
        break;
    case NEWS_CALL_BEGIN:
        release_text(r);
        begin_call(r, it->text);
        break;
    case NEWS_CALL:
        end_call(r, it->text, it->truncated);
        r->called = r->question->one_call && !it->truncated;
        break;
    default:
        break;
    }
    return !choice_is_over(r);
}

/* ---- the end ---- */

/* Tokens that the engine had made when it learned of the answer's end are not part of it: the same request has the same count. */
static void add_usage(const struct choice *r, const struct stats *s, struct buf *out)
{
    const int n = choice_is_over(r) ? r->n_made : s->n_tokens;
    buf_addf(out, ", \"usage\": {\"prompt_tokens\": %d, \"completion_tokens\": %d, \"total_tokens\": %d, "
             "\"prompt_tokens_details\": {\"cached_tokens\": %d}, \"completion_tokens_details\": {\"reasoning_tokens\": %d}}", s->n_prompt,
             n, s->n_prompt + n, s->n_cached, r->n_reasoning);
}

static double rate(int n, double ms)
{
    return ms > 0 ? n * 1000 / ms : 0;
}

static void add_timings(const struct stats *s, struct buf *out)
{
    const struct draft_count all = stats_all_drafts(s), lookup = stats_drafts(s, DRAFT_LOOKUP);
    const int fresh = s->n_prompt - s->n_cached;
    buf_addf(out, ", \"timings\": {\"cache_n\": %d, \"prompt_n\": %d, \"prompt_ms\": %.3f, \"prompt_per_second\": %.3f, \"predicted_n\": %d, "
             "\"predicted_ms\": %.3f, \"predicted_per_second\": %.3f", s->n_cached, fresh, s->prefill_ms, rate(fresh, s->prefill_ms), s->n_tokens,
             s->decode_ms, rate(s->n_timed, s->decode_ms));
    if (all.drafted)
        buf_addf(out, ", \"draft_n\": %d, \"draft_n_accepted\": %d, \"draft_lookup_n\": %d, \"draft_lookup_n_accepted\": %d", all.drafted,
                 all.accepted, lookup.drafted, lookup.accepted);
    if (s->bytes > 0)
        buf_addf(out, ", \"moved_bytes\": %.0f", s->bytes);
    buf_adds(out, "}");
}

static void end_stream(struct choice *r, const char *finish, const struct stats *s)
{
    struct buf none = {0}, more = {0};
    add_timings(s, &more);
    add_event(r, &none, finish, more.data);
    if (r->question->wants_usage) {
        buf_adds(&r->out, "data: ");
        add_head(r, "chat.completion.chunk");
        buf_adds(&r->out, ", \"choices\": []");
        add_usage(r, s, &r->out);
        buf_addf(&r->out, "%s}\n\n", more.data);
    }
    buf_adds(&r->out, "data: [DONE]\n\n");
    buf_free(&more);
}

static void end_plain(struct choice *r)
{
    struct buf *out = &r->out;
    buf_adds(out, ", \"choices\": [{\"index\": 0, ");
    add_string(out, "text", (struct text){buf_str(&r->content), r->content.len});
    buf_adds(out, ", \"logprobs\": ");
    if (r->question->n_alternatives >= 0)
        add_lists(r, out);
    else
        buf_adds(out, "null");
}

static void end_message(struct choice *r)
{
    struct buf *out = &r->out;
    buf_adds(out, ", \"choices\": [{\"index\": 0, \"message\": {\"role\": \"assistant\", ");
    if (r->content.len || !r->n_calls)
        add_string(out, "content", (struct text){buf_str(&r->content), r->content.len});
    else
        buf_adds(out, "\"content\": null");
    if (r->reasoning.len) {
        buf_adds(out, ", ");
        add_reasoning(out, (struct text){r->reasoning.data, r->reasoning.len});
    }
    if (r->n_calls)
        buf_addf(out, ", \"tool_calls\": [%s]", buf_str(&r->calls));
    buf_adds(out, "}, \"logprobs\": ");
    if (r->question->n_alternatives >= 0)
        buf_addf(out, "{\"content\": [%s]}", buf_str(&r->told_logprobs));
    else
        buf_adds(out, "null");
}

static void end_object(struct choice *r, const char *finish, const struct stats *s)
{
    struct buf *out = &r->out;
    add_head(r, "chat.completion");
    (r->question->plain ? end_plain : end_message)(r);
    add_finish(r, finish);
    buf_adds(out, "}]");
    add_usage(r, s, out);
    add_timings(s, out);
    buf_adds(out, "}");
}

static void fail(struct choice *r, const char *why)
{
    r->failed = true;
    if (r->question->streams)
        buf_adds(&r->out, "data: ");
    choice_error(&r->out, 500, why, NULL);
    if (r->question->streams)
        buf_adds(&r->out, "\n\n");
}

void choice_done(struct choice *r, const struct news *it)
{
    static const struct stats nothing;
    const struct stats *s = it->stats ? it->stats : &nothing;
    if (r->question->relayed) {
        relay_done(r, it);
        return;
    }
    if (r->in_call)                     /* its end did not come */
        end_call(r, text_of("{"), true);
    if (end_failed(it->end)) {
        fail(r, it->text.n ? it->text.p : "the engine failed");
        return;
    }
    release_text(r);
    r->cut_by = choice_is_over(r) ? NULL : it->end == END_LENGTH ? "limit" : it->end == END_CONTEXT ? "context"
              : it->end == END_INTERRUPTED ? "interrupt" : r->broken ? "model" : NULL;
    const char *finish = r->cut_by ? "length" : r->n_calls && !r->stopper.hit ? "tool_calls" : "stop";
    (r->question->streams ? end_stream : end_object)(r, finish, s);
}

void choice_free(struct choice *r)
{
    stopper_free(&r->stopper);
    buf_free(&r->id);
    buf_free(&r->out);
    buf_free(&r->reasoning);
    buf_free(&r->content);
    buf_free(&r->calls);
    buf_free(&r->logprobs);
    buf_free(&r->told_logprobs);
    for (int i = 0; i < CHOICE_LISTS; i++)
        buf_free(&r->lists[i].values);
}
