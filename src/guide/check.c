#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "guide/document.h"
#include "guide/number.h"
#include "guide/pattern.h"

#define DAY_OF_MONTH "(((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))|((0[469]|11)-(0[1-9]|[12][0-9]|30))|(02-(0[1-9]|1[0-9]|2[0-8])))"
#define LEAP "(([0-9]{2}(0[48]|[2468][048]|[13579][26]))|(([02468][48]|[2468][048]|[13579][26])00))-02-29"
#define DATE "((000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-" DAY_OF_MONTH "|" LEAP ")"
#define CLOCK "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 OCTET "(\\." OCTET "){3}"
#define H "[0-9A-Fa-f]{1,4}"
#define IPV6 "((" H ":){7}" H "|(" H ":){1,7}:|(" H ":){1,6}:" H "|(" H ":){1,5}(:" H "){1,2}|(" H ":){1,4}(:" H "){1,3}|" \
    "(" H ":){1,3}(:" H "){1,4}|" \
    "(" H ":){1,2}(:" H "){1,5}|" H ":(:" H "){1,6}|:((:" H "){1,7}|:)|(" H ":){6}" IPV4 "|::(" H ":){0,5}" IPV4 ")"
#define URI_CHAR "([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})"
#define AUTHORITY "//(([A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(:[0-9]*)?"
#define PATH "([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
#define TAIL "(\\?" URI_CHAR "*)?(#" URI_CHAR "*)?"
#define VARIABLE "([A-Za-z0-9_]|%[0-9A-Fa-f]{2})(\\.?([A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(:[1-9][0-9]{0,3}|\\*)?"

static const struct { const char *name, *pattern; } formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" CLOCK "$"},
    {"date-time", "^" DATE "[Tt]" CLOCK "$"},
    {"duration", "^P(([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)(T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))?|"
                 "T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)|[0-9]+W)$"},
    {"email", "^[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+)*@" LABEL "(\\." LABEL ")*$"},
    {"hostname", "^" LABEL "(\\." LABEL ")*$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
    {"uri", "^[A-Za-z][A-Za-z0-9+.-]*:(" AUTHORITY "(/" PATH "*)?|/?(([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})" PATH "*)?)" TAIL "$"},
    {"uri-reference",
     "^([A-Za-z][A-Za-z0-9+.-]*:)?(" AUTHORITY "(/" PATH "*)?|/?(([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})" PATH "*)?)" TAIL "$"},
    {"json-pointer", "^(/([^~/]|~[01])*)*$"},
    {"relative-json-pointer", "^(0|[1-9][0-9]*)(#|(/([^~/]|~[01])*)*)$"},
    {"uri-template", "^([^\\x00-\\x20\\x7F\"'%<>\\\\^`{|}]|%[0-9A-Fa-f]{2}|\\{[+#./;?&=,!@|]?" VARIABLE "(," VARIABLE ")*\\})*$"},
};

const char *document_format(struct text name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (text_is(name, formats[i].name))
            return formats[i].pattern;
    return NULL;
}

static bool number_of(const struct pyjson *v, struct decimal *d)
{
    return (v->kind == PY_INT || v->kind == PY_FLOAT) && decimal_read(d, v->text);
}

/* True if two values are equal as JSON Schema has it: 1 equals 1.0, the order of members does not count. */
static bool equal(const struct pyjson *a, const struct pyjson *b)
{
    struct decimal x, y;
    if (number_of(a, &x) && number_of(b, &y))
        return decimal_compare(&x, &y) == 0;
    if (a->kind != b->kind || a->n != b->n)
        return false;
    if (a->kind == PY_STR || a->kind == PY_INT || a->kind == PY_FLOAT)
        return text_same(a->text, b->text);
    for (size_t i = 0; i < a->n; i++) {
        const struct pyjson *other = a->kind == PY_DICT ? pyjson_item(b, a->keys[i]) : &b->items[i];
        if (!other || !equal(&a->items[i], other))
            return false;
    }
    return true;
}

/* Returns a number that equal values share. */
static uint64_t value_hash(const struct pyjson *v)
{
    struct decimal d;
    uint64_t h = 5381;
    if (number_of(v, &d))
        for (int i = 0; i < d.n; i++)
            h = h * 33 + (uint8_t)d.digit[i];
    else if (v->kind == PY_STR)
        for (size_t i = 0; i < v->text.n; i++)
            h = h * 33 + (uint8_t)v->text.p[i];
    else
        h += v->kind * 64 + v->n;
    for (size_t i = 0; i < v->n; i++)                   /* whatever the order of keys is */
        h += value_hash(&v->items[i]) * (v->kind == PY_LIST ? 2 * i + 1 : 1);
    h *= 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* Returns the values of a long list by their hashes, made when it is first asked for. */
static const struct listing *listing_of(struct document *d, const struct pyjson *list)
{
    for (int i = 0; i < d->n_listings; i++)
        if (d->listing[i].list == list)
            return &d->listing[i];
    d->listing = arena_grow(&d->arena, d->listing, d->n_listings, &d->cap_listings, sizeof *d->listing);
    struct listing *l = &d->listing[d->n_listings++];
    *l = (struct listing){.list = list, .n_slots = 64};
    while (l->n_slots < list->n * 2)
        l->n_slots *= 2;
    l->slot = arena_array(&d->arena, l->n_slots, sizeof *l->slot);
    for (size_t i = 0; i < list->n; i++) {
        size_t k = value_hash(&list->items[i]) & (l->n_slots - 1);
        while (l->slot[k] && !equal(&list->items[l->slot[k] - 1], &list->items[i]))
            k = (k + 1) & (l->n_slots - 1);
        l->slot[k] = (uint32_t)i + 1;
    }
    return l;
}

static bool listed(struct document *d, const struct pyjson *list, const struct pyjson *v)
{
    if (list->n >= 32) {
        const struct listing *l = listing_of(d, list);
        size_t k = value_hash(v) & (l->n_slots - 1);
        for (; l->slot[k]; k = (k + 1) & (l->n_slots - 1))
            if (equal(&list->items[l->slot[k] - 1], v))
                return true;
        return false;
    }
    for (size_t i = 0; i < list->n; i++)
        if (equal(&list->items[i], v))
            return true;
    return false;
}

/* True if the value has the type; unknown names allow everything. */
static bool is_type(struct text name, const struct pyjson *v)
{
    static const struct { const char *name; unsigned kinds; } types[] = {
        {"null", 1u << PY_NONE}, {"boolean", 1u << PY_TRUE | 1u << PY_FALSE}, {"string", 1u << PY_STR}, {"array", 1u << PY_LIST},
        {"object", 1u << PY_DICT}, {"number", 1u << PY_INT | 1u << PY_FLOAT}, {"any", ~0u},
    };
    struct decimal d;
    if (text_is(name, "integer"))
        return number_of(v, &d) && d.n <= d.point;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (text_is(name, types[i].name))
            return types[i].kinds >> v->kind & 1;
    return true;
}

static bool matches(struct document *d, struct text pattern, struct text s)
{
    uint32_t term;
    return !pattern_term(d->terms, pattern, false, &term, NULL) || term_matches(d->terms, term, s);
}

static size_t length(struct text s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += ((uint8_t)s.p[i] & 0xC0) != 0x80;
    return n;
}

/* Compares a size with the integer value of a keyword; 0 where the keyword is absent. */
static int against(const struct pyjson *schema, const char *keyword, size_t size)
{
    const struct pyjson *limit = pyjson_get(schema, keyword);
    struct decimal a, b;
    char text[24];
    if (!limit || !number_of(limit, &a))
        return 0;
    const int n = snprintf(text, sizeof text, "%zu", size);
    decimal_read(&b, (struct text){text, (size_t)n});
    return decimal_compare(&b, &a);
}

/* Checks bounds and multipleOf; values of other types pass. */
static bool check_number(const struct pyjson *s, const struct pyjson *v)
{
    struct decimal x, limit;
    if (!number_of(v, &x))
        return true;
    static const struct { const char *name, *flag; int wrong; bool open; } bounds[] = {
        {"minimum", "exclusiveMinimum", -1, false}, {"maximum", "exclusiveMaximum", 1, false}, {"exclusiveMinimum", NULL, -1, true},
        {"exclusiveMaximum", NULL, 1, true},
    };
    for (int i = 0; i < 4; i++) {
        const struct pyjson *b = pyjson_get(s, bounds[i].name), *flag = bounds[i].flag ? pyjson_get(s, bounds[i].flag) : NULL;
        if (!b || !number_of(b, &limit))
            continue;
        const int order = decimal_compare(&x, &limit);
        if (order * bounds[i].wrong > 0 || (order == 0 && (bounds[i].open || (flag && flag->kind == PY_TRUE))))
            return false;
    }
    const struct pyjson *of = pyjson_get(s, "multipleOf");
    if (!of || !number_of(of, &limit) || !limit.n)
        return true;
    const double q = strtod(v->text.p, NULL) / strtod(of->text.p, NULL);
    return fabs(q - round(q)) < 1e-9 * fmax(1, fabs(q));
}

/* Checks length, pattern and format. */
static bool check_string(struct document *d, const struct pyjson *s, const struct pyjson *v)
{
    const struct pyjson *pattern = pyjson_get(s, "pattern"), *format = pyjson_get(s, "format");
    if (against(s, "minLength", length(v->text)) < 0 || against(s, "maxLength", length(v->text)) > 0)
        return false;
    if (pattern && pattern->kind == PY_STR && !matches(d, pattern->text, v->text))
        return false;
    const char *known = format && format->kind == PY_STR ? document_format(format->text) : NULL;
    return !known || matches(d, text_of(known), v->text);
}

/* Checks items, their number, uniqueItems and contains. */
static bool check_array(struct document *d, const struct pyjson *s, const struct pyjson *v)
{
    const struct pyjson *prefix = pyjson_get(s, "prefixItems"), *items = pyjson_get(s, "items"), *contains = pyjson_get(s, "contains");
    const struct pyjson *unique = pyjson_get(s, "uniqueItems");
    if (items && items->kind == PY_LIST) {
        prefix = items;
        items = pyjson_get(s, "additionalItems");
    }
    if (against(s, "minItems", v->n) < 0 || against(s, "maxItems", v->n) > 0)
        return false;
    size_t found = 0;
    for (size_t i = 0; i < v->n; i++) {
        const struct pyjson *item = prefix && i < prefix->n ? &prefix->items[i] : items;
        if (item && !document_check(d, item, &v->items[i]))
            return false;
        found += contains && document_check(d, contains, &v->items[i]);
        for (size_t k = 0; k < i && unique && unique->kind == PY_TRUE; k++)
            if (equal(&v->items[i], &v->items[k]))
                return false;
    }
    if (!contains)
        return true;
    return (pyjson_get(s, "minContains") ? against(s, "minContains", found) >= 0 : found > 0) && against(s, "maxContains", found) <= 0;
}

/* Checks one member against properties, patterns, names and additionalProperties. */
static bool check_member(struct document *d, const struct pyjson *s, struct text key, const struct pyjson *v)
{
    const struct pyjson *properties = pyjson_get(s, "properties"), *patterns = pyjson_get(s, "patternProperties");
    const struct pyjson *names = pyjson_get(s, "propertyNames"), *more = pyjson_get(s, "additionalProperties");
    const struct pyjson *own = properties ? pyjson_item(properties, key) : NULL, name = pyjson_string(key);
    bool known = own;
    if ((own && !document_check(d, own, v)) || (names && !document_check(d, names, &name)))
        return false;
    for (size_t i = 0; patterns && i < patterns->n; i++)
        if (matches(d, patterns->keys[i], key)) {
            known = true;
            if (!document_check(d, &patterns->items[i], v))
                return false;
        }
    return known || !more || document_check(d, more, v);
}

static bool has_all(const struct pyjson *names, const struct pyjson *v)
{
    for (size_t i = 0; names && names->kind == PY_LIST && i < names->n; i++)
        if (names->items[i].kind == PY_STR && !pyjson_item(v, names->items[i].text))
            return false;
    return true;
}

/* Checks members, their number, required ones and dependencies. */
static bool check_object(struct document *d, const struct pyjson *s, const struct pyjson *v)
{
    static const char *const dependencies[] = {"dependencies", "dependentRequired", "dependentSchemas"};
    if (against(s, "minProperties", v->n) < 0 || against(s, "maxProperties", v->n) > 0 || !has_all(pyjson_get(s, "required"), v))
        return false;
    for (int i = 0; i < 3; i++) {
        const struct pyjson *table = pyjson_get(s, dependencies[i]);
        for (size_t k = 0; table && table->kind == PY_DICT && k < table->n; k++)
            if (pyjson_item(v, table->keys[k]) &&
                (table->items[k].kind == PY_LIST ? !has_all(&table->items[k], v) : !document_check(d, &table->items[k], v)))
                return false;
    }
    for (size_t i = 0; i < v->n; i++)
        if (!check_member(d, s, v->keys[i], &v->items[i]))
            return false;
    return true;
}

/* Counts the schemas of a list that accept the value. */
static size_t accepted(struct document *d, const struct pyjson *list, const struct pyjson *v)
{
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        n += document_check(d, &list->items[i], v);
    return n;
}

/* Checks allOf, anyOf, oneOf, not, and if with then and else. */
static bool check_combined(struct document *d, const struct pyjson *s, const struct pyjson *v)
{
    const struct pyjson *all = pyjson_get(s, "allOf"), *any = pyjson_get(s, "anyOf"), *one = pyjson_get(s, "oneOf"), *no = pyjson_get(s, "not");
    const struct pyjson *condition = pyjson_get(s, "if");
    if ((all && accepted(d, all, v) < all->n) || (any && !accepted(d, any, v)) ||
        (one && accepted(d, one, v) != 1) || (no && document_check(d, no, v)))
        return false;
    if (!condition)
        return true;
    const struct pyjson *then = pyjson_get(s, document_check(d, condition, v) ? "then" : "else");
    return !then || document_check(d, then, v);
}

/* Checks a value by the keywords of a schema. */
static bool check_keywords(struct document *d, const struct pyjson *s, const struct pyjson *v)
{
    const struct pyjson *ref = pyjson_get(s, "$ref"), *type = pyjson_get(s, "type"), *listing = pyjson_get(s, "enum"), *only = pyjson_get(s, "const");
    if (ref && ref->kind == PY_STR) {
        const struct pyjson *to = document_follow(d, s, ref->text);
        if (to && !document_check(d, to, v))
            return false;
    }
    if (ref && d->old)
        return true;
    bool ok = true;
    if (type && type->kind == PY_STR)
        ok = is_type(type->text, v);
    else if (type && type->kind == PY_LIST) {
        ok = false;
        for (size_t i = 0; i < type->n; i++)
            ok |= type->items[i].kind == PY_STR && is_type(type->items[i].text, v);
    }
    return ok && (!listing || listing->kind != PY_LIST || listed(d, listing, v)) && (!only || equal(only, v)) && check_number(s, v) &&
           (v->kind != PY_STR || check_string(d, s, v)) && (v->kind != PY_LIST || check_array(d, s, v)) &&
           (v->kind != PY_DICT || check_object(d, s, v)) && check_combined(d, s, v);
}

/* A result that took a check under way to hold is known only once that one has ended. */
bool document_check(struct document *d, const struct pyjson *s, const struct pyjson *v)
{
    const struct pyjson *nullable = pyjson_get(s, "nullable");
    if (s->kind != PY_DICT)
        return s->kind != PY_FALSE;
    if (nullable && nullable->kind == PY_TRUE && v->kind == PY_NONE)
        return true;
    if (!d->n_active) {
        d->steps = 0;
        d->check++;
    }
    struct known *known = &d->known[(((uintptr_t)s ^ (uintptr_t)v << 7) * 0x9E3779B97F4A7C15u >> 40) % DOCUMENT_KNOWN];
    if (known->schema == s && known->value == v && known->check == d->check && d->n_active)
        return known->holds;
    for (int i = d->n_active - 1; i >= 0; i--)
        if (d->active[i].schema == s && d->active[i].value == v) {
            d->least = d->least < i ? d->least : i;
            return true;
        }
    if (++d->steps > DOCUMENT_STEPS || ++d->work > DOCUMENT_WORK || d->n_active == DOCUMENT_DEPTH) {
        d->worn = true;
        return false;
    }
    const int self = d->n_active, before = d->least;
    d->least = self;
    d->active[d->n_active].schema = s;
    d->active[d->n_active++].value = v;
    const bool holds = check_keywords(d, s, v);
    d->n_active--;
    if (d->least >= self)
        *known = (struct known){s, v, d->check, holds};
    d->least = d->least < before || self == 0 ? d->least : before;
    return holds;
}
