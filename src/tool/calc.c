/* Recursive descent, loosest first:  sum: product (+|- product)*   product: sign (*|/|% sign)*
 * sign: (-|+)* power   power: atom (^ sign)?   atom: number | name | name ( sum, ... ) | ( sum )
 * So -2^2 is -4 and 2^3^2 is 2^9, as on paper. */
#include "tool/calc.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200, MAX_ARGS = 16 };

struct number {
    bool     exact;
    __int128 i;                 /* exact */
    double   d;                 /* otherwise */
};

struct parser {
    const char *p;
    int  depth;
    bool failed;
    struct err *e;
};

static struct number sum(struct parser *s);
static struct number sign(struct parser *s);

static struct number fail(struct parser *s, const char *why)
{
    if (!s->failed)
        err_set(s->e, "%s", why);
    s->failed = true;
    return (struct number){0};
}

static struct number exact(__int128 i)
{
    return (struct number){.exact = true, .i = i};
}

static struct number inexact(double d)
{
    return (struct number){.d = d};
}

static double real(struct number a)
{
    return a.exact ? (double)a.i : a.d;
}

/* Signs that people and models write instead of ASCII ones. */
static const struct { const char *text; char means; } signs[] = {
    {"**", '^'}, {"\xc3\x97", '*'}, {"\xc2\xb7", '*'}, {"\xc3\xb7", '/'}, {"\xe2\x88\x92", '-'}, {"\xe2\x81\x84", '/'},
};

static void skip(struct parser *s)
{
    while (isspace((unsigned char)*s->p))
        s->p++;
}

/* Returns the operator at this place, 0 at the end; *n: its length. */
static char peek(struct parser *s, size_t *n)
{
    skip(s);
    for (size_t k = 0; k < sizeof signs / sizeof *signs; k++) {
        *n = strlen(signs[k].text);
        if (!strncmp(s->p, signs[k].text, *n))
            return signs[k].means;
    }
    *n = 1;
    return *s->p;
}

static bool take(struct parser *s, char c)
{
    size_t n;
    if (peek(s, &n) != c)
        return false;
    s->p += n;
    return true;
}

/* Returns a op b: exact while both are whole numbers and the result fits, else a double. */
static struct number apply(struct parser *s, char op, struct number a, struct number b)
{
    __int128 r = 0;
    bool whole = a.exact && b.exact;
    if ((op == '/' || op == '%') && real(b) == 0)
        return fail(s, "division by zero");
    switch (op) {
    case '+':
        return whole && !__builtin_add_overflow(a.i, b.i, &r) ? exact(r) : inexact(real(a) + real(b));
    case '-':
        return whole && !__builtin_sub_overflow(a.i, b.i, &r) ? exact(r) : inexact(real(a) - real(b));
    case '*':
        return whole && !__builtin_mul_overflow(a.i, b.i, &r) ? exact(r) : inexact(real(a) * real(b));
    case '/':
        if (whole && b.i != -1 && a.i % b.i == 0)
            return exact(a.i / b.i);
        return whole && b.i == -1 ? apply(s, '-', exact(0), a) : inexact(real(a) / real(b));
    default:                            /* the remainder has the sign of the divisor */
        if (whole) {
            r = b.i == -1 ? 0 : a.i % b.i;
            return exact(r && (r < 0) != (b.i < 0) ? r + b.i : r);
        }
        return inexact(real(a) - real(b) * floor(real(a) / real(b)));
    }
}

/* Returns a to the power of b: exact while both are whole numbers and the result fits, else a double. */
static struct number power(struct parser *s, struct number a, struct number b)
{
    if (a.exact && b.exact && b.i >= 0 && b.i < 4096) {
        __int128 r = 1;
        bool fits = true;
        for (int k = 0; k < (int)b.i && fits; k++)
            fits = !__builtin_mul_overflow(r, a.i, &r);
        if (fits)
            return exact(r);
    }
    if (real(a) == 0 && real(b) < 0)
        return fail(s, "division by zero");
    return inexact(pow(real(a), real(b)));
}

/* Reads a number: exact if it is whole and fits, else a double. */
static struct number digits(struct parser *s)
{
    const char *p = s->p;
    __int128 v = 0;
    bool fits = true;
    for (; isdigit((unsigned char)*p); p++)
        fits = fits && !__builtin_mul_overflow(v, (__int128)10, &v) && !__builtin_add_overflow(v, (__int128)(*p - '0'), &v);
    bool exponent = (*p == 'e' || *p == 'E') && (isdigit((unsigned char)p[1]) || ((p[1] == '-' || p[1] == '+') && isdigit((unsigned char)p[2])));
    if (fits && *p != '.' && !exponent) {
        s->p = p;
        return exact(v);
    }
    char *end;
    double d = strtod(s->p, &end);
    if (end == s->p)
        return fail(s, "a number is missing");
    s->p = end;
    return inexact(d);
}

/* --- functions -------------------------------------------------------------------------------------------------- */

static double log_of(double x)  { return log10(x); }
static double round_of(double x) { return round(x); }

static const struct { const char *name; double (*fn)(double); bool keeps_whole; } functions[] = {
    {"sqrt", sqrt, false}, {"abs", fabs, false}, {"round", round_of, true}, {"floor", floor, true}, {"ceil", ceil, true},
    {"sin", sin, false}, {"cos", cos, false}, {"tan", tan, false}, {"exp", exp, false}, {"ln", log, false}, {"log", log_of, false},
};

/* Makes a double that holds a whole number below 2^53 exact. */
static struct number settle(double d)
{
    return d == floor(d) && fabs(d) < 9007199254740992.0 ? exact((__int128)d) : inexact(d);
}

/* Returns the largest or the smallest of n numbers. */
static struct number extreme(const struct number *a, int n, bool largest)
{
    struct number best = a[0];
    for (int k = 1; k < n; k++) {
        bool both = best.exact && a[k].exact;
        bool less = both ? a[k].i < best.i : real(a[k]) < real(best);
        bool more = both ? a[k].i > best.i : real(a[k]) > real(best);
        if (largest ? more : less)
            best = a[k];
    }
    return best;
}

/* Returns the value of a function by its name. */
static struct number call(struct parser *s, const char *name, const struct number *a, int n)
{
    if (!strcmp(name, "min") || !strcmp(name, "max"))
        return extreme(a, n, name[1] == 'a');
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        if (strcmp(name, functions[k].name))
            continue;
        if (n != 1)
            return fail(s, "this function takes one number");
        if (a[0].exact && functions[k].keeps_whole)
            return a[0];
        if (a[0].exact && functions[k].fn == fabs)
            return a[0].i < 0 ? apply(s, '-', exact(0), a[0]) : a[0];
        return settle(functions[k].fn(real(a[0])));
    }
    return fail(s, "unknown function; there are sqrt abs round floor ceil min max sin cos tan exp ln log");
}

/* Reads pi, e, or a function with its arguments. */
static struct number name(struct parser *s)
{
    char word[16];
    size_t n = 0;
    struct number args[MAX_ARGS];
    int n_args = 0;
    for (; isalnum((unsigned char)*s->p); s->p++)
        if (n < sizeof word - 1)
            word[n++] = (char)tolower((unsigned char)*s->p);
    word[n] = 0;
    if (!strcmp(word, "pi"))
        return inexact(M_PI);
    if (!strcmp(word, "e"))
        return inexact(M_E);
    if (!take(s, '('))
        return fail(s, "unknown name; expected a number, pi, e or a function such as sqrt(2)");
    do {
        if (n_args == MAX_ARGS)
            return fail(s, "too many arguments");
        args[n_args++] = sum(s);
    } while (!s->failed && take(s, ','));
    if (!take(s, ')'))
        return fail(s, "a closing parenthesis is missing");
    return s->failed ? (struct number){0} : call(s, word, args, n_args);
}

/* Reads a number, a name or an expression in parentheses. */
static struct number atom(struct parser *s)
{
    size_t n;
    char c = peek(s, &n);
    if (isdigit((unsigned char)c) || c == '.')
        return digits(s);
    if (isalpha((unsigned char)c))
        return name(s);
    if (!take(s, '('))
        return fail(s, c ? "this is not arithmetic: expected a number" : "the expression ends too early");
    struct number v = sum(s);
    return take(s, ')') ? v : fail(s, "a closing parenthesis is missing");
}

/* Reads signs, an atom and its power.  A sign binds less than ^, so that -2^2 is -4. */
static struct number sign(struct parser *s)
{
    bool minus = false;
    for (;;) {
        if (take(s, '-'))
            minus = !minus;
        else if (!take(s, '+'))
            break;
    }
    struct number v = atom(s);
    if (!s->failed && take(s, '^')) {
        if (++s->depth > MAX_DEPTH)
            return fail(s, "the expression is nested too deeply");
        v = power(s, v, sign(s));
        s->depth--;
    }
    return minus ? apply(s, '-', exact(0), v) : v;
}

/* Reads factors joined by *, / and %. */
static struct number product(struct parser *s)
{
    struct number v = sign(s);
    size_t n;
    char op;
    while (!s->failed && ((op = peek(s, &n)) == '*' || op == '/' || op == '%')) {
        s->p += n;
        v = apply(s, op, v, sign(s));
    }
    return v;
}

/* Reads products joined by + and -; refuses an expression that is nested too deeply. */
static struct number sum(struct parser *s)
{
    struct number v = {0};
    size_t n;
    char op;
    if (++s->depth > MAX_DEPTH)
        return fail(s, "the expression is nested too deeply");
    v = product(s);
    while (!s->failed && ((op = peek(s, &n)) == '+' || op == '-')) {
        s->p += n;
        v = apply(s, op, v, product(s));
    }
    s->depth--;
    return v;
}

/* Prints a number of 128 bits in decimal. */
static void print_exact(__int128 v, char *out, size_t size)
{
    char text[48];
    int n = sizeof text;
    unsigned __int128 u = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
    text[--n] = 0;
    do
        text[--n] = (char)('0' + (int)(u % 10));
    while (u /= 10);
    if (v < 0)
        text[--n] = '-';
    snprintf(out, size, "%s", text + n);
}

bool calc(const char *expression, char *out, size_t size, struct err *e)
{
    struct parser s = {.p = expression, .e = e};
    struct number v = sum(&s);
    size_t n;
    if (!s.failed && take(&s, '=') && peek(&s, &n))     /* "17 + 25 =" is how people write it */
        fail(&s, "nothing may follow the equals sign");
    if (!s.failed && peek(&s, &n))
        fail(&s, "this is not arithmetic: expected an operator");
    if (!s.failed && !v.exact && !isfinite(v.d))
        fail(&s, isnan(v.d) ? "the result is not a real number" : "the result is too large");
    if (s.failed)
        return false;
    if (v.exact)
        print_exact(v.i, out, size);
    else
        snprintf(out, size, "%.15g", v.d == 0 ? 0.0 : v.d);
    return true;
}
