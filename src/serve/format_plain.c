/* The format of /v1/completions: the text of the answer as the model writes it, without parts. */
#include "serve/format.h"

#include "serve/response.h"
#include "text/pyjson.h"

/* Appends the first n tokens that response.c keeps, as a list for each kind of figure. */
static void add_logprobs(const struct response *r, int n, struct buf *out)
{
    const struct responder *by = r->responder;
    buf_adds(out, "{\"tokens\": [");
    for (int i = 0; i < n; i++) {
        buf_adds(out, i ? ", " : "");
        pyjson_quote(by->ops->piece(by, r->tokens.all[i].id), out);
    }
    buf_adds(out, "], \"token_logprobs\": [");
    for (int i = 0; i < n; i++)
        buf_addf(out, "%s%.6g", i ? ", " : "", response_log(r->tokens.all[i].prob));
    buf_adds(out, "], \"top_logprobs\": [");
    for (int i = 0; i < n; i++) {
        const struct logprobs *a = &r->tokens.all[i].alternatives;
        buf_adds(out, i ? ", {" : "{");
        for (int k = 0; k < a->n; k++) {
            buf_adds(out, k ? ", " : "");
            pyjson_quote(by->ops->piece(by, a->ids[k]), out);
            buf_addf(out, ": %.6g", response_log(a->probs[k]));
        }
        buf_adds(out, "}");
    }
    buf_adds(out, "], \"text_offset\": [");
    for (int i = 0; i < n; i++)
        buf_addf(out, "%s%zu", i ? ", " : "", r->tokens.all[i].from);
    buf_adds(out, "]}");
}

/* ---- a stream ---- */

/* finish NULL: more of the answer follows.  more: further members of the event. */
static void add_event(struct response *r, struct text t, const char *finish, const char *more)
{
    struct buf *out = &r->out;
    buf_adds(out, "data: ");
    openai_head(r, "text_completion");
    buf_adds(out, ", \"choices\": [{\"index\": 0, ");
    openai_string(out, "text", t);
    buf_adds(out, ", \"logprobs\": ");
    if (t.n && r->tokens.n)
        add_logprobs(r, r->tokens.n, out);
    else
        buf_adds(out, "null");
    openai_finish(r, finish);
    buf_addf(out, "}]%s}\n\n", more);
}

static void text(struct response *r, struct text t)
{
    add_event(r, t, NULL, "");
}

static void progress(struct response *r, const struct news *it)
{
    struct buf more = {0};
    openai_progress(it, &more);
    add_event(r, text_of(""), NULL, more.data);
    buf_free(&more);
}

/* Writes the last events: finish reason, usage if it is wanted, [DONE]. */
static void end(struct response *r, enum response_finish finish, const struct news *last)
{
    struct buf more = {0};
    openai_timings(last->stats, &more);
    add_event(r, text_of(""), openai_word(finish), more.data);
    if (r->question->wants_usage) {
        buf_adds(&r->out, "data: ");
        openai_head(r, "text_completion");
        buf_adds(&r->out, ", \"choices\": []");
        openai_usage(r, last->stats, &r->out);
        buf_addf(&r->out, "%s}\n\n", more.data);
    }
    buf_adds(&r->out, "data: [DONE]\n\n");
    buf_free(&more);
}

/* ---- in one piece ---- */

/* Writes the whole completion. */
static void whole(struct response *r, enum response_finish finish, const struct stats *s)
{
    struct buf *out = &r->out;
    openai_head(r, "text_completion");
    buf_adds(out, ", \"choices\": [{\"index\": 0, ");
    openai_string(out, "text", (struct text){buf_str(&r->content), r->content.len});
    buf_adds(out, ", \"logprobs\": ");
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

const struct format format_plain = {
    .id = "cmpl-", .stream_type = "text/event-stream", .read = question_read_plain, .progress = progress, .text = text, .wait = openai_wait,
    .end = end, .fail = openai_fail, .whole = whole, .error = openai_error,
};
