#include "ui/tui/revise.h"

#include <stdlib.h>

#include "base/memory.h"
#include "ui/tui/input.h"

/* Goes to the history, so that Up brings it back whatever becomes of it. */
static char *take_draft(struct host *h)
{
    struct buf draft = {0};
    editor_text(input_editor(h), &draft);
    if (draft.len)
        input_remember(h, draft.data);
    char *text = memory_strdup(buf_str(&draft));
    editor_reset(input_editor(h));
    buf_free(&draft);
    return text;
}

void revise_show(struct host *h)
{
    int message = chat_edited(h->chat), item = 0;
    while (item < pane_n(h->pane) && pane_message(h->pane, item) < message)
        item++;
    pane_to_end(h->pane);
    if (message >= 0 && item < pane_n(h->pane))
        pane_show(h->pane, item, 0);
}

void revise_begin(struct host *h, int message)
{
    struct buf text = {0};
    struct err e = {0};
    if (chat_edit(h->chat, message, &text, &e)) {
        free(input_state(h)->set_aside);
        input_state(h)->set_aside = take_draft(h);
        window_open(h, WINDOW_input);
        editor_set(input_editor(h), buf_str(&text));
        host_edited(h);
        revise_show(h);
    } else {
        host_hint(h, "%s", e.msg);
    }
    buf_free(&text);
}

bool revise_end(struct host *h)
{
    if (!h->chat || chat_edited(h->chat) < 0)
        return false;
    chat_edit_end(h->chat);
    free(take_draft(h));
    if (input_state(h)->set_aside)
        editor_set(input_editor(h), input_state(h)->set_aside);
    free(input_state(h)->set_aside);
    input_state(h)->set_aside = NULL;
    host_edited(h);
    pane_to_end(h->pane);
    host_hint(h, "nothing was changed");
    return true;
}
