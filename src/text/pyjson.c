#include "text/pyjson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/unicode.h"

enum { MAX_DEPTH = 1000, INDEX_FROM = 16 };

struct parser {
    const char       *p, *end, *begin;
    enum pyjson_mode  mode;
    struct arena     *a;
    struct err       *e;
    int               depth;
};

/* ---- lists and dicts ---- */

/* Makes room for one more item in a list or dictionary. */
static void grow_container(struct pyjson *v, struct arena *a)
{
    if (v->n < v->cap)
        return;
    size_t cap = v->cap ? v->cap * 2 : 4;
    struct pyjson *items = arena_array(a, cap, sizeof *items);
    if (v->n)
        memcpy(items, v->items, v->n * sizeof *items);
    v->items = items;
    if (v->kind == PY_DICT) {
        struct text *keys = arena_array(a, cap, sizeof *keys);
        if (v->n)
            memcpy(keys, v->keys, v->n * sizeof *keys);
        v->keys = keys;
    }
    v->cap = cap;
}

/* Returns the slot of a key in the dictionary's index; 0 in it: the key is not there. */
static uint32_t *slot(const struct pyjson *v, struct text key)
{
    uint64_t h = 14695981039346656037u;         /* FNV-1a */
    for (size_t i = 0; i < key.n; i++)
        h = (h ^ (unsigned char)key.p[i]) * 1099511628211u;
    h ^= h >> 32;
    for (size_t i = h & (v->n_index - 1);; i = (i + 1) & (v->n_index - 1))
        if (!v->index[i] || text_same(v->keys[v->index[i] - 1], key))
            return &v->index[i];
}

static void reindex(struct pyjson *v, struct arena *a)
{
    v->n_index = v->n_index ? v->n_index * 2 : INDEX_FROM * 4;
    v->index = arena_array(a, v->n_index, sizeof *v->index);
    for (size_t i = 0; i < v->n; i++)
        *slot(v, v->keys[i]) = (uint32_t)i + 1;
}

/* Returns the value of a key, or NULL. */
static struct pyjson *find_item(const struct pyjson *v, struct text key)
{
    if (v->index) {
        uint32_t at = *slot(v, key);
        return at ? &v->items[at - 1] : NULL;
    }
    for (size_t i = 0; i < v->n; i++)
        if (text_same(v->keys[i], key))
            return &v->items[i];
    return NULL;
}

void pyjson_set(struct pyjson *v, struct text key, struct pyjson value, struct arena *a)
{
    CHECK(v->kind == PY_DICT && v->n < UINT32_MAX / 4);
    struct pyjson *old = find_item(v, key);
    if (old) {
        *old = value;
        return;
    }
    grow_container(v, a);
    v->keys[v->n] = key;
    v->items[v->n++] = value;
    if (v->n > INDEX_FROM && v->n * 2 > v->n_index)
        reindex(v, a);
    else if (v->index)
        *slot(v, key) = (uint32_t)v->n;
}

struct pyjson *pyjson_add(struct pyjson *list, struct pyjson value, struct arena *a)
{
    CHECK(list->kind == PY_LIST);
    grow_container(list, a);
    list->items[list->n] = value;
    return &list->items[list->n++];
}

const struct pyjson *pyjson_item(const struct pyjson *v, struct text key)
{
    return v && v->kind == PY_DICT ? find_item(v, key) : NULL;
}

const struct pyjson *pyjson_get(const struct pyjson *v, const char *key)
{
    return pyjson_item(v, text_of(key));
}

const struct pyjson *pyjson_given(const struct pyjson *dict, const char *key)
{
    const struct pyjson *v = pyjson_get(dict, key);
    return v && v->kind != PY_NONE ? v : NULL;
}

struct pyjson pyjson_string(struct text t)
{
    return (struct pyjson){.kind = PY_STR, .text = t};
}

bool pyjson_truth(const struct pyjson *v)
{
    if (!v)
        return false;
    switch (v->kind) {
    case PY_NONE: case PY_FALSE: return false;
    case PY_TRUE:                return true;
    case PY_INT:                 return !text_is(v->text, "0");
    case PY_FLOAT:               return !text_is(v->text, "0.0") && !text_is(v->text, "-0.0");
    case PY_STR:                 return v->text.n > 0;
    case PY_LIST: case PY_DICT:  break;
    }
    return v->n > 0;
}

/* ---- numbers ---- */

/* Rounds v to `n` significant digits; returns whether they read back as v.  v >= 0; *exp10 is that of the first digit. */
static bool digits_of(double v, int n, char *digits, int *exp10)
{
    char s[64];
    snprintf(s, sizeof s, "%.*e", n - 1, v);
    int k = 0;
    const char *p = s;
    for (; *p != 'e'; p++)              /* in some locales the decimal point is a comma */
        if (*p >= '0' && *p <= '9')
            digits[k++] = *p;
    digits[k] = 0;
    *exp10 = atoi(p + 1);
    if (strtod(s, NULL) == v)
        return true;
    /* Below a power of two the spacing is half as wide: the upper neighbour may read back as v where the nearest does not. */
    if (digits[n - 1] == '9')
        return false;
    digits[n - 1]++;
    snprintf(s, sizeof s, "%se%d", digits, *exp10 - (n - 1));
    if (strtod(s, NULL) == v)
        return true;
    digits[n - 1]--;
    return false;
}

/* Appends repr(v): the shortest digits that read back as v; an exponent from 1e16 on and below 1e-4. */
static void float_repr(double v, struct buf *out)
{
    char d[32];
    int exp10, n = 1;
    if (signbit(v))
        buf_addc(out, '-');
    v = fabs(v);
    if (isinf(v)) {
        buf_adds(out, "inf");
        return;
    }
    while (!digits_of(v, n, d, &exp10) && n < 17)
        n++;
    while (n > 1 && d[n - 1] == '0')
        n--;
    if (exp10 < -4 || exp10 >= 16) {
        buf_addc(out, d[0]);
        if (n > 1)
            buf_addf(out, ".%.*s", n - 1, d + 1);
        buf_addf(out, "e%c%02d", exp10 < 0 ? '-' : '+', abs(exp10));
        return;
    }
    if (exp10 < 0)
        buf_adds(out, "0.");
    for (int i = exp10 < 0 ? exp10 + 1 : 0; i < n || i <= exp10 + 1; i++) {
        if (i > 0 && i == exp10 + 1)
            buf_addc(out, '.');
        buf_addc(out, i >= 0 && i < n ? d[i] : '0');
    }
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Reads the double nearest to a JSON number. The point is removed first, so that the locale does not matter. */
static double read_double(struct text t)
{
    struct buf s = {0};
    long exp10 = 0, fraction = 0;
    bool after_point = false;
    for (size_t i = 0; i < t.n; i++) {
        char c = t.p[i];
        if (c == 'e' || c == 'E') {
            struct buf x = {0};
            buf_add(&x, t.p + i + 1, t.n - i - 1);
            exp10 = strtol(buf_str(&x), NULL, 10);      /* saturates */
            buf_free(&x);
            break;
        }
        if (c == '.') {
            after_point = true;
            continue;
        }
        fraction += after_point;
        buf_addc(&s, c);
    }
    const long far = 1000000000000;     /* an exponent that no number of digits can compensate */
    exp10 = exp10 > far ? far : exp10 < -far ? -far : exp10;
    buf_addf(&s, "e%ld", exp10 - fraction);
    double v = strtod(s.data, NULL);
    buf_free(&s);
    return v;
}

static bool fail(struct parser *ps, const char *what)
{
    return err_set(ps->e, "not valid JSON at byte %td: %s", ps->p - ps->begin, what);
}

/* Reads a number as json.loads does; it is kept as text, a float in Python's form. */
static bool parse_number(struct parser *ps, struct pyjson *v)
{
    const char *p = ps->p, *digits = p + (*p == '-');
    bool real = false;
    p = skip_digits(digits, ps->end);
    if (p == digits || (*digits == '0' && p > digits + 1))
        return fail(ps, "a value was expected");
    if (p < ps->end && *p == '.' && skip_digits(p + 1, ps->end) > p + 1) {
        real = true;
        p = skip_digits(p + 1, ps->end);
    }
    if (p < ps->end && (*p == 'e' || *p == 'E')) {
        const char *x = p + 1;
        x += x < ps->end && (*x == '+' || *x == '-');
        if (skip_digits(x, ps->end) > x) {
            real = true;
            p = skip_digits(x, ps->end);
        }
    }
    struct text t = {ps->p, (size_t)(p - ps->p)};
    if (real) {
        double d = read_double(t);
        if (isinf(d) && ps->mode != PYJSON_LOADS)
            return fail(ps, "the number is too large");
        struct buf s = {0};
        float_repr(d, &s);
        t = (struct text){arena_strndup(ps->a, s.data, s.len), s.len};
        buf_free(&s);
    } else if (text_is(t, "-0")) {
        t = text_of("0");
    } else {
        t.p = arena_strndup(ps->a, t.p, t.n);
    }
    *v = (struct pyjson){.kind = real ? PY_FLOAT : PY_INT, .text = t};
    ps->p = p;
    return true;
}

/* ---- strings ---- */

static void add_utf8(struct buf *b, uint32_t cp)
{
    char utf8[4];
    buf_add(b, utf8, unicode_encode(cp, utf8));
}

/* Reads n hexadecimal digits. */
static bool parse_hex(struct parser *ps, int n, uint32_t *c)
{
    *c = 0;
    for (; n; n--, ps->p++) {
        int d = ps->p == ps->end ? -1
              : *ps->p >= '0' && *ps->p <= '9' ? *ps->p - '0'
              : (*ps->p | 32) >= 'a' && (*ps->p | 32) <= 'f' ? (*ps->p | 32) - 'a' + 10 : -1;
        if (d < 0)
            return fail(ps, "a hexadecimal digit was expected");
        *c = *c << 4 | (uint32_t)d;
    }
    return true;
}

/* Reads, after "\u", the character, combined from two surrogates if needed. */
static bool parse_unicode(struct parser *ps, int n_digits, struct buf *out)
{
    uint32_t c, low;
    if (!parse_hex(ps, n_digits, &c))
        return false;
    if (c >= 0xd800 && c < 0xdc00 && ps->end - ps->p >= 2 && ps->p[0] == '\\' && ps->p[1] == 'u') {
        ps->p += 2;
        if (!parse_hex(ps, 4, &low))
            return false;
        if (low >= 0xdc00 && low < 0xe000)
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        return fail(ps, "half a surrogate pair is no character");
    add_utf8(out, c);
    return true;
}

/* Reads an escape after its backslash, by the rules of JSON or of a Python literal. */
static bool parse_escape(struct parser *ps, struct buf *out)
{
    static const char json[] = "\"\"\\\\//b\bf\fn\nr\rt\t", python[] = "\"\"''\\\\b\bf\fn\nr\rt\ta\av\v";
    if (ps->p == ps->end)
        return fail(ps, "the string does not end");
    char c = *ps->p++;
    bool literal = ps->mode == PYJSON_LITERAL;
    for (const char *s = literal ? python : json; *s; s += 2)
        if (*s == c) {
            buf_addc(out, s[1]);
            return true;
        }
    if (c == 'u')
        return parse_unicode(ps, 4, out);
    if (!literal) {
        ps->p--;
        return fail(ps, "unknown escape");
    }
    if (c == 'U')
        return parse_unicode(ps, 8, out);
    if (c == 'x')
        return parse_unicode(ps, 2, out);
    if (c == '\n')
        return true;
    if (c >= '0' && c <= '7') {
        uint32_t code = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && ps->p < ps->end && *ps->p >= '0' && *ps->p <= '7'; i++)
            code = code * 8 + (uint32_t)(*ps->p++ - '0');
        add_utf8(out, code);
        return true;
    }
    buf_addc(out, '\\');                /* Python keeps unknown escapes */
    buf_addc(out, c);
    return true;
}

/* Reads a string from its opening quote; the text is copied to the arena. */
static bool parse_string(struct parser *ps, struct text *t)
{
    struct buf out = {0};
    bool ok = false;
    char quote = *ps->p++;
    for (;;) {
        const char *run = ps->p;
        while (ps->p < ps->end && *ps->p != quote && *ps->p != '\\' && (unsigned char)*ps->p >= 0x20)
            ps->p++;
        buf_add(&out, run, (size_t)(ps->p - run));
        if (ps->p == ps->end) {
            fail(ps, "the string does not end");
            break;
        }
        if (*ps->p == quote) {
            ps->p++;
            ok = unicode_valid(buf_str(&out), out.len) || fail(ps, "the string is not UTF-8");
            break;
        }
        if (*ps->p != '\\') {
            if (ps->mode == PYJSON_LENIENT || (ps->mode == PYJSON_LITERAL && *ps->p != '\n' && *ps->p != '\r')) {
                buf_addc(&out, *ps->p++);
                continue;
            }
            fail(ps, "a control character inside a string");
            break;
        }
        ps->p++;
        if (!parse_escape(ps, &out))
            break;
    }
    if (ok)
        *t = (struct text){arena_strndup(ps->a, buf_str(&out), out.len), out.len};
    buf_free(&out);
    return ok;
}

/* ---- values ---- */

static void skip_blanks(struct parser *ps)
{
    while (ps->p < ps->end && strchr(" \t\n\r", *ps->p) && *ps->p)
        ps->p++;
}

static bool take_char(struct parser *ps, char c)
{
    skip_blanks(ps);
    if (ps->p == ps->end || *ps->p != c)
        return false;
    ps->p++;
    return true;
}

static bool parse_value(struct parser *ps, struct pyjson *v);

/* Reads an item of a list, or key and value of a dictionary, and adds it. */
static bool parse_item(struct parser *ps, struct pyjson *v)
{
    struct text key = {0};
    struct pyjson item;
    if (v->kind == PY_DICT) {
        skip_blanks(ps);
        if (ps->p == ps->end || (*ps->p != '"' && !(*ps->p == '\'' && ps->mode == PYJSON_LITERAL)))
            return fail(ps, "a key in quotes was expected");
        if (!parse_string(ps, &key))
            return false;
        if (!take_char(ps, ':'))
            return fail(ps, "':' was expected");
    }
    if (!parse_value(ps, &item))
        return false;
    if (v->kind == PY_DICT) {
        pyjson_set(v, key, item, ps->a);
    } else {
        grow_container(v, ps->a);
        v->items[v->n++] = item;
    }
    return true;
}

/* Reads the items after the opening bracket.  A Python tuple of one element needs its comma; without, the brackets mean nothing. */
static bool parse_items(struct parser *ps, struct pyjson *v, char close)
{
    bool comma = true;
    if (take_char(ps, close))
        return true;
    if (++ps->depth > MAX_DEPTH)
        return fail(ps, "more than 1000 levels deep");
    for (;;) {
        if (!parse_item(ps, v))
            return false;
        comma = take_char(ps, ',');
        if ((!comma || ps->mode == PYJSON_LITERAL) && take_char(ps, close))
            break;
        if (!comma)
            return fail(ps, "',' or the end of a list or object was expected");
    }
    ps->depth--;
    if (close == ')' && v->n == 1 && !comma)
        *v = (struct pyjson)v->items[0];
    return true;
}

static const struct name {
    const char  *name;
    enum py_kind kind;
    bool         python;
} names[] = {
    {"null", PY_NONE, false}, {"true", PY_TRUE, false}, {"false", PY_FALSE, false},
    {"None", PY_NONE, true},  {"True", PY_TRUE, true},  {"False", PY_FALSE, true},
};

/* Reads a value of any type. */
static bool parse_value(struct parser *ps, struct pyjson *v)
{
    *v = (struct pyjson){0};
    skip_blanks(ps);
    if (ps->p == ps->end)
        return fail(ps, "a value was expected");
    bool literal = ps->mode == PYJSON_LITERAL;
    char c = *ps->p;
    if (c == '"' || (literal && c == '\'')) {
        v->kind = PY_STR;
        return parse_string(ps, &v->text);
    }
    if (c == '[' || c == '{' || (literal && c == '(')) {
        ps->p++;
        v->kind = c == '{' ? PY_DICT : PY_LIST;
        return parse_items(ps, v, c == '{' ? '}' : c == '[' ? ']' : ')');
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct text rest = {ps->p, (size_t)(ps->end - ps->p)};
        if ((literal || !names[i].python) && text_starts(rest, names[i].name)) {
            ps->p += strlen(names[i].name);
            v->kind = names[i].kind;
            return true;
        }
    }
    return parse_number(ps, v);
}

bool pyjson_parse(struct pyjson *v, struct text src, enum pyjson_mode mode, struct arena *a, struct err *e)
{
    struct parser ps = {.p = src.p, .begin = src.p, .end = src.p + src.n, .mode = mode, .a = a, .e = e};
    *v = (struct pyjson){0};
    if (!src.n)
        return err_set(e, "not valid JSON: the text is empty");
    if (!parse_value(&ps, v))
        return false;
    skip_blanks(&ps);
    return ps.p == ps.end || fail(&ps, "something follows the value");
}

/* ---- printing ---- */

void pyjson_quote(struct text t, struct buf *out)
{
    static const char escapes[] = "\"\"\\\\\nn\rr\tt\bb\ff";
    buf_addc(out, '"');
    while (t.n) {
        uint32_t cp;
        size_t n = unicode_decode(t.p, t.n, &cp, NULL);
        const char *s = escapes;
        while (*s && (uint32_t)*s != cp)
            s += 2;
        if (*s)
            buf_addf(out, "\\%c", s[1]);
        else if (cp < 0x20)
            buf_addf(out, "\\u%04x", cp);
        else
            add_utf8(out, cp);
        t.p += n;
        t.n -= n;
    }
    buf_addc(out, '"');
}

void pyjson_dump(const struct pyjson *v, struct buf *out)
{
    static const char *const word[] = {[PY_NONE] = "null", [PY_FALSE] = "false", [PY_TRUE] = "true"};
    switch (v->kind) {
    case PY_NONE: case PY_FALSE: case PY_TRUE:
        buf_adds(out, word[v->kind]);
        break;
    case PY_INT:
        buf_add(out, v->text.p, v->text.n);
        break;
    case PY_FLOAT:
        if (text_ends(v->text, "inf"))
            buf_adds(out, v->text.n == 3 ? "Infinity" : "-Infinity");
        else
            buf_add(out, v->text.p, v->text.n);
        break;
    case PY_STR:
        pyjson_quote(v->text, out);
        break;
    case PY_LIST: case PY_DICT:
        buf_addc(out, v->kind == PY_LIST ? '[' : '{');
        for (size_t i = 0; i < v->n; i++) {
            if (i)
                buf_adds(out, ", ");
            if (v->kind == PY_DICT) {
                pyjson_quote(v->keys[i], out);
                buf_adds(out, ": ");
            }
            pyjson_dump(&v->items[i], out);
        }
        buf_addc(out, v->kind == PY_LIST ? ']' : '}');
        break;
    }
}

void pyjson_str(const struct pyjson *v, struct buf *out)
{
    static const char *const word[] = {[PY_NONE] = "None", [PY_FALSE] = "False", [PY_TRUE] = "True"};
    if (v->kind <= PY_TRUE)
        buf_adds(out, word[v->kind]);
    else if (v->kind <= PY_STR)
        buf_add(out, v->text.p, v->text.n);
    else
        pyjson_dump(v, out);
}
