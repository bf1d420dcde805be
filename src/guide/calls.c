#include "guide/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define END "</function>\n</tool_call>"

enum { N_BITS = 32 };

struct parameter { struct text name; int rule; bool needed; };

struct tool {
    struct text       name;
    struct values    *values;
    struct parameter *parameter;
    int               n;
    bool              free;     /* its arguments are not guided */
};

struct calls {
    struct arena  arena;
    struct terms *t;
    struct tool  *tool;
    int           n;
    struct values_budget budget;        /* what is left for the tools that follow */
    bool          spent;        /* nothing is, and a note said so */
    uint32_t      raw;          /* texts of parameters that are strings, and the line end before them */
};

static uint32_t literal(struct calls *c, const char *s) { return term_literal(c->t, text_of(s)); }

static bool is_required(const struct pyjson *schema, struct text name)
{
    const struct pyjson *required = pyjson_get(schema, "required");
    for (size_t i = 0; required && required->kind == PY_LIST && i < required->n; i++)
        if (required->items[i].kind == PY_STR && text_same(required->items[i].text, name))
            return true;
    return false;
}

/* True if the arguments of a schema without `properties` may be anything. */
static bool is_open(const struct pyjson *schema)
{
    static const char *const keys[] = {"$ref", "allOf", "anyOf", "oneOf", "additionalProperties", "patternProperties"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct pyjson *v = pyjson_get(schema, keys[i]);
        if (v && v->kind != PY_FALSE)
            return true;
    }
    return false;
}

/* True if the arguments, which are an object, have one of the types of a schema. */
static bool is_of_objects(const struct pyjson *schema)
{
    const struct pyjson *type = pyjson_get(schema, "type");
    bool found = !type || (type->kind == PY_STR && text_is(type->text, "object"));
    for (size_t i = 0; type && type->kind == PY_LIST && i < type->n; i++)
        found = found || (type->items[i].kind == PY_STR && text_is(type->items[i].text, "object"));
    return found;
}

static bool add_parameter(struct tool *tool, struct text name, int rule, bool needed, struct err *e)
{
    for (int i = 0; i < tool->n; i++)
        if (text_same(tool->parameter[i].name, name))
            return true;
    if (values_term(tool->values, rule) != TERM_NONE)
        tool->parameter[tool->n++] = (struct parameter){name, rule, needed};
    else if (needed)
        return err_set(e, "no value satisfies the parameter %.*s", (int)name.n, name.p);
    return true;
}

/* Compiles the schemas of the parameters: of all properties, and of what else is required.  False with the reason if one cannot be obeyed. */
static bool read_parameters(struct calls *c, struct tool *tool, const struct pyjson *schema, struct err *e)
{
    static const struct pyjson none = {.kind = PY_DICT}, nobody = {.kind = PY_LIST};
    const struct pyjson *properties = pyjson_get(schema, "properties"), *required = pyjson_get(schema, "required");
    struct buf text = {0};
    properties = properties ? properties : &none;
    required = required ? required : &nobody;
    if (!is_of_objects(schema))
        return err_set(e, "#: \"type\" is not \"object\"");
    if (properties->kind != PY_DICT)
        return err_set(e, "#: \"properties\" is not an object");
    if (required->kind != PY_LIST)
        return err_set(e, "#: \"required\" is not a list of names");
    if (properties->n > SHAPE_NAMES || required->n > SHAPE_NAMES)
        return err_set(e, "#: there are more than %d parameters", SHAPE_NAMES);
    pyjson_dump(schema, &text);
    const struct values_options how = {.loose = true, .members = !is_open(schema) || properties->n, .plain = true, .budget = &c->budget};
    tool->values = values_new(c->t, (struct text){text.data, text.len}, (int)(tool - c->tool), &how, e);
    buf_free(&text);
    if (!tool->values)
        return false;
    if (!how.members) {
        tool->free = true;
        return values_term(tool->values, 0) != TERM_NONE || err_set(e, "#: nothing satisfies the parameters");
    }
    tool->parameter = arena_array(&c->arena, properties->n + required->n + 1, sizeof *tool->parameter);
    bool ok = true;
    for (size_t i = 0; i < properties->n && ok; i++)
        ok = add_parameter(tool, properties->keys[i], values_member(tool->values, i), is_required(schema, properties->keys[i]), e);
    for (size_t i = 0; i < required->n && ok; i++)
        if (required->items[i].kind == PY_STR && !pyjson_item(properties, required->items[i].text))
            ok = add_parameter(tool, required->items[i].text, values_member(tool->values, properties->n), true, e);
    return ok;
}

static bool is_allowed(const struct calls_options *of, struct text name)
{
    bool found = !of->n_allowed;
    for (int i = 0; i < of->n_allowed; i++)
        found |= text_same(of->allowed[i], name);
    return found;
}

/* Adds a tool, or skips one that is not allowed (true).  If its schema cannot be obeyed: false if strict with budget left; else any arguments go. */
static bool read_tool(struct calls *c, const struct pyjson *v, const char *field, const struct calls_options *of, struct err *e)
{
    const struct pyjson *inner = pyjson_get(v, "function") ? pyjson_get(v, "function") : v, *name = pyjson_get(inner, "name");
    const struct pyjson *schema = pyjson_get(inner, "parameters"), *strict = pyjson_get(inner, "strict");
    struct tool *tool = &c->tool[c->n];
    struct err why = {0};
    if (!name || name->kind != PY_STR || !name->text.n)
        return err_set(e, "a tool has no name");
    if (!is_allowed(of, name->text))
        return true;
    c->n++;
    tool->name = name->text;
    if (!schema || schema->kind != PY_DICT || read_parameters(c, tool, schema, &why))
        return true;
    const bool spent = c->budget.steps <= 0 || c->budget.terms <= 0 || c->budget.work <= 0;       /* by all tools */
    if (of->strict && !spent && !(strict && strict->kind == PY_FALSE))
        return err_set(e, "%s%sthe tool %.*s: %s", field ? field : "", field ? ": " : "", (int)tool->name.n, tool->name.p, why.msg);
    tool->free = true;
    terms_allow(c->t, UINT32_MAX);
    terms_allow_work(c->t, UINT64_MAX);
    if (of->notes && !c->spent)
        buf_addf(of->notes, "the tool %.*s %s called with any arguments: %s\n", (int)tool->name.n, tool->name.p,
                 spent ? "and those after it are" : "is", spent ? "the schemas of all tools together are too large" : why.msg);
    c->spent |= spent;
    return true;
}

/* Returns the term of all texts that contain one of `list`; any number of blanks stands for each blank in these. */
static uint32_t containing(struct calls *c, const char *const *list)
{
    const uint32_t all = term_not(c->t, TERM_NONE);
    const uint64_t blanks[4] = {1ull << ' ' | 0x1Full << '\t'};
    const uint32_t gap = term_repeat(c->t, term_bytes_of(c->t, blanks), 0, TERM_INFINITE);
    uint32_t any = TERM_NONE;
    for (; *list; list++) {
        const char *blank = strchr(*list, ' ');
        uint32_t one = term_literal(c->t, (struct text){*list, blank ? (size_t)(blank - *list) : strlen(*list)});
        if (blank)
            one = term_cat(c->t, one, term_cat(c->t, gap, literal(c, blank + 1)));
        any = term_alt(c->t, any, one);
    }
    return term_cat(c->t, all, term_cat(c->t, any, all));
}

/* Returns the term of the text of a string: nothing that ends it for the parser (text/stream.c), and no closing tag at the start of a line. */
static uint32_t raw_term(struct calls *c)
{
    static const char *const ends[] = {
        "\n</parameter>", "</parameter> <parameter=", "</parameter> </function>", "</parameter> </tool_call>",
        "</parameter> <tool_call>", "\n<parameter=", "</function> </tool_call>", "\n</function> <function=", "\n</function> <tool_call>",
        "\n</tool_call> <tool_call>", "\n</tool_call> <function=", "\n</tool_call> </tool_call>", "\n</tool_call> </think>", NULL,
    };
    const uint32_t line = term_cat(c->t, literal(c, "\n"), term_not(c->t, TERM_NONE));
    return term_and(c->t, line, term_not(c->t, containing(c, ends)));
}

/* Returns the term of the line end before a value, the value and its closing tag: a string as it is, anything else as JSON.  A string may end within
 * a line. */
static uint32_t value_term(struct calls *c, const struct tool *tool, const struct parameter *p)
{
    const uint32_t texts = values_strings(tool->values, p->rule), line = literal(c, "\n"), close = literal(c, "\n</parameter>\n");
    if (texts == TERM_NONE)
        return term_cat(c->t, line, term_cat(c->t, values_term(tool->values, p->rule), close));
    if (texts == term_repeat(c->t, term_any_char(c->t), 0, TERM_INFINITE))
        return term_cat(c->t, term_live(c->t, c->raw), term_alt(c->t, close, literal(c, "</parameter>\n")));
    const uint32_t raw = term_live(c->t, term_and(c->t, term_cat(c->t, line, texts), c->raw));
    return term_cat(c->t, term_alt(c->t, raw, term_cat(c->t, line, values_others(tool->values, p->rule))), close);
}

/* Returns what may follow the parameters of a set; if there are more than 32, those before a number, in their order. */
static uint32_t expand(struct calls *c, uint32_t a, uint32_t set)
{
    const struct tool *tool = &c->tool[a];
    const bool ordered = tool->n > N_BITS;
    uint32_t *list = memory_alloc((size_t)(tool->n + 1) * sizeof *list);
    int n = 0;
    bool complete = true;
    for (int i = ordered ? (int)set : 0; i < tool->n; i++) {
        const struct parameter *p = &tool->parameter[i];
        if (!ordered && set >> i & 1)
            continue;
        const uint32_t next = term_lazy(c->t, CALLS_PARAMETERS, a, ordered ? (uint32_t)i + 1 : set | 1u << i);
        struct buf tag = {0};
        buf_addf(&tag, "<parameter=%.*s>", (int)p->name.n, p->name.p);
        list[n++] = term_cat(c->t, term_literal(c->t, (struct text){tag.data, tag.len}), term_cat(c->t, value_term(c, tool, p), next));
        buf_free(&tag);
        complete &= !p->needed;
        if (ordered && p->needed)
            break;
    }
    list[n++] = complete ? literal(c, END) : TERM_NONE;
    const uint32_t id = term_alts(c->t, list, n);
    free(list);
    return id;
}

/* One call, from behind the opening tag to its end. */
static uint32_t call_term(struct calls *c)
{
    uint32_t *list = memory_alloc((size_t)c->n * sizeof *list);
    for (int i = 0; i < c->n; i++) {
        const struct tool *tool = &c->tool[i];
        struct buf tag = {0};
        buf_addf(&tag, "\n" CALLS_FUNCTION "%.*s>\n", (int)tool->name.n, tool->name.p);
        const uint32_t function = term_literal(c->t, (struct text){tag.data, tag.len});
        const uint32_t rest = tool->free ? term_until(c->t, text_of(END), false) : term_lazy(c->t, CALLS_PARAMETERS, (uint32_t)i, 0);
        list[i] = term_cat(c->t, function, rest);
        buf_free(&tag);
    }
    const uint32_t id = term_alts(c->t, list, c->n);
    free(list);
    return id;
}

/* Reads the list of tools, of which only the allowed ones count.  False if there is no tool to call. */
static bool read_tools(struct calls *c, const struct calls_options *of, struct err *e)
{
    struct pyjson v;
    if (!pyjson_parse(&v, of->tools, PYJSON_LOADS, &c->arena, e))
        return false;
    if (v.kind != PY_LIST)
        return err_set(e, "the tools are no list");
    if (v.n > CALLS_TOOLS)
        return err_set(e, "tools: there are %zu, and calls of at most %d can be guided; send fewer, or start with --no-tool-guide", v.n, CALLS_TOOLS);
    c->tool = arena_array(&c->arena, v.n + 1, sizeof *c->tool);
    for (size_t i = 0; i < v.n; i++)
        if (!read_tool(c, &v.items[i], of->fields ? of->fields[i] : NULL, of, e))
            return false;
    if (c->n)
        return true;
    return of->n_allowed ? err_set(e, "there is no tool %.*s", (int)of->allowed[0].n, of->allowed[0].p) : err_set(e, "there are no tools to call");
}

struct calls *calls_new(struct terms *t, const struct calls_options *of, uint32_t *term, struct err *e)
{
    struct calls *c = memory_zeroed(1, sizeof *c);
    c->t = t;
    c->budget = (struct values_budget){values_budget.steps * 2 / 5, values_budget.terms / 2, values_budget.work};
    c->raw = raw_term(c);
    if (!read_tools(c, of, e)) {
        calls_free(c);
        return NULL;
    }
    const uint32_t call = call_term(c), more = term_repeat(t, term_cat(t, literal(c, "\n" CALLS_TAG), call), 0, of->several ? TERM_INFINITE : 0);
    *term = term_cat(t, literal(c, CALLS_TAG), term_cat(t, call, more));
    return c;
}

void calls_free(struct calls *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n; i++)
        values_free(c->tool[i].values);
    arena_free(&c->arena);
    free(c);
}

uint32_t calls_expand(struct calls *c, int kind, uint32_t a, uint32_t b)
{
    if (kind == CALLS_PARAMETERS)
        return expand(c, a, b);
    return values_expand(c->tool[kind >> VALUES_BITS].values, kind & ((1 << VALUES_BITS) - 1), a, b);
}

uint32_t calls_take(struct calls *c, uint32_t a, uint32_t b, struct text key) { return values_take(c->tool[b >> 8].values, a, b, key); }

struct values *calls_values(const struct calls *c, int number) { return c->tool[number].values; }

void calls_sweep(struct calls *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->tool[i].values)
            values_sweep(c->tool[i].values);
}

size_t calls_bytes(const struct calls *c)
{
    size_t n = sizeof *c + c->arena.total;
    for (int i = 0; i < c->n; i++)
        n += c->tool[i].values ? values_bytes(c->tool[i].values) : 0;
    return n;
}
