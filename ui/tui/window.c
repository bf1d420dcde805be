#include "ui/tui/window.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const struct window *const windows[N_WINDOWS] = {
#define WINDOW(name) &window_##name,
#include "config/windows.def"
};

const struct window *window_at(enum window_id id)
{
    return windows[id];
}

void *window_state(const struct host *h, enum window_id id)
{
    return h->state[id];
}

void window_close(struct host *h, enum window_id id)
{
    if (!h->open[id])
        return;
    h->open[id] = false;
    if (windows[id]->closed)
        windows[id]->closed(h);
}

void window_open(struct host *h, enum window_id id)
{
    for (int i = 0; i < (int)id && !windows[id]->asks; i++)
        if (!windows[i]->asks)
            window_close(h, (enum window_id)i);
    h->open[id] = true;
}

void window_contexts(struct host *h, enum window_id id, struct contexts *where)
{
    *where = windows[id]->in;
    if (windows[id]->contexts)
        windows[id]->contexts(h, where);
    contexts_add(where, CONTEXT_any);
}

bool window_escape(struct host *h, enum window_id id, bool escape)
{
    if (windows[id]->close)
        return windows[id]->close(h, escape);
    window_close(h, id);
    return true;
}

bool window_is_open(const struct host *h, enum window_id id)
{
    return h->open[id];
}

enum window_id window_below(const struct host *h, enum window_id id)
{
    int i = (int)id + 1;
    while (i < N_WINDOWS - 1 && !h->open[i])
        i++;
    return (enum window_id)i;
}

enum window_id window_active(const struct host *h)
{
    return h->open[0] ? (enum window_id)0 : window_below(h, 0);
}

enum window_id window_front(const struct host *h)
{
    enum window_id id = window_active(h);
    while (windows[id]->asks)
        id = window_below(h, id);
    return id;
}

enum window_id window_in_place_of_input(const struct host *h)
{
    enum window_id id = window_active(h);
    while (!windows[id]->draw_input)
        id = window_below(h, id);
    return id;
}

/* --- the host ---------------------------------------------------------------------------------------------------- */

enum { HINT_MS = 4000 };

void host_init(struct host *h)
{
    h->actions = actions_open();
    h->pane = pane_open();
    feed_init(&h->feed, h->pane, h->o);
    for (int i = 0; i < N_WINDOWS; i++) {
        if (windows[i]->bytes)
            h->state[i] = memory_zeroed(1, windows[i]->bytes);
        if (windows[i]->init)
            windows[i]->init(h);
    }
    h->open[N_WINDOWS - 1] = true;
}

void host_free(struct host *h)
{
    for (int i = 0; i < N_WINDOWS; i++) {
        if (windows[i]->free)
            windows[i]->free(h);
        free(h->state[i]);
    }
    actions_close(h->actions);
    pane_close(h->pane);
    buf_free(&h->hint.text);
    buf_free(&h->bell.text);
    buf_free(&h->copied);
}

bool host_busy(const struct host *h)
{
    return h->chat && chat_busy(h->chat);
}

void host_hint(struct host *h, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_reset(&h->hint.text);
    buf_adds(&h->hint.text, text);
    h->hint.until = h->ms + HINT_MS;
    h->hint.columns = 0;
}

void host_note(struct host *h, const char *text)
{
    feed_say(&h->feed, ITEM_NOTE, text);
}

void host_copy(struct host *h, struct buf *text, const char *what)
{
    if (!text->len) {
        host_hint(h, "no %s here", what);
    } else {
        buf_reset(&h->copied);
        buf_add(&h->copied, text->data, text->len);
        h->wishes |= WISH_COPY;
    }
    buf_free(text);
}

struct editor *host_focus(struct host *h)
{
    const struct window *w = windows[window_active(h)];
    return w->focus ? w->focus(h) : NULL;
}

void host_edited(struct host *h)
{
    const struct window *w = windows[window_active(h)];
    if (w->edited)
        w->edited(h);
}

bool host_click_fold(struct host *h, int row, int col)
{
    int item = area_has(h->at.pane, row, col) ? pane_fold_at(h->pane, row - h->at.pane.row) : -1;
    if (item >= 0)
        pane_toggle_fold(h->pane, item);
    return item >= 0;
}

void host_cursor_in_pane(struct host *h, struct cells *c)
{
    c->cursor_row = h->at.pane.row + pane_cursor(h->pane);
    c->cursor_col = 0;
}

void host_changed(struct host *h)
{
    for (int i = 0; i < N_WINDOWS; i++)
        if (window_at((enum window_id)i)->changed)
            window_at((enum window_id)i)->changed(h);
    if (!chat_n_messages(h->chat))
        pane_reset(h->pane);
    feed_sync(&h->feed);
    h->recount = true;
}

void host_began(struct host *h, bool ok, const struct err *e)
{
    h->recount = true;
    if (!ok) {
        feed_sync(&h->feed);
        feed_say(&h->feed, ITEM_ERROR, e->msg);
        host_hint(h, "%s", e->msg);     /* near the input, where the user looks */
        return;
    }
    h->n_turns++;
    h->typing.quit_until = 0;
    feed_turn(&h->feed);
    phase_turn(&h->phase, h->ms);
    pane_to_end(h->pane);
}

void host_stop(struct host *h)
{
    h->phase.stopping = true;
    chat_interrupt(h->chat);
}

/* --- bell --------------------------------------------------------------------------------------------------------- */

enum { WAIT_MS = 5000 };

void bell_call(struct bell *b, const char *when, const char *what, const char *conversation, int64_t ms)
{
    bool always = !strcmp(when, "done");
    if (!strcmp(when, "never") || (!always && b->focus == BELL_IN))
        return;
    buf_reset(&b->text);
    buf_addf(&b->text, "%s%s%s", what, *conversation ? ": " : "", conversation);
    b->due_ms = ms + (always || b->focus == BELL_OUT ? 0 : WAIT_MS);
}

void bell_focus(struct bell *b, bool in)
{
    b->focus = in ? BELL_IN : BELL_OUT;
    if (in)
        bell_answer(b);
}

void bell_answer(struct bell *b)
{
    b->due_ms = 0;
}

bool bell_due(struct bell *b, int64_t ms)
{
    bool due = b->due_ms && ms >= b->due_ms;
    if (due)
        b->due_ms = 0;
    return due;
}

int bell_timeout(const struct bell *b, int64_t ms)
{
    return !b->due_ms ? -1 : b->due_ms > ms ? (int)(b->due_ms - ms) : 0;
}
