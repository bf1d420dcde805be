/* Reading: scrolling, folds, search, copies, branches, and how the transcript is shown. */
#include <stdio.h>
#include <string.h>

#include "ui/tui/app.h"
#include "ui/tui/prompt.h"

enum { WHEEL_LINES = 3, KEPT_LINES = 2 };       /* of a page that stay in view */

/* --- scrolling -------------------------------------------------------------------------------------------------- */

/* In view mode the message that commands mean is marked; `again`: another one may be nearer now. */
static void choose(struct app *a, bool again)
{
    if (window_front(a) != WINDOW_view)
        return;
    if (again)
        pane_choose(a->pane, -1);
    pane_choose(a->pane, pane_here(a->pane));
}

static void scroll(struct app *a, int lines)
{
    pane_scroll(a->pane, lines);
    choose(a, false);
}

static int page(const struct app *a)
{
    return a->pane_rows > KEPT_LINES + 1 ? a->pane_rows - KEPT_LINES : 1;
}

void act_line_up(struct app *a)
{
    scroll(a, -1);
}

void act_line_down(struct app *a)
{
    scroll(a, 1);
}

void act_half_up(struct app *a)
{
    scroll(a, -(a->pane_rows + 1) / 2);
}

void act_half_down(struct app *a)
{
    scroll(a, (a->pane_rows + 1) / 2);
}

void act_page_up(struct app *a)
{
    scroll(a, -page(a));
}

void act_page_down(struct app *a)
{
    scroll(a, page(a));
}

void act_wheel_up(struct app *a)
{
    scroll(a, -WHEEL_LINES);
}

void act_wheel_down(struct app *a)
{
    scroll(a, WHEEL_LINES);
}

void act_to_start(struct app *a)
{
    pane_to_start(a->pane);
    choose(a, true);
}

void act_to_end(struct app *a)
{
    pane_to_end(a->pane);
    choose(a, true);
}

/* From message to message; the one that is reached stands at the top, where there is enough below it. */
static void jump(struct app *a, int direction, bool users_only)
{
    int item = pane_here(a->pane), n = pane_n(a->pane);
    enum item_kind kind;
    do {
        item += direction;
        kind = item >= 0 && item < n ? pane_kind(a->pane, item) : ITEM_NOTE;
    } while (item >= 0 && item < n && kind != ITEM_USER && (users_only || kind != ITEM_ANSWER));
    if (item < 0)
        return;
    if (item >= n) {
        pane_to_end(a->pane);
        return;
    }
    pane_choose(a->pane, item);
    pane_go(a->pane, (struct pane_place){.item = item});
}

void act_message_up(struct app *a)
{
    jump(a, -1, false);
}

void act_message_down(struct app *a)
{
    jump(a, 1, false);
}

void act_user_up(struct app *a)
{
    jump(a, -1, true);
}

void act_user_down(struct app *a)
{
    jump(a, 1, true);
}

/* --- how it is shown -------------------------------------------------------------------------------------------- */

void act_browse(struct app *a)
{
    if (window_front(a) == WINDOW_view) {
        act_browse_end(a);
    } else {
        window_open(a, WINDOW_view);
        choose(a, true);
    }
}

void act_browse_end(struct app *a)
{
    window_close(a, WINDOW_view);
}

/* A folded paste under the cursor comes first, for it is what one looks at while writing. */
void act_details(struct app *a)
{
    if (window_active(a) == WINDOW_input && editor_do(a->editor, EDIT_UNFOLD))
        return;
    if (!pane_toggle(a->pane))
        app_hint(a, "nothing is folded");
    a->walks = true;
}

static void choose_fold(struct app *a, int direction)
{
    if (!pane_choose_fold(a->pane, direction))
        app_hint(a, direction < 0 ? "nothing is folded above" : "nothing is folded below");
}

void act_fold_up(struct app *a)
{
    choose_fold(a, -1);
}

void act_fold_down(struct app *a)
{
    choose_fold(a, 1);
}

void act_fold(struct app *a)
{
    int item = pane_here(a->pane);
    if (item >= 0 && pane_folds(a->pane, item))
        pane_toggle_fold(a->pane, item);
    else
        app_hint(a, "nothing is folded here: J and K go to what is, q goes back");
}

/* --- search ----------------------------------------------------------------------------------------------------- */

static void find_on(struct app *a, int direction)
{
    if (!a->searching)
        app_hint(a, "/ searches");
    else if (!pane_find_next(a->pane, direction, &a->find_which))
        app_hint(a, "not found");
    choose(a, true);
}

static void find(struct app *a, const char *what, int direction)
{
    a->find_direction = direction;
    if (*what) {                        /* an empty one repeats the search before */
        a->find_hits = pane_find(a->pane, what);
        a->searching = true;
    }
    find_on(a, direction);
}

static void find_down(struct app *a, const char *what)
{
    find(a, what, 1);
}

static void find_up(struct app *a, const char *what)
{
    find(a, what, -1);
}

void act_find_down(struct app *a)
{
    static const struct prompt_ask ask = {.sign = "/ ", .done = find_down};
    prompt_open(a, &ask, "");
}

void act_find_up(struct app *a)
{
    static const struct prompt_ask ask = {.sign = "? ", .done = find_up};
    prompt_open(a, &ask, "");
}

void act_find_next(struct app *a)
{
    find_on(a, a->find_direction);
}

void act_find_back(struct app *a)
{
    find_on(a, -a->find_direction);
}

/* --- copies: the source, not what the screen makes of it -------------------------------------------------------- */

void browse_copy(struct app *a, struct buf *text, const char *what)
{
    if (!text->len) {
        app_hint(a, "there is no %s here", what);
    } else {
        buf_reset(&a->copied);
        buf_add(&a->copied, text->data, text->len);
        a->wishes |= WISH_COPY;
    }
    buf_free(text);
}

void act_copy_message(struct app *a)
{
    struct buf text = {0};
    int item = pane_here(a->pane);
    if (item >= 0)
        pane_source(a->pane, item, &text);
    browse_copy(a, &text, "message");
}

static void copy_block(struct app *a, int i)
{
    struct buf text = {0}, language = {0};
    pane_block(a->pane, i, &text, &language);
    browse_copy(a, &text, i < 0 || !pane_n_blocks(a->pane) ? "code block" : "code block of that number");
    buf_free(&language);
}

void act_copy_block(struct app *a)
{
    copy_block(a, -1);
}

void act_copy_numbered(struct app *a)
{
    copy_block(a, (int)a->key - '1');
}

void act_copy_table(struct app *a)
{
    struct buf text = {0};
    pane_table(a->pane, &text);
    browse_copy(a, &text, "table");
}

void act_copy_all(struct app *a)
{
    struct buf text = {0};
    struct err e = {0};
    if (!chat_export(a->chat, "txt", &text, &e))
        app_hint(a, "%s", e.msg);
    else
        browse_copy(a, &text, "conversation");
}

/* --- branches --------------------------------------------------------------------------------------------------- */

/* The message that is meant; -1 with a word why if the conversation cannot change now. */
static int message_here(struct app *a)
{
    int item = pane_here(a->pane);
    if (app_busy(a)) {
        app_hint(a, "the answer is not finished");
        return -1;
    }
    while (item >= 0 && pane_message(a->pane, item) < 0)
        item--;
    if (item < 0)
        app_hint(a, "no message here");
    return item < 0 ? -1 : pane_message(a->pane, item);
}

static bool is_user(const struct app *a, int message)
{
    return !strcmp(chat_message(a->chat, message).role, "user");
}

/* The first message of the user behind this one, or -1. */
static int user_after(const struct app *a, int message)
{
    for (int i = message + 1; i < chat_n_messages(a->chat); i++)
        if (is_user(a, i))
            return i;
    return -1;
}

/* Leaves what follows the turn of this message beside the path. */
static bool end_path_behind(struct app *a, int message)
{
    struct err e = {0};
    int next = user_after(a, message);
    bool ok = next < 0 || chat_cut(a->chat, next, &e);
    if (!ok)
        app_hint(a, "%s", e.msg);
    else
        app_changed(a);
    return ok;
}

void act_edit_message(struct app *a)
{
    int message = message_here(a);
    while (message >= 0 && !is_user(a, message))
        message--;
    if (message >= 0)
        revise_begin(a, message);
}

void act_regenerate(struct app *a)
{
    struct err e = {0};
    int message = message_here(a);
    if (message < 0 || !end_path_behind(a, message))
        return;
    window_open(a, WINDOW_input);
    app_began(a, chat_regenerate(a->chat, &e), &e);
}

void act_branch(struct app *a)
{
    int message = message_here(a);
    if (message < 0 || !end_path_behind(a, message))
        return;
    act_browse_end(a);
    pane_to_end(a->pane);
    app_hint(a, "what followed stays beside the path: Left and Right in view mode, /tree");
}

static void show_sibling(struct app *a, int step)
{
    struct err e = {0};
    int which, message = message_here(a);
    if (message < 0)
        return;
    int n = chat_siblings(a->chat, message, &which);
    if (n < 2)
        app_hint(a, "nothing stands beside this message");
    else if (!chat_show_sibling(a->chat, message, (which + step + n) % n, &e))
        app_hint(a, "%s", e.msg);
    else
        app_changed(a);
}

void act_sibling_before(struct app *a)
{
    show_sibling(a, -1);
}

void act_sibling_after(struct app *a)
{
    show_sibling(a, 1);
}

/* --- the window ------------------------------------------------------------------------------------------------- */

void act_mark(struct app *a)
{
    a->marks.waits = MARK_SETS;
    app_hint(a, "a letter names this place");
}

void act_to_mark(struct app *a)
{
    a->marks.waits = MARK_GOES;
    app_hint(a, "a letter, or ' for where one was before");
}

/* A letter that names a mark. */
static bool take_key(struct app *a, uint32_t code)
{
    struct buf told = {0};
    bool taken = marks_take(&a->marks, a->pane, code, &told);
    if (taken)
        app_hint(a, "%s", buf_str(&told));
    buf_free(&told);
    return taken;
}

static void contexts(struct app *a, struct contexts *where)
{
    (void)a;
    contexts_add(where, CONTEXT_view);
}

static void click(struct app *a, int row, int col)
{
    int item;
    size_t byte;
    if (!view_click_fold(a, row, col) && view_has(a->at_pane, row, col) && pane_at(a->pane, row - a->at_pane.row, col - a->at_pane.col, &item, &byte))
        pane_choose(a->pane, item);
}

/* Ctrl-C stops the answer that one reads. */
static bool close_view(struct app *a, bool escape)
{
    if (!escape && app_busy(a))
        return false;
    window_close(a, WINDOW_view);
    return true;
}

static void closed(struct app *a)
{
    a->searching = false;
    a->marks.waits = MARK_NONE;
    pane_find(a->pane, "");
    pane_choose(a->pane, -1);
}

static const char *hint(struct app *a)
{
    (void)a;
    return "F1 keys, q back\tq back";
}

static bool state(struct app *a, char *out, size_t n)
{
    snprintf(out, n, "view");
    return !app_busy(a);
}

static void cursor(struct app *a, struct cells *c)
{
    c->cursor_row = a->at_pane.row + pane_cursor(a->pane);
    c->cursor_col = 0;
}

const struct window window_view = {
    .contexts = contexts, .key = take_key, .click = click, .close = close_view, .closed = closed, .hint = hint, .state = state, .cursor = cursor,
};
