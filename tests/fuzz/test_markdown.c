/* Markdown put together at random from marks, words and bytes (the same each time), for two seconds: however it is cut and
 * whenever it is looked at the lines are the same, those that are final stay, every word is shown, no line is too wide, and what
 * claims to be from the source is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fuzz/long_run.h"
#include "ui/tui/markdown.h"

static bool fenced;             /* code is laid out for a page that is printed */

static uint64_t rnd_state = 11;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % below;
}

/* A 'w' is a word that must be seen; no entity, link's target or language we know has one. */
static const char *const pieces[] = {
    "w", "w", "w w", "\n", "\n", "\n", "\n\n", " ", "  ", "    ", "\t", "*", "**", "_", "__", "~~", "`", "``", "```", "~~~", "```qq\n",
    "\n```\n", "- ", "\n- ", "\n  - ", "* ", "1. ", "\n7) ", "10. ", "- [x] ", "- [ ] ", "> ", "\n> ", ">> ", "# ", "###", "\n---\n", "===",
    "***\n", "|", "|w|w|\n", "|---|:-:|\n", "\n|w|-|\n|-|-|\n", "-|-", "| w | w | w |\n", "||", "[", "]", "[w", "](u)", "](u \"w\")", "![",
    "]: ", "[w]: u\n", "<u:u>", "http://u.u/u_u", "<b>", "</b>", "<div>\n", "<!--", "-->", "<pre>", "</pre>", "<?", "<br>", "&lt;", "&w;",
    "&#65;", "$", "$$", "\n$$\n", "$x_1$", "$a", "\\frac{a}{b}", "\\begin{align}", "\\end{align}",
    "\\[\n", "\\\\", "\\(", "\\)", "\\[", "\\]", "\\", "\\*",
    "\r", "\r\n", "\xE4\xB8\xAD", "e\xCC\x81", "\xF0\x9F\x91\x8D",
    "\xE2\x80\x8B",
    "\xFF", "\xE4\xB8", "\x1B[31m", "\xC2\x9B", ":", "!", ".", "/", "w://", "\"", "'", "(", ")", "{", "}", "  \n", "\\\n",
};

static void make(struct buf *b)
{
    buf_reset(b);
    for (int n = (int)rnd(1 + rnd(60)); n >= 0; n--) {
        if (rnd(60) == 0)
            buf_addc(b, (char)rnd(256));                /* any byte, also NUL */
        else
            buf_adds(b, pieces[rnd(sizeof pieces / sizeof *pieces)]);
    }
}

static bool same_run(const struct lines *a, const struct run *x, const struct lines *b, const struct run *y)
{
    return x->n == y->n && x->source == y->source && x->look.style == y->look.style && x->look.marks == y->look.marks
        && !memcmp(a->text.data + x->at, b->text.data + y->at, x->n);
}

static bool same(const struct lines *a, const struct lines *b, int n)
{
    for (int i = 0; i < n; i++) {
        const struct line *x = &a->lines[i], *y = &b->lines[i];
        if (x->n_runs != y->n_runs || x->source != y->source || x->indent != y->indent || x->block != y->block || x->soft != y->soft)
            return false;
        for (uint32_t k = 0; k < x->n_runs; k++)
            if (!same_run(a, &a->runs[x->first + k], b, &b->runs[y->first + k]))
                return false;
    }
    return true;
}

static void show(const struct lines *l, struct buf *out)
{
    for (int i = 0; i < l->n; i++) {
        lines_text(l, i, out);
        buf_addc(out, '\n');
    }
}

static void differ(const struct buf *source, size_t n, int columns, const char *what, const struct lines *a, const struct lines *b)
{
    struct buf x = {0}, y = {0}, s = {0};
    show(a, &x);
    if (b)
        show(b, &y);
    for (size_t i = 0; i < n; i++)
        buf_addf(&s, source->data[i] >= 32 && source->data[i] < 127 && source->data[i] != '\\' ? "%c" : "\\%03o", (unsigned char)source->data[i]);
    fail_msg("%s, %d columns, of\n%s\n--- one\n%s--- other\n%s", what, columns, buf_str(&s), buf_str(&x), buf_str(&y));
}

static const char *wrong_with(const struct lines *l, const struct buf *source, size_t n, int columns)
{
    for (int i = 0; i < l->n; i++) {
        const struct line *line = &l->lines[i];
        if (columns > 1 && !(fenced && line->block >= 0) && lines_columns(l, i) > columns)
            return "too wide";
        if (line->source > n || (i && line->source < l->lines[i - 1].source))
            return "lines out of order";
        for (uint32_t k = line->first; k < line->first + line->n_runs; k++) {
            const struct run *r = &l->runs[k];
            if (r->source != LINES_NO_SOURCE && (r->source + r->n > n || memcmp(source->data + r->source, l->text.data + r->at, r->n)))
                return "a run that is not in the source";
        }
    }
    return NULL;
}

static size_t count_words(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += s[i] == 'w';
    return count;
}

/* The settled lines as text, without blanks at their ends: they grow and never change. */
static void check_settled(struct markdown *m, struct buf *settled, const struct buf *source, size_t n, int columns)
{
    struct buf now = {0};
    const struct lines *l = markdown_lines(m);
    if (memchr(source->data, '|', source->len))         /* a long first line may turn out to be a table's header */
        return;
    for (int i = 0; i < markdown_n_settled(m); i++) {
        lines_text(l, i, &now);
        while (now.len && now.data[now.len - 1] == ' ')         /* a mark behind it may have become a line's end */
            now.len--;
        buf_addc(&now, '\n');
    }
    if (markdown_n_settled(m) < markdown_n_final(m))
        differ(source, n, columns, "a final line is not settled", l, NULL);
    if (now.len < settled->len || memcmp(buf_str(&now), buf_str(settled), settled->len)) {
        print_message("was settled:\n%s", buf_str(settled));
        differ(source, n, columns, "a settled line changed", l, NULL);
    }
    buf_reset(settled);
    buf_add(settled, buf_str(&now), now.len);
    buf_free(&now);
}

static struct markdown *whole(const struct buf *source, size_t n, int columns, enum table_shape shape, bool end)
{
    struct markdown *m = markdown_open();
    markdown_width(m, columns, columns);
    markdown_tables(m, shape);
    markdown_fences(m, fenced);
    markdown_push(m, source->data, n);
    if (end)
        markdown_end(m);
    return m;
}

static void check(struct markdown *m, const struct buf *source, size_t n, int columns, enum table_shape shape, bool end)
{
    struct markdown *w = whole(source, n, columns, shape, end);
    const struct lines *a = markdown_lines(w), *b = markdown_lines(m);
    const char *wrong = wrong_with(a, source, n, columns);
    if (wrong)
        differ(source, n, columns, wrong, a, NULL);
    if (a->n != b->n || !same(a, b, a->n))
        differ(source, n, columns, "cut otherwise", a, b);
    if (markdown_n_final(m) != markdown_n_final(w))
        differ(source, n, columns, "other final lines", a, b);
    if (count_words(a->text.data, a->text.len) < count_words(source->data, n))
        differ(source, n, columns, "a word is missing", a, NULL);
    for (int i = 0; i < markdown_n_blocks(m); i++) {
        struct buf text = {0}, language = {0};
        assert_true(markdown_block(m, i, &text, &language));
        buf_free(&text);
        buf_free(&language);
    }
    markdown_close(w);
}

/* In pieces of 1 .. `most` bytes, looked at now and then. */
static void stream(const struct buf *source, uint32_t most)
{
    static const int widths[] = {1, 2, 3, 7, 20, 39, 40, 80};
    int columns = widths[rnd(8)];
    enum table_shape shape = rnd(2) ? TABLE_AUTO : (enum table_shape)rnd(4);
    fenced = rnd(4) == 0;
    struct markdown *m = whole(source, 0, columns, shape, false);
    struct lines final = {0};
    struct buf settled = {0};
    for (size_t at = 0; at < source->len;) {
        size_t n = 1 + rnd(most);
        n = n < source->len - at ? n : source->len - at;
        markdown_push(m, source->data + at, n);
        at += n;
        if (rnd(3))
            continue;
        check(m, source, at, columns, shape, false);
        check_settled(m, &settled, source, at, columns);
        const struct lines *l = markdown_lines(m);
        if (l->n < final.n || !same(l, &final, final.n))
            differ(source, at, columns, "a final line changed", l, &final);
        lines_reset(&final);
        lines_append(&final, l, 0);
        lines_cut(&final, markdown_n_final(m));
    }
    markdown_end(m);
    check(m, source, source->len, columns, shape, true);
    if (!same(markdown_lines(m), &final, final.n))
        differ(source, source->len, columns, "a final line changed at the end", markdown_lines(m), &final);
    check_settled(m, &settled, source, source->len, columns);
    buf_free(&settled);
    lines_free(&final);
    markdown_close(m);
}

static void test_markdown__random_text_does_not_depend_on_how_it_is_cut(void **state)
{
    struct buf b = {0};
    struct long_run run = long_run_begin(2, 1);
    (void)state;
    rnd_state = long_run_seed(rnd_state);
    while (long_run_goes_on(&run)) {
        make(&b);
        for (size_t i = 0; i < b.len && rnd_state >> 63; i++)
            b.data[i] = b.data[i] == '|' ? 'w' : b.data[i];
        for (uint32_t most = 1; most <= 16; most *= 4)
            stream(&b, most);
    }
    print_message("%ld inputs\n", run.n);
    buf_free(&b);
}

static void repeat(struct buf *b, const char *what, size_t bytes)
{
    buf_reset(b);
    while (b->len < bytes)
        buf_adds(b, what);
}

/* Text that is hard on a parser comes out whole, whatever it means. */
static void test_markdown__a_lot_of_anything_is_laid_out(void **state)
{
    static const char *const what[] = {"`", "*", "_", "[", "](", "> ", "- ", "\\(", "\\[", "$", "<", "<!--", "&", "|", "a|b\n-|-\n", "w ", "w", "#",
        "* a\n", "1. \n", "```\n", "\n", "\r", "![", "**a", "~~", "\t", "\xE4\xB8\xAD", "\xCC\x81", "\xFF", "` ``", "[a]: b\n", "http://a",
        "|a\n|-\n|b\n\n", "|w"};
    struct buf b = {0};
    (void)state;
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        repeat(&b, what[i], 20000);
        struct markdown *m = whole(&b, b.len, 40, TABLE_AUTO, false);
        assert_null(wrong_with(markdown_lines(m), &b, b.len, 40));
        assert_true(count_words(markdown_lines(m)->text.data, markdown_lines(m)->text.len) >= count_words(b.data, b.len));
        markdown_width(m, 1, 1);
        markdown_lines(m);
        markdown_end(m);
        assert_true(markdown_n_final(m) == markdown_lines(m)->n);
        markdown_close(m);
    }
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_markdown__random_text_does_not_depend_on_how_it_is_cut),
        cmocka_unit_test(test_markdown__a_lot_of_anything_is_laid_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
