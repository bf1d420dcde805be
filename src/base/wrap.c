#include "base/wrap.h"

#include <string.h>

#include "base/unicode.h"

enum { TAB = 8 };

/* Returns the columns that a text takes when it begins in this column, tabs included. */
static int columns_of(const struct buf *b, int column)
{
    int start = column, width;
    for (size_t i = 0; i < b->len;) {
        if (b->data[i] == '\t') {
            column += TAB - column % TAB;
            i++;
            continue;
        }
        i += unicode_grapheme(b->data + i, b->len - i, &width);
        column += width;
    }
    return column - start;
}

/* Writes the text of `b`, advances the column and empties `b`. */
static void give(struct wrap *w, struct buf *b, int columns, struct buf *out)
{
    w->column += columns_of(b, w->column);
    if (columns > 0)
        w->column %= columns;           /* the terminal itself breaks a longer line */
    buf_add(out, buf_str(b), b->len);
    buf_reset(b);
}

/* Finds the kind of a line by its first word. */
static void begin_line(struct wrap *w)
{
    bool fence = w->word.len >= 3 && !memcmp(w->word.data, "```", 3);
    w->has_word = true;
    w->verbatim = w->fenced || fence || *w->word.data == '|';
    if (fence)
        w->fenced = !w->fenced;
}

/* Writes the pending blanks and word, after a newline if the word does not fit in the line. */
static void give_word(struct wrap *w, int columns, struct buf *out)
{
    if (!w->word.len)
        return;
    if (!w->has_word)
        begin_line(w);
    /* one column stays free: some terminals wrap as soon as the last column is filled */
    int gap = columns_of(&w->blanks, w->column), word = columns_of(&w->word, w->column + gap);
    if (!w->verbatim && !w->inside && columns > 0 && w->column > 0 && w->column + gap + word >= columns) {
        buf_reset(&w->blanks);
        buf_addc(out, '\n');
        w->column = 0;
    }
    give(w, &w->blanks, columns, out);
    give(w, &w->word, columns, out);
}

/* Ends the line; blanks at its end are dropped where the terminal would wrap them. */
static void end_line(struct wrap *w, int columns, struct buf *out)
{
    if (w->verbatim || columns <= 0 || w->column + columns_of(&w->blanks, w->column) < columns)
        buf_add(out, buf_str(&w->blanks), w->blanks.len);
    buf_reset(&w->blanks);
    buf_addc(out, '\n');
    w->column = 0;
    w->has_word = w->verbatim = false;
}

/* True if a line may break before the character at `at`, which was appended to the word.  Scripts without blanks may break between any two
 * wide characters, but not before a character that joins the previous one. */
static bool breaks_before(const struct wrap *w, size_t at)
{
    int last, here;
    size_t i = 0, n = 0;
    while (i + n <= at && i < w->word.len) {            /* the cluster that ends, or begins, at `at` */
        i += n;
        n = unicode_grapheme(w->word.data + i, w->word.len - i, &last);
    }
    if (i != at || !at)
        return false;
    here = last;
    n = 0;
    for (i = 0; i < at; i += n)
        n = unicode_grapheme(w->word.data + i, at - i, &last);
    return here == 2 || last == 2;
}

/* Adds a character to the pending word, which is written first if a line may break before the character. */
static void add_character(struct wrap *w, const char *s, size_t n, int columns, struct buf *out)
{
    size_t at = w->word.len;
    buf_add(&w->word, s, n);
    if ((unsigned char)*s < 0x80 && (!at || (unsigned char)w->word.data[at - 1] < 0x80))
        return;                         /* within a plain word */
    if (!breaks_before(w, at))
        return;
    w->word.len = at;
    give_word(w, columns, out);
    buf_add(&w->word, s, n);
}

void wrap_push(struct wrap *w, const char *text, size_t n, int columns, struct buf *out)
{
    for (size_t i = 0, k; i < n; i += k) {
        k = 1;
        if (text[i] == '\n') {
            give_word(w, columns, out);
            end_line(w, columns, out);
            w->inside = false;
        } else if (text[i] == ' ' || text[i] == '\t') {
            give_word(w, columns, out);
            buf_addc(&w->blanks, text[i]);
            w->inside = false;
        } else {
            uint32_t cp;
            k = utf8_decode(text + i, n - i, &cp, NULL);
            add_character(w, text + i, k, columns, out);
        }
        if (columns > 0 && w->word.len >= (size_t)columns && columns_of(&w->word, 0) >= columns) {
            give_word(w, columns, out);         /* longer than a line: no reason to wait for its end */
            w->inside = true;
        }
    }
}

void wrap_flush(struct wrap *w, int columns, struct buf *out)
{
    give_word(w, columns, out);
    give(w, &w->blanks, columns, out);
}

void wrap_reset(struct wrap *w)
{
    buf_reset(&w->blanks);
    buf_reset(&w->word);
    w->column = 0;
    w->fenced = w->verbatim = w->has_word = w->inside = false;
}

void wrap_free(struct wrap *w)
{
    buf_free(&w->blanks);
    buf_free(&w->word);
    *w = (struct wrap){0};
}
