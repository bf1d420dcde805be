#include "option/flags.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "option/nearest.h"
#include "option/value.h"

bool flags_same(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr("_-", *a) && strchr("_-", *b)))
            return false;
    return !*a && !*b;
}

static int find(const struct flags *f, const char *name)
{
    for (int i = 0; i < f->n_flags; i++)
        if (flags_same(f->flags[i].name, name))
            return i;
    return -1;
}

static void add_dashed(struct buf *out, const char *name)
{
    for (const char *p = name; *p; p++)
        buf_addc(out, *p == '_' ? '-' : *p);
}

static int unknown(const struct flags *f, const char *name, struct err *e)
{
    const char **names = memory_zeroed((size_t)f->n_flags + 1, sizeof *names);
    struct buf meant = {0};
    for (int i = 0; i < f->n_flags; i++)
        names[i] = f->flags[i].name;
    const char *near = nearest(name, names, f->n_flags);
    if (near) {
        buf_adds(&meant, " (did you mean --");
        add_dashed(&meant, near);
        buf_adds(&meant, "?)");
    }
    err_set(e, "unknown option --%s%s; %s lists them", name, buf_str(&meant), f->help);
    buf_free(&meant);
    free(names);
    return -1;
}

/* The value of a flag: what follows it at once, else the next word. */
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

/* A switch takes its value behind =.  A word beside it that looks like one would become a word of the prompt, and the switch would be on. */
static int take_switch(const struct flags *f, const char *flag, struct err *e)
{
    const char *next = f->at < f->argc ? f->argv[f->at] : "";
    if (f->off || f->value || value_switch(next) < 0 || !islower((unsigned char)*next))
        return 1;
    err_set(e, "%s is followed by '%s', expected %s=%s; -- before it makes it a word of its own: %s -- %s", flag, next, flag, next, flag, next);
    return -1;
}

static int long_flag(struct flags *f, const char *s, struct err *e)
{
    const char *equals = strchr(s, '=');
    char name[64], flag[72];
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - s) : (int)strlen(s), s);
    snprintf(flag, sizeof flag, "--%s", name);
    f->found = find(f, name);
    f->off = f->found < 0 && !strncmp(name, "no-", 3) && (f->found = find(f, name + 3)) >= 0;
    if (f->found < 0 || (f->off && !f->flags[f->found].can_be_off))
        return unknown(f, name, e);
    if (f->off && equals) {
        err_set(e, "%s takes no value, found '%s'", flag, equals + 1);
        return -1;
    }
    f->value = equals ? equals + 1 : NULL;
    return !f->off && f->flags[f->found].arg ? take_value(f, f->value, flag, e) : take_switch(f, flag, e);
}

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
