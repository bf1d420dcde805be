#include "serve/rewrite.h"

#include <stdio.h>
#include <string.h>

#include "serve/history.h"

#define SCHEMA "response_format.json_schema.schema"     /* a chat completion's name of the schema */
#define KEPT "q35chat:"                 /* before reasoning that a client keeps for us */

const struct pyjson rewrite_object = {.kind = PY_DICT}, rewrite_list = {.kind = PY_LIST};

struct rewriter rewrite_begin(struct arena *mem, struct err *e)
{
    return (struct rewriter){.mem = mem, .e = e, .to = rewrite_object, .messages = rewrite_list, .tools = rewrite_list};
}

/* ---- values ---- */

static struct pyjson string(const char *s) { return pyjson_string(text_of(s)); }

bool rewrite_is(const struct pyjson *v, const char *key, const char *value)
{
    const struct pyjson *named = pyjson_given(v, key);
    return named && named->kind == PY_STR && text_is(named->text, value);
}

void rewrite_set(struct rewriter *w, struct pyjson *dict, const char *key, struct pyjson value)
{
    pyjson_set(dict, text_of(key), value, w->mem);
}

void rewrite_set_buf(struct rewriter *w, struct pyjson *dict, const char *key, struct buf *b)
{
    rewrite_set(w, dict, key, pyjson_string((struct text){arena_strndup(w->mem, buf_str(b), b->len), b->len}));
    buf_free(b);
}

void rewrite_copy(struct rewriter *w, struct pyjson *to, const char *as, const struct pyjson *from, const char *key)
{
    const struct pyjson *v = pyjson_given(from, key);
    if (v)
        rewrite_set(w, to, as, *v);
}

/* ---- messages and tools ---- */

struct pyjson *rewrite_message(struct rewriter *w, const char *role)
{
    struct pyjson *m = pyjson_add(&w->messages, rewrite_object, w->mem);
    w->places.all = arena_grow(w->mem, w->places.all, w->places.n, &w->places.cap, sizeof *w->places.all);
    w->places.all[w->places.n++] = w->place;
    rewrite_set(w, m, "role", string(role));
    return m;
}

/* Returns a function as chat completions have it, in calls, tools and choices. */
static struct pyjson function_of(struct rewriter *w, const struct pyjson *name)
{
    struct pyjson function = rewrite_object;
    if (name)
        rewrite_set(w, &function, "name", *name);
    return function;
}

static struct pyjson wrapped(struct rewriter *w, struct pyjson function)
{
    struct pyjson whole = rewrite_object;
    rewrite_set(w, &whole, "type", string("function"));
    rewrite_set(w, &whole, "function", function);
    return whole;
}

bool rewrite_call(struct rewriter *w, struct pyjson *message, const struct pyjson *id, const struct pyjson *name, const struct pyjson *arguments)
{
    const struct pyjson *old = pyjson_get(message, "tool_calls");
    struct pyjson function = function_of(w, name), calls = old ? *old : rewrite_list;
    if (!name || name->kind != PY_STR)
        return err_set(w->e, "%s is a call without a name", w->place);
    if (arguments)
        rewrite_set(w, &function, "arguments", *arguments);
    struct pyjson call = wrapped(w, function);
    if (id)
        rewrite_set(w, &call, "id", *id);
    pyjson_add(&calls, call, w->mem);
    rewrite_set(w, message, "tool_calls", calls);
    return true;
}

bool rewrite_tool(struct rewriter *w, const struct pyjson *name, const struct pyjson *description, const char *field,
                  const struct pyjson *parameters)
{
    struct pyjson function = function_of(w, name);
    if (!name || name->kind != PY_STR)
        return err_set(w->e, "%s has no name", w->place);
    if (!history_tool(w->place, name, parameters, w->e))
        return false;
    if (description)
        rewrite_set(w, &function, "description", *description);
    if (parameters)
        rewrite_set(w, &function, "parameters", *parameters);
    pyjson_add(&w->tools, wrapped(w, function), w->mem);
    w->parameters.all = arena_grow(w->mem, w->parameters.all, w->parameters.n, &w->parameters.cap, sizeof *w->parameters.all);
    w->parameters.all[w->parameters.n++] = arena_printf(w->mem, "%s.%s", w->place, field);
    return true;
}

void rewrite_leave_out(struct rewriter *w, const struct pyjson *tool)
{
    enum { MOST = 400, MOST_NAME = 64 };
    const struct pyjson *name = pyjson_given(tool, "name") ? pyjson_given(tool, "name") : pyjson_given(tool, "type");
    const struct text t = name && name->kind == PY_STR ? name->text : text_of("?");
    if (!w->left_out || strlen(w->left_out) < MOST)
        w->left_out = arena_printf(w->mem, "%s%s%.*s", w->left_out ? w->left_out : "", w->left_out ? ", " : "",
                                   (int)(t.n < MOST_NAME ? t.n : MOST_NAME), t.p);
}

void rewrite_choose(struct rewriter *w, const struct pyjson *name)
{
    rewrite_set(w, &w->to, "tool_choice", wrapped(w, function_of(w, name)));
}

void rewrite_schema(struct rewriter *w, const char *field, const struct pyjson *schema, const struct pyjson *strict)
{
    struct pyjson format = rewrite_object, inner = rewrite_object;
    w->schema = field;
    rewrite_set(w, &inner, "name", string("answer"));
    if (schema)
        rewrite_set(w, &inner, "schema", *schema);
    if (strict)
        rewrite_set(w, &inner, "strict", *strict);
    rewrite_set(w, &format, "type", string("json_schema"));
    rewrite_set(w, &format, "json_schema", inner);
    rewrite_set(w, &w->to, "response_format", format);
}

/* ---- reasoning ---- */

void rewrite_add_kept(const struct pyjson *kept, struct buf *to)
{
    const size_t n = strlen(KEPT);
    if (kept && kept->kind == PY_STR && text_starts(kept->text, KEPT))
        buf_add(to, kept->text.p + n, kept->text.n - n);
}

void rewrite_quote_kept(struct text reasoning, struct buf *out)
{
    struct buf b = {0};
    buf_adds(&b, KEPT);
    buf_add(&b, reasoning.p, reasoning.n);
    pyjson_quote((struct text){b.data, b.len}, out);
    buf_free(&b);
}

/* ---- the whole request ---- */

/* Replaces the name at the beginning of a refusal, which is that of a chat completion, by the client's own. */
static void rename_refusal(const struct rewriter *w)
{
    const struct err was = *w->e;
    int number, n = 0;
    if (sscanf(was.msg, "message %d%n", &number, &n) == 1 && number >= 1 && number <= w->places.n) {
        const char *rest = !strncmp(was.msg + n, " (role ", 7) ? strstr(was.msg + n, "): ") : NULL;     /* chat's role may be another one */
        err_set(w->e, "%s%s", w->places.all[number - 1], rest ? rest + 1 : was.msg + n);
        return;
    }
    if (w->schema && !strncmp(was.msg, SCHEMA " ", sizeof SCHEMA)) {
        err_set(w->e, "%s%s", w->schema, was.msg + sizeof SCHEMA - 1);
        return;
    }
    for (size_t i = 0; i < w->n_fields; i++) {
        const size_t length = strlen(w->fields[i].chat);
        if (strncmp(was.msg, w->fields[i].chat, length) || !strchr(" .", was.msg[length]))
            continue;
        err_set(w->e, "%s%s", w->fields[i].own, was.msg + length);
        return;
    }
}

/* Ends the reading of a chat completion: what is refused later has the client's own names, too. */
static bool finished(const struct rewriter *w, struct question *q, bool ok)
{
    struct request *r = &q->request;
    if (w->schema && r->form.kind == FORM_SCHEMA)
        r->form.field = w->schema;
    if (w->parameters.n)
        r->tool_fields = w->parameters.all;
    if (!ok)
        rename_refusal(w);
    return ok;
}

static void copy_fields(struct rewriter *w, const struct pyjson *top)
{
    for (size_t i = 0; i < w->n_fields; i++) {
        const struct rewrite_field *f = &w->fields[i];
        const struct pyjson *v = f->by_hand || pyjson_get(&w->to, f->chat) ? NULL : question_at(top, f->own);
        if (v)
            rewrite_set(w, &w->to, f->chat, *v);
    }
}

bool rewrite_read(struct rewriter *w, const struct pyjson *top, struct question *q, const struct options *o)
{
    copy_fields(w, top);
    rewrite_set(w, &w->to, "messages", w->messages);
    if (w->tools.n)
        rewrite_set(w, &w->to, "tools", w->tools);
    const bool ok = finished(w, q, question_read_chat(q, &w->to, o, w->e));
    q->left_out = w->left_out;
    return ok;
}

bool rewrite_read_plain(struct rewriter *w, const struct pyjson *top, struct question *q, const struct options *o)
{
    copy_fields(w, top);
    return finished(w, q, question_read_completion(q, &w->to, o, w->e));
}
