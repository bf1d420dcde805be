#include "remote/body.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/base64.h"
#include "base/memory.h"

static json_t *string_of(struct text t)
{
    return memory_got(json_stringn_nocheck(t.p ? t.p : "", t.n));
}

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new_nocheck(object, key, memory_got(value));
}

/* ---- messages ---- */

/* Returns the id of call i of message `at`.  Calls without one are of old sessions; theirs is made of their place. */
static json_t *call_id(const struct body *b, int at, int i)
{
    const struct message *m = &b->messages[at];
    if (i < m->n_calls && m->calls[i].id.n)
        return string_of(m->calls[i].id);
    return memory_got(json_sprintf("call_%d_%d", at, i));
}

/* Returns the calls of a message as a JSON list. */
static json_t *calls_of(const struct body *b, int at)
{
    const struct message *m = &b->messages[at];
    json_t *list = memory_got(json_array());
    for (int i = 0; i < m->n_calls; i++) {
        json_t *call = memory_got(json_object()), *function = memory_got(json_object());
        set(function, "name", string_of(m->calls[i].name));
        set(function, "arguments", string_of(m->calls[i].arguments.n ? m->calls[i].arguments : text_of("{}")));
        set(call, "id", call_id(b, at, i));
        set(call, "type", json_string("function"));
        set(call, "function", function);
        json_array_append_new(list, call);
    }
    return list;
}

/* Appends a part: {"type": TYPE, KEY: value}. */
static void add_part(json_t *parts, const char *type, const char *key, json_t *value)
{
    json_t *part = memory_got(json_object());
    set(part, "type", json_string(type));
    set(part, key, value);
    json_array_append_new(parts, part);
}

/* Returns the address of a picture: its bytes in base64. */
static json_t *data_address(struct text picture)
{
    struct buf address = {0};
    buf_addf(&address, "data:image/%s;base64,", text_starts(picture, "\xff\xd8") ? "jpeg" : "png");
    base64_add(&address, picture);
    json_t *image = memory_got(json_object());
    set(image, "url", string_of((struct text){address.data, address.len}));
    buf_free(&address);
    return image;
}

/* Returns the content: a text, or a list of parts if there are pictures. */
static json_t *content_of(const struct message *m)
{
    if (!m->n_media || !m->pictures)
        return string_of(m->content);
    json_t *parts = memory_got(json_array());
    size_t from = 0;
    for (int i = 0; i < m->n_media; i++) {
        if (m->media[i] > from)
            add_part(parts, "text", "text", string_of((struct text){m->content.p + from, m->media[i] - from}));
        add_part(parts, "image_url", "image_url", data_address(m->pictures[i].bytes));
        from = m->media[i] + strlen(MEDIA_IMAGE);
    }
    if (m->content.n > from)
        add_part(parts, "text", "text", string_of((struct text){m->content.p + from, m->content.n - from}));
    return parts;
}

/* Results without an id come in the order of the calls in the answer before them. */
struct asked {
    int message, n_results;
};

/* Returns a message as JSON; `asked` is the last message with calls, by which results get their ids. */
static json_t *message_of(const struct body *b, int at, struct asked *asked)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool", "user"};
    const struct message *m = &b->messages[at];
    json_t *o = memory_got(json_object());
    set(o, "role", json_string(roles[m->role]));
    set(o, "content", content_of(m));
    if (m->role == ROLE_ASSISTANT && m->has_reasoning && m->reasoning.n && b->reasoning_name)
        set(o, b->reasoning_name, string_of(m->reasoning));
    if (m->n_calls)
        set(o, "tool_calls", calls_of(b, at));
    if (m->role == ROLE_TOOL) {
        json_t *by_place = call_id(b, asked->message, asked->n_results++);
        set(o, "tool_call_id", m->call_id.n ? string_of(m->call_id) : json_incref(by_place));
        json_decref(by_place);
    } else {
        *asked = (struct asked){.message = at};
    }
    return o;
}

static json_t *messages_of(const struct body *b)
{
    json_t *list = memory_got(json_array());
    struct asked asked = {0};
    for (int i = 0; i < b->n_messages; i++)
        json_array_append_new(list, message_of(b, i, &asked));
    return list;
}

/* Returns the tools as a JSON list.  NULL with the tool that is no object. */
static json_t *tools_of(const struct body *b, struct err *e)
{
    json_t *list = memory_got(json_array());
    for (int i = 0; i < b->n_tools; i++) {
        json_t *tool = json_loadb(b->tools[i].p, b->tools[i].n, JSON_ALLOW_NUL, NULL);
        if (!json_is_object(tool)) {
            err_set(e, "tool %d is not a JSON object: %.*s", i + 1, (int)(b->tools[i].n < 80 ? b->tools[i].n : 80), b->tools[i].p);
            json_decref(tool);
            json_decref(list);
            return NULL;
        }
        if (!json_object_get(tool, "function")) {
            json_t *whole = memory_got(json_object());
            set(whole, "type", json_string("function"));
            set(whole, "function", tool);
            tool = whole;
        }
        json_array_append_new(list, tool);
    }
    return list;
}

/* ---- sampling ---- */

/* True if top_p leaves tokens out. */
static bool is_cut(float top_p)
{
    return top_p > 0 && top_p < 1;
}

/* Returns a float with 7 digits; for a q35chat with 9, which give the same float again. */
static json_t *real_of(const struct body *b, float x)
{
    char digits[24];
    snprintf(digits, sizeof digits, b->dialect->own ? "%.9g" : "%.7g", (double)x);
    return json_real(strtod(digits, NULL));
}

/* Sets the sampling fields that the dialect has; some servers need a value even where a number is off. */
static void set_sampling(json_t *o, const struct body *b)
{
    const struct dialect *d = b->dialect;
    const struct sampling *s = b->sampling;
    set(o, "temperature", real_of(b, s->temperature));
    if (s->temperature > 0 || d->own)
        set(o, "seed", json_integer((json_int_t)(s->seed & INT64_MAX)));
    if (d->says_off || is_cut(s->top_p))
        set(o, "top_p", real_of(b, is_cut(s->top_p) ? s->top_p : 1));
    if (d->extended && (d->says_off || s->top_k > 0))
        set(o, "top_k", json_integer(s->top_k > 0 ? s->top_k : 0));
    if (d->extended && (d->says_off || s->min_p > 0))
        set(o, "min_p", real_of(b, s->min_p));
    if (s->presence_penalty != 0 || d->own)
        set(o, "presence_penalty", real_of(b, s->presence_penalty));
    if (d->repetition && (d->says_off || (s->repetition_penalty > 0 && s->repetition_penalty != 1)))
        set(o, d->repetition, real_of(b, s->repetition_penalty > 0 ? s->repetition_penalty : 1));
    if (s->max_tokens > 0 || d->own)
        set(o, d->max_tokens, json_integer(s->max_tokens > 0 ? s->max_tokens : -1));
    if (d->own)                         /* stop strings are found here */
        set(o, "stop", json_array());
}

/* Returns the length of TOKEN in "TOKEN=X". */
static size_t token_of(const char *item)
{
    const char *last = strrchr(item, '=');
    return last ? (size_t)(last - item) : 0;
}

bool body_check_bias(const struct dialect *d, const char *item, struct err *e)
{
    const size_t n = token_of(item);
    return d->own || strspn(item, "0123456789") == n ||
           err_set(e, "this server takes --logit-bias by the token's id alone, not '%.*s'", (int)n, item);
}

/* {"TOKEN": X}; without infinity: -100 bans a token everywhere. */
static bool set_bias(json_t *o, const struct body *b, struct err *e)
{
    const struct sampling *s = b->sampling;
    json_t *all = memory_got(json_object());
    bool ok = true;
    for (int i = 0; i < s->n_bias_words && ok; i++) {
        const size_t n = token_of(s->bias_words[i]);
        const double value = s->bias_words[i][n] ? strtod(s->bias_words[i] + n + 1, NULL) : 0, most = b->dialect->own ? HUGE_VALF : 100;
        ok = body_check_bias(b->dialect, s->bias_words[i], e);
        json_object_setn_new_nocheck(all, s->bias_words[i], n, memory_got(json_real(value < -100 ? -100 : value > most ? most : value)));
    }
    if (s->n_bias_words || b->dialect->own)
        set(o, "logit_bias", json_incref(all));
    json_decref(all);
    return ok;
}

/* Sets how the server answers: usage, thinking, progress, continuing the last message. */
static void set_manner(json_t *o, const struct body *b)
{
    set(o, "stream_options", json_pack("{s:b}", "include_usage", 1));
    if (b->dialect->thinking == THINKING_TEMPLATE)
        set(o, "chat_template_kwargs", json_pack("{s:b}", "enable_thinking", b->thinking));
    else if (b->dialect->thinking == THINKING_EFFORT && !b->thinking)
        set(o, "reasoning_effort", json_string("none"));
    if (b->dialect->own)
        set(o, "thinking_budget", json_integer(b->think_budget));
    if (b->dialect->progress)
        set(o, "return_progress", json_true());
    if (b->continues) {
        set(o, "add_generation_prompt", json_false());
        set(o, "continue_final_message", json_true());
    }
}

/* ---- the form of the answer ---- */

bool body_takes_form(const struct dialect *d, enum form_kind kind)
{
    return (kind == FORM_PATTERN ? d->pattern : kind == FORM_CHOICES ? d->choices : kind == FORM_CALLS ? NULL : d->schema) != NULL;
}

/* Returns {"type": "json_schema", "json_schema": {...}}, or {"type": "json_object", "schema": {...}}; any object without a schema. */
static json_t *format_of(const struct form *f, const char *type, json_t *schema)
{
    json_t *format = memory_got(json_object()), *inner = format;
    const bool named = f->kind == FORM_SCHEMA && !strcmp(type, "json_schema");
    set(format, "type", json_string(named ? type : "json_object"));
    if (named) {
        inner = memory_got(json_pack("{s:s, s:b}", "name", "answer", "strict", !f->loose));
        set(format, "json_schema", inner);
    }
    if (f->kind == FORM_SCHEMA)
        set(inner, "schema", json_incref(schema));
    return format;
}

/* Appends the text with a backslash before each of these characters. */
static void add_escaped(struct buf *out, struct text t, const char *special)
{
    for (size_t i = 0; i < t.n; i++) {
        if (t.p[i] && strchr(special, t.p[i]))
            buf_addc(out, '\\');
        buf_addc(out, t.p[i]);
    }
}

/* Returns the choices as a list, a regular expression or a grammar, whichever the field takes. */
static json_t *choices_for(const struct form *f, const char *field)
{
    const bool regex = !strcmp(field, "regex"), grammar = !strcmp(field, "grammar");
    struct buf all = {0};
    json_t *list = memory_got(json_array());
    buf_adds(&all, grammar ? "root ::= " : "(");
    for (int i = 0; i < f->n_choices; i++) {
        buf_adds(&all, !i ? "" : grammar ? " | " : "|");
        buf_adds(&all, grammar ? "\"" : "");
        add_escaped(&all, f->choices[i], grammar ? "\"\\" : "\\^$.|?*+()[]{}");
        buf_adds(&all, grammar ? "\"" : "");
        json_array_append_new(list, string_of(f->choices[i]));
    }
    buf_adds(&all, grammar ? "" : ")");
    json_t *v = regex || grammar ? string_of((struct text){all.data, all.len}) : json_incref(list);
    json_decref(list);
    buf_free(&all);
    return v;
}

/* Sets "FIELD", or "MEMBER" of an object "FIELD". */
static void set_member(json_t *o, const char *path, json_t *value)
{
    const char *dot = strchr(path, '.');
    struct buf field = {0};
    buf_add(&field, path, dot ? (size_t)(dot - path) : strlen(path));
    if (dot) {
        json_t *inner = memory_got(json_object());
        set(inner, dot + 1, value);
        value = inner;
    }
    set(o, field.data, value);
    buf_free(&field);
}

/* Sets the form of the answer, in the field that the dialect has for it.  False if the schema is not JSON. */
static bool set_form(json_t *o, const struct body *b, struct err *e)
{
    const struct form *f = b->form;
    const struct dialect *d = b->dialect;
    if (!f || f->kind == FORM_ANY || !body_takes_form(d, f->kind))
        return true;
    json_t *schema = f->kind == FORM_SCHEMA ? json_loadb(f->text.p, f->text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    if (f->kind == FORM_SCHEMA && !schema)
        return err_set(e, "the schema is not JSON");
    if (f->kind == FORM_JSON || f->kind == FORM_SCHEMA)
        set(o, "response_format", format_of(f, d->schema, schema));
    else if (f->kind == FORM_PATTERN)
        set_member(o, d->pattern, string_of(f->text));
    else
        set_member(o, d->choices, choices_for(f, d->choices));
    if (d->own)
        set(o, "schema_prompt", json_false());          /* the messages have the words already, if they shall */
    json_decref(schema);
    return true;
}

static void write_json(const json_t *o, struct buf *out)
{
    enum { DIGITS = 15 };               /* of a number in a schema, as far as a double has them */
    char *text = memory_got(json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(DIGITS)));
    buf_adds(out, text);
    free(text);
}

bool body_write(const struct body *b, struct buf *out, struct err *e)
{
    json_t *tools = tools_of(b, e), *o = memory_got(json_object());
    bool ok = tools && set_bias(o, b, e) && set_form(o, b, e);
    if (ok) {
        set(o, "model", json_string(b->model));
        set(o, "stream", json_true());
        set_sampling(o, b);
        set_manner(o, b);
        if (b->n_tools)
            json_object_set_nocheck(o, "tools", tools);
        set(o, "messages", messages_of(b));
        write_json(o, out);
    }
    json_decref(tools);
    json_decref(o);
    return ok;
}

/* ---- fields that a server refuses ---- */

static bool is_needed(const char *name)
{
    static const char *const needed[] = {"model", "stream", "tools", "messages"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!strcmp(name, needed[i]))
            return true;
    return false;
}

bool body_drop(struct buf *json, const char *name)
{
    json_t *o = json_loadb(buf_str(json), json->len, JSON_ALLOW_NUL, NULL);
    bool there = !json_object_del(o, name);
    if (there) {
        buf_reset(json);
        write_json(o, json);
    }
    json_decref(o);
    return there;
}

bool body_drop_refused(struct buf *json, const char *refusal, struct buf *name)
{
    json_t *o = json_loadb(buf_str(json), json->len, JSON_ALLOW_NUL, NULL), *value;
    const char *key, *found = NULL;
    json_object_foreach(o, key, value)
        if (!found && !is_needed(key) && strstr(refusal, key))
            found = key;
    if (found)
        buf_adds(name, found);
    json_decref(o);
    return found && body_drop(json, buf_str(name));
}
