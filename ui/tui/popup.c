#include "ui/tui/popup.h"

#include <string.h>

#include "base/buf.h"
#include "ui/tui/find.h"

enum { LEAST_NOTE = 12 };

static const struct look plain = {STYLE_popup, 0}, dim = {STYLE_popup, LOOK_DIM}, bold = {STYLE_popup, LOOK_BOLD};

/* True if the row has all words of the filter. */
static bool passes(const struct popup_row *row, const char *filter)
{
    while (filter && *(filter += strspn(filter, " "))) {
        size_t n = strcspn(filter, " ");
        struct buf word = {0};
        struct find f = {0};
        struct hits in_text = {0}, in_note = {0};
        buf_add(&word, filter, n);
        find_set(&f, word.data);
        hits_update(&in_text, &f, row->text, strlen(row->text), false);
        if (row->note)
            hits_update(&in_note, &f, row->note, strlen(row->note), false);
        bool found = in_text.n || in_note.n;
        hits_free(&in_text);
        hits_free(&in_note);
        find_free(&f);
        buf_free(&word);
        if (row->head || !found)
            return false;
        filter += n;
    }
    return true;
}

static bool listed(const struct popup *p, int row)
{
    return p->rows[row].found || passes(&p->rows[row], p->filter);
}

int popup_listed(const struct popup *p)
{
    int n = 0;
    for (int i = 0; i < p->n; i++)
        n += listed(p, i);
    return n;
}

/* Returns the next row that can be chosen, from `row` (which counts) in a direction; -1: none. */
static int choosable(const struct popup *p, int row, int step)
{
    while (row >= 0 && row < p->n && (p->rows[row].head || !listed(p, row)))
        row += step;
    return row >= 0 && row < p->n ? row : -1;
}

void popup_settle(struct popup *p)
{
    int from = p->chosen < 0 ? 0 : p->chosen < p->n ? p->chosen : p->n - 1;
    int found = choosable(p, from, 1);
    p->chosen = found >= 0 ? found : choosable(p, from, -1);
}

void popup_choose(struct popup *p, int row)
{
    p->chosen = row;
    popup_settle(p);
}

bool popup_click(struct popup *p, int row, int col)
{
    int before = p->chosen, i = 0;
    if (!area_has(p->list, row, col))
        return false;
    for (int left = p->top + row - p->list.row; i < p->n && (!listed(p, i) || left-- > 0);)
        i++;
    if (i == p->n || p->rows[i].head)
        return false;
    p->chosen = i;
    return i == before;
}

void popup_move(struct popup *p, int by)
{
    int step = by < 0 ? -1 : 1, row = p->chosen;
    if (row < 0) {
        int most = popup_listed(p) - POPUP_ROWS;
        p->top += by;
        if (p->top > most)
            p->top = most;
        if (p->top < 0)
            p->top = 0;
        return;
    }
    for (int n = by < 0 ? -by : by; n > 0; n--) {
        int next = choosable(p, row + step, step);
        if (next < 0 && (by == 1 || by == -1))
            next = choosable(p, step > 0 ? 0 : p->n - 1, step);
        if (next < 0)
            break;
        row = next;
    }
    p->chosen = row;
}

int popup_height(const struct popup *p, int rows)
{
    int n = popup_listed(p);
    rows = p->half ? rows / 2 : rows;
    n = (n > POPUP_ROWS ? POPUP_ROWS : n > 0 ? n : 1) + (p->title || p->filter) + (p->help != NULL);
    return n < rows ? n : rows > 0 ? rows : 0;
}

/* The rows of title, list and help; title and help are left out first. */
struct layout { bool title, help; int list; };

/* Divides the rows among title, list and help. */
static struct layout lay_out(const struct popup *p, int rows)
{
    struct layout l = {.title = p->title || p->filter, .help = p->help != NULL};
    if (l.help && rows < 3)
        l.help = false;
    if (l.title && rows < 2)
        l.title = false;
    l.list = rows - l.title - l.help;
    return l;
}

/* Returns the place of a row among the listed ones. */
static int place_of(const struct popup *p, int row)
{
    int n = 0;
    for (int i = 0; i < row; i++)
        n += listed(p, i);
    return n;
}

/* Scrolls so that the chosen row is visible. */
static void keep_in_view(struct popup *p, int list)
{
    int n = popup_listed(p), at = p->chosen >= 0 ? place_of(p, p->chosen) : p->top;
    if (p->top > at)
        p->top = at;
    if (p->top < at - list + 1 && p->chosen >= 0)
        p->top = at - list + 1;
    if (p->top > n - list)
        p->top = n - list;
    if (p->top < 0)
        p->top = 0;
    /* a heading right above the first row is shown with it */
    if (p->chosen >= 0 && at == p->top && p->top > 0 && p->chosen > 0 && p->rows[p->chosen - 1].head && list > 1)
        p->top--;
}

/* Draws "4 of 30" at the right edge of a row, after column `col`. */
static void draw_count(const struct popup *p, struct cells *c, struct area a, int row, int col)
{
    struct buf count = {0};
    if (p->chosen >= 0)
        buf_addf(&count, "%d of %d", place_of(p, p->chosen) + 1, popup_listed(p));
    int right = a.cols - 1 - (int)count.len;
    if (right > col + 1)
        cells_puts(c, a, row, right, dim, buf_str(&count));
    buf_free(&count);
}

/* Draws title and filter, with the cursor after the filter. */
static void draw_title(const struct popup *p, struct cells *c, struct area a)
{
    int col = cells_puts(c, a, 0, 1, bold, p->title ? p->title : "");
    if (p->filter) {
        col = cells_puts(c, a, 0, col, plain, p->title ? ": " : "");
        col = cells_puts(c, a, 0, col, plain, p->filter);
        c->cursor_row = a.row;
        c->cursor_col = a.col + (col < a.cols ? col : a.cols - 1);
    }
    if (p->filter)
        draw_count(p, c, a, 0, col);
}

static int columns_of(const char *text)
{
    return glyph_columns(text, strlen(text));
}

/* The columns where texts begin, after the marks, and notes (0: at the right edge); equal for all rows. */
struct stops { int text, note; };

/* Returns the columns at which texts and notes begin. */
static struct stops stops_of(const struct popup *p, int columns)
{
    struct stops s = {2, 0};
    int widest = 0;
    for (int i = 0; i < p->n; i++) {
        int wide = columns_of(p->rows[i].text);
        s.text = p->rows[i].here ? 3 : s.text;
        widest = wide > widest && wide <= columns / 2 ? wide : widest;
    }
    if (p->column)
        s.note = s.text + widest + 2;
    return s;
}

/* Draws row i: text, further text and note, as far as they fit. */
static void draw_row(const struct popup *p, int i, struct stops stops, struct cells *c, struct area a, int at)
{
    const struct popup_row *row = &p->rows[i];
    bool chosen = i == p->chosen;
    struct look look = chosen ? (struct look){STYLE_selected, 0} : row->head ? bold : plain;
    struct look note = chosen ? look : dim;
    struct area line = {a.row + at, a.col, 1, a.cols};
    cells_blank(c, line, look);
    cells_puts(c, line, 0, 0, look, chosen ? ">" : " ");
    cells_puts(c, line, 0, 1, look, row->here ? "*" : " ");
    int wide = row->note ? columns_of(row->note) : 0, col = row->head ? 1 : stops.text, room = a.cols - 1 - wide - 2 - col;
    room = row->more && room > 4 * LEAST_NOTE ? room / 2 : room;
    bool cut = row->cut && room > LEAST_NOTE && columns_of(row->text) > room;
    size_t n = cut ? glyph_fit(row->text, strlen(row->text), room - 3) : strlen(row->text);
    col = cells_put(c, line, 0, col, look, row->text, n);
    col = (cut ? cells_puts(c, line, 0, col, look, "...") : col) + 2;
    if (row->more && a.cols - 1 - wide - 2 - col >= LEAST_NOTE)
        cells_put(c, line, 0, col, note, row->more, glyph_fit(row->more, strlen(row->more), a.cols - 1 - wide - 2 - col));
    if (stops.note > col && a.cols - 1 - stops.note >= LEAST_NOTE)
        col = stops.note;
    int spare = a.cols - 1 - col;
    if (wide && (wide <= spare || spare >= LEAST_NOTE))                 /* a note is cut, or left out; a text is not */
        cells_puts(c, line, 0, wide <= spare && !stops.note ? a.cols - 1 - wide : col, note, row->note);
}

void popup_draw(struct popup *p, struct cells *c, struct area a)
{
    int height = popup_height(p, a.rows);
    a = (struct area){a.row + a.rows - height, a.col, height, a.cols};
    struct layout l = lay_out(p, a.rows);
    struct stops stops = stops_of(p, a.cols);
    int at = l.title, n = 0;
    if (a.rows <= 0 || a.cols <= 0)
        return;
    cells_blank(c, a, plain);
    keep_in_view(p, l.list);
    p->list = (struct area){a.row + l.title, a.col, l.list, a.cols};
    if (l.title)
        draw_title(p, c, a);
    for (int i = 0; i < p->n && at < l.title + l.list; i++)
        if (listed(p, i) && n++ >= p->top)
            draw_row(p, i, stops, c, a, at++);
    if (!n)
        cells_puts(c, a, l.title, 2, dim, p->empty ? p->empty : "nothing found");
    if (!l.help)
        return;
    int col = cells_puts(c, a, a.rows - 1, 1, dim, p->help);
    if (!p->title && !p->filter)
        draw_count(p, c, a, a.rows - 1, col);
}

