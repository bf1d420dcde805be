#include "session/title.h"

#include <string.h>

#include "base/unicode.h"

void title_clean(struct buf *out, struct text given)
{
    struct buf valid = {0};
    unicode_replace(&valid, given.p ? given.p : "", given.n);
    size_t n = valid.len ? unicode_plain(valid.data, valid.len, ' ') : 0;
    struct text t = text_trim((struct text){buf_str(&valid), n});
    buf_add(out, t.p, t.n);
    buf_free(&valid);
}

/* Returns the length of the longest beginning of whole characters that has at most `columns`. */
static size_t fitting_bytes(const struct buf *line, int columns)
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
    size_t whole = fitting_bytes(&line, TITLE_COLUMNS);
    if (whole == line.len) {
        buf_add(out, buf_str(&line), line.len);
    } else {
        buf_add(out, line.data, fitting_bytes(&line, TITLE_COLUMNS - (int)strlen(dots)));
        buf_adds(out, dots);
    }
    buf_free(&line);
}

/* Removes the signs that some models put around a title. */
static struct text unquoted(struct text t)
{
    static const char *const before[] = {"Title:", "**", "*", "#", "\"", "'", "`", "\u201c", "\u201e", "\u00ab", "\u300c"};
    static const char *const after[] = {"**", "*", "\"", "'", "`", "\u201d", "\u201c", "\u00bb", "\u300d", ".", "\u3002"};
    enum { N = sizeof before / sizeof *before };
    _Static_assert(N == sizeof after / sizeof *after, "as many signs before a title as after it");
    for (size_t n = 0; n != t.n;) {
        n = t.n;
        for (int i = 0; i < N; i++) {
            if (text_starts(t, before[i]))
                t = text_trim((struct text){t.p + strlen(before[i]), t.n - strlen(before[i])});
            if (text_ends(t, after[i]))
                t.n -= strlen(after[i]);
        }
        t = text_trim(t);
    }
    return t;
}

/* True for two to eight words; for one in a script without blanks between words. */
static bool has_words(const struct buf *title)
{
    enum { LEAST_COLUMNS = 4, MOST_WORDS = 8 };
    int words = 0, columns = 0;
    bool ascii = true;
    for (size_t at = 0; at < title->len;) {
        int width;
        words += title->data[at] != ' ' && (!at || title->data[at - 1] == ' ');
        ascii = ascii && (unsigned char)title->data[at] < 0x80;
        at += unicode_grapheme(title->data + at, title->len - at, &width);
        columns += width;
    }
    return columns >= LEAST_COLUMNS && columns <= TITLE_COLUMNS && words <= MOST_WORDS && (words > 1 || !ascii);
}

bool title_written(struct buf *out, const char *answer)
{
    struct buf title = {0};
    struct text t = text_trim(text_of(answer));
    const char *end = t.n ? memchr(t.p, '\n', t.n) : NULL;
    t = unquoted(text_trim((struct text){t.p, end ? (size_t)(end - t.p) : t.n}));
    title_clean(&title, t);
    const bool ok = title.len && has_words(&title) && !strpbrk(title.data, "<>{}|") && !strstr(title.data, "\uFFFD");
    if (ok)
        buf_add(out, title.data, title.len);
    buf_free(&title);
    return ok;
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
