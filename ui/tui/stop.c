#include "ui/tui/stop.h"

#include "ui/tui/input.h"
#include "ui/tui/picker.h"
#include "ui/tui/revise.h"
#include "ui/tui/talk.h"

enum { AGAIN_MS = 2000, ESCAPE_AGAIN_MS = 600 };

static void clear_draft(struct host *h)
{
    struct buf text = {0};
    editor_text(input_editor(h), &text);
    input_remember(h, buf_str(&text));
    editor_reset(input_editor(h));
    host_hint(h, "Up brings it back");
    buf_free(&text);
}

void stop_interrupt(struct host *h)
{
    if (window_escape(h, window_active(h), false))
        return;
    if (host_busy(h)) {
        talk_stop(h);
    } else if (revise_end(h)) {
        return;
    } else if (!editor_empty(input_editor(h))) {
        clear_draft(h);
    } else if (h->ms < h->typing.quit_until) {
        input_quit(h);
    } else {
        h->typing.quit_until = h->ms + AGAIN_MS;
        host_hint(h, "Ctrl-C again to quit");
        h->hint.until = h->typing.quit_until;
    }
}

void act_interrupt(struct host *h)
{
    stop_interrupt(h);
}

void act_escape(struct host *h)
{
    bool again = h->ms - h->typing.escape_ms < ESCAPE_AGAIN_MS;
    if (window_escape(h, window_active(h), true))
        return;
    if (host_busy(h)) {
        talk_stop(h);
    } else if (revise_end(h)) {
        h->typing.escape_ms = 0;
    } else if (!again) {
        h->typing.escape_ms = h->ms;
    } else {
        h->typing.escape_ms = 0;
        if (!editor_empty(input_editor(h)))
            clear_draft(h);
        else if (chat_n_messages(h->chat))
            picker_open(h, PICK_MESSAGE);
    }
}

void act_leave(struct host *h)
{
    if (host_busy(h))
        host_hint(h, "an answer is under way: Ctrl-C stops it");
    else
        input_quit(h);
}
