#include "guide/values.h"

#include <stdlib.h>
#include <string.h>

#include "guide/values_state.h"

/* --- Collection --- */

void values_keep(struct values *v, uint32_t a)
{
    v->between[a].mark = true;
    for (int keys = v->between[a].keys; keys && !v->keys[keys - 1].mark; keys = v->keys[keys - 1].before)
        v->keys[keys - 1].mark = true;
}

/* A list of keys stands behind those that it continues. */
static int *sweep_keys(struct values *v)
{
    int *moved = memory_zeroed((size_t)v->n_keys + 1, sizeof *moved), n = 0;        /* by the old number, which is 1 + its index */
    for (int i = 0; i < v->n_keys; i++) {
        struct keys k = v->keys[i];
        if (!k.mark) {
            free((char *)k.key.p);
            continue;
        }
        k.before = moved[k.before];
        k.mark = false;
        v->keys[n] = k;
        moved[i + 1] = ++n;
    }
    v->n_keys = n;
    return moved;
}

void values_sweep(struct values *v)
{
    int *keys = sweep_keys(v), n = 0;
    free(v->moved);
    v->moved = memory_zeroed((size_t)v->n_between + 1, sizeof *v->moved);
    for (int i = 0; i < v->n_between; i++) {
        struct between b = v->between[i];
        if (!b.mark) {
            free(b.done);
            continue;
        }
        b.keys = keys[b.keys];
        b.mark = false;
        v->moved[i] = (uint32_t)n;
        v->between[n++] = b;
    }
    v->n_between = n;
    free(keys);
}

uint32_t values_moved(const struct values *v, uint32_t a) { return v->moved[a]; }

/* --- Lazy terms --- */

static uint32_t lazy(struct values *v, int kind, uint32_t a, uint32_t b) { return term_lazy(v->t, v->number << VALUES_BITS | kind, a, b); }

static bool is_done(const struct between *b, int member)
{
    return member < b->next || (b->done && b->done[member / 64] >> member % 64 & 1);
}

static bool same_place(const struct between *x, const struct between *y)
{
    return x->object == y->object && x->next == y->next && x->count == y->count && x->keys == y->keys && (x->done != NULL) == (y->done != NULL) &&
           (!x->done || !memcmp(x->done, y->done, (size_t)(x->object->n + 63) / 64 * sizeof *x->done));
}

/* Returns the term that stands for the state `b` between two members of an object, and takes over b.done.  Equal states among the last 511 share a
 * term. */
static uint32_t place_term(struct values *v, struct between b)
{
    const int most = b.object->max < MANY ? b.object->max : b.object->min > 1 ? b.object->min : 1;
    b.count = b.count < most ? b.count : most;
    for (int i = v->n_between - 1; i >= 0 && i > v->n_between - 512; i--)
        if (same_place(&v->between[i], &b)) {
            free(b.done);
            return lazy(v, VALUES_OBJECT, (uint32_t)i, 0);
        }
    v->between = memory_grow(v->between, v->n_between, &v->cap_between, sizeof *v->between);
    v->between[v->n_between++] = b;
    return lazy(v, VALUES_OBJECT, (uint32_t)v->n_between - 1, 0);
}

/* Returns a copy of the set of members that there were. */
static uint64_t *copy_done(const struct between *b)
{
    const size_t n = (size_t)(b->object->n + 63) / 64;
    uint64_t *done = memory_zeroed(n, sizeof *done);
    return b->done ? memcpy(done, b->done, n * sizeof *done) : done;
}

/* Returns the term of the place behind one more member. */
static uint32_t behind(struct values *v, struct between b, int member)
{
    b.count++;
    if (v->ordered) {
        b.next = member + 1;
    } else {
        b.done = copy_done(&b);
        b.done[member / 64] |= 1ull << member % 64;
    }
    return place_term(v, b);
}

static uint32_t rule_term(struct values *v, int rule) { return lazy(v, VALUES_RULE, (uint32_t)rule, 0); }

/* Returns the term of the keys of a group that were not written yet. */
static uint32_t new_keys(struct values *v, const struct group *g, int keys)
{
    struct text list[N_KEYS];
    int n = 0;
    for (; keys; keys = v->keys[keys - 1].before)
        if (term_matches(v->t, g->keys, v->keys[keys - 1].key))
            list[n++] = v->keys[keys - 1].key;
    return n ? term_and(v->t, g->keys, term_not(v->t, term_one_of(v->t, list, n))) : g->keys;
}

/* Returns what may follow a member, or the opening brace. */
static uint32_t expand_between(struct values *v, uint32_t at)
{
    const struct between b = v->between[at];
    const struct object *o = b.object;
    uint32_t *list = memory_alloc((size_t)(o->n + o->n_groups + 1) * sizeof *list);
    int n = 0, needed = 0, may = 0;
    for (int k = 0; k < o->n; k++) {
        needed += o->member[k].needed && !is_done(&b, k);
        may += !o->member[k].absent && !is_done(&b, k);
    }
    const int left = may, lack = o->min - b.count;
    const bool complete = !needed && lack <= 0;
    int more = b.keys ? -v->keys[b.keys - 1].n : 0;     /* keys that are left to the groups */
    for (int k = 0; k < o->n_groups; k++)
        more += o->group[k].n_keys;
    const uint32_t before = b.count ? term_cat(v->t, literal(v, ","), scalar_space(v)) : scalar_space(v);
    const uint32_t colon = term_cat(v->t, literal(v, ":"), scalar_blank(v));
    for (int i = b.next; i < o->n && b.count < o->max; i++) {
        const struct member *m = &o->member[i];
        if (m->absent || is_done(&b, i))
            continue;
        const bool fits = b.count + needed + !m->needed <= o->max && (lack <= 0 || may + more >= lack);
        if (fits)
            list[n++] = term_cat(v->t, m->key, term_cat(v->t, colon, term_cat(v->t, rule_term(v, m->rule), behind(v, b, i))));
        may -= v->ordered;
        if (m->needed && v->ordered)
            break;
    }
    const bool full = b.keys && v->keys[b.keys - 1].n >= N_KEYS;
    const bool fits = lack <= 0 || (v->ordered ? 0 : left) + more >= lack;
    for (int k = 0; k < o->n_groups && fits && !(v->ordered && needed) && b.count + needed < o->max && !full; k++) {
        const uint32_t key = term_string(v->t, new_keys(v, &o->group[k], b.keys), true);
        if (term_least(v->t, key) > VALUES_KEY_MAX)
            continue;
        const uint32_t taker = term_taker(v->t, at, (uint32_t)(v->number << 8 | k));
        list[n++] = term_cat(v->t, literal(v, "\""), term_cat(v->t, key, taker));
    }
    const uint32_t members = term_cat(v->t, before, term_alts(v->t, list, n));      /* the blanks are before all of them */
    const uint32_t ends = complete ? term_cat(v->t, scalar_space(v), literal(v, "}")) : TERM_NONE;
    free(list);
    return term_alt(v->t, members, ends);
}

static uint32_t array_term(struct values *v, uint32_t array, int count, bool found)
{
    const struct array *a = v->array[array];
    if (a->n_unique)
        return lazy(v, VALUES_ARRAY, array, (uint32_t)count << 1 | found);
    int most = a->max < MANY ? a->max : a->min;
    most = most < a->n_prefix ? a->n_prefix : most < 1 ? 1 : most;
    return lazy(v, VALUES_ARRAY, array, (uint32_t)(count < most ? count : most) << 1 | found);
}

/* Returns what may follow in an array whose items differ, after those of a set. */
static uint32_t expand_unique(struct values *v, uint32_t array, uint32_t set)
{
    const struct array *a = v->array[array];
    const int count = __builtin_popcount(set);
    const uint32_t before = count ? term_cat(v->t, literal(v, ","), scalar_space(v)) : scalar_space(v);
    uint32_t list[N_UNIQUE + 1];
    int n = 0;
    for (int i = 0; i < a->n_unique && count < a->max; i++)
        if (!(set >> i & 1))
            list[n++] = term_cat(v->t, before, term_cat(v->t, a->unique[i], array_term(v, array, (int)(set | 1u << i), true)));
    list[n++] = count >= a->min ? term_cat(v->t, scalar_space(v), literal(v, "]")) : TERM_NONE;
    return term_alts(v->t, list, n);
}

/* Returns what may follow in an array after `place` >> 1 items; bit 0: an item that "contains" asks for is among them. */
static uint32_t expand_array(struct values *v, uint32_t array, uint32_t place)
{
    const struct array *a = v->array[array];
    const int count = (int)(place >> 1);
    const bool found = place & 1;
    if (a->n_unique)
        return expand_unique(v, array, place >> 1);
    const uint32_t before = count ? term_cat(v->t, literal(v, ","), scalar_space(v)) : scalar_space(v);
    uint32_t list[3] = {0};
    if (count >= a->min && found)
        list[0] = term_cat(v->t, scalar_space(v), literal(v, "]"));
    if (count < a->max) {
        const int rule = count < a->n_prefix ? a->prefix[count] : a->rest;
        if (found || count + 1 < a->max)
            list[1] = term_cat(v->t, before, term_cat(v->t, rule_term(v, rule), array_term(v, array, count + 1, found)));
        if (!found)
            list[2] = term_cat(v->t, before, term_cat(v->t, rule_term(v, a->contains), array_term(v, array, count + 1, true)));
    }
    return term_alts(v->t, list, 3);
}

/* Returns the term of a rule's values: scalars, and the beginnings of its objects and arrays. */
static uint32_t expand_rule(struct values *v, int rule)
{
    const struct rule r = v->rule[rule];
    uint32_t *list = NULL;
    int n = 0, cap = 0;
    for (const struct object *o = r.objects; o; o = o->next) {
        list = memory_grow(list, n, &cap, sizeof *list);
        list[n++] = place_term(v, (struct between){.object = o});
    }
    const uint32_t objects = term_cat(v->t, literal(v, "{"), term_alts(v->t, list, n));
    n = 0;
    for (struct array *a = r.arrays; a; a = a->next) {
        if (a->min > a->max || (a->contains >= 0 && !v->rule[a->contains].productive))
            continue;
        if (!a->number) {
            v->array = memory_grow(v->array, v->n_arrays, &v->cap_arrays, sizeof *v->array);
            v->array[v->n_arrays++] = a;
            a->number = v->n_arrays;
        }
        list = memory_grow(list, n, &cap, sizeof *list);
        list[n++] = array_term(v, (uint32_t)a->number - 1, 0, a->contains < 0);
    }
    uint32_t all[] = {r.scalars, objects, term_cat(v->t, literal(v, "["), term_alts(v->t, list, n))};
    free(list);
    return term_alts(v->t, all, 3);
}

uint32_t values_expand(struct values *v, int kind, uint32_t a, uint32_t b)
{
    return kind == VALUES_RULE ? expand_rule(v, (int)a) : kind == VALUES_OBJECT ? expand_between(v, a) : expand_array(v, a, b);
}

/* Returns the text of a key without its closing quote and its escapes. */
static struct text unescaped(struct text key)
{
    static const char from[] = "\"\\bfnrt", to[] = "\"\\\b\f\n\r\t";
    char *out = memory_alloc(key.n + 1);
    size_t n = 0;
    for (size_t i = 0; i + 1 < key.n; i++) {
        unsigned hex = 0;
        if (key.p[i] != '\\') {
            out[n++] = key.p[i];
        } else if (key.p[++i] == 'u') {
            for (int k = 1; k <= 4; k++)
                hex = hex << 4 | (unsigned)(key.p[i + (size_t)k] <= '9' ? key.p[i + (size_t)k] - '0' : key.p[i + (size_t)k] - 'a' + 10);
            out[n++] = (char)hex;
            i += 4;
        } else {
            out[n++] = to[strchr(from, key.p[i]) - from];
        }
    }
    return (struct text){out, n};
}

/* Returns the list of keys with one more, whose text it takes over; the last lists are looked through, because a walk over a vocabulary
 * comes by often. */
static int written(struct values *v, int keys, struct text name)
{
    for (int i = v->n_keys; i > 0 && i > v->n_keys - 512; i--)
        if (v->keys[i - 1].before == keys && text_same(v->keys[i - 1].key, name)) {
            free((char *)name.p);
            return i;
        }
    v->keys = memory_grow(v->keys, v->n_keys, &v->cap_keys, sizeof *v->keys);
    v->keys[v->n_keys] = (struct keys){keys, name, keys ? v->keys[keys - 1].n + 1 : 1};
    return ++v->n_keys;
}

uint32_t values_take(struct values *v, uint32_t a, uint32_t b, struct text key)
{
    const struct between at = v->between[a];
    const struct group *g = &at.object->group[b & 255];
    const struct text name = unescaped(key);
    if (!term_matches(v->t, g->keys, name)) {
        free((char *)name.p);
        return TERM_NONE;
    }
    const struct between next = {at.object, v->ordered ? at.object->n : 0, at.count + 1, written(v, at.keys, name),
                                 at.done ? copy_done(&at) : NULL, false};
    const uint32_t rest = term_cat(v->t, rule_term(v, g->rule), place_term(v, next));
    return term_cat(v->t, scalar_blank(v), rest);
}
