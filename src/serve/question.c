#include "serve/question.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "option/flags.h"
#include "option/preset.h"
#include "config/limits.h"
#include "guide/form.h"
#include "serve/history.h"
#include "text/pyjson.h"

enum { NOT_GIVEN = INT_MIN };           /* a whole number that the body does not have, unlike 0 and -1: no limit */

static bool is_text(const struct pyjson *v, const char *s)
{
    return v && v->kind == PY_STR && text_is(v->text, s);
}

/* Reads a number from min to max; *to stays if the field is missing. */
static bool number(const struct pyjson *top, const char *key, double min, double max, double *to, struct err *e)
{
    const struct pyjson *v = pyjson_given(top, key);
    if (!v)
        return true;
    char digits[64];
    const bool is_number = (v->kind == PY_INT || v->kind == PY_FLOAT) && v->text.n < sizeof digits;
    snprintf(digits, sizeof digits, "%.*s", is_number ? (int)v->text.n : 0, is_number ? v->text.p : "");
    double x = strtod(digits, NULL);
    if (!is_number || !(x >= min && x <= max))
        return err_set(e, "%s is not a number from %.10g to %.10g", key, min, max);
    *to = x;
    return true;
}

static bool real(const struct pyjson *top, const char *key, double min, double max, float *to, struct err *e)
{
    double x = (double)*to;
    bool ok = number(top, key, min, max, &x, e);
    *to = (float)x;
    return ok;
}

bool question_whole(const struct pyjson *top, const char *key, int min, int max, int *to, struct err *e)
{
    double x = *to;
    bool ok = number(top, key, min, max, &x, e);
    *to = (int)x;
    return ok && (x == *to || err_set(e, "%s is not a whole number", key));
}

bool question_flag(const struct pyjson *top, const char *key, bool *to, struct err *e)
{
    const struct pyjson *v = pyjson_given(top, key);
    if (v && v->kind != PY_TRUE && v->kind != PY_FALSE)
        return err_set(e, "%s is neither true nor false", key);
    *to = v ? v->kind == PY_TRUE : *to;
    return true;
}

const struct pyjson *question_at(const struct pyjson *v, const char *path)
{
    while (v && *path) {
        char name[64];
        const int n = (int)strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", n, path);
        v = pyjson_given(v, name);
        path += n + (path[n] == '.');
    }
    return v;
}

/* ---- fields of the wrong type ---- */

static bool is_list_of(const struct pyjson *v, enum py_kind kind)
{
    bool ok = v->kind == PY_LIST;
    for (size_t i = 0; ok && i < v->n; i++)
        ok = v->items[i].kind == kind;
    return ok;
}

static bool is_of_type(const struct pyjson *v, struct text type)
{
    return text_is(type, "text") ? v->kind == PY_STR : text_is(type, "number") ? v->kind == PY_INT || v->kind == PY_FLOAT
         : text_is(type, "bool") ? v->kind == PY_TRUE || v->kind == PY_FALSE : text_is(type, "object") ? v->kind == PY_DICT
         : text_is(type, "texts") ? is_list_of(v, PY_STR) : text_is(type, "objects") ? is_list_of(v, PY_DICT) : v->kind == PY_LIST;
}

/* Checks that the value is of one of the types. */
static bool check_type(const char *name, const struct pyjson *v, const char *types, struct err *e)
{
    static const struct { const char *type, *words; } all[] = {
        {"text", "a text"}, {"number", "a number"}, {"bool", "true or false"}, {"object", "an object"}, {"list", "a list"},
        {"texts", "a list of texts"}, {"objects", "a list of objects"},
    };
    char words[120] = "";
    for (const char *p = types; *p; p += strspn(p, " ")) {
        const struct text type = {p, strcspn(p, " ")};
        size_t i = 0;
        if (is_of_type(v, type))
            return true;
        while (!text_is(type, all[i].type))
            i++;
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", *words ? " or " : "", all[i].words);
        p += type.n;
    }
    return err_set(e, "%s is not %s", name, words);
}

bool question_types(const struct pyjson *top, const struct field_type *rows, size_t n, int where, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        for (const char *p = rows[i].names; rows[i].where & where && *p; p += strspn(p, " ")) {
            char name[64];
            const int length = (int)strcspn(p, " ");
            snprintf(name, sizeof name, "%.*s", length, p);
            p += length;
            const struct pyjson *v = question_at(top, name);
            if (v && !check_type(name, v, rows[i].types, e))
                return false;
        }
    return true;
}

/* ---- fields that are refused ---- */

enum { CHAT = 1, PLAIN = 2, BOTH = CHAT | PLAIN };

/* Returns whether the value changes nothing: it equals the JSON text `wanted`, or, if that is empty, it is false or empty. */
static bool is_harmless(const struct pyjson *v, const char *wanted)
{
    struct buf json = {0};
    if (!*wanted)
        return !pyjson_truth(v);
    pyjson_dump(v, &json);
    const bool number = v->kind == PY_INT || v->kind == PY_FLOAT;
    const bool same = number ? strtod(json.data, NULL) == strtod(wanted, NULL) : !strcmp(json.data, wanted);
    buf_free(&json);
    return same;
}

bool question_refuse(const struct pyjson *top, const struct refused_field *refused, size_t n_refused, int where, struct err *e)
{
    for (size_t i = 0; i < n_refused; i++)
        for (const char *p = refused[i].names; *p; p += strspn(p, " ")) {
            char name[64];
            const int n = (int)strcspn(p, " ");
            snprintf(name, sizeof name, "%.*s", n, p);
            p += n;
            const struct pyjson *v = question_at(top, name);
            const char *value = refused[i].value;
            if (v && refused[i].where & where && !is_harmless(v, value))
                return err_set(e, "%s %s%s: %s", name, *value ? "must be " : "is not supported", value, refused[i].words);
        }
    return true;
}

const char *question_param(const char *message, const char *code, char name[QUESTION_PARAM])
{
    static const char *const all[] = {
#define DONE(names, ...) names,
#define REFUSED(names, ...) names,
#include "config/request_fields.def"
#define DONE(names, ...) names,
#define REFUSED(names, ...) names,
#include "config/messages_fields.def"
#define DONE(names, ...) names,
#define REFUSED(names, ...) names,
#include "config/responses_fields.def"
#define DONE(names, ...) names,
#define REFUSED(names, ...) names,
#include "config/ollama_fields.def"
    };
    const size_t n = strcspn(message, " :"), n_top = strcspn(message, " :.[");
    if (code && !strcmp(code, "model_not_found"))
        return "model";
    if (!strncmp(message, "message ", 8) || !strncmp(message, "picture ", 8))   /* by its number (serve/history.c) */
        return "messages";
    for (size_t i = 0; n < QUESTION_PARAM && i < sizeof all / sizeof *all; i++)
        if (n_top && text_listed(all[i], (struct text){message, n_top})) {
            snprintf(name, QUESTION_PARAM, "%.*s", (int)n, message);
            return name;
        }
    return NULL;
}

/* Checks that the value of the key is an object, or absent. */
static bool is_object(const struct pyjson *top, const char *key, struct err *e)
{
    const struct pyjson *v = pyjson_given(top, key);
    return !v || v->kind == PY_DICT || err_set(e, "%s is not an object", key);
}

/* ---- the form of the answer ---- */

static bool set_form(struct question *q, const char *key, enum form_kind kind, struct text text, struct err *e)
{
    struct form *f = &q->request.form;
    if (f->kind != FORM_ANY)
        return err_set(e, "%s is given beside another field that says what the answer must be", key);
    *f = (struct form){.kind = kind, .text = text, .field = key};
    return true;
}

/* A schema: an object, true or false, or the same as a text in JSON. */
static bool set_schema(struct question *q, const char *key, const struct pyjson *v, const struct pyjson *strict, struct err *e)
{
    struct buf text = {0};
    if (!v || (v->kind != PY_DICT && v->kind != PY_TRUE && v->kind != PY_FALSE && v->kind != PY_STR))
        return err_set(e, "%s is %s, expected a JSON schema", key, v ? "neither an object nor a text" : "missing");
    if (v->kind == PY_STR)
        buf_add(&text, v->text.p, v->text.n);
    else
        pyjson_dump(v, &text);
    const struct text copy = {arena_strndup(&q->mem, buf_str(&text), text.len), text.len};
    buf_free(&text);
    if (!set_form(q, key, FORM_SCHEMA, copy, e))
        return false;
    q->request.form.loose = strict && strict->kind == PY_FALSE;
    return true;
}

static bool set_strict(struct question *q, const char *key, const struct pyjson *v, struct err *e) { return set_schema(q, key, v, NULL, e); }

/* Sets the texts of which the answer must be one. */
static bool set_choices(struct question *q, const char *key, const struct pyjson *v, struct err *e)
{
    enum { MOST = 10000 };
    if (v->kind != PY_LIST || !v->n || v->n > MOST)
        return err_set(e, "%s is not a list of 1 to %d texts", key, (int)MOST);
    struct text *list = arena_array(&q->mem, v->n, sizeof *list);
    for (size_t i = 0; i < v->n; i++) {
        if (v->items[i].kind != PY_STR)
            return err_set(e, "%s is not a list of 1 to %d texts", key, (int)MOST);
        list[i] = v->items[i].text;
        if (!list[i].n)
            return err_set(e, "%s has an empty text, which no answer can be told from", key);
    }
    if (!set_form(q, key, FORM_CHOICES, (struct text){0}, e))
        return false;
    q->request.form.choices = list;
    q->request.form.n_choices = (int)v->n;
    return true;
}

static bool set_pattern(struct question *q, const char *key, const struct pyjson *v, struct err *e)
{
    if (v->kind != PY_STR)
        return err_set(e, "%s is not a text", key);
    return v->text.n ? set_form(q, key, FORM_PATTERN, v->text, e) : err_set(e, "%s is empty: only an empty answer would match", key);
}

/* Reads response_format as OpenAI has it. */
static bool read_format(struct question *q, const struct pyjson *format, struct err *e)
{
    const struct pyjson *type = pyjson_given(format, "type"), *inner = pyjson_given(format, "json_schema");
    if (is_text(type, "text"))
        return true;
    if (is_text(type, "json_object") && !pyjson_given(format, "schema"))
        return set_form(q, "response_format", FORM_JSON, (struct text){0}, e);
    if (is_text(type, "json_object") || is_text(type, "json_schema"))
        return set_schema(q, inner || !pyjson_given(format, "schema") ? "response_format.json_schema.schema" : "response_format.schema",
                          pyjson_given(inner ? inner : format, "schema"), pyjson_given(inner, "strict"), e);
    return err_set(e, "response_format.type is not \"text\", \"json_object\" or \"json_schema\"");
}

/* Reads the fields that say what the answer must be: response_format, and those of vLLM, whose clients word the prompt themselves. */
static bool read_form(struct question *q, const struct pyjson *top, const struct options *o, struct err *e)
{
    static const struct { const char *key; bool (*set)(struct question *, const char *, const struct pyjson *, struct err *); } rows[] = {
        {"guided_json", set_strict}, {"structured_outputs.json", set_strict}, {"guided_regex", set_pattern}, {"guided_choice", set_choices},
        {"structured_outputs.regex", set_pattern}, {"structured_outputs.choice", set_choices},
    };
    const struct pyjson *format = pyjson_given(top, "response_format"), *outputs = pyjson_given(top, "structured_outputs");
    if (format && (format->kind != PY_DICT || !read_format(q, format, e)))
        return format->kind == PY_DICT ? false : err_set(e, "response_format is not an object");
    if (outputs && outputs->kind != PY_DICT)
        return err_set(e, "structured_outputs is not an object");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct pyjson *v = question_at(top, rows[i].key);
        if (v && !rows[i].set(q, rows[i].key, v, e))
            return false;
    }
    q->words = format && options_on(o, OPT_schema_prompt);
    return question_flag(top, "schema_prompt", &q->words, e);
}

/* ---- the conversation ---- */

/* Returns the name of a function, written as in a choice or flat. */
static const struct pyjson *name_of(const struct pyjson *v)
{
    const struct pyjson *inner = pyjson_given(v, "function"), *custom = pyjson_given(v, "custom");
    const struct pyjson *name = pyjson_given(inner ? inner : custom ? custom : v, "name");
    return name && name->kind == PY_STR ? name : NULL;
}

/* True if the request has a tool of this name. */
static bool has_tool(const struct request *r, const struct pyjson *name, struct arena *mem)
{
    struct pyjson tool;
    struct err why;
    for (int i = 0; i < r->n_tools; i++) {
        const struct pyjson *known = pyjson_parse(&tool, r->tools[i], PYJSON_LOADS, mem, &why) ? name_of(&tool) : NULL;
        if (known && text_same(known->text, name->text))
            return true;
    }
    return false;
}

/* Reads the functions that may be called, while all stay in the prompt: what is computed of it serves other choices, too. */
static bool read_allowed(struct question *q, const struct pyjson *allowed, struct err *e)
{
    struct request *r = &q->request;
    const struct pyjson *mode = pyjson_given(allowed, "mode"), *tools = pyjson_given(allowed, "tools");
    if ((mode && !is_text(mode, "auto") && !is_text(mode, "required")) || !tools || tools->kind != PY_LIST || !tools->n)
        return err_set(e, "tool_choice.allowed_tools is not {\"mode\": \"auto\" or \"required\", \"tools\": a list of tools with names}");
    struct text *names = arena_array(&q->mem, tools->n, sizeof *names);
    for (size_t i = 0; i < tools->n; i++) {
        const struct pyjson *name = name_of(&tools->items[i]);
        if (!name || !has_tool(r, name, &q->mem))
            return err_set(e, "tool_choice.allowed_tools has a tool that is not among tools: %.*s", name ? (int)name->text.n : 0,
                           name ? name->text.p : "");
        names[i] = name->text;
    }
    r->allowed = names;
    r->n_allowed = (int)tools->n;
    r->free_calls = false;
    if (is_text(mode, "required"))
        r->form = (struct form){.kind = FORM_CALLS};
    return true;
}

/* Reads tool_choice: "auto", "none", "required", the functions that may be called, or the one that must be. */
static bool read_choice(struct question *q, const struct pyjson *top, struct err *e)
{
    struct request *r = &q->request;
    const struct pyjson *choice = pyjson_given(top, "tool_choice"), *name = name_of(choice);
    if (is_text(pyjson_given(choice, "type"), "allowed_tools"))
        return read_allowed(q, pyjson_given(choice, "allowed_tools") ? pyjson_given(choice, "allowed_tools") : choice, e);
    const bool one = name != NULL;
    if (choice && !one && !is_text(choice, "auto") && !is_text(choice, "none") && !is_text(choice, "required"))
        return err_set(e, "tool_choice is not \"auto\", \"none\", \"required\" or the name of a function");
    if (is_text(choice, "none"))
        r->n_tools = 0;
    if (!one && !is_text(choice, "required"))
        return true;
    if (!r->n_tools)
        return err_set(e, "tool_choice wants a call, but there are no tools");
    if (one && !has_tool(r, name, &q->mem))
        return err_set(e, "tool_choice is the name of a function that is not among tools: %.*s", (int)name->text.n, name->text.p);
    r->form = (struct form){.kind = FORM_CALLS, .text = one ? name->text : (struct text){0}};  /* whatever the form of other answers */
    q->one_call |= one;
    return true;
}

/* Reads messages, tools and the choice between these. */
static bool read_conversation(struct question *q, const struct pyjson *top, struct err *e)
{
    struct request *r = &q->request;
    bool parallel = true;
    if (!history_read(r, top, &q->mem, e) || !question_flag(top, "parallel_tool_calls", &parallel, e))
        return false;
    q->one_call = !parallel;
    if (!read_choice(q, top, e))
        return false;
    r->form.one_call = q->one_call;
    const struct message *last = &r->messages[r->n_messages - 1];
    r->follows = last->role == ROLE_TOOL || last->aside;        /* the responder compares the prompts */
    return true;
}

/* Reads whether the last message is an answer that is to be continued. */
static bool read_continued(struct question *q, const struct pyjson *top, struct err *e)
{
    bool continues = false, begins = true;
    struct request *r = &q->request;
    if (!question_flag(top, "continue_final_message", &continues, e) || !question_flag(top, "add_generation_prompt", &begins, e))
        return false;
    if (!continues)
        return begins || err_set(e, "add_generation_prompt must be true, except beside continue_final_message");
    struct message *last = (struct message *)&r->messages[r->n_messages - 1];
    if (last->role != ROLE_ASSISTANT || last->n_calls || r->n_messages < 2)
        return err_set(e, "continue_final_message is given, but the last message is not an answer without calls");
    r->n_messages--;
    q->continued = last;
    return true;
}

/* ---- how to answer ---- */

bool question_switch(struct question *q, const struct pyjson *from, const char *key, struct err *e)
{
    static const struct { const char *name; bool thinks; int budget; } efforts[] = {
#define EFFORT(...) {__VA_ARGS__},
#include "config/efforts.def"
    };
    const struct pyjson *v = pyjson_given(from, key);
    if (!v)
        return true;
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++)
        if (is_text(v, efforts[i].name) || v->kind == (efforts[i].thinks ? PY_TRUE : PY_FALSE)) {
            q->request.thinking = efforts[i].thinks;
            if (efforts[i].budget)
                q->request.think_budget = efforts[i].budget;
            return true;
        }
    return err_set(e, "%s is not true, false, none, minimal, low, medium, high, xhigh or max", key);
}

static bool read_budget(struct question *q, const struct pyjson *from, const char *key, struct err *e)
{
    return question_whole(from, key, 0, LIMIT_CTX, &q->request.think_budget, e);
}

/* Reads OpenRouter's `reasoning` or Anthropic's `thinking`: an object, or a switch. */
static bool read_reasoning(struct question *q, const struct pyjson *top, const char *key, struct err *e)
{
    const struct pyjson *v = pyjson_given(top, key);
    struct err why;
    if (!v || v->kind != PY_DICT)
        return question_switch(q, top, key, e);
    return (question_switch(q, v, "type", &why) && question_switch(q, v, "effort", &why) && question_switch(q, v, "enabled", &why) &&
            read_budget(q, v, "budget_tokens", &why) && read_budget(q, v, "max_tokens", &why)) || err_set(e, "%s.%s", key, why.msg);
}

/* Reads all switches of reasoning.  If they disagree, the last one here counts. */
static bool read_thinking(struct question *q, const struct pyjson *top, const struct options *o, struct err *e)
{
    const struct pyjson *kwargs = pyjson_given(top, "chat_template_kwargs");
    q->request.thinking = options_on(o, OPT_think);
    q->request.think_budget = options_int(o, OPT_think_budget);
    return question_switch(q, top, "reasoning_effort", e) && read_reasoning(q, top, "reasoning", e) && read_reasoning(q, top, "thinking", e) &&
           question_switch(q, top, "think", e) && question_switch(q, top, "enable_thinking", e) && is_object(top, "chat_template_kwargs", e) &&
           question_switch(q, kwargs, "reasoning_effort", e) && question_switch(q, kwargs, "thinking", e) &&
           question_switch(q, kwargs, "enable_thinking", e) &&
           read_budget(q, top, "thinking_budget_tokens", e) && read_budget(q, top, "thinking_token_budget", e) &&
           read_budget(q, top, "thinking_budget", e);
}

bool question_add_stop(struct question *q, const struct pyjson *v, struct err *e)
{
    if (v->kind != PY_STR || !v->text.n || memchr(v->text.p, 0, v->text.n))
        return err_set(e, "stop is not a text, or a list of texts, that are not empty");
    if (q->n_stops == QUESTION_MAX_STOPS)
        return err_set(e, "stop has more than %d texts", (int)QUESTION_MAX_STOPS);
    q->stops[q->n_stops++] = arena_strndup(&q->mem, v->text.p, v->text.n);
    return true;
}

/* Reads the stop strings; a missing field takes those of the server's options. */
static bool read_stops(struct question *q, const struct pyjson *top, const struct options *o, struct err *e)
{
    const struct pyjson *v = pyjson_given(top, "stop");
    int n;
    const char *const *usual = options_list(o, OPT_stop, &n);
    for (int i = 0; !v && i < n && i < QUESTION_MAX_STOPS; i++)
        q->stops[q->n_stops++] = arena_strdup(&q->mem, usual[i]);
    if (!v || v->kind != PY_LIST)
        return !v || question_add_stop(q, v, e);
    for (size_t i = 0; i < v->n; i++)
        if (!question_add_stop(q, &v->items[i], e))
            return false;
    return true;
}

/* Reads {"TOKEN": X} as "TOKEN=X".  TOKEN is an id or, unlike in other servers, a text. */
static bool read_bias(struct question *q, const struct pyjson *top, struct err *e)
{
    enum { MOST = 1024, LONGEST = 1024 };       /* bytes: of any token, and few enough to look them up at once */
    const struct pyjson *v = pyjson_given(top, "logit_bias");
    if (!v)
        return true;
    if (v->kind != PY_DICT || v->n > MOST)
        return err_set(e, "logit_bias is not an object of at most %d tokens, each with a number", (int)MOST);
    const char **list = arena_array(&q->mem, v->n, sizeof *list);
    for (size_t i = 0; i < v->n; i++) {
        const struct pyjson *x = &v->items[i];
        struct text key = v->keys[i];
        if (key.n > LONGEST)
            return err_set(e, "logit_bias has a text of %zu bytes, which is no token", key.n);
        if (!key.n || memchr(key.p, 0, key.n) || (x->kind != PY_INT && x->kind != PY_FLOAT))
            return err_set(e, "logit_bias is not an object of at most %d tokens, each with a number", (int)MOST);
        double value = strtod(arena_strndup(&q->mem, x->text.p, x->text.n), NULL);
        list[i] = value <= -100 ? arena_printf(&q->mem, "%.*s=-inf", (int)key.n, key.p)
                                : arena_printf(&q->mem, "%.*s=%.9g", (int)key.n, key.p, value);
        if (!bias_check(list[i], e))
            return false;
    }
    q->biased = true;
    q->given.bias_words = list;
    q->given.n_bias_words = (int)v->n;
    return true;
}

/* Reads a whole number of up to 64 bits, which a program may have written as 1.0. */
static bool read_seed(struct question *q, const struct pyjson *top, struct err *e)
{
    const struct pyjson *v = pyjson_given(top, "seed");
    if (!v)
        return true;
    const char *digits = v->kind == PY_INT || v->kind == PY_FLOAT ? arena_strndup(&q->mem, v->text.p, v->text.n) : "";
    const double x = v->kind == PY_FLOAT ? strtod(digits, NULL) : 0;
    if (v->kind == PY_FLOAT ? !(fabs(x) < 0x1p63) || x != floor(x) : v->kind != PY_INT || v->text.n > 20)
        return err_set(e, "seed is not a whole number");
    q->given.seed = v->kind == PY_FLOAT ? (uint64_t)(int64_t)x : strtoull(digits, NULL, 10);
    q->seeded = true;
    return true;
}

/* Reads the sampling values; those that are missing are marked, to be filled in later. */
static bool read_sampling(struct question *q, const struct pyjson *top, struct err *e)
{
    struct sampling *s = &q->given;
    *s = (struct sampling){.top_k = NOT_GIVEN, .max_tokens = NOT_GIVEN};
#define SAMPLING_NUMBER(name, ...) s->name = NAN;
#include "config/sampling_numbers.def"
    return
#define SAMPLING_NUMBER(name, least, most, ...) real(top, #name, least, most, &s->name, e) &&
#include "config/sampling_numbers.def"
           real(top, "repeat_penalty", 0, 10, &s->repetition_penalty, e) && question_whole(top, "top_k", -1, 1 << 20, &s->top_k, e) &&
           question_whole(top, "max_tokens", -1, INT_MAX, &s->max_tokens, e) &&
           question_whole(top, "max_completion_tokens", -1, INT_MAX, &s->max_tokens, e) &&
           read_seed(q, top, e) && read_bias(q, top, e);
}

/* Reads how many alternatives are wanted; -1: no logprobs at all. */
static bool read_logprobs(struct question *q, const struct pyjson *top, struct err *e)
{
    bool wanted = false;
    q->n_alternatives = 0;
    if (!question_flag(top, "logprobs", &wanted, e) || !question_whole(top, "top_logprobs", 0, LIMIT_ALTERNATIVES, &q->n_alternatives, e))
        return false;
    if (q->n_alternatives && !wanted)
        return err_set(e, "top_logprobs needs logprobs");
    if (!wanted)
        q->n_alternatives = -1;
    return true;
}

bool question_object(struct pyjson *top, struct text body, struct arena *mem, struct err *e)
{
    struct err why = {{0}};
    if (!pyjson_parse(top, body, PYJSON_LOADS, mem, &why))
        return err_set(e, "the body is not JSON: %s", why.msg);
    return top->kind == PY_DICT || err_set(e, "the body is not a JSON object");
}

/* Reads the fields that all kinds of requests have. */
static bool read_common(struct question *q, const struct pyjson *top, const struct options *o, struct err *e)
{
    const struct pyjson *model = pyjson_given(top, "model");
    if (model && model->kind != PY_STR)
        return err_set(e, "model is not a text");
    q->model = model ? model->text : text_of("");
    return question_flag(top, "stream", &q->streams, e) && is_object(top, "stream_options", e) &&
           question_flag(pyjson_given(top, "stream_options"), "include_usage", &q->wants_usage, e) &&
           question_flag(top, "return_progress", &q->wants_progress, e) && read_stops(q, top, o, e) && read_sampling(q, top, e);
}

bool question_read_top(struct question *q, struct text body, struct pyjson *top, const struct options *o, struct err *e)
{
    *q = (struct question){0};
    return question_object(top, body, &q->mem, e) && read_common(q, top, o, e);
}

/* Reads the fields of all kinds of clients' requests. */
static bool read_client(struct question *q, const struct pyjson *top, int where, const struct options *o, struct err *e)
{
    static const struct refused_field refused[] = {
#define REFUSED(...) {__VA_ARGS__},
#include "config/request_fields.def"
    };
    if (!read_common(q, top, o, e) || !question_refuse(top, refused, sizeof refused / sizeof *refused, where, e) || !read_form(q, top, o, e))
        return false;
    return q->given.max_tokens || err_set(e, "%s is 0, expected 1 or more, or -1 for no limit",
                                          pyjson_given(top, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens");
}

/* Checks the types of fields whose readers take more than the tables say. */
static bool check_types(const struct pyjson *top, int where, struct err *e)
{
    static const struct field_type types[] = {
#define TYPE(...) {__VA_ARGS__},
#include "config/request_fields.def"
    };
    return question_types(top, types, sizeof types / sizeof *types, where, e);
}

bool question_read_chat(struct question *q, const struct pyjson *top, const struct options *o, struct err *e)
{
    struct request *r = &q->request;
    r->free_calls = !options_on(o, OPT_tool_guide);
    r->strict_tools = true;
    if (!read_client(q, top, CHAT, o, e) || !read_conversation(q, top, e) || !read_continued(q, top, e) || !read_thinking(q, top, o, e) ||
        !read_logprobs(q, top, e) || !check_types(top, CHAT, e))
        return false;
    if (q->words)
        r->messages = form_worded(&r->form, r->messages, r->n_messages, r->n_tools > 0, &q->mem);
    return true;
}

bool question_read(struct question *q, struct text body, const struct options *o, struct err *e)
{
    struct pyjson top;
    *q = (struct question){0};
    return question_object(&top, body, &q->mem, e) && question_read_chat(q, &top, o, e);
}

/* ---- /v1/completions ---- */

bool question_ids(const struct pyjson *list, struct ids *out)
{
    bool ok = list && list->kind == PY_LIST;
    for (size_t i = 0; ok && i < list->n; i++) {
        const struct pyjson *v = &list->items[i];
        char digits[16];
        ok = v->kind == PY_INT && v->text.n < sizeof digits;
        snprintf(digits, sizeof digits, "%.*s", (int)(ok ? v->text.n : 0), ok ? v->text.p : "");
        long long id = strtoll(digits, NULL, 10);
        ok = ok && id >= 0 && id <= INT32_MAX;
        if (ok)
            ids_add(out, (int32_t)id);
    }
    return ok;
}

/* Reads a text, a list of tokens, or a list with one of these. */
static bool read_prompt(struct question *q, const struct pyjson *top, struct err *e)
{
    const struct pyjson *v = pyjson_given(top, "prompt");
    if (v && v->kind == PY_LIST && v->n > 1 && v->items[0].kind != PY_INT)
        return err_set(e, "prompt has %zu prompts, expected one in a request", v->n);
    if (v && v->kind == PY_LIST && v->n == 1 && v->items[0].kind != PY_INT)
        v = &v->items[0];
    if (v && v->kind == PY_STR)
        q->prompt = v->text.p ? v->text : text_of("");
    return (v && v->kind == PY_STR) || question_ids(v, &q->ids) || err_set(e, "prompt is neither a text nor a list of tokens");
}

bool question_read_completion(struct question *q, const struct pyjson *top, const struct options *o, struct err *e)
{
    enum { USUAL_MAX = 16 };            /* tokens of an answer without max_tokens, as OpenAI defines it */
    bool ok = read_client(q, top, PLAIN, o, e) && read_prompt(q, top, e);
    q->plain = true;
    q->n_alternatives = -1;
    ok = ok && question_whole(top, "logprobs", 0, LIMIT_ALTERNATIVES, &q->n_alternatives, e) && check_types(top, PLAIN, e);
    if (ok && !pyjson_given(top, "max_tokens") && !pyjson_given(top, "max_completion_tokens"))
        q->given.max_tokens = USUAL_MAX;
    return ok;
}

bool question_read_plain(struct question *q, struct text body, const struct options *o, struct err *e)
{
    struct pyjson top;
    *q = (struct question){0};
    return question_object(&top, body, &q->mem, e) && question_read_completion(q, &top, o, e);
}

/* ---- an answer that is to be continued ---- */

bool question_prefix(struct question *q, struct responder *r, struct err *e)
{
    const struct spoken spoken = {.m = q->continued, .stopped = true, .tools = q->request.tools, .n_tools = q->request.n_tools};
    if (!q->continued || q->prefix.n)
        return true;
    if (!r->ops->tokens || !r->ops->tokens(r, &spoken, &q->prefix))
        return err_set(e, "the answer to continue was not written by this model, or is longer than its context");
    q->request.prefix.tokens = &q->prefix;
    q->request.thinking = q->prefix.thinking;
    return true;
}

int question_count(struct question *q, struct responder *r, struct look *l, struct err *e)
{
    if (!seen_look(q->request.messages, q->request.n_messages, l, e) || !question_prefix(q, r, e))
        return -1;
    const int n = r->ops->count_prompt(r, &q->request, e);
    return n < 0 ? n : n + q->prefix.n;
}

void question_free(struct question *q)
{
    made_guide_release(q->request.guide);
    arena_free(&q->mem);
    ids_free(&q->ids);
    tokens_free(&q->prefix);
}

/* ---- sampling ---- */

static void take(float *to, float from)
{
    if (!isnan(from))
        *to = from;
}

void question_sampling(struct question *q, const struct options *o, const struct model_info *info)
{
    const struct sampling *g = &q->given;
    struct sampling *s = &q->request.sampling;
    if (q->complete) {
        *s = *g;
        return;
    }
    preset_sampling(o, info, s);
#define SAMPLING_NUMBER(name, ...) take(&s->name, g->name);
#include "config/sampling_numbers.def"
    s->top_p = preset_top_p(s->top_p);
    if (g->top_k != NOT_GIVEN)
        s->top_k = g->top_k > 0 ? g->top_k : 0;
    if (g->max_tokens != NOT_GIVEN)
        s->max_tokens = g->max_tokens > 0 ? g->max_tokens : 0;
    uint64_t random = 1;
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    s->seed = q->seeded ? g->seed : options_given(o, OPT_seed) ? s->seed : random & INT64_MAX;
    s->n_alternatives = q->n_alternatives < 0 ? 0 : q->n_alternatives ? q->n_alternatives : 1;
    if (q->biased) {
        s->bias_words = g->bias_words;
        s->n_bias_words = g->n_bias_words;
    }
}
