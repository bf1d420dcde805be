#include "ui/tui/approve.h"

#include <stdio.h>
#include <string.h>

#include "ui/tui/app.h"

enum { AROUND = 2 };                    /* rows above and below the arguments */

static const struct look PLAIN = {STYLE_text, 0}, BOLD = {STYLE_tool, LOOK_BOLD}, DIM = {STYLE_dim, 0};

void approve_ask(struct approve *q, const char *name, const char *arguments, size_t n)
{
    approve_end(q);
    q->on = true;
    q->deaf_until = INT64_MAX;
    buf_adds(&q->name, name);
    buf_add(&q->arguments, arguments, n);
}

void approve_end(struct approve *q)
{
    q->on = q->seen = false;
    q->columns = q->top = q->shown = 0;
    buf_reset(&q->name);
    buf_reset(&q->arguments);
    lines_reset(&q->lines);
}

void approve_free(struct approve *q)
{
    buf_free(&q->name);
    buf_free(&q->arguments);
    lines_free(&q->lines);
}

int approve_rows(struct approve *q, int columns)
{
    enum { INDENT = 2 };
    int width = columns > INDENT * 2 ? columns - INDENT : columns;
    if (q->columns != columns) {
        lines_reset(&q->lines);
        lines_wrap(&q->lines, PLAIN, buf_str(&q->arguments), q->arguments.len, 0, width > 0 ? width : 1, 0);
        q->columns = columns;
    }
    return q->lines.n + AROUND;
}

void approve_scroll(struct approve *q, int lines)
{
    int last = q->lines.n - q->shown;
    q->top += lines;
    if (q->top > last)
        q->top = last;
    if (q->top < 0)
        q->top = 0;
}

static void draw_keys(const struct approve *q, struct cells *c, struct area a, int row)
{
    char more[64];
    int left = q->lines.n - q->top - q->shown;
    snprintf(more, sizeof more, "%d more line%s: PgDn  ", left, left == 1 ? "" : "s");
    int col = left > 0 ? cells_puts(c, a, row, 0, BOLD, more) : 0;
    if (q->seen)
        col = cells_puts(c, a, row, col, PLAIN, a.cols < 60 ? "y, a always, n: " : "y yes  a always this tool  n no  Esc no, and stop: ");
    else
        col = cells_puts(c, a, row, col, PLAIN, "n no  Esc no, and stop: ");
    c->cursor_row = a.row + row;
    c->cursor_col = a.col + (col < a.cols ? col : a.cols - 1);
}

void approve_draw(struct approve *q, struct cells *c, struct area a, int64_t ms)
{
    approve_rows(q, a.cols);
    cells_blank(c, a, PLAIN);
    q->shown = a.rows - AROUND < q->lines.n ? a.rows - AROUND : q->lines.n;
    if (q->shown < 0)
        q->shown = 0;
    approve_scroll(q, 0);
    int col = cells_puts(c, a, 0, 0, BOLD, buf_str(&q->name));
    cells_puts(c, a, 0, col, DIM, " wants to run with:");
    struct area body = {a.row + 1, a.col + (a.cols > 4 ? 2 : 0), q->shown, a.cols - (a.cols > 4 ? 2 : 0)};
    for (int i = 0; i < q->shown; i++)
        lines_draw(&q->lines, q->top + i, c, body, i);
    q->seen = q->seen || q->top + q->shown >= q->lines.n;
    draw_keys(q, c, a, a.rows - 1);
    if (q->deaf_until == INT64_MAX)
        q->deaf_until = ms + APPROVE_DEAF_MS;
}

/* --- its keys --------------------------------------------------------------------------------------------------- */

static void answer(struct app *a, enum chat_answer how)
{
    if (how != CHAT_NO && !a->approve.seen) {
        app_hint(a, "see the rest of it first: PgDn");
        return;
    }
    approve_end(&a->approve);
    a->phase.asking = false;
    a->feed.call_ms = a->ms;            /* the time to decide is not the tool's */
    chat_approve(a->chat, how);
}

void act_approve_once(struct app *a)
{
    answer(a, CHAT_YES);
}

void act_approve_always(struct app *a)
{
    answer(a, CHAT_ALWAYS);
}

void act_approve_no(struct app *a)
{
    answer(a, CHAT_NO);
}

void act_approve_up(struct app *a)
{
    approve_scroll(&a->approve, -1);
}

void act_approve_down(struct app *a)
{
    approve_scroll(&a->approve, 1);
}

static int page(const struct approve *q)
{
    return q->shown > 1 ? q->shown - 1 : 1;
}

void act_approve_page_up(struct app *a)
{
    approve_scroll(&a->approve, -page(&a->approve));
}

void act_approve_page_down(struct app *a)
{
    approve_scroll(&a->approve, page(&a->approve));
}
