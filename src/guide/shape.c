#include "guide/shape.h"

#include <stdlib.h>
#include <string.h>

#include "guide/pattern.h"

enum { N_LOOKS = 256, N_DEPTH = 200, N_PROBE = 2, N_NEGATE = 8, N_CLAUSES = 64 };

/* Persistent lists, so that a branch copies nothing. */
struct todo { struct clause clause; const struct fact *fact; const struct todo *next; };
struct choice { const struct todo **option; int n; const struct choice *next; };

struct branch {
    unsigned             types;
    const struct fact   *facts;
    const struct todo   *todo, *seen;
    const struct choice *choices;
    int                  depth;
};

void shapes_refuse(struct shapes *s, const struct pyjson *schema, const char *keyword, const char *why)
{
    struct buf place = {0};
    if (s->probing) {
        s->unsure = true;
        return;
    }
    document_place(s->doc, schema, &place);
    if (s->loose && s->notes)
        buf_addf(s->notes, "%s: \"%s\" is checked afterwards only\n", buf_str(&place), keyword);
    else if (!s->loose && !s->failed)
        err_set(s->e, "%s: \"%s\" cannot be enforced%s%s", buf_str(&place), keyword, *why ? ": " : "", why);
    s->failed |= !s->loose;
    buf_free(&place);
}

/* Refuses a schema that is wrong, which being loose does not help. */
static bool wrong(struct shapes *s, const struct pyjson *schema, const char *keyword, const char *why)
{
    struct buf place = {0};
    document_place(s->doc, schema, &place);
    if (!s->failed)
        err_set(s->e, "%s: \"%s\" %s", buf_str(&place), keyword, why);
    buf_free(&place);
    s->failed = true;
    return false;
}

static struct clause whole(const struct pyjson *schema, bool negated)
{
    return (struct clause){schema, negated, -1, -1};
}

static const struct todo *with(struct shapes *s, const struct todo *list, struct clause c)
{
    struct todo *t = arena_alloc(&s->doc->arena, sizeof *t);
    *t = (struct todo){.clause = c, .next = list};
    return t;
}

static const struct todo *with_fact(struct shapes *s, const struct todo *list, struct fact f)
{
    struct fact *fact = arena_alloc(&s->doc->arena, sizeof *fact);
    struct todo *t = arena_alloc(&s->doc->arena, sizeof *t);
    *fact = f;
    *t = (struct todo){.fact = fact, .next = list};
    return t;
}

/* Adds a fact to the branch. */
static void add(struct shapes *s, struct branch *b, struct fact f)
{
    struct fact *fact = arena_alloc(&s->doc->arena, sizeof *fact);
    *fact = f;
    fact->next = b->facts;
    fact->past = b->facts && b->facts->kind == FACT_NEEDED ? b->facts->past : b->facts;
    b->facts = fact;
}

static struct choice *choice_of(struct shapes *s, struct branch *b, size_t n)
{
    struct choice *c = arena_alloc(&s->doc->arena, sizeof *c);
    *c = (struct choice){.option = arena_array(&s->doc->arena, n + 1, sizeof *c->option), .next = b->choices};
    b->choices = c;
    return c;
}

/* --- Keywords --- */

enum act {
    NOTHING, TYPE, ENUM, CONST, REF, ALL_OF, ANY_OF, ONE_OF, NOT, IF, SIZE, BOUND, PATTERN, FORMAT, ITEMS, CONTAINS, UNIQUE, MEMBERS, REQUIRED,
    NAMES, DEPENDENCIES, CLOSED, OPEN_ITEMS, MULTIPLE, DYNAMIC,
};

static const struct keyword { const char *name; enum act act; unsigned types; enum fact_kind fact, opposite; int by; bool open; } keywords[] = {
    {"type", TYPE, TYPE_ANY, 0, 0, 0, false}, {"enum", ENUM, TYPE_ANY, 0, 0, 0, false}, {"const", CONST, TYPE_ANY, 0, 0, 0, false},
    {"$ref", REF, TYPE_ANY, 0, 0, 0, false}, {"$dynamicRef", DYNAMIC, TYPE_ANY, 0, 0, 0, false},
    {"$recursiveRef", DYNAMIC, TYPE_ANY, 0, 0, 0, false}, {"allOf", ALL_OF, TYPE_ANY, 0, 0, 0, false},
    {"anyOf", ANY_OF, TYPE_ANY, 0, 0, 0, false}, {"oneOf", ONE_OF, TYPE_ANY, 0, 0, 0, false}, {"not", NOT, TYPE_ANY, 0, 0, 0, false},
    {"if", IF, TYPE_ANY, 0, 0, 0, false},
    {"minimum", BOUND, TYPE_NUMBER, FACT_MIN, FACT_MAX, 0, false}, {"maximum", BOUND, TYPE_NUMBER, FACT_MAX, FACT_MIN, 0, false},
    {"exclusiveMinimum", BOUND, TYPE_NUMBER, FACT_MIN, FACT_MAX, 0, true}, {"exclusiveMaximum", BOUND, TYPE_NUMBER, FACT_MAX, FACT_MIN, 0, true},
    {"multipleOf", MULTIPLE, TYPE_NUMBER, FACT_MULTIPLE, 0, 0, false},
    {"minLength", SIZE, TYPE_STRING, FACT_MIN_LENGTH, FACT_MAX_LENGTH, -1, false},
    {"maxLength", SIZE, TYPE_STRING, FACT_MAX_LENGTH, FACT_MIN_LENGTH, 1, false},
    {"pattern", PATTERN, TYPE_STRING, FACT_PATTERN, 0, 0, false}, {"format", FORMAT, TYPE_STRING, FACT_FORMAT, 0, 0, false},
    {"minItems", SIZE, TYPE_ARRAY, FACT_MIN_ITEMS, FACT_MAX_ITEMS, -1, false},
    {"maxItems", SIZE, TYPE_ARRAY, FACT_MAX_ITEMS, FACT_MIN_ITEMS, 1, false},
    {"items", ITEMS, TYPE_ARRAY, FACT_ITEMS, 0, 0, false}, {"prefixItems", ITEMS, TYPE_ARRAY, FACT_ITEMS, 0, 0, false},
    {"additionalItems", NOTHING, TYPE_ARRAY, 0, 0, 0, false}, {"contains", CONTAINS, TYPE_ARRAY, FACT_CONTAINS, 0, 0, false},
    {"uniqueItems", UNIQUE, TYPE_ARRAY, 0, 0, 0, false}, {"unevaluatedItems", OPEN_ITEMS, TYPE_ARRAY, 0, 0, 0, false},
    {"properties", MEMBERS, TYPE_OBJECT, FACT_MEMBERS, 0, 0, false}, {"patternProperties", MEMBERS, TYPE_OBJECT, FACT_MEMBERS, 0, 0, false},
    {"additionalProperties", MEMBERS, TYPE_OBJECT, FACT_MEMBERS, 0, 0, false}, {"required", REQUIRED, TYPE_OBJECT, 0, 0, 0, false},
    {"propertyNames", NAMES, TYPE_OBJECT, FACT_NAMES, 0, 0, false},
    {"minProperties", SIZE, TYPE_OBJECT, FACT_MIN_MEMBERS, FACT_MAX_MEMBERS, -1, false},
    {"maxProperties", SIZE, TYPE_OBJECT, FACT_MAX_MEMBERS, FACT_MIN_MEMBERS, 1, false},
    {"dependencies", DEPENDENCIES, TYPE_OBJECT, 0, 0, 0, false}, {"dependentRequired", DEPENDENCIES, TYPE_OBJECT, 0, 0, 0, false},
    {"dependentSchemas", DEPENDENCIES, TYPE_OBJECT, 0, 0, 0, false}, {"unevaluatedProperties", CLOSED, TYPE_OBJECT, FACT_CLOSED, 0, 0, false},
};

static const struct keyword *keyword_of(struct text name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (text_is(name, keywords[i].name))
            return &keywords[i];
    return NULL;
}

static bool is_schema(const struct pyjson *v) { return v->kind == PY_DICT || v->kind == PY_TRUE || v->kind == PY_FALSE; }

/* Returns the types that a name stands for; 0: it is none of JSON's. */
static unsigned types_named(struct text name)
{
    static const struct { const char *name; unsigned types; } row[] = {
        {"null", TYPE_NULL}, {"boolean", TYPE_TRUE | TYPE_FALSE}, {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER}, {"string", TYPE_STRING},
        {"array", TYPE_ARRAY}, {"object", TYPE_OBJECT}, {"any", TYPE_ANY},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (text_is(name, row[i].name))
            return row[i].types;
    return 0;
}

/* Returns the type of a value; 1.0 is an integer. */
static unsigned type_of_value(const struct pyjson *v)
{
    struct decimal d;
    switch (v->kind) {
    case PY_NONE:  return TYPE_NULL;
    case PY_TRUE:  return TYPE_TRUE;
    case PY_FALSE: return TYPE_FALSE;
    case PY_STR:   return TYPE_STRING;
    case PY_LIST:  return TYPE_ARRAY;
    case PY_DICT:  return TYPE_OBJECT;
    case PY_INT: case PY_FLOAT: break;
    }
    return decimal_read(&d, v->text) && d.n > d.point ? TYPE_FRACTION : TYPE_INTEGER;
}

/* Restricts the branch to the types that "type" names, or to the others if negated. */
static bool apply_type(struct shapes *s, struct branch *b, const struct pyjson *schema, const struct pyjson *v, bool negated)
{
    unsigned types = 0;
    for (size_t i = 0; i < (v->kind == PY_LIST ? v->n : 1); i++) {
        const struct pyjson *one = v->kind == PY_LIST ? &v->items[i] : v;
        const unsigned named = one->kind == PY_STR ? types_named(one->text) : 0;
        if (!named)
            return wrong(s, schema, "type", "does not name a JSON type");
        types |= named;
    }
    const struct pyjson *nullable = pyjson_get(schema, "nullable");
    if (nullable && nullable->kind == PY_TRUE)
        types |= TYPE_NULL;
    b->types &= negated ? ~types : types;
    return true;
}

/* Narrows the types to those of an enum's values, or away from values that are alone in their type. */
static void apply_enum(struct shapes *s, struct branch *b, const struct pyjson *schema, const struct pyjson *v, bool list, bool negated)
{
    unsigned types = 0;
    for (size_t i = 0; i < (list ? v->n : 1); i++)
        types |= type_of_value(list ? &v->items[i] : v);
    b->types &= negated ? ~(types & (TYPE_NULL | TYPE_TRUE | TYPE_FALSE)) : types;
    add(s, b, (struct fact){FACT_ENUM, .schema = schema, .value = v, .n = list, .negated = negated});
}

/* Adds a bound on a count, or its opposite if negated. */
static bool apply_size(struct shapes *s, struct branch *b, const struct keyword *k, const struct pyjson *schema, const struct pyjson *v, bool negated)
{
    struct decimal d = {0};
    if ((v->kind != PY_INT && v->kind != PY_FLOAT) || !decimal_read(&d, v->text) || d.negative || d.n > d.point)
        return wrong(s, schema, k->name, "is not a count");
    int n = d.point > 9 ? 1000000000 : 0;
    for (int i = 0; i < d.point && d.point <= 9; i++)
        n = n * 10 + (i < d.n ? d.digit[i] - '0' : 0);
    n += negated ? k->by : 0;
    if (n < 0)
        b->types &= ~k->types;
    else
        add(s, b, (struct fact){negated ? k->opposite : k->fact, .schema = schema, .value = v, .n = n});
    return true;
}

/* Adds a bound on a number, or its opposite if negated. */
static bool apply_bound(struct shapes *s, struct branch *b, const struct keyword *k, const struct pyjson *schema, const struct pyjson *v,
                        bool negated)
{
    struct fact f = {negated ? k->opposite : k->fact, .schema = schema, .value = v, .open = k->open};
    if (v->kind == PY_TRUE || v->kind == PY_FALSE)              /* draft-04: a flag of minimum, maximum */
        return true;
    if ((v->kind != PY_INT && v->kind != PY_FLOAT) || !decimal_read(&f.number, v->text)) {
        shapes_refuse(s, schema, k->name, "a number of so many digits");
        return true;
    }
    const struct pyjson *flag = k->open ? NULL : pyjson_get(schema, k->fact == FACT_MIN ? "exclusiveMinimum" : "exclusiveMaximum");
    f.open |= flag && flag->kind == PY_TRUE;
    f.open ^= negated;
    add(s, b, f);
    return true;
}

/* --- Alternatives --- */

/* True if no value satisfies both schemas, as far as can be seen within a few levels. */
static bool clash(struct shapes *s, struct clause x, struct clause y)
{
    struct shape *list = NULL;
    const bool unsure = s->unsure;
    s->unsure = false;
    s->probing++;
    const bool ok = shapes_of(s, (struct clause[]){x, y}, 2, &list);
    s->probing--;
    const bool result = ok && !list && !s->unsure;
    s->unsure = unsure;
    return result;
}

/* True if "the value does not satisfy the schema" can be enforced.  Looks N_NEGATE negations deep, since a schema may be its own "not". */
static bool can_negate(struct shapes *s, const struct pyjson *schema)
{
    struct shape *list = NULL;
    const bool unsure = s->unsure;
    if (s->probing >= N_NEGATE)
        return false;
    s->unsure = false;
    s->probing++;
    const bool ok = shapes_of(s, (struct clause[]){whole(schema, true)}, 1, &list);
    for (const struct shape *h = list; h && ok; h = h->next)
        for (const struct fact *f = h->facts; f; f = f->next)
            s->unsure |= f->kind == FACT_ENUM && f->negated && (h->types & (TYPE_ARRAY | TYPE_OBJECT)) && (f->n ? f->value->n : 1) > 0 &&
                         (type_of_value(f->n ? &f->value->items[0] : f->value) & (TYPE_ARRAY | TYPE_OBJECT));
    s->probing--;
    const bool result = ok && !s->unsure;
    s->unsure = unsure;
    return result;
}

/* The branches of oneOf: each, and none of those that it may share values with. */
static void apply_one_of(struct shapes *s, struct branch *b, const struct pyjson *schema, const struct pyjson *v)
{
    struct choice *c = choice_of(s, b, v->n);
    bool loose = false;
    for (size_t i = 0; i < v->n; i++) {
        const struct todo *todo = with(s, NULL, whole(&v->items[i], false));
        for (size_t k = 0; k < v->n && !s->failed; k++) {
            if (k == i || s->probing >= N_PROBE || (v->n <= 40 && clash(s, whole(&v->items[i], false), whole(&v->items[k], false))))
                continue;
            if (can_negate(s, &v->items[k]))
                todo = with(s, todo, whole(&v->items[k], true));
            else
                loose = true;
        }
        c->option[c->n++] = todo;
    }
    if (loose && s->notes && !s->probing) {
        document_place(s->doc, schema, s->notes);
        buf_adds(s->notes, ": \"oneOf\" is enforced as \"anyOf\"\n");
    }
}

/* Adds the choice between condition with "then", and its opposite with "else". */
static void apply_if(struct shapes *s, struct branch *b, const struct pyjson *schema, const struct pyjson *condition)
{
    const struct pyjson *then = pyjson_get(schema, "then"), *otherwise = pyjson_get(schema, "else");
    if (!then && !otherwise)
        return;
    struct choice *c = choice_of(s, b, 2);
    const struct todo *todo = with(s, NULL, whole(condition, false));
    c->option[c->n++] = then ? with(s, todo, whole(then, false)) : todo;
    if (!can_negate(s, condition))
        shapes_refuse(s, schema, "if", "its condition has no opposite that can be written down");
    else {
        todo = with(s, NULL, whole(condition, true));
        c->option[c->n++] = otherwise ? with(s, todo, whole(otherwise, false)) : todo;
    }
}

/* Adds for each dependency the choice: the member is absent, or what it needs is there. */
static bool apply_dependencies(struct shapes *s, struct branch *b, const struct pyjson *schema, const struct pyjson *v, const char *name)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct pyjson *need = &v->items[i];
        struct choice *c = choice_of(s, b, 3);
        c->option[c->n++] = with_fact(s, NULL, (struct fact){FACT_ABSENT, .schema = schema, .name = v->keys[i]});
        const struct todo *todo = with_fact(s, NULL, (struct fact){FACT_NEEDED, .schema = schema, .name = v->keys[i]});
        if (need->kind == PY_LIST) {
            for (size_t k = 0; k < need->n; k++)
                todo = with_fact(s, todo, (struct fact){FACT_NEEDED, .schema = schema, .name = need->items[k].text});
        } else if (need->kind == PY_STR) {
            todo = with_fact(s, todo, (struct fact){FACT_NEEDED, .schema = schema, .name = need->text});
        } else if (is_schema(need)) {
            todo = with(s, todo, whole(need, false));
        } else {
            return wrong(s, schema, name, "has neither names nor a schema");
        }
        c->option[c->n++] = todo;
    }
    return true;
}

/* Adds the fact that the schema says something about items, once. */
static bool apply_items(struct shapes *s, struct branch *b, const struct pyjson *schema, const char *name)
{
    for (const struct fact *f = b->facts; f; f = f->next)
        if (f->kind == FACT_ITEMS && f->schema == schema)
            return true;
    const struct pyjson *items = pyjson_get(schema, "items"), *prefix = pyjson_get(schema, "prefixItems");
    if ((items && items->kind != PY_LIST && !is_schema(items)) || (prefix && prefix->kind != PY_LIST))
        return wrong(s, schema, name, "is not a schema");
    add(s, b, (struct fact){FACT_ITEMS, .schema = schema});
    return true;
}

/* Adds the fact that the schema says something about members, once. */
static bool apply_members(struct shapes *s, struct branch *b, const struct pyjson *schema, const char *name, const struct pyjson *v)
{
    if (strcmp(name, "additionalProperties") ? v->kind != PY_DICT : !is_schema(v))
        return wrong(s, schema, name, "is not an object");
    for (const struct fact *f = b->facts; f; f = f->next)
        if (f->kind == FACT_MEMBERS && f->schema == schema)
            return true;
    add(s, b, (struct fact){FACT_MEMBERS, .schema = schema});
    return true;
}

static bool is_list_of_schemas(const struct pyjson *v)
{
    bool ok = v->kind == PY_LIST && v->n > 0;
    for (size_t i = 0; i < v->n && ok; i++)
        ok = is_schema(&v->items[i]);
    return ok;
}

static bool apply_ref(struct shapes *s, struct branch *b, const struct pyjson *schema, const struct pyjson *v, bool negated)
{
    const struct pyjson *to = v->kind == PY_STR ? document_follow(s->doc, schema, v->text) : NULL;
    if (!to || !is_schema(to))
        return wrong(s, schema, "$ref", "leads to no schema of this document");
    b->todo = with(s, b->todo, whole(to, negated));
    return true;
}

/* Applies one keyword of a schema that holds.  False if there is no value left or on failure. */
static bool apply(struct shapes *s, struct branch *b, const struct pyjson *schema, const struct keyword *k, const struct pyjson *v)
{
    switch (k->act) {
    case NOTHING: break;
    case TYPE:    return apply_type(s, b, schema, v, false);
    case ENUM:
        if (v->kind != PY_LIST)
            return wrong(s, schema, "enum", "is not a list");
        apply_enum(s, b, schema, v, true, false);
        break;
    case CONST:   apply_enum(s, b, schema, v, false, false); break;
    case REF:     return apply_ref(s, b, schema, v, false);
    case DYNAMIC: case OPEN_ITEMS: shapes_refuse(s, schema, k->name, ""); break;
    case ALL_OF: case ANY_OF: case ONE_OF:
        if (!is_list_of_schemas(v))
            return wrong(s, schema, k->name, "is not a list of schemas");
        if (k->act == ALL_OF)
            for (size_t i = v->n; i-- > 0;)
                b->todo = with(s, b->todo, whole(&v->items[i], false));
        else if (k->act == ONE_OF && v->n > 1)
            apply_one_of(s, b, schema, v);
        else {
            struct choice *c = choice_of(s, b, v->n);
            for (size_t i = 0; i < v->n; i++)
                c->option[c->n++] = with(s, NULL, whole(&v->items[i], false));
        }
        break;
    case NOT:
        if (!is_schema(v))
            return wrong(s, schema, "not", "is not a schema");
        if (can_negate(s, v))
            b->todo = with(s, b->todo, whole(v, true));
        else
            shapes_refuse(s, schema, "not", "");
        break;
    case IF:      apply_if(s, b, schema, v); break;
    case SIZE:    return apply_size(s, b, k, schema, v, false);
    case BOUND:   return apply_bound(s, b, k, schema, v, false);
    case MULTIPLE: case PATTERN: case FORMAT: case CONTAINS: case NAMES: case CLOSED: {
        struct fact f = {k->fact, .schema = schema, .value = v, .clause = whole(v, false)};
        if (k->act == MULTIPLE && (v->kind == PY_INT || v->kind == PY_FLOAT) && v->text.p[0] != '-' && !decimal_read(&f.number, v->text)) {
            shapes_refuse(s, schema, k->name, "a number of so many digits");
            break;
        }
        if (k->act == MULTIPLE && (!f.number.n || f.number.negative))
            return wrong(s, schema, k->name, "is not a positive number");
        if ((k->act == PATTERN || k->act == FORMAT) ? v->kind != PY_STR : k->act != MULTIPLE && !is_schema(v))
            return wrong(s, schema, k->name, "has a value of the wrong type");
        static const char *const choices[] = {"anyOf", "oneOf", "if", "not", "dependentSchemas", "$dynamicRef"};
        for (int i = 0; i < 6 && k->act == CLOSED; i++)
            if (pyjson_get(schema, choices[i])) {
                shapes_refuse(s, schema, k->name, "beside alternatives");
                return !s->failed;
            }
        if (k->act == CLOSED && s->probing)
            break;
        add(s, b, f);
        break;
    }
    case ITEMS:   return apply_items(s, b, schema, k->name);
    case UNIQUE:
        if (v->kind == PY_TRUE && (b->types & TYPE_ARRAY)) {
            const struct pyjson *most = pyjson_get(schema, "maxItems");
            const bool few = most && most->kind == PY_INT && (text_is(most->text, "0") || text_is(most->text, "1"));
            if (!few && s->probing)
                s->unsure = true;
            else if (!few)
                add(s, b, (struct fact){FACT_UNIQUE, .schema = schema});
        }
        break;
    case MEMBERS: return apply_members(s, b, schema, k->name, v);
    case REQUIRED:
        if (v->kind != PY_LIST && v->kind != PY_TRUE && v->kind != PY_FALSE)        /* draft-03 has a flag at each property */
            return wrong(s, schema, k->name, "is not a list of names");
        if (v->n > SHAPE_NAMES)
            return wrong(s, schema, k->name, "has more than 4000 names");
        for (size_t i = 0; v->kind == PY_LIST && i < v->n; i++) {
            if (v->items[i].kind != PY_STR)
                return wrong(s, schema, k->name, "is not a list of names");
            add(s, b, (struct fact){FACT_NEEDED, .schema = schema, .name = v->items[i].text});
        }
        break;
    case DEPENDENCIES: return v->kind == PY_DICT ? apply_dependencies(s, b, schema, v, k->name) : wrong(s, schema, k->name, "is not an object");
    }
    return !s->failed;
}

/* --- Negation --- */

/* Counts the ways in which a keyword can fail to hold: its parts, of which one does not hold. */
static size_t parts_of(const struct keyword *k, const struct pyjson *v)
{
    if (k->act == ALL_OF || k->act == REQUIRED || (k->act == MEMBERS && !strcmp(k->name, "properties")))
        return v->n;
    return k->act == NOTHING ? 0 : 1;
}

/* Applies "this part of this keyword does not hold". */
static bool violate(struct shapes *s, struct branch *b, const struct clause *c)
{
    const struct pyjson *schema = c->schema, *v = &schema->items[c->keyword];
    const struct keyword *k = keyword_of(schema->keys[c->keyword]);
    const size_t i = (size_t)c->part;
    b->types &= k->types;
    switch (k->act) {
    case TYPE:  return apply_type(s, b, schema, v, true);
    case ENUM: case CONST: apply_enum(s, b, schema, v, k->act == ENUM, true); break;
    case REF:   return apply_ref(s, b, schema, v, true);
    case ALL_OF: b->todo = with(s, b->todo, whole(&v->items[i], true)); break;
    case ANY_OF:
        for (size_t n = 0; n < v->n; n++)
            b->todo = with(s, b->todo, whole(&v->items[n], true));
        break;
    case NOT:   b->todo = with(s, b->todo, whole(v, false)); break;
    case SIZE:  return apply_size(s, b, k, schema, v, true);
    case BOUND: return apply_bound(s, b, k, schema, v, true);
    case PATTERN: add(s, b, (struct fact){FACT_PATTERN, .schema = schema, .value = v, .negated = true}); break;
    case CONTAINS:
        if (pyjson_get(schema, "minContains") || pyjson_get(schema, "maxContains"))
            shapes_refuse(s, schema, "contains", "");
        add(s, b, (struct fact){FACT_EACH, .schema = schema, .clause = whole(v, true)});
        break;
    case REQUIRED: add(s, b, (struct fact){FACT_ABSENT, .schema = schema, .name = v->items[i].text}); break;
    case MEMBERS:
        if (strcmp(k->name, "properties")) {
            if (strcmp(k->name, "additionalProperties") || v->kind != PY_TRUE)
                shapes_refuse(s, schema, k->name, "below \"not\"");
            return v->kind != PY_TRUE;
        }
        add(s, b, (struct fact){FACT_NEEDED, .schema = schema, .name = v->keys[i]});
        add(s, b, (struct fact){FACT_MEMBER, .schema = schema, .name = v->keys[i], .clause = whole(&v->items[i], true)});
        break;
    default: shapes_refuse(s, schema, k->name, "below \"not\""); break;
    }
    return !s->failed;
}

/* Adds the choice of which keyword of the schema is violated.  False if it has none. */
static bool negate(struct shapes *s, struct branch *b, const struct pyjson *schema)
{
    size_t n = 0;
    for (size_t i = 0; i < schema->n; i++) {
        const struct keyword *k = keyword_of(schema->keys[i]);
        n += k && !(s->doc->old && pyjson_get(schema, "$ref") && k->act != REF) ? parts_of(k, &schema->items[i]) : 0;
    }
    if (!n)
        return false;
    struct choice *c = choice_of(s, b, n);
    for (size_t i = 0; i < schema->n; i++) {
        const struct keyword *k = keyword_of(schema->keys[i]);
        if (!k || (s->doc->old && pyjson_get(schema, "$ref") && k->act != REF))
            continue;
        for (size_t part = 0; part < parts_of(k, &schema->items[i]); part++)
            c->option[c->n++] = with(s, NULL, (struct clause){schema, true, (int)i, (int)part});
    }
    return true;
}

/* --- The search --- */

static bool same_clause(const struct clause *a, const struct clause *b)
{
    return a->schema == b->schema && a->negated == b->negated && a->keyword == b->keyword && a->part == b->part;
}

/* Applies a schema, or its opposite, to the branch, once.  False if the branch has no values left. */
static bool take_clause(struct shapes *s, struct branch *b, const struct clause *c)
{
    const struct pyjson *v = c->schema;
    int n = 0;
    for (const struct todo *t = b->seen; t; t = t->next, n++)
        if (same_clause(&t->clause, c))
            return true;
    s->steps -= n / 256;
    b->seen = with(s, b->seen, *c);
    if (v->kind != PY_DICT)
        return (v->kind != PY_FALSE) != c->negated;
    if (c->keyword >= 0)
        return violate(s, b, c);
    if (c->negated)
        return negate(s, b, v);
    const struct pyjson *ref = pyjson_get(v, "$ref");
    if (ref && s->doc->old)
        return apply_ref(s, b, v, ref, false);
    for (size_t i = 0; i < v->n; i++) {
        const struct keyword *k = keyword_of(v->keys[i]);
        if (k && !apply(s, b, v, k, &v->items[i]))
            return false;
    }
    return true;
}

bool clause_holds(struct document *d, const struct clause *c, const struct pyjson *value)
{
    return document_check(d, c->schema, value) != c->negated;
}

static bool enum_has(const struct fact *f, struct document *d, const struct pyjson *v)
{
    struct pyjson list = {.kind = PY_LIST, .items = (struct pyjson *)f->value, .n = 1};
    struct text key = text_of("enum");
    struct pyjson holder = {.kind = PY_DICT, .keys = &key, .items = f->n ? (struct pyjson *)f->value : &list, .n = 1, .cap = 1};
    return document_check(d, &holder, v) != f->negated;
}

/* True if no value is left: of the enum facts, or in a member that must be there. */
static bool is_dead(struct shapes *s, const struct branch *b)
{
    const struct fact *first = NULL;
    for (const struct fact *f = b->facts; f && !first; f = f->next)
        first = f->kind == FACT_ENUM && !f->negated ? f : NULL;
    bool left = !first;
    for (size_t i = 0; first && i < (first->n ? first->value->n : 1) && !left; i++) {
        const struct pyjson *v = first->n ? &first->value->items[i] : first->value;
        left = type_of_value(v) & b->types;
        for (const struct fact *f = b->facts; f && left; f = f->next)
            left = f->kind != FACT_ENUM || enum_has(f, s->doc, v);
    }
    if (!left || b->types != TYPE_OBJECT || s->probing > N_PROBE)
        return !left;
    const struct shape h = {.types = b->types, .facts = b->facts};
    for (const struct fact *f = b->facts; f; f = f->next) {
        struct clause list[N_CLAUSES];
        const int n = f->kind == FACT_NEEDED ? shape_member(s, &h, f->name, list, N_CLAUSES) : 0;
        if (n < 0)
            return true;
        if (n < 2 || !s->probing)
            continue;
        struct shape *shapes = NULL;
        const bool unsure = s->unsure;
        s->probing++;
        const bool ok = shapes_of(s, list, n, &shapes);
        s->probing--;
        s->unsure = unsure;
        if (ok && !shapes)
            return true;
    }
    return false;
}

/* Appends the shapes of a branch: applies what is left to do, then each option of its choices.  False after a failure. */
static bool solve(struct shapes *s, struct branch b)
{
    s->steps--;
    while (true) {
        if (s->steps < 0 || b.depth > N_DEPTH) {
            if (!s->failed)
                err_set(s->e, "the schema has too many alternatives to be enforced");
            return !(s->failed = true);
        }
        if (!b.todo)
            break;
        const struct todo *t = b.todo;
        b.todo = t->next;
        if (t->fact)
            add(s, &b, *t->fact);
        if (t->fact && (t->fact->kind == FACT_ABSENT) && t->fact->schema)
            continue;
        if (!t->fact && !take_clause(s, &b, &t->clause))
            return !s->failed;
        if (!b.types)
            return true;
    }
    if (is_dead(s, &b))
        return !s->failed;
    if (!b.choices) {
        struct shape *h = arena_alloc(&s->doc->arena, sizeof *h);
        *h = (struct shape){b.types, b.facts, NULL};
        *s->end = h;
        s->end = &h->next;
        return true;
    }
    const struct choice *c = b.choices;
    b.choices = c->next;
    b.depth++;
    for (int i = 0; i < c->n; i++) {
        b.todo = c->option[i];
        if (!solve(s, b))
            return false;
    }
    return true;
}

bool shapes_of(struct shapes *s, const struct clause *clause, int n, struct shape **list)
{
    struct branch b = {.types = TYPE_ANY};
    struct shape **const outer = s->end;
    for (int i = n - 1; i >= 0; i--)
        b.todo = with(s, b.todo, clause[i]);
    *list = NULL;
    s->end = list;
    const bool ok = solve(s, b);
    s->end = outer;
    return ok;
}

/* --- Members --- */

static bool pattern_matches(struct shapes *s, const struct pyjson *schema, struct text pattern, struct text name)
{
    uint32_t term;
    struct err e = {0};
    if (pattern_term(s->doc->terms, pattern, false, &term, &e))
        return term_matches(s->doc->terms, term, name);
    shapes_refuse(s, schema, "patternProperties", e.msg);
    return false;
}

/* Appends the clauses that one schema has for a member to the n in the list; returns how many the list then has. */
static int put_member(struct shapes *s, const struct pyjson *schema, struct text name, struct clause *list, int n, int max)
{
    const struct pyjson *properties = pyjson_get(schema, "properties"), *patterns = pyjson_get(schema, "patternProperties");
    const struct pyjson *more = pyjson_get(schema, "additionalProperties"), *own = properties ? pyjson_item(properties, name) : NULL;
    bool known = own;
    if (own && n < max)
        list[n++] = whole(own, false);
    for (size_t i = 0; patterns && i < patterns->n; i++)
        if (pattern_matches(s, schema, patterns->keys[i], name)) {
            known = true;
            if (n < max)
                list[n++] = whole(&patterns->items[i], false);
        }
    if (!known && more && n < max)
        list[n++] = whole(more, false);
    return n;
}

int shape_member(struct shapes *s, const struct shape *shape, struct text name, struct clause *list, int max)
{
    const struct pyjson key = pyjson_string(name);
    int n = 0;
    for (const struct fact *f = shape->facts; f && n < max; f = f->kind == FACT_NEEDED ? f->past : f->next) {
        s->looked++;
        if (f->kind == FACT_MEMBERS)
            n = put_member(s, f->schema, name, list, n, max);
        else if (f->kind == FACT_MEMBER && text_same(f->name, name))
            list[n++] = f->clause;
        else if ((f->kind == FACT_ABSENT && text_same(f->name, name)) || (f->kind == FACT_NAMES && !clause_holds(s->doc, &f->clause, &key)))
            return -1;
    }
    int kept = 0;
    for (int i = 0; i < n; i++) {
        const struct pyjson *v = list[i].schema;
        if (v->kind != PY_DICT && (v->kind == PY_FALSE) != list[i].negated)
            return -1;
        if (v->kind == PY_DICT)
            list[kept++] = list[i];
    }
    s->steps -= s->looked / N_LOOKS;
    s->looked %= N_LOOKS;
    if (n == max)
        shapes_refuse(s, shape->facts->schema, "properties", "so many schemas of one member");
    return kept;
}
