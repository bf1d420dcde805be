#include "ui/tui/browse.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "ui/tui/input.h"
#include "ui/tui/pane.h"
#include "ui/tui/prompt.h"
#include "ui/tui/window.h"

/* --- marks --------------------------------------------------------------------------------------------------------- */

enum { N_MARKS = 27, BEFORE = 26 };     /* places a to z, and the place before the last jump */
enum mark_wait { MARK_NONE, MARK_SETS, MARK_GOES };

struct marks {
    enum mark_wait waits;               /* what the next letter does: sets a mark, or goes to it */
    struct pane_place at[N_MARKS];
    bool set[N_MARKS];
};

static void go(struct marks *m, struct pane *p, int mark, struct buf *told)
{
    if (!m->set[mark]) {
        buf_adds(told, "nothing is marked so");
        return;
    }
    struct pane_place to = m->at[mark];
    m->at[BEFORE] = pane_place(p);
    m->set[BEFORE] = true;
    pane_go(p, to);
    pane_choose(p, -1);
    pane_choose(p, pane_here(p));
}

/* Takes a letter after m or ': sets the mark or goes there, and appends a message.  False: no letter was awaited. */
static bool marks_take(struct marks *m, struct pane *p, uint32_t code, struct buf *told)
{
    enum mark_wait waits = m->waits;
    int mark = code >= 'a' && code <= 'z' ? (int)code - 'a' : code == '\'' ? BEFORE : -1;
    m->waits = MARK_NONE;
    if (waits == MARK_NONE)
        return false;
    if (mark < 0 || (waits == MARK_SETS && mark == BEFORE)) {
        buf_adds(told, "marks are letters from a to z");
    } else if (waits == MARK_GOES) {
        go(m, p, mark, told);
    } else {
        m->at[mark] = pane_place(p);
        m->set[mark] = true;
        buf_addf(told, "mark %c; '%c comes back to it", mark + 'a', mark + 'a');
    }
    return true;
}

/* --- view mode ------------------------------------------------------------------------------------------------------ */

enum { WHEEL_LINES = 3, KEPT_LINES = 2 };       /* lines of a page that stay in view */

struct browse {
    struct marks marks;
    bool searching;                     /* a search is under way: n and N move */
    int  direction;                     /* of the search: 1 down, -1 up */
    int  n_hits;
    int  hit;                           /* number of the current hit */
};

static struct browse *browse(const struct host *h)
{
    return window_state(h, WINDOW_view);
}

bool browse_search(const struct host *h, int *hit, int *n_hits)
{
    *hit = browse(h)->hit;
    *n_hits = browse(h)->n_hits;
    return browse(h)->searching;
}

/* --- scrolling -------------------------------------------------------------------------------------------------- */

/* Marks the message that commands of view mode act on; again: chooses it afresh, since another one may be nearer now. */
static void choose_here(struct host *h, bool again)
{
    if (window_front(h) != WINDOW_view)
        return;
    if (again)
        pane_choose(h->pane, -1);
    pane_choose(h->pane, pane_here(h->pane));
}

static void scroll_pane(struct host *h, int lines)
{
    pane_scroll(h->pane, lines);
    choose_here(h, false);
}

static int pane_page(const struct host *h)
{
    return h->at.pane.rows > KEPT_LINES + 1 ? h->at.pane.rows - KEPT_LINES : 1;
}

ACT(line_up, scroll_pane(h, -1))
ACT(line_down, scroll_pane(h, 1))
ACT(half_up, scroll_pane(h, -(h->at.pane.rows + 1) / 2))
ACT(half_down, scroll_pane(h, (h->at.pane.rows + 1) / 2))
ACT(page_up, scroll_pane(h, -pane_page(h)))
ACT(page_down, scroll_pane(h, pane_page(h)))

static void turn_wheel(struct host *h, int rows)
{
    const struct window *w = window_at(window_active(h));
    if (!w->wheel || !w->wheel(h, rows))
        scroll_pane(h, rows);
}

ACT(wheel_up, turn_wheel(h, -WHEEL_LINES))
ACT(wheel_down, turn_wheel(h, WHEEL_LINES))

void act_to_start(struct host *h)
{
    pane_to_start(h->pane);
    choose_here(h, true);
}

void act_to_end(struct host *h)
{
    pane_to_end(h->pane);
    choose_here(h, true);
}

/* Goes to the next message, which is then in the top row if enough text follows. */
static void jump_to_message(struct host *h, int direction, bool users_only)
{
    int item = pane_here(h->pane), n = pane_n(h->pane);
    enum item_kind kind;
    do {
        item += direction;
        kind = item >= 0 && item < n ? pane_kind(h->pane, item) : ITEM_NOTE;
    } while (item >= 0 && item < n && kind != ITEM_USER && (users_only || kind != ITEM_ANSWER));
    if (item < 0)
        return;
    if (item >= n) {
        pane_to_end(h->pane);
        return;
    }
    pane_choose(h->pane, item);
    pane_go(h->pane, (struct pane_place){.item = item});
}

ACT(message_up, jump_to_message(h, -1, false))
ACT(message_down, jump_to_message(h, 1, false))
ACT(user_up, jump_to_message(h, -1, true))
ACT(user_down, jump_to_message(h, 1, true))

/* --- how it is shown -------------------------------------------------------------------------------------------- */

void act_browse(struct host *h)
{
    if (window_front(h) == WINDOW_view) {
        act_browse_end(h);
    } else {
        window_open(h, WINDOW_view);
        choose_here(h, true);
    }
}

ACT(browse_end, window_close(h, WINDOW_view))

/* Unfolds a folded paste at the cursor, else toggles a fold of the transcript. */
void act_details(struct host *h)
{
    if (window_active(h) == WINDOW_input && editor_do(input_editor(h), EDIT_UNFOLD))
        return;
    if (!pane_toggle(h->pane))
        host_hint(h, "nothing is folded");
    h->typing.walks = true;
}

static void choose_fold(struct host *h, int direction)
{
    if (!pane_choose_fold(h->pane, direction))
        host_hint(h, direction < 0 ? "nothing is folded above" : "nothing is folded below");
}

ACT(fold_up, choose_fold(h, -1))
ACT(fold_down, choose_fold(h, 1))

void act_fold(struct host *h)
{
    int item = pane_here(h->pane);
    if (item >= 0 && pane_folds(h->pane, item))
        pane_toggle_fold(h->pane, item);
    else
        host_hint(h, "nothing is folded here: J and K go to the next fold, q goes back");
}

/* --- search ----------------------------------------------------------------------------------------------------- */

static void find_again(struct host *h, int direction)
{
    if (!browse(h)->searching)
        host_hint(h, "/ searches");
    else if (!pane_find_next(h->pane, direction, &browse(h)->hit))
        host_hint(h, "not found");
    choose_here(h, true);
}

static void find_text(struct host *h, const char *what, int direction)
{
    browse(h)->direction = direction;
    if (*what) {                        /* an empty text repeats the search before */
        browse(h)->n_hits = pane_find(h->pane, what);
        browse(h)->searching = true;
    }
    find_again(h, direction);
}

static void find_down(struct host *h, const char *what)
{
    find_text(h, what, 1);
}

static void find_up(struct host *h, const char *what)
{
    find_text(h, what, -1);
}

void act_find_down(struct host *h)
{
    static const struct prompt_ask ask = {.sign = "/ ", .done = find_down};
    prompt_open(h, &ask, "");
}

void act_find_up(struct host *h)
{
    static const struct prompt_ask ask = {.sign = "? ", .done = find_up};
    prompt_open(h, &ask, "");
}

ACT(find_next, find_again(h, browse(h)->direction))
ACT(find_back, find_again(h, -browse(h)->direction))

/* --- copies: the source, not what the screen makes of it -------------------------------------------------------- */

void act_copy_message(struct host *h)
{
    struct buf text = {0};
    int item = pane_here(h->pane);
    if (item >= 0)
        pane_source(h->pane, item, &text);
    host_copy(h, &text, "message");
}

static void copy_block(struct host *h, int i)
{
    struct buf text = {0}, language = {0};
    pane_block(h->pane, i, &text, &language);
    host_copy(h, &text, i < 0 || !pane_n_blocks(h->pane) ? "code block" : "code block of that number");
    buf_free(&language);
}

ACT(copy_block, copy_block(h, -1))
ACT(copy_numbered, copy_block(h, (int)h->typing.code - '1'))

void act_copy_table(struct host *h)
{
    struct buf text = {0};
    pane_table(h->pane, &text);
    host_copy(h, &text, "table");
}

void act_copy_all(struct host *h)
{
    struct buf text = {0};
    struct err e = {0};
    if (!chat_export(h->chat, "txt", &text, &e))
        host_hint(h, "%s", e.msg);
    else
        host_copy(h, &text, "conversation");
}

/* --- branches --------------------------------------------------------------------------------------------------- */

/* Returns the message that commands act on; -1 with a hint if the conversation cannot change now. */
static int message_here(struct host *h)
{
    int item = pane_here(h->pane);
    if (host_busy(h)) {
        host_hint(h, "the answer is not finished");
        return -1;
    }
    while (item >= 0 && pane_message(h->pane, item) < 0)
        item--;
    if (item < 0)
        host_hint(h, "no message here");
    return item < 0 ? -1 : pane_message(h->pane, item);
}

static bool is_user(const struct host *h, int message)
{
    return !strcmp(chat_message(h->chat, message).role, "user");
}

/* Returns the first message of the user after this one, or -1. */
static int user_after(const struct host *h, int message)
{
    for (int i = message + 1; i < chat_n_messages(h->chat); i++)
        if (is_user(h, i))
            return i;
    return -1;
}

/* Cuts the path after the turn of this message; the rest stays as a branch. */
static bool end_path_behind(struct host *h, int message)
{
    struct err e = {0};
    int next = user_after(h, message);
    bool ok = next < 0 || chat_cut(h->chat, next, &e);
    if (!ok)
        host_hint(h, "%s", e.msg);
    else
        host_changed(h);
    return ok;
}

void act_edit_message(struct host *h)
{
    int message = message_here(h);
    while (message >= 0 && !is_user(h, message))
        message--;
    if (message >= 0)
        revise_begin(h, message);
}

void act_regenerate(struct host *h)
{
    struct err e = {0};
    int message = message_here(h);
    if (message < 0 || !end_path_behind(h, message))
        return;
    window_open(h, WINDOW_input);
    host_began(h, chat_regenerate(h->chat, &e), &e);
}

void act_branch(struct host *h)
{
    int message = message_here(h);
    if (message < 0 || !end_path_behind(h, message))
        return;
    act_browse_end(h);
    pane_to_end(h->pane);
    host_hint(h, "the rest is kept as a branch: Left and Right in view mode, /tree");
}

static void show_sibling(struct host *h, int step)
{
    struct err e = {0};
    int which, message = message_here(h);
    if (message < 0)
        return;
    int n = chat_siblings(h->chat, message, &which);
    if (n < 2)
        host_hint(h, "this message has no other branches");
    else if (!chat_show_sibling(h->chat, message, (which + step + n) % n, &e))
        host_hint(h, "%s", e.msg);
    else
        host_changed(h);
}

ACT(sibling_before, show_sibling(h, -1))
ACT(sibling_after, show_sibling(h, 1))

/* --- the window ------------------------------------------------------------------------------------------------- */

void act_mark(struct host *h)
{
    browse(h)->marks.waits = MARK_SETS;
    host_hint(h, "type a letter to set the mark");
}

void act_to_mark(struct host *h)
{
    browse(h)->marks.waits = MARK_GOES;
    host_hint(h, "type a mark, or ' for the previous position");
}

static bool take_mark(struct host *h, uint32_t code)
{
    struct buf told = {0};
    bool taken = marks_take(&browse(h)->marks, h->pane, code, &told);
    if (taken)
        host_hint(h, "%s", buf_str(&told));
    buf_free(&told);
    return taken;
}

static bool click_item(struct host *h, int row, int col)
{
    int item;
    size_t byte;
    if (!host_click_fold(h, row, col) && area_has(h->at.pane, row, col) && pane_at(h->pane, row - h->at.pane.row, col - h->at.pane.col, &item, &byte))
        pane_choose(h->pane, item);
    return false;
}

/* Closes view mode; Ctrl-C rather stops an answer under way. */
static bool close_view(struct host *h, bool escape)
{
    if (!escape && host_busy(h))
        return false;
    window_close(h, WINDOW_view);
    return true;
}

static void leave_view(struct host *h)
{
    browse(h)->searching = false;
    browse(h)->marks.waits = MARK_NONE;
    pane_find(h->pane, "");
    pane_choose(h->pane, -1);
}

static bool tell_view(struct host *h, char *out, size_t n)
{
    snprintf(out, n, "view");
    return !host_busy(h);
}

const struct window window_view = {
    .bytes = sizeof(struct browse), .in = {{CONTEXT_view}, 1}, .key = take_mark, .click = click_item, .close = close_view,
    .closed = leave_view, .state = tell_view, .cursor = host_cursor_in_pane, .hint = "F1 keys, q back\tq back",
};
