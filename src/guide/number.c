#include "guide/number.h"

#include <stdlib.h>
#include <string.h>

/* Digits that a number may have before and behind its point: a model that repeats a digit must end. */
enum { N_WHOLE = 40, N_DECIMALS = 24 };

bool decimal_read(struct decimal *d, struct text t)
{
    *d = (struct decimal){0};
    size_t i = 0;
    int point = 0;
    bool behind = false;
    if (i < t.n && t.p[i] == '-')
        d->negative = true, i++;
    for (; i < t.n && (t.p[i] == '.' || (t.p[i] >= '0' && t.p[i] <= '9')); i++) {
        if (t.p[i] == '.') {
            behind = true;
            continue;
        }
        if (!behind && (d->n || t.p[i] != '0'))
            point++;
        if (!d->n && t.p[i] == '0') {
            point -= behind;
            continue;
        }
        if (d->n == (int)sizeof d->digit)
            return false;
        d->digit[d->n++] = t.p[i];
    }
    if (i < t.n && (t.p[i] == 'e' || t.p[i] == 'E')) {
        char exponent[8] = "";
        if (t.n - i - 1 >= sizeof exponent)
            return false;
        memcpy(exponent, t.p + i + 1, t.n - i - 1);
        point += atoi(exponent);
    } else if (i < t.n) {
        return false;
    }
    while (d->n && d->digit[d->n - 1] == '0')
        d->n--;
    d->point = d->n ? point : 0;
    d->negative &= d->n > 0;
    return d->point <= 400 && d->point >= -60;
}

int decimal_compare(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    int order = 0;
    if (!a->n || !b->n) {
        order = (a->n > 0) - (b->n > 0);
    } else if (a->point != b->point) {
        order = a->point < b->point ? -1 : 1;
    } else {
        order = memcmp(a->digit, b->digit, (size_t)(a->n < b->n ? a->n : b->n));
        order = order ? order : a->n - b->n;
    }
    return a->negative ? -order : order;
}

/* The digits before the point, "0" if there are none, and those behind it. */
struct parts { char whole[520], decimals[160]; int n_whole, n_decimals; };

/* Returns the digits before and after the decimal point; the whole part of 0.5 is "0". */
static struct parts split(const struct decimal *d)
{
    struct parts p = {.whole = "0", .n_whole = 1};
    for (int i = 0; i < d->point; i++)
        p.whole[i] = i < d->n ? d->digit[i] : '0';
    if (d->point > 0)
        p.n_whole = d->point;
    for (int i = d->point; i < d->n; i++)
        p.decimals[p.n_decimals++] = i < 0 ? '0' : d->digit[i];
    return p;
}

static uint32_t digits(struct terms *t, int min, int max) { return term_repeat(t, term_range(t, '0', '9'), min, max); }
static uint32_t byte(struct terms *t, char c) { return term_range(t, c, c); }

static uint32_t any_whole(struct terms *t)
{
    return term_alt(t, byte(t, '0'), term_cat(t, term_range(t, '1', '9'), digits(t, 0, N_WHOLE - 1)));
}

static uint32_t any_decimals(struct terms *t)
{
    return term_alt(t, TERM_EMPTY, term_cat(t, byte(t, '.'), digits(t, 1, N_DECIMALS)));
}

/* Returns the term of whole numbers of as many digits as `w` that are greater (or less): equal up to some digit, which differs. */
static uint32_t same_length(struct terms *t, const struct parts *p, bool greater)
{
    uint32_t list[520];
    for (int k = 0; k < p->n_whole; k++) {
        const int d = p->whole[k], lo = greater ? d + 1 : k == 0 && p->n_whole > 1 ? '1' : '0', hi = greater ? '9' : d - 1;
        list[k] = lo > hi ? TERM_NONE : term_cat(t, term_literal(t, (struct text){p->whole, (size_t)k}),
                                                 term_cat(t, term_range(t, lo, hi), digits(t, p->n_whole - k - 1, p->n_whole - k - 1)));
    }
    return term_alts(t, list, p->n_whole);
}

static uint32_t greater_whole(struct terms *t, const struct parts *p)
{
    const int more = p->n_whole + N_WHOLE;
    return term_alt(t, same_length(t, p, true), term_cat(t, term_range(t, '1', '9'), digits(t, p->n_whole, more)));
}

static uint32_t less_whole(struct terms *t, const struct parts *p)
{
    const uint32_t same = same_length(t, p, false);
    if (p->n_whole == 1)
        return same;
    const uint32_t shorter = p->n_whole == 2 ? term_range(t, '1', '9') : term_cat(t, term_range(t, '1', '9'), digits(t, 0, p->n_whole - 2));
    return term_alts(t, (uint32_t[]){same, shorter, byte(t, '0')}, 3);
}

/* Returns the term of decimals of at least (or more than) those of p, from the last digit to the first; with the point, if there must be any. */
static uint32_t decimals_from(struct terms *t, const struct parts *p, bool open)
{
    const uint32_t nonzero = term_cat(t, term_repeat(t, byte(t, '0'), 0, N_DECIMALS), term_cat(t, term_range(t, '1', '9'), digits(t, 0, N_DECIMALS)));
    if (!p->n_decimals)
        return open ? term_cat(t, byte(t, '.'), nonzero) : any_decimals(t);
    uint32_t rest = open ? nonzero : digits(t, 0, N_DECIMALS);
    for (int i = p->n_decimals - 1; i >= 0; i--) {
        const char d = p->decimals[i];
        const uint32_t more = d == '9' ? TERM_NONE : term_cat(t, term_range(t, d + 1, '9'), digits(t, 0, N_DECIMALS));
        rest = term_alt(t, more, term_cat(t, byte(t, d), rest));
    }
    return term_cat(t, byte(t, '.'), rest);
}

/* Returns the term of decimals of at most (or less than) those of p; with the point, if there are any. */
static uint32_t decimals_to(struct terms *t, const struct parts *p, bool open)
{
    if (!p->n_decimals)
        return open ? TERM_NONE : term_alt(t, TERM_EMPTY, term_cat(t, byte(t, '.'), term_repeat(t, byte(t, '0'), 1, N_DECIMALS)));
    uint32_t rest = open ? TERM_NONE : term_repeat(t, byte(t, '0'), 0, N_DECIMALS);
    for (int i = p->n_decimals - 1; i >= 0; i--) {
        const char d = p->decimals[i];
        const uint32_t less = d == '0' ? TERM_NONE : term_cat(t, term_range(t, '0', d - 1), digits(t, 0, N_DECIMALS));
        rest = term_alts(t, (uint32_t[]){less, term_cat(t, byte(t, d), rest), i > 0 ? TERM_EMPTY : TERM_NONE}, 3);
    }
    return term_alt(t, TERM_EMPTY, term_cat(t, byte(t, '.'), rest));
}

/* Numbers without sign of at least, or more than, the size of d. */
static uint32_t from(struct terms *t, const struct decimal *d, bool open)
{
    const struct parts p = split(d);
    return term_alt(t, term_cat(t, greater_whole(t, &p), any_decimals(t)),
                    term_cat(t, term_literal(t, (struct text){p.whole, (size_t)p.n_whole}), decimals_from(t, &p, open)));
}

static uint32_t up_to(struct terms *t, const struct decimal *d, bool open)
{
    const struct parts p = split(d);
    return term_alt(t, term_cat(t, less_whole(t, &p), any_decimals(t)),
                    term_cat(t, term_literal(t, (struct text){p.whole, (size_t)p.n_whole}), decimals_to(t, &p, open)));
}

static uint32_t signed_by(struct terms *t, uint32_t positive, uint32_t size_of_negative)
{
    return term_alt(t, positive, term_cat(t, byte(t, '-'), size_of_negative));
}

static uint32_t integers(struct terms *t, bool plain)
{
    const uint32_t zeros = plain ? TERM_NONE : term_cat(t, byte(t, '.'), term_repeat(t, byte(t, '0'), 1, N_DECIMALS));
    return term_cat(t, term_alt(t, TERM_EMPTY, byte(t, '-')), term_cat(t, any_whole(t), term_alt(t, TERM_EMPTY, zeros)));
}

/* Numbers of so few digits that a program which reads them as doubles sees whether they are integers. */
static uint32_t sure_fractions(struct terms *t)
{
    const uint32_t whole = term_alt(t, byte(t, '0'), term_cat(t, term_range(t, '1', '9'), digits(t, 0, 8)));
    return term_cat(t, term_alt(t, TERM_EMPTY, byte(t, '-')), term_cat(t, whole, term_cat(t, byte(t, '.'), digits(t, 1, 6))));
}

static uint32_t exponent(struct terms *t)
{
    const uint32_t sign = term_alts(t, (uint32_t[]){TERM_EMPTY, byte(t, '+'), byte(t, '-')}, 3);
    const uint32_t e = term_alt(t, byte(t, 'e'), byte(t, 'E'));
    const uint32_t size = term_alt(t, digits(t, 1, 2), term_cat(t, term_range(t, '1', '2'), digits(t, 2, 2)));
    return term_cat(t, e, term_cat(t, sign, size));
}

uint32_t number_term(struct terms *t, const struct number_range *r)
{
    const uint32_t unsigned_any = term_cat(t, any_whole(t), any_decimals(t));
    if (!r->fraction && !r->min && !r->max)
        return r->integer ? integers(t, r->plain) : TERM_NONE;
    if (r->integer && !r->min && !r->max)
        return term_cat(t, signed_by(t, unsigned_any, unsigned_any), term_alt(t, TERM_EMPTY, exponent(t)));
    uint32_t id = signed_by(t, unsigned_any, unsigned_any);
    if (r->min) {
        const bool below = r->min->negative;
        const uint32_t low = below ? signed_by(t, unsigned_any, up_to(t, r->min, r->open_min)) : from(t, r->min, r->open_min);
        id = low;
    }
    if (r->max) {
        const bool below = r->max->negative || (r->open_max && !r->max->n);
        const uint32_t negative = below ? from(t, r->max, r->open_max) : unsigned_any;
        const uint32_t high = signed_by(t, below ? TERM_NONE : up_to(t, r->max, r->open_max), negative);
        id = r->min ? term_and(t, id, high) : high;
    }
    if (!r->fraction)
        id = term_and(t, id, integers(t, r->plain));
    else if (!r->integer)
        id = term_and(t, id, term_and(t, sure_fractions(t), term_not(t, integers(t, false))));
    return id;
}

bool number_multiple(struct terms *t, const struct decimal *of, uint32_t *term)
{
    const int scale = of->n > of->point ? of->n - of->point : 0, zeros = of->point > of->n ? of->point - of->n : 0;
    uint64_t m = 0;
    if (of->negative || !of->n || scale > 9 || of->n + zeros > 9)
        return false;
    for (int i = 0; i < of->n + zeros; i++)
        m = m * 10 + (uint64_t)(i < of->n ? of->digit[i] - '0' : 0);
    *term = term_cat(t, term_alt(t, TERM_EMPTY, byte(t, '-')), term_multiple(t, (uint32_t)m, scale));
    return true;
}
