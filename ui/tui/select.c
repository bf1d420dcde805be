/* Lines of a message's source that are chosen to be copied. */
#include <stdio.h>
#include <string.h>

#include "ui/tui/window.h"

struct selection {
    struct buf source;                  /* of `item` */
    int  item;
    int  line;                          /* the current line */
    int  from;                          /* the first line of the selection; -1: the current one */
    int  n;                             /* lines of the source */
};

static struct selection *selection(const struct host *h)
{
    return window_state(h, WINDOW_select);
}

/* Returns the start of line i, or the end of the text if there is no such line. */
static size_t line_begin(const struct selection *s, int i)
{
    const char *text = buf_str(&s->source), *p = text;
    while (i-- > 0 && p) {
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    return p ? (size_t)(p - text) : s->source.len;
}

static int line_at(const struct selection *s, size_t at)
{
    int line = 0;
    for (size_t i = 0; i < at && i < s->source.len; i++)
        line += s->source.data[i] == '\n';
    return line;
}

static void selected_bytes(const struct selection *s, size_t *at, size_t *n)
{
    int from = s->from < 0 || s->from > s->line ? s->line : s->from, to = s->from > s->line ? s->from : s->line;
    *at = line_begin(s, from);
    *n = line_begin(s, to + 1) - *at;
}

static void show_lines(struct host *h)
{
    struct selection *s = selection(h);
    size_t at, n;
    selected_bytes(s, &at, &n);
    pane_select(h->pane, s->item, at, n);
    pane_show(h->pane, s->item, line_begin(s, s->line));
}

void act_select(struct host *h)
{
    struct selection *s = selection(h);
    int item = pane_here(h->pane);
    if (item < 0)
        return;
    buf_reset(&s->source);
    pane_source(h->pane, item, &s->source);
    while (s->source.len && s->source.data[s->source.len - 1] == '\n')
        s->source.data[--s->source.len] = 0;
    if (!s->source.len) {
        host_hint(h, "no lines here");
        return;
    }
    struct pane_place top = pane_place(h->pane);
    s->item = item;
    s->n = line_at(s, s->source.len) + 1;
    s->line = top.item == item && !pane_follows(h->pane) ? line_at(s, top.at) : 0;
    s->from = -1;
    window_open(h, WINDOW_select);
    pane_choose(h->pane, -1);
    show_lines(h);
}

ACT(select_end, window_close(h, WINDOW_select))

static void move_line(struct host *h, int to)
{
    struct selection *s = selection(h);
    s->line = to < 0 ? 0 : to >= s->n ? s->n - 1 : to;
    show_lines(h);
}

static bool turn_wheel(struct host *h, int rows)
{
    move_line(h, selection(h)->line + rows);
    return true;
}

static bool click_line(struct host *h, int row, int col)
{
    struct selection *s = selection(h);
    int item;
    size_t byte;
    if (area_has(h->at.pane, row, col) && pane_at(h->pane, row - h->at.pane.row, col - h->at.pane.col, &item, &byte) && item == s->item)
        move_line(h, line_at(s, byte));
    return false;
}

ACT(select_up, move_line(h, selection(h)->line - 1))
ACT(select_down, move_line(h, selection(h)->line + 1))
ACT(select_first, move_line(h, 0))
ACT(select_last, move_line(h, selection(h)->n - 1))

void act_select_begin(struct host *h)
{
    selection(h)->from = selection(h)->from < 0 ? selection(h)->line : -1;
    show_lines(h);
}

void act_select_copy(struct host *h)
{
    struct buf text = {0};
    size_t at, n;
    selected_bytes(selection(h), &at, &n);
    buf_add(&text, buf_str(&selection(h)->source) + at, n);
    window_close(h, WINDOW_select);
    host_copy(h, &text, "line");
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void unselect(struct host *h)
{
    pane_select(h->pane, 0, 0, 0);
}

static void free_selection(struct host *h)
{
    buf_free(&selection(h)->source);
}

/* Closes the window: its message may be gone. */
static void end_selection(struct host *h)
{
    window_close(h, WINDOW_select);
}

static const char *selection_hint(struct host *h)
{
    return selection(h)->from < 0 ? "v begins here, y copies, q back\tq back" : "y copies, q back\tq back";
}

static bool tell_line(struct host *h, char *out, size_t n)
{
    snprintf(out, n, "line %d of %d", selection(h)->line + 1, selection(h)->n);
    return true;
}

const struct window window_select = {
    .bytes = sizeof(struct selection), .free = free_selection, .in = {{CONTEXT_select}, 1}, .click = click_line, .wheel = turn_wheel,
    .closed = unselect, .changed = end_selection, .hint_now = selection_hint, .state = tell_line, .cursor = host_cursor_in_pane,
};
