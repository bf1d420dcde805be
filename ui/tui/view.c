#include "ui/tui/view.h"

#include <stdio.h>
#include <string.h>

#include "base/least.h"
#include "ui/process.h"
#include "ui/tui/figures.h"
#include "ui/tui/input.h"

enum { QUEUE_ROWS = 3, PROGRESS_AFTER_MS = 500 };

static const struct look TEXT = {STYLE_text, 0}, DIM = {STYLE_dim, 0}, NOTE = {STYLE_note, 0};

/* --- the parts -------------------------------------------------------------------------------------------------- */

/* Draws hints for new users; they go with the first message. */
static void draw_welcome(const struct app *a, struct cells *c, struct area at)
{
    static const char *const told[] = {
        "Ask anything. Alt-Enter or Ctrl-J makes a new line, @ attaches a file,",
        "/ lists commands, Ctrl-C stops an answer, Ctrl-D leaves.",
        "Conversations are saved; q35chat --continue reopens the last one.",
    };
    struct buf head = {0};
    const char *dir = a->host.chat ? chat_model_dir(a->host.chat) : "", *slash = strrchr(dir, '/');
    buf_addf(&head, "q35chat " Q35_VERSION "   %s   F1 or ? for help", slash && slash[1] ? slash + 1 : dir);
    cells_puts(c, at, 0, 0, TEXT, head.data);
    buf_free(&head);
    const bool wide = at.rows >= 8 && at.cols >= 72;
    const int row = wide ? at.rows / 3 + 4 : 2;
    for (int i = 0; wide && i < 3; i++)
        cells_puts(c, at, at.rows / 3 + i, 2, DIM, told[i]);
    if (a->host.chat && chat_notice(a->host.chat)) {
        struct lines notice = {0};
        lines_wrap(&notice, NOTE, chat_notice(a->host.chat), strlen(chat_notice(a->host.chat)), 0, at.cols - 4, 0);
        for (int i = 0; row + notice.n <= at.rows && i < notice.n; i++)
            lines_draw(&notice, i, c, (struct area){at.row, at.col + 2, at.rows, at.cols - 2}, row + i);
        lines_free(&notice);
    }
}

static void draw_queue(const struct app *a, struct cells *c, struct area at)
{
    for (int i = 0; i < at.rows; i++) {
        struct buf line = {0};
        bool last = i == at.rows - 1 && input_state(&a->host)->queue.n > at.rows;
        const char *text = input_state(&a->host)->queue.texts[i];
        buf_addf(&line, "%s %d: %.*s", input_state(&a->host)->queue.held ? "held" : "queued", i + 1, (int)strcspn(text, "\n"), text);
        if (last)
            buf_addf(&line, "  (and %d more)", input_state(&a->host)->queue.n - at.rows);
        cells_puts(c, at, i, 0, DIM, line.data);
        buf_free(&line);
    }
}

static bool shows_progress(const struct app *a)
{
    const struct phase *p = &a->host.phase;
    return a->figures.progress.total && !p->stopping && a->host.ms - p->reads_ms >= PROGRESS_AFTER_MS
        && (p->kind == PHASE_LOADING || p->kind == PHASE_READING);
}

/* Draws a hint that needs several rows, over the rows above the status line, since the end of a sentence may matter. */
static void draw_long_hint(const struct app *a, struct cells *c, struct area at)
{
    static const struct look look = {STYLE_status, 0};
    struct lines lines = {0};
    lines_wrap(&lines, look, a->host.hint.text.data, a->host.hint.text.len, 0, most(at.cols - 2, 1), 0);
    int rows = least(lines.n, at.row + 1);
    struct area over = {at.row - rows + 1, at.col, rows, at.cols};
    cells_blank(c, over, look);
    over.col++;
    over.cols -= 2;
    for (int i = 0; i < rows; i++)
        lines_draw(&lines, i, c, over, i);
    lines_free(&lines);
}

/* Draws the status line.  A hint about the last key has the row for itself: it cannot be guessed, and is soon gone. */
static void draw_status(struct app *a, struct cells *c, struct area at)
{
    static const struct look look = {STYLE_status, 0};
    struct status s;
    summary_status(&a->said, &s);
    if (!a->host.hint.text.len) {
        status_draw(&s, c, at);
        return;
    }
    cells_blank(c, at, look);
    int wide = 1 + glyph_columns(s.state, strlen(s.state)) + 2, room = at.cols - wide;
    bool both = glyph_columns(a->host.hint.text.data, a->host.hint.text.len) <= room;
    if (both) {
        cells_puts(c, at, 0, 1, look, s.state);
        cells_puts(c, at, 0, wide, look, a->host.hint.text.data);
    } else {
        draw_long_hint(a, c, at);
    }
}

/* Draws the legend of the colours, each word in its own. */
static void draw_legend(const struct app *a, struct cells *c, struct area at)
{
    static const struct { enum heat heat; enum style style; const char *text; } words[] = {
        {HEAT_HOW, STYLE_drafted, "drafted and accepted"}, {HEAT_HOW, STYLE_looked_up, "found by lookup"}, {HEAT_HOW, STYLE_text, "sampled"},
        {HEAT_PROBABILITY, STYLE_sure, "90 % and more"}, {HEAT_PROBABILITY, STYLE_text, "60 to 90 %"},
        {HEAT_PROBABILITY, STYLE_unsure, "30 to 60 %"}, {HEAT_PROBABILITY, STYLE_doubtful, "below 30 %"},
    };
    int col = cells_puts(c, at, 0, 0, DIM, a->host.looks.heat.shown == HEAT_HOW ? "how tokens were made:" : "how likely tokens were:");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].heat == a->host.looks.heat.shown)
            col = cells_puts(c, at, 0, col + 2, (struct look){(uint8_t)words[i].style, 0}, words[i].text);
    if (at.cols - col > (int)strlen("Alt-H: next") + 2)
        cells_puts(c, at, 0, at.cols - (int)strlen("Alt-H: next"), DIM, "Alt-H: next");
}

/* --- windows ---------------------------------------------------------------------------------------------------- */

static const struct window *front(const struct app *a)
{
    return window_at(window_front(&a->host));
}

static const struct window *in_place_of_input(const struct app *a)
{
    return window_at(window_in_place_of_input(&a->host));
}

/* True if there is a status line.  On a tiny screen a tool's question takes its row: all of the question must be seen. */
static bool has_status(const struct app *a, const struct cells *c)
{
    return !a->host.looks.bare && !(in_place_of_input(a)->takes_status && cells_are_tiny(c));
}

static int input_rows(struct app *a, const struct cells *c)
{
    int above = has_status(a, c) ? 2 : 1;       /* a row of transcript, the status line */
    return most(least(in_place_of_input(a)->input_rows(&a->host, c), c->rows - above), 1);
}

/* Returns the rows at the end of the transcript that are covered. */
static int cover_rows(struct app *a, int rows)
{
    return front(a)->cover_rows ? front(a)->cover_rows(&a->host, rows) : 0;
}

static void draw_windows(struct app *a, struct cells *c, struct area text, int covered)
{
    const struct window *w = front(a), *active = window_at(window_active(&a->host));
    in_place_of_input(a)->draw_input(&a->host, c, a->host.at.input);
    if (w->draw_rest)
        w->draw_rest(&a->host, c, (struct area){text.row, text.col, text.rows - covered, text.cols});
    if (covered)
        w->draw_cover(&a->host, c, (struct area){text.row + text.rows - covered, text.col, covered, text.cols});
    if (active->cursor)
        active->cursor(&a->host, c);
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

static void draw_all(struct app *a, struct cells *c)
{
    int input = input_rows(a, c), status = has_status(a, c), free_rows = c->rows - input - status;
    int queue = a->host.looks.bare ? 0 : least(least(input_state(&a->host)->queue.n, cells_are_tiny(c) ? 0 : QUEUE_ROWS), free_rows - 1);
    int progress = shows_progress(a) ? least(PROGRESS_ROWS, free_rows - queue - 2) : 0;
    queue = most(queue, 0);
    progress = most(progress, 0);
    int legend = a->host.looks.heat.shown != HEAT_NONE && !a->host.looks.bare && !cells_are_tiny(c) && free_rows - queue - progress > 2;
    int rows = free_rows - queue - progress - legend;
    bool beside = a->host.looks.panel && !a->host.looks.bare && c->cols >= PANEL_MIN_SCREEN;
    int panel = panel_columns(c->cols, options_int(a->host.o, OPT_width));
    struct area text = {0, 0, rows, beside ? c->cols - panel - 1 : c->cols};
    a->host.at.pane = text;
    a->host.at.input = (struct area){c->rows - input, 0, input, c->cols};
    if (a->host.chat)
        heat_tint(&a->host.looks.heat, a->host.pane, a->host.chat);
    int covered = cover_rows(a, rows);
    pane_cover(a->host.pane, covered);
    pane_measure(a->host.pane, options_int(a->host.o, OPT_width));
    pane_fade(a->host.pane, a->host.chat ? chat_edited(a->host.chat) : -1);
    pane_draw(a->host.pane, c, text);
    const bool starts = !a->host.chat || (!chat_n_messages(a->host.chat) && !host_busy(&a->host));
    if (starts && !pane_n(a->host.pane))
        draw_welcome(a, c, text);
    if (progress)
        (a->host.phase.kind == PHASE_LOADING ? progress_draw_load : progress_draw_prompt)(&a->figures.progress, a->host.ms, c,
                                                                                         (struct area){rows, 0, progress, text.cols});
    if (beside) {
        struct panel p;
        summary_panel(&a->said, &p);
        panel_draw(&p, c, (struct area){0, c->cols - panel, rows + progress + legend, panel});
    }
    if (legend)
        draw_legend(a, c, (struct area){rows + progress, 0, 1, text.cols});
    draw_queue(a, c, (struct area){rows + progress + legend, 0, queue, c->cols});
    if (status)
        draw_status(a, c, (struct area){c->rows - input - 1, 0, 1, c->cols});
    draw_windows(a, c, text, covered);
}

void view_draw(struct app *a, struct cells *c)
{
    figures_follow(&a->figures, &a->host);
    cells_blank(c, cells_all(c), TEXT);
    c->cursor_row = -1;
    if (a->host.hint.columns && c->cols >= a->host.hint.columns)
        buf_reset(&a->host.hint.text);
    if (c->rows < VIEW_MIN_ROWS || c->cols < VIEW_MIN_COLUMNS) {
        if (in_place_of_input(a)->hidden)
            in_place_of_input(a)->hidden(&a->host);
        cells_puts(c, cells_all(c), 0, 0, TEXT, "too small");
    } else {
        draw_all(a, c);
    }
}

void view_title(struct app *a, struct buf *out)
{
    struct status s;
    summary_status(&a->said, &s);
    status_title(&s, out);
    buf_addf(out, " · %s", a->host.chat ? phase_name(&a->host.phase) : "opening");
}
