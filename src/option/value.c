#include "option/value.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "option/bias.h"

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

static bool check_seed(const char *name, const char *s, struct err *e)
{
    char *end;
    errno = 0;
    (void)strtoull(s, &end, 10);
    return (isdigit((unsigned char)*s) && !*end && !errno) || err_set(e, "%s is '%s', expected a whole number from 0", name, s);
}

bool value_check(enum value_type type, const char *name, const char *s, const char *choices, double min, double max, struct err *e)
{
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
        return check_seed(name, s, e);
    case VALUE_INT:
    case VALUE_SIZE:
    case VALUE_REAL:
        return check_number(type, name, s, min, max, e);
    default:
        return true;
    }
}
