#include "guide/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

enum { N_BYTES = 8192, N_DEPTH = 60, N_COUNT = 100000, N_RANGES = 512 };

enum kind { CHARS, THEN, OR, TIMES, START, END, AHEAD, NOT_AHEAD, NOTHING };
/* A part of a pattern; a and b are parts, min and max of TIMES. */
struct part {
    enum kind kind;
    int       a, b, min, max;
    uint32_t  term;             /* CHARS */
    bool      anchors, looks;   /* START or END, a look-ahead in it */
    bool      empty;            /* matches nothing but empty texts */
};

struct range { uint32_t lo, hi; };
struct ranges { struct range r[N_RANGES]; int n; };

struct parse {
    struct terms *t;
    struct text   in;
    size_t        i;
    struct part  *part;
    int           n, cap, depth;
    struct err   *e;
    bool          failed;
};

static int fail(struct parse *p, const char *what)
{
    if (!p->failed)
        err_set(p->e, "\"%.*s\" has %s", (int)(p->in.n < 120 ? p->in.n : 120), p->in.p, what);
    p->failed = true;
    return 0;
}

static int make(struct parse *p, struct part part)
{
    p->part = memory_grow(p->part, p->n, &p->cap, sizeof part);
    p->part[p->n] = part;
    return p->n++;
}

static int pair(struct parse *p, enum kind kind, int a, int b)
{
    const struct part x = p->part[a], y = p->part[b];
    return make(p, (struct part){.kind = kind, .a = a, .b = b, .anchors = x.anchors || y.anchors, .looks = x.looks || y.looks,
                                 .empty = x.empty && y.empty});
}

static bool more(const struct parse *p) { return p->i < p->in.n && !p->failed; }
static char peek(const struct parse *p) { return p->i < p->in.n ? p->in.p[p->i] : '\0'; }

static bool take(struct parse *p, const char *s)
{
    const size_t n = strlen(s);
    if (p->in.n - p->i < n || memcmp(p->in.p + p->i, s, n))
        return false;
    p->i += n;
    return true;
}

/* --- Classes of characters --- */

static void add(struct parse *p, struct ranges *l, uint32_t lo, uint32_t hi)
{
    if (l->n == N_RANGES)
        fail(p, "a class of so many characters");
    else if (lo <= hi)
        l->r[l->n++] = (struct range){lo, hi};
}

static int compare_ranges(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Sorts ranges and joins those that touch. */
static void merge(struct ranges *l)
{
    qsort(l->r, (size_t)l->n, sizeof *l->r, compare_ranges);
    int k = 0;
    for (int i = 0; i < l->n; i++)
        if (k && l->r[i].lo <= l->r[k - 1].hi + 1)
            l->r[k - 1].hi = l->r[i].hi > l->r[k - 1].hi ? l->r[i].hi : l->r[k - 1].hi;
        else
            l->r[k++] = l->r[i];
    l->n = k;
}

/* Adds all characters that are not in `but`. */
static void add_all_but(struct parse *p, struct ranges *l, struct ranges *but)
{
    uint32_t from = 0;
    merge(but);
    for (int i = 0; i < but->n; i++) {
        if (but->r[i].lo > from)
            add(p, l, from, but->r[i].lo - 1);
        from = but->r[i].hi + 1;
    }
    add(p, l, from, 0x10FFFF);
}

/* Adds the characters of \d, \w, \s, . or the complement, which an upper case letter stands for. */
static void add_named(struct parse *p, struct ranges *l, char name)
{
    static const struct range digits[] = {{'0', '9'}}, word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
        space[] = {{9, 13}, {32, 32}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                   {0x3000, 0x3000}, {0xFEFF, 0xFEFF}},
        ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    const struct range *r = digits;
    int n = 1;
    if (name == 'w' || name == 'W')
        r = word, n = 4;
    else if (name == 's' || name == 'S')
        r = space, n = 10;
    else if (name == '.')
        r = ends, n = 3;
    static _Thread_local struct ranges set;
    set.n = 0;
    for (int i = 0; i < n; i++)
        add(p, &set, r[i].lo, r[i].hi);
    if (name == '.' || (name >= 'A' && name <= 'Z'))
        add_all_but(p, l, &set);
    else
        for (int i = 0; i < n; i++)
            add(p, l, r[i].lo, r[i].hi);
}

/* Returns the union of the ranges; those in ASCII are one set of bytes. */
static uint32_t term_of_ranges(struct parse *p, struct ranges *l)
{
    merge(l);
    uint64_t ascii[4] = {0};
    struct { uint32_t *id; int n, cap; } parts = {0};
    for (int i = 0; i < l->n; i++) {
        for (uint32_t c = l->r[i].lo; c <= l->r[i].hi && c < 0x80; c++)
            ascii[c >> 6] |= 1ull << (c & 63);
        if (l->r[i].hi < 0x80)
            continue;
        parts.id = memory_grow(parts.id, parts.n, &parts.cap, sizeof *parts.id);
        parts.id[parts.n++] = term_char(p->t, l->r[i].lo > 0x80 ? l->r[i].lo : 0x80, l->r[i].hi);
    }
    parts.id = memory_grow(parts.id, parts.n, &parts.cap, sizeof *parts.id);
    parts.id[parts.n++] = term_bytes_of(p->t, ascii);
    const uint32_t id = l->n == 1 && l->r[0].lo == 0 && l->r[0].hi == 0x10FFFF ? term_any_char(p->t) : term_alts(p->t, parts.id, parts.n);
    free(parts.id);
    return id;
}

/* --- Escapes --- */

/* Reads n hexadecimal digits.  False, at the same place, if they are not there. */
static bool hex(struct parse *p, int n, uint32_t *v)
{
    *v = 0;
    if (p->in.n - p->i < (size_t)n)
        return false;
    for (int k = 0; k < n; k++) {
        const char c = p->in.p[p->i + (size_t)k];
        const int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0)
            return false;
        *v = *v << 4 | (uint32_t)d;
    }
    p->i += (size_t)n;
    return true;
}

/* Reads the rest of a \u escape; two surrogates make one character. */
static uint32_t unicode_escape(struct parse *p)
{
    uint32_t cp = 0, low = 0;
    if (take(p, "{")) {
        int n = 0;
        while (more(p) && p->i + (size_t)n < p->in.n && p->in.p[p->i + (size_t)n] != '}' && n < 7)
            n++;
        if (!n || !hex(p, n, &cp) || !take(p, "}") || cp > 0x10FFFF)
            fail(p, "an escape \\u{...} that is not a character");
        return cp;
    }
    if (!hex(p, 4, &cp))
        fail(p, "\\u without four hexadecimal digits");
    const size_t back = p->i;
    if (cp >= 0xD800 && cp < 0xDC00 && take(p, "\\u") && hex(p, 4, &low) && low >= 0xDC00 && low < 0xE000)
        return 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    p->i = back;
    return cp;
}

/* Reads what follows a backslash.  Either stores one character, or adds a class and returns true. */
static bool escape(struct parse *p, struct ranges *l, uint32_t *cp)
{
    static const char from[] = "tnrvf0", to[] = "\t\n\r\v\f";
    const char c = peek(p);
    *cp = 0;
    if (!more(p))
        return fail(p, "a backslash at the end");
    p->i++;
    if (strchr("dDwWsS", c)) {
        add_named(p, l, c);
        return true;
    }
    const char *s = c ? strchr(from, c) : NULL;
    if (s && !(c == '0' && peek(p) >= '0' && peek(p) <= '9'))
        *cp = (uint8_t)to[s - from];
    else if (c == 'u')
        *cp = unicode_escape(p);
    else if (c == 'x' && hex(p, 2, cp))
        return false;
    else if (c == 'c' && ((peek(p) | 32) >= 'a' && (peek(p) | 32) <= 'z'))
        *cp = (uint32_t)p->in.p[p->i++] & 31;
    else if ((c >= '0' && c <= '9') || c == 'k')
        fail(p, "a back reference or an octal escape");
    else if (c == 'p' || c == 'P')
        fail(p, "a Unicode property");
    else if (c == 'b' || c == 'B')
        fail(p, "a word boundary");
    else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        fail(p, "an escape of a letter that has no meaning");
    else {
        p->i--;
        p->i += utf8_decode(p->in.p + p->i, p->in.n - p->i, cp, NULL);
    }
    return false;
}

/* Reads one character of a class.  Returns true if it was a class itself. */
static bool class_member(struct parse *p, struct ranges *l, uint32_t *cp)
{
    if (take(p, "\\b")) {
        *cp = '\b';
        return false;
    }
    if (take(p, "\\-")) {
        *cp = '-';
        return false;
    }
    if (take(p, "\\"))
        return escape(p, l, cp);
    p->i += utf8_decode(p->in.p + p->i, p->in.n - p->i, cp, NULL);
    return false;
}

/* Reads a class after its bracket; returns its part. */
static int character_class(struct parse *p)
{
    struct ranges *l = memory_zeroed(2, sizeof *l);
    const bool negated = take(p, "^");
    while (more(p) && peek(p) != ']') {
        uint32_t lo, hi;
        if (class_member(p, l, &lo))
            continue;
        hi = lo;
        if (p->i + 1 < p->in.n && peek(p) == '-' && p->in.p[p->i + 1] != ']') {
            p->i++;
            if (class_member(p, l, &hi)) {
                add(p, l, '-', '-');
                hi = lo;
            } else if (hi < lo) {
                fail(p, "a range of characters that ends before it begins");
            }
        }
        add(p, l, lo, hi);
    }
    if (!take(p, "]"))
        fail(p, "a bracket [ that is not closed");
    if (negated)
        add_all_but(p, l + 1, l);
    const uint32_t term = p->failed ? 0 : term_of_ranges(p, negated ? l + 1 : l);
    free(l);
    return make(p, (struct part){.kind = CHARS, .term = term});
}

/* --- Structure --- */

static int either(struct parse *p);

/* Reads the name of a group up to its bracket; it has no effect. */
static bool skip_name(struct parse *p)
{
    const size_t from = p->i;
    for (; p->i < p->in.n && peek(p) != '>'; p->i++) {
        const char c = peek(p);
        const bool letter = (c & 0x80) || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '$';
        if (!letter && !(c >= '0' && c <= '9' && p->i > from))
            return false;
    }
    return p->i > from && take(p, ">");
}

/* Reads a group after its parenthesis; returns its part.  Look-behind is refused. */
static int group(struct parse *p)
{
    enum kind kind = NOTHING;
    if (take(p, "?:") || !take(p, "?")) {
        /* plain */
    } else if (take(p, "=")) {
        kind = AHEAD;
    } else if (take(p, "!")) {
        kind = NOT_AHEAD;
    } else if (take(p, "<") && peek(p) != '=' && peek(p) != '!') {
        if (!skip_name(p))
            return fail(p, "a group whose name is not valid");
    } else {
        return fail(p, "look-behind or another special group");
    }
    if (++p->depth > N_DEPTH)
        return fail(p, "groups nested too deeply");
    const int inner = either(p);
    p->depth--;
    if (!p->failed && !take(p, ")"))
        return fail(p, "a parenthesis that is not closed");
    if (kind == NOTHING || p->failed)
        return inner;
    return make(p, (struct part){.kind = kind, .a = inner, .looks = true, .empty = true});
}

static bool number(struct parse *p, int *v)
{
    if (peek(p) < '0' || peek(p) > '9')
        return false;
    for (*v = 0; peek(p) >= '0' && peek(p) <= '9'; p->i++)
        *v = *v > N_COUNT ? *v : *v * 10 + (peek(p) - '0');
    return true;
}

/* Reads {n}, {n,} or {n,m}; braces around anything else are characters. */
static bool braces(struct parse *p, int *min, int *max)
{
    const size_t back = p->i;
    if (take(p, "{") && number(p, min)) {
        *max = *min;
        if (take(p, ",") && !number(p, max))
            *max = TERM_INFINITE;
        if (take(p, "}"))
            return true;
    }
    p->i = back;
    return false;
}

/* Reads a group, class, anchor or character; returns its part. */
static int atom(struct parse *p)
{
    struct ranges *l;
    uint32_t cp;
    if (take(p, "("))
        return group(p);
    if (take(p, "["))
        return character_class(p);
    if (take(p, "^"))
        return make(p, (struct part){.kind = START, .anchors = true, .empty = true});
    if (take(p, "$"))
        return make(p, (struct part){.kind = END, .anchors = true, .empty = true});
    int min, max;
    if ((strchr("*+?", peek(p)) && peek(p)) || braces(p, &min, &max))
        return fail(p, "a repetition of nothing");
    l = memory_zeroed(1, sizeof *l);
    if (take(p, "."))
        add_named(p, l, '.');
    else if (take(p, "\\")) {
        if (!escape(p, l, &cp))
            add(p, l, cp, cp);
    } else {
        bool ok;
        p->i += utf8_decode(p->in.p + p->i, p->in.n - p->i, &cp, &ok);
        if (!ok)
            fail(p, "invalid UTF-8");
        add(p, l, cp, cp);
    }
    const uint32_t term = p->failed ? 0 : term_of_ranges(p, l);
    free(l);
    return make(p, (struct part){.kind = CHARS, .term = term});
}

/* Reads an atom and its repetition; returns its part. */
static int repeated(struct parse *p)
{
    const bool group = peek(p) == '(';
    const int part = atom(p);
    int min = 0, max = TERM_INFINITE;
    if (!more(p))
        return part;
    if (take(p, "+"))
        min = 1;
    else if (take(p, "?"))
        max = 1;
    else if (!take(p, "*") && !braces(p, &min, &max))
        return part;
    take(p, "?");
    const struct part inner = p->part[part];
    if (min > N_COUNT || max > N_COUNT || (max != TERM_INFINITE && max < min))
        return fail(p, max > N_COUNT || min > N_COUNT ? "a count above 100000" : "a range of counts that ends before it begins");
    if (inner.looks)
        return fail(p, "a look-ahead in a repetition");
    if (inner.anchors && !group)
        return fail(p, "a repetition of an anchor");
    return make(p, (struct part){.kind = TIMES, .a = part, .min = min, .max = max, .anchors = inner.anchors, .empty = inner.empty});
}

/* A chain of parts leans to the right, so that what follows a part is one part. */
static int sequence(struct parse *p)
{
    int list[N_BYTES / 16], n = 0;
    while (more(p) && peek(p) != '|' && peek(p) != ')') {
        if (n == N_BYTES / 16) {
            for (n--; n > 0; n--)
                list[n - 1] = pair(p, THEN, list[n - 1], list[n]);
            n = 1;
            if (p->part[list[0]].anchors || p->part[list[0]].looks)
                return fail(p, "so many parts");
        }
        list[n++] = repeated(p);
    }
    if (!n)
        return make(p, (struct part){.kind = NOTHING, .empty = true});
    for (n--; n > 0; n--)
        list[n - 1] = pair(p, THEN, list[n - 1], list[n]);
    return list[0];
}

static int either(struct parse *p)
{
    int part = sequence(p);
    while (more(p) && take(p, "|")) {
        const int other = sequence(p);
        part = pair(p, OR, part, other);
    }
    return part;
}

/* --- Terms --- */

static uint32_t texts(struct parse *p, int i, bool starts, bool ends);

/* Returns the texts of two parts with an anchor in them: the first stands at the end of the text only where the second is empty, the second at its
 * beginning only where the first is. */
static uint32_t anchored_pair(struct parse *p, int a, int b, bool starts, bool ends)
{
    const uint32_t first = texts(p, a, starts, false), second = texts(p, b, false, ends);
    const uint32_t at_end = ends ? texts(p, a, starts, true) : first, at_start = starts ? texts(p, b, true, ends) : second;
    uint32_t list[] = {
        term_cat(p->t, first, second), term_may_end(p->t, second) ? at_end : TERM_NONE, term_may_end(p->t, first) ? at_start : TERM_NONE,
        term_may_end(p->t, at_end) && term_may_end(p->t, at_start) ? TERM_EMPTY : TERM_NONE,
    };
    return term_alts(p->t, list, 4);
}

/* Returns the texts of a repetition with an anchor in it: the first one may stand at the beginning of the text, the last one at its end. */
static uint32_t anchored_times(struct parse *p, const struct part *x, bool starts, bool ends)
{
    const uint32_t within = texts(p, x->a, false, false), first = starts ? texts(p, x->a, true, false) : within;
    const uint32_t last = ends ? texts(p, x->a, false, true) : within, only = starts && ends ? texts(p, x->a, true, true) : starts ? first : last;
    const uint32_t others = term_repeat(p->t, within, x->min > 2 ? x->min - 2 : 0, x->max == TERM_INFINITE ? x->max : x->max > 2 ? x->max - 2 : 0);
    uint32_t list[] = {
        x->min == 0 ? TERM_EMPTY : TERM_NONE, x->max && (x->min <= 1 || term_may_end(p->t, only)) ? only : TERM_NONE,
        x->max == TERM_INFINITE || x->max > 1 ? term_cat(p->t, first, term_cat(p->t, others, last)) : TERM_NONE,
    };
    return term_alts(p->t, list, 3);
}

/* Returns the texts of a part that stands at the beginning of the text or not, and at its end or not. */
static uint32_t texts(struct parse *p, int i, bool starts, bool ends)
{
    const struct part x = p->part[i];
    terms_spend(p->t, 1);
    if (terms_full(p->t))
        return TERM_NONE;
    switch (x.kind) {
    case CHARS:   return x.term;
    case NOTHING: return TERM_EMPTY;
    case START:   return starts ? TERM_EMPTY : TERM_NONE;
    case END:     return ends ? TERM_EMPTY : TERM_NONE;
    case OR:      return term_alt(p->t, texts(p, x.a, starts, ends), texts(p, x.b, starts, ends));
    case TIMES:   return x.anchors ? anchored_times(p, &x, starts, ends) : term_repeat(p->t, texts(p, x.a, false, false), x.min, x.max);
    case THEN:
        return x.anchors ? anchored_pair(p, x.a, x.b, starts, ends) : term_cat(p->t, texts(p, x.a, false, false), texts(p, x.b, false, false));
    case AHEAD: case NOT_AHEAD: break;
    }
    return (uint32_t)fail(p, "a look-ahead in a group");
}

static uint32_t any_text(struct parse *p) { return term_repeat(p->t, term_any_char(p->t), 0, TERM_INFINITE); }

/* Returns the texts that begin with those of a part and reach to the end of the text. */
static uint32_t rest(struct parse *p, int i, bool starts, bool whole)
{
    const struct part x = p->part[i];
    if (x.looks && x.kind == OR)
        return term_alt(p->t, rest(p, x.a, starts, whole), rest(p, x.b, starts, whole));
    if (x.looks && x.kind == THEN && (p->part[x.a].kind == AHEAD || p->part[x.a].kind == NOT_AHEAD)) {
        const uint32_t ahead = rest(p, p->part[x.a].a, starts, false);
        return term_and(p->t, p->part[x.a].kind == AHEAD ? ahead : term_not(p->t, ahead), rest(p, x.b, starts, whole));
    }
    if (x.looks && x.kind == THEN)
        return term_cat(p->t, texts(p, x.a, starts, false), rest(p, x.b, starts && p->part[x.a].empty, whole));
    if (x.kind == AHEAD || x.kind == NOT_AHEAD) {
        const uint32_t ahead = rest(p, x.a, starts, false), any = whole ? TERM_EMPTY : any_text(p);
        return term_and(p->t, x.kind == AHEAD ? ahead : term_not(p->t, ahead), any);
    }
    const uint32_t at_end = texts(p, i, starts, true), before = whole ? TERM_NONE : texts(p, i, starts, false);
    if (whole)
        return at_end;
    if (term_may_end(p->t, before))
        return any_text(p);
    if (at_end == before)
        return term_cat(p->t, before, any_text(p));
    return term_alt(p->t, at_end, term_cat(p->t, before, term_repeat(p->t, term_any_char(p->t), 1, TERM_INFINITE)));
}

bool pattern_term(struct terms *t, struct text pattern, bool whole, uint32_t *term, struct err *e)
{
    terms_spend(t, pattern.n);
    if (terms_full(t))
        return err_set(e, "it is one pattern too many");
    struct parse p = {.t = t, .in = pattern, .e = e};
    *term = TERM_NONE;
    if (pattern.n > N_BYTES)
        return err_set(e, "it has %zu bytes, more than %d", pattern.n, N_BYTES);
    make(&p, (struct part){.kind = NOTHING});
    const int top = either(&p);
    if (more(&p))
        fail(&p, "a parenthesis ) that was not opened");
    if (!p.failed) {
        const uint32_t first = rest(&p, top, true, whole), later = whole || p.failed ? first : rest(&p, top, false, false);
        const bool same = first == later;
        *term = whole ? first : term_cat(t, term_repeat(t, term_any_char(t), same ? 0 : 1, TERM_INFINITE), later);
        *term = !whole && first == any_text(&p) ? first : same ? *term : term_alt(t, first, *term);
    }
    free(p.part);
    if (!p.failed && terms_full(t))
        return err_set(e, "\"%.*s\" has too many states", (int)(pattern.n < 120 ? pattern.n : 120), pattern.p);
    return !p.failed;
}
