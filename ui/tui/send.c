/* Enter: what was typed is a command or a message; a command may open a window or begin a turn. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "chat/command.h"
#include "ui/tui/input.h"
#include "ui/tui/inspect.h"
#include "ui/tui/keyhelp.h"
#include "ui/tui/picker.h"

enum { SPLIT_ALT_MS = 150 };            /* Esc, then Enter within this time is an Alt-Enter that a slow line split */

/* --- commands ---------------------------------------------------------------------------------------------------- */

static void show_output(struct host *h, const struct buf *out)
{
    if (!out->len)
        return;
    int lines = 0;
    for (size_t i = 0; i < out->len; i++)
        lines += out->data[i] == '\n';
    feed_say(&h->feed, ITEM_OUTPUT, out->data);
    pane_to_end(h->pane);
    if (lines >= h->at.pane.rows)          /* shows its beginning */
        pane_go(h->pane, (struct pane_place){.item = pane_n(h->pane) - 1});
}

static void show_keys(struct host *h, const char *which)
{
    struct buf all = {0};
    if (!strcmp(which, "test"))
        keyhelp_test(h);
    else if (strcmp(which, "all"))
        keyhelp_open(h);
    else
        actions_list(h->actions, &all);
    show_output(h, &all);
    buf_free(&all);
}

/* Runs a command that only a front end with a screen has. */
static void do_on_screen(struct host *h, const char *name, const char *argument)
{
    if (!strcmp(name, "resume"))
        picker_open(h, PICK_SESSION);
    else if (!strcmp(name, "keys"))
        show_keys(h, argument);
    else if (!strcmp(name, "inspect"))
        inspect_answer(h, atoi(argument));
    else if (!strcmp(name, "theme"))
        host_hint(h, "theme %s", argument);      /* the next frame has it */
}

static void take_result(struct host *h, enum command_result r, const char *message, struct buf *out)
{
    if (!host_busy(h) && (r == COMMAND_DONE || r == COMMAND_MOVED || r == COMMAND_EDIT))
        host_changed(h);
    switch (r) {
    case COMMAND_MESSAGE:
        if (host_busy(h)) {
            input_state(h)->queue.held = false;
            queue_push(&input_state(h)->queue, message);
        } else {
            input_submit(h, message);
        }
        break;
    case COMMAND_DONE:
    case COMMAND_MOVED:
        show_output(h, out);
        if (!host_busy(h))
            input_restore(h);           /* this may be another conversation now */
        break;
    case COMMAND_TURN:
        host_began(h, true, NULL);
        show_output(h, out);
        break;
    case COMMAND_EDIT:
        editor_set(input_editor(h), buf_str(out));
        host_edited(h);
        revise_show(h);
        break;
    case COMMAND_COPY:
        host_copy(h, out, "answer");
        break;
    case COMMAND_SCREEN:
        do_on_screen(h, message, buf_str(out));
        break;
    case COMMAND_QUIT:
        h->wishes |= WISH_LEAVE;
        break;
    }
}

/* Opens a list for a command that prints one in other front ends.  False: it is no such command. */
static bool opens_list(struct host *h, const char *text)
{
    const char *argument = "", *name = command_name(text, &argument);
    if (!name)
        return false;
    if (!strcmp(name, "sessions"))
        picker_find(h, argument);
    else if (!strcmp(name, "tree") && !*argument)
        picker_open(h, PICK_NODE);
    else if (!strcmp(name, "context") && !*argument)
        picker_open(h, PICK_PART);
    else
        return false;
    return true;
}

static void run_typed(struct host *h, const char *text)
{
    const char *message;
    struct buf out = {0};
    if (!opens_list(h, text)) {
        enum command_result r = command_run(h->chat, h->o, text, &message, &out);
        take_result(h, r, message, &out);
    }
    buf_free(&out);
}

void input_quit(struct host *h)
{
    run_typed(h, "/quit");
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

static void trim(struct buf *text)
{
    while (text->len && isspace((unsigned char)text->data[text->len - 1]))
        text->data[--text->len] = 0;
}

static bool backslash_before(const struct host *h)
{
    struct buf before = {0};
    editor_before(input_editor(h), &before);
    bool yes = before.len && before.data[before.len - 1] == '\\';
    buf_free(&before);
    return yes;
}

/* Enter on an empty draft. */
void act_go_on(struct host *h)
{
    struct err e = {0};
    if (host_busy(h) || input_decide(h, true) || revise_end(h))
        return;
    if (input_state(h)->queue.n) {
        input_state(h)->queue.held = false;
        input_next(h);
    } else if (chat_rest(h->chat) != CHAT_WHOLE) {
        host_began(h, chat_continue(h->chat, &e), &e);
    }
}

void act_send(struct host *h)
{
    struct buf text = {0};
    bool split_alt = h->typing.escape_ms && h->ms - h->typing.escape_ms < SPLIT_ALT_MS;
    if (split_alt || backslash_before(h)) {
        if (!split_alt)
            editor_do(input_editor(h), EDIT_BACKSPACE);
        editor_do(input_editor(h), EDIT_NEWLINE);
        host_edited(h);
        return;
    }
    editor_text(input_editor(h), &text);
    trim(&text);
    if (text.len) {
        input_remember(h, text.data);
        editor_reset(input_editor(h));
        host_edited(h);
        input_tell(h);                  /* the message is no longer a draft */
        run_typed(h, text.data);
    } else {
        act_go_on(h);
    }
    buf_free(&text);
}

/* Takes the choice; if nothing is left to take, Enter sends the message. */
void act_popup_enter(struct host *h)
{
    if (!input_take_suggestion(h))
        act_send(h);
}

void act_steer(struct host *h)
{
    struct buf text = {0};
    editor_text(input_editor(h), &text);
    trim(&text);
    if (text.len && (!host_busy(h) || *text.data == '/')) {
        act_send(h);
    } else if (text.len) {
        free(input_state(h)->steer);
        input_state(h)->steer = memory_strdup(text.data);
        input_state(h)->queue.held = false;
        input_remember(h, text.data);
        editor_reset(input_editor(h));
        host_stop(h);
    }
    buf_free(&text);
}
