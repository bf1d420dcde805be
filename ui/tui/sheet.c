#include "ui/tui/sheet.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/least.h"
#include "base/memory.h"
#include "ui/tui/cells.h"

/* --- colours of code ----------------------------------------------------------------------------------------------- */

enum { DIRECTIVES = 1, ANY_CASE = 2, KEYS = 4, NAMES = 8, TAGS = 16, WORD_COMMENT = 32, DIFF = 64 };

struct language {
    const char *name, *aliases, *line_comments, *begin, *end, *strings;
    int flags;
    const char *keywords, *constants;
};

#define LANGUAGE(...) {__VA_ARGS__},
static const struct language languages[] = {
#include "config/syntax.def"
};

/* The forms of strings.  Without `lines` an unclosed string ends with its line. */
static const struct form {
    char letter;
    const char *quote;
    bool escapes, lines;
} forms[] = {
    {'d', "\"", true, false}, {'D', "\"", true, true}, {'s', "'", true, false}, {'c', "'", true, false}, {'r', "'", false, true},
    {'q', "'", false, true}, {'t', "`", true, true}, {'3', "\"\"\"", true, true}, {'3', "'''", true, true},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

/* The state after a line: 0, COMMENT, or STRINGS + the form of an open string; plus IN_TAG within a tag. */
enum { COMMENT = 1, STRINGS = 2, IN_TAG = 64 };

struct lexer {
    const struct language *of;
    const char *s;
    size_t n, at, emitted;         /* bytes before `emitted` were passed to fn */
    int open;
    bool tag;
    void (*fn)(void *arg, enum style style, size_t from, size_t n);
    void *arg;
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* True if s[0..n) is one of the words of the list, which blanks separate. */
static bool in_list(const char *list, const char *s, size_t n, bool any_case)
{
    while (*list) {
        size_t k = strcspn(list, " ");
        if (k == n && n && !(any_case ? strncasecmp(list, s, n) : strncmp(list, s, n)))
            return true;
        list += k + strspn(list + k, " ");
    }
    return false;
}

int syntax_find(const char *info, size_t n)
{
    size_t k = 0;
    while (k < n && !strchr(" \t,:{", info[k]))
        k++;
    for (int i = 0; i < (int)(sizeof languages / sizeof *languages); i++)
        if (in_list(languages[i].aliases, info, k, true))
            return i;
    return -1;
}

const char *syntax_name(int language)
{
    return languages[language].name;
}

/* --- pieces --- */

static void emit(struct lexer *l, enum style style, size_t to)
{
    if (to > l->emitted)
        l->fn(l->arg, style, l->emitted, to - l->emitted);
    l->emitted = to;
}

/* Emits [from, at) with a style, and the bytes before it that were not emitted yet as plain code. */
static void colour(struct lexer *l, enum style style, size_t from)
{
    emit(l, STYLE_code, from);
    emit(l, style, l->at);
}

static bool here(const struct lexer *l, const char *what)
{
    size_t n = strlen(what);
    return n && l->n - l->at >= n && !memcmp(l->s + l->at, what, n);
}

/* --- parts of a line --- */

static void comment(struct lexer *l, size_t from)
{
    const char *end = memmem(l->s + l->at, l->n - l->at, l->of->end, strlen(l->of->end));
    l->open = end ? 0 : COMMENT;
    l->at = end ? (size_t)(end - l->s) + strlen(l->of->end) : l->n;
    colour(l, STYLE_comment, from);
}

static bool names_something(const struct lexer *l)
{
    size_t i = l->at;
    while (i < l->n && is_blank(l->s[i]))
        i++;
    return (l->of->flags & NAMES) && i < l->n && l->s[i] == ':';
}

/* Reads a string after its opening quote, or one that the line above left open. */
static void string(struct lexer *l, int form, size_t from)
{
    const struct form *f = &forms[form];
    l->open = f->lines ? STRINGS + form : 0;
    while (l->at < l->n) {
        if (here(l, f->quote)) {
            l->at += strlen(f->quote);
            l->open = 0;
            break;
        }
        l->at += f->escapes && l->s[l->at] == '\\' && l->at + 1 < l->n ? 2 : 1;
    }
    colour(l, names_something(l) ? STYLE_keyword : STYLE_string, from);
}

/* Returns the form of the string that begins here, or -1.  The quote in "&'a str" begins no string. */
static int string_here(const struct lexer *l)
{
    if ((l->of->flags & TAGS) && !l->tag)
        return -1;
    for (int i = N_FORMS - 1; i >= 0; i--) {            /* three quotes before one */
        if (!strchr(l->of->strings, forms[i].letter) || !here(l, forms[i].quote))
            continue;
        size_t left = l->n - l->at;
        const char *p = l->s + l->at;
        bool character = left > 2 && (p[1] == '\\' || p[2] == '\'' || ((p[1] & 0x80) && memchr(p + 2, '\'', left < 6 ? left - 2 : 4)));
        if (forms[i].letter != 'c' || character)
            return i;
    }
    return -1;
}

/* True if a line comment begins here. */
static bool comment_here(const struct lexer *l)
{
    const char *list = l->of->line_comments;
    if ((l->of->flags & WORD_COMMENT) && l->at && !is_blank(l->s[l->at - 1]))
        return false;
    for (; *list; list += strspn(list, " ")) {
        size_t k = strcspn(list, " ");
        if (l->n - l->at >= k && !memcmp(l->s + l->at, list, k))
            return true;
        list += k;
    }
    return false;
}

/* Takes a word and colours it if it is a keyword or a constant. */
static void word(struct lexer *l)
{
    size_t from = l->at;
    bool any_case = l->of->flags & ANY_CASE;
    while (l->at < l->n && (is_letter(l->s[l->at]) || is_digit(l->s[l->at])))
        l->at++;
    if (in_list(l->of->keywords, l->s + from, l->at - from, any_case))
        colour(l, STYLE_keyword, from);
    else if (in_list(l->of->constants, l->s + from, l->at - from, any_case))
        colour(l, STYLE_number, from);
}

/* Takes and colours a number, with its exponent. */
static void number(struct lexer *l)
{
    size_t from = l->at;
    for (; l->at < l->n; l->at++) {
        char c = l->s[l->at], before = l->at > from ? l->s[l->at - 1] : 0;
        bool sign = (c == '+' || c == '-') && (before == 'e' || before == 'E' || before == 'p')
                    && !(l->s[from] == '0' && before != 'p' && l->at - from > 1 && l->s[from + 1] == 'x');
        if (!is_letter(c) && !is_digit(c) && c != '.' && !sign)
            break;
    }
    colour(l, STYLE_number, from);
}

/* Reads a part of a tag: "<name", "</name", "/>" or ">". */
static bool tag(struct lexer *l)
{
    size_t from = l->at;
    char c = l->s[l->at], next = l->at + 1 < l->n ? l->s[l->at + 1] : 0;
    if (c == '<' && (is_letter(next) || next == '/' || next == '!' || next == '?')) {
        l->tag = true;
        for (l->at += 2; l->at < l->n && (is_letter(l->s[l->at]) || is_digit(l->s[l->at]) || l->s[l->at] == '-' || l->s[l->at] == ':'); l->at++)
            ;
    } else if (l->tag && (c == '>' || (c == '/' && next == '>'))) {
        l->tag = false;
        l->at += c == '>' ? 1 : 2;
    } else {
        return false;
    }
    colour(l, STYLE_keyword, from);
    return true;
}

/* Reads what only the beginning of a line can have: #include, key:, [section]. */
static void line_start(struct lexer *l)
{
    size_t i = 0, from;
    while (i < l->n && (is_blank(l->s[i]) || (l->s[i] == '-' && (l->of->flags & KEYS) && i + 1 < l->n && is_blank(l->s[i + 1]))))
        i++;
    from = i;
    if ((l->of->flags & DIRECTIVES) && i < l->n && l->s[i] == '#') {
        for (i++; i < l->n && (is_blank(l->s[i]) || is_letter(l->s[i])) && !(is_blank(l->s[i]) && is_letter(l->s[i - 1])); i++)
            ;
    } else if ((l->of->flags & KEYS) && i < l->n && l->s[i] == '[' && l->s[l->n - 1] == ']') {
        i = l->n;
    } else if (l->of->flags & KEYS) {
        while (i < l->n && (is_letter(l->s[i]) || is_digit(l->s[i]) || strchr("-./", l->s[i])) && l->s[i])
            i++;
        size_t sign = i;
        while (sign < l->n && is_blank(l->s[sign]))
            sign++;
        if (sign == l->n || (l->s[sign] != '=' && (l->s[sign] != ':' || (sign + 1 < l->n && !is_blank(l->s[sign + 1])))))
            return;
    } else {
        return;
    }
    l->at = i;
    colour(l, STYLE_keyword, from);
}

/* Takes the next comment, string, tag, word, number or other character. */
static void step(struct lexer *l)
{
    size_t from = l->at;
    int form;
    if (comment_here(l)) {
        l->at = l->n;
        colour(l, STYLE_comment, from);
    } else if (here(l, l->of->begin)) {
        l->at += strlen(l->of->begin);
        comment(l, from);
    } else if ((form = string_here(l)) >= 0) {
        l->at += strlen(forms[form].quote);
        string(l, form, from);
    } else if ((l->of->flags & TAGS) && tag(l)) {
        return;
    } else if (is_letter(l->s[l->at])) {
        word(l);
    } else if (is_digit(l->s[l->at]) && !(l->of->flags & TAGS)) {
        number(l);
    } else {
        l->at++;
    }
}

static enum style diff_style(const char *line, size_t n)
{
    char c = n ? *line : 0;
    return c == '+' ? STYLE_added : c == '-' ? STYLE_removed : c == '@' ? STYLE_keyword : c == 'd' || c == 'i' ? STYLE_comment : STYLE_code;
}

int syntax_line(int language, int state, const char *line, size_t n, void (*fn)(void *arg, enum style style, size_t from, size_t n), void *arg)
{
    if (language < 0 || (languages[language].flags & DIFF)) {
        if (n)
            fn(arg, language < 0 ? STYLE_code : diff_style(line, n), 0, n);
        return 0;
    }
    struct lexer l = {.of = &languages[language], .s = line, .n = n, .open = state % IN_TAG, .tag = state >= IN_TAG, .fn = fn, .arg = arg};
    if (l.open >= STRINGS)
        string(&l, l.open - STRINGS, 0);
    else if (l.open == COMMENT)
        comment(&l, 0);
    else
        line_start(&l);
    while (l.at < n)
        step(&l);
    emit(&l, STYLE_code, n);
    return l.open + (l.tag ? IN_TAG : 0);
}

/* --- sheets -------------------------------------------------------------------------------------------------------- */

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

/* Draws the first line of code as in the source. */
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

/* Draws the label above code: language and number of the block. */
static void label(struct sheet *s, const char *info, size_t n, size_t source, struct lines_margin margin)
{
    struct look dim = {STYLE_dim, 0};
    struct buf label = {0}, blanks = {0};
    struct lines line = {0};
    /* "C, block 1": the language's full name if it is known, then the rest of the info string. */
    int language = syntax_find(info, n);
    size_t word = 0;
    while (word < n && info[word] != ' ' && info[word] != '\t')
        word++;
    if (language >= 0) {
        buf_adds(&label, syntax_name(language));
        buf_add(&label, info + word, n - word);
    } else {
        buf_add(&label, info, n);
    }
    buf_addf(&label, "%sblock %d", label.len ? ", " : "", s->n_codes);
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

void sheet_code_bare(struct sheet *s, const char *info, size_t n)
{
    s->codes = memory_grow(s->codes, s->n_codes, &s->cap_codes, sizeof *s->codes);
    s->codes[s->n_codes++] = (struct sheet_code){.info = s->code.len, .n_info = n, .text = s->code.len + n};
    buf_add(&s->code, info, n);
    s->language = syntax_find(info, n);
    s->state = 0;
    s->leaf.kind = LEAF_CODE;
    s->leaf.last = s->leaf.first;       /* until the block has a line it may turn out to be no block */
}

void sheet_code_begin(struct sheet *s, const char *info, size_t n, size_t source, struct lines_margin margin)
{
    sheet_code_bare(s, info, n);
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

void sheet_code_line(struct sheet *s, const char *text, size_t n, size_t source, struct lines_margin margin)
{
    CHECK(s->n_codes > 0);
    struct lines line = {0}, signed_margin = {0};
    s->leaf.last = s->lines.n;
    if (!s->fenced && s->columns >= LINES_LEAST_SIGNED && (n > (size_t)s->columns / 2 || memchr(text, '\t', n))) {
        /* Makes the margins of a line of code and of its continuation lines. */
        int of[] = {margin.first, margin.rest};
        for (int i = 0; i < 2; i++) {
            bool any = margin.of && of[i] >= 0;
            lines_begin(&signed_margin, 0)->indent = any ? margin.of->lines[of[i]].indent : 0;
            if (any)
                lines_add_line(&signed_margin, margin.of, of[i], 0);
        }
        lines_add(&signed_margin, (struct look){STYLE_dim, 0}, LINES_CONTINUED, strlen(LINES_CONTINUED), LINES_NO_SOURCE);
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
    s->tables = memory_grow(s->tables, s->n_tables, &s->cap_tables, sizeof *s->tables);
    s->tables[s->n_tables++] = (struct sheet_table){first_line, s->lines.n - first_line, from, to};
}

void sheet_blank(struct sheet *s, size_t source)
{
    if (s->lines.n)
        lines_begin(&s->lines, source);
}

/* --- tables -------------------------------------------------------------------------------------------------------- */

enum {
    GAP = 2,                    /* columns between columns */
    WORD = 14,                  /* a column of at least this width may break words */
    NARROW = 40,                /* with fewer columns a table is shown as records */
};

void table_begin(struct table *t, int n_cols)
{
    lines_reset(&t->text);
    t->n_cols = n_cols;
    t->n_cells = 0;
    t->align = memory_resized(t->align, (size_t)n_cols + 1);
    memset(t->align, TABLE_LEFT, (size_t)n_cols + 1);
}

void table_cell(struct table *t, enum table_align align)
{
    t->cells = memory_grow(t->cells, t->n_cells, &t->cap_cells, sizeof *t->cells);
    t->align[t->n_cells % t->n_cols] = (unsigned char)align;
    t->cells[t->n_cells++] = (struct table_cell){t->text.n, 0};
}

void table_cell_end(struct table *t)
{
    struct table_cell *c = &t->cells[t->n_cells - 1];
    c->n = t->text.n - c->first;
}

void table_free(struct table *t)
{
    lines_free(&t->text);
    free(t->cells);
    free(t->align);
    *t = (struct table){0};
}

/* --- widths --- */

/* Returns the columns of the longest word of a line. */
static int longest_word(const struct lines *l, int line)
{
    const struct line *p = &l->lines[line];
    int longest = 0, word = 0;
    for (uint32_t i = p->first; i < p->first + p->n_runs; i++) {
        const char *s = l->text.data + l->runs[i].at;
        struct glyph g;
        for (size_t k = 0, n = l->runs[i].n; k < n; longest = most(longest, word)) {
            bool blank = s[k] == ' ' || s[k] == '\t';
            k += glyph_next(s + k, n - k, &g);
            word = blank ? 0 : g.width == 2 ? 2 : word + g.width;       /* lines break beside wide glyphs */
        }
    }
    return longest;
}

struct widths { int *natural, *least, *given; };

/* Finds the natural and the least width of each column. */
static void measure(const struct table *t, struct widths *w)
{
    for (int i = 0; i < t->n_cells; i++) {
        int c = i % t->n_cols, word = 0;
        for (int k = t->cells[i].first; k < t->cells[i].first + t->cells[i].n; k++) {
            w->natural[c] = most(w->natural[c], lines_columns(&t->text, k));
            word = most(word, longest_word(&t->text, k));
        }
        w->least[c] = most(w->least[c], least(word, WORD));
    }
    for (int c = 0; c < t->n_cols; c++) {
        w->natural[c] = most(w->natural[c], 1);
        w->least[c] = most(least(w->least[c], w->natural[c]), 1);
    }
}

/* Returns the sum of the widths when no column is wider than `level`, beyond its least width; fills in the widths. */
static long fill_to(const struct widths *w, int n, int level, int *given)
{
    long sum = 0;
    for (int c = 0; c < n; c++) {
        int width = most(w->least[c], least(w->natural[c], level));
        if (given)
            given[c] = width;
        sum += width;
    }
    return sum;
}

/* Shares the width by water filling: no column is wider than its longest line, none is narrower than its longest word, and all others are equally
 * wide. False: the table does not fit. */
static bool share(const struct widths *w, int n, int columns)
{
    long room = columns - (long)GAP * (n - 1);
    if (fill_to(w, n, 0, NULL) > room)
        return false;
    int low = 0, high = columns;        /* low fits */
    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        if (fill_to(w, n, mid, NULL) <= room)
            low = mid;
        else
            high = mid;
    }
    long spare = room - fill_to(w, n, low, w->given);
    for (int c = 0; c < n && spare > 0; c++)
        if (w->given[c] == low && w->natural[c] > low) {
            w->given[c]++;
            spare--;
        }
    return true;
}

/* --- the grid --- */

static void pad(struct lines *l, int n)
{
    static const char blanks[] = "                                ";
    for (; n > 0; n -= (int)sizeof blanks - 1)
        lines_add(l, (struct look){STYLE_text, 0}, blanks, (size_t)least(n, (int)sizeof blanks - 1), LINES_NO_SOURCE);
}

static size_t row_source(const struct table *t, int row)
{
    for (int i = row * t->n_cols; i < (row + 1) * t->n_cols; i++)
        if (t->cells[i].n)
            return t->text.lines[t->cells[i].first].source;
    return LINES_NO_SOURCE;
}

/* Begins a line with its margin. */
static void begin_line(struct lines *out, struct lines_margin *margin, size_t source)
{
    int i = margin->first;
    lines_begin(out, source);
    if (margin->of && i >= 0) {
        out->lines[out->n - 1].indent = margin->of->lines[i].indent;
        lines_add_line(out, margin->of, i, 0);
    }
    margin->first = margin->rest;
}

/* Adds the lines of a row.  `broken` has the cells broken into lines, at[c] .. at[c + 1] those of column c. */
static void row_lines(const struct table *t, const struct lines *broken, const int *at, const int *given, uint8_t marks,
                      struct lines *out, struct lines_margin *margin, size_t source)
{
    int height = 1;
    for (int c = 0; c < t->n_cols; c++)
        height = most(height, at[c + 1] - at[c]);
    for (int k = 0; k < height; k++) {
        int owed = 0;                   /* blanks at the end of a line are not drawn */
        begin_line(out, margin, source);
        for (int c = 0; c < t->n_cols; c++) {
            bool there = at[c] + k < at[c + 1];
            int used = there ? lines_columns(broken, at[c] + k) : 0, room = most(given[c] - used, 0);
            int left = t->align[c] == TABLE_RIGHT ? room : t->align[c] == TABLE_CENTER ? room / 2 : 0;
            if (used) {
                pad(out, owed + left);
                lines_add_line(out, broken, at[c] + k, marks);
                owed = 0;
            } else {
                owed += left;
            }
            owed += room - left + GAP;
        }
    }
}

static void rule(const struct table *t, const int *given, struct lines *out, struct lines_margin *margin)
{
    begin_line(out, margin, LINES_NO_SOURCE);
    for (int c = 0; c < t->n_cols; c++) {
        pad(out, c ? GAP : 0);
        for (int i = 0; i < given[c]; i++)
            lines_add(out, (struct look){STYLE_rule, 0}, "─", strlen("─"), LINES_NO_SOURCE);
    }
}

/* Draws the table as a grid of these column widths. */
static void grid(const struct table *t, const int *given, struct lines *out, struct lines_margin margin)
{
    struct lines broken = {0};
    int *at = memory_zeroed((size_t)t->n_cols + 1, sizeof *at);
    for (int row = 0; row < t->n_cells / t->n_cols; row++) {
        lines_reset(&broken);
        for (int c = 0; c < t->n_cols; c++) {
            const struct table_cell *cell = &t->cells[row * t->n_cols + c];
            at[c] = broken.n;
            for (int k = cell->first; k < cell->first + cell->n; k++)
                lines_fill(&broken, &t->text, k, LINES_WORDS, (struct lines_margin){0}, given[c]);
        }
        at[t->n_cols] = broken.n;
        row_lines(t, &broken, at, given, row ? 0 : LOOK_BOLD, out, &margin, row_source(t, row));
        if (!row)
            rule(t, given, out, &margin);
    }
    free(at);
    lines_free(&broken);
}

/* --- records --- */

static bool is_empty(const struct table *t, int cell)
{
    for (int k = t->cells[cell].first; k < t->cells[cell].first + t->cells[cell].n; k++)
        if (t->text.lines[k].n_runs)
            return false;
    return true;
}

/* Adds "name: value" as one text, broken at words. */
static void record(const struct table *t, int name, int value, uint8_t marks, struct lines *out, struct lines_margin *margin, int columns)
{
    struct lines line = {0};
    struct look dim = {STYLE_dim, marks};
    const struct table_cell *n = &t->cells[name], *v = &t->cells[value];
    if (is_empty(t, name) && is_empty(t, value))
        return;
    lines_begin(&line, v->n ? t->text.lines[v->first].source : LINES_NO_SOURCE);
    for (int k = n->first; k < n->first + n->n; k++) {
        if (k > n->first)
            pad(&line, 1);
        lines_add_line(&line, &t->text, k, marks | LOOK_BOLD);
    }
    if (name != value && !is_empty(t, name))
        lines_add(&line, dim, v->n ? ": " : ":", v->n ? 2 : 1, LINES_NO_SOURCE);
    for (int k = v->first; k < v->first + v->n && name != value; k++) {
        if (k > v->first)
            pad(&line, 1);
        lines_add_line(&line, &t->text, k, marks);
    }
    lines_fill(out, &line, 0, LINES_WORDS, *margin, columns);
    margin->first = margin->rest;
    lines_free(&line);
}

/* Lays out two columns as names and values, more columns as records of "header: value" with an empty line between them.  Empty cells are left out,
 * except in the first record. */
static void records(const struct table *t, struct lines *out, struct lines_margin margin, int columns)
{
    int n_rows = t->n_cells / t->n_cols;
    bool pairs = t->n_cols == 2;
    for (int i = 0; i < t->n_cells && pairs; i += 2)
        record(t, i, i + 1, i ? 0 : LOOK_BOLD, out, &margin, columns);
    for (int c = 0; c < t->n_cols && n_rows == 1 && !pairs; c++)
        record(t, c, c, LOOK_BOLD, out, &margin, columns);
    for (int row = 1; row < n_rows && !pairs; row++) {
        if (row > 1)
            begin_line(out, &margin, row_source(t, row));
        for (int c = 0; c < t->n_cols; c++)
            if (row == 1 || !is_empty(t, row * t->n_cols + c))
                record(t, c, row * t->n_cols + c, 0, out, &margin, columns);
    }
}

void table_layout(struct table *t, enum table_shape shape, struct lines *out, struct lines_margin margin, int columns)
{
    size_t n = (size_t)t->n_cols;
    int *all = memory_zeroed(3 * n + 1, sizeof *all);
    struct widths w = {all, all + n, all + 2 * n};
    int left = margin.of && margin.rest >= 0 ? lines_columns(margin.of, margin.rest) : 0, room = columns - left;
    measure(t, &w);
    bool fits = share(&w, t->n_cols, room);
    if (!fits && shape == TABLE_GRID) {                 /* the user chose a grid: all words may break */
        for (size_t c = 0; c < n; c++)
            w.least[c] = least(w.natural[c], 2);
        fits = share(&w, t->n_cols, room);
    }
    if (fits && (shape == TABLE_GRID || (shape == TABLE_AUTO && columns >= NARROW)))
        grid(t, w.given, out, margin);
    else
        records(t, out, margin, columns);
    free(all);
}
