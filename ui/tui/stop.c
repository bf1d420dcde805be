/* Ctrl-C and Esc.  One rule: nothing is destroyed.  What is open closes first, then what runs stops, then the draft goes to the
 * history, and only then the program ends. */
#include "ui/tui/app.h"

enum { AGAIN_MS = 2000, ESCAPE_AGAIN_MS = 600 };

void stop_turn(struct app *a)
{
    a->phase.stopping = true;
    chat_interrupt(a->chat);
}

/* What lies above the draft; true if there was something. */
static bool close_window(struct app *a)
{
    if (a->mode == MODE_KEYS) {
        act_keys_end(a);
        return true;
    }
    if (approve_replies(&a->approve)) { /* back to the question */
        a->approve.asks = APPROVE_ASKS;
        return true;
    }
    if (a->approve.on) {                /* no, and the answer stops */
        approve_end(&a->approve);
        stop_turn(a);
        return true;
    }
    switch (a->mode) {
    case MODE_PROMPT:
        editor_reset(a->line);
        a->mode = a->below;
        app_edited(a);
        return true;
    case MODE_PICKER:
        a->mode = a->picker.kind == PICK_URL ? MODE_VIEW : MODE_INPUT;
        picker_free(&a->picker);
        return true;
    case MODE_INSPECT:
        act_inspect_end(a);
        return true;
    case MODE_SELECT:
        select_end(a);
        return true;
    case MODE_PASTE:
        act_paste_drop(a);
        return true;
    case MODE_INPUT:
        return input_close_popup(a) || input_decide(a, false);
    default:
        return false;
    }
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
    if (close_window(a))
        return;
    if (app_busy(a)) {
        stop_turn(a);
    } else if (a->mode == MODE_VIEW) {
        act_browse_end(a);
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
    if (close_window(a))
        return;
    if (a->mode == MODE_VIEW) {
        act_browse_end(a);
    } else if (app_busy(a)) {
        stop_turn(a);
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
