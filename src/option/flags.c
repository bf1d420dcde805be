#include "option/flags.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/least.h"
#include "base/memory.h"

/* --- values ------------------------------------------------------------------------------------------------------ */

const char value_kv_recipes[] = "auto"
#define KV(name, ...) "|" name
#include "config/kv_recipes.def"
#undef KV
    ;

int value_switch(const char *s)
{
    static const char *const words[2][4] = {{"off", "no", "false", "0"}, {"on", "yes", "true", "1"}};
    for (int v = 0; v < 2; v++)
        for (int i = 0; i < 4; i++)
            if (!strcasecmp(s, words[v][i]))
                return v;
    return -1;
}

/* Reads a number of this kind.  False if the text has something else in it. */
static bool parse_number(enum value_type type, const char *s, double *out)
{
    char *end;
    errno = 0;
    *out = type == VALUE_REAL ? strtod(s, &end) : (double)strtoll(s, &end, 10);
    if (end == s || errno || isspace((unsigned char)*s))
        return false;
    if (type == VALUE_SIZE && (*end == 'k' || *end == 'K'))
        *out *= 1024, end++;
    else if (type == VALUE_SIZE && (*end == 'm' || *end == 'M'))
        *out *= 1024 * 1024, end++;
    return !*end && isfinite(*out);
}

double value_number(enum value_type type, const char *text)
{
    double v = 0;
    parse_number(type, text, &v);
    return v;
}

/* True if s[0..n) is one of `choices`, which have `between` between them. */
static bool is_choice(const char *choices, char between, const char *s, size_t n)
{
    for (const char *p = choices; p; p = strchr(p, between) ? strchr(p, between) + 1 : NULL)
        if (!strncmp(p, s, n) && (p[n] == between || !p[n]))
            return n > 0;
    return false;
}

static bool check_number(enum value_type type, const char *name, const char *s, double min, double max, struct err *e)
{
    double v;
    if (!parse_number(type, s, &v))
        return err_set(e, "%s is '%s', expected a %snumber%s", name, s, type == VALUE_REAL ? "" : "whole ", type == VALUE_SIZE ? ", 32k also" : "");
    if (v < min || v > max)
        return err_set(e, "%s is %s, expected %.10g to %.10g", name, s, min, max);
    return true;
}

bool bias_split(const char *item, size_t *n, float *value)
{
    const char *equals = strrchr(item, '=');
    char *end;
    if (!equals || equals == item)
        return false;
    *n = (size_t)(equals - item);
    *value = strtof(equals + 1, &end);
    return end != equals + 1 && !*end && !isnan(*value) && *value < INFINITY;
}

bool bias_check(const char *item, struct err *e)
{
    size_t n;
    float value;
    return bias_split(item, &n, &value) || err_set(e, "logit_bias is '%s', expected TEXT=X or ID=X, X a number or -inf", item);
}

bool value_check(enum value_type type, const char *name, const char *s, const char *choices, double min, double max, struct err *e)
{
    char *end;
    switch (type) {
    case VALUE_BIAS:
        return !*s || bias_check(s, e);
    case VALUE_CHOICE:
        return is_choice(choices, '|', s, strlen(s)) || err_set(e, "%s is '%s', expected one of %s", name, s, choices);
    case VALUE_WORDS:
        for (size_t n; *s; s += n, s += strspn(s, " "))
            if (!is_choice(choices, ' ', s, n = strcspn(s, " ")))
                return err_set(e, "%s has '%.*s', expected some of %s", name, (int)n, s, choices);
        return true;
    case VALUE_SWITCH:
        return value_switch(s) >= 0 || err_set(e, "%s is '%s', expected on or off", name, s);
    case VALUE_SEED:
        errno = 0;
        (void)strtoull(s, &end, 10);
        return (isdigit((unsigned char)*s) && !*end && !errno) || err_set(e, "%s is '%s', expected a whole number from 0", name, s);
    case VALUE_INT:
    case VALUE_SIZE:
    case VALUE_REAL:
        return check_number(type, name, s, min, max, e);
    default:
        return true;
    }
}

/* --- mistyped names ---------------------------------------------------------------------------------------------- */

enum { LONGEST_NAME = 48 };

/* Returns the edit distance, computed one row of the table at a time; a swap of neighbours counts as two edits. */
static int distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b);
    int row[LONGEST_NAME + 1];
    if (n > LONGEST_NAME || m > LONGEST_NAME)
        return LONGEST_NAME;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int above = row[j];
            row[j] = least(least(above, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[m];
}

/* True if a word of four letters or more is the beginning of a name, but for its last letter. */
static bool begins(const char *word, const char *name)
{
    size_t n = strlen(word);
    return n >= 4 && !strncmp(word, name, n - 1);
}

/* True if two neighbours of the one are swapped in the other. */
static bool is_swapped(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a && *b && a[0] == b[1] && a[1] == b[0] && !strcmp(a + 2, b + 2);
}

const char *nearest_name(const char *word, const char *const *names, int n)
{
    const char *best = NULL, *positive = !strncmp(word, "no-", 3) || !strncmp(word, "no_", 3) ? word + 3 : word;
    int least = ((int)strlen(word) + 1) / 3 + 1;        /* about a third of the letters may be wrong: one slip in a short word, more in a long one */
    for (int i = 0; i < n; i++) {
        int d = !names[i] ? least : !strcmp(positive, names[i]) ? 0 : is_swapped(word, names[i]) ? 1 : distance(word, names[i]);
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    for (int i = 0; i < n && !best; i++)
        best = names[i] && begins(word, names[i]) ? names[i] : NULL;
    return best;
}

bool nearest_is(const char *word, const char *name)
{
    return distance(word, name) <= (strlen(name) < 6 ? 1 : 2) || is_swapped(word, name);
}

/* --- flags ------------------------------------------------------------------------------------------------------- */

bool flags_same(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr("_-", *a) && strchr("_-", *b)))
            return false;
    return !*a && !*b;
}

static int find_flag(const struct flags *f, const char *name)
{
    for (int i = 0; i < f->n_flags; i++)
        if (flags_same(f->flags[i].name, name))
            return i;
    return -1;
}

void flags_add_dashed(struct buf *out, const char *name)
{
    for (const char *p = name; *p; p++)
        buf_addc(out, *p == '_' ? '-' : *p);
}

/* Refuses a flag that is not in the table, with the name that may be meant. */
static int refuse_unknown(const struct flags *f, const char *name, struct err *e)
{
    const char **names = memory_zeroed((size_t)f->n_flags + 1, sizeof *names);
    struct buf meant = {0};
    for (int i = 0; i < f->n_flags; i++)
        names[i] = f->flags[i].name;
    const char *near = nearest_name(name, names, f->n_flags);
    if (near) {
        buf_adds(&meant, " (did you mean --");
        flags_add_dashed(&meant, near);
        buf_adds(&meant, "?)");
    }
    err_set(e, "unknown option --%s%s; %s lists them", name, buf_str(&meant), f->help);
    buf_free(&meant);
    free(names);
    return -1;
}

/* Takes the value of a flag: the text after =, or after its letter, else the next word. */
static int take_value(struct flags *f, const char *attached, const char *flag, struct err *e)
{
    const char *next = f->at < f->argc ? f->argv[f->at] : NULL;
    bool missing = !attached && f->flags[f->found].optional && (!next || (next[0] == '-' && next[1]));
    f->value = missing ? "" : attached ? attached : next;
    f->at += !missing && !attached && next;
    if (f->value)
        return 1;
    err_set(e, "%s needs a value: %s", flag, f->flags[f->found].arg);
    return -1;
}

/* Refuses `--switch off`: a switch takes its value after =, and the word would become one of the prompt, with the switch on. */
static int take_switch(const struct flags *f, const char *flag, struct err *e)
{
    const char *next = f->at < f->argc ? f->argv[f->at] : "";
    if (f->off || f->value || value_switch(next) < 0 || !islower((unsigned char)*next))
        return 1;
    err_set(e, "%s is followed by '%s', expected %s=%s; -- before it makes it a word of its own: %s -- %s", flag, next, flag, next, flag, next);
    return -1;
}

/* Parses --name, --name=value or --no-name.  Returns 1, or -1 with the reason. */
static int long_flag(struct flags *f, const char *s, struct err *e)
{
    const char *equals = strchr(s, '=');
    char name[64], flag[72];
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - s) : (int)strlen(s), s);
    snprintf(flag, sizeof flag, "--%s", name);
    f->found = find_flag(f, name);
    f->off = f->found < 0 && !strncmp(name, "no-", 3) && (f->found = find_flag(f, name + 3)) >= 0;
    if (f->found < 0 || (f->off && !f->flags[f->found].can_be_off))
        return refuse_unknown(f, name, e);
    if (f->off && equals) {
        err_set(e, "%s takes no value, found '%s'", flag, equals + 1);
        return -1;
    }
    f->value = equals ? equals + 1 : NULL;
    return !f->off && f->flags[f->found].arg ? take_value(f, f->value, flag, e) : take_switch(f, flag, e);
}

/* Parses the next letter of a word like -abc; a letter with a value takes the rest.  Returns 1, or -1 with the reason. */
static int short_flag(struct flags *f, struct err *e)
{
    char letter = *f->letters++, flag[] = {'-', letter, 0};
    const char *rest = *f->letters ? f->letters : NULL;
    for (f->found = 0; f->found < f->n_flags && f->flags[f->found].letter != letter;)
        f->found++;
    if (f->found == f->n_flags) {
        err_set(e, "unknown option -%c; %s lists them", letter, f->help);
        return -1;
    }
    f->off = false;
    f->value = NULL;
    if (f->flags[f->found].arg) {
        f->letters = NULL;
        return take_value(f, rest, flag, e);
    }
    return 1;
}

int flags_next(struct flags *f, struct err *e)
{
    if (f->letters && *f->letters)
        return short_flag(f, e);
    if (!f->words_only && f->at < f->argc && !strcmp(f->argv[f->at], "--")) {
        f->words_only = true;
        f->at++;
    }
    if (f->at >= f->argc)
        return 0;
    const char *s = f->argv[f->at++];
    if (!f->words_only && !strncmp(s, "--", 2))
        return long_flag(f, s + 2, e);
    if (!f->words_only && s[0] == '-' && s[1]) {
        f->letters = s + 1;
        return short_flag(f, e);
    }
    f->found = -1;
    f->off = false;
    f->value = s;
    return 1;
}
