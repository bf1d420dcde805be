#include "ui/tui/looks.h"

#include "base/log.h"
#include "ui/tui/app.h"

void act_raw(struct app *a)
{
    a->looks.raw = !a->looks.raw;
    pane_raw(a->pane, a->looks.raw);
}

void act_tables(struct app *a)
{
    static const char *const told[] = {"tables as they fit", "tables as grids", "tables as records", "tables as source"};
    a->looks.tables = (a->looks.tables + 1) % (TABLE_SOURCE + 1);
    pane_tables(a->pane, a->looks.tables);
    app_hint(a, "%s", told[a->looks.tables]);
}

void act_bare(struct app *a)
{
    a->looks.bare = !a->looks.bare;
    a->wishes |= WISH_MOUSE;            /* the terminal's own selection must work */
}

void act_panel(struct app *a)
{
    int columns = a->at_input.cols;
    a->looks.panel = !a->looks.panel;
    if (a->looks.panel && columns && columns < PANEL_MIN_SCREEN)         /* it is there as soon as the window is wide enough */
        app_hint(a, "the panel needs %d columns, this screen has %d", PANEL_MIN_SCREEN, columns);
}

void act_mouse(struct app *a)
{
    a->looks.mouse = !a->looks.mouse;
    a->wishes |= WISH_MOUSE;
    app_hint(a, a->looks.mouse ? "mouse on: the wheel scrolls, Shift and drag selects" : "mouse off: dragging selects");
}

void act_redraw(struct app *a)
{
    a->wishes |= WISH_REDRAW;
}

void act_suspend(struct app *a)
{
    a->wishes |= WISH_SUSPEND;
}

void act_print_all(struct app *a)
{
    a->wishes |= WISH_PRINT;
}

void act_page_all(struct app *a)
{
    a->wishes |= WISH_PAGE;
}

void act_heat(struct app *a)
{
    a->looks.heat.shown = (a->looks.heat.shown + 1) % 3;        /* the legend says what the colours mean */
    if (a->looks.heat.shown == HEAT_NONE)
        app_hint(a, "colours off");
}

/* While it reasons: the answer begins now.  Else: whether the next one reasons. */
void act_think(struct app *a)
{
    struct err e = {0};
    if (app_busy(a)) {
        app_hint(a, chat_answer_now(a->chat) ? "it stops thinking and answers" : "it is not thinking now");
        return;
    }
    bool on = !options_on(a->o, OPT_think);
    CHECK(options_set(a->o, OPT_think, on ? "on" : "off", FROM_SET, &e));
    app_hint(a, on ? "thinking on, from the next message" : "thinking off, from the next message");
}
