/* The format of /api/chat, ollama's: a line of JSON for each part of the answer.  A request is rewritten as one of chat completions
 * (serve/rewrite.h); what of ollama's fields is about its own memory is ignored (docs/serve.md).
 * Source of names and units: https://github.com/ollama/ollama/blob/main/docs/api.md */
#include <string.h>
#include <time.h>

#include "serve/format.h"
#include "serve/response.h"
#include "serve/rewrite.h"
#include "text/pyjson.h"

/* ---- the request ---- */

static const struct rewrite_field fields[] = {
    {"options.num_predict", "max_tokens", .by_hand = true}, {"options.temperature", "temperature"}, {"options.top_p", "top_p"},
    {"options.top_k", "top_k"}, {"options.min_p", "min_p"}, {"options.seed", "seed"}, {"options.stop", "stop"},
    {"options.repeat_penalty", "repetition_penalty"}, {"options.presence_penalty", "presence_penalty"},
    {"options.frequency_penalty", "frequency_penalty"}, {"think", "think"}, {"tools", "tools"}, {"format", "response_format", .by_hand = true},
};

/* Adds the text of a message and its pictures, which are base64 without a type. */
static bool add_content(struct rewriter *w, struct pyjson *m, const struct pyjson *from)
{
    const struct pyjson *images = pyjson_given(from, "images"), *content = pyjson_given(from, "content");
    struct pyjson parts = rewrite_list;
    if (!images) {
        rewrite_copy(w, m, "content", from, "content");
        return true;
    }
    for (size_t i = 0; images->kind == PY_LIST && i < images->n; i++) {
        struct pyjson part = rewrite_object, image = rewrite_object;
        struct buf url = {0};
        if (images->items[i].kind != PY_STR)
            return err_set(w->e, "%s: images[%zu] is no text in base64", w->place, i);
        buf_adds(&url, "data:image/png;base64,");       /* what it is shows in its bytes */
        buf_add(&url, images->items[i].text.p, images->items[i].text.n);
        rewrite_set_buf(w, &image, "url", &url);
        rewrite_set(w, &part, "type", pyjson_string(text_of("image_url")));
        rewrite_set(w, &part, "image_url", image);
        pyjson_add(&parts, part, w->mem);
    }
    if (content && content->kind == PY_STR) {
        struct pyjson part = rewrite_object;
        rewrite_set(w, &part, "type", pyjson_string(text_of("text")));
        rewrite_set(w, &part, "text", *content);
        pyjson_add(&parts, part, w->mem);
    }
    rewrite_set(w, m, "content", parts);
    return images->kind == PY_LIST || err_set(w->e, "%s: images is no list", w->place);
}

static bool read_message(struct rewriter *w, const struct pyjson *from)
{
    const struct pyjson *role = pyjson_given(from, "role"), *calls = pyjson_given(from, "tool_calls");
    struct buf name = {0};
    if (!role || role->kind != PY_STR)
        return err_set(w->e, "%s has no role", w->place);
    buf_add(&name, role->text.p, role->text.n);
    struct pyjson *m = rewrite_message(w, arena_strdup(w->mem, buf_str(&name)));
    buf_free(&name);
    rewrite_copy(w, m, "reasoning_content", from, "thinking");
    bool ok = add_content(w, m, from);
    for (size_t i = 0; ok && calls && calls->kind == PY_LIST && i < calls->n; i++) {
        const struct pyjson *function = pyjson_given(&calls->items[i], "function");
        ok = rewrite_call(w, m, pyjson_given(&calls->items[i], "id"), pyjson_given(function, "name"), pyjson_given(function, "arguments"));
    }
    return ok;
}

/* num_predict: -1 and -2 are no limit. */
static void read_limit(struct rewriter *w, const struct pyjson *options)
{
    const struct pyjson *most = pyjson_given(options, "num_predict");
    if (most && !(most->kind == PY_INT && text_starts(most->text, "-")))
        rewrite_set(w, &w->to, "max_tokens", *most);
}

/* A model is also called NAME:latest there. */
static void read_model(struct rewriter *w, const struct pyjson *top)
{
    static const char latest[] = ":latest";
    const struct pyjson *model = pyjson_given(top, "model");
    struct pyjson name = model ? *model : (struct pyjson){0};
    if (!model)
        return;
    if (name.kind == PY_STR && text_ends(name.text, latest))
        name.text.n -= sizeof latest - 1;
    rewrite_set(w, &w->to, "model", name);
}

static bool read_format(struct rewriter *w, const struct pyjson *format)
{
    struct pyjson json = rewrite_object;
    if (!format || (format->kind == PY_STR && !format->text.n))
        return true;
    if (format->kind == PY_DICT) {
        rewrite_schema(w, format, NULL);
        return true;
    }
    rewrite_set(w, &json, "type", pyjson_string(text_of("json_object")));
    rewrite_set(w, &w->to, "response_format", json);
    return (format->kind == PY_STR && text_is(format->text, "json")) || err_set(w->e, "format is neither \"json\" nor a schema");
}

static bool read_body(struct question *q, struct text body, const struct options *o, struct err *e)
{
    struct pyjson top;
    *q = (struct question){0};
    struct rewriter w = rewrite_begin(&q->mem, e);
    w.fields = fields;
    w.n_fields = sizeof fields / sizeof *fields;
    if (!question_object(&top, body, &q->mem, e))
        return false;
    const struct pyjson *messages = pyjson_given(&top, "messages"), *stream = pyjson_given(&top, "stream");
    if (!messages || messages->kind != PY_LIST)
        return err_set(e, "messages is missing, expected a list");
    bool ok = true;
    for (size_t i = 0; ok && i < messages->n; i++) {
        w.place = arena_printf(w.mem, "messages[%zu]", i);
        ok = read_message(&w, &messages->items[i]);
    }
    read_limit(&w, pyjson_given(&top, "options"));
    read_model(&w, &top);
    rewrite_set(&w, &w.to, "stream", stream ? *stream : (struct pyjson){.kind = PY_TRUE});
    return ok && read_format(&w, pyjson_given(&top, "format")) && rewrite_read(&w, &top, q, o);
}

/* ---- the reply ---- */

/* Appends the beginning of a line, up to the message. */
static void add_head(const struct response *r, struct buf *out)
{
    char created[40] = "";
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &tm))
        strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_adds(out, "{\"model\": ");
    pyjson_quote(r->question->model.n ? r->question->model : text_of(r->model), out);
    buf_addf(out, ", \"created_at\": \"%s.%09ldZ\", \"message\": {\"role\": \"assistant\", ", created, now.tv_nsec);
}

static void add_call(struct buf *out, const struct response_call *call)
{
    buf_adds(out, "{\"id\": ");
    pyjson_quote((struct text){buf_str(&call->id), call->id.len}, out);
    buf_adds(out, ", \"function\": {");
    openai_string(out, "name", (struct text){buf_str(&call->name), call->name.len});
    buf_addf(out, ", \"arguments\": %s}}", buf_str(&call->arguments));
}

/* Appends the members that end an answer; durations are in nanoseconds. */
static void add_end(const struct response *r, enum response_finish finish, const struct stats *s, struct buf *out)
{
    const double ns = 1e6;
    buf_addf(out, "\"done\": true, \"done_reason\": \"%s\", \"total_duration\": %.0f, \"load_duration\": 0, \"prompt_eval_count\": %d, "
             "\"prompt_eval_duration\": %.0f, \"eval_count\": %d, \"eval_duration\": %.0f}\n", finish == RESPONSE_LENGTH ? "length" : "stop",
             (s->prefill_ms + s->decode_ms) * ns, s->n_prompt, s->prefill_ms * ns, response_n_tokens(r, s), s->decode_ms * ns);
}

static void part(struct response *r, const char *key, struct text t)
{
    add_head(r, &r->out);
    if (strcmp(key, "content"))
        buf_adds(&r->out, "\"content\": \"\", ");
    openai_string(&r->out, key, t);
    buf_adds(&r->out, "}, \"done\": false}\n");
}

static void reasoning(struct response *r, struct text t) { part(r, "thinking", t); }

static void text(struct response *r, struct text t) { part(r, "content", t); }

/* Sends a line without text: the dialect has no comments. */
static void wait(struct response *r) { part(r, "content", text_of("")); }

/* A call comes whole: its arguments are an object. */
static void call_end(struct response *r, const struct response_call *call)
{
    if (call->truncated)
        return;
    add_head(r, &r->out);
    buf_adds(&r->out, "\"content\": \"\", \"tool_calls\": [");
    add_call(&r->out, call);
    buf_adds(&r->out, "]}, \"done\": false}\n");
}

static void end(struct response *r, enum response_finish finish, const struct news *last)
{
    add_head(r, &r->out);
    buf_adds(&r->out, "\"content\": \"\"}, ");
    add_end(r, finish, last->stats, &r->out);
}

static void whole(struct response *r, enum response_finish finish, const struct stats *s)
{
    struct buf *out = &r->out;
    int n = 0;
    add_head(r, out);
    openai_string(out, "content", (struct text){buf_str(&r->content), r->content.len});
    if (r->reasoning.len) {
        buf_adds(out, ", ");
        openai_string(out, "thinking", (struct text){r->reasoning.data, r->reasoning.len});
    }
    for (int i = 0; i < r->calls.n; i++)
        if (!r->calls.all[i].truncated) {
            buf_adds(out, n++ ? ", " : ", \"tool_calls\": [");
            add_call(out, &r->calls.all[i]);
        }
    buf_adds(out, n ? "]}, " : "}, ");
    add_end(r, finish, s, out);
}

static void error(const struct refusal *f, struct buf *out)
{
    buf_addc(out, '{');
    openai_string(out, "error", text_of(f->message));
    buf_addc(out, '}');
}

static void fail(struct response *r, const struct refusal *f, const struct news *last)
{
    (void)last;
    error(f, &r->out);
    buf_addc(&r->out, '\n');
}

const struct format format_ollama = {
    .id = "chat-", .stream_type = "application/x-ndjson", .read = read_body, .wait = wait, .reasoning = reasoning, .text = text, .call_end = call_end,
    .end = end, .fail = fail, .whole = whole, .error = error,
};
