#include "ui/tui/formula.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/unicode.h"
#include "ui/tui/cells.h"

enum {
    DEEPEST = 16,               /* nested groups */
    ROWS_MAX = 64, CELLS_MAX = 16,
};

enum class { LETTER, OPERATOR, WORD };

static const struct symbol { const char *name, *text; enum class class; } symbols[] = {
#define SYMBOL(name, text, class) {#name, text, class},
#include "config/formula.def"
};
static const struct script { const char *text, *above, *below; } scripts[] = {
#define SCRIPT(text, above, below) {text, above, below},
#include "config/formula.def"
};
static const struct accent { const char *name, *mark; } accents[] = {
#define ACCENT(name, mark) {#name, mark},
#include "config/formula.def"
};

struct tex {
    const char *s;              /* of s[0..n), s[at] is next */
    size_t n, at;
    int  depth;                 /* of groups */
    bool lines;                 /* several lines may be made */
};

/* How far a sequence is read: a group to its }, the degree of a root to its ], a cell to & or \\ or \end, a formula to its end. */
enum until { BRACE, BRACKET, CELL, END };
static bool sequence(struct tex *t, struct buf *out, enum until until);

static bool at_end(const struct tex *t) { return t->at >= t->n; }

static bool next_is(const struct tex *t, const char *what)
{
    size_t n = strlen(what);
    return t->at + n <= t->n && !memcmp(t->s + t->at, what, n);
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void skip_blanks(struct tex *t)
{
    while (!at_end(t) && strchr(" \t\r\n", t->s[t->at]) && t->s[t->at])
        t->at++;
}

/* Appends a blank, unless there is one or the text begins here. */
static void blank(struct buf *out)
{
    if (out->len && !strchr(" \n([{", out->data[out->len - 1]))
        buf_addc(out, ' ');
}

static void drop_blanks(struct buf *out)
{
    while (out->len && out->data[out->len - 1] == ' ')
        out->data[--out->len] = 0;
}

/* Reads the end of a row with its optional height: \\ or \\[4pt]. */
static bool row_end(struct tex *t)
{
    if (!next_is(t, "\\\\"))
        return false;
    t->at += 2;
    const char *height = next_is(t, "[") ? memchr(t->s + t->at, ']', t->n - t->at) : NULL;
    if (height && t->at + 1 < t->n && is_digit(t->s[t->at + 1]))
        t->at = (size_t)(height - t->s) + 1;
    skip_blanks(t);
    return true;
}

/* Reads the name of a command after its backslash: letters, or one other character. */
static size_t read_name(const struct tex *t)
{
    size_t n = 0;
    while (t->at + n < t->n && is_letter(t->s[t->at + n]))
        n++;
    return n || at_end(t) ? n : 1;
}

static const struct symbol *symbol_named(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strlen(symbols[i].name) == n && !memcmp(symbols[i].name, name, n))
            return &symbols[i];
    return NULL;
}

/* --- arguments --- */

/* Reads an argument, a group or a single thing, and appends it. */
static bool argument(struct tex *t, struct buf *out)
{
    struct tex one = *t;
    skip_blanks(t);
    if (at_end(t) || strchr("}&^_", t->s[t->at]))
        return false;
    if (t->s[t->at] == '{') {
        t->at++;
        return sequence(t, out, BRACE);
    }
    size_t n = 1;
    one.at = t->at;
    if (t->s[t->at] == '\\') {
        one.at++;
        n = 1 + read_name(&one);
        one.at = t->at;
        const struct symbol *s = symbol_named(t->s + t->at + 1, n - 1);
        if (!s)                 /* such as \frac: its own arguments follow */
            return false;
        buf_adds(out, s->text);
        t->at += n;
        return true;
    }
    n = unicode_grapheme(t->s + t->at, t->n - t->at, NULL);
    buf_add(out, t->s + t->at, n);
    t->at += n;
    return true;
}

/* Copies a group's bytes as they are: \text{...}. */
static bool verbatim(struct tex *t, struct buf *out)
{
    skip_blanks(t);
    const char *end = next_is(t, "{") ? memchr(t->s + t->at, '}', t->n - t->at) : NULL;
    if (!end || memchr(t->s + t->at, '$', (size_t)(end - t->s) - t->at) || memchr(t->s + t->at, '\\', (size_t)(end - t->s) - t->at))
        return false;
    size_t from = t->at + 1 + (out->len && out->data[out->len - 1] == ' ' && t->s[t->at + 1] == ' ');
    buf_add(out, t->s + from, (size_t)(end - t->s) - from);
    t->at = (size_t)(end - t->s) + 1;
    return true;
}

/* True if text right before the next thing would read as one with it: a letter, a digit, a command for one, a script. */
static bool joined_after(const struct tex *t)
{
    if (at_end(t))
        return false;
    struct tex name = *t;
    unsigned char c = (unsigned char)t->s[t->at];
    if (c != '\\')
        return is_letter((char)c) || is_digit((char)c) || strchr("({[^_'", c) || c >= 0x80;
    name.at++;
    size_t n = read_name(&name);
    const struct symbol *s = symbol_named(t->s + name.at, n);
    return n && is_letter(t->s[name.at]) && !(s && s->class == OPERATOR) && strncmp(t->s + name.at, "right", 5) && strncmp(t->s + name.at, "quad", 4)
        && strncmp(t->s + name.at, "end", 3);
}

static bool joined_before(const struct buf *out)
{
    char c = out->len ? out->data[out->len - 1] : ' ';
    return is_letter(c) || is_digit(c) || (c & 0x80) || c == ')';
}

/* True if the text is one number, one name or one bracketed whole. */
static bool is_simple(const struct buf *b)
{
    const char *s = buf_str(b);
    size_t n = b->len, i = 0;
    int depth = 0;
    if (n && s[0] == '(' && s[n - 1] == ')') {
        for (i = 0; i + 1 < n && (i == 0 || depth); i++)
            depth += (s[i] == '(') - (s[i] == ')');
        return i + 1 == n;
    }
    bool number = n && (is_digit(s[0]) || s[0] == '.'), letters = n && !number;
    for (i = 0; i < n; i++) {
        number = number && (is_digit(s[i]) || s[i] == '.' || s[i] == ',');
        letters = letters && (is_letter(s[i]) || s[i] & 0x80);
    }
    return number || letters;
}

static void add_bracketed(struct buf *out, const struct buf *text, bool bare)
{
    buf_adds(out, bare ? "" : "(");
    buf_add(out, buf_str(text), text->len);
    buf_adds(out, bare ? "" : ")");
}

/* --- commands with arguments --- */

/* Writes \frac as a/b, in parentheses where something is joined to it.  False if it cannot be read. */
static bool fraction(struct tex *t, struct buf *out)
{
    struct buf above = {0}, below = {0};
    bool ok = argument(t, &above) && argument(t, &below);
    bool whole = ok && (joined_before(out) || joined_after(t));
    if (ok) {
        buf_adds(out, whole ? "(" : "");
        add_bracketed(out, &above, is_simple(&above));
        buf_addc(out, '/');
        add_bracketed(out, &below, is_simple(&below));
        buf_adds(out, whole ? ")" : "");
    }
    buf_free(&above);
    buf_free(&below);
    return ok;
}

/* Writes \binom as (n choose k).  False if it cannot be read. */
static bool binomial(struct tex *t, struct buf *out)
{
    struct buf above = {0}, below = {0};
    bool ok = argument(t, &above) && argument(t, &below);
    if (ok)
        buf_addf(out, "(%s choose %s)", buf_str(&above), buf_str(&below));
    buf_free(&above);
    buf_free(&below);
    return ok;
}

/* Appends text raised or lowered; false if a character has no such form. */
static bool add_script(struct buf *out, const struct buf *text, bool above)
{
    size_t from = out->len;
    for (size_t i = 0, k; i < text->len; i += k) {
        const char *form = NULL;
        k = unicode_grapheme(text->data + i, text->len - i, NULL);
        if (text->data[i] == ' ')
            continue;
        for (size_t j = 0; j < sizeof scripts / sizeof *scripts && !form; j++)
            if (strlen(scripts[j].text) == k && !memcmp(scripts[j].text, text->data + i, k))
                form = above ? scripts[j].above : scripts[j].below;
        if (!form || !*form) {
            out->len = from;
            return false;
        }
        buf_adds(out, form);
    }
    return true;
}

/* Writes a superscript (above) or subscript: by Unicode's characters if there are any, else with ^ or _. */
static bool script(struct tex *t, struct buf *out, bool above)
{
    struct buf text = {0};
    bool ok = argument(t, &text);
    if (ok && !add_script(out, &text, above)) {
        bool one = text.len && unicode_grapheme(text.data, text.len, NULL) == text.len;
        buf_addc(out, above ? '^' : '_');
        add_bracketed(out, &text, one || (is_simple(&text) && text.data[0] == '('));
    }
    buf_free(&text);
    return ok;
}

/* Writes a root with its degree.  False if the degree has no characters of its own. */
static bool root(struct tex *t, struct buf *out)
{
    struct buf degree = {0}, text = {0};
    skip_blanks(t);
    bool ok = true, has_degree = next_is(t, "[");
    if (has_degree) {
        t->at++;
        ok = sequence(t, &degree, BRACKET);
    }
    ok = ok && argument(t, &text);
    if (ok && degree.len == 1 && (degree.data[0] == '3' || degree.data[0] == '4'))
        buf_adds(out, degree.data[0] == '3' ? "∛" : "∜");
    else
        ok = ok && (!has_degree || add_script(out, &degree, true)) && (buf_adds(out, "√"), true);
    if (ok)
        add_bracketed(out, &text, is_simple(&text) && !joined_after(t));
    buf_free(&degree);
    buf_free(&text);
    return ok;
}

/* Writes a double-struck letter.  False if there is none. */
static bool blackboard(struct tex *t, struct buf *out)
{
    static const struct { char letter; const char *text; } letters[] = {
        {'C', "ℂ"}, {'E', "𝔼"}, {'F', "𝔽"}, {'N', "ℕ"}, {'P', "ℙ"}, {'Q', "ℚ"}, {'R', "ℝ"}, {'Z', "ℤ"}, {'1', "𝟙"},
    };
    struct buf text = {0};
    bool ok = argument(t, &text) && text.len == 1, found = false;
    for (size_t i = 0; ok && i < sizeof letters / sizeof *letters && !found; i++)
        if ((found = letters[i].letter == text.data[0]))
            buf_adds(out, letters[i].text);
    buf_free(&text);
    return found;
}

static bool boxed(struct tex *t, struct buf *out)
{
    buf_addc(out, '[');
    bool ok = argument(t, out);
    buf_addc(out, ']');
    return ok;
}

static bool modulus(struct tex *t, struct buf *out)
{
    blank(out);
    buf_adds(out, "(mod ");
    bool ok = argument(t, out);
    buf_addc(out, ')');
    return ok;
}

static bool tag(struct tex *t, struct buf *out)
{
    buf_adds(out, "  (");
    bool ok = argument(t, out);
    buf_addc(out, ')');
    return ok;
}

/* Writes an operator struck through. */
static bool negated(struct tex *t, struct buf *out)
{
    struct buf text = {0};
    bool ok = argument(t, &text) && text.len;
    blank(out);
    buf_add(out, buf_str(&text), text.len);
    buf_adds(out, "\u0338 ");
    buf_free(&text);
    return ok;
}

/* Reads the delimiter after \left, \right, \big and the like; a dot means no delimiter. */
static bool delimiter(struct tex *t, struct buf *out)
{
    skip_blanks(t);
    if (next_is(t, ".")) {
        t->at++;
        return true;
    }
    if (next_is(t, "\\{") || next_is(t, "\\}") || next_is(t, "\\|")) {
        buf_adds(out, t->s[t->at + 1] == '{' ? "{" : t->s[t->at + 1] == '}' ? "}" : "‖");
        t->at += 2;
        return true;
    }
    return argument(t, out);
}

static bool closing(struct tex *t, struct buf *out)
{
    drop_blanks(out);
    return delimiter(t, out);
}

static bool operator_name(struct tex *t, struct buf *out)
{
    t->at += next_is(t, "*");
    return argument(t, out);
}

/* Reads a command without output: \limits, \displaystyle. */
static bool nothing(struct tex *t, struct buf *out)
{
    drop_blanks(out);
    skip_blanks(t);
    return true;
}

static bool label(struct tex *t, struct buf *out)
{
    struct buf text = {0};
    bool ok = verbatim(t, &text);
    (void)out;
    buf_free(&text);
    return ok;
}

/* --- environments: rows of cells --- */

struct grid {
    struct buf cells[ROWS_MAX][CELLS_MAX];
    int n_cells[ROWS_MAX], n_rows, n_columns;
};

/* Reads the cells of an environment up to its \end.  False if there are too many. */
static bool read_grid(struct tex *t, struct grid *g)
{
    for (g->n_rows = 0; g->n_rows < ROWS_MAX; ) {
        int *n = &g->n_cells[g->n_rows];
        for (*n = 0; *n < CELLS_MAX; ) {
            struct buf *cell = &g->cells[g->n_rows][(*n)++];
            skip_blanks(t);
            if (!sequence(t, cell, CELL))
                return false;
            drop_blanks(cell);
            g->n_columns = *n > g->n_columns ? *n : g->n_columns;
            if (!next_is(t, "&"))
                break;
            t->at++;
        }
        g->n_rows++;
        if (!row_end(t) || next_is(t, "\\end"))
            return next_is(t, "\\end");
    }
    return false;
}

static int cell_columns(const struct grid *g, int row, int column)
{
    return column < g->n_cells[row] ? glyph_columns(buf_str(&g->cells[row][column]), g->cells[row][column].len) : 0;
}

/* Appends a row with its cells padded to the width of their columns; `right`: every other cell is aligned to the right, beginning with the first. */
static void add_row(struct buf *out, const struct grid *g, int row, bool right, const char *between)
{
    for (int k = 0; k < g->n_columns; k++) {
        int widest = 0, own = cell_columns(g, row, k);
        for (int i = 0; i < g->n_rows; i++)
            widest = cell_columns(g, i, k) > widest ? cell_columns(g, i, k) : widest;
        bool pad_left = right && !(k & 1);
        buf_addf(out, "%s%*s", k ? between : "", pad_left ? widest - own : 0, "");
        if (k < g->n_cells[row])
            buf_add(out, buf_str(&g->cells[row][k]), g->cells[row][k].len);
        buf_addf(out, "%*s", pad_left ? 0 : widest - own, "");
    }
}

static const struct form {
    const char *name, *open, *close, *between;
    bool right;
} forms[] = {
    {"aligned", "", "", " ", true}, {"align", "", "", " ", true}, {"align*", "", "", " ", true}, {"split", "", "", " ", true},
    {"gather", "", "", "  ", false}, {"gather*", "", "", "  ", false}, {"gathered", "", "", "  ", false},
    {"equation", "", "", "  ", false}, {"equation*", "", "", "  ", false},
    {"cases", "{", "", "  ", false}, {"array", "", "", "  ", false}, {"matrix", "", "", "  ", false}, {"pmatrix", "(", ")", "  ", false},
    {"bmatrix", "[", "]", "  ", false}, {"vmatrix", "|", "|", "  ", false}, {"Bmatrix", "{", "}", "  ", false},
};

/* Appends the rows: each on a line of its own below the place where the first begins, or in one line with semicolons. */
static void add_grid(struct buf *out, const struct grid *g, const struct form *f, bool lines)
{
    size_t from = out->len;
    while (from && out->data[from - 1] != '\n')
        from--;
    int indent = glyph_columns(buf_str(out) + from, out->len - from);
    for (int i = 0; i < g->n_rows; i++) {
        if (i && lines)
            buf_addf(out, "\n%*s", indent, "");
        else
            buf_adds(out, i ? "; " : f->open);
        for (int k = 0; !lines && k < g->n_cells[i]; k++)
            buf_addf(out, "%s%s", k ? " " : "", buf_str(&g->cells[i][k]));
        if (!lines)
            continue;
        buf_adds(out, i ? f->open : "");
        buf_adds(out, *f->open ? " " : "");
        add_row(out, g, i, f->right, f->between);
        buf_addf(out, *f->close ? " %s" : "%s", f->close);
    }
    buf_adds(out, lines ? "" : f->close);
}

/* Writes an environment such as a matrix or cases, on lines of its own if it may.  False if it is not known. */
static bool environment(struct tex *t, struct buf *out)
{
    struct buf name = {0}, end = {0};
    const struct form *f = NULL;
    bool lines = t->lines && t->depth == 1, ok = verbatim(t, &name);
    for (size_t i = 0; ok && i < sizeof forms / sizeof *forms && !f; i++)
        f = strcmp(forms[i].name, buf_str(&name)) ? NULL : &forms[i];
    if (f) {
        struct grid *g = memory_zeroed(1, sizeof *g);
        buf_addf(&end, "\\end{%s}", f->name);
        ok = (strcmp(f->name, "array") || label(t, out)) && read_grid(t, g) && next_is(t, buf_str(&end));
        if (ok) {
            add_grid(out, g, f, lines);
            t->at += end.len;
            t->lines = false;   /* a second one beside it is written in one line */
        }
        for (int i = 0; i < ROWS_MAX; i++)
            for (int k = 0; k < CELLS_MAX; k++)
                buf_free(&g->cells[i][k]);
        free(g);
    }
    buf_free(&name);
    buf_free(&end);
    return ok && f;
}

/* --- sequences --- */

static const struct { const char *name; bool (*read)(struct tex *, struct buf *); } commands[] = {
    {"frac", fraction}, {"dfrac", fraction}, {"tfrac", fraction}, {"cfrac", fraction}, {"binom", binomial}, {"dbinom", binomial},
    {"sqrt", root}, {"mathbb", blackboard}, {"boxed", boxed}, {"fbox", boxed}, {"pmod", modulus}, {"tag", tag}, {"not", negated},
    {"text", verbatim}, {"textbf", verbatim}, {"textit", verbatim}, {"textrm", verbatim}, {"mbox", verbatim}, {"texttt", verbatim},
    {"mathrm", argument}, {"mathbf", argument}, {"mathit", argument}, {"mathsf", argument}, {"mathtt", argument}, {"mathcal", argument},
    {"mathscr", argument}, {"mathfrak", argument}, {"boldsymbol", argument}, {"bm", argument}, {"operatorname", operator_name},
    {"underbrace", argument}, {"overbrace", argument}, {"left", delimiter}, {"right", closing}, {"middle", delimiter}, {"big", delimiter},
    {"Big", delimiter}, {"bigg", delimiter}, {"Bigg", delimiter}, {"bigl", delimiter}, {"bigr", delimiter}, {"Bigl", delimiter},
    {"Bigr", delimiter}, {"biggl", delimiter}, {"biggr", delimiter}, {"limits", nothing}, {"nolimits", nothing}, {"displaystyle", nothing},
    {"textstyle", nothing}, {"nonumber", nothing}, {"notag", nothing}, {"label", label}, {"begin", environment},
};

/* Writes a text with a combining mark on each character. */
static bool accented(struct tex *t, struct buf *out, const char *mark)
{
    struct buf text = {0};
    bool ok = argument(t, &text);
    for (size_t i = 0, k; ok && i < text.len; i += k) {
        k = unicode_grapheme(text.data + i, text.len - i, NULL);
        buf_add(out, text.data + i, k);
        if (text.data[i] != ' ')
            buf_adds(out, mark);
    }
    buf_free(&text);
    return ok;
}

/* Reads a command; its backslash was read. */
static bool command(struct tex *t, struct buf *out)
{
    static const struct { char c; const char *text; } marks[] = {
        {',', " "}, {':', " "}, {';', " "}, {' ', " "}, {'!', ""}, {'{', "{"}, {'}', "}"}, {'%', "%"}, {'#', "#"}, {'$', "$"}, {'&', "&"},
        {'_', "_"}, {'|', "‖"},
    };
    const char *name = t->s + t->at;
    size_t n = read_name(t);
    t->at += n;
    for (size_t i = 0; n == 1 && i < sizeof marks / sizeof *marks; i++) {
        if (marks[i].c != *name)
            continue;
        if (*marks[i].text == ' ')
            blank(out);
        else
            buf_adds(out, marks[i].text);
        return true;
    }
    if ((n == 4 && !memcmp(name, "quad", 4)) || (n == 5 && !memcmp(name, "qquad", 5))) {
        blank(out);
        buf_addc(out, ' ');
        return true;
    }
    const struct symbol *s = symbol_named(name, n);
    if (s) {
        if (s->class == OPERATOR || (s->class == WORD && joined_before(out)))
            blank(out);
        buf_adds(out, s->text);
        if (s->class == OPERATOR)
            skip_blanks(t);
        if (s->class == OPERATOR || (s->class == WORD && joined_after(t) && !strchr("({[^_'", t->s[t->at])))
            buf_addc(out, ' ');
        return true;
    }
    for (size_t i = 0; i < sizeof accents / sizeof *accents; i++)
        if (strlen(accents[i].name) == n && !memcmp(accents[i].name, name, n))
            return accented(t, out, accents[i].mark);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strlen(commands[i].name) == n && !memcmp(commands[i].name, name, n))
            return commands[i].read(t, out);
    return false;
}

/* Reads one thing that is no command. */
static bool plain(struct tex *t, struct buf *out)
{
    char c = t->s[t->at];
    switch (c) {
    case ' ': case '\t': case '\r': case '\n': case '~':
        skip_blanks(t);
        t->at += c == '~';
        blank(out);
        return true;
    case '{':
        t->at++;
        return sequence(t, out, BRACE);
    case '^': case '_':
        t->at++;
        return script(t, out, c == '^');
    case '\'':
        t->at++;
        buf_adds(out, "′");
        return true;
    case '}': case '&': case '$': case '%': case '#': case 0:
        return false;
    }
    size_t n = unicode_grapheme(t->s + t->at, t->n - t->at, NULL);
    buf_add(out, t->s + t->at, n);
    t->at += n;
    return true;
}

/* True at the end of the sequence that is being read. */
static bool ended(const struct tex *t, enum until until)
{
    switch (until) {
    case BRACE:
        return next_is(t, "}");
    case BRACKET:
        return next_is(t, "]");
    case CELL:
        return next_is(t, "&") || next_is(t, "\\\\") || next_is(t, "\\end{");
    default:
        return at_end(t);
    }
}

/* Reads a sequence; a bracket that ends it is read, too. */
static bool sequence(struct tex *t, struct buf *out, enum until until)
{
    bool ok = t->depth < DEEPEST;
    t->depth++;
    while (ok && !ended(t, until)) {
        if (at_end(t)) {
            ok = false;
        } else if (t->lines && t->depth == 1 && row_end(t)) {
            drop_blanks(out);
            buf_addc(out, '\n');
        } else if (next_is(t, "\\")) {
            t->at++;
            ok = command(t, out);
        } else {
            ok = plain(t, out);
        }
    }
    t->depth--;
    t->at += ok && (until == BRACE || until == BRACKET);
    return ok;
}

const struct formula_display formula_displays[FORMULA_N_DISPLAYS] = {
    {"$$", "$$"}, {"\\[", "\\]"},
#define ENVIRONMENT(name) {"\\begin{" name "}", "\\end{" name "}"}
    ENVIRONMENT("align"), ENVIRONMENT("align*"), ENVIRONMENT("equation"), ENVIRONMENT("equation*"), ENVIRONMENT("gather"), ENVIRONMENT("gather*"),
#undef ENVIRONMENT
};
static const struct formula_display inlines[] = {{"\\(", "\\)"}, {"$", "$"}};

bool formula_text(const char *s, size_t n, struct buf *out)
{
    enum { N_KINDS = FORMULA_N_DISPLAYS + sizeof inlines / sizeof *inlines };
    struct buf text = {0};
    bool ok = false;
    for (size_t i = 0; i < N_KINDS && !ok && unicode_valid(s, n); i++) {
        const struct formula_display *d = i < FORMULA_N_DISPLAYS ? &formula_displays[i] : &inlines[i - FORMULA_N_DISPLAYS];
        size_t k = strlen(d->open), m = strlen(d->close);
        if (n <= k + m || memcmp(s, d->open, k) || memcmp(s + n - m, d->close, m))
            continue;
        if (strchr(d->open, '{'))
            k = m = 0;                  /* an environment is a part of the formula */
        struct tex t = {.s = s + k, .n = n - k - m, .lines = i < FORMULA_N_DISPLAYS};
        buf_reset(&text);
        skip_blanks(&t);
        ok = sequence(&t, &text, END);
    }
    drop_blanks(&text);
    ok = ok && text.len;
    if (ok)
        buf_add(out, buf_str(&text), text.len);
    buf_free(&text);
    return ok;
}
