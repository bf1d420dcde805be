#include "guide/values.h"

#include <stdlib.h>
#include <string.h>

#include "guide/pattern.h"
#include "guide/values_state.h"

/* --- Rules --- */

static int compare_clauses(const void *a, const void *b)
{
    const struct clause *x = a, *y = b;
    return x->schema != y->schema ? (x->schema > y->schema) - (x->schema < y->schema) : (int)x->negated - (int)y->negated;
}

static uint64_t hash_clauses(const struct clause *c, int n)
{
    uint64_t h = 7;
    for (int i = 0; i < n; i++)
        h = (h ^ ((uintptr_t)c[i].schema >> 3) ^ (uint64_t)c[i].negated << 60) * 0x9E3779B97F4A7C15u, h ^= h >> 31;
    return h;
}

/* Returns the rule of a set of clauses, made if there is none, -1 on failure. */
static int rule_of(struct values *v, const struct clause *list, int n)
{
    struct clause c[N_CLAUSES];
    int k = 0;
    memcpy(c, list, (size_t)n * sizeof *c);
    qsort(c, (size_t)n, sizeof *c, compare_clauses);
    for (int i = 0; i < n; i++)
        if (!k || compare_clauses(&c[k - 1], &c[i]))
            c[k++] = c[i];
    size_t i = hash_clauses(c, k) & (v->n_slots - 1);
    for (; v->slot[i]; i = (i + 1) & (v->n_slots - 1)) {
        const struct rule *r = &v->rule[v->slot[i] - 1];
        bool same = r->n == k;
        for (int m = 0; m < k && same; m++)
            same = !compare_clauses(&r->clause[m], &c[m]);
        if (same)
            return (int)v->slot[i] - 1;
    }
    const int most = (int)v->n_slots / 3;
    if (v->n_rules == most) {
        if (!v->shapes.failed)
            err_set(v->shapes.e, "the schema has more than %d combinations of parts", most);
        v->shapes.failed = true;
        return -1;
    }
    v->rule = memory_grow(v->rule, v->n_rules, &v->cap_rules, sizeof *v->rule);
    struct clause *copy = arena_array(v->arena, (size_t)k + 1, sizeof *copy);
    memcpy(copy, c, (size_t)k * sizeof *c);
    v->rule[v->n_rules] = (struct rule){.clause = copy, .n = k};
    v->slot[i] = (uint32_t)++v->n_rules;
    return v->n_rules - 1;
}

/* --- Arrays --- */

/* Lists the clauses for item i; returns how many, or -1 if there may be no such item. */
static int item_clauses(struct values *v, const struct shape *h, size_t i, struct clause *list)
{
    int n = 0;
    for (const struct fact *f = h->facts; f && n < N_CLAUSES - 1; f = f->next) {
        const struct pyjson *items = f->kind == FACT_ITEMS ? pyjson_get(f->schema, "items") : NULL;
        const struct pyjson *prefix = f->kind == FACT_ITEMS ? pyjson_get(f->schema, "prefixItems") : NULL;
        if (items && items->kind == PY_LIST) {
            prefix = items;
            items = pyjson_get(f->schema, "additionalItems");
        }
        const struct pyjson *one = prefix && i < prefix->n ? &prefix->items[i] : items;
        if (f->kind == FACT_EACH)
            list[n++] = f->clause;
        else if (one && one->kind == PY_FALSE)
            return -1;
        else if (one && one->kind == PY_DICT)
            list[n++] = (struct clause){one, false, -1, -1};
    }
    (void)v;
    return n;
}

/* Lists the values of an item by their terms, so that each comes once, or refuses the keyword: they are too many, or not known one by one. */
static void list_unique(struct values *v, struct array *a, const struct fact *unique, const struct clause *clause, int n)
{
    struct shape *shapes = NULL;
    a->unique = arena_array(v->arena, N_UNIQUE, sizeof *a->unique);
    bool ok = !a->n_prefix && a->contains < 0 && n > 0 && shapes_of(&v->shapes, clause, n, &shapes);
    for (const struct shape *h = shapes; h && ok; h = h->next) {
        const struct fact *f = h->facts;
        while (f && (f->kind != FACT_ENUM || f->negated))
            f = f->next;
        ok = f;
        for (size_t i = 0; ok && i < (f->n ? f->value->n : 1); i++) {
            const struct pyjson *one = f->n ? &f->value->items[i] : f->value;
            const uint32_t term = scalar_value(v, one);
            bool known = false, holds = true;
            for (int k = 0; k < a->n_unique; k++)
                known |= !term_is_none(v->t, term_and(v->t, a->unique[k], term));       /* as 1 and 1.0 are */
            for (int k = 0; k < n; k++)
                holds &= clause_holds(v->shapes.doc, &clause[k], one);
            if (known || !holds)
                continue;
            ok = a->n_unique < N_UNIQUE && one->kind != PY_LIST && one->kind != PY_DICT;
            if (ok)
                a->unique[a->n_unique++] = term;
        }
    }
    if (ok && a->n_unique) {
        a->max = a->max < a->n_unique ? a->max : a->n_unique;
        return;
    }
    a->n_unique = 0;
    if (!v->shapes.failed && a->max > 1)
        shapes_refuse(&v->shapes, unique->schema, "uniqueItems", "");
}

/* Collects the facts about an array: counts, prefix, items, contains.  NULL if no array can have them. */
static struct array *build_array(struct values *v, const struct shape *h)
{
    struct array *a = arena_alloc(v->arena, sizeof *a);
    *a = (struct array){.max = MANY, .contains = -1, .rest = -1};
    const struct fact *contains = NULL, *unique = NULL;
    size_t n_prefix = 0;
    for (const struct fact *f = h->facts; f; f = f->next) {
        if (f->kind == FACT_MIN_ITEMS && f->n > a->min)
            a->min = f->n;
        unique = f->kind == FACT_UNIQUE ? f : unique;
        if (f->kind == FACT_MAX_ITEMS && f->n < a->max)
            a->max = f->n;
        if (f->kind == FACT_CONTAINS) {
            const struct pyjson *least = pyjson_get(f->schema, "minContains");
            const bool none = least && least->kind == PY_INT && text_is(least->text, "0");
            if (pyjson_get(f->schema, "maxContains") || (least && !none && !text_is(least->text, "1")) || contains)
                shapes_refuse(&v->shapes, f->schema, "contains", "with counts, or twice");
            else if (!none)
                contains = f;
        }
        static const char *const lists[] = {"prefixItems", "items"};
        for (int k = 0; k < 2 && f->kind == FACT_ITEMS; k++) {
            const struct pyjson *list = pyjson_get(f->schema, lists[k]);
            if (list && list->kind == PY_LIST && list->n > n_prefix)
                n_prefix = list->n;
        }
    }
    a->prefix = arena_array(v->arena, n_prefix + 1, sizeof *a->prefix);
    struct clause list[N_CLAUSES];
    for (size_t i = 0; i <= n_prefix; i++) {
        const int n = item_clauses(v, h, i, list);
        if (n < 0) {
            a->max = a->max < (int)i ? a->max : (int)i;
            if (unique && a->max > 1)
                shapes_refuse(&v->shapes, unique->schema, "uniqueItems", "");
            break;
        }
        if (i == n_prefix)
            a->rest = rule_of(v, list, n);
        else
            a->prefix[a->n_prefix++] = rule_of(v, list, n);
        if (contains && i == n_prefix && n < N_CLAUSES) {
            list[n] = contains->clause;
            a->contains = contains->clause.schema->kind == PY_DICT ? rule_of(v, list, n + 1) : a->rest;
        }
        if (unique && i == n_prefix)
            list_unique(v, a, unique, list, n);
    }
    if (contains && (n_prefix || contains->clause.schema->kind == PY_FALSE))
        shapes_refuse(&v->shapes, contains->schema, "contains", "beside the items of a tuple");
    if (contains && a->min < 1)
        a->min = 1;
    return a->min > a->max ? NULL : a;
}

/* --- Objects --- */

/* Adds a member by its name, once. */
static void add_member(struct values *v, struct object *o, int *cap, const struct shape *h, struct text name)
{
    struct clause list[N_CLAUSES];
    struct buf key = {0};
    if (v->shapes.failed || pyjson_item(&o->names, name))
        return;
    if (o->n == SHAPE_NAMES) {
        shapes_refuse(&v->shapes, h->facts->schema, "properties", "there are more than 4000");
        return;
    }
    const int n = shape_member(&v->shapes, h, name, list, N_CLAUSES);
    struct member m = {.name = name, .absent = n < 0, .needed = pyjson_item(&o->needed, name)};
    pyjson_set(&o->names, name, (struct pyjson){.kind = PY_TRUE}, v->arena);
    if (n >= 0) {
        m.rule = rule_of(v, list, n);
        pyjson_quote(name, &key);
        m.key = term_literal(v->t, (struct text){key.data, key.len});
        buf_free(&key);
    }
    o->member = arena_grow(v->arena, o->member, o->n, cap, sizeof m);
    o->member[o->n++] = m;
}

/* Returns the term of the names that propertyNames leaves: all texts, or those of its strings. */
static uint32_t names_term(struct values *v, const struct shape *h, struct object *o, int *cap, bool *finite)
{
    uint32_t all = scalar_any_text(v);
    for (const struct fact *f = h->facts; f; f = f->next) {
        struct shape *list;
        uint32_t some = TERM_NONE;
        if (f->kind != FACT_NAMES)
            continue;
        if (!shapes_of(&v->shapes, &f->clause, 1, &list))
            return TERM_NONE;
        for (; list; list = list->next) {
            const struct fact *e = list->facts;
            while (e && !(e->kind == FACT_ENUM && !e->negated))
                e = e->next;
            for (size_t i = 0; e && i < (e->n ? e->value->n : 1); i++) {
                const struct pyjson *one = e->n ? &e->value->items[i] : e->value;
                if (one->kind == PY_STR)
                    add_member(v, o, cap, h, one->text);
            }
            if (!e && (list->types & TYPE_STRING))
                some = term_alt(v->t, some, scalar_strings(v, list));
        }
        *finite |= some == TERM_NONE;
        all = term_and(v->t, all, some);
    }
    return all;
}

struct patterns { struct text text[N_GROUPS]; uint32_t term[N_GROUPS]; int n; };

/* Collects the patterns of names, each once. */
static void collect_patterns(struct values *v, const struct shape *h, struct patterns *p)
{
    for (const struct fact *f = h->facts; f; f = f->next) {
        const struct pyjson *table = f->kind == FACT_MEMBERS ? pyjson_get(f->schema, "patternProperties") : NULL;
        for (size_t i = 0; table && i < table->n; i++) {
            struct err e = {0};
            int k = 0;
            while (k < p->n && !text_same(p->text[k], table->keys[i]))
                k++;
            if (k < p->n)
                continue;
            if (p->n == N_GROUPS || !pattern_term(v->t, table->keys[i], false, &p->term[p->n], &e))
                shapes_refuse(&v->shapes, f->schema, "patternProperties", p->n == N_GROUPS ? "more than six patterns" : e.msg);
            else
                p->text[p->n++] = table->keys[i];
        }
    }
}

/* Lists the clauses for the keys that match exactly the patterns of a set; returns how many, or -1 if there must be no such key. */
static int group_clauses(const struct shape *h, const struct patterns *p, unsigned set, struct clause *list)
{
    bool evaluated = set != 0;
    int n = 0;
    for (const struct fact *f = h->facts; f; f = f->next) {
        const struct pyjson *table = f->kind == FACT_MEMBERS ? pyjson_get(f->schema, "patternProperties") : NULL;
        const struct pyjson *more = f->kind == FACT_MEMBERS ? pyjson_get(f->schema, "additionalProperties") : NULL;
        bool known = false;
        for (int k = 0; k < p->n && table; k++) {
            const struct pyjson *one = set >> k & 1 ? pyjson_item(table, p->text[k]) : NULL;
            known |= one != NULL;
            if (one && n < N_CLAUSES)
                list[n++] = (struct clause){one, false, -1, -1};
        }
        if (!known && more && n < N_CLAUSES)
            list[n++] = (struct clause){more, false, -1, -1};
        evaluated |= more != NULL;
    }
    for (const struct fact *f = h->facts; f; f = f->next)
        if (f->kind == FACT_CLOSED && !evaluated && n < N_CLAUSES)
            list[n++] = f->clause;
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (list[i].schema->kind == PY_FALSE)
            return -1;
        if (list[i].schema->kind == PY_DICT)
            list[kept++] = list[i];
    }
    return kept;
}

/* Counts the keys that can be written, up to `most` or 1. */
static int count_keys(struct values *v, uint32_t keys, int most)
{
    const uint32_t written = term_string(v->t, keys, true);
    if (term_least(v->t, written) > VALUES_KEY_MAX)
        return 0;
    if (most <= 1)
        return 1;
    uint64_t plain[4] = {~0ull << ' ', ~0ull >> 1};                     /* what is written as it is, which is quicker to count */
    plain['"' / 64] &= ~(1ull << '"' % 64), plain['\\' / 64] &= ~(1ull << '\\' % 64);
    const uint32_t some = term_alt(v->t, term_bytes_of(v->t, plain), term_char(v->t, 0x80, 0x10FFFF));
    const int n = term_count(v->t, term_and(v->t, keys, term_repeat(v->t, some, 0, TERM_INFINITE)), VALUES_KEY_MAX - 1, most);
    return n < most ? term_count(v->t, written, VALUES_KEY_MAX, most) : n;
}

/* Divides the names that are no members into groups, by the set of patterns that they match. */
static void build_groups(struct values *v, const struct shape *h, struct object *o, uint32_t names)
{
    struct patterns p = {0};
    uint32_t others = scalar_any_text(v);       /* names that are no members */
    collect_patterns(v, h, &p);
    struct text *known = memory_alloc((size_t)(o->n + 1) * sizeof *known);
    for (int i = 0; i < o->n; i++)
        known[i] = o->member[i].name;
    if (o->n)
        others = term_and(v->t, others, term_not(v->t, term_one_of(v->t, known, o->n)));
    for (const struct fact *f = h->facts; f; f = f->next)
        if (f->kind == FACT_ABSENT)
            others = term_and(v->t, others, term_not(v->t, term_literal(v->t, f->name)));
    free(known);
    o->group = arena_array(v->arena, (size_t)1 << p.n, sizeof *o->group);
    for (unsigned set = 0; set < 1u << p.n; set++) {
        struct clause list[N_CLAUSES];
        const int n = group_clauses(h, &p, set, list);
        uint32_t keys = names;
        if (n < 0)
            continue;
        bool open = term_is_open(v->t, names);
        for (int k = 0; k < p.n; k++) {
            open &= term_is_open(v->t, p.term[k]);
            keys = set >> k & 1 ? term_and(v->t, keys, p.term[k]) : keys;
        }
        if (open && keys != scalar_any_text(v))         /* it matches in time, and then ends wherever it likes */
            keys = term_cat(v->t, keys, scalar_any_text(v));
        for (int k = 0; k < p.n; k++)
            keys = set >> k & 1 ? keys : term_and(v->t, keys, term_not(v->t, p.term[k]));
        keys = term_and(v->t, keys, others);
        const int n_keys = term_is_none(v->t, keys) ? 0 : count_keys(v, keys, o->min < N_KEYS ? o->min : N_KEYS);
        if (n_keys)
            o->group[o->n_groups++] = (struct group){keys, rule_of(v, list, n), n_keys};
    }
}

/* Collects the facts about an object: counts, members, groups of names.  NULL if no object can have them. */
static struct object *build_object(struct values *v, const struct rule *r, const struct shape *h)
{
    struct object *o = arena_alloc(v->arena, sizeof *o);
    const struct fact *order[256];
    int n_order = 0, cap = 0;
    bool finite = false;
    *o = (struct object){.max = MANY, .names = {.kind = PY_DICT}, .needed = {.kind = PY_DICT}};
    for (const struct fact *f = h->facts; f; f = f->next) {
        if (f->kind == FACT_NEEDED)
            pyjson_set(&o->needed, f->name, (struct pyjson){.kind = PY_TRUE}, v->arena);
        if (f->kind == FACT_MIN_MEMBERS && f->n > o->min)
            o->min = f->n;
        if (f->kind == FACT_MAX_MEMBERS && f->n < o->max)
            o->max = f->n;
        if (f->kind == FACT_CLOSED && (v->alternatives || !(r->n == 1 && r->clause[0].schema == f->schema)))
            shapes_refuse(&v->shapes, f->schema, "unevaluatedProperties", "beside other schemas or alternatives");
        if (f->kind == FACT_MEMBERS && n_order < 256)
            order[n_order++] = f;
    }
    while (n_order-- > 0) {                             /* facts are kept last first */
        const struct pyjson *table = pyjson_get(order[n_order]->schema, "properties");
        for (size_t i = 0; table && i < table->n; i++)
            add_member(v, o, &cap, h, table->keys[i]);
    }
    for (const struct fact *f = h->facts; f; f = f->next)
        if (f->kind == FACT_NEEDED || f->kind == FACT_MEMBER)
            add_member(v, o, &cap, h, f->name);
    const uint32_t names = names_term(v, h, o, &cap, &finite);
    if (!finite)
        build_groups(v, h, o, names);
    for (int i = 0; i < o->n; i++)
        if (o->member[i].needed && o->member[i].absent)
            return NULL;
    return o;
}

/* --- Compilation --- */

/* Refuses lists of excluded values that leave arrays or objects to be told apart. */
static void refuse_excluded(struct values *v, const struct shape *h)
{
    for (const struct fact *f = h->facts; f; f = f->next)
        for (size_t i = 0; f->kind == FACT_ENUM && f->negated && i < (f->n ? f->value->n : 1); i++)
            if (scalar_types(f->n ? &f->value->items[i] : f->value) & h->types & (TYPE_ARRAY | TYPE_OBJECT)) {
                shapes_refuse(&v->shapes, f->schema, f->n ? "enum" : "const", "an array or object below \"not\"");
                return;
            }
}

/* Refuses a rule whose terms went beyond a bound, by its place. */
static void refuse_large(struct values *v, const struct rule *r)
{
    struct buf place = {0};
    if (!(terms_full(v->t) | terms_unsure(v->t) | v->doc.worn) || v->shapes.failed)
        return;
    if (r->n)
        document_place(&v->doc, r->clause[0].schema, &place);
    v->shapes.failed = !err_set(v->shapes.e, v->doc.worn ? "%s: to check the constants takes too many steps"
                                                         : "%s: the values need too many states to be enforced", buf_str(&place));
    buf_free(&place);
}

/* Refuses a rule with so many kinds of objects that to look a byte up in all of them takes more work than a token may (measured, for an object, a
 * member, names that are free). */
static void refuse_wide(struct values *v, const struct rule *r)
{
    enum { OBJECT = 64, MEMBER = 32, NAMES = 350, MOST = 500000 };
    struct buf place = {0};
    int n = 0, work = 0;
    for (const struct object *o = r->objects; o; o = o->next, n++)
        work += OBJECT + MEMBER * o->n + (o->n_groups ? NAMES : 0);
    if (n < 2 || work <= MOST || v->shapes.failed)
        return;
    document_place(&v->doc, r->clause[0].schema, &place);
    v->shapes.failed = !err_set(v->shapes.e, "%s: its alternatives give %d or more kinds of objects, too many to tell apart while one is written; "
                                             "have fewer, or \"additionalProperties\": false in each", buf_str(&place), n);
    buf_free(&place);
}

/* Adds the values of a shape to the rule: scalars as a term, arrays and objects by their description. */
static void compile_shape(struct values *v, int rule, const struct shape *h)
{
    uint32_t id[6] = {0}, texts;
    struct rule r = v->rule[rule];
    if (scalar_listed(v, &r, h, &id[0], &texts)) {
        v->rule[rule].scalars = term_alt(v->t, r.scalars, id[0]);
        return;
    }
    refuse_excluded(v, h);
    static const struct { unsigned type; const char *text; } words[] = {{TYPE_NULL, "null"}, {TYPE_TRUE, "true"}, {TYPE_FALSE, "false"}};
    for (int i = 0; i < 3; i++)
        id[i] = h->types & words[i].type ? literal(v, words[i].text) : TERM_NONE;
    id[3] = h->types & TYPE_NUMBER ? scalar_numbers(v, h) : TERM_NONE;
    id[4] = h->types & TYPE_STRING ? scalar_quoted(v, scalar_strings(v, h)) : TERM_NONE;
    id[5] = r.scalars;
    const uint32_t scalars = term_alts(v->t, id, 6);
    struct array *a = h->types & TYPE_ARRAY ? build_array(v, h) : NULL;
    struct object *o = h->types & TYPE_OBJECT ? build_object(v, &r, h) : NULL;
    v->rule[rule].scalars = scalars;
    if (a) {
        a->next = v->rule[rule].arrays;
        v->rule[rule].arrays = a;
    }
    if (o) {
        o->next = v->rule[rule].objects;
        v->rule[rule].objects = o;
    }
}

/* True if the object has a value that ends, with the rules known so far to have one. */
static bool has_value(const struct values *v, const struct object *o)
{
    int needed = 0, n = 0;
    for (int i = 0; i < o->n; i++) {
        const bool may = !o->member[i].absent && v->rule[o->member[i].rule].productive;
        if (o->member[i].needed && !may)
            return false;
        needed += o->member[i].needed;
        n += may;
    }
    for (int i = 0; i < o->n_groups && n < o->min; i++)
        n += v->rule[o->group[i].rule].productive ? o->group[i].n_keys : 0;
    return n >= o->min && needed <= o->max && o->min <= o->max;
}

/* True if the rule has a value that ends, with the rules known so far to have one. */
static bool is_productive(const struct values *v, const struct rule *r)
{
    if (r->scalars != TERM_NONE)
        return true;
    for (const struct array *a = r->arrays; a; a = a->next) {
        bool ok = a->contains < 0 || v->rule[a->contains].productive;
        for (int i = 0; i < a->min && i <= a->n_prefix && ok; i++)
            ok = v->rule[i < a->n_prefix ? a->prefix[i] : a->rest].productive;
        if (ok)
            return true;
    }
    for (const struct object *o = r->objects; o; o = o->next)
        if (has_value(v, o))
            return true;
    return false;
}

/* Marks the rules that some finite value satisfies. */
static void find_productive(struct values *v)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = v->n_rules - 1; i >= 0; i--)
            if (!v->rule[i].productive && is_productive(v, &v->rule[i]))
                more = v->rule[i].productive = true;
    }
}

/* Takes out the members, items, objects and arrays that no finite value has. */
static void prune(struct values *v)
{
    for (int i = 0; i < v->n_rules; i++) {
        struct object **to = &v->rule[i].objects;
        for (struct object *o = *to; o; o = o->next) {
            int kept = 0;
            *to = has_value(v, o) ? o : o->next;
            to = *to == o ? &o->next : to;
            for (int k = 0; k < o->n; k++)
                o->member[k].absent |= !o->member[k].absent && !v->rule[o->member[k].rule].productive;
            for (int k = 0; k < o->n_groups; k++)
                if (v->rule[o->group[k].rule].productive)
                    o->group[kept++] = o->group[k];
            o->n_groups = kept;
        }
        for (struct array *a = v->rule[i].arrays; a; a = a->next)
            for (int k = a->n_prefix; k >= 0; k--) {
                const int rule = k < a->n_prefix ? a->prefix[k] : a->rest;
                if (rule < 0 || !v->rule[rule].productive)
                    a->max = a->max < k ? a->max : k;
            }
    }
}

/* Makes the rules that the caller will use. */
static void add_roots(struct values *v, bool members)
{
    const struct clause root = {&v->doc.root, false, -1, -1};
    const struct pyjson *properties = pyjson_get(&v->doc.root, "properties");
    if (!members) {
        rule_of(v, &root, 1);
        return;
    }
    v->member = arena_array(v->arena, (properties ? properties->n : 0) + 1, sizeof *v->member);
    for (size_t i = 0; properties && i < properties->n; i++) {
        const struct clause c = {&properties->items[i], false, -1, -1};
        v->member[i] = rule_of(v, &c, c.schema->kind != PY_TRUE);
    }
    const struct pyjson *more = pyjson_get(&v->doc.root, "additionalProperties");
    const struct clause c = {more, false, -1, -1};
    v->member[properties ? properties->n : 0] = rule_of(v, &c, more && more->kind != PY_TRUE);
}

int values_member(struct values *v, size_t i) { return v->member[i]; }

struct values *values_new(struct terms *t, struct text schema, int number, const struct values_options *o, struct err *e)
{
    struct values_budget own = values_budget, *left = o && o->budget ? o->budget : &own;
    struct values *v = memory_zeroed(1, sizeof *v);
    v->t = t;
    v->number = number;
    v->ordered = o && o->ordered;
    v->plain = o && o->plain;
    v->arena = &v->doc.arena;
    v->shapes = (struct shapes){.doc = &v->doc, .notes = o ? o->notes : NULL, .loose = o && o->loose, .e = e, .steps = left->steps};
    const int n_before = terms_count(t);
    if (!document_read(&v->doc, schema, t, e)) {
        values_free(v);
        return NULL;
    }
    const uint64_t before = terms_work(t);
    terms_allow(t, (uint32_t)left->terms);
    terms_allow_work(t, (uint64_t)left->work);
    v->n_slots = o && o->members ? 8192 : 65536;
    v->slot = memory_zeroed(v->n_slots, sizeof *v->slot);
    add_roots(v, o && o->members);
    for (int i = 0; i < v->n_rules && !v->shapes.failed && !terms_full(t); i++) {
        struct shape *list;
        const struct rule r = v->rule[i];
        if (!shapes_of(&v->shapes, r.clause, r.n, &list))
            break;
        v->alternatives = list && list->next;
        for (int n = 1; list && !v->shapes.failed; list = list->next, n++) {
            compile_shape(v, i, list);
            if (n % 64 == 0 || !list->next)
                refuse_wide(v, &v->rule[i]);
        }
        refuse_large(v, &r);
    }
    left->work -= terms_work(t) - before < (uint64_t)left->work ? (int)(terms_work(t) - before) : left->work;
    left->steps = v->shapes.steps > 0 ? v->shapes.steps : 0;
    left->terms = left->terms > terms_count(t) - n_before ? left->terms - (terms_count(t) - n_before) : 0;
    if (v->shapes.failed) {
        values_free(v);
        return NULL;
    }
    terms_allow(t, UINT32_MAX);
    terms_allow_work(t, UINT64_MAX);
    find_productive(v);
    prune(v);
    return v;
}

void values_free(struct values *v)
{
    if (!v)
        return;
    for (int i = 0; i < v->n_keys; i++)
        free((char *)v->keys[i].key.p);
    for (int i = 0; i < v->n_between; i++)
        free(v->between[i].done);
    free(v->keys);
    free(v->array);
    free(v->between);
    free(v->moved);
    free(v->slot);
    free(v->rule);
    document_free(&v->doc);
    free(v);
}

uint32_t values_term(struct values *v, int rule)
{
    return v->rule[rule].productive ? term_lazy(v->t, v->number << VALUES_BITS | VALUES_RULE, (uint32_t)rule, 0) : TERM_NONE;
}

uint32_t values_others(struct values *v, int rule)
{
    static const char first[] = "-0123456789tfn[{";
    const uint32_t all = values_term(v, rule);
    uint32_t list[sizeof first] = {0};
    for (int i = 0; first[i]; i++)
        list[i] = term_cat(v->t, term_range(v->t, first[i], first[i]), term_next(v->t, all, (uint8_t)first[i], (struct text){0}));
    return term_alts(v->t, list, sizeof first - 1);
}

uint32_t values_strings(struct values *v, int rule)
{
    struct shape *list;
    uint32_t all = TERM_NONE;
    const struct rule r = v->rule[rule];
    if (!shapes_of(&v->shapes, r.clause, r.n, &list))
        return TERM_NONE;
    for (; list; list = list->next) {
        uint32_t id, texts = TERM_NONE;
        if (!scalar_listed(v, &r, list, &id, &texts))
            texts = list->types & TYPE_STRING ? scalar_strings(v, list) : TERM_NONE;
        all = term_alt(v->t, all, texts);
    }
    return all;
}

bool values_check(struct values *v, const struct pyjson *value)
{
    v->doc.work = 0;
    return document_check(&v->doc, &v->doc.root, value);
}

size_t values_bytes(const struct values *v)
{
    return sizeof *v + v->doc.arena.total + v->n_slots * sizeof *v->slot + (size_t)v->cap_rules * sizeof *v->rule +
           (size_t)v->cap_between * sizeof *v->between + (size_t)v->cap_keys * sizeof *v->keys;
}
