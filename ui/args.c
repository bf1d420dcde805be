#include "ui/args.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "option/options.h"
#include "ui/process.h"

const struct sub_row *sub_next_flag(const struct sub_row *command, const struct sub_row *at)
{
    const struct sub_row *group = command;
    while (group->kind != SUB_GROUP)
        group--;
    if (!at)
        at = group;
    if (at < command && at[1].kind == SUB_FLAG)
        return at + 1;
    if (at < command)
        at = command;
    return at[1].kind == SUB_FLAG ? at + 1 : NULL;
}

char sub_letter(const struct sub_row *flag)
{
    struct option_about about = {0};
    const int id = options_find(flag->name);
    return id >= 0 && options_about((enum option_id)id, &about) ? about.letter : 0;
}

static int flag_of(const struct args *a, const char *flag)
{
    for (int i = 0; i < a->n_flags; i++)
        if (!strcmp(a->rows[i]->name, flag))
            return i;
    CHECK(!"a flag that the row of this sub-command has");
    return -1;
}

const char *args_text(const struct args *a, const char *flag)
{
    int i = flag_of(a, flag);
    const char *text = a->values[i] ? a->values[i] : a->rows[i]->standard;
    return text && *text ? text : NULL;
}

int args_int(const struct args *a, const char *flag)
{
    const char *text = args_text(a, flag);
    return text ? (int)value_number(a->rows[flag_of(a, flag)]->type, text) : 0;
}

int args_list(const struct args *a, const char *flag, const char *values[ARGS_LISTED])
{
    int n = 0;
    for (int i = 0; i < a->n_listed; i++)
        if (!strcmp(a->rows[a->listed[i].flag]->name, flag))
            values[n++] = a->listed[i].value;
    return n;
}

bool args_on(const struct args *a, const char *flag)
{
    const char *text = args_text(a, flag);
    return text && value_switch(text) == 1;
}

void args_line(const struct args *a, struct buf *out)
{
    buf_addf(out, "q35chat %s %s", a->group->name, a->command->name);
    for (int i = 0; i < a->n_flags; i++) {
        const struct sub_row *r = a->rows[i];
        bool table = r->type == VALUE_CHOICE || r->type == VALUE_INT || r->type == VALUE_REAL;
        if (a->values[i])
            buf_addf(out, " --%s%s%s", r->name, r->arguments ? " " : "", !r->arguments ? "" : table ? a->values[i] : r->arguments);
    }
    if (a->n_words)
        buf_addf(out, " %s", a->command->arguments);
}

int args_refuse(const struct args *a, const char *fmt, ...)
{
    struct buf why = {0};
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    text[unicode_plain(text, strlen(text), '?')] = 0;
    buf_addf(&why, "q35chat: %s %s: %s (q35chat %s %s --help shows more)\n", a->group->name, a->command->name, text, a->group->name,
             a->command->name);
    fputs(buf_str(&why), stderr);
    buf_free(&why);
    return EXIT_USAGE;
}

/* Checks the number of words, which the row's `arguments` give, and that options without a default were given. */
static int check_given(const struct args *a)
{
    const char *arguments = a->command->arguments;
    int least = 0, most = 0;
    for (const char *p = arguments; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
        least += *p != '[';
        most++;
    }
    if (a->n_words < least)
        return args_refuse(a, "needs %s", arguments);
    if (a->n_words > most && !strstr(arguments, "..."))
        return *arguments ? args_refuse(a, "expects %s, not '%s' as well", arguments, a->words[most])
                          : args_refuse(a, "expects no words, found '%s'", a->words[0]);
    for (int i = 0; i < a->n_flags; i++)
        if (!a->values[i] && !a->rows[i]->standard)
            return args_refuse(a, "needs --%s %s", a->rows[i]->name, a->rows[i]->arguments);
    return 0;
}

/* Reads argv from `at` on.  Returns 0; EXIT_USAGE, after a message; or ARGS_HELP. */
static int read_all(struct args *a, int argc, char **argv, int at)
{
    struct flag flags[ARGS_FLAGS + 1];
    char help[96];
    struct err e = {0};
    for (const struct sub_row *f = NULL; (f = sub_next_flag(a->command, f)); a->n_flags++) {
        CHECK(a->n_flags < ARGS_FLAGS);
        a->rows[a->n_flags] = f;
        flags[a->n_flags] = (struct flag){.name = f->name, .letter = sub_letter(f), .arg = f->arguments};
    }
    flags[a->n_flags] = (struct flag){.name = "help", .letter = 'h'};
    snprintf(help, sizeof help, "q35chat %s %s --help", a->group->name, a->command->name);
    struct flags f = {.flags = flags, .n_flags = a->n_flags + 1, .argc = argc, .argv = argv, .at = at, .help = help};
    int more;
    while ((more = flags_next(&f, &e)) > 0) {
        if (f.found == a->n_flags)
            return ARGS_HELP;
        if (f.found < 0) {
            a->words[a->n_words++] = f.value;
            continue;
        }
        const struct sub_row *r = a->rows[f.found];
        char name[72];
        snprintf(name, sizeof name, "--%s", r->name);
        a->values[f.found] = f.value ? f.value : "on";
        if (r->type == VALUE_LIST && a->n_listed == ARGS_LISTED)
            return args_refuse(a, "takes %d values of --%s at most", (int)ARGS_LISTED, r->name);
        if (r->type == VALUE_LIST) {
            a->listed[a->n_listed].flag = f.found;
            a->listed[a->n_listed++].value = f.value;
        }
        if (!value_check(r->type, name, a->values[f.found], r->arguments, r->min, r->max, &e))
            return args_refuse(a, "%s", e.msg);
    }
    if (more < 0) {
        return process_fail(EXIT_USAGE, e.msg);
    }
    return check_given(a);
}

int args_run(const struct sub_row *group, const struct sub_row *command, int argc, char **argv, int at)
{
    struct args a = {.group = group, .command = command, .words = memory_zeroed((size_t)argc + 1, sizeof *a.words)};
    int status = read_all(&a, argc, argv, at);
    if (!status)
        status = command->run(&a);
    free(a.words);
    return status;
}
