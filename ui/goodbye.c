#include "ui/goodbye.h"

#include <stdio.h>
#include <string.h>

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

int goodbye_status(struct chat *c, int status)
{
    struct err e = {0};
    if (chat_keep(c, &e))
        return status;
    fprintf(stderr, "q35chat: %s\n", e.msg);
    return EXIT_FAILED;
}
