#include "ui/goodbye.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/unicode.h"
#include "ui/exits.h"

/* As a shell takes it. */
static void add_word(struct buf *out, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+:,@";
    if (s[strspn(s, plain)] == 0) {
        buf_adds(out, s);
        return;
    }
    buf_addc(out, '\'');
    for (; *s; s++)
        buf_adds(out, *s == '\'' ? "'\\''" : (char[]){*s, 0});
    buf_addc(out, '\'');
}

void goodbye_add(const struct chat *c, struct buf *out)
{
    struct buf name = {0}, word = {0};
    if (chat_saved_name(c, &name)) {
        add_word(&word, name.data);
        buf_adds(out, "q35chat -r ");
        unicode_safe(out, word.data, word.len);
        buf_adds(out, "   goes on with this conversation\n");
    }
    buf_free(&name);
    buf_free(&word);
}

/* The first of these places that takes it. */
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
