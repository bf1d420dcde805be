#include "text/schema.h"

#include <string.h>
#include <strings.h>

/* In the order in which they are tried; every text fits a string. */
enum type { BOOLEAN, INTEGER, NUMBER, ARRAY, OBJECT, STRING, NONE, N_TYPES };

static const char *const type_names[N_TYPES] = {"boolean", "integer", "number", "array", "object", "string", "null"};

enum { MAX_VISITS = 256 };

struct reader {
    const struct pyjson *root;          /* what "#/..." refers to */
    int                  visits;        /* limits circular references */
};

static unsigned types_of(struct reader *r, const struct pyjson *schema);

static unsigned named_type(const struct pyjson *name)
{
    for (int t = 0; name && name->kind == PY_STR && t < N_TYPES; t++)
        if (text_is(name->text, type_names[t]))
            return 1u << t;
    return 0;
}

static unsigned type_of_value(const struct pyjson *v)
{
    static const enum type of[] = {
        [PY_NONE] = NONE, [PY_FALSE] = BOOLEAN, [PY_TRUE] = BOOLEAN, [PY_INT] = INTEGER, [PY_FLOAT] = NUMBER,
        [PY_STR] = STRING, [PY_LIST] = ARRAY, [PY_DICT] = OBJECT,
    };
    return 1u << of[v->kind];
}

/* Follows {"$ref": "#/$defs/Point"}: returns the referenced value in the same tool, or NULL. */
static const struct pyjson *follow(struct reader *r, const struct pyjson *ref)
{
    const struct pyjson *at = r->root;
    if (ref->kind != PY_STR || !text_starts(ref->text, "#/") || memchr(ref->text.p, 0, ref->text.n))
        return NULL;
    const char *p = ref->text.p + 2;    /* NUL-terminated by arena_strndup() */
    while (at && at->kind == PY_DICT) {
        const struct pyjson *next = NULL;
        size_t n = strcspn(p, "/");
        for (size_t i = 0; i < at->n; i++)
            if (text_same(at->keys[i], (struct text){p, n}))
                next = &at->items[i];
        at = next;
        p += n;
        if (!*p)
            return at;
        p++;
    }
    return NULL;
}

static unsigned types_of_list(struct reader *r, const struct pyjson *list)
{
    unsigned types = 0;
    for (size_t i = 0; list && list->kind == PY_LIST && i < list->n; i++)
        types |= types_of(r, &list->items[i]);
    return types;
}

/* Returns the set of types that a schema allows: by type, unions, $ref, const, enum, nullable; 0: it does not say. */
static unsigned types_of(struct reader *r, const struct pyjson *schema)
{
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    const struct pyjson *type = pyjson_get(schema, "type"), *ref = pyjson_get(schema, "$ref"), *of;
    unsigned types = named_type(type);
    if (!schema || schema->kind != PY_DICT || ++r->visits > MAX_VISITS)
        return 0;
    for (size_t i = 0; type && type->kind == PY_LIST && i < type->n; i++)
        types |= named_type(&type->items[i]);
    for (size_t i = 0; !types && i < sizeof unions / sizeof *unions; i++)
        types = types_of_list(r, pyjson_get(schema, unions[i]));
    if (!types && ref)
        types = types_of(r, follow(r, ref));
    if (!types && (of = pyjson_get(schema, "const")))
        types = type_of_value(of);
    for (size_t i = 0; !type && (of = pyjson_get(schema, "enum")) && of->kind == PY_LIST && i < of->n; i++)
        types |= type_of_value(&of->items[i]);
    of = pyjson_get(schema, "nullable");
    if (types && of && of->kind == PY_TRUE)
        types |= 1u << NONE;
    return types;
}

bool schema_read(struct schema *s, struct text tool, struct arena *a)
{
    struct pyjson top;
    *s = (struct schema){0};
    if (!pyjson_parse(&top, tool, PYJSON_LOADS, a, NULL))
        return false;
    const struct pyjson *function = pyjson_get(&top, "function");
    if (!function)
        function = &top;
    const struct pyjson *name = pyjson_get(function, "name"), *parameters = pyjson_get(function, "parameters");
    if (!name || name->kind != PY_STR)
        return false;
    s->name = name->text;
    const struct pyjson *properties = pyjson_get(parameters, "properties");
    if (!properties || properties->kind != PY_DICT)
        return true;
    s->params = arena_array(a, properties->n, sizeof *s->params);
    for (size_t i = 0; i < properties->n; i++) {
        struct reader r = {.root = parameters};
        s->params[s->n_params++] = (struct param){properties->keys[i], types_of(&r, &properties->items[i]), false};
    }
    const struct pyjson *required = pyjson_get(parameters, "required");
    for (size_t i = 0; i < s->n_params; i++)
        for (size_t k = 0; required && required->kind == PY_LIST && k < required->n; k++)
            s->params[i].required |= required->items[k].kind == PY_STR && text_same(required->items[k].text, s->params[i].name);
    return true;
}

bool schema_complete(const struct schema *s, const struct pyjson *args)
{
    bool all = s != NULL;
    for (size_t i = 0; all && i < s->n_params; i++)
        all = !s->params[i].required || pyjson_item(args, s->params[i].name);
    return all;
}

const struct param *schema_param(const struct schema *s, struct text name)
{
    for (size_t i = 0; s && i < s->n_params; i++)
        if (text_same(s->params[i].name, name))
            return &s->params[i];
    return NULL;
}

static bool is_word(struct text t, const char *word)
{
    return t.n == strlen(word) && !strncasecmp(t.p, word, t.n);
}

static bool fits_boolean(struct text t, struct pyjson *v)
{
    v->kind = is_word(t, "true") ? PY_TRUE : PY_FALSE;
    return v->kind == PY_TRUE || is_word(t, "false");
}

/* Reads any number of digits, and no fraction but zeros. Drops a plus and leading zeros, which JSON does not allow. */
static bool fits_integer(struct text t, struct pyjson *v, struct arena *a)
{
    bool minus = text_starts(t, "-");
    if (minus || text_starts(t, "+"))
        t.p++, t.n--;
    const char *point = text_find(t, ".");
    const struct text whole = {t.p, point ? (size_t)(point - t.p) : t.n};
    if (whole.n && text_rtrim_char(t, '0').n == whole.n + 1)
        t = whole;
    for (size_t i = 0; i < t.n; i++)
        if (t.p[i] < '0' || t.p[i] > '9')
            return false;
    if (!t.n)
        return false;
    while (t.n > 1 && *t.p == '0')
        t.p++, t.n--;
    char *s = arena_alloc(a, t.n + 2);
    size_t sign = minus && !text_is(t, "0");
    s[0] = '-';
    memcpy(s + sign, t.p, t.n);
    *v = (struct pyjson){.kind = PY_INT, .text = {s, t.n + sign}};
    return true;
}

/* Parses t as JSON of one of `kinds`.  Lists and objects may have real line ends in their strings, and may be Python literals, which the template
 * itself shows to the model. */
static bool fits_json(struct text t, unsigned kinds, struct pyjson *v, struct arena *a)
{
    bool nested = kinds & (1u << PY_LIST | 1u << PY_DICT);
    return (pyjson_parse(v, t, nested ? PYJSON_LENIENT : PYJSON_FINITE, a, NULL) || (nested && pyjson_parse(v, t, PYJSON_LITERAL, a, NULL))) &&
           (kinds & 1u << v->kind);
}

/* Reads a text as a value of the type.  False if it is not one. */
static bool fits(enum type type, struct text t, struct pyjson *v, struct arena *a)
{
    switch (type) {
    case BOOLEAN: return fits_boolean(t, v);
    case INTEGER: return fits_integer(t, v, a);
    case NUMBER:  return fits_json(t, 1u << PY_INT | 1u << PY_FLOAT, v, a);
    case ARRAY:   return fits_json(t, 1u << PY_LIST, v, a);
    case OBJECT:  return fits_json(t, 1u << PY_DICT, v, a);
    default:      return false;
    }
}

/* Reads a value in quotes, if the schema allows no string, as the text within the quotes. */
static bool fits_quoted(const struct param *p, struct text t, struct pyjson *v, struct arena *a)
{
    struct pyjson inner;
    if (p->types & 1u << STRING || t.n < 2 || (t.p[0] != '"' && t.p[0] != '\''))
        return false;
    if (!pyjson_parse(&inner, t, t.p[0] == '"' ? PYJSON_LENIENT : PYJSON_LITERAL, a, NULL) || inner.kind != PY_STR)
        return false;
    *v = schema_value(p, inner.text, a);
    return v->kind != PY_STR;
}

bool schema_is_string(const struct param *p)
{
    return !p || !(p->types & ~(1u << STRING));
}

struct pyjson schema_value(const struct param *p, struct text value, struct arena *a)
{
    struct text bare = text_trim(value);
    unsigned types = p ? p->types : 0;
    bool typed = types & ~(1u << STRING);
    struct pyjson v = {0};
    if (typed && (is_word(bare, "null") || is_word(bare, "none")))
        return (struct pyjson){.kind = PY_NONE};
    for (enum type t = 0; typed && t < STRING; t++)
        if (types & 1u << t && fits(t, bare, &v, a))
            return v;
    if (typed && fits_quoted(p, bare, &v, a))
        return v;
    return pyjson_string((struct text){arena_strndup(a, value.n ? value.p : "", value.n), value.n});
}

struct pyjson schema_string(const struct param *p, struct text value, struct arena *a)
{
    return p && p->types && !(p->types & 1u << STRING) ? schema_value(p, value, a) : pyjson_string(value);
}
