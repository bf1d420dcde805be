#include "ui/goodbye.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/unicode.h"
#include "session/held.h"
#include "ui/process.h"

/* Appends a blank and the word, quoted for a shell. */
static void add_word(const char *s, void *arg)
{
    struct buf *out = arg;
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+:,@";
    buf_addc(out, ' ');
    if (*s && s[strspn(s, plain)] == 0) {
        buf_adds(out, s);
        return;
    }
    buf_addc(out, '\'');
    for (; *s; s++)
        buf_adds(out, *s == '\'' ? "'\\''" : (char[]){*s, 0});
    buf_addc(out, '\'');
}

/* True if -r alone would choose another model: the file names another one, none, or a server in a file that is not trusted with it. */
static bool needs_model(const struct chat *c, const struct options *o, const char *name)
{
    struct buf was = {0};
    const char *now = chat_held_with(c);
    bool chosen = options_from(o, OPT_model) == FROM_COMMAND_LINE || options_from(o, OPT_endpoint) == FROM_COMMAND_LINE;
    bool named = held_with(name, &was), needs = named ? !held_same(was.data, now) || (strchr(name, '/') && *now != '/') : chosen;
    buf_free(&was);
    return needs;
}

void goodbye_add(const struct chat *c, const struct options *o, struct buf *out)
{
    struct buf name = {0}, line = {0};
    if (chat_saved_name(c, &name)) {
        add_word(program_invocation_name, &line);
        if (options_given(o, OPT_config))
            add_word("--config", &line), add_word(options_text(o, OPT_config), &line);
        if (needs_model(c, o, name.data))
            held_words(chat_held_with(c), add_word, &line);
        add_word("-r", &line);
        add_word(name.data, &line);
        buf_adds(out, "resume with:");
        unicode_safe(out, line.data, line.len);
        buf_addc(out, '\n');
    }
    buf_free(&name);
    buf_free(&line);
}

/* Saves the conversation in the first of these places that works. */
static bool save_elsewhere(struct chat *c, struct buf *path)
{
    const char *const places[] = {getenv("HOME"), "/var/tmp", getenv("TMPDIR"), "/tmp"};
    char date[32];
    time_t now = time(NULL);
    struct tm tm;
    bool ok = false;
    strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", localtime_r(&now, &tm));
    for (size_t i = 0; i < sizeof places / sizeof *places && !ok; i++) {
        if (!places[i] || *places[i] != '/')
            continue;
        buf_reset(path);
        buf_addf(path, "%s/q35chat-%s-%d.jsonl", places[i], date, (int)getpid());
        ok = chat_save(c, path->data, NULL) && chat_keep(c, NULL);
    }
    return ok;
}

int goodbye_status(struct chat *c, int ending, int status, struct buf *said)
{
    struct err e = {0};
    struct buf path = {0}, told = {0};
    if (!chat_n_nodes(c) || chat_keep(c, &e))
        return status;
    buf_addf(&told, "q35chat: %s", e.msg);
    if (ending && save_elsewhere(c, &path))
        buf_addf(&told, "; it is in %s: q35chat -r %s continues it", path.data, path.data);
    else
        status = EXIT_FAILED;
    unicode_safe(said, told.data, told.len);
    buf_addc(said, '\n');
    buf_free(&path);
    buf_free(&told);
    return status;
}
