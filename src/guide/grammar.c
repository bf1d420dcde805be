#include "guide/grammar.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "guide/calls.h"
#include "guide/pattern.h"
#include "guide/term.h"

enum { OF_SCHEMA = CALLS_TOOLS };
_Static_assert((int)GRAMMAR_KEY_MAX == (int)VALUES_KEY_MAX, "one bound of keys");

struct grammar {
    atomic_int     references;
    struct terms  *terms;
    struct values *values;      /* of a schema, or NULL: their number is OF_SCHEMA */
    struct calls  *calls;       /* of tools, or NULL: numbers of their values are less */
    uint32_t       start;
};

static uint32_t expand_lazy(void *arg, int kind, uint32_t a, uint32_t b)
{
    struct grammar *g = arg;
    if (kind >> VALUES_BITS == OF_SCHEMA)
        return values_expand(g->values, kind & ((1 << VALUES_BITS) - 1), a, b);
    return calls_expand(g->calls, kind, a, b);
}

static uint32_t take_key(void *arg, uint32_t a, uint32_t b, struct text key)
{
    struct grammar *g = arg;
    return b >> 8 == OF_SCHEMA ? values_take(g->values, a, b, key) : calls_take(g->calls, a, b, key);
}

/* Returns the values that have the place of an object which a lazy term or a taker stands for; NULL if it stands for something else. */
static struct values *values_of(const struct grammar *g, bool taker, uint32_t kind_or_b)
{
    const int number = (int)(taker ? kind_or_b >> 8 : kind_or_b >> VALUES_BITS);
    if (!taker && (kind_or_b & ((1 << VALUES_BITS) - 1)) != VALUES_OBJECT)
        return NULL;
    return number == OF_SCHEMA ? g->values : calls_values(g->calls, number);
}

static void keep_place(void *arg, bool taker, uint32_t kind_or_b, uint32_t a)
{
    struct values *v = values_of(arg, taker, kind_or_b);
    if (v)
        values_keep(v, a);
}

static void sweep_places(void *arg)
{
    struct grammar *g = arg;
    if (g->values)
        values_sweep(g->values);
    if (g->calls)
        calls_sweep(g->calls);
}

static uint32_t moved_place(void *arg, bool taker, uint32_t kind_or_b, uint32_t a)
{
    const struct values *v = values_of(arg, taker, kind_or_b);
    return v ? values_moved(v, a) : a;
}

static struct grammar *grammar_new(void)
{
    struct grammar *g = memory_zeroed(1, sizeof *g);
    g->references = 1;
    g->terms = terms_new(&(struct term_hooks){expand_lazy, take_key, keep_place, sweep_places, moved_place, g});
    return g;
}

/* Makes the grammar of a term; an empty one is refused. */
static struct grammar *finished(struct grammar *g, uint32_t start, const char *what, struct err *e)
{
    g->start = term_live(g->terms, start);
    const bool full = terms_full(g->terms) | terms_unsure(g->terms);
    terms_allow_work(g->terms, UINT64_MAX);
    if (g->start != TERM_NONE && !full) {
        terms_seal(g->terms);
        return g;
    }
    err_set(e, full ? "%s needs too many states" : "no text satisfies %s", what);
    grammar_release(g);
    return NULL;
}

struct grammar *grammar_of_choices(const struct text *choices, int n, struct err *e)
{
    struct grammar *g = grammar_new();
    return finished(g, term_one_of(g->terms, choices, n), "the list of choices", e);
}

struct grammar *grammar_of_pattern(struct text pattern, struct err *e)
{
    struct grammar *g = grammar_new();
    uint32_t start;
    terms_allow(g->terms, 200000);
    terms_allow_work(g->terms, (uint64_t)values_budget.work);
    struct err why = {{0}};
    if (!pattern_term(g->terms, pattern, true, &start, &why)) {
        err_set(e, "the pattern cannot be enforced: %s", why.msg);
        grammar_release(g);
        return NULL;
    }
    terms_allow(g->terms, UINT32_MAX);
    return finished(g, start, "the pattern", e);
}

struct grammar *grammar_of_schema(struct text schema, const struct grammar_options *o, struct err *e)
{
    struct grammar *g = grammar_new();
    const struct values_options options = {.loose = o && o->loose, .ordered = o && o->ordered, .plain = o && o->plain, .notes = o ? o->notes : NULL};
    g->values = values_new(g->terms, schema, OF_SCHEMA, &options, e);
    if (!g->values) {
        grammar_release(g);
        return NULL;
    }
    return finished(g, values_term(g->values, 0), "the schema", e);
}

struct grammar *grammar_of_json(void)
{
    return grammar_of_schema(text_of("{\"type\": \"object\"}"), NULL, NULL);
}

bool grammar_or_calls(struct grammar *g, const struct grammar_calls *of, struct err *e)
{
    const struct calls_options options = {of->tools, of->fields, of->allowed, of->n_allowed, of->several, of->strict, of->notes};
    uint32_t calls;
    g->calls = calls_new(g->terms, &options, &calls, e);
    if (!g->calls)
        return false;
    g->start = term_alt(g->terms, g->start, calls);
    terms_seal(g->terms);
    return !terms_full(g->terms) || err_set(e, "the calls need too many states");
}

struct grammar *grammar_of_calls(const struct grammar_calls *of, struct err *e)
{
    struct grammar *g = grammar_new();
    g->start = TERM_NONE;
    if (grammar_or_calls(g, of, e))
        return g;
    grammar_release(g);
    return NULL;
}

bool grammar_check(struct grammar *g, struct text json, struct err *e)
{
    struct arena arena = {0};
    struct pyjson value;
    bool ok = pyjson_parse(&value, json, PYJSON_LOADS, &arena, e);
    if (ok && g->values && !values_check(g->values, &value))
        ok = err_set(e, "the value does not satisfy the schema");
    arena_free(&arena);
    return ok;
}

struct grammar *grammar_retain(struct grammar *g)
{
    g->references++;
    return g;
}

void grammar_release(struct grammar *g)
{
    if (!g || --g->references > 0)
        return;
    values_free(g->values);
    calls_free(g->calls);
    terms_free(g->terms);
    free(g);
}

struct grammar_state grammar_begin(const struct grammar *g)
{
    return (struct grammar_state){.place = g->start};
}

int grammar_key_least(struct grammar *g, const struct grammar_state *s)
{
    return term_in_key(g->terms, s->place) ? term_least(g->terms, s->place) : 0;
}

bool grammar_byte(struct grammar *g, struct grammar_state *s, uint8_t byte)
{
    const bool begins = term_begins_key(g->terms, s->place);
    uint32_t place = term_next(g->terms, s->place, byte, (struct text){s->key, s->n_key});
    const uint8_t n = begins ? 0 : s->n_key;
    if (term_in_key(g->terms, place) && term_in_key(g->terms, s->place) && n + 1 + term_least(g->terms, place) > GRAMMAR_KEY_MAX)
        place = term_members(g->terms, place);          /* no free key has room */
    if (place == TERM_NONE)
        return false;
    if (!term_in_key(g->terms, place)) {
        s->n_key = 0;
    } else if (term_in_key(g->terms, s->place)) {
        s->key[n] = (char)byte;
        s->n_key = n + 1;
    }
    s->place = place;
    return true;
}

size_t grammar_text(struct grammar *g, struct grammar_state *s, struct text t)
{
    size_t n = 0;
    while (n < t.n && grammar_byte(g, s, (uint8_t)t.p[n]))
        n++;
    return n;
}

bool grammar_may_end(const struct grammar *g, const struct grammar_state *s)
{
    return term_may_end(g->terms, s->place);
}

bool grammar_trim(struct grammar *g, struct grammar_state *const *s, int n, int made)
{
    uint32_t **place = memory_alloc((size_t)n * sizeof *place);
    for (int i = 0; i < n; i++)
        place[i] = &s[i]->place;
    const bool trimmed = terms_collect(g->terms, place, n, made);
    free(place);
    return trimmed;
}

void grammar_allow(struct grammar *g, uint64_t work) { terms_allow_work(g->terms, work); }
uint64_t grammar_work(const struct grammar *g) { return terms_work(g->terms); }
bool grammar_full(const struct grammar *g) { return terms_starved(g->terms); }
bool grammar_spent(const struct grammar *g) { return terms_full(g->terms); }

/* Returns the next byte if there is one, or if all the others are white space, which is written as a blank after comma and colon; else -1. */
static int forced_byte(struct grammar *g, const struct grammar_state *s, char before)
{
    int n = 0, n_space = 0, byte = -1;
    bool blank = false;
    for (int b = 0; b < 256; b++) {
        struct grammar_state next = *s;
        if (!grammar_byte(g, &next, (uint8_t)b))
            continue;
        const bool space = b == ' ' || b == '\n' || b == '\t' || b == '\r';
        n++;
        n_space += space;
        blank |= b == ' ';
        byte = space && n > n_space ? byte : b;
    }
    if (n == 1)
        return byte;
    if (n != n_space + 1 || !(before == ',' || before == ':' || before == ' '))
        return -1;
    return blank && before != ' ' ? ' ' : byte;
}

size_t grammar_forced(struct grammar *g, const struct grammar_state *s, char *out, size_t max)
{
    struct grammar_state at = *s;
    size_t n = 0;
    while (n < max && !grammar_may_end(g, &at)) {
        const int byte = forced_byte(g, &at, n ? out[n - 1] : '\0');
        if (byte < 0 || !grammar_byte(g, &at, (uint8_t)byte))
            break;
        out[n++] = (char)byte;
    }
    return n;
}

int grammar_free_chars(const struct grammar *g, const struct grammar_state *s, bool *key)
{
    return term_free_chars(g->terms, s->place, key);
}

uint32_t grammar_string_class(struct grammar *g, const struct grammar_state *s, uint8_t *closer)
{
    return term_string_class(g->terms, s->place, closer);
}

size_t grammar_bytes(const struct grammar *g)
{
    return sizeof *g + terms_bytes(g->terms) + (g->values ? values_bytes(g->values) : 0) + (g->calls ? calls_bytes(g->calls) : 0);
}
