#include "chat/dropped.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "chat/pdf.h"
#include "chat/picture.h"

enum { LONGEST = 16384 };               /* bytes of a paste that is looked at */

/* Replaces %20 and the like. */
static void decode_address(struct buf *path)
{
    size_t to = 0;
    for (size_t i = 0; i < path->len; i++) {
        const char *s = path->data + i;
        const bool coded = *s == '%' && isxdigit((unsigned char)s[1]) && isxdigit((unsigned char)s[2]);
        const char hex[] = {coded ? s[1] : '0', coded ? s[2] : '0', 0};
        path->data[to++] = coded ? (char)strtol(hex, NULL, 16) : *s;
        i += coded ? 2 : 0;
    }
    path->data[path->len = to] = 0;
}

/* Takes the next path, as a shell would read it.  Returns the place after it. */
static const char *next_path(const char *s, struct buf *path)
{
    char quote = 0;
    buf_reset(path);
    for (; *s && (quote || !strchr(" \t\r\n", *s)); s++) {
        if (quote ? *s == quote : *s == '\'' || *s == '"')
            quote = quote ? 0 : *s;
        else if (*s == '\\' && quote != '\'' && s[1])
            buf_addc(path, *++s);
        else
            buf_addc(path, *s);
    }
    if (!strncmp(buf_str(path), "file:///", 8)) {
        buf_consume(path, 7);
        decode_address(path);
    }
    return s;
}

/* Appends the word for a file that can be named in a message. */
static bool add_word(const char *path, struct buf *out)
{
    struct pdf p;
    if ((*path != '/' && strncmp(path, "~/", 2)) || strpbrk(path, "\"\n"))
        return false;
    const bool pdf = pdf_named(&p, path);
    if (pdf)
        pdf_free(&p);
    if (!pdf && !picture_is(path))
        return false;
    buf_addf(out, strpbrk(path, " \t") ? "@\"%s\" " : "@%s ", path);
    return true;
}

bool dropped_words(const char *paste, size_t n, struct buf *out)
{
    const size_t before = out->len;
    struct buf all = {0}, path = {0};
    if (n > LONGEST || memchr(paste, 0, n))
        return false;
    const struct text t = text_trim((struct text){paste, n});
    buf_add(&all, t.p, t.n);
    bool ok = t.n && add_word(all.data, out);
    const char *s = buf_str(&all);
    for (bool more = t.n && !ok; more; more = ok && *s) {
        s = next_path(s, &path);
        ok = path.len && add_word(path.data, out);
        s += strspn(s, " \t\r\n");
    }
    if (!ok)
        out->len = before;
    buf_free(&all);
    buf_free(&path);
    return ok;
}
