/* Keys that switch how things are shown, and what only the terminal's owner can do. */
#include "base/log.h"
#include "ui/tui/panel.h"
#include "ui/tui/window.h"

void act_raw(struct host *h)
{
    h->looks.raw = !h->looks.raw;
    pane_raw(h->pane, h->looks.raw);
}

void act_tables(struct host *h)
{
    static const char *const told[] = {"tables as they fit", "tables as grids", "tables as records", "tables as source"};
    h->looks.tables = (h->looks.tables + 1) % (TABLE_SOURCE + 1);
    pane_tables(h->pane, h->looks.tables);
    host_hint(h, "%s", told[h->looks.tables]);
}

void act_bare(struct host *h)
{
    h->looks.bare = !h->looks.bare;
    h->wishes |= WISH_MOUSE;            /* the terminal's own selection must work */
}

void act_panel(struct host *h)
{
    int columns = h->at.input.cols;
    h->looks.panel = !h->looks.panel;
    if (h->looks.panel && columns && columns < PANEL_MIN_SCREEN) {       /* it is there as soon as the window is wide enough */
        host_hint(h, "the panel needs %d columns, this screen has %d", PANEL_MIN_SCREEN, columns);
        h->hint.columns = PANEL_MIN_SCREEN;
    }
}

void act_mouse(struct host *h)
{
    h->looks.mouse = !h->looks.mouse;
    h->looks.lent = false;
    h->wishes |= WISH_MOUSE;
    host_hint(h, h->looks.mouse ? "mouse on: the wheel scrolls, Shift and drag selects" : "mouse off: dragging selects, PgUp and PgDn scroll");
}

void act_redraw(struct host *h)
{
    h->wishes |= WISH_REDRAW;
}

void act_suspend(struct host *h)
{
    h->wishes |= WISH_SUSPEND;
}

void act_print_all(struct host *h)
{
    h->wishes |= WISH_PRINT;
}

void act_page_all(struct host *h)
{
    h->wishes |= WISH_PAGE;
}

void act_heat(struct host *h)
{
    h->looks.heat.shown = (h->looks.heat.shown + 1) % 3;        /* the legend says what the colours mean */
    if (h->looks.heat.shown == HEAT_NONE)
        host_hint(h, "colours off");
}

/* While it reasons: the answer begins now.  Else: whether the next one reasons. */
void act_think(struct host *h)
{
    struct err e = {0};
    if (host_busy(h)) {
        host_hint(h, chat_answer_now(h->chat) ? "reasoning ends, the answer begins" : "it is not reasoning now");
        return;
    }
    bool on = !options_on(h->o, OPT_think);
    CHECK(options_set(h->o, OPT_think, on ? "on" : "off", FROM_SET, &e));
    host_hint(h, on ? "thinking on, from the next message" : "thinking off, from the next message");
}
