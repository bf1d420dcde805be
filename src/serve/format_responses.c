/* The format of /v1/responses, OpenAI's, without anything stored: what Codex and the openai packages send and read.
 *
 * A request is rewritten as one of chat completions (serve/rewrite.h).  An assistant's message there is made of up to three kinds of items here:
 * reasoning, a message, and calls.  A custom tool, which takes a free text, is a function with the one parameter `input`. */
#include <string.h>

#include "config/limits.h"
#include "serve/format.h"
#include "serve/response.h"
#include "serve/rewrite.h"
#include "text/pyjson.h"

/* ---- the request ---- */

static const struct rewrite_field fields[] = {
    {"model", "model"}, {"stream", "stream"}, {"temperature", "temperature"}, {"top_p", "top_p"}, {"max_output_tokens", "max_tokens"},
    {"parallel_tool_calls", "parallel_tool_calls"}, {"reasoning.effort", "reasoning_effort"}, {"text.format", "response_format"},
    {"top_logprobs", "top_logprobs"}, {"input", "messages", .by_hand = true},
};

/* The answer that the items read last belong to, as far as it is known. */
struct turn {
    struct pyjson *message;             /* NULL: the next item of an answer begins one */
    bool has_text;
};

static bool is_type(const struct pyjson *v, const char *type) { return rewrite_is(v, "type", type); }

/* Returns the message that an item of an answer goes into; `fresh`: one that has neither text nor calls yet.  A refusal of it names this item. */
static struct pyjson *answer_of(struct rewriter *w, struct turn *t, bool fresh)
{
    if (!t->message || (fresh && (t->has_text || pyjson_get(t->message, "tool_calls")))) {
        t->message = rewrite_message(w, "assistant");
        t->has_text = false;
    }
    w->places.all[w->places.n - 1] = w->place;
    return t->message;
}

/* Reads reasoning: its text, or what the client kept for us.  A summary is not the reasoning. */
static void read_reasoning(struct rewriter *w, struct turn *t, const struct pyjson *item)
{
    const struct pyjson *content = pyjson_given(item, "content");
    struct buf b = {0};
    for (size_t i = 0; content && content->kind == PY_LIST && i < content->n; i++) {
        const struct pyjson *text = pyjson_given(&content->items[i], "text");
        if (text && text->kind == PY_STR)
            buf_add(&b, text->text.p, text->text.n);
    }
    if (!b.len)
        rewrite_add_kept(pyjson_given(item, "encrypted_content"), &b);
    if (b.len)
        rewrite_set_buf(w, answer_of(w, t, true), "reasoning_content", &b);
}

/* Refuses pictures that are not in the item, in the words of this form. */
static bool has_pictures(const struct rewriter *w, const struct pyjson *content)
{
    for (size_t i = 0; content && content->kind == PY_LIST && i < content->n; i++) {
        const struct pyjson *part = &content->items[i], *url = pyjson_given(part, "image_url");
        if (is_type(part, "input_image") && (!url || (url->kind == PY_STR && !text_starts(url->text, "data:"))))
            return err_set(w->e, "%s: this server does not support image input of this source%s; expected {\"type\": \"input_image\", "
                           "\"image_url\": \"data:image/png;base64,...\"}", w->place, pyjson_given(part, "file_id") ? ": it keeps no files"
                           : url ? ": it fetches nothing from the network" : "");
    }
    return true;
}

/* Rewrites a message by its role; the text of an answer joins the calls beside it. */
static bool read_message(struct rewriter *w, struct turn *t, const struct pyjson *item)
{
    static const char *const roles[] = {"assistant", "user", "system", "developer"};
    for (int i = 0; i < 4; i++) {
        if (!rewrite_is(item, "role", roles[i]))
            continue;
        struct pyjson *m = i ? rewrite_message(w, i == 1 ? "user" : "system") : answer_of(w, t, true);
        rewrite_copy(w, m, "content", item, "content");
        t->message = i ? NULL : m;
        t->has_text = true;
        return has_pictures(w, pyjson_given(item, "content"));
    }
    return err_set(w->e, "%s has no role that is known, expected user, assistant, system or developer", w->place);
}

/* Reads a call if the item is one.  The text of a custom tool is the parameter `input`. */
static bool find_call(struct rewriter *w, struct turn *t, const struct pyjson *item, bool *ok)
{
    static const struct { const char *type, *name, *key; } calls[] = {
#define CALL(...) {__VA_ARGS__},
#include "config/responses_fields.def"
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (!is_type(item, calls[i].type))
            continue;
        const struct pyjson own = pyjson_string(text_of(calls[i].name ? calls[i].name : "")), *arguments = pyjson_given(item, calls[i].key);
        struct pyjson text = rewrite_object;
        const bool custom = is_type(item, "custom_tool_call");
        if (custom && arguments)
            rewrite_set(w, &text, "input", *arguments);
        *ok = rewrite_call(w, answer_of(w, t, false), pyjson_given(item, "call_id"), calls[i].name ? &own : pyjson_given(item, "name"),
                           custom ? &text : arguments);
        return true;
    }
    return false;
}

static bool read_output(struct rewriter *w, struct turn *t, const struct pyjson *item)
{
    struct pyjson *m = rewrite_message(w, "tool");
    rewrite_copy(w, m, "tool_call_id", item, "call_id");
    rewrite_copy(w, m, "content", item, "output");
    t->message = NULL;
    return has_pictures(w, pyjson_given(item, "output"));
}

/* Rewrites an item of the input: message, reasoning, call or output; some kinds are skipped. */
static bool read_item(struct rewriter *w, struct turn *t, const struct pyjson *item)
{
    static const char *const results[] = {
#define RESULT(types) types,
#include "config/responses_fields.def"
    }, *const skipped[] = {
#define SKIPPED(types, words) types,
#include "config/responses_fields.def"
    };
    const struct pyjson *type = pyjson_given(item, "type");
    const struct text name = type && type->kind == PY_STR ? type->text : text_of("");
    bool ok = true;
    if (!type || text_is(name, "message"))
        return read_message(w, t, item);
    if (find_call(w, t, item, &ok))
        return ok;
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
        if (name.n && text_listed(skipped[i], name))
            return true;
    if (text_is(name, "reasoning"))
        read_reasoning(w, t, item);
    else if (name.n && text_listed(results[0], name))
        return read_output(w, t, item);
    else
        return err_set(w->e, "%s is of the type \"%.*s\", expected message, reasoning, or a call or its output", w->place,
                       (int)(name.n < 40 ? name.n : 40), name.p);
    return true;
}

/* Rewrites instructions and input: a text, or a list of items. */
static bool read_input(struct rewriter *w, const struct pyjson *top)
{
    const struct pyjson *input = pyjson_given(top, "input"), *instructions = pyjson_given(top, "instructions");
    struct turn t = {0};
    bool ok = true;
    w->place = "instructions";
    if (instructions)
        rewrite_set(w, rewrite_message(w, "system"), "content", *instructions);
    w->place = "input";
    if (input && input->kind == PY_STR)
        rewrite_set(w, rewrite_message(w, "user"), "content", *input);
    else if (!input || input->kind != PY_LIST)
        return err_set(w->e, "input is missing, expected a text or a list of items");
    for (size_t i = 0; ok && input->kind == PY_LIST && i < input->n; i++) {
        w->place = arena_printf(w->mem, "input[%zu]", i);
        ok = read_item(w, &t, &input->items[i]);
    }
    return ok;
}

/* Adds a custom tool as a function.  A grammar that its text follows stands in the description: the model was not trained to be held to it. */
static bool add_custom(struct rewriter *w, const struct pyjson *tool)
{
    static const char parameters[] = "{\"type\": \"object\", \"properties\": {\"input\": {\"type\": \"string\"}}, \"required\": [\"input\"]}";
    const struct pyjson *about = pyjson_given(tool, "description"), *grammar = pyjson_given(pyjson_given(tool, "format"), "definition");
    struct pyjson schema, words;
    struct buf b = {0};
    if (about && about->kind == PY_STR)
        buf_add(&b, about->text.p, about->text.n);
    if (grammar && grammar->kind == PY_STR) {
        buf_adds(&b, "\nThe input follows this grammar:\n");
        buf_add(&b, grammar->text.p, grammar->text.n);
    }
    words = pyjson_string((struct text){arena_strndup(w->mem, buf_str(&b), b.len), b.len});
    buf_free(&b);
    return pyjson_parse(&schema, text_of(parameters), PYJSON_LOADS, w->mem, w->e) &&
           rewrite_tool(w, pyjson_given(tool, "name"), &words, "format", &schema);
}

/* Rewrites the tools: functions and custom ones; others are skipped. */
static bool read_tools(struct rewriter *w, const struct pyjson *list)
{
    bool ok = !list || list->kind == PY_LIST || err_set(w->e, "tools is not a list of tools");
    for (size_t i = 0; ok && list && i < list->n; i++) {
        const struct pyjson *tool = &list->items[i];
        w->place = arena_printf(w->mem, "tools[%zu]", i);
        if (is_type(tool, "function") || !pyjson_given(tool, "type"))
            ok = rewrite_tool(w, pyjson_given(tool, "name"), pyjson_given(tool, "description"), "parameters", pyjson_given(tool, "parameters"));
        else if (is_type(tool, "custom"))
            ok = add_custom(w, tool);
        else
            rewrite_leave_out(w, tool);
    }
    return ok;
}

/* Rewrites tool_choice.  Of tools that are allowed those of other servers are left out, as they are of the tools. */
static void read_choice(struct rewriter *w, const struct pyjson *choice)
{
    const struct pyjson *tools = pyjson_given(choice, "tools");
    struct pyjson allowed = rewrite_object, some = rewrite_list;
    if (!is_type(choice, "allowed_tools")) {
        if (choice && choice->kind == PY_DICT)
            rewrite_choose(w, pyjson_given(choice, "name"));
        else if (choice)
            rewrite_set(w, &w->to, "tool_choice", *choice);
        return;
    }
    for (size_t i = 0; tools && tools->kind == PY_LIST && i < tools->n; i++)
        if (is_type(&tools->items[i], "function") || is_type(&tools->items[i], "custom"))
            pyjson_add(&some, tools->items[i], w->mem);
    rewrite_copy(w, &allowed, "type", choice, "type");
    rewrite_copy(w, &allowed, "mode", choice, "mode");
    rewrite_set(w, &allowed, "tools", some);
    rewrite_set(w, &w->to, "tool_choice", allowed);
}

static bool includes(const struct pyjson *top, const char *word)
{
    const struct pyjson *list = pyjson_given(top, "include");
    bool found = false;
    for (size_t i = 0; list && list->kind == PY_LIST && i < list->n; i++)
        found |= list->items[i].kind == PY_STR && text_is(list->items[i].text, word);
    return found;
}

/* Rewrites the request as one for chat completions. */
static bool rewrite(struct rewriter *w, const struct pyjson *top)
{
    static const struct refused_field refused[] = {
#define REFUSED(names, ...) {names, 1, __VA_ARGS__},
#include "config/responses_fields.def"
    };
    const struct pyjson *format = pyjson_given(pyjson_given(top, "text"), "format");
    int n_alternatives = 0;
    if (!question_refuse(top, refused, sizeof refused / sizeof *refused, 1, w->e) ||
        !question_whole(top, "top_logprobs", 0, LIMIT_ALTERNATIVES, &n_alternatives, w->e))
        return false;
    if (n_alternatives || includes(top, "message.output_text.logprobs"))
        rewrite_set(w, &w->to, "logprobs", (struct pyjson){.kind = PY_TRUE});
    if (is_type(format, "json_schema"))
        rewrite_schema(w, "text.format.schema", pyjson_given(format, "schema"), pyjson_given(format, "strict"));
    read_choice(w, pyjson_given(top, "tool_choice"));
    return read_input(w, top) && read_tools(w, pyjson_given(top, "tools"));
}

/* Reads a request and keeps it, because the reply repeats parts of it. */
static bool read_request(struct question *q, struct text body, const struct options *o, struct err *e)
{
    static const struct field_type types[] = {
#define TYPE(names, types) {names, 1, types},
#include "config/responses_fields.def"
    };
    *q = (struct question){0};
    struct pyjson *top = arena_alloc(&q->mem, sizeof *top);
    struct rewriter w = rewrite_begin(&q->mem, e);
    w.fields = fields;
    w.n_fields = sizeof fields / sizeof *fields;
    if (!question_object(top, body, &q->mem, e) || !rewrite(&w, top))
        return false;
    q->client = top;
    q->keeps_reasoning = includes(top, "reasoning.encrypted_content");
    return rewrite_read(&w, top, q, o) && question_types(top, types, sizeof types / sizeof *types, 1, e);
}

bool responses_count(struct responder *r, struct text body, const struct options *o, struct look *l, struct buf *out, struct err *e)
{
    struct question q;
    const int n = read_request(&q, body, o, e) ? question_count(&q, r, l, e) : -1;
    if (n >= 0)
        buf_addf(out, "{\"object\": \"response.input_tokens\", \"input_tokens\": %d}", n);
    question_free(&q);
    return n >= 0;
}

/* ---- items ---- */

enum kind { ITEM_NONE, ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL, ITEM_CUSTOM };

struct own {
    enum kind open;
    int n_events, n_items;              /* sent; begun */
    char id[40];                        /* of the open item */
    struct buf text;                    /* of the open item, if it is reasoning or a message */
    struct buf tokens;                  /* those of the text with their probabilities, if the client wants them, with commas */
    struct buf items;                   /* those that are whole, with commas */
};

static struct text of(const struct buf *b) { return (struct text){buf_str(b), b->len}; }

/* True if the client has described this tool as a custom one, whose input is text. */
static bool is_custom(const struct response *r, const struct response_call *call)
{
    const struct pyjson *tools = pyjson_given(r->question->client, "tools");
    for (size_t i = 0; tools && i < tools->n; i++) {
        const struct pyjson *name = pyjson_given(&tools->items[i], "name");
        if (is_type(&tools->items[i], "custom") && name && name->kind == PY_STR && text_same(name->text, of(&call->name)))
            return true;
    }
    return false;
}

/* Returns the text of a custom call: its parameter `input`, or the only one, whatever the model named it. */
static struct buf input_of(const struct response_call *call)
{
    struct arena mem = {0};
    struct pyjson v;
    struct err e;
    struct buf b = {0};
    const bool parsed = pyjson_parse(&v, of(&call->arguments), PYJSON_LOADS, &mem, &e);
    const struct pyjson *input = !parsed ? NULL : v.n == 1 ? &v.items[0] : pyjson_given(&v, "input");
    if (input && input->kind == PY_STR)
        buf_add(&b, input->text.p, input->text.n);
    else
        buf_add(&b, call->arguments.data, call->arguments.len);
    arena_free(&mem);
    return b;
}

/* Appends the only part of reasoning or of a message.  tokens: those of the text, with commas. */
static void add_part(struct buf *out, enum kind kind, struct text t, const struct buf *tokens)
{
    buf_addf(out, "{\"type\": \"%s\", ", kind == ITEM_MESSAGE ? "output_text" : "reasoning_text");
    openai_string(out, "text", t);
    if (kind == ITEM_MESSAGE)
        buf_addf(out, ", \"annotations\": [], \"logprobs\": [%s]", buf_str(tokens));
    buf_addc(out, '}');
}

/* An item with its text so far; an empty one has no part yet. */
static void add_text_item(const struct response *r, struct buf *out, enum kind kind, const char *id, const struct buf *text, const char *status)
{
    const struct own *own = r->own;
    buf_addf(out, "{\"type\": \"%s\", \"id\": \"%s\", \"status\": \"%s\", %s\"content\": [", kind == ITEM_MESSAGE ? "message" : "reasoning", id,
             status, kind == ITEM_MESSAGE ? "\"role\": \"assistant\", " : "\"summary\": [], ");
    if (text->len)
        add_part(out, kind, of(text), &own->tokens);
    buf_addc(out, ']');
    if (kind == ITEM_REASONING && r->question->keeps_reasoning && text->len) {
        buf_adds(out, ", \"encrypted_content\": ");
        rewrite_quote_kept(of(text), out);
    }
    buf_addc(out, '}');
}

/* Appends a call as an item. */
static void add_call_item(struct buf *out, enum kind kind, const char *id, const struct response_call *call, struct text arguments,
                          const char *status)
{
    buf_addf(out, "{\"type\": \"%s\", \"id\": \"%s\", \"status\": \"%s\", ", kind == ITEM_CUSTOM ? "custom_tool_call" : "function_call", id, status);
    openai_string(out, "call_id", of(&call->id));
    buf_adds(out, ", ");
    openai_string(out, "name", of(&call->name));
    buf_adds(out, ", ");
    openai_string(out, kind == ITEM_CUSTOM ? "input" : "arguments", arguments);
    buf_addc(out, '}');
}

/* ---- the response ---- */

static const char *status_of(enum response_finish finish) { return finish == RESPONSE_LENGTH ? "incomplete" : "completed"; }

/* Returns why the reply is incomplete.  The format has no word for an interrupt, or for a call that the model broke off; the server's own words
 * are used for these. */
static const char *reason_of(const struct response *r)
{
    static const struct { const char *cut, *reason; } all[] = {
        {"limit", "{\"reason\": \"max_output_tokens\"}"}, {"context", "{\"reason\": \"max_output_tokens\"}"},
        {"interrupt", "{\"reason\": \"interrupt\"}"}, {"model", "{\"reason\": \"model\"}"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(r->cut_by, all[i].cut))
            return all[i].reason;
    return "null";
}

/* Appends what the response repeats of the request. */
static void add_returned(const struct pyjson *client, struct buf *out)
{
    static const struct { const char *name, *otherwise; } all[] = {
#define RETURNED(...) {__VA_ARGS__},
#include "config/responses_fields.def"
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct pyjson *v = pyjson_given(client, all[i].name);
        buf_addf(out, ", \"%s\": %s", all[i].name, v ? "" : all[i].otherwise);
        if (v)
            pyjson_dump(v, out);
    }
}

/* The response object.  s NULL: it has not ended.  why: of a failure. */
static void add_response(const struct response *r, struct buf *out, const char *status, const struct stats *s, const struct refusal *why)
{
    const struct own *own = r->own;
    buf_addf(out, "{\"id\": \"%s\", \"object\": \"response\", \"created_at\": %lld, \"status\": \"%s\", \"background\": false, ", r->id.data,
             (long long)r->created, status);
    openai_string(out, "model", r->question->model.n ? r->question->model : text_of(r->model));
    buf_addf(out, ", \"output\": [%s], \"error\": ", buf_str(&own->items));
    if (why) {
        buf_addf(out, "{\"code\": \"%s\", ", why->code ? why->code : why->status < 500 ? "invalid_prompt" : "server_error");
        openai_string(out, "message", text_of(why->message));
        buf_addc(out, '}');
    } else {
        buf_adds(out, "null");
    }
    buf_addf(out, ", \"incomplete_details\": %s", !strcmp(status, "incomplete") ? reason_of(r) : "null");
    add_returned(r->question->client, out);
    buf_adds(out, ", \"previous_response_id\": null, \"store\": false, \"usage\": ");
    if (s) {
        const int n = response_n_tokens(r, s);
        buf_addf(out, "{\"input_tokens\": %d, \"input_tokens_details\": {\"cached_tokens\": %d, \"cache_write_tokens\": 0}, \"output_tokens\": %d, "
                 "\"output_tokens_details\": {\"reasoning_tokens\": %d}, \"total_tokens\": %d}", s->n_prompt, s->n_cached, n, r->n_reasoning,
                 s->n_prompt + n);
    } else {
        buf_adds(out, "null");
    }
    buf_addc(out, '}');
}

/* Begins an event; end_event() ends it. */
static void begin_event(struct response *r, const char *name)
{
    struct own *own = r->own;
    buf_addf(&r->out, "event: %s\ndata: {\"type\": \"%s\", \"sequence_number\": %d", name, name, own->n_events++);
}

static void end_event(struct response *r) { buf_adds(&r->out, "}\n\n"); }

static void add_state(struct response *r, const char *event, const char *status, const struct stats *s, const struct refusal *why)
{
    begin_event(r, event);
    buf_adds(&r->out, ", \"response\": ");
    add_response(r, &r->out, status, s, why);
    end_event(r);
}

/* Begins an event of the open item.  parts: it is about a part of its content. */
static void begin_item_event(struct response *r, const char *name, bool parts)
{
    const struct own *own = r->own;
    begin_event(r, name);
    buf_addf(&r->out, ", \"item_id\": \"%s\", \"output_index\": %d", own->id, own->n_items - 1);
    buf_adds(&r->out, parts ? ", \"content_index\": 0" : "");
}

/* Begins or ends an item: the event has all of it. */
static void begin_whole_event(struct response *r, const char *name)
{
    const struct own *own = r->own;
    begin_event(r, name);
    buf_addf(&r->out, ", \"output_index\": %d, \"item\": ", own->n_items - 1);
}

static void keep_item(struct own *own, const struct buf *item)
{
    buf_adds(&own->items, own->items.len ? ", " : "");
    buf_add(&own->items, item->data, item->len);
}

/* Gives the next item an id. */
static void name_item(struct own *own, enum kind kind)
{
    static const char *const heads[] = {"", "rs_", "msg_", "fc_", "ctc_"};
    struct buf b = {0};
    buf_adds(&b, heads[kind]);
    buf_add_random(&b, 24);
    memcpy(own->id, buf_str(&b), b.len + 1);
    buf_free(&b);
    own->open = kind;
    own->n_items++;
}

/* Ends the open item, if it is reasoning or a message; calls end by themselves. */
static void close_text(struct response *r, const char *status)
{
    struct own *own = r->own;
    const enum kind kind = own->open;
    if (kind != ITEM_REASONING && kind != ITEM_MESSAGE)
        return;
    struct buf item = {0};
    begin_item_event(r, kind == ITEM_MESSAGE ? "response.output_text.done" : "response.reasoning_text.done", true);
    if (kind == ITEM_MESSAGE)
        buf_addf(&r->out, ", \"logprobs\": [%s]", buf_str(&own->tokens));
    buf_adds(&r->out, ", ");
    openai_string(&r->out, "text", of(&own->text));
    end_event(r);
    begin_item_event(r, "response.content_part.done", true);
    buf_adds(&r->out, ", \"part\": ");
    add_part(&r->out, kind, of(&own->text), &own->tokens);
    end_event(r);
    add_text_item(r, &item, kind, own->id, &own->text, status);
    begin_whole_event(r, "response.output_item.done");
    buf_add(&r->out, item.data, item.len);
    end_event(r);
    keep_item(own, &item);
    buf_free(&item);
    buf_reset(&own->text);
    buf_reset(&own->tokens);
    own->open = ITEM_NONE;
}

/* Begins a message or a reasoning item, unless one of this kind is open. */
static void open_text(struct response *r, enum kind kind)
{
    struct own *own = r->own;
    if (own->open == kind)
        return;
    close_text(r, "completed");
    name_item(own, kind);
    begin_whole_event(r, "response.output_item.added");
    add_text_item(r, &r->out, kind, own->id, &own->text, "in_progress");
    end_event(r);
    begin_item_event(r, "response.content_part.added", true);
    buf_adds(&r->out, ", \"part\": ");
    add_part(&r->out, kind, text_of(""), &own->tokens);
    end_event(r);
}

/* Appends the tokens of the next part of a text, and keeps them for the whole. */
static void add_tokens(struct response *r)
{
    struct own *own = r->own;
    struct buf b = {0};
    openai_tokens(r, r->tokens.n, &b);
    buf_addf(&r->out, ", \"logprobs\": [%s]", buf_str(&b));
    if (b.len)
        buf_addf(&own->tokens, "%s%s", own->tokens.len ? ", " : "", b.data);
    buf_free(&b);
}

/* Sends a piece of text or reasoning. */
static void add_delta(struct response *r, enum kind kind, struct text t)
{
    struct own *own = r->own;
    open_text(r, kind);
    begin_item_event(r, kind == ITEM_MESSAGE ? "response.output_text.delta" : "response.reasoning_text.delta", true);
    if (kind == ITEM_MESSAGE)
        add_tokens(r);
    buf_adds(&r->out, ", ");
    openai_string(&r->out, "delta", t);
    end_event(r);
    buf_add(&own->text, t.p, t.n);
}

static void begin(struct response *r)
{
    add_state(r, "response.created", "in_progress", NULL, NULL);
    add_state(r, "response.in_progress", "in_progress", NULL, NULL);
}

/* A client counts its patience in events, so that a comment would not do. */
static void wait(struct response *r) { add_state(r, "response.in_progress", "in_progress", NULL, NULL); }

static void reasoning(struct response *r, struct text t) { add_delta(r, ITEM_REASONING, t); }
static void text(struct response *r, struct text t) { add_delta(r, ITEM_MESSAGE, t); }

static void add_arguments_delta(struct response *r, struct text t)
{
    begin_item_event(r, "response.function_call_arguments.delta", false);
    buf_adds(&r->out, ", ");
    openai_string(&r->out, "delta", t);
    end_event(r);
}

/* Begins the item of a call. */
static void call_begin(struct response *r, const struct response_call *call)
{
    struct own *own = r->own;
    const enum kind kind = is_custom(r, call) ? ITEM_CUSTOM : ITEM_CALL;
    close_text(r, "completed");
    name_item(own, kind);
    begin_whole_event(r, "response.output_item.added");
    add_call_item(&r->out, kind, own->id, call, text_of(""), "in_progress");
    end_event(r);
    if (kind == ITEM_CALL)
        add_arguments_delta(r, of(&call->arguments));
}

/* The text of a custom call is sent when it is whole: it is not known before where the JSON around it ends. */
static void call_piece(struct response *r, const struct response_call *call, struct text t)
{
    const struct own *own = r->own;
    (void)call;
    if (own->open == ITEM_CALL)
        add_arguments_delta(r, t);
}

/* A call that broke off gets no end: clients run what has one. */
static void call_end(struct response *r, const struct response_call *call)
{
    struct own *own = r->own;
    const enum kind kind = own->open;
    struct buf input = {0}, item = {0};
    own->open = ITEM_NONE;
    if (call->truncated)
        return;
    if (kind == ITEM_CUSTOM) {
        input = input_of(call);
        begin_item_event(r, "response.custom_tool_call_input.delta", false);
        buf_adds(&r->out, ", ");
        openai_string(&r->out, "delta", of(&input));
        end_event(r);
    }
    const struct text whole = kind == ITEM_CUSTOM ? of(&input) : of(&call->arguments);
    begin_item_event(r, kind == ITEM_CUSTOM ? "response.custom_tool_call_input.done" : "response.function_call_arguments.done", false);
    buf_adds(&r->out, ", ");
    openai_string(&r->out, "name", of(&call->name));
    buf_adds(&r->out, ", ");
    openai_string(&r->out, kind == ITEM_CUSTOM ? "input" : "arguments", whole);
    end_event(r);
    add_call_item(&item, kind, own->id, call, whole, "completed");
    begin_whole_event(r, "response.output_item.done");
    buf_add(&r->out, item.data, item.len);
    end_event(r);
    keep_item(own, &item);
    buf_free(&item);
    buf_free(&input);
}

static void end(struct response *r, enum response_finish finish, const struct news *last)
{
    const char *status = status_of(finish);
    close_text(r, status);
    add_state(r, finish == RESPONSE_LENGTH ? "response.incomplete" : "response.completed", status, last->stats, NULL);
}

/* The open item gets no end: clients keep what has one. */
static void fail(struct response *r, const struct refusal *f, const struct news *last)
{
    (void)last;
    add_state(r, "response.failed", "failed", NULL, f);
}

/* Adds what response.c collected for a reply in one piece to the items. */
static void whole(struct response *r, enum response_finish finish, const struct stats *s)
{
    struct own *own = r->own;
    const struct { enum kind kind; const struct buf *text; } texts[] = {{ITEM_REASONING, &r->reasoning}, {ITEM_MESSAGE, &r->content}};
    struct buf item = {0};
    for (int i = 0; i < 2; i++) {
        if (!texts[i].text->len)
            continue;
        name_item(own, texts[i].kind);
        const bool last = texts[i].kind == ITEM_MESSAGE || (!r->content.len && !r->calls.n);
        if (texts[i].kind == ITEM_MESSAGE)
            openai_tokens(r, r->n_sent, &own->tokens);
        add_text_item(r, &item, texts[i].kind, own->id, texts[i].text, last && !r->calls.n ? status_of(finish) : "completed");
        keep_item(own, &item);
        buf_reset(&item);
    }
    for (int i = 0; i < r->calls.n; i++) {
        const struct response_call *call = &r->calls.all[i];
        const enum kind kind = is_custom(r, call) ? ITEM_CUSTOM : ITEM_CALL;
        if (call->truncated)
            continue;
        struct buf input = input_of(call);
        name_item(own, kind);
        add_call_item(&item, kind, own->id, call, kind == ITEM_CUSTOM ? of(&input) : of(&call->arguments), "completed");
        keep_item(own, &item);
        buf_reset(&item);
        buf_free(&input);
    }
    add_response(r, &r->out, status_of(finish), s, NULL);
    buf_free(&item);
}

static void free_own(struct response *r)
{
    struct own *own = r->own;
    buf_free(&own->text);
    buf_free(&own->tokens);
    buf_free(&own->items);
}

const struct format format_responses = {
    .id = "resp_", .stream_type = "text/event-stream", .own_bytes = sizeof(struct own), .read = read_request, .begin = begin, .reasoning = reasoning,
    .text = text, .call_begin = call_begin, .call_piece = call_piece, .call_end = call_end, .wait = wait, .end = end, .fail = fail,
    .whole = whole, .error = openai_error, .free = free_own,
};
