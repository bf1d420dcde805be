#include "ui/tui/view.h"

#include <stdio.h>
#include <string.h>

#include "ui/exits.h"
#include "ui/tui/paste.h"
#include "ui/tui/summary.h"

enum { TINY_ROWS = 10, QUEUE_ROWS = 3, PROGRESS_AFTER_MS = 500 };

static const struct look TEXT = {STYLE_text, 0}, DIM = {STYLE_dim, 0}, NOTE = {STYLE_note, 0}, POPUP = {STYLE_popup, 0};

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

/* --- the parts -------------------------------------------------------------------------------------------------- */

static bool starts(const struct app *a)
{
    return !a->chat || (!chat_n_messages(a->chat) && !app_busy(a));
}

/* What a new user should know; gone with the first message. */
static void draw_welcome(const struct app *a, struct cells *c, struct area at)
{
    static const char *const told[] = {
        "Ask anything. Alt-Enter or Ctrl-J makes a new line, @ attaches a file,",
        "/ lists commands, Ctrl-C stops an answer, Ctrl-D leaves.",
        "Conversations are kept; q35chat --continue goes on with the last one.",
    };
    struct buf head = {0};
    const char *dir = a->chat ? chat_model_dir(a->chat) : "", *slash = strrchr(dir, '/');
    buf_addf(&head, "q35chat " Q35_VERSION "   %s   F1 or ? for help", slash && slash[1] ? slash + 1 : dir);
    cells_puts(c, at, 0, 0, TEXT, head.data);
    buf_free(&head);
    if (at.rows < 8 || at.cols < 72)
        return;
    for (int i = 0; i < 3; i++)
        cells_puts(c, at, at.rows / 3 + i, 2, DIM, told[i]);
    if (a->chat && chat_notice(a->chat)) {
        struct lines notice = {0};
        lines_wrap(&notice, NOTE, chat_notice(a->chat), strlen(chat_notice(a->chat)), 0, at.cols - 2, 0);
        for (int i = 0; i < notice.n; i++)
            lines_draw(&notice, i, c, (struct area){at.row, at.col + 2, at.rows, at.cols - 2}, at.rows / 3 + 4 + i);
        lines_free(&notice);
    }
}

static void draw_queue(const struct app *a, struct cells *c, struct area at)
{
    for (int i = 0; i < at.rows; i++) {
        struct buf line = {0};
        bool last = i == at.rows - 1 && a->queue.n > at.rows;
        const char *text = a->queue.texts[i];
        buf_addf(&line, "%s %d: %.*s", a->queue.held ? "held" : "queued", i + 1, (int)strcspn(text, "\n"), text);
        if (last)
            buf_addf(&line, "  (and %d more)", a->queue.n - at.rows);
        cells_puts(c, at, i, 0, DIM, line.data);
        buf_free(&line);
    }
}

static bool shows_progress(const struct app *a)
{
    const struct phase *p = &a->phase;
    return a->figures.progress.total && !p->stopping && a->ms - p->reads_ms >= PROGRESS_AFTER_MS
        && (p->kind == PHASE_LOADING || p->kind == PHASE_READING);
}

static void draw_progress(const struct app *a, struct cells *c, struct area at)
{
    if (a->phase.kind == PHASE_LOADING)
        progress_draw_load(&a->figures.progress, a->ms, c, at);
    else
        progress_draw_prompt(&a->figures.progress, a->ms, c, at);
}

/* It takes the rows above the status line as well that it needs: the end of a sentence may be what matters. */
static void draw_long_hint(const struct app *a, struct cells *c, struct area at)
{
    static const struct look look = {STYLE_status, 0};
    struct lines lines = {0};
    lines_wrap(&lines, look, a->hint.data, a->hint.len, 0, most(at.cols - 2, 1), 0);
    int rows = least(lines.n, at.row + 1);
    struct area over = {at.row - rows + 1, at.col, rows, at.cols};
    cells_blank(c, over, look);
    over.col++;
    over.cols -= 2;
    for (int i = 0; i < rows; i++)
        lines_draw(&lines, i, c, over, i);
    lines_free(&lines);
}

/* A word about the last key has the row for itself: it says what could not be guessed, and is soon gone. */
static void draw_status(struct app *a, struct cells *c, struct area at)
{
    static const struct look look = {STYLE_status, 0};
    struct status s;
    summary_status(a, &s);
    if (!a->hint.len) {
        status_draw(&s, c, at);
        return;
    }
    cells_blank(c, at, look);
    int wide = 1 + glyph_columns(s.state, strlen(s.state)) + 2, room = at.cols - wide;
    bool both = glyph_columns(a->hint.data, a->hint.len) <= room;
    if (both) {
        cells_puts(c, at, 0, 1, look, s.state);
        cells_puts(c, at, 0, wide, look, a->hint.data);
    } else {
        draw_long_hint(a, c, at);
    }
}

/* What the colours mean, each word in its own, as long as they are shown. */
static void draw_legend(const struct app *a, struct cells *c, struct area at)
{
    static const struct { enum heat heat; enum style style; const char *text; } words[] = {
        {HEAT_HOW, STYLE_drafted, "drafted and accepted"}, {HEAT_HOW, STYLE_looked_up, "found by lookup"}, {HEAT_HOW, STYLE_text, "sampled"},
        {HEAT_PROBABILITY, STYLE_sure, "90 % and more"}, {HEAT_PROBABILITY, STYLE_text, "60 to 90 %"},
        {HEAT_PROBABILITY, STYLE_unsure, "30 to 60 %"}, {HEAT_PROBABILITY, STYLE_doubtful, "below 30 %"},
    };
    int col = cells_puts(c, at, 0, 0, DIM, a->heat == HEAT_HOW ? "how tokens were made:" : "how likely tokens were:");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].heat == a->heat)
            col = cells_puts(c, at, 0, col + 2, (struct look){(uint8_t)words[i].style, 0}, words[i].text);
    if (at.cols - col > (int)strlen("Alt-H goes on") + 2)
        cells_puts(c, at, 0, at.cols - (int)strlen("Alt-H goes on"), DIM, "Alt-H goes on");
}

static void draw_panel(struct app *a, struct cells *c, struct area at)
{
    struct panel p;
    summary_panel(a, &p);
    panel_draw(&p, c, at);
}

/* Lines of the help, what keys do wrapped in its column, beginning with the section at `p`; up to the one at `end`. */
static void wrap_help(struct lines *lines, const char *p, const char *end, int columns)
{
    enum { HELP_COLUMN = 24, LEAST_HELP = 12 };
    int indent = columns >= HELP_COLUMN + LEAST_HELP ? HELP_COLUMN : 4;
    while (p < end) {
        size_t n = strcspn(p, "\n");
        struct look look = {STYLE_popup, *p == ' ' ? 0 : LOOK_BOLD};
        lines_wrap(lines, look, p, n, 0, most(columns, 1), columns > indent && *p == ' ' ? indent : 0);
        p += n + (p[n] == '\n');
    }
}

static int count_newlines(const char *p, const char *end)
{
    int n = 0;
    while (p < end)
        n += *p++ == '\n';
    return n;
}

/* Where the second of two columns begins: the section that leaves both about equally long. */
static const char *middle_section(const char *help)
{
    const char *end = help + strlen(help), *best = end;
    int all = count_newlines(help, end), longest = all;
    for (const char *p = help; (p = strstr(p, "\n\n")); p++) {
        int left = count_newlines(help, p + 1), right = all - left - 1;
        if (most(left, right) < longest) {
            longest = most(left, right);
            best = p + 2;
        }
    }
    return best;
}

/* The keys that work here, over the transcript: in two columns where there is room. */
static void draw_keys(struct app *a, struct cells *c, struct area at)
{
    enum { TWO_COLUMNS = 100, GAP = 2 };
    struct buf help = {0}, more = {0};
    struct lines columns[2] = {0};
    bool two = at.cols >= TWO_COLUMNS && !a->testing;
    int wide = two ? (at.cols - GAP) / 2 : at.cols;
    app_keys_help(a, &help);
    const char *text = buf_str(&help), *end = text + strlen(text), *middle = two ? middle_section(text) : end;
    wrap_help(&columns[0], text, middle, wide);
    wrap_help(&columns[1], middle, end, wide);
    int n = most(columns[0].n, columns[1].n), rows = n > at.rows && at.rows > 1 ? at.rows - 1 : at.rows;
    a->keys_top = most(least(a->keys_top, n - rows), 0);
    cells_blank(c, at, POPUP);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < rows && a->keys_top + i < columns[k].n; i++)
            lines_draw(&columns[k], a->keys_top + i, c, (struct area){at.row, at.col + k * (wide + GAP), at.rows, wide}, i);
    if (a->keys_top + rows < n)
        buf_addf(&more, "-- %d more, PgDn --", n - a->keys_top - rows);
    else if (rows < at.rows)
        buf_adds(&more, "-- end --");
    cells_puts(c, at, at.rows - 1, 0, (struct look){STYLE_popup, LOOK_DIM}, buf_str(&more));
    lines_free(&columns[0]);
    lines_free(&columns[1]);
    buf_free(&help);
    buf_free(&more);
}

/* --- the input's place ------------------------------------------------------------------------------------------ */

static bool is_tiny(const struct cells *c)
{
    return c->rows < TINY_ROWS || c->cols < 40;
}

/* On a tiny screen a tool's question takes the status line's row as well: all of it must be seen. */
static bool has_status(const struct app *a, const struct cells *c)
{
    return !a->bare && !(a->approve.on && is_tiny(c));
}

static int input_rows(struct app *a, const struct cells *c)
{
    int above = has_status(a, c) ? 2 : 1;       /* a row of transcript, the status line */
    if (a->approve.on)
        return most(least(approve_rows(&a->approve, c->cols), c->rows - above), 1);
    if (a->mode == MODE_PASTE)
        return most(least(PASTE_ROWS, c->rows - above), 1);
    if (a->mode == MODE_PROMPT)
        return a->prompt >= PROMPT_TYPED && !is_tiny(c) ? 2 : 1;
    if (is_tiny(c))
        return 1;
    return most(1, least(editor_rows(a->editor, c->cols), most(3, c->rows / 3)));
}

static void draw_prompt(struct app *a, struct cells *c, struct area at)
{
    static const char *const signs[] = {"/ ", "? ", "/ ", "> "};
    const char *found = a->prompt == PROMPT_TYPED ? input_found(a) : NULL;
    if (at.rows > 1) {
        cells_puts(c, at, 0, 0, DIM, found ? "  " : a->prompt == PROMPT_RENAME ? "  its title; an empty one takes the first line again"
                                                  : "  type a part of what you wrote before");
        if (found)
            cells_put(c, at, 0, 2, TEXT, found, strlen(found));
        at.row++;
        at.rows--;
    }
    editor_draw(a->line, c, at, signs[a->prompt]);
}

static void draw_input(struct app *a, struct cells *c, struct area at)
{
    if (a->approve.on)
        approve_draw(&a->approve, c, at, a->ms);
    else if (a->mode == MODE_PASTE)
        paste_draw(a, c, at);
    else if (a->mode == MODE_PROMPT)
        draw_prompt(a, c, at);
    else
        editor_draw(a->editor, c, at, "> ");
    if (a->approve.on || (a->mode != MODE_VIEW && a->mode != MODE_SELECT && a->mode != MODE_KEYS))
        return;
    c->cursor_row = a->mode == MODE_KEYS ? 0 : a->at_pane.row + pane_cursor(a->pane);   /* magnifiers follow it */
    c->cursor_col = 0;
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

static struct popup *list_above(struct app *a)
{
    return a->approve.on ? NULL : a->mode == MODE_PICKER ? &a->picker.popup : input_popup(a);
}

/* Rows at the end of the transcript that something stands over. */
static int rows_above(struct app *a, int rows)
{
    struct popup *list = list_above(a);
    if (a->mode == MODE_KEYS)
        return rows;
    if (a->mode == MODE_INSPECT)
        return most(least(INSPECT_ROWS, rows - 1), 0);
    if (list && a->mode == MODE_PICKER && a->picker.preview)
        rows /= 2;                      /* what is shown above needs some */
    return list ? popup_height(list, rows) : 0;
}

static void draw_above(struct app *a, struct cells *c, struct area at)
{
    struct popup *list = list_above(a);
    int row = c->cursor_row, col = c->cursor_col;
    if (!at.rows)
        return;
    if (a->mode == MODE_KEYS)
        draw_keys(a, c, at);
    else if (a->mode == MODE_INSPECT)
        inspect_draw(a, c, at);
    else if (list)
        popup_draw(list, c, at);
    if (list && a->mode != MODE_PICKER) {       /* the cursor stays where one types */
        c->cursor_row = row;
        c->cursor_col = col;
    }
}

static void draw_all(struct app *a, struct cells *c)
{
    int input = input_rows(a, c), status = has_status(a, c), free_rows = c->rows - input - status;
    int queue = a->bare ? 0 : least(least(a->queue.n, is_tiny(c) ? 0 : QUEUE_ROWS), free_rows - 1);
    int progress = shows_progress(a) ? least(PROGRESS_ROWS, free_rows - queue - 2) : 0;
    queue = most(queue, 0);
    progress = most(progress, 0);
    int legend = a->heat != HEAT_NONE && !a->bare && !is_tiny(c) && free_rows - queue - progress > 2;
    int rows = free_rows - queue - progress - legend;
    bool beside = a->panel && !a->bare && c->cols >= PANEL_MIN_SCREEN;
    struct area text = {0, 0, rows, beside ? c->cols - PANEL_COLUMNS - 1 : c->cols};
    a->pane_rows = rows;
    a->at_pane = text;
    a->at_input = (struct area){c->rows - input, 0, input, c->cols};
    if (a->chat)
        inspect_tint(a);
    pane_cover(a->pane, a->mode == MODE_INSPECT ? INSPECT_ROWS : 0);
    int above = rows_above(a, rows);
    pane_cover(a->pane, above);
    pane_measure(a->pane, options_int(a->o, OPT_width));
    pane_draw(a->pane, c, text);
    if (starts(a) && !pane_n(a->pane))
        draw_welcome(a, c, text);
    if (progress)
        draw_progress(a, c, (struct area){rows, 0, progress, text.cols});
    if (beside)
        draw_panel(a, c, (struct area){0, c->cols - PANEL_COLUMNS, rows + progress + legend, PANEL_COLUMNS});
    if (legend)
        draw_legend(a, c, (struct area){rows + progress, 0, 1, text.cols});
    draw_queue(a, c, (struct area){rows + progress + legend, 0, queue, c->cols});
    if (status)
        draw_status(a, c, (struct area){c->rows - input - 1, 0, 1, c->cols});
    draw_input(a, c, a->at_input);
    if (a->mode == MODE_PICKER && !a->approve.on)
        picker_draw_preview(&a->picker, c, (struct area){0, 0, rows - above, text.cols});
    draw_above(a, c, (struct area){rows - above, 0, above, text.cols});
}

void view_draw(struct app *a, struct cells *c)
{
    cells_blank(c, cells_all(c), TEXT);
    c->cursor_row = -1;
    if (c->rows < VIEW_MIN_ROWS || c->cols < VIEW_MIN_COLUMNS) {
        approve_hidden(&a->approve);
        cells_puts(c, cells_all(c), 0, 0, TEXT, "too small");
    } else {
        draw_all(a, c);
    }
}

void view_title(struct app *a, struct buf *out)
{
    struct status s;
    summary_status(a, &s);
    status_title(&s, out);
    buf_addf(out, " · %s", a->chat ? phase_name(&a->phase) : "opening");
}

static bool inside(struct area at, int row, int col)
{
    return row >= at.row && row < at.row + at.rows && col >= at.col && col < at.col + at.cols;
}

void view_click(struct app *a, int row, int col)
{
    int item;
    size_t byte;
    bool reads = (a->mode == MODE_INPUT && !input_popup(a)) || a->mode == MODE_VIEW;
    if (a->approve.on)
        return;
    if (reads && inside(a->at_pane, row, col) && (item = pane_fold_at(a->pane, row - a->at_pane.row)) >= 0)
        pane_toggle_fold(a->pane, item);
    else if (a->mode == MODE_INPUT && inside(a->at_input, row, col))
        editor_click(a->editor, row - a->at_input.row, col - a->at_input.col);
    else if (a->mode == MODE_VIEW && inside(a->at_pane, row, col) && pane_at(a->pane, row - a->at_pane.row, col - a->at_pane.col, &item, &byte))
        pane_choose(a->pane, item);
}
