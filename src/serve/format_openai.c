/* The format of /v1/chat/completions, and the pieces that /v1/completions shares.  Reasoning is sent under both names that clients read,
 * `reasoning_content` and `reasoning`; figures as `usage`, and as `timings` with the names of llama.cpp. */
#include "serve/format.h"

#include "serve/response.h"
#include "text/pyjson.h"

/* ---- pieces ---- */

static void add_quoted(struct buf *out, const char *s)
{
    s ? pyjson_quote(text_of(s), out) : buf_adds(out, "null");
}

void openai_string(struct buf *out, const char *key, struct text value)
{
    buf_addf(out, "\"%s\": ", key);
    pyjson_quote(value, out);
}

void openai_head(struct response *r, const char *object)
{
    buf_addf(&r->out, "{\"id\": \"%s\", \"object\": \"%s\", \"created\": %lld, \"model\": ", r->id.data, object, (long long)r->created);
    add_quoted(&r->out, r->model);
}

const char *openai_word(enum response_finish finish)
{
    return finish == RESPONSE_LENGTH ? "length" : finish == RESPONSE_CALLS ? "tool_calls" : "stop";
}

void openai_finish(struct response *r, const char *finish)
{
    buf_adds(&r->out, ", \"finish_reason\": ");
    add_quoted(&r->out, finish);
    if (finish && r->cut_by)
        buf_addf(&r->out, ", \"truncated\": \"%s\"", r->cut_by);
}

void openai_progress(const struct news *it, struct buf *out)
{
    buf_addf(out, ", \"prompt_progress\": {\"total\": %zu, \"cache\": %zu, \"processed\": %zu}", it->total, it->cached, it->done);
}

void openai_usage(const struct response *r, const struct stats *s, struct buf *out)
{
    const int n = response_n_tokens(r, s);
    buf_addf(out, ", \"usage\": {\"prompt_tokens\": %d, \"completion_tokens\": %d, \"total_tokens\": %d, "
             "\"prompt_tokens_details\": {\"cached_tokens\": %d}, \"completion_tokens_details\": {\"reasoning_tokens\": %d}}",
             s->n_prompt, n, s->n_prompt + n, s->n_cached, r->n_reasoning);
}

static double rate(int n, double ms)
{
    return ms > 0 ? n * 1000 / ms : 0;
}

void openai_timings(const struct stats *s, struct buf *out)
{
    const struct draft_count all = stats_all_drafts(s), lookup = stats_drafts(s, DRAFT_LOOKUP);
    const int read = s->n_prompt - s->n_cached;
    buf_addf(out, ", \"timings\": {\"cache_n\": %d, \"prompt_n\": %d, \"prompt_ms\": %.3f, \"prompt_per_second\": %.3f, \"predicted_n\": %d, "
             "\"predicted_ms\": %.3f, \"predicted_per_second\": %.3f", s->n_cached, read, s->prefill_ms, rate(read, s->prefill_ms), s->n_tokens,
             s->decode_ms, rate(s->n_timed, s->decode_ms));
    if (all.drafted)
        buf_addf(out, ", \"draft_n\": %d, \"draft_n_accepted\": %d, \"draft_lookup_n\": %d, \"draft_lookup_n_accepted\": %d", all.drafted,
                 all.accepted, lookup.drafted, lookup.accepted);
    if (s->n_steps)
        buf_addf(out, ", \"steps_n\": %d", s->n_steps);
    if (s->bytes > 0)
        buf_addf(out, ", \"moved_bytes\": %.0f", s->bytes);
    buf_adds(out, "}");
}

void openai_error(const struct refusal *f, struct buf *out)
{
    const char *type = f->status == 401 ? "authentication_error" : f->status == 429 ? "rate_limit_error"
                     : f->status >= 500 ? "server_error" : "invalid_request_error";
    buf_adds(out, "{\"error\": {");
    openai_string(out, "message", text_of(f->message));
    buf_addf(out, ", \"type\": \"%s\", \"param\": ", type);
    add_quoted(out, f->param);
    buf_adds(out, ", \"code\": ");
    add_quoted(out, f->code);
    buf_adds(out, "}}");
}

void openai_fail(struct response *r, const struct refusal *f, const struct news *last)
{
    (void)last;
    buf_adds(&r->out, "data: ");
    openai_error(f, &r->out);
    buf_adds(&r->out, "\n\n");
}

/* Appends a comment, which clients skip. */
void openai_wait(struct response *r)
{
    buf_adds(&r->out, ": waiting\n\n");
}

/* ---- probabilities ---- */

static void add_token(const struct response *r, int32_t id, float prob, struct buf *out)
{
    const struct text piece = r->responder->ops->piece(r->responder, id);
    openai_string(out, "token", piece);
    buf_addf(out, ", \"logprob\": %.6g, \"bytes\": [", response_log(prob));
    for (size_t i = 0; i < piece.n; i++)
        buf_addf(out, "%s%d", i ? ", " : "", (unsigned char)piece.p[i]);
    buf_adds(out, "]");
}

void openai_tokens(const struct response *r, int n, struct buf *out)
{
    for (int i = 0; i < n; i++) {
        const struct response_token *t = &r->tokens.all[i];
        buf_adds(out, i ? ", {" : "{");
        add_token(r, t->id, t->prob, out);
        buf_adds(out, ", \"top_logprobs\": [");
        for (int k = 0; k < t->alternatives.n; k++) {
            buf_adds(out, k ? ", {" : "{");
            add_token(r, t->alternatives.ids[k], t->alternatives.probs[k], out);
            buf_adds(out, "}");
        }
        buf_adds(out, "]}");
    }
}

static void add_logprobs(const struct response *r, int n, struct buf *out)
{
    buf_adds(out, "{\"content\": [");
    openai_tokens(r, n, out);
    buf_adds(out, "]}");
}

/* ---- a stream ---- */

/* Appends an event.  delta: the inside of that object.  finish NULL: more of the answer follows.  more: further members of the event. */
static void add_event(struct response *r, const struct buf *delta, const char *finish, const char *more)
{
    struct buf *out = &r->out;
    buf_adds(out, "data: ");
    openai_head(r, "chat.completion.chunk");
    buf_addf(out, ", \"choices\": [{\"index\": 0, \"delta\": {%s}", buf_str(delta));
    if (delta->len && r->tokens.n) {
        buf_adds(out, ", \"logprobs\": ");
        add_logprobs(r, r->tokens.n, out);
    }
    openai_finish(r, finish);
    buf_addf(out, "}]%s}\n\n", more);
}

static void add_delta(struct response *r, struct buf *delta)
{
    add_event(r, delta, NULL, "");
    buf_free(delta);
}

static void begin(struct response *r)
{
    struct buf delta = {0};
    buf_adds(&delta, "\"role\": \"assistant\"");
    add_delta(r, &delta);
}

static void progress(struct response *r, const struct news *it)
{
    struct buf none = {0}, more = {0};
    openai_progress(it, &more);
    add_event(r, &none, NULL, more.data);
    buf_free(&more);
}

static void add_reasoning(struct buf *out, struct text t)
{
    openai_string(out, "reasoning_content", t);
    buf_adds(out, ", ");
    openai_string(out, "reasoning", t);
}

static void reasoning(struct response *r, struct text t)
{
    struct buf delta = {0};
    add_reasoning(&delta, t);
    add_delta(r, &delta);
}

static void text(struct response *r, struct text t)
{
    struct buf delta = {0};
    openai_string(&delta, "content", t);
    add_delta(r, &delta);
}

static void add_call_head(struct buf *out, const struct response_call *call)
{
    buf_addf(out, "\"id\": \"%s\", \"type\": \"function\", \"function\": {", call->id.data);
    openai_string(out, "name", (struct text){buf_str(&call->name), call->name.len});
    buf_adds(out, ", \"arguments\": ");
}

/* The first event of a call has the brace of its arguments: empty ones would count as a call without arguments. */
static void call_begin(struct response *r, const struct response_call *call)
{
    struct buf delta = {0};
    buf_addf(&delta, "\"tool_calls\": [{\"index\": %d, ", r->calls.n - 1);
    add_call_head(&delta, call);
    pyjson_quote((struct text){call->arguments.data, call->arguments.len}, &delta);
    buf_adds(&delta, "}}]");
    add_delta(r, &delta);
}

static void call_piece(struct response *r, const struct response_call *call, struct text t)
{
    (void)call;
    struct buf delta = {0};
    buf_addf(&delta, "\"tool_calls\": [{\"index\": %d, \"function\": {\"arguments\": ", r->calls.n - 1);
    pyjson_quote(t, &delta);
    buf_adds(&delta, "}}]");
    add_delta(r, &delta);
}

/* Writes the last events: finish reason, usage if it is wanted, [DONE]. */
static void end(struct response *r, enum response_finish finish, const struct news *last)
{
    struct buf none = {0}, more = {0};
    openai_timings(last->stats, &more);
    add_event(r, &none, openai_word(finish), more.data);
    if (r->question->wants_usage) {
        buf_adds(&r->out, "data: ");
        openai_head(r, "chat.completion.chunk");
        buf_adds(&r->out, ", \"choices\": []");
        openai_usage(r, last->stats, &r->out);
        buf_addf(&r->out, "%s}\n\n", more.data);
    }
    buf_adds(&r->out, "data: [DONE]\n\n");
    buf_free(&more);
}

/* ---- in one piece ---- */

/* Writes the whole chat completion. */
static void whole(struct response *r, enum response_finish finish, const struct stats *s)
{
    struct buf *out = &r->out;
    openai_head(r, "chat.completion");
    buf_adds(out, ", \"choices\": [{\"index\": 0, \"message\": {\"role\": \"assistant\", ");
    if (r->content.len || !r->calls.n)
        openai_string(out, "content", (struct text){buf_str(&r->content), r->content.len});
    else
        buf_adds(out, "\"content\": null");
    if (r->reasoning.len) {
        buf_adds(out, ", ");
        add_reasoning(out, (struct text){r->reasoning.data, r->reasoning.len});
    }
    for (int i = 0; i < r->calls.n; i++) {
        const struct response_call *call = &r->calls.all[i];
        buf_adds(out, i ? ", {" : ", \"tool_calls\": [{");
        add_call_head(out, call);
        pyjson_quote((struct text){call->arguments.data, call->arguments.len}, out);
        buf_adds(out, i == r->calls.n - 1 ? "}}]" : "}}");
    }
    buf_adds(out, "}, \"logprobs\": ");
    if (r->question->n_alternatives >= 0)
        add_logprobs(r, r->n_sent, out);
    else
        buf_adds(out, "null");
    openai_finish(r, openai_word(finish));
    buf_adds(out, "}]");
    openai_usage(r, s, out);
    openai_timings(s, out);
    buf_adds(out, "}");
}

const struct format format_openai = {
    .id = "chatcmpl-", .stream_type = "text/event-stream", .read = question_read, .begin = begin, .progress = progress, .reasoning = reasoning,
    .text = text, .call_begin = call_begin, .call_piece = call_piece, .wait = openai_wait, .end = end, .fail = openai_fail, .whole = whole,
    .error = openai_error,
};
