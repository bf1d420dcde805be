/* Ctrl-C and Esc.  One rule: nothing is destroyed.  What is open closes first, then what runs stops, then the draft goes to the
 * history, and only then the program ends. */
#include "ui/tui/app.h"

enum { AGAIN_MS = 2000, ESCAPE_AGAIN_MS = 600 };

void stop_turn(struct app *a)
{
    a->phase.stopping = true;
    chat_interrupt(a->chat);
}

static bool close_window(struct app *a, bool escape)
{
    return window_at(window_active(a))->close(a, escape);
}

static void clear_draft(struct app *a)
{
    struct buf text = {0};
    editor_text(a->editor, &text);
    input_remember(a, buf_str(&text));
    editor_reset(a->editor);
    app_hint(a, "Up brings it back");
    buf_free(&text);
}

void act_interrupt(struct app *a)
{
    if (close_window(a, false))
        return;
    if (app_busy(a)) {
        stop_turn(a);
    } else if (revise_end(a)) {
        return;
    } else if (!editor_empty(a->editor)) {
        clear_draft(a);
    } else if (a->ms < a->quit_until) {
        a->wishes |= WISH_LEAVE;
    } else {
        a->quit_until = a->ms + AGAIN_MS;
        app_hint(a, "Ctrl-C again to quit");
        a->hint_until = a->quit_until;
    }
}

void act_escape(struct app *a)
{
    bool again = a->ms - a->escape_ms < ESCAPE_AGAIN_MS;
    if (close_window(a, true))
        return;
    if (app_busy(a)) {
        stop_turn(a);
    } else if (revise_end(a)) {
        a->escape_ms = 0;
    } else if (!again) {
        a->escape_ms = a->ms;
    } else {
        a->escape_ms = 0;
        if (!editor_empty(a->editor))
            clear_draft(a);
        else if (chat_n_messages(a->chat))
            app_pick(a, PICK_MESSAGE);
    }
}

void act_leave(struct app *a)
{
    if (app_busy(a))
        app_hint(a, "an answer runs: Ctrl-C stops it");
    else
        a->wishes |= WISH_LEAVE;
}
