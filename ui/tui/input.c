/* The draft: editing, history, sending, and the messages that wait. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "chat/command.h"
#include "ui/tui/app.h"
#include "ui/tui/inspect.h"
#include "ui/tui/keyhelp.h"
#include "ui/tui/prompt.h"
#include "ui/tui/unsent.h"

enum { SPLIT_ALT_MS = 150 };            /* an Alt-Enter that a slow line took apart is Esc, then Enter */

/* --- editing: whatever line is typed into ----------------------------------------------------------------------- */

static void edit(struct app *a, enum edit what)
{
    struct editor *e = app_focus(a);
    if (e)
        editor_do(e, what);
    app_edited(a);
}

#define EDIT(action, what) void act_##action(struct app *a) { edit(a, what); }
EDIT(left, EDIT_LEFT)
EDIT(right, EDIT_RIGHT)
EDIT(word_left, EDIT_WORD_LEFT)
EDIT(word_right, EDIT_WORD_RIGHT)
EDIT(line_start, EDIT_LINE_START)
EDIT(line_end, EDIT_LINE_END)
EDIT(backspace, EDIT_BACKSPACE)
EDIT(delete, EDIT_DELETE)
EDIT(kill_big_word, EDIT_KILL_BIG_WORD_LEFT)
EDIT(kill_word_left, EDIT_KILL_WORD_LEFT)
EDIT(kill_word_right, EDIT_KILL_WORD_RIGHT)
EDIT(kill_line_end, EDIT_KILL_LINE_END)
EDIT(kill_line_start, EDIT_KILL_LINE_START)
EDIT(yank, EDIT_YANK)
EDIT(yank_pop, EDIT_YANK_POP)
EDIT(transpose, EDIT_TRANSPOSE)
EDIT(undo, EDIT_UNDO)
EDIT(redo, EDIT_REDO)
EDIT(newline, EDIT_NEWLINE)
#undef EDIT

void act_literal(struct app *a)
{
    a->literal = true;
}

/* --- history ---------------------------------------------------------------------------------------------------- */

void input_remember(struct app *a, const char *text)
{
    history_add(a->history, text);
    history_rest(a->history);
}

void act_older(struct app *a)
{
    struct buf draft = {0};
    editor_text(a->editor, &draft);
    const char *text = history_older(a->history, buf_str(&draft));
    if (text)
        editor_set(a->editor, text);
    buf_free(&draft);
    app_edited(a);
}

void act_newer(struct app *a)
{
    const char *text = history_newer(a->history);
    if (text)
        editor_set(a->editor, text);
    app_edited(a);
}

void act_up(struct app *a)
{
    if (!editor_do(a->editor, EDIT_UP))
        act_older(a);
}

void act_down(struct app *a)
{
    if (!editor_do(a->editor, EDIT_DOWN))
        act_newer(a);
}

static const char *find_typed(struct app *a, const char *text, int nth)
{
    return history_search(a->history, text, nth);
}

static void take_typed(struct app *a, const char *text)
{
    editor_set(a->editor, text);
}

void act_find_typed(struct app *a)
{
    static const struct prompt_ask ask = {.sign = "/ ", .told = "type a part of what you wrote before", .done = take_typed, .found = find_typed};
    prompt_open(a, &ask, "");
}

/* --- sending ---------------------------------------------------------------------------------------------------- */

void input_give_back(struct app *a, const char *text)
{
    if (editor_empty(a->editor)) {
        editor_set(a->editor, text);
        app_edited(a);
    } else {                            /* something else is being written: Alt-Up gets at it */
        queue_push_front(&a->queue, text);
        a->queue.held = true;
    }
}

/* What was restored has been sent, or the rest of it is kept: its file follows. */
static void follow_unsent(struct app *a)
{
    struct buf draft = {0};
    editor_text(a->editor, &draft);
    if (a->unsent)
        unsent_save(a->unsent, buf_str(&draft), &a->queue);
    buf_free(&draft);
}

static void submit(struct app *a, const char *text)
{
    struct err e = {0};
    bool ok = chat_submit(a->chat, text, strlen(text), &e);
    if (ok)
        follow_unsent(a);
    else
        input_give_back(a, text);
    app_began(a, ok, &e);
}

static void say(struct app *a, const struct buf *out)
{
    if (!out->len)
        return;
    int lines = 0;
    for (size_t i = 0; i < out->len; i++)
        lines += out->data[i] == '\n';
    feed_say(&a->feed, ITEM_OUTPUT, out->data);
    pane_to_end(a->pane);
    if (lines >= a->pane_rows)          /* it is read from its beginning */
        pane_go(a->pane, (struct pane_place){.item = pane_n(a->pane) - 1});
}

static void show_keys(struct app *a, const char *which)
{
    struct buf all = {0};
    if (!strcmp(which, "test"))
        keyhelp_test(a);
    else if (strcmp(which, "all"))
        keyhelp_open(a);
    else
        actions_list(a->actions, &all);
    say(a, &all);
    buf_free(&all);
}

/* What only a front end with a screen can do. */
static void do_on_screen(struct app *a, const char *name, const char *argument)
{
    if (!strcmp(name, "resume"))
        app_pick(a, PICK_SESSION);
    else if (!strcmp(name, "keys"))
        show_keys(a, argument);
    else if (!strcmp(name, "inspect"))
        inspect_answer(a, atoi(argument));
    else if (!strcmp(name, "theme"))
        app_hint(a, "theme %s", argument);      /* the next frame has it */
}

static void take_result(struct app *a, enum command_result r, const char *message, struct buf *out)
{
    if (!app_busy(a) && (r == COMMAND_DONE || r == COMMAND_MOVED || r == COMMAND_EDIT))
        app_changed(a);
    switch (r) {
    case COMMAND_MESSAGE:
        if (app_busy(a))
            queue_push(&a->queue, message);
        else
            submit(a, message);
        break;
    case COMMAND_DONE:
    case COMMAND_MOVED:
        say(a, out);
        if (!app_busy(a))
            input_restore(a);           /* it may be another conversation now */
        break;
    case COMMAND_TURN:
        app_began(a, true, NULL);
        say(a, out);
        break;
    case COMMAND_EDIT:
        editor_set(a->editor, buf_str(out));
        app_edited(a);
        revise_show(a);
        break;
    case COMMAND_COPY:
        browse_copy(a, out, "answer");
        break;
    case COMMAND_SCREEN:
        do_on_screen(a, message, buf_str(out));
        break;
    case COMMAND_QUIT:
        a->wishes |= WISH_LEAVE;
        break;
    }
}

/* Elsewhere these commands print a list; here one can choose from it.  False: it is none of them. */
static bool opens_list(struct app *a, const char *text)
{
    const char *argument = "", *name = command_name(text, &argument);
    if (!name)
        return false;
    if (!strcmp(name, "find"))
        app_find(a, argument);
    else if (!strcmp(name, "sessions") && !*argument)
        app_pick(a, PICK_SESSION);
    else if (!strcmp(name, "tree") && !*argument)
        app_pick(a, PICK_NODE);
    else if (!strcmp(name, "context") && !*argument)
        app_pick(a, PICK_PART);
    else
        return false;
    return true;
}

void input_take(struct app *a, const char *text)
{
    const char *message;
    struct buf out = {0};
    if (!opens_list(a, text)) {
        enum command_result r = command_run(a->chat, a->o, text, &message, &out);
        take_result(a, r, message, &out);
    }
    buf_free(&out);
}

static void trim(struct buf *text)
{
    while (text->len && isspace((unsigned char)text->data[text->len - 1]))
        text->data[--text->len] = 0;
}

static bool backslash_before(const struct app *a)
{
    struct buf before = {0};
    editor_before(a->editor, &before);
    bool yes = before.len && before.data[before.len - 1] == '\\';
    buf_free(&before);
    return yes;
}

void act_send(struct app *a)
{
    struct buf text = {0};
    bool split_alt = a->escape_ms && a->ms - a->escape_ms < SPLIT_ALT_MS;
    if (split_alt || backslash_before(a)) {
        if (!split_alt)
            editor_do(a->editor, EDIT_BACKSPACE);
        edit(a, EDIT_NEWLINE);
        return;
    }
    editor_text(a->editor, &text);
    trim(&text);
    if (text.len) {
        input_remember(a, text.data);
        editor_reset(a->editor);
        app_edited(a);
        a->queue.held = false;
        input_take(a, text.data);
    } else {
        act_go_on(a);
    }
    buf_free(&text);
}

/* --- what waits ------------------------------------------------------------------------------------------------- */

void input_next(struct app *a)
{
    if (chat_proposes(a->chat, NULL))
        return;
    if (a->steer) {
        char *text = a->steer;
        a->steer = NULL;
        submit(a, text);
        free(text);
    } else if (a->queue.n && !a->queue.held) {
        char *text = queue_take_oldest(&a->queue);
        submit(a, text);
        free(text);
    }
}

bool input_decide(struct app *a, bool take)
{
    if (!a->chat || !chat_proposes(a->chat, NULL))
        return false;
    chat_decide(a->chat, take);
    feed_decided(&a->feed, take);
    app_changed(a);
    pane_to_end(a->pane);
    a->queue.held = false;
    input_next(a);
    return true;
}

/* Enter on an empty draft. */
void act_go_on(struct app *a)
{
    struct err e = {0};
    if (app_busy(a) || input_decide(a, true) || revise_end(a))
        return;
    if (a->queue.n) {
        a->queue.held = false;
        input_next(a);
    } else if (chat_rest(a->chat) != CHAT_WHOLE) {
        app_began(a, chat_continue(a->chat, &e), &e);
    }
}

void act_unqueue(struct app *a)
{
    struct buf both = {0};
    char *text = queue_take_newest(&a->queue);
    if (!text) {
        app_hint(a, "nothing is queued");
        return;
    }
    buf_adds(&both, text);
    if (!editor_empty(a->editor)) {     /* in front of what is being written */
        buf_addc(&both, '\n');
        editor_text(a->editor, &both);
    }
    editor_set(a->editor, both.data);
    app_edited(a);
    buf_free(&both);
    free(text);
}

void act_steer(struct app *a)
{
    struct buf text = {0};
    editor_text(a->editor, &text);
    trim(&text);
    if (text.len && (!app_busy(a) || *text.data == '/')) {
        act_send(a);
    } else if (text.len) {
        free(a->steer);
        a->steer = memory_strdup(text.data);
        input_remember(a, text.data);
        editor_reset(a->editor);
        stop_turn(a);
    }
    buf_free(&text);
}

/* --- over the end of the program -------------------------------------------------------------------------------- */

/* Where there is no conversation to come back to, the history has it. */
void input_keep(struct app *a)
{
    struct buf draft = {0};
    const char *session = chat_n_messages(a->chat) ? chat_saved_as(a->chat) : NULL;
    editor_text(a->editor, &draft);
    if (a->steer)
        queue_push_front(&a->queue, a->steer);
    bool kept = session && unsent_save(session, buf_str(&draft), &a->queue);
    if (kept && a->unsent && strcmp(a->unsent, session))
        unsent_save(a->unsent, "", &(struct queue){0});
    if (!kept) {
        for (int i = 0; i < a->queue.n; i++)
            history_add(a->history, a->queue.texts[i]);
        if (draft.len)
            history_add(a->history, draft.data);
    }
    buf_free(&draft);
}

void input_restore(struct app *a)
{
    struct buf draft = {0};
    const char *session = chat_saved_as(a->chat);
    int before = a->queue.n;
    if (!session || (a->unsent && !strcmp(a->unsent, session)))         /* it is here already */
        return;
    unsent_load(session, &draft, &a->queue);
    if (draft.len || a->queue.n > before) {
        free(a->unsent);
        a->unsent = memory_strdup(session);
    }
    a->queue.held = a->queue.held || a->queue.n > before;
    if (draft.len)
        input_give_back(a, draft.data);
    buf_free(&draft);
}

void act_handoff(struct app *a)
{
    a->wishes |= WISH_HANDOFF;
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void contexts(struct app *a, struct contexts *where)
{
    if (input_popup(a))
        contexts_add(where, CONTEXT_popup);
    else if (editor_empty(a->editor))
        contexts_add(where, CONTEXT_empty);
    contexts_add(where, CONTEXT_input);
    contexts_add(where, CONTEXT_edit);
}

/* What works just now and what works everywhere first; how one writes, which most know, behind it. */
static void told(struct app *a, struct contexts *where)
{
    bool empty = editor_empty(a->editor);
    if (empty)
        contexts_add(where, CONTEXT_empty);
    contexts_add(where, CONTEXT_any);
    contexts_add(where, CONTEXT_input);
    contexts_add(where, CONTEXT_edit);
    if (!empty)
        contexts_add(where, CONTEXT_empty);
}

static struct editor *focus(struct app *a)
{
    return a->editor;
}

static void edited(struct app *a)
{
    suggest_update(&a->suggest, a->editor);
}

static void click(struct app *a, int row, int col)
{
    if ((input_popup(a) || !view_click_fold(a, row, col)) && view_has(a->at_input, row, col))
        editor_click(a->editor, row - a->at_input.row, col - a->at_input.col);
}

/* The list of completions, or the summary that waits. */
static bool close_list(struct app *a, bool escape)
{
    (void)escape;
    if (!input_popup(a))
        return input_decide(a, false);
    suggest_close(&a->suggest);
    return true;
}

static void on_chat(struct app *a, const struct chat_event *ev)
{
    struct buf both = {0};
    if (ev->kind != CHAT_DONE)
        return;
    a->queue.held = a->queue.n && (chat_proposes(a->chat, NULL) || (!a->steer && (ev->end == CHAT_INTERRUPTED || chat_end_failed(ev->end))));
    if (ev->taken_back && a->steer) {   /* nothing was answered: the model gets both at once */
        buf_addf(&both, "%s\n\n%s", ev->taken_back, a->steer);
        free(a->steer);
        a->steer = memory_strdup(both.data);
    } else if (ev->taken_back) {
        input_give_back(a, ev->taken_back);
    }
    buf_free(&both);
}

static int rows(struct app *a, const struct cells *c)
{
    int rows = editor_rows(a->editor, c->cols), third = c->rows / 3 > 3 ? c->rows / 3 : 3;
    return view_is_tiny(c) ? 1 : rows < third ? rows : third;
}

static void draw(struct app *a, struct cells *c, struct area at)
{
    editor_draw(a->editor, c, at, "> ");
}

static int list_rows(struct app *a, int rows)
{
    struct popup *list = input_popup(a);
    return list ? popup_height(list, rows) : 0;
}

/* The cursor stays where one types. */
static void draw_list(struct app *a, struct cells *c, struct area at)
{
    int row = c->cursor_row, col = c->cursor_col;
    popup_draw(input_popup(a), c, at);
    c->cursor_row = row;
    c->cursor_col = col;
}

const struct window window_input = {
    .contexts = contexts, .told = told, .focus = focus, .edited = edited, .click = click, .close = close_list, .chat = on_chat,
    .input_rows = rows, .draw_input = draw, .cover_rows = list_rows, .draw_cover = draw_list,
};
