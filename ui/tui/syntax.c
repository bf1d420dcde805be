#include "ui/tui/syntax.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

enum { DIRECTIVES = 1, ANY_CASE = 2, KEYS = 4, NAMES = 8, TAGS = 16, WORD_COMMENT = 32, DIFF = 64 };

struct language {
    const char *name, *aliases, *line_comments, *begin, *end, *strings;
    int flags;
    const char *keywords, *constants;
};

#define LANGUAGE(...) {__VA_ARGS__},
static const struct language languages[] = {
#include "config/syntax.def"
};

/* The forms of strings.  Without `lines` an unclosed string ends with its line. */
static const struct form {
    char letter;
    const char *quote;
    bool escapes, lines;
} forms[] = {
    {'d', "\"", true, false}, {'D', "\"", true, true}, {'s', "'", true, false}, {'c', "'", true, false}, {'r', "'", false, true},
    {'q', "'", false, true}, {'t', "`", true, true}, {'3', "\"\"\"", true, true}, {'3', "'''", true, true},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

/* The state after a line: 0, COMMENT, or STRINGS + the form of an open string; plus IN_TAG within a tag. */
enum { COMMENT = 1, STRINGS = 2, IN_TAG = 64 };

struct lexer {
    const struct language *of;
    const char *s;
    size_t n, at, emitted;         /* bytes before `emitted` were passed to fn */
    int open;
    bool tag;
    void (*fn)(void *arg, enum style style, size_t from, size_t n);
    void *arg;
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* True if s[0..n) is one of the words of the list, which blanks separate. */
static bool in_list(const char *list, const char *s, size_t n, bool any_case)
{
    while (*list) {
        size_t k = strcspn(list, " ");
        if (k == n && n && !(any_case ? strncasecmp(list, s, n) : strncmp(list, s, n)))
            return true;
        list += k + strspn(list + k, " ");
    }
    return false;
}

int syntax_find(const char *info, size_t n)
{
    size_t k = 0;
    while (k < n && !strchr(" \t,:{", info[k]))
        k++;
    for (int i = 0; i < (int)(sizeof languages / sizeof *languages); i++)
        if (in_list(languages[i].aliases, info, k, true))
            return i;
    return -1;
}

const char *syntax_name(int language)
{
    return languages[language].name;
}

/* --- pieces --- */

static void emit(struct lexer *l, enum style style, size_t to)
{
    if (to > l->emitted)
        l->fn(l->arg, style, l->emitted, to - l->emitted);
    l->emitted = to;
}

/* Emits [from, at) with a style, and the bytes before it that were not emitted yet as plain code. */
static void colour(struct lexer *l, enum style style, size_t from)
{
    emit(l, STYLE_code, from);
    emit(l, style, l->at);
}

static bool here(const struct lexer *l, const char *what)
{
    size_t n = strlen(what);
    return n && l->n - l->at >= n && !memcmp(l->s + l->at, what, n);
}

/* --- parts of a line --- */

static void comment(struct lexer *l, size_t from)
{
    const char *end = memmem(l->s + l->at, l->n - l->at, l->of->end, strlen(l->of->end));
    l->open = end ? 0 : COMMENT;
    l->at = end ? (size_t)(end - l->s) + strlen(l->of->end) : l->n;
    colour(l, STYLE_comment, from);
}

static bool names_something(const struct lexer *l)
{
    size_t i = l->at;
    while (i < l->n && is_blank(l->s[i]))
        i++;
    return (l->of->flags & NAMES) && i < l->n && l->s[i] == ':';
}

/* Reads a string after its opening quote, or one that the line above left open. */
static void string(struct lexer *l, int form, size_t from)
{
    const struct form *f = &forms[form];
    l->open = f->lines ? STRINGS + form : 0;
    while (l->at < l->n) {
        if (here(l, f->quote)) {
            l->at += strlen(f->quote);
            l->open = 0;
            break;
        }
        l->at += f->escapes && l->s[l->at] == '\\' && l->at + 1 < l->n ? 2 : 1;
    }
    colour(l, names_something(l) ? STYLE_keyword : STYLE_string, from);
}

/* Returns the form of the string that begins here, or -1.  The quote in "&'a str" begins no string. */
static int string_here(const struct lexer *l)
{
    if ((l->of->flags & TAGS) && !l->tag)
        return -1;
    for (int i = N_FORMS - 1; i >= 0; i--) {            /* three quotes before one */
        if (!strchr(l->of->strings, forms[i].letter) || !here(l, forms[i].quote))
            continue;
        size_t left = l->n - l->at;
        const char *p = l->s + l->at;
        bool character = left > 2 && (p[1] == '\\' || p[2] == '\'' || ((p[1] & 0x80) && memchr(p + 2, '\'', left < 6 ? left - 2 : 4)));
        if (forms[i].letter != 'c' || character)
            return i;
    }
    return -1;
}

static bool comment_here(const struct lexer *l)
{
    const char *list = l->of->line_comments;
    if ((l->of->flags & WORD_COMMENT) && l->at && !is_blank(l->s[l->at - 1]))
        return false;
    for (; *list; list += strspn(list, " ")) {
        size_t k = strcspn(list, " ");
        if (l->n - l->at >= k && !memcmp(l->s + l->at, list, k))
            return true;
        list += k;
    }
    return false;
}

static void word(struct lexer *l)
{
    size_t from = l->at;
    bool any_case = l->of->flags & ANY_CASE;
    while (l->at < l->n && (is_letter(l->s[l->at]) || is_digit(l->s[l->at])))
        l->at++;
    if (in_list(l->of->keywords, l->s + from, l->at - from, any_case))
        colour(l, STYLE_keyword, from);
    else if (in_list(l->of->constants, l->s + from, l->at - from, any_case))
        colour(l, STYLE_number, from);
}

static void number(struct lexer *l)
{
    size_t from = l->at;
    for (; l->at < l->n; l->at++) {
        char c = l->s[l->at], before = l->at > from ? l->s[l->at - 1] : 0;
        bool sign = (c == '+' || c == '-') && (before == 'e' || before == 'E' || before == 'p')
                    && !(l->s[from] == '0' && before != 'p' && l->at - from > 1 && l->s[from + 1] == 'x');
        if (!is_letter(c) && !is_digit(c) && c != '.' && !sign)
            break;
    }
    colour(l, STYLE_number, from);
}

/* Reads a part of a tag: "<name", "</name", "/>" or ">". */
static bool tag(struct lexer *l)
{
    size_t from = l->at;
    char c = l->s[l->at], next = l->at + 1 < l->n ? l->s[l->at + 1] : 0;
    if (c == '<' && (is_letter(next) || next == '/' || next == '!' || next == '?')) {
        l->tag = true;
        for (l->at += 2; l->at < l->n && (is_letter(l->s[l->at]) || is_digit(l->s[l->at]) || l->s[l->at] == '-' || l->s[l->at] == ':'); l->at++)
            ;
    } else if (l->tag && (c == '>' || (c == '/' && next == '>'))) {
        l->tag = false;
        l->at += c == '>' ? 1 : 2;
    } else {
        return false;
    }
    colour(l, STYLE_keyword, from);
    return true;
}

/* Reads what only the beginning of a line can have: #include, key:, [section]. */
static void line_start(struct lexer *l)
{
    size_t i = 0, from;
    while (i < l->n && (is_blank(l->s[i]) || (l->s[i] == '-' && (l->of->flags & KEYS) && i + 1 < l->n && is_blank(l->s[i + 1]))))
        i++;
    from = i;
    if ((l->of->flags & DIRECTIVES) && i < l->n && l->s[i] == '#') {
        for (i++; i < l->n && (is_blank(l->s[i]) || is_letter(l->s[i])) && !(is_blank(l->s[i]) && is_letter(l->s[i - 1])); i++)
            ;
    } else if ((l->of->flags & KEYS) && i < l->n && l->s[i] == '[' && l->s[l->n - 1] == ']') {
        i = l->n;
    } else if (l->of->flags & KEYS) {
        while (i < l->n && (is_letter(l->s[i]) || is_digit(l->s[i]) || strchr("-./", l->s[i])) && l->s[i])
            i++;
        size_t sign = i;
        while (sign < l->n && is_blank(l->s[sign]))
            sign++;
        if (sign == l->n || (l->s[sign] != '=' && (l->s[sign] != ':' || (sign + 1 < l->n && !is_blank(l->s[sign + 1])))))
            return;
    } else {
        return;
    }
    l->at = i;
    colour(l, STYLE_keyword, from);
}

static void step(struct lexer *l)
{
    size_t from = l->at;
    int form;
    if (comment_here(l)) {
        l->at = l->n;
        colour(l, STYLE_comment, from);
    } else if (here(l, l->of->begin)) {
        l->at += strlen(l->of->begin);
        comment(l, from);
    } else if ((form = string_here(l)) >= 0) {
        l->at += strlen(forms[form].quote);
        string(l, form, from);
    } else if ((l->of->flags & TAGS) && tag(l)) {
        return;
    } else if (is_letter(l->s[l->at])) {
        word(l);
    } else if (is_digit(l->s[l->at]) && !(l->of->flags & TAGS)) {
        number(l);
    } else {
        l->at++;
    }
}

static enum style diff_style(const char *line, size_t n)
{
    char c = n ? *line : 0;
    return c == '+' ? STYLE_added : c == '-' ? STYLE_removed : c == '@' ? STYLE_keyword : c == 'd' || c == 'i' ? STYLE_comment : STYLE_code;
}

int syntax_line(int language, int state, const char *line, size_t n, void (*fn)(void *arg, enum style style, size_t from, size_t n), void *arg)
{
    if (language < 0 || (languages[language].flags & DIFF)) {
        if (n)
            fn(arg, language < 0 ? STYLE_code : diff_style(line, n), 0, n);
        return 0;
    }
    struct lexer l = {.of = &languages[language], .s = line, .n = n, .open = state % IN_TAG, .tag = state >= IN_TAG, .fn = fn, .arg = arg};
    if (l.open >= STRINGS)
        string(&l, l.open - STRINGS, 0);
    else if (l.open == COMMENT)
        comment(&l, 0);
    else
        line_start(&l);
    while (l.at < n)
        step(&l);
    emit(&l, STYLE_code, n);
    return l.open + (l.tag ? IN_TAG : 0);
}
