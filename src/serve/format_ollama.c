/* The formats of /api/chat and /api/generate, ollama's: a line of JSON for each part of the answer.  A request is rewritten as one of chat
 * completions, or, with `raw`, of completions (serve/rewrite.h); config/ollama_fields.def has its fields.
 * Source of names and units: https://github.com/ollama/ollama/blob/main/docs/api.md */
#include <string.h>
#include <time.h>

#include "serve/format.h"
#include "serve/response.h"
#include "serve/rewrite.h"
#include "text/pyjson.h"

/* ---- the request ---- */

enum { CHAT = 1, PLAIN = 2, BOTH = CHAT | PLAIN };

static const struct rewrite_field fields[] = {
#define RENAMED(...) {__VA_ARGS__},
#include "config/ollama_fields.def"
};

/* Adds the text of a message, which is under the key, and its pictures, which are base64 without a type. */
static bool add_content(struct rewriter *w, struct pyjson *m, const struct pyjson *from, const char *key)
{
    const struct pyjson *images = pyjson_given(from, "images"), *content = pyjson_given(from, key);
    struct pyjson parts = rewrite_list;
    if (!images) {
        rewrite_copy(w, m, "content", from, key);
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
    return images->kind == PY_LIST || err_set(w->e, "%s: images is not a list", w->place);
}

/* Rewrites a message with its pictures, thinking and calls. */
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
    bool ok = add_content(w, m, from, "content");
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

/* Rewrites `format`: a schema, or "json". */
static bool read_format(struct rewriter *w, const struct pyjson *format)
{
    struct pyjson json = rewrite_object;
    if (!format || (format->kind == PY_STR && !format->text.n))
        return true;
    if (format->kind == PY_DICT) {
        rewrite_schema(w, "format", format, NULL);
        return true;
    }
    rewrite_set(w, &json, "type", pyjson_string(text_of("json_object")));
    rewrite_set(w, &w->to, "response_format", json);
    return (format->kind == PY_STR && text_is(format->text, "json")) || err_set(w->e, "format is neither \"json\" nor a schema");
}

/* Begins to read a body: what all requests have is in `w`. */
static bool begin_reading(struct rewriter *w, struct question *q, struct text body, int where, struct pyjson *top, struct err *e)
{
    static const struct refused_field refused[] = {
#define REFUSED(...) {__VA_ARGS__},
#include "config/ollama_fields.def"
    };
    static const struct field_type types[] = {
#define TYPE(...) {__VA_ARGS__},
#include "config/ollama_fields.def"
    };
    *q = (struct question){0};
    *w = rewrite_begin(&q->mem, e);
    w->fields = fields;
    w->n_fields = sizeof fields / sizeof *fields;
    if (!question_object(top, body, &q->mem, e) || !question_refuse(top, refused, sizeof refused / sizeof *refused, where, e) ||
        !question_types(top, types, sizeof types / sizeof *types, where, e))
        return false;
    const struct pyjson *stream = pyjson_given(top, "stream");
    read_limit(w, pyjson_given(top, "options"));
    read_model(w, top);
    rewrite_set(w, &w->to, "stream", stream ? *stream : (struct pyjson){.kind = PY_TRUE});
    return read_format(w, pyjson_given(top, "format"));
}

/* Reads a request without a question, by which clients have a model loaded. */
static bool read_nothing(struct rewriter *w, struct question *q)
{
    const struct pyjson *model = pyjson_given(&w->to, "model");
    q->asks_nothing = true;
    q->model = model ? model->text : text_of("");
    return true;
}

static bool read_chat(struct question *q, struct text body, const struct options *o, struct err *e)
{
    struct rewriter w;
    struct pyjson top;
    if (!begin_reading(&w, q, body, CHAT, &top, e))
        return false;
    const struct pyjson *messages = pyjson_given(&top, "messages");
    if (!messages || !messages->n)
        return read_nothing(&w, q);
    bool ok = true;
    for (size_t i = 0; ok && i < messages->n; i++) {
        w.place = arena_printf(w.mem, "messages[%zu]", i);
        ok = read_message(&w, &messages->items[i]);
    }
    return ok && rewrite_read(&w, &top, q, o);
}

static bool read_generate(struct question *q, struct text body, const struct options *o, struct err *e)
{
    struct rewriter w;
    struct pyjson top;
    bool raw = false;
    if (!begin_reading(&w, q, body, PLAIN, &top, e) || !question_flag(&top, "raw", &raw, e))
        return false;
    const struct pyjson *prompt = pyjson_given(&top, "prompt"), *system = pyjson_given(&top, "system"), *images = pyjson_given(&top, "images");
    const bool has_images = images && images->n, has_system = system && system->text.n;
    if (raw && (has_images || has_system))
        return err_set(e, "%s cannot be given beside raw, which sends the prompt as it is", has_images ? "images" : "system");
    if (!has_images && (!prompt || !prompt->text.n))
        return read_nothing(&w, q);
    if (raw) {
        rewrite_copy(&w, &w.to, "prompt", &top, "prompt");
        if (!pyjson_given(&w.to, "max_tokens"))
            rewrite_set(&w, &w.to, "max_tokens", (struct pyjson){.kind = PY_INT, .text = text_of("-1")});
        return rewrite_read_plain(&w, &top, q, o);
    }
    w.place = "system";
    if (has_system)
        rewrite_set(&w, rewrite_message(&w, "system"), "content", *system);
    w.place = "prompt";
    struct pyjson *m = rewrite_message(&w, "user");
    return add_content(&w, m, &top, "prompt") && rewrite_read(&w, &top, q, o);
}

/* ---- the reply ---- */

static bool generates(const struct response *r) { return r->format == &format_generate; }
static const char *text_key(const struct response *r) { return generates(r) ? "response" : "content"; }

/* Appends the beginning of a line, up to the text of the answer. */
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
    buf_addf(out, ", \"created_at\": \"%s.%09ldZ\", ", created, now.tv_nsec);
    buf_adds(out, generates(r) ? "" : "\"message\": {\"role\": \"assistant\", ");
}

/* Ends what the answer is made of; members of the line follow. */
static void end_answer(const struct response *r, struct buf *out) { buf_adds(out, generates(r) ? ", " : "}, "); }

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
             "\"prompt_eval_duration\": %.0f, \"eval_count\": %d, \"eval_duration\": %.0f}\n", r->question->asks_nothing ? "load"
             : finish == RESPONSE_LENGTH ? "length" : "stop", (s->prefill_ms + s->decode_ms) * ns, s->n_prompt, s->prefill_ms * ns,
             response_n_tokens(r, s), s->decode_ms * ns);
}

static void part(struct response *r, const char *key, struct text t)
{
    add_head(r, &r->out);
    if (strcmp(key, text_key(r)))
        buf_addf(&r->out, "\"%s\": \"\", ", text_key(r));
    openai_string(&r->out, key, t);
    end_answer(r, &r->out);
    buf_adds(&r->out, "\"done\": false}\n");
}

static void reasoning(struct response *r, struct text t) { part(r, "thinking", t); }

static void text(struct response *r, struct text t) { part(r, text_key(r), t); }

/* Sends a line without text, at the beginning and in silence: the dialect has no comments. */
static void wait(struct response *r) { part(r, text_key(r), text_of("")); }

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
    buf_addf(&r->out, "\"%s\": \"\"", text_key(r));
    end_answer(r, &r->out);
    add_end(r, finish, last->stats, &r->out);
}

/* Writes the whole reply.  A call that was cut off is left out. */
static void whole(struct response *r, enum response_finish finish, const struct stats *s)
{
    struct buf *out = &r->out;
    int n = 0;
    add_head(r, out);
    openai_string(out, text_key(r), (struct text){buf_str(&r->content), r->content.len});
    if (r->reasoning.len) {
        buf_adds(out, ", ");
        openai_string(out, "thinking", (struct text){r->reasoning.data, r->reasoning.len});
    }
    for (int i = 0; i < r->calls.n; i++)
        if (!r->calls.all[i].truncated) {
            buf_adds(out, n++ ? ", " : ", \"tool_calls\": [");
            add_call(out, &r->calls.all[i]);
        }
    buf_adds(out, n ? "]" : "");
    end_answer(r, out);
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

#define REPLY .stream_type = "application/x-ndjson", .begin = wait, .wait = wait, .reasoning = reasoning, .text = text, .call_end = call_end, \
              .end = end, .fail = fail, .whole = whole, .error = error

const struct format format_ollama = {.id = "chat-", .read = read_chat, REPLY}, format_generate = {.id = "gen-", .read = read_generate, REPLY};
