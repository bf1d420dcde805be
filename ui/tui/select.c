/* Lines of a message's source that are chosen to be copied. */
#include <stdio.h>
#include <string.h>

#include "ui/tui/app.h"

struct select {
    struct buf source;                  /* of `item` */
    int  item;
    int  line;                          /* where one stands */
    int  from;                          /* where the selection begins, -1: with that line */
    int  n;                             /* lines of the source */
};

static struct select *self(const struct app *a)
{
    return window_state(a, WINDOW_select);
}

/* Where line i begins; behind the text if there is none. */
static size_t begin_of(const struct select *s, int i)
{
    const char *text = buf_str(&s->source), *p = text;
    while (i-- > 0 && p) {
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    return p ? (size_t)(p - text) : s->source.len;
}

static int line_of(const struct select *s, size_t at)
{
    int line = 0;
    for (size_t i = 0; i < at && i < s->source.len; i++)
        line += s->source.data[i] == '\n';
    return line;
}

static void range(const struct select *s, size_t *at, size_t *n)
{
    int from = s->from < 0 || s->from > s->line ? s->line : s->from, to = s->from > s->line ? s->from : s->line;
    *at = begin_of(s, from);
    *n = begin_of(s, to + 1) - *at;
}

static void show(struct app *a)
{
    struct select *s = self(a);
    size_t at, n;
    range(s, &at, &n);
    pane_select(a->pane, s->item, at, n);
    pane_show(a->pane, s->item, begin_of(s, s->line));
}

void act_select(struct app *a)
{
    struct select *s = self(a);
    int item = pane_here(a->pane);
    if (item < 0)
        return;
    buf_reset(&s->source);
    pane_source(a->pane, item, &s->source);
    while (s->source.len && s->source.data[s->source.len - 1] == '\n')
        s->source.data[--s->source.len] = 0;
    if (!s->source.len) {
        app_hint(a, "there are no lines here");
        return;
    }
    struct pane_place top = pane_place(a->pane);
    s->item = item;
    s->n = line_of(s, s->source.len) + 1;
    s->line = top.item == item && !pane_follows(a->pane) ? line_of(s, top.at) : 0;
    s->from = -1;
    window_open(a, WINDOW_select);
    pane_choose(a->pane, -1);
    show(a);
}

void act_select_end(struct app *a)
{
    window_close(a, WINDOW_select);
}

static void move(struct app *a, int to)
{
    struct select *s = self(a);
    s->line = to < 0 ? 0 : to >= s->n ? s->n - 1 : to;
    show(a);
}

void act_select_up(struct app *a)
{
    move(a, self(a)->line - 1);
}

void act_select_down(struct app *a)
{
    move(a, self(a)->line + 1);
}

void act_select_first(struct app *a)
{
    move(a, 0);
}

void act_select_last(struct app *a)
{
    move(a, self(a)->n - 1);
}

void act_select_begin(struct app *a)
{
    self(a)->from = self(a)->from < 0 ? self(a)->line : -1;
    show(a);
}

void act_select_copy(struct app *a)
{
    struct buf text = {0};
    size_t at, n;
    range(self(a), &at, &n);
    buf_add(&text, buf_str(&self(a)->source) + at, n);
    window_close(a, WINDOW_select);
    browse_copy(a, &text, "line");
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void contexts(struct app *a, struct contexts *where)
{
    (void)a;
    contexts_add(where, CONTEXT_select);
}

static bool close_selection(struct app *a, bool escape)
{
    (void)escape;
    window_close(a, WINDOW_select);
    return true;
}

static void closed(struct app *a)
{
    pane_select(a->pane, 0, 0, 0);
}

static void free_state(struct app *a)
{
    buf_free(&self(a)->source);
}

/* What it selects lines of may be gone. */
static void changed(struct app *a)
{
    window_close(a, WINDOW_select);
}

static const char *hint(struct app *a)
{
    return self(a)->from < 0 ? "v begins here, y copies, q back\tq back" : "y copies, q back\tq back";
}

static bool state(struct app *a, char *out, size_t n)
{
    snprintf(out, n, "line %d of %d", self(a)->line + 1, self(a)->n);
    return true;
}

static void cursor(struct app *a, struct cells *c)
{
    c->cursor_row = a->at_pane.row + pane_cursor(a->pane);
    c->cursor_col = 0;
}

const struct window window_select = {
    .bytes = sizeof(struct select), .free = free_state, .contexts = contexts, .close = close_selection, .closed = closed, .changed = changed, .hint = hint, .state = state, .cursor = cursor,
};
