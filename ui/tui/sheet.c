#include "ui/tui/sheet.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/err.h"
#include "ui/tui/syntax.h"

struct sheet_mark sheet_mark(const struct sheet *s)
{
    return (struct sheet_mark){s->lines.n, s->n_codes, s->n_tables, s->language, s->state, s->code.len};
}

void sheet_cut(struct sheet *s, const struct sheet_mark *m)
{
    lines_cut(&s->lines, m->n_lines);
    s->n_codes = m->n_codes;
    s->n_tables = m->n_tables;
    s->language = m->language;
    s->state = m->state;
    if (s->code.data) {
        s->code.len = m->code;
        s->code.data[m->code] = 0;
    }
    if (s->n_codes)                     /* its text is the last one */
        s->codes[s->n_codes - 1].n = m->code - s->codes[s->n_codes - 1].text;
}

void sheet_free(struct sheet *s)
{
    lines_free(&s->lines);
    buf_free(&s->code);
    free(s->codes);
    free(s->tables);
    *s = (struct sheet){0};
}

/* Appends "C, block 1": the language's full name if it is known, then the rest of the info string. */
static void label_of(const char *info, size_t n, int number, struct buf *out)
{
    int language = syntax_find(info, n);
    size_t word = 0;
    while (word < n && info[word] != ' ' && info[word] != '\t')
        word++;
    if (language >= 0) {
        buf_adds(out, syntax_name(language));
        buf_add(out, info + word, n - word);
    } else {
        buf_add(out, info, n);
    }
    buf_addf(out, "%sblock %d", out->len ? ", " : "", number);
}

static void fence(struct sheet *s, const char *info, size_t n, size_t source, struct lines_margin margin)
{
    struct lines line = {0};
    struct look dim = {STYLE_dim, 0};
    lines_begin(&line, source)->block = s->n_codes - 1;
    lines_add(&line, dim, "```", 3, LINES_NO_SOURCE);
    lines_add(&line, dim, info, n, LINES_NO_SOURCE);
    lines_fill(&s->lines, &line, 0, LINES_WHOLE, margin, s->columns);
    lines_free(&line);
}

static void label(struct sheet *s, const char *info, size_t n, size_t source, struct lines_margin margin)
{
    struct look dim = {STYLE_dim, 0};
    struct buf label = {0}, blanks = {0};
    struct lines line = {0};
    label_of(info, n, s->n_codes, &label);
    int left = margin.of && margin.first >= 0 ? lines_columns(margin.of, margin.first) : 0;
    int pad = s->measure - left - glyph_columns(label.data, label.len);
    lines_begin(&line, source)->block = s->n_codes - 1;
    for (int i = 0; i < pad; i++)
        buf_addc(&blanks, ' ');
    lines_add(&line, (struct look){STYLE_text, 0}, buf_str(&blanks), blanks.len, LINES_NO_SOURCE);
    lines_add(&line, dim, label.data, label.len, LINES_NO_SOURCE);
    lines_fill(&s->lines, &line, 0, LINES_ANYWHERE, margin, s->columns);
    lines_free(&line);
    buf_free(&blanks);
    buf_free(&label);
}

void sheet_code_begin(struct sheet *s, const char *info, size_t n, size_t source, struct lines_margin margin)
{
    s->codes = grow(s->codes, s->n_codes, &s->cap_codes, sizeof *s->codes);
    s->codes[s->n_codes++] = (struct sheet_code){.info = s->code.len, .n_info = n, .text = s->code.len + n};
    buf_add(&s->code, info, n);
    s->language = syntax_find(info, n);
    s->state = 0;
    s->leaf.kind = LEAF_CODE;
    s->leaf.last = s->leaf.first;       /* until the block has a line it may turn out to be no block */
    (s->fenced ? fence : label)(s, info, n, source, margin);
}

void sheet_code_end(struct sheet *s, size_t source, struct lines_margin margin)
{
    if (s->fenced)
        fence(s, "", 0, source, margin);
}

struct coloured { struct lines *l; const char *text; size_t source; };

static void add_piece(void *arg, enum style style, size_t from, size_t n)
{
    struct coloured *c = arg;
    lines_add(c->l, (struct look){(uint8_t)style, 0}, c->text + from, n, c->source == LINES_NO_SOURCE ? c->source : c->source + from);
}

/* Makes the margins of a line of code and of its continuation lines. */
static void code_margin(struct lines *out, struct lines_margin margin)
{
    int of[] = {margin.first, margin.rest};
    for (int i = 0; i < 2; i++) {
        bool any = margin.of && of[i] >= 0;
        lines_begin(out, 0)->indent = any ? margin.of->lines[of[i]].indent : 0;
        if (any)
            lines_add_line(out, margin.of, of[i], 0);
    }
    lines_add(out, (struct look){STYLE_dim, 0}, LINES_CONTINUED, strlen(LINES_CONTINUED), LINES_NO_SOURCE);
}

void sheet_code_line(struct sheet *s, const char *text, size_t n, size_t source, struct lines_margin margin)
{
    CHECK(s->n_codes > 0);
    struct lines line = {0}, signed_margin = {0};
    s->leaf.last = s->lines.n;
    if (!s->fenced && s->columns >= LINES_LEAST_SIGNED && (n > (size_t)s->columns / 2 || memchr(text, '\t', n))) {
        code_margin(&signed_margin, margin);
        margin = (struct lines_margin){&signed_margin, 0, 1};
    }
    lines_begin(&line, source)->block = s->n_codes - 1;
    s->state = syntax_line(s->language, s->state, text, n, add_piece, &(struct coloured){&line, text, source});
    lines_fill(&s->lines, &line, 0, s->fenced ? LINES_WHOLE : LINES_CODE, margin, s->columns);
    lines_free(&line);
    lines_free(&signed_margin);
    buf_add(&s->code, text, n);
    buf_addc(&s->code, '\n');
    struct sheet_code *c = &s->codes[s->n_codes - 1];
    c->n = s->code.len - c->text;
}

void sheet_table(struct sheet *s, int first_line, size_t from, size_t to)
{
    s->tables = grow(s->tables, s->n_tables, &s->cap_tables, sizeof *s->tables);
    s->tables[s->n_tables++] = (struct sheet_table){first_line, s->lines.n - first_line, from, to};
}

void sheet_blank(struct sheet *s, size_t source)
{
    if (s->lines.n)
        lines_begin(&s->lines, source);
}
