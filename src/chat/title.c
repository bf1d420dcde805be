#include "chat/title.h"

#include <string.h>

#include "base/unicode.h"
#include "chat/callline.h"

void title_clean(struct buf *out, struct text given)
{
    struct buf valid = {0};
    unicode_replace(&valid, given.p ? given.p : "", given.n);
    size_t n = valid.len ? unicode_plain(valid.data, valid.len, ' ') : 0;
    struct text t = text_trim((struct text){buf_str(&valid), n});
    buf_add(out, t.p, t.n);
    buf_free(&valid);
}

/* The longest beginning of whole characters that has at most `columns`. */
static size_t fit(const struct buf *line, int columns)
{
    size_t at = 0;
    while (at < line->len) {
        int width;
        size_t n = unicode_grapheme(line->data + at, line->len - at, &width);
        if ((columns -= width) < 0)
            break;
        at += n;
    }
    return at;
}

void title_of_message(struct buf *out, struct text message)
{
    enum { FIRST = 4096 };
    static const char dots[] = "...";
    struct buf line = {0};
    struct text t = text_trim(message);
    size_t n = t.n < FIRST ? t.n : unicode_complete(t.p, FIRST);
    const char *end = n ? memchr(t.p, '\n', n) : NULL;
    title_clean(&line, (struct text){t.p, end ? (size_t)(end - t.p) : n});
    size_t whole = fit(&line, TITLE_COLUMNS);
    if (whole == line.len) {
        buf_add(out, buf_str(&line), line.len);
    } else {
        buf_add(out, line.data, fit(&line, TITLE_COLUMNS - (int)strlen(dots)));
        buf_adds(out, dots);
    }
    buf_free(&line);
}

void title_of_node(struct buf *out, const struct chat_node *n)
{
    struct buf call = {0};
    size_t start = out->len;
    title_of_message(out, text_of(n->text));
    if (out->len > start)
        return;
    if (n->call) {
        buf_adds(&call, "$ ");
        call_line(&call, n->call, n->arguments);
        title_of_message(out, text_of(buf_str(&call)));
        buf_free(&call);
    } else {
        buf_adds(out, strcmp(n->role, "assistant") ? "(empty)" : "(no answer, only reasoning)");
    }
}

void title_of(struct buf *out, const struct transcript *t)
{
    if (t->title) {
        buf_adds(out, t->title);
        return;
    }
    for (int i = 0; i < t->n_all; i++)
        if (t->all[i]->m.role == ROLE_USER) {
            title_of_message(out, t->all[i]->m.content);
            return;
        }
}
