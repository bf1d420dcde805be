#include "ui/subcommand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const struct alias *find_alias(const char *name)
{
    for (int i = 0; i < N_ALIASES; i++)
        if (!strcmp(aliases[i].name, name))
            return &aliases[i];
    return NULL;
}

const char *sub_alias(const struct sub_row *group)
{
    for (int i = 0; i < N_ALIASES; i++)
        if (!strcmp(aliases[i].group, group->name))
            return aliases[i].name;
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

/* Appends the help of a flag, with its default. */
static void add_flag(const struct sub_row *flag, struct buf *out)
{
    struct buf help = {0};
    size_t start = out->len;
    buf_adds(out, "  ");
    if (sub_letter(flag))
        buf_addf(out, "-%c, ", sub_letter(flag));
    buf_addf(out, "--%s%s%s", flag->name, flag->arguments ? " " : "", flag->arguments ? flag->arguments : "");
    buf_adds(&help, flag->help);
    if (!flag->standard)
        buf_adds(&help, " (must be given)");
    else if (*flag->standard && flag->arguments)
        buf_addf(&help, " (default %s)", flag->standard);
    add_folded(out, start, 26, buf_str(&help));
    buf_free(&help);
}

/* Appends the help of a sub-command. */
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

/* Appends the list of a group's commands. */
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

/* Appends the list of all groups and short names. */
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

static int run(const struct sub_row *group, const struct sub_row *command, int argc, char **argv, int at)
{
    int status = args_run(group, command, argc, argv, at);
    return status == ARGS_HELP ? show_help(group, command, stdout) : status;
}

/* --- the words that choose -------------------------------------------------------------------------------------- */

/* Reports an unknown word, with the name that may be meant; returns EXIT_USAGE. */
static int unknown(const struct sub_row *group, const char *word)
{
    enum { MAX_NAMES = 32 };
    const char *names[MAX_NAMES] = {NULL}, *near;
    enum sub_kind kind = group ? SUB_COMMAND : SUB_GROUP;
    struct buf safe = {0};
    int n = 0;
    for (const struct sub_row *r = group; (r = sub_next(r, kind)) && n < MAX_NAMES;)
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
