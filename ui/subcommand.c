#include "ui/subcommand.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"
#include "config/limits.h"
#include "option/flags.h"
#include "ui/process.h"

#define REQUIRED NULL
const struct sub_row sub_rows[] = {
#define GROUP(name, help) {SUB_GROUP, name, help},
#define SUBCOMMAND(name, arguments, completes, function, help) {SUB_COMMAND, name, help, arguments, VALUE_##completes, .run = function},
#define FLAG(name, type, argument, standard, min, max, help) {SUB_FLAG, name, help, argument, VALUE_##type, standard, min, max},
#include "config/subcommands.def"
    {SUB_END},
};

/* Other words for groups, and words of other programs. */
static const struct alias { const char *name, *group, *command; } aliases[] = {
#define ALIAS(name, group, command) {name, group, command},
#include "config/subcommands.def"
};
static const struct { const char *word, *line; } meant[] = {
#define MEANT(word, line) {word, line},
#include "config/subcommands.def"
};
enum { N_ALIASES = sizeof aliases / sizeof *aliases, N_MEANT = sizeof meant / sizeof *meant };

enum { MAX_FLAGS = 32 };

struct args {
    const struct sub_row *group, *command;
    const struct sub_row *rows[MAX_FLAGS];
    const char *values[MAX_FLAGS];      /* NULL: not given */
    int   n_flags;
    const char **words;
    int   n_words;
};

/* --- the table -------------------------------------------------------------------------------------------------- */

const struct sub_row *sub_next(const struct sub_row *at, enum sub_kind kind)
{
    for (at = at ? at + 1 : sub_rows; at->kind != SUB_END; at++)
        if (at->kind == kind)
            return at;
        else if (at->kind == SUB_GROUP && kind == SUB_COMMAND)
            return NULL;
    return NULL;
}

static const struct sub_row *group_of(const struct sub_row *command)
{
    while (command->kind != SUB_GROUP)
        command--;
    return command;
}

const struct sub_row *sub_next_flag(const struct sub_row *command, const struct sub_row *at)
{
    const struct sub_row *group = group_of(command);
    if (!at)
        at = group;
    if (at < command && at[1].kind == SUB_FLAG)
        return at + 1;
    if (at < command)
        at = command;
    return at[1].kind == SUB_FLAG ? at + 1 : NULL;
}

static const struct alias *find_alias(const char *name)
{
    for (int i = 0; i < N_ALIASES; i++)
        if (!strcmp(aliases[i].name, name))
            return &aliases[i];
    return NULL;
}

static const struct sub_row *find_group(const char *name)
{
    const struct alias *a = find_alias(name);
    name = a ? a->group : name;
    for (const struct sub_row *g = NULL; (g = sub_next(g, SUB_GROUP));)
        if (!strcmp(g->name, name))
            return g;
    return NULL;
}

static const struct sub_row *find_command(const struct sub_row *group, const char *name)
{
    for (const struct sub_row *c = group; (c = sub_next(c, SUB_COMMAND));)
        if (!strcmp(c->name, name))
            return c;
    return NULL;
}

/* --- help ------------------------------------------------------------------------------------------------------- */

/* Appends `text` in lines of at most 80 columns from `column` on, in this line if it has room or the next. */
static void add_folded(struct buf *out, size_t line_start, size_t column, const char *text)
{
    enum { WIDTH = 80 };
    size_t at = out->len - line_start;
    if (at && at + 2 > column) {
        buf_addc(out, '\n');
        at = 0;
    }
    for (; at < column; at++)
        buf_addc(out, ' ');
    while (*text) {
        size_t n = strcspn(text, " ");
        if (at > column && at + 1 + n > WIDTH) {
            buf_addf(out, "\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            buf_addc(out, ' ');
            at++;
        }
        buf_add(out, text, n);
        at += n;
        text += n + strspn(text + n, " ");
    }
    buf_addc(out, '\n');
}

static void add_flag(const struct sub_row *flag, struct buf *out)
{
    struct buf help = {0};
    size_t start = out->len;
    buf_addf(out, "  --%s%s%s", flag->name, flag->arguments ? " " : "", flag->arguments ? flag->arguments : "");
    buf_adds(&help, flag->help);
    if (!flag->standard)
        buf_adds(&help, " (must be given)");
    else if (*flag->standard && flag->arguments)
        buf_addf(&help, " (default %s)", flag->standard);
    add_folded(out, start, 26, buf_str(&help));
    buf_free(&help);
}

static void help_of_command(const struct sub_row *group, const struct sub_row *command, struct buf *out)
{
    bool options = sub_next_flag(command, NULL);
    buf_addf(out, "Usage: q35chat %s %s", group->name, command->name);
    for (const struct sub_row *f = NULL; (f = sub_next_flag(command, f));)
        if (!f->standard)
            buf_addf(out, " --%s %s", f->name, f->arguments);
    buf_addf(out, "%s%s%s\n\n", options ? " [options]" : "", *command->arguments ? " " : "", command->arguments);
    add_folded(out, out->len, 0, command->help);
    if (options)
        buf_addc(out, '\n');
    for (const struct sub_row *f = NULL; (f = sub_next_flag(command, f));)
        add_flag(f, out);
}

static void help_of_group(const struct sub_row *group, struct buf *out)
{
    buf_addf(out, "Usage: q35chat %s COMMAND ...    %s\n\n", group->name, group->help);
    for (const struct sub_row *c = group; (c = sub_next(c, SUB_COMMAND));) {
        size_t start = out->len;
        buf_addf(out, "  %s%s%s", c->name, *c->arguments ? " " : "", c->arguments);
        add_folded(out, start, 30, c->help);
    }
    buf_addf(out, "\nq35chat %s COMMAND --help shows the options.\n", group->name);
}

static void help_of_all(struct buf *out)
{
    buf_adds(out, "Usage: q35chat [options] [prompt ...]   chat, or one answer: q35chat --help\n\n");
    for (const struct sub_row *g = NULL; (g = sub_next(g, SUB_GROUP));) {
        struct buf names = {0};
        size_t start = out->len;
        for (const struct sub_row *c = g; (c = sub_next(c, SUB_COMMAND));)
            buf_addf(&names, "%s%s", names.len ? ", " : "", c->name);
        buf_addf(out, "  q35chat %s COMMAND", g->name);
        buf_addf(&names, ": %s", g->help);
        add_folded(out, start, 30, buf_str(&names));
        buf_free(&names);
    }
    for (int i = 0; i < N_ALIASES; i++)
        buf_addf(out, "%sq35chat %s is short for q35chat %s %s.\n", i ? "" : "\n", aliases[i].name, aliases[i].group, aliases[i].command);
    buf_adds(out, "\nq35chat GROUP --help and q35chat GROUP COMMAND --help show more.\n"
                  "A prompt that begins with one of these words: q35chat -- model trains are ...\n");
}

void subcommand_help(const struct sub_row *group, const struct sub_row *command, struct buf *out)
{
    if (command)
        help_of_command(group, command, out);
    else if (group)
        help_of_group(group, out);
    else
        help_of_all(out);
}

static int show_help(const struct sub_row *group, const struct sub_row *command, FILE *to)
{
    struct buf out = {0};
    subcommand_help(group, command, &out);
    fputs(buf_str(&out), to);
    buf_free(&out);
    return to == stderr ? EXIT_USAGE : fflush(to) ? EXIT_FAILED : EXIT_ANSWERED;
}

/* --- what was given --------------------------------------------------------------------------------------------- */

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

bool args_on(const struct args *a, const char *flag)
{
    const char *text = args_text(a, flag);
    return text && value_switch(text) == 1;
}

int args_n_words(const struct args *a)
{
    return a->n_words;
}

const char *args_word(const struct args *a, int i)
{
    return i < a->n_words ? a->words[i] : NULL;
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

/* Counts the words that a row's `arguments` require and allow. */
static void count_words(const char *arguments, int *least, int *most)
{
    *least = *most = 0;
    for (const char *p = arguments; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        *least += *p != '[';
        *most = strstr(arguments, "...") ? 1 << 30 : *most + 1;
        p += n;
    }
}

static int check_words(const struct args *a)
{
    int least, most;
    count_words(a->command->arguments, &least, &most);
    if (a->n_words < least)
        return args_refuse(a, "needs %s", a->command->arguments);
    if (a->n_words > most)
        return *a->command->arguments ? args_refuse(a, "expects %s, not '%s' as well", a->command->arguments, a->words[most])
                                      : args_refuse(a, "expects no words, found '%s'", a->words[0]);
    return 0;
}

static int check_flags(const struct args *a)
{
    for (int i = 0; i < a->n_flags; i++)
        if (!a->values[i] && !a->rows[i]->standard)
            return args_refuse(a, "needs --%s %s", a->rows[i]->name, a->rows[i]->arguments);
    return 0;
}

/* Reads argv from `at` on.  0; EXIT_USAGE, said; or -1: its help is wanted. */
static int read_args(struct args *a, int argc, char **argv, int at)
{
    struct flag flags[MAX_FLAGS + 1];
    char help[96];
    struct err e = {0};
    for (const struct sub_row *f = NULL; (f = sub_next_flag(a->command, f)); a->n_flags++) {
        CHECK(a->n_flags < MAX_FLAGS);
        a->rows[a->n_flags] = f;
        flags[a->n_flags] = (struct flag){.name = f->name, .arg = f->arguments};
    }
    flags[a->n_flags] = (struct flag){.name = "help", .letter = 'h'};
    snprintf(help, sizeof help, "q35chat %s %s --help", a->group->name, a->command->name);
    struct flags f = {.flags = flags, .n_flags = a->n_flags + 1, .argc = argc, .argv = argv, .at = at, .help = help};
    int more;
    while ((more = flags_next(&f, &e)) > 0) {
        if (f.found == a->n_flags)
            return -1;
        if (f.found < 0) {
            a->words[a->n_words++] = f.value;
            continue;
        }
        const struct sub_row *r = a->rows[f.found];
        char name[72];
        snprintf(name, sizeof name, "--%s", r->name);
        a->values[f.found] = f.value ? f.value : "on";
        if (!value_check(r->type, name, a->values[f.found], r->arguments, r->min, r->max, &e))
            return args_refuse(a, "%s", e.msg);
    }
    if (more < 0) {
        fprintf(stderr, "q35chat: %s\n", e.msg);
        return EXIT_USAGE;
    }
    int status = check_words(a);
    return status ? status : check_flags(a);
}

static int run(const struct sub_row *group, const struct sub_row *command, int argc, char **argv, int at)
{
    struct args a = {.group = group, .command = command, .words = memory_zeroed((size_t)argc, sizeof *a.words)};
    int status = read_args(&a, argc, argv, at);
    status = status < 0 ? show_help(group, command, stdout) : status ? status : command->run(&a);
    free(a.words);
    return status;
}

/* --- the words that choose -------------------------------------------------------------------------------------- */

static int unknown(const struct sub_row *group, const char *word)
{
    const char *names[MAX_FLAGS] = {NULL}, *near;
    enum sub_kind kind = group ? SUB_COMMAND : SUB_GROUP;
    struct buf safe = {0};
    int n = 0;
    for (const struct sub_row *r = group; (r = sub_next(r, kind)) && n < MAX_FLAGS;)
        names[n++] = r->name;
    near = nearest_name(word, names, n);
    unicode_safe(&safe, word, strlen(word));
    fprintf(stderr, "q35chat: unknown command %s%s%s%s%s%s; q35chat %s lists them\n", group ? group->name : "", group ? " " : "", buf_str(&safe),
            near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", group ? group->name : "help");
    if (group)
        fprintf(stderr, "To ask it as a prompt, put -- before it: q35chat -- %s %s ...\n", group->name, buf_str(&safe));
    buf_free(&safe);
    return EXIT_USAGE;
}

/* Prints the help of all, of GROUP, or of GROUP COMMAND, by the words, which may be NULL. */
static int help_on(const char *group_name, const char *name)
{
    const struct sub_row *group = group_name ? find_group(group_name) : NULL, *command = group && name ? find_command(group, name) : NULL;
    if ((group_name && !group) || (name && !command))
        return unknown(group, group ? name : group_name);
    return show_help(group, command, stdout);
}

/* --- a slip in them --------------------------------------------------------------------------------------------- */

static bool is_group(const char *word, const struct sub_row *group)
{
    bool is = nearest_is(word, group->name);
    for (int i = 0; i < N_ALIASES && !is; i++)
        is = !strcmp(aliases[i].group, group->name) && nearest_is(word, aliases[i].name);
    return is;
}

/* Appends GROUP, or GROUP COMMAND, for words[0..n): the group, or the command as it is, or both in either order. */
static void add_meant(const struct sub_row *group, char words[][32], int n, struct buf *line)
{
    const char *or = line->len ? " or q35chat" : "q35chat";
    bool first = is_group(words[0], group), second = n > 1 && is_group(words[1], group);
    for (const struct sub_row *c = group; (c = sub_next(c, SUB_COMMAND));)
        if (n == 1 ? !strcmp(words[0], c->name) : (first && nearest_is(words[1], c->name)) || (second && n == 2 && !strcmp(words[0], c->name))) {
            buf_addf(line, "%s %s %s", or, group->name, c->name);
            return;
        }
    if (n == 1 && first)
        buf_addf(line, "%s %s", or, group->name);
}

bool subcommand_meant(const char *words, struct buf *line)
{
    char word[3][32] = {""};
    int n = 0;
    for (const char *p = words; *p; p += strcspn(p, " "), p += *p == ' ') {
        if (n == 3 || strcspn(p, " ") >= sizeof *word)
            return false;
        snprintf(word[n++], sizeof *word, "%.*s", (int)strcspn(p, " "), p);
    }
    for (int i = 0; i < N_MEANT && !line->len && n < 3; i++)
        if (!strcmp(word[0], meant[i].word))
            buf_adds(line, meant[i].line);
    const bool known = line->len > 0;
    for (const struct sub_row *g = NULL; n && !known && (g = sub_next(g, SUB_GROUP));)
        if (strcmp(g->name, "debug"))
            add_meant(g, word, n, line);
    return line->len > 0;
}

bool subcommand_is_name(const char *word)
{
    return !strcmp(word, "help") || find_group(word);
}

bool subcommand_is(int argc, char **argv)
{
    return argc > 1 && subcommand_is_name(argv[1]);
}

int subcommand_main(int argc, char **argv)
{
    const struct sub_row *group = find_group(argv[1]), *command;
    const struct alias *alias = find_alias(argv[1]);
    const char *word = argc > 2 ? argv[2] : NULL, *next = argc > 3 ? argv[3] : NULL;
    if (!group)
        return help_on(word, next);
    bool help = word && (!strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h"));
    if ((!word || (*word == '-' && !help)) && (command = find_command(group, alias ? alias->command : "start")))
        return run(group, command, argc, argv, 2);
    if (!word)
        return show_help(group, NULL, stderr);
    if ((command = find_command(group, word)))
        return run(group, command, argc, argv, 3);
    return help ? help_on(group->name, next) : unknown(group, word);
}
