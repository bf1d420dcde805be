#include "chat/command.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "chat/nearest.h"

struct call {
    struct chat    *chat;
    struct options *o;
    const char     *arg;                /* without blanks around it; "" if there is none */
    struct buf     *out;
    struct err      e;
};

typedef enum command_result command_fn(struct call *c);
enum completion { NOTHING, COMMANDS, OPTIONS, FILES };

#define COMMAND(name, ...) static command_fn command_##name;
#include "config/commands.def"

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

/* The command of this name, or the only one that begins so; the first one of the table wins a tie at a full name. */
static const struct command *find(const char *name, size_t n)
{
    const struct command *only = NULL;
    int count = 0;
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strncmp(commands[i].name, name, n))
            continue;
        if (!commands[i].name[n])
            return &commands[i];
        only = &commands[i];
        count++;
    }
    return count == 1 && n ? only : NULL;
}

static enum command_result refused(struct call *c)
{
    buf_addf(c->out, "%s\n", c->e.msg);
    return COMMAND_DONE;
}

/* --- the commands ----------------------------------------------------------------------------------------------- */

static void help_line(const struct command *k, struct buf *out)
{
    size_t start = out->len;
    buf_addf(out, "  /%s %s", k->name, k->argument);
    while (out->len - start < 24)
        buf_addc(out, ' ');
    buf_addf(out, "%s\n", k->help);
}

static enum command_result command_help(struct call *c)
{
    const char *name = *c->arg == '/' ? c->arg + 1 : c->arg;
    const struct command *k = *name ? find(name, strlen(name)) : NULL;
    for (int i = 0; i < N_COMMANDS; i++)
        if (!k || k == &commands[i])
            help_line(&commands[i], c->out);
    if (!k)
        buf_adds(c->out, "  //text                a message that begins with a slash\n"
                         "  text\\ or \"\"\"          goes on in the next line; \"\"\" again ends it\n"
                         "  Ctrl-C                stops the answer; Ctrl-R searches what was typed before\n");
    return COMMAND_DONE;
}

static enum command_result command_new(struct call *c)
{
    if (!chat_new(c->chat, &c->e))
        return refused(c);
    buf_adds(c->out, "a new conversation\n");
    return COMMAND_DONE;
}

static enum command_result command_system(struct call *c)
{
    if (*c->arg && !options_set(c->o, OPT_system, strcmp(c->arg, "none") ? c->arg : "", FROM_SET, &c->e))
        return refused(c);
    const char *now = options_text(c->o, OPT_system);
    buf_addf(c->out, *now ? "system prompt: %s\n" : "no system prompt%s\n", now);
    return COMMAND_DONE;
}

static enum command_result command_set(struct call *c)
{
    char key[64];
    size_t n = strcspn(c->arg, " \t=");
    const char *value = c->arg + n;
    snprintf(key, sizeof key, "%.*s", (int)n, c->arg);
    value += strspn(value, " \t");
    value += *value == '=';
    value += strspn(value, " \t");
    if (!*key) {
        for (int i = 0; i < N_OPTIONS; i++)
            if (options_given(c->o, (enum option_id)i))
                options_explain(c->o, (enum option_id)i, c->out);
        buf_adds(c->out, "everything else is at its default; /set KEY explains one, q35chat --print-config lists all\n");
        return COMMAND_DONE;
    }
    int id = options_find(key);
    const char *text = strcmp(value, "\"\"") ? value : "";        /* "" empties it */
    if ((*value || id < 0) && !options_set_named(c->o, key, text, &c->e))
        return refused(c);
    options_explain(c->o, (enum option_id)id, c->out);
    return COMMAND_DONE;
}

static enum command_result command_think(struct call *c)
{
    bool budget = isdigit((unsigned char)*c->arg);
    if (budget && !options_set(c->o, OPT_think_budget, c->arg, FROM_SET, &c->e))
        return refused(c);
    if (*c->arg && !options_set(c->o, OPT_think, budget ? "on" : c->arg, FROM_SET, &c->e))
        return refused(c);
    bool on = options_on(c->o, OPT_think);
    int most = options_int(c->o, OPT_think_budget);
    buf_addf(c->out, "thinking is %s", on ? "on" : "off");
    if (on && most)
        buf_addf(c->out, ", at most %d tokens (0: no limit)", most);
    buf_addc(c->out, '\n');
    return COMMAND_DONE;
}

static enum command_result command_tools(struct call *c)
{
    if (*c->arg && !chat_offer_tools(c->chat, c->arg, &c->e))
        return refused(c);
    chat_list_tools(c->chat, c->out);
    return COMMAND_DONE;
}

static enum command_result command_regen(struct call *c)
{
    return chat_regenerate(c->chat, &c->e) ? COMMAND_TURN : refused(c);
}

static enum command_result command_undo(struct call *c)
{
    struct buf text = {0};
    if (!chat_undo(c->chat, &text, &c->e))
        return refused(c);
    size_t n = strcspn(buf_str(&text), "\n");
    buf_addf(c->out, "taken back: %.*s%s\n", (int)n, buf_str(&text), n < text.len ? " ..." : "");
    buf_free(&text);
    return COMMAND_DONE;
}

static enum command_result command_save(struct call *c)
{
    if (*c->arg && !chat_save(c->chat, c->arg, &c->e))
        return refused(c);
    const char *path = chat_saved_as(c->chat);
    if (path)
        buf_addf(c->out, "kept in %s\n", path);
    else
        buf_adds(c->out, "not kept; /save NAME keeps it\n");
    return COMMAND_DONE;
}

static enum command_result command_load(struct call *c)
{
    struct buf note = {0};
    if (!*c->arg)
        err_set(&c->e, "/load needs a name or a path");
    bool ok = *c->arg && chat_load(c->chat, c->arg, &note, &c->e);
    if (note.len)
        buf_addf(c->out, "%s\n", note.data);
    buf_free(&note);
    if (!ok)
        return refused(c);
    int n = chat_n_messages(c->chat), from = n - 2 > 0 ? n - 2 : 0;
    buf_addf(c->out, "%d messages in %s%s\n", n, chat_saved_as(c->chat), from ? ", the last ones:" : "");
    for (int i = from; i < n; i++) {
        struct chat_message m = chat_message(c->chat, i);
        buf_addf(c->out, "%s%s%s\n", !strcmp(m.role, "user") ? "> " : "", m.text, m.stopped ? " [stopped]" : "");
    }
    return COMMAND_DONE;
}

static enum command_result command_stats(struct call *c)
{
    const struct chat_stats *s = chat_last_stats(c->chat);
    const struct chat_info *info = chat_info(c->chat);
    if (info)
        buf_addf(c->out, "model      %s, %s, %s, drafts up to %d, loaded in %.1f s\n", info->model, info->backend, info->formats,
                 info->draft_depth, info->load_ms / 1000);
    buf_addf(c->out, "answer     %d tokens in %d steps, %.1f tok/s, seed %llu\n", s->n_tokens, s->n_steps, s->tok_s,
             (unsigned long long)s->seed);
    buf_addf(c->out, "prompt     %d tokens, %d of them from the cache, %.0f ms\n", s->n_prompt, s->n_cached, s->prefill_ms);
    for (int i = 0; i < CHAT_MAX_DEPTH && s->drafted[i]; i++)
        buf_addf(c->out, "draft %d    %d of %d accepted (%.0f %%)\n", i + 1, s->accepted[i], s->drafted[i],
                 100.0 * s->accepted[i] / s->drafted[i]);
    buf_addf(c->out, "context    %d of %d\n", s->ctx_used, s->ctx_total);
    return COMMAND_DONE;
}

static enum command_result command_quit(struct call *c)
{
    (void)c;
    return COMMAND_QUIT;
}

/* --- telling them apart ----------------------------------------------------------------------------------------- */

static enum command_result unknown(const char *name, size_t n, struct buf *out)
{
    const char *names[N_COMMANDS];
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)n, name);
    bool any = false;
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (n && !strncmp(commands[i].name, word, strlen(word))) {      /* several begin so */
            buf_addf(out, any ? ", /%s" : "/%s is short for several: /%s", any ? commands[i].name : word, commands[i].name);
            any = true;
        }
    }
    const char *near = nearest(word, names, N_COMMANDS);
    if (any)
        buf_addc(out, '\n');
    else
        buf_addf(out, "there is no command /%s%s%s%s; /help lists them, //%s sends it as text\n", word, near ? " (did you mean /" : "",
                 near ? near : "", near ? "?)" : "", word);
    return COMMAND_DONE;
}

enum command_result command_run(struct chat *chat, struct options *o, const char *line, const char **message, struct buf *out)
{
    *message = line;
    if (*line != '/')
        return COMMAND_MESSAGE;
    if (line[1] == '/') {
        *message = line + 1;
        return COMMAND_MESSAGE;
    }
    size_t n = strcspn(line + 1, " \t\n");
    if (memchr(line + 1, '/', n))       /* a path, not a command */
        return COMMAND_MESSAGE;
    const struct command *k = find(line + 1, n);
    if (!k)
        return unknown(line + 1, n, out);
    struct buf arg = {0};
    const char *from = line + 1 + n;
    from += strspn(from, " \t\n");
    buf_adds(&arg, from);
    while (arg.len && isspace((unsigned char)arg.data[arg.len - 1]))
        arg.data[--arg.len] = 0;
    struct call c = {.chat = chat, .o = o, .arg = buf_str(&arg), .out = out};
    enum command_result r = k->fn(&c);
    buf_free(&arg);
    return r;
}

bool command_complete(const char *line, void (*fn)(const char *word, void *arg), void *arg)
{
    struct buf word = {0};
    size_t n = strcspn(line, " \t");
    if (*line != '/' || memchr(line + 1, '/', n ? n - 1 : 0))
        return true;
    const struct command *k = line[n] ? find(line + 1, n - 1) : NULL;
    enum completion what = line[n] ? (k ? k->completion : NOTHING) : COMMANDS;
    const char *rest = line[n] ? line + n + strspn(line + n, " \t") : line + 1;
    const char *slash = line[n] ? "" : "/";
    for (int i = 0; what == COMMANDS && i < N_COMMANDS; i++)
        if (!strncmp(commands[i].name, rest, strlen(rest))) {
            buf_reset(&word);
            buf_addf(&word, "%s%s", slash, commands[i].name);
            fn(word.data, arg);
        }
    for (int i = 0; what == OPTIONS && i < N_OPTIONS; i++)
        if (!strncmp(options_key((enum option_id)i), rest, strlen(rest)))
            fn(options_key((enum option_id)i), arg);
    buf_free(&word);
    return what == FILES;
}

const char *command_help_of(const char *word, const char **argument)
{
    int option = options_find(word);
    const struct command *k = *word == '/' || option < 0 ? find(word + (*word == '/'), strlen(word + (*word == '/'))) : NULL;
    *argument = k ? k->argument : "";
    return k ? k->help : option >= 0 ? options_help_of((enum option_id)option) : NULL;
}
