/* An earlier message in the draft.  Until it is sent nothing changes: what would leave the path is shown dim, and Esc, Ctrl-C or an
 * empty draft bring back what stood in the input before. */
#include <stdlib.h>

#include "base/memory.h"
#include "ui/tui/app.h"

/* Goes to the history, so that Up brings it back whatever becomes of it. */
static char *take_draft(struct app *a)
{
    struct buf draft = {0};
    editor_text(a->editor, &draft);
    if (draft.len)
        input_remember(a, draft.data);
    char *text = memory_strdup(buf_str(&draft));
    editor_reset(a->editor);
    buf_free(&draft);
    return text;
}

void revise_show(struct app *a)
{
    int message = chat_edited(a->chat), item = 0;
    while (item < pane_n(a->pane) && pane_message(a->pane, item) < message)
        item++;
    pane_to_end(a->pane);
    if (message >= 0 && item < pane_n(a->pane))
        pane_show(a->pane, item, 0);
}

void revise_begin(struct app *a, int message)
{
    struct buf text = {0};
    struct err e = {0};
    if (chat_edit(a->chat, message, &text, &e)) {
        free(a->set_aside);
        a->set_aside = take_draft(a);
        window_open(a, WINDOW_input);
        editor_set(a->editor, buf_str(&text));
        app_edited(a);
        revise_show(a);
    } else {
        app_hint(a, "%s", e.msg);
    }
    buf_free(&text);
}

bool revise_end(struct app *a)
{
    if (!a->chat || chat_edited(a->chat) < 0)
        return false;
    chat_edit_end(a->chat);
    free(take_draft(a));
    if (a->set_aside)
        editor_set(a->editor, a->set_aside);
    free(a->set_aside);
    a->set_aside = NULL;
    app_edited(a);
    pane_to_end(a->pane);
    app_hint(a, "nothing was changed");
    return true;
}
