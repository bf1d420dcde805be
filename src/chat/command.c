#include "chat/command.h"

#include <ctype.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "option/flags.h"
#include "session/export.h"
#include "session/list.h"

enum completion { NOTHING, COMMANDS, OPTIONS, FILES, SESSIONS, DELETED, PRESETS, THEMES, FORMATS };

static const struct command {
    const char *name, *argument;
    enum completion completion;
    const char *help;
    command_fn *fn;
} commands[] = {
#define COMMAND(name, argument, completion, help) {#name, argument, completion, help, command_##name},
#include "config/commands.def"
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* Every name that can be typed, those of the commands first. */
static const struct name { const char *name, *of; } names[] = {
#define COMMAND(name, ...) {#name, #name},
#include "config/commands.def"
#define ALIAS(name, of) {#name, #of},
#include "config/commands.def"
};

enum { N_NAMES = sizeof names / sizeof *names };

static const char *const of_screen[] = {
#define SCREEN(name) #name,
#include "config/commands.def"
};

/* Returns the command of this name, or the only one with a name that begins so. */
static const struct command *find_command(const char *name, size_t n)
{
    const struct command *only = NULL;
    bool several = false;
    for (int i = 0; i < N_NAMES; i++) {
        if (strncmp(names[i].name, name, n))
            continue;
        const struct command *k = commands;
        while (strcmp(k->name, names[i].of))
            k++;
        if (!names[i].name[n])
            return k;
        several = several || (only && only != k);
        only = k;
    }
    return several || !n ? NULL : only;
}

/* --- unknown names ---------------------------------------------------------------------------------------------- */

/* Refuses a name, with those that may be meant. */
static enum command_result refuse_unknown(const char *name, size_t n, struct buf *out)
{
    const char *all[N_NAMES];
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)n, name);
    bool any = false;
    for (int i = 0; i < N_NAMES; i++) {
        all[i] = names[i].name[1] ? names[i].name : NULL;       /* every word is close to a single letter */
        if (n && !strncmp(names[i].name, word, strlen(word))) {         /* several names begin so */
            buf_addf(out, any ? ", /%s" : "/%s is short for several: /%s", any ? names[i].name : word, names[i].name);
            any = true;
        }
    }
    const char *near = nearest_name(word, all, N_NAMES);
    if (any)
        buf_addc(out, '\n');
    else
        buf_addf(out, "unknown command /%s%s%s%s; /help lists them, //%s sends it as text\n", word, near ? " (did you mean /" : "",
                 near ? near : "", near ? "?)" : "", word);
    return COMMAND_DONE;
}

/* --- help ------------------------------------------------------------------------------------------------------- */

/* Appends a command's line of /help, with its other names. */
static void help_line(const struct command *k, struct buf *out)
{
    enum { COLUMN = 26 };
    size_t start = out->len;
    bool any = false;
    buf_addf(out, "  /%s%s%s ", k->name, *k->argument ? " " : "", k->argument);
    while (out->len - start < COLUMN)
        buf_addc(out, ' ');
    buf_adds(out, k->help);
    for (int i = N_COMMANDS; i < N_NAMES; i++)
        if (!strcmp(names[i].of, k->name)) {
            buf_addf(out, any ? ", /%s" : " (also /%s", names[i].name);
            any = true;
        }
    buf_adds(out, any ? ")\n" : "\n");
}

/* True if the front end can run the command. */
static bool can_run(const struct chat *chat, const struct command *k)
{
    bool needs = false;
    for (size_t i = 0; i < sizeof of_screen / sizeof *of_screen; i++)
        needs = needs || !strcmp(of_screen[i], k->name);
    return !needs || chat_has_screen(chat);
}

enum command_result command_help(struct typed *c)
{
    const char *name = *c->arg == '/' ? c->arg + 1 : c->arg;
    const struct command *k = *name ? find_command(name, strlen(name)) : NULL;
    if (*name && !k)
        return refuse_unknown(name, strlen(name), c->out);
    for (int i = 0; i < N_COMMANDS; i++)
        if (k ? k == &commands[i] : can_run(c->chat, &commands[i]))
            help_line(&commands[i], c->out);
    if (!k)
        buf_adds(c->out, "  //text                  a message that begins with a slash\n"
                         "  @PATH                   in a message: attaches that file; @\"A B\" with blanks\n");
    return COMMAND_DONE;
}

/* --- running ---------------------------------------------------------------------------------------------------- */

/* Returns the length of the command's name after the slash; -1: the line is a message. */
static int name_length(const char *line)
{
    if (*line != '/' || line[1] == '/')
        return -1;
    size_t n = strcspn(line + 1, " \t\n");
    return memchr(line + 1, '/', n) ? -1 : (int)n;      /* a path, not a command */
}

const char *command_name(const char *line, const char **argument)
{
    int n = name_length(line);
    const struct command *k = n > 0 ? find_command(line + 1, (size_t)n) : NULL;
    if (!k)
        return NULL;
    *argument = line + 1 + n + strspn(line + 1 + n, " \t\n");
    return k->name;
}

enum command_result command_run(struct chat *chat, struct options *o, const char *line, const char **message, struct buf *out)
{
    int n = name_length(line);
    *message = line + (n < 0 && *line == '/' && line[1] == '/');
    if (n < 0)
        return COMMAND_MESSAGE;
    const struct command *k = find_command(line + 1, (size_t)n);
    if (!k)
        return refuse_unknown(line + 1, (size_t)n, out);
    struct buf arg = {0};
    buf_adds(&arg, line + 1 + n + strspn(line + 1 + n, " \t\n"));
    while (arg.len && isspace((unsigned char)arg.data[arg.len - 1]))
        arg.data[--arg.len] = 0;
    struct typed c = {.chat = chat, .o = o, .arg = buf_str(&arg), .out = out};
    enum command_result r;
    if (*k->argument || !arg.len) {
        r = k->fn(&c);
    } else {                            /* a message that happens to begin with the name of a command does not run it */
        err_set(&c.e, "/%s takes no words, not '%s'; // at the start sends a message that begins with a slash", k->name, c.arg);
        r = command_refused(&c);
    }
    if (r == COMMAND_SCREEN)
        *message = k->name;
    buf_free(&arg);
    return r;
}

/* --- completion ------------------------------------------------------------------------------------------------- */

struct ways {
    const char *begin;                  /* the beginning of the word */
    command_word_fn *fn;
    void *arg;
};

/* Passes a word on if it begins as typed. */
static void offer(const char *word, void *arg)
{
    const struct ways *w = arg;
    if (!strncmp(word, w->begin, strlen(w->begin)))
        w->fn(word, NULL, w->arg);
}

/* Offers the conversations whose names begin like the argument, or whose titles have its words. */
static void offer_sessions(const struct ways *w)
{
    struct sessions s;
    struct buf note = {0};
    sessions_complete(&s, w->begin);
    for (int i = 0; i < s.n; i++) {
        buf_reset(&note);
        if (s.items[i].title) {
            sessions_label(&s.items[i], &note);
            buf_adds(&note, ", ");
            when_ago(&note, s.items[i].changed_s, time(NULL));
        }
        w->fn(s.items[i].name, buf_str(&note), w->arg);
    }
    buf_free(&note);
    sessions_free(&s);
}

/* Offers all names of commands, with `slash` before each. */
static void offer_commands(struct ways *w, const char *slash)
{
    struct buf word = {0};
    for (int i = 0; i < N_NAMES; i++) {
        buf_reset(&word);
        buf_addf(&word, "%s%s", slash, names[i].name);
        offer(word.data, w);
    }
    buf_free(&word);
}

/* Offers the values of an option that has a list of them. */
static void offer_choices(struct ways *w, enum option_id id)
{
    struct buf word = {0};
    for (const char *p = options_choices(id); p && *p; p += *p == '|') {
        size_t n = strcspn(p, "|");
        buf_reset(&word);
        buf_add(&word, p, n);
        offer(word.data, w);
        p += n;
    }
    buf_free(&word);
}

/* Offers the options that /set can change, or the values of one.  True: the value is a file. */
static bool offer_options(struct ways *w)
{
    size_t n = strcspn(w->begin, " \t");
    char key[64];
    if (w->begin[n]) {
        snprintf(key, sizeof key, "%.*s", (int)n, w->begin);
        w->begin += n + strspn(w->begin + n, " \t");
        const int id = options_find(key);
        if (id >= 0)
            offer_choices(w, (enum option_id)id);
        return id == OPT_schema && *w->begin != '{';
    }
    struct option_about about;
    for (int i = 0; options_about((enum option_id)i, &about); i++)
        if (!about.start_only)
            offer(about.key, w);
    return false;
}

/* Offers the arguments of a kind.  True: the argument is a file. */
static bool complete_argument(enum completion what, struct ways *w)
{
    bool second = strpbrk(w->begin, " \t");
    switch (what) {
    case NOTHING:
        break;
    case COMMANDS: offer_commands(w, *w->begin == '/' ? "/" : ""); break;
    case OPTIONS: return offer_options(w);
    case FILES: return true;
    case SESSIONS:
        if (strchr(w->begin, '/'))
            return true;
        offer_sessions(w);
        break;
    case DELETED: sessions_names(true, offer, w); break;
    case PRESETS: offer_choices(w, OPT_preset); break;
    case THEMES: offer_choices(w, OPT_theme); break;
    case FORMATS:
        for (int i = 0; !second && export_formats[i]; i++)
            offer(export_formats[i], w);
        return second;
    }
    return false;
}

bool command_complete(const char *line, command_word_fn *fn, void *arg)
{
    size_t n = strcspn(line, " \t");
    if (*line != '/' || memchr(line + 1, '/', n ? n - 1 : 0))
        return true;
    struct ways w = {.begin = line, .fn = fn, .arg = arg};
    if (!line[n]) {
        offer_commands(&w, "/");
        return false;
    }
    const struct command *k = find_command(line + 1, n - 1);
    w.begin = line + n + strspn(line + n, " \t");
    return k && complete_argument(k->completion, &w);
}

const char *command_help_of(const char *word, const char **argument)
{
    int option = options_find(word);
    const struct command *k = *word == '/' || option < 0 ? find_command(word + (*word == '/'), strlen(word + (*word == '/'))) : NULL;
    *argument = k ? k->argument : "";
    return k ? k->help : option >= 0 ? options_help_of((enum option_id)option) : NULL;
}
