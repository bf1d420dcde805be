#include "guide/values_state.h"

#include <stdlib.h>
#include <string.h>

#include "guide/pattern.h"

/* --- White space --- */

uint32_t scalar_blank(struct values *v) { return term_alt(v->t, TERM_EMPTY, literal(v, " ")); }

uint32_t scalar_space(struct values *v)
{
    const uint32_t indent = term_repeat(v->t, term_alt(v->t, literal(v, " "), literal(v, "\t")), 0, N_INDENT);
    return term_alt(v->t, scalar_blank(v), term_cat(v->t, literal(v, "\n"), indent));
}

/* --- Scalars --- */

uint32_t scalar_quoted(struct values *v, uint32_t texts)
{
    return term_cat(v->t, literal(v, "\""), term_string(v->t, texts, false));
}

uint32_t scalar_any_text(struct values *v) { return term_repeat(v->t, term_any_char(v->t), 0, TERM_INFINITE); }

uint32_t scalar_strings(struct values *v, const struct shape *h)
{
    int min = 0, max = MANY;
    uint32_t all = TERM_NONE;
    bool narrowed = false, found = false;
    for (const struct fact *f = h->facts; f; f = f->next) {
        struct err e = {0};
        uint32_t id = TERM_NONE;
        const char *format = f->kind == FACT_FORMAT ? document_format(f->value->text) : NULL;
        if (f->kind == FACT_MIN_LENGTH)
            min = f->n > min ? f->n : min;
        if (f->kind == FACT_MAX_LENGTH)
            max = f->n < max ? f->n : max;
        if (f->kind != FACT_PATTERN && !format)
            continue;
        if (!pattern_term(v->t, format ? text_of(format) : f->value->text, false, &id, &e)) {
            shapes_refuse(&v->shapes, f->schema, format ? "format" : "pattern", e.msg);
            continue;
        }
        if (f->negated)
            id = term_not(v->t, id), narrowed = true;
        all = found ? term_and(v->t, all, id) : id;
        found = true;
    }
    for (const struct fact *f = h->facts; f; f = f->next)
        for (size_t i = 0; f->kind == FACT_ENUM && f->negated && i < (f->n ? f->value->n : 1); i++) {
            const struct pyjson *one = f->n ? &f->value->items[i] : f->value;
            if (one->kind != PY_STR)
                continue;
            const uint32_t id = term_not(v->t, term_literal(v->t, one->text));
            all = found ? term_and(v->t, all, id) : id;
            found = narrowed = true;
        }
    if (min > max)
        return TERM_NONE;
    if (!found || narrowed || min > 0 || max < MANY) {
        const uint32_t sized = term_repeat(v->t, term_any_char(v->t), min, max == MANY ? TERM_INFINITE : max);
        all = found ? term_and(v->t, all, sized) : sized;
    }
    return term_is_none(v->t, all) ? TERM_NONE : all;
}

/* Returns the term of the text of one number; 1 is also 1.0. */
static uint32_t exact(struct values *v, struct text number)
{
    struct decimal d;
    if (!decimal_read(&d, number) || d.point < -20)
        return term_literal(v->t, number);
    const struct number_range r = {.integer = d.n <= d.point, .fraction = d.n > d.point, .min = &d, .max = &d};
    return term_live(v->t, term_alt(v->t, number_term(v->t, &r), term_literal(v->t, number)));
}

/* Returns the term of the number as an answer has it. */
static uint32_t number_of(struct values *v, struct text number)
{
    return v->plain ? term_literal(v->t, number) : exact(v, number);
}

uint32_t scalar_numbers(struct values *v, const struct shape *h)
{
    struct number_range r = {.integer = h->types & TYPE_INTEGER, .fraction = h->types & TYPE_FRACTION, .plain = v->plain};
    uint32_t all = TERM_NONE;
    bool found = false;
    for (const struct fact *f = h->facts; f; f = f->next) {
        const struct decimal **bound = f->kind == FACT_MIN ? &r.min : &r.max;
        bool *open = f->kind == FACT_MIN ? &r.open_min : &r.open_max;
        if (f->kind != FACT_MIN && f->kind != FACT_MAX)
            continue;
        const int order = *bound ? decimal_compare(&f->number, *bound) * (f->kind == FACT_MIN ? 1 : -1) : 1;
        if (order > 0)
            *open = f->open;
        else if (order == 0)
            *open |= f->open;
        if (order > 0)
            *bound = &f->number;
    }
    all = number_term(v->t, &r);
    for (const struct fact *f = h->facts; f; f = f->next) {
        uint32_t id = TERM_NONE;
        if (f->kind == FACT_MULTIPLE) {
            if (!number_multiple(v->t, &f->number, &id)) {
                shapes_refuse(&v->shapes, f->schema, "multipleOf", "a number of so many digits");
                continue;
            }
            all = term_and(v->t, all, id);
        }
        for (size_t i = 0; f->kind == FACT_ENUM && f->negated && i < (f->n ? f->value->n : 1); i++) {
            const struct pyjson *one = f->n ? &f->value->items[i] : f->value;
            if (one->kind != PY_INT && one->kind != PY_FLOAT)
                continue;
            if (!found && !r.min && !r.max) {           /* without exponents a number has one form but for zeros */
                static const struct decimal least = {.negative = true, .n = 1, .point = 39, .digit = "9"};
                struct number_range finite = r;
                finite.min = &least;
                all = term_and(v->t, all, number_term(v->t, &finite));
                found = true;
            }
            all = term_and(v->t, all, term_not(v->t, exact(v, one->text)));
        }
    }
    return term_live(v->t, all);
}

/* Returns the term of one list or object, with blanks where they are allowed. */
static uint32_t container_term(struct values *v, const struct pyjson *one)
{
    const bool dict = one->kind == PY_DICT;
    uint32_t id = literal(v, dict ? "}" : "]");
    for (size_t i = one->n; i-- > 0;) {
        const uint32_t behind = i + 1 < one->n ? literal(v, ",") : scalar_space(v);
        id = term_cat(v->t, scalar_value(v, &one->items[i]), term_cat(v->t, behind, id));
        if (dict) {
            struct buf key = {0};
            pyjson_quote(one->keys[i], &key);
            buf_addc(&key, ':');
            id = term_cat(v->t, term_literal(v->t, (struct text){key.data, key.len}), term_cat(v->t, scalar_blank(v), id));
            buf_free(&key);
        }
        id = term_cat(v->t, scalar_space(v), id);
    }
    return term_cat(v->t, literal(v, dict ? "{" : "["), id);
}

uint32_t scalar_value(struct values *v, const struct pyjson *one)
{
    switch (one->kind) {
    case PY_NONE:  return literal(v, "null");
    case PY_TRUE:  return literal(v, "true");
    case PY_FALSE: return literal(v, "false");
    case PY_STR:   return scalar_quoted(v, term_literal(v->t, one->text));
    case PY_LIST: case PY_DICT: return container_term(v, one);
    case PY_INT: case PY_FLOAT: break;
    }
    return number_of(v, one->text);
}

unsigned scalar_types(const struct pyjson *one)
{
    static const unsigned bits[] = {[PY_NONE] = TYPE_NULL, [PY_FALSE] = TYPE_FALSE, [PY_TRUE] = TYPE_TRUE, [PY_INT] = TYPE_NUMBER,
                                    [PY_FLOAT] = TYPE_NUMBER, [PY_STR] = TYPE_STRING, [PY_LIST] = TYPE_ARRAY, [PY_DICT] = TYPE_OBJECT};
    return bits[one->kind];
}

bool scalar_listed(struct values *v, const struct rule *r, const struct shape *h, uint32_t *term, uint32_t *texts)
{
    const struct fact *f = h->facts;
    while (f && !(f->kind == FACT_ENUM && !f->negated))
        f = f->next;
    if (!f)
        return false;
    const size_t n = f->n ? f->value->n : 1;
    uint32_t *id = memory_alloc((n + 3) * sizeof *id);
    struct text *text = memory_alloc((n + 1) * sizeof *text), *number = memory_alloc((n + 1) * sizeof *number);
    int n_ids = 0, n_texts = 0, n_numbers = 0;
    for (size_t i = 0; i < n; i++) {
        const struct pyjson *one = f->n ? &f->value->items[i] : f->value;
        bool holds = scalar_types(one) & h->types;
        for (int k = 0; k < r->n && holds; k++)
            holds = clause_holds(&v->doc, &r->clause[k], one);
        if (holds && one->kind == PY_STR)
            text[n_texts++] = one->text;
        else if (holds && v->plain && (one->kind == PY_INT || one->kind == PY_FLOAT))
            number[n_numbers++] = one->text;
        else if (holds)
            id[n_ids++] = scalar_value(v, one);
    }
    *texts = n_texts ? term_one_of(v->t, text, n_texts) : TERM_NONE;
    if (n_texts)
        id[n_ids++] = scalar_quoted(v, *texts);
    id[n_ids++] = term_one_of(v->t, number, n_numbers);
    *term = term_alts(v->t, id, n_ids);
    free(number);
    free(text);
    free(id);
    return true;
}
