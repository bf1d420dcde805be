#include "ui/tui/windows.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "ui/tui/handoff.h"
#include "ui/tui/input.h"
#include "ui/tui/pane.h"

/* --- marks --------------------------------------------------------------------------------------------------------- */

enum { N_MARKS = 27, BEFORE = 26 };     /* places a to z, and the place before the last jump */
enum mark_wait { MARK_NONE, MARK_SETS, MARK_GOES };

struct marks {
    enum mark_wait waits;               /* what the next letter does: sets a mark, or goes to it */
    struct pane_place at[N_MARKS];
    bool set[N_MARKS];
};

/* Goes to a mark; the place before that is kept in the mark BEFORE. */
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
    p->chosen = -1;
    p->chosen = pane_here(p);
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
    return h->state[WINDOW_view];
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
        h->pane->chosen = -1;
    h->pane->chosen = pane_here(h->pane);
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
    const struct window *w = h->windows[window_active(h)];
    struct popup *list = window_list(h, window_active(h));
    if (list && !w->wheel)
        popup_move(list, rows);
    else if (!w->wheel || !w->wheel(h, rows))
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
    int item = pane_here(h->pane), n = h->pane->items.n;
    enum item_kind kind;
    do {
        item += direction;
        kind = item >= 0 && item < n ? h->pane->items.at[item].kind : ITEM_NOTE;
    } while (item >= 0 && item < n && kind != ITEM_USER && (users_only || kind != ITEM_ANSWER));
    if (item < 0)
        return;
    if (item >= n) {
        pane_to_end(h->pane);
        return;
    }
    h->pane->chosen = item;
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
    if (window_active(h) == WINDOW_input && editor_do(h->line[WINDOW_input], EDIT_UNFOLD))
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

/* Opens a picture of a message in another program. */
static void open_file(struct host *h, int item)
{
    struct buf path = {0};
    struct err e = {0};
    int k = 0;
    while (k < item && h->pane->items.at[item - k - 1].kind == ITEM_FILE)
        k++;
    if (chat_file_path(h->chat, h->pane->items.at[item].message, k, &path, &e) && handoff_open(path.data, &e))
        host_hint(h, "opened %s", path.data);
    else
        host_hint(h, "%s", e.msg);
    buf_free(&path);
}

void act_fold(struct host *h)
{
    int item = pane_here(h->pane);
    if (item >= 0 && h->pane->items.at[item].kind == ITEM_FILE && !pane_folds(h->pane, item))
        open_file(h, item);
    else if (item >= 0 && pane_folds(h->pane, item))
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
        buf_adds(&text, buf_str(&h->pane->items.at[item].source));
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
    if (!chat_export(h->chat, "txt", NULL, &text, &e))
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
    while (item >= 0 && h->pane->items.at[item].message < 0)
        item--;
    if (item < 0)
        host_hint(h, "no message here");
    return item < 0 ? -1 : h->pane->items.at[item].message;
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

/* Shows the next or previous branch of the message that is chosen. */
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
        h->pane->chosen = item;
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
    h->pane->chosen = -1;
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

/* --- selecting with the mouse -------------------------------------------------------------------------------------- */

/* Lines of a message's source that are chosen to be copied. */
struct selection {
    struct buf source;                  /* of `item` */
    int  item;
    int  line;                          /* the current line */
    int  from;                          /* the first line of the selection; -1: the current one */
    int  n;                             /* lines of the source */
};

static struct selection *selection(const struct host *h)
{
    return h->state[WINDOW_select];
}

/* Returns the start of line i, or the end of the text if there is no such line. */
static size_t line_begin(const struct selection *s, int i)
{
    const char *text = buf_str(&s->source), *p = text;
    while (i-- > 0 && p) {
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    return p ? (size_t)(p - text) : s->source.len;
}

static int line_at(const struct selection *s, size_t at)
{
    int line = 0;
    for (size_t i = 0; i < at && i < s->source.len; i++)
        line += s->source.data[i] == '\n';
    return line;
}

static void selected_bytes(const struct selection *s, size_t *at, size_t *n)
{
    int from = s->from < 0 || s->from > s->line ? s->line : s->from, to = s->from > s->line ? s->from : s->line;
    *at = line_begin(s, from);
    *n = line_begin(s, to + 1) - *at;
}

static void show_lines(struct host *h)
{
    struct selection *s = selection(h);
    size_t at, n;
    selected_bytes(s, &at, &n);
    pane_select(h->pane, s->item, at, n);
    pane_show(h->pane, s->item, line_begin(s, s->line));
}

void act_select(struct host *h)
{
    struct selection *s = selection(h);
    int item = pane_here(h->pane);
    if (item < 0)
        return;
    buf_reset(&s->source);
    buf_adds(&s->source, buf_str(&h->pane->items.at[item].source));
    while (s->source.len && s->source.data[s->source.len - 1] == '\n')
        s->source.data[--s->source.len] = 0;
    if (!s->source.len) {
        host_hint(h, "no lines here");
        return;
    }
    struct pane_place top = pane_place(h->pane);
    s->item = item;
    s->n = line_at(s, s->source.len) + 1;
    s->line = top.item == item && !h->pane->follows ? line_at(s, top.at) : 0;
    s->from = -1;
    window_open(h, WINDOW_select);
    h->pane->chosen = -1;
    show_lines(h);
}

ACT(select_end, window_close(h, WINDOW_select))

static void move_line(struct host *h, int to)
{
    struct selection *s = selection(h);
    s->line = to < 0 ? 0 : to >= s->n ? s->n - 1 : to;
    show_lines(h);
}

static bool move_by_wheel(struct host *h, int rows)
{
    move_line(h, selection(h)->line + rows);
    return true;
}

static bool click_line(struct host *h, int row, int col)
{
    struct selection *s = selection(h);
    int item;
    size_t byte;
    if (area_has(h->at.pane, row, col) && pane_at(h->pane, row - h->at.pane.row, col - h->at.pane.col, &item, &byte) && item == s->item)
        move_line(h, line_at(s, byte));
    return false;
}

ACT(select_up, move_line(h, selection(h)->line - 1))
ACT(select_down, move_line(h, selection(h)->line + 1))
ACT(select_first, move_line(h, 0))
ACT(select_last, move_line(h, selection(h)->n - 1))

void act_select_begin(struct host *h)
{
    selection(h)->from = selection(h)->from < 0 ? selection(h)->line : -1;
    show_lines(h);
}

void act_select_copy(struct host *h)
{
    struct buf text = {0};
    size_t at, n;
    selected_bytes(selection(h), &at, &n);
    buf_add(&text, buf_str(&selection(h)->source) + at, n);
    window_close(h, WINDOW_select);
    host_copy(h, &text, "line");
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void unselect(struct host *h)
{
    pane_select(h->pane, 0, 0, 0);
}

static void free_selection(struct host *h)
{
    buf_free(&selection(h)->source);
}

/* Closes the window: its message may be gone. */
static void end_selection(struct host *h)
{
    window_close(h, WINDOW_select);
}

static const char *selection_hint(struct host *h)
{
    return selection(h)->from < 0 ? "v begins here, y copies, q back\tq back" : "y copies, q back\tq back";
}

static bool tell_line(struct host *h, char *out, size_t n)
{
    snprintf(out, n, "line %d of %d", selection(h)->line + 1, selection(h)->n);
    return true;
}

const struct window window_select = {
    .bytes = sizeof(struct selection), .free = free_selection, .in = {{CONTEXT_select}, 1}, .click = click_line, .wheel = move_by_wheel,
    .closed = unselect, .changed = end_selection, .hint_now = selection_hint, .state = tell_line, .cursor = host_cursor_in_pane,
};
