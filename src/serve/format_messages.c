/* The format of /v1/messages, Anthropic's: what Claude Code and the anthropic packages send and read.
 *
 * A request is rewritten as one of chat completions (serve/rewrite.h).  Fields that are not named here are ignored, as the clients expect.  Nothing
 * of ids, signatures and cache marks gets into the prompt.
 *
 * A client that wants no text of the reasoning ("display": "omitted") gets it in the signature of its empty block, and sends it back there. */
#include <stdio.h>
#include <string.h>

#include "serve/format.h"
#include "serve/response.h"
#include "serve/rewrite.h"
#include "text/pyjson.h"

#define BILLING "x-anthropic-billing-header:"

/* ---- the request ---- */

static const struct rewrite_field fields[] = {
    {"model", "model"}, {"stream", "stream"}, {"max_tokens", "max_tokens"}, {"temperature", "temperature"}, {"top_p", "top_p"}, {"top_k", "top_k"},
    {"stop_sequences", "stop"}, {"output_config.format", "response_format"}, {"output_config.effort", "reasoning_effort", .by_hand = true},
};

static bool is_type(const struct pyjson *v, const char *type) { return rewrite_is(v, "type", type); }

/* Adds a system text of the client; its billing header differs in each request, and would have the whole prompt read again. */
static void add_system(struct rewriter *w, const struct pyjson *text)
{
    if (text && text->kind == PY_STR && !text_starts(text->text, BILLING))
        rewrite_set(w, rewrite_message(w, "system"), "content", *text);
}

/* Reads `system`: a text, or a list of blocks.  Each is a message, which history.c joins. */
static bool read_system(struct rewriter *w, const struct pyjson *v)
{
    w->place = "system";
    if (!v || v->kind == PY_STR) {
        add_system(w, v);
        return true;
    }
    bool ok = v->kind == PY_LIST;
    for (size_t i = 0; ok && i < v->n; i++) {
        const struct pyjson *text = pyjson_given(&v->items[i], "text");
        ok = is_type(&v->items[i], "text") && text && text->kind == PY_STR;
        add_system(w, text);
    }
    return ok || err_set(w->e, "system is neither a text nor a list of text blocks");
}

/* ---- blocks ---- */

/* Adds a text, or those of a list of text blocks.  False if it is neither. */
static bool add_texts(struct rewriter *w, struct pyjson *parts, const struct pyjson *v)
{
    if (v && v->kind == PY_STR)
        pyjson_add(parts, *v, w->mem);
    for (size_t i = 0; v && v->kind == PY_LIST && i < v->n; i++)
        add_texts(w, parts, pyjson_given(&v->items[i], "text"));
    return v && (v->kind == PY_STR || v->kind == PY_LIST);
}

/* Adds the picture of block `number` as an address that holds its bytes.  Refuses those of other sources. */
static bool add_picture(struct rewriter *w, struct pyjson *parts, const struct pyjson *source, size_t number)
{
    static const char form[] = "{\"type\": \"base64\", \"media_type\": \"image/png\", \"data\": \"...\"}";
    const struct pyjson *type = pyjson_given(source, "media_type"), *data = pyjson_given(source, "data"), *url = pyjson_given(source, "url");
    struct pyjson part = rewrite_object, image = rewrite_object;
    if (type && type->kind == PY_STR && data && data->kind == PY_STR) {
        struct buf bytes = {0};
        buf_addf(&bytes, "data:%.*s;base64,", (int)type->text.n, type->text.p);
        buf_add(&bytes, data->text.p, data->text.n);
        rewrite_set_buf(w, &image, "url", &bytes);
    } else if (url && url->kind == PY_STR && text_starts(url->text, "data:")) {
        rewrite_set(w, &image, "url", *url);
    } else {
        return err_set(w->e, "%s: block %zu: this server does not support image input of this source%s; expected %s", w->place, number,
                       is_type(source, "file") ? ": it keeps no files" : is_type(source, "url") ? ": it fetches nothing from the network" : "", form);
    }
    rewrite_set(w, &part, "type", pyjson_string(text_of("image_url")));
    rewrite_set(w, &part, "image_url", image);
    pyjson_add(parts, part, w->mem);
    return true;
}

/* Adds a block as the part of a chat message.  number: of the block, from 1. */
static bool add_part(struct rewriter *w, struct pyjson *parts, const struct pyjson *block, size_t number)
{
    static const struct { const char *type, *key; } texts[] = {
#define TEXT(...) {__VA_ARGS__},
#include "config/messages_fields.def"
    };
    static const char *const skipped[] = {
#define SKIPPED(types, words) types,
#include "config/messages_fields.def"
    };
    const struct pyjson *type = pyjson_given(block, "type"), *source = pyjson_given(block, "source");
    const struct text name = type && type->kind == PY_STR ? type->text : text_of("");
    if (text_is(name, "image"))
        return add_picture(w, parts, source, number);
    if (text_is(name, "document") && (is_type(source, "text") || is_type(source, "content")))
        return add_texts(w, parts, pyjson_given(source, is_type(source, "text") ? "data" : "content")) ||
               err_set(w->e, "%s: block %zu has no text in its source", w->place, number);
    if (text_is(name, "document")) {
        pyjson_add(parts, *block, w->mem);      /* history.c refuses files in words that programs know */
        return true;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (text_is(name, texts[i].type))
            return add_texts(w, parts, pyjson_given(block, texts[i].key)) ||
                   err_set(w->e, "%s: block %zu has no text in \"%s\"", w->place, number, texts[i].key);
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
        if (name.n && text_listed(skipped[i], name))
            return true;
    return err_set(w->e, "%s: block %zu is of the type \"%.*s\", expected text, image or a block of calls", w->place, number,
                   (int)(name.n < 40 ? name.n : 40), name.p);
}

/* Rewrites a tool_result block as a message of the role tool; `number` is its place in the content. */
static bool add_result(struct rewriter *w, const struct pyjson *block, size_t number)
{
    const struct pyjson *content = pyjson_given(block, "content");
    const char *outside = w->place;
    bool ok = true;
    w->place = arena_printf(w->mem, "%s: block %zu", outside, number);
    struct pyjson *m = rewrite_message(w, "tool"), parts = rewrite_list;
    rewrite_copy(w, m, "tool_call_id", block, "tool_use_id");
    for (size_t i = 0; ok && content && content->kind == PY_LIST && i < content->n; i++)
        ok = add_part(w, &parts, &content->items[i], i + 1);
    if (parts.n)
        rewrite_set(w, m, "content", parts);
    else if (content && content->kind != PY_LIST)
        rewrite_set(w, m, "content", *content);
    w->place = outside;
    return ok;
}

/* Reads the blocks of a user: results of calls are messages of their own, and so is what stands between them. */
static bool read_user(struct rewriter *w, const struct pyjson *blocks)
{
    struct pyjson parts = rewrite_list;
    bool ok = true;
    for (size_t i = 0; ok && i <= blocks->n; i++) {
        const bool result = i < blocks->n && is_type(&blocks->items[i], "tool_result");
        if ((result || i == blocks->n) && (parts.n || !blocks->n)) {
            rewrite_set(w, rewrite_message(w, "user"), "content", parts);
            parts = rewrite_list;
        }
        if (i < blocks->n)
            ok = result ? add_result(w, &blocks->items[i], i + 1) : add_part(w, &parts, &blocks->items[i], i + 1);
    }
    return ok;
}

static bool add_call(struct rewriter *w, struct pyjson *message, const struct pyjson *block, size_t number)
{
    const char *outside = w->place;
    w->place = arena_printf(w->mem, "%s: block %zu", outside, number);
    const bool ok = rewrite_call(w, message, pyjson_given(block, "id"), pyjson_given(block, "name"), pyjson_given(block, "input"));
    w->place = outside;
    return ok;
}

/* Appends the reasoning of a block: its text, or what its signature carries. */
static void add_thought(struct buf *to, const struct pyjson *block)
{
    const struct pyjson *text = pyjson_given(block, "thinking");
    if (text && text->kind == PY_STR && text->text.n)
        buf_add(to, text->text.p, text->text.n);
    else
        rewrite_add_kept(pyjson_given(block, "signature"), to);
}

/* Rewrites an answer of blocks: text, thinking, calls. */
static bool read_assistant(struct rewriter *w, const struct pyjson *blocks)
{
    struct pyjson parts = rewrite_list, *m = rewrite_message(w, "assistant");
    struct buf thought = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < blocks->n; i++) {
        const struct pyjson *block = &blocks->items[i];
        if (is_type(block, "thinking"))
            add_thought(&thought, block);
        else
            ok = is_type(block, "tool_use") ? add_call(w, m, block, i + 1) : add_part(w, &parts, block, i + 1);
    }
    rewrite_set(w, m, "content", parts);
    if (thought.len)
        rewrite_set_buf(w, m, "reasoning_content", &thought);
    return ok;
}

/* Rewrites a message.  False with the reason. */
static bool read_message(struct rewriter *w, const struct pyjson *from)
{
    const struct pyjson *role = pyjson_given(from, "role"), *content = pyjson_given(from, "content");
    const bool assistant = rewrite_is(from, "role", "assistant"), system = rewrite_is(from, "role", "system");
    if (!role || role->kind != PY_STR || !content || (content->kind != PY_STR && content->kind != PY_LIST))
        return err_set(w->e, "%s: expected {\"role\": ..., \"content\": a text or a list of blocks}", w->place);
    if (!system && !assistant && !text_is(role->text, "user"))
        return err_set(w->e, "%s: its role is \"%.*s\", expected user, assistant or system", w->place,
                       (int)(role->text.n < 40 ? role->text.n : 40), role->text.p);
    if (!system && content->kind == PY_LIST)
        return (assistant ? read_assistant : read_user)(w, content);
    rewrite_set(w, rewrite_message(w, system ? "system" : assistant ? "assistant" : "user"), "content", *content);
    return true;
}

/* ---- the other fields ---- */

/* Rewrites the tools that the client runs.  Others, which Anthropic's servers run, do not exist here, and the model never calls them. */
static bool read_tools(struct rewriter *w, const struct pyjson *list)
{
    bool ok = !list || list->kind == PY_LIST || err_set(w->e, "tools is not a list of tools");
    for (size_t i = 0; ok && list && i < list->n; i++) {
        const struct pyjson *tool = &list->items[i];
        w->place = arena_printf(w->mem, "tools[%zu]", i);
        if (!pyjson_given(tool, "type") || is_type(tool, "custom"))
            ok = rewrite_tool(w, pyjson_given(tool, "name"), pyjson_given(tool, "description"), "input_schema", pyjson_given(tool, "input_schema"));
        else
            rewrite_leave_out(w, tool);
    }
    return ok;
}

/* Rewrites tool_choice. */
static bool read_choice(struct rewriter *w, const struct pyjson *choice)
{
    if (!choice)
        return true;
    if (is_type(choice, "tool"))
        rewrite_choose(w, pyjson_given(choice, "name"));
    else if (is_type(choice, "auto") || is_type(choice, "none") || is_type(choice, "any"))
        rewrite_set(w, &w->to, "tool_choice", is_type(choice, "any") ? pyjson_string(text_of("required")) : *pyjson_given(choice, "type"));
    else
        return err_set(w->e, "tool_choice is of an unknown type, expected auto, any, tool or none");
    if (pyjson_truth(pyjson_given(choice, "disable_parallel_tool_use")))
        rewrite_set(w, &w->to, "parallel_tool_calls", (struct pyjson){.kind = PY_FALSE});
    return true;
}

/* A request without a word about thinking gets none, as the makers of the format define it.  With "adaptive" the effort decides how much. */
static bool read_thinking(struct rewriter *w, const struct pyjson *top)
{
    const struct pyjson *thinking = pyjson_given(top, "thinking"), *effort = pyjson_given(pyjson_given(top, "output_config"), "effort");
    if (thinking && thinking->kind != PY_DICT)
        return err_set(w->e, "thinking is not an object whose type is \"enabled\", \"adaptive\" or \"disabled\"");
    if (thinking && effort && !is_type(thinking, "disabled"))
        rewrite_set(w, &w->to, "reasoning_effort", *effort);
    if (!effort || !is_type(thinking, "adaptive"))
        rewrite_set(w, &w->to, "thinking", thinking ? *thinking : (struct pyjson){.kind = PY_FALSE});
    return true;
}

/* Cuts the blanks at the end of a content: a model continues words, and begins with the blank itself.  True if a text is left. */
static bool cut_end(struct pyjson *content)
{
    while (content->kind == PY_LIST && content->n) {
        if (content->items[content->n - 1].kind != PY_STR || cut_end(&content->items[content->n - 1]))
            return true;
        content->n--;
    }
    while (content->kind == PY_STR && content->text.n && strchr(" \t\r\n", content->text.p[content->text.n - 1]))
        content->text.n--;
    return content->kind == PY_STR && content->text.n;
}

/* Has an answer at the end continued, as the makers of the format define it.  One that ends in calls, has no text, or cannot become the call that the
 * client wants, is history. */
static void read_prefill(struct rewriter *w, const struct pyjson *choice)
{
    struct pyjson *last = w->messages.n > 1 ? &w->messages.items[w->messages.n - 1] : NULL;
    const struct pyjson *content = pyjson_given(last, "content");
    struct pyjson cut = content ? *content : (struct pyjson){0}, *first = cut.kind == PY_LIST && cut.n ? cut.items : &cut;
    if (!rewrite_is(last, "role", "assistant") || pyjson_given(last, "tool_calls") || is_type(choice, "any") || is_type(choice, "tool") ||
        !content || !cut_end(&cut))
        return;
    while (first->kind == PY_STR && first->text.n && strchr(" \t\r\n", *first->text.p))      /* the template has its own before an answer */
        first->text = (struct text){first->text.p + 1, first->text.n - 1};
    rewrite_set(w, last, "content", cut);
    rewrite_set(w, &w->to, "continue_final_message", (struct pyjson){.kind = PY_TRUE});
}

/* Rewrites the request as one for chat completions. */
static bool rewrite(struct rewriter *w, const struct pyjson *top)
{
    const struct pyjson *messages = pyjson_given(top, "messages"), *format = pyjson_given(pyjson_given(top, "output_config"), "format");
    bool ok = read_system(w, pyjson_given(top, "system"));
    if (!messages || messages->kind != PY_LIST)
        return err_set(w->e, "messages is missing, expected a list");
    for (size_t i = 0; ok && i < messages->n; i++) {
        w->place = arena_printf(w->mem, "message %zu", i + 1);
        ok = read_message(w, &messages->items[i]);
    }
    read_prefill(w, pyjson_given(top, "tool_choice"));
    if (is_type(format, "json_schema"))
        rewrite_schema(w, "output_config.format.schema", pyjson_given(format, "schema"), NULL);
    return ok && read_thinking(w, top) && read_tools(w, pyjson_given(top, "tools")) && read_choice(w, pyjson_given(top, "tool_choice"));
}

/* Reads a request; `counts`: only its tokens are to be counted, so that max_tokens may be missing. */
static bool read_request(struct question *q, struct text body, const struct options *o, bool counts, struct err *e)
{
    static const struct refused_field refused[] = {
#define REFUSED(names, ...) {names, 1, __VA_ARGS__},
#include "config/messages_fields.def"
    };
    static const struct field_type types[] = {
#define TYPE(names, types) {names, 1, types},
#include "config/messages_fields.def"
    };
    struct pyjson top;
    *q = (struct question){0};
    struct rewriter w = rewrite_begin(&q->mem, e);
    w.fields = fields;
    w.n_fields = sizeof fields / sizeof *fields;
    if (!question_object(&top, body, &q->mem, e) || !question_refuse(&top, refused, sizeof refused / sizeof *refused, 1, e))
        return false;
    const struct pyjson *most = pyjson_given(&top, "max_tokens");
    if (!counts && !most)
        return err_set(e, "max_tokens is missing, expected the most tokens of the answer");
    q->reads_only = most && most->kind == PY_INT && text_is(most->text, "0");
    if (q->reads_only)
        rewrite_set(&w, &w.to, "max_tokens", (struct pyjson){.kind = PY_INT, .text = text_of("1")});
    q->hides_reasoning = rewrite_is(pyjson_given(&top, "thinking"), "display", "omitted");
    const bool ok = rewrite(&w, &top) && rewrite_read(&w, &top, q, o) && question_types(&top, types, sizeof types / sizeof *types, 1, e);
    q->wants_progress = true;           /* its counts are in the first event */
    return ok;
}

static bool read_body(struct question *q, struct text body, const struct options *o, struct err *e)
{
    return read_request(q, body, o, false, e);
}

bool messages_count(struct responder *r, struct text body, const struct options *o, struct look *l, struct buf *out, struct err *e)
{
    struct question q;
    const int n = read_request(&q, body, o, true, e) ? question_count(&q, r, l, e) : -1;
    if (n >= 0)
        buf_addf(out, "{\"input_tokens\": %d}", n);
    question_free(&q);
    return n >= 0;
}

/* ---- the reply ---- */

enum block { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT, BLOCK_TOOL };

struct own {
    bool started;                       /* message_start was sent */
    enum block open;
    int n_blocks;                       /* those that have begun */
};

static void add_usage(const struct response *r, const struct stats *s, struct buf *out)
{
    buf_addf(out, "\"usage\": {\"input_tokens\": %d, \"cache_creation_input_tokens\": 0, \"cache_read_input_tokens\": %d, \"output_tokens\": %d}",
             s->n_prompt - s->n_cached, s->n_cached, response_n_tokens(r, s));
}

/* Appends the members that end a message: why it ended. */
static void add_stop(const struct response *r, enum response_finish finish, struct buf *out)
{
    const bool full = r->cut_by && !strcmp(r->cut_by, "context");
    buf_addf(out, "\"stop_reason\": \"%s\", \"stop_sequence\": ", finish == RESPONSE_LENGTH ? full ? "model_context_window_exceeded" : "max_tokens"
             : finish == RESPONSE_STOPPED ? "stop_sequence" : finish == RESPONSE_CALLS ? "tool_use" : "end_turn");
    if (finish == RESPONSE_STOPPED)
        pyjson_quote(text_of(r->stopper.found), out);
    else
        buf_adds(out, "null");
}

static void add_head(struct response *r)
{
    buf_addf(&r->out, "{\"id\": \"%s\", \"type\": \"message\", \"role\": \"assistant\", \"model\": ", r->id.data);
    pyjson_quote(r->question->model.n ? r->question->model : text_of(r->model), &r->out);       /* clients compare it with the name they gave */
}

/* Begins an event; end_event() ends it. */
static void begin_event(struct response *r, const char *name)
{
    buf_addf(&r->out, "event: %s\ndata: {\"type\": \"%s\"", name, name);
}

static void end_event(struct response *r) { buf_adds(&r->out, "}\n\n"); }

static void begin_delta(struct response *r, const char *type)
{
    const struct own *own = r->own;
    begin_event(r, "content_block_delta");
    buf_addf(&r->out, ", \"index\": %d, \"delta\": {\"type\": \"%s\", ", own->n_blocks - 1, type);
}

static void add_delta(struct response *r, const char *type, const char *key, struct text t)
{
    begin_delta(r, type);
    openai_string(&r->out, key, t);
    buf_addc(&r->out, '}');
    end_event(r);
}

/* Appends the signature, which carries reasoning that the client does not want to see. */
static void add_signature(const struct response *r, struct buf *out)
{
    const bool hides = r->question->hides_reasoning;
    rewrite_quote_kept((struct text){buf_str(&r->reasoning), hides ? r->reasoning.len : 0}, out);
}

/* Ends the open content block, if there is one. */
static void close_block(struct response *r)
{
    struct own *own = r->own;
    if (own->open == BLOCK_NONE)
        return;
    if (own->open == BLOCK_THINKING) {
        begin_delta(r, "signature_delta");
        buf_adds(&r->out, "\"signature\": ");
        add_signature(r, &r->out);
        buf_addc(&r->out, '}');
        end_event(r);
    }
    begin_event(r, "content_block_stop");
    buf_addf(&r->out, ", \"index\": %d", own->n_blocks - 1);
    end_event(r);
    own->open = BLOCK_NONE;
}

/* Begins a block, unless one of that kind is open.  inside: its members behind the type. */
static void open_block(struct response *r, enum block kind, const char *type, const char *inside)
{
    struct own *own = r->own;
    if (own->open == kind && kind != BLOCK_TOOL)
        return;
    close_block(r);
    begin_event(r, "content_block_start");
    buf_addf(&r->out, ", \"index\": %d, \"content_block\": {\"type\": \"%s\", %s}", own->n_blocks++, type, inside);
    end_event(r);
    own->open = kind;
}

/* Begins the message, as soon as the tokens of its prompt are counted. */
static void start(struct response *r, int n_prompt, int n_cached)
{
    struct own *own = r->own;
    if (own->started)
        return;
    own->started = true;
    begin_event(r, "message_start");
    buf_adds(&r->out, ", \"message\": ");
    add_head(r);
    buf_adds(&r->out, ", \"content\": [], \"stop_reason\": null, \"stop_sequence\": null, ");
    add_usage(r, &(struct stats){.n_prompt = n_prompt, .n_cached = n_cached}, &r->out);
    buf_addc(&r->out, '}');
    end_event(r);
}

static void progress(struct response *r, const struct news *it)
{
    start(r, (int)it->total, (int)it->cached);
}

static void token(struct response *r, const struct news *it)
{
    if (it->stats)
        start(r, it->stats->n_prompt, it->stats->n_cached);
}

/* Appends a ping; before the first event a comment, since clients want message_start first. */
static void wait(struct response *r)
{
    const struct own *own = r->own;
    if (!own->started) {
        openai_wait(r);
        return;
    }
    begin_event(r, "ping");
    end_event(r);
}

static void reasoning(struct response *r, struct text t)
{
    open_block(r, BLOCK_THINKING, "thinking", "\"thinking\": \"\", \"signature\": \"\"");
    if (!r->question->hides_reasoning)
        add_delta(r, "thinking_delta", "thinking", t);
}

static void text(struct response *r, struct text t)
{
    open_block(r, BLOCK_TEXT, "text", "\"text\": \"\"");
    add_delta(r, "text_delta", "text", t);
}

static void add_call_head(struct buf *out, const struct response_call *call)
{
    openai_string(out, "id", (struct text){call->id.data, call->id.len});
    buf_adds(out, ", ");
    openai_string(out, "name", (struct text){buf_str(&call->name), call->name.len});
}

static void call_piece(struct response *r, const struct response_call *call, struct text t)
{
    (void)call;
    add_delta(r, "input_json_delta", "partial_json", t);
}

static void call_begin(struct response *r, const struct response_call *call)
{
    struct buf inside = {0};
    add_call_head(&inside, call);
    buf_adds(&inside, ", \"input\": {}");
    open_block(r, BLOCK_TOOL, "tool_use", inside.data);
    call_piece(r, call, (struct text){call->arguments.data, call->arguments.len});
    buf_free(&inside);
}

static void call_end(struct response *r, const struct response_call *call)
{
    (void)call;
    close_block(r);
}

/* Writes the last events: stop reason and usage. */
static void end(struct response *r, enum response_finish finish, const struct news *last)
{
    start(r, last->stats->n_prompt, last->stats->n_cached);
    close_block(r);
    begin_event(r, "message_delta");
    buf_adds(&r->out, ", \"delta\": {");
    add_stop(r, finish, &r->out);
    buf_adds(&r->out, "}, ");
    add_usage(r, last->stats, &r->out);
    end_event(r);
    begin_event(r, "message_stop");
    end_event(r);
}

/* Writes the whole message.  A call that was cut off is left out. */
static void whole(struct response *r, enum response_finish finish, const struct stats *s)
{
    struct buf *out = &r->out;
    int n = 0;
    add_head(r);
    buf_adds(out, ", \"content\": [");
    if (r->reasoning.len) {
        buf_adds(out, "{\"type\": \"thinking\", ");
        openai_string(out, "thinking", r->question->hides_reasoning ? text_of("") : (struct text){r->reasoning.data, r->reasoning.len});
        buf_adds(out, ", \"signature\": ");
        add_signature(r, out);
        buf_addc(out, '}');
        n++;
    }
    if (r->content.len) {
        buf_adds(out, n++ ? ", {\"type\": \"text\", " : "{\"type\": \"text\", ");
        openai_string(out, "text", (struct text){r->content.data, r->content.len});
        buf_addc(out, '}');
    }
    for (int i = 0; i < r->calls.n; i++) {
        const struct response_call *call = &r->calls.all[i];
        if (call->truncated)            /* its input would have to be an object */
            continue;
        buf_adds(out, n++ ? ", {\"type\": \"tool_use\", " : "{\"type\": \"tool_use\", ");
        add_call_head(out, call);
        buf_addf(out, ", \"input\": %s}", call->arguments.data);
    }
    buf_adds(out, "], ");
    add_stop(r, finish, out);
    buf_adds(out, ", ");
    add_usage(r, s, out);
    buf_addc(out, '}');
}

/* ---- errors ---- */

/* Returns the API's word for an HTTP status. */
static const char *error_type(int status)
{
    static const struct { int status; const char *type; } types[] = {
        {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"}, {413, "request_too_large"}, {429, "rate_limit_error"},
        {503, "overloaded_error"}, {500, "api_error"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status)
            return types[i].type;
    return "invalid_request_error";
}

/* Claude Code knows a full context by these words, and makes room. */
static void error(const struct refusal *f, struct buf *out)
{
    int most = 0, n = 0;
    char words[100];
    const bool full = f->code && !strcmp(f->code, "context_length_exceeded") &&
                      sscanf(f->message, RESPONDER_TOO_LONG, &most, &n) == 2;
    snprintf(words, sizeof words, "prompt is too long: %d tokens > %d maximum", n, most);
    buf_addf(out, "{\"type\": \"error\", \"error\": {\"type\": \"%s\", ", error_type(f->status));
    openai_string(out, "message", text_of(full ? words : f->message));
    if (f->param && !strcmp(f->param, "thread"))        /* the helpers of the package send the request again without it */
        buf_adds(out, ", \"details\": {\"error_code\": \"thread_unsupported_request\", \"unsupported\": [\"thread\"]}");
    buf_adds(out, "}, ");
    if (f->request_id)
        openai_string(out, "request_id", text_of(f->request_id));
    else
        buf_adds(out, "\"request_id\": null");
    buf_addc(out, '}');
}

static void fail(struct response *r, const struct refusal *f, const struct news *last)
{
    (void)last;
    buf_adds(&r->out, "event: error\ndata: ");
    error(f, &r->out);
    buf_adds(&r->out, "\n\n");
}

const struct format format_messages = {
    .id = "msg_", .stream_type = "text/event-stream", .own_bytes = sizeof(struct own), .read = read_body, .progress = progress, .token = token,
    .wait = wait, .reasoning = reasoning, .text = text, .call_begin = call_begin, .call_piece = call_piece, .call_end = call_end, .end = end,
    .fail = fail, .whole = whole, .error = error,
};
