/* Lines of a message's source that are chosen to be copied. */
#include <stdio.h>
#include <string.h>

#include "ui/tui/window.h"

struct select {
    struct buf source;                  /* of `item` */
    int  item;
    int  line;                          /* where one stands */
    int  from;                          /* where the selection begins, -1: with that line */
    int  n;                             /* lines of the source */
};

static struct select *self(const struct host *h)
{
    return window_state(h, WINDOW_select);
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

static void show(struct host *h)
{
    struct select *s = self(h);
    size_t at, n;
    range(s, &at, &n);
    pane_select(h->pane, s->item, at, n);
    pane_show(h->pane, s->item, begin_of(s, s->line));
}

void act_select(struct host *h)
{
    struct select *s = self(h);
    int item = pane_here(h->pane);
    if (item < 0)
        return;
    buf_reset(&s->source);
    pane_source(h->pane, item, &s->source);
    while (s->source.len && s->source.data[s->source.len - 1] == '\n')
        s->source.data[--s->source.len] = 0;
    if (!s->source.len) {
        host_hint(h, "there are no lines here");
        return;
    }
    struct pane_place top = pane_place(h->pane);
    s->item = item;
    s->n = line_of(s, s->source.len) + 1;
    s->line = top.item == item && !pane_follows(h->pane) ? line_of(s, top.at) : 0;
    s->from = -1;
    window_open(h, WINDOW_select);
    pane_choose(h->pane, -1);
    show(h);
}

void act_select_end(struct host *h)
{
    window_close(h, WINDOW_select);
}

static void move(struct host *h, int to)
{
    struct select *s = self(h);
    s->line = to < 0 ? 0 : to >= s->n ? s->n - 1 : to;
    show(h);
}

void act_select_up(struct host *h)
{
    move(h, self(h)->line - 1);
}

void act_select_down(struct host *h)
{
    move(h, self(h)->line + 1);
}

void act_select_first(struct host *h)
{
    move(h, 0);
}

void act_select_last(struct host *h)
{
    move(h, self(h)->n - 1);
}

void act_select_begin(struct host *h)
{
    self(h)->from = self(h)->from < 0 ? self(h)->line : -1;
    show(h);
}

void act_select_copy(struct host *h)
{
    struct buf text = {0};
    size_t at, n;
    range(self(h), &at, &n);
    buf_add(&text, buf_str(&self(h)->source) + at, n);
    window_close(h, WINDOW_select);
    host_copy(h, &text, "line");
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void contexts(struct host *h, struct contexts *where)
{
    (void)h;
    contexts_add(where, CONTEXT_select);
}

static bool close_selection(struct host *h, bool escape)
{
    (void)escape;
    window_close(h, WINDOW_select);
    return true;
}

static void closed(struct host *h)
{
    pane_select(h->pane, 0, 0, 0);
}

static void free_state(struct host *h)
{
    buf_free(&self(h)->source);
}

/* What it selects lines of may be gone. */
static void changed(struct host *h)
{
    window_close(h, WINDOW_select);
}

static const char *hint(struct host *h)
{
    return self(h)->from < 0 ? "v begins here, y copies, q back\tq back" : "y copies, q back\tq back";
}

static bool state(struct host *h, char *out, size_t n)
{
    snprintf(out, n, "line %d of %d", self(h)->line + 1, self(h)->n);
    return true;
}

static void cursor(struct host *h, struct cells *c)
{
    c->cursor_row = h->at.pane.row + pane_cursor(h->pane);
    c->cursor_col = 0;
}

const struct window window_select = {
    .bytes = sizeof(struct select), .free = free_state, .contexts = contexts, .close = close_selection, .closed = closed, .changed = changed, .hint = hint, .state = state, .cursor = cursor,
};
