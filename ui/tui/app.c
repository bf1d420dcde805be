#include "ui/tui/app.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/least.h"
#include "base/unicode.h"
#include "ui/process.h"
#include "ui/tui/figures.h"
#include "ui/tui/input.h"
#include "ui/tui/numbers.h"
#include "ui/tui/status.h"
#include "ui/tui/window.h"
#include "ui/tui/windows.h"

static const struct window *const windows[N_WINDOWS] = {
#define WINDOW(name) &window_##name,
#include "config/windows.def"
};

static const struct key_row keys[] = {
#define KEY(context, key, action, help) {CONTEXT_##context, key, #action, help, act_##action},
#include "config/keys.def"
};

struct actions *app_actions(void)
{
    return actions_open(keys, sizeof keys / sizeof *keys);
}

void app_open(struct app *a, struct options *o, const char *history_path)
{
    *a = (struct app){.host = {.windows = windows, .actions = app_actions(), .o = o}};
    a->said.host = &a->host;
    a->said.figures = &a->figures;
    host_init(&a->host);
    input_history(&a->host, history_path);
    /* Binds the keys of the options; a key that cannot be bound is reported, and the others are bound. */
    int n;
    const char *const *rows = options_list(a->host.o, OPT_key, &n);
    for (int i = 0; i < n; i++) {
        struct err e = {0};
        if (!actions_bind(a->host.actions, rows[i], &e))
            feed_say(&a->host.feed, ITEM_ERROR, "%s", e.msg);
    }
}

void app_chat(struct app *a, struct chat *c)
{
    a->host.chat = a->host.feed.chat = c;
    phase_open(&a->host.phase, a->host.ms);
}

void app_close(struct app *a)
{
    host_free(&a->host);
    summary_free(&a->said);
    buf_free(&a->fatal);
}

/* --- events ----------------------------------------------------------------------------------------------------- */

/* Rings the bell: a tool waits for approval, a long turn has ended, or the model has. */
static void call_user(struct host *h, const struct chat_event *ev)
{
    enum { LONG_MS = 20000 };
    const char *what = NULL;
    const struct input *in = input_state(h);
    const bool another = in->steer || (in->queue.n && !in->queue.held);     /* the bell rings at the end of that turn */
    bool was_long = h->ms - h->phase.asked_ms > LONG_MS;
    if (ev->kind == CHAT_APPROVE)
        what = "approval wanted";
    else if (ev->kind == CHAT_FATAL)
        what = "the engine has stopped";
    else if (ev->kind == CHAT_DONE && ev->end != END_INTERRUPTED && was_long && !another)
        what = end_failed(ev->end) ? "the answer failed" : "the answer is ready";
    if (what)
        bell_call(&h->bell, options_text(h->o, OPT_bell), what, chat_title(h->chat), h->ms);
}

/* Passes an event of the chat to phase, feed and windows, and hints at why a turn has failed. */
static void on_event(struct app *a, const struct chat_event *ev)
{
    struct host *h = &a->host;
    phase_event(&h->phase, ev, h->ms);
    feed_event(&h->feed, ev, h->ms);
    for (int i = 0; i < N_WINDOWS; i++)
        if (h->windows[i]->chat)
            h->windows[i]->chat(h, ev);
    call_user(h, ev);
    if (ev->kind == CHAT_FATAL) {
        buf_reset(&a->fatal);
        buf_adds(&a->fatal, ev->text);
        if (!chat_info(h->chat) && !chat_n_messages(h->chat))
            h->wishes |= WISH_LEAVE;    /* nothing was said yet: the reason is read in the shell */
    }
    if (ev->kind == CHAT_DONE && ev->end == END_TOO_LONG) {
        /* Shows by how much the draft, which is taken back, is too long: "too long: 102k of 32k". */
        const char *message = ev->taken_back ? ev->taken_back : "";
        struct buf text = {0};
        buf_adds(&text, "too long: ");
        number_tokens(&text, chat_context_used(h->chat).tokens + chat_count_tokens(h->chat, message, strlen(message)));
        buf_adds(&text, " of ");
        number_context(&text, chat_info(h->chat) ? chat_info(h->chat)->n_ctx : 0);
        host_hint(h, "%s", chat_info(h->chat) && chat_info(h->chat)->n_ctx ? text.data : "too long for the context");
        buf_free(&text);
    } else if (ev->kind == CHAT_DONE && end_failed(ev->end)) {
        host_hint(h, "failed: %s", ev->text);
    }
    if (ev->kind == CHAT_READY)         /* until now the counts were estimates */
        feed_recount(&h->feed);
    h->recount = h->recount || ev->kind == CHAT_DONE || ev->kind == CHAT_READY;
}

void app_events(struct app *a, const struct chat_event *ev, int n, int64_t ms)
{
    struct host *h = &a->host;
    h->ms = ms;
    for (int i = 0; i < n; i++)
        on_event(a, &ev[i]);
    if (host_busy(h) && n) {
        phase_tokens(&h->phase, chat_n_tokens(h->chat, -1), ms);
        figures_came(&a->figures, h);
    }
    if (h->phase.kind != PHASE_DEAD && !a->closing && !host_busy(h))
        input_next(h);
}

/* --- time ------------------------------------------------------------------------------------------------------- */

static bool works(const struct host *h, int window)
{
    const struct window *w = h->windows[window];
    return w->works && w->works(h);
}

void app_tick(struct app *a, int64_t ms)
{
    struct host *h = &a->host;
    h->ms = ms;
    if (h->hint.text.len && ms >= h->hint.until)
        buf_reset(&h->hint.text);
    if (h->chat)
        feed_tick(&h->feed, ms);
    if (bell_due(&h->bell, ms))
        h->wishes |= WISH_CALL;
    input_tell(h);
    figures_sample(&a->figures, h);
    for (int i = 0; i < N_WINDOWS; i++)
        if (works(h, i))
            h->windows[i]->work(h);
}

int app_timeout(const struct app *a)
{
    const struct host *h = &a->host;
    int timeout = figures_timeout(&a->figures, h), bell = bell_timeout(&h->bell, h->ms);
    if (bell >= 0 && (timeout < 0 || bell < timeout))
        timeout = bell;
    if (h->hint.text.len && (timeout < 0 || h->hint.until - h->ms < timeout))
        timeout = h->hint.until > h->ms ? (int)(h->hint.until - h->ms) : 0;
    for (int i = 0; i < N_WINDOWS; i++)
        timeout = works(h, i) ? 0 : timeout;
    return timeout;
}

/* --- keys ------------------------------------------------------------------------------------------------------- */

static void insert(struct host *h, const char *text, size_t n)
{
    struct editor *e = host_focus(h);
    if (e)
        editor_insert(e, text, n);
    host_edited(h);
}

/* True if the key does something here. */
static bool press(struct host *h, uint32_t code, uint8_t mods)
{
    const struct window *w = h->windows[window_active(h)];
    struct contexts where;
    if (!mods && w->key && w->key(h, code))
        return true;
    window_contexts(h, window_active(h), &where);
    bool behind = h->typing.behind_ctrl_x;
    h->typing.behind_ctrl_x = !behind && code == 'x' && mods == MOD_CTRL;
    if (h->typing.behind_ctrl_x) {
        host_hint(h, "Ctrl-X ...");
        return true;
    }
    if (behind)
        buf_reset(&h->hint.text);
    h->typing.code = code;
    action_fn *fn = actions_find(h->actions, &where, code, mods, behind);
    if (fn) {
        buf_reset(&h->hint.text);            /* the hint was about the key before */
        fn(h);
    }
    return fn || behind;
}

/* Handles typed characters: keys in windows without an editor, text in others, where a single character may still be a key ("?" of an empty
 * draft). Several at once are text: a word, or one emoji. */
static void typed(struct host *h, const char *text, size_t n)
{
    for (size_t at = 0, took; at < n; at += took) {
        uint32_t cp;
        bool writes = host_focus(h) && !h->typing.behind_ctrl_x;
        took = unicode_decode(text + at, n - at, &cp, NULL);
        if (writes && (took < n || !press(h, cp, 0))) {
            insert(h, text + at, n - at);
            return;
        }
        if (!writes)
            press(h, cp, 0);
    }
}

/* Offers the event to the windows that see all events, from the topmost on. */
static bool some_window_takes(struct host *h, const struct key_event *ev)
{
    for (int i = 0; i < N_WINDOWS; i++) {
        const struct window *w = h->windows[i];
        if (w->event && w->event(h, ev))
            return true;
    }
    return false;
}

/* --- the mouse --------------------------------------------------------------------------------------------------- */

/* Gives the mouse to the terminal until the next key, so that it can select, paste, or open a menu. */
static void lend_mouse(struct host *h)
{
    h->looks.lent = true;
    h->wishes |= WISH_MOUSE;
    host_hint(h, "Do it again: the terminal has the mouse until your next key. With Shift it always has; Alt-M turns the mouse off");
}

/* Takes the mouse back when a key comes.  True: the key was the wheel, which the terminal turned into an arrow key. */
static bool take_mouse_back(struct host *h, const struct key_event *ev)
{
    if (!h->looks.lent)
        return false;
    h->looks.lent = false;
    h->wishes |= WISH_MOUSE;
    bool wheel = ev->kind == KEYS_KEY && !ev->mods && (ev->code == KEY_UP || ev->code == KEY_DOWN);
    if (wheel)
        press(h, ev->code == KEY_UP ? KEY_WHEEL_UP : KEY_WHEEL_DOWN, 0);
    return wheel;
}

/* Handles a click: the window's own, a row of its list, or the second one on a text, for which the terminal gets the mouse. */
static void click(struct host *h, const struct key_event *ev)
{
    const enum window_id id = window_active(h);
    const struct window *w = h->windows[id];
    struct popup *list = window_list(h, id);
    /* A second click on the same text, where clicks do nothing, is meant to select a word. */
    enum { TWICE_MS = 400 };
    struct typing *t = &h->typing;
    bool twice = h->ms - t->click_ms < TWICE_MS && t->click_row == ev->row && t->click_col == ev->col;
    t->click_ms = h->ms;
    t->click_row = ev->row;
    t->click_col = ev->col;
    bool text = area_has(h->at.pane, ev->row, ev->col) && (window_active(h) == WINDOW_input || window_active(h) == WINDOW_view);
    bool word = twice && text && pane_fold_at(h->pane, ev->row - h->at.pane.row) < 0;
    if (w->click ? w->click(h, ev->row, ev->col) : list && popup_click(list, ev->row, ev->col))
        press(h, KEY_ENTER, 0);
    else if (word)
        lend_mouse(h);
}

/* --- all that comes ----------------------------------------------------------------------------------------------- */

/* Handles a key, a click or text; after the key for literal input the next one is inserted as it is. */
static void key_or_text(struct host *h, const struct key_event *ev)
{
    if (h->typing.literal) {
        h->typing.literal = false;
        if (ev->kind == KEYS_TEXT)
            insert(h, ev->text, ev->n);
        else if (ev->code == KEY_TAB)
            insert(h, "\t", 1);
        else if (ev->code == KEY_ENTER)
            insert(h, "\n", 1);
    } else if (ev->kind == KEYS_TEXT) {
        typed(h, ev->text, ev->n);
    } else if (ev->code == KEY_CLICK) {
        click(h, ev);
    } else if (ev->code == KEY_GRAB) {
        lend_mouse(h);
    } else {
        press(h, ev->code, ev->mods);
    }
}

void app_key(struct app *a, const struct key_event *ev, int64_t ms)
{
    struct host *h = &a->host;
    h->ms = ms;
    bell_answer(&h->bell);
    if ((h->chat && take_mouse_back(h, ev)) || some_window_takes(h, ev) || ev->kind == KEYS_REPORT || !h->chat)
        return;
    bool armed = ms < h->typing.quit_until;
    if (armed)
        buf_reset(&h->hint.text);
    h->typing.walks = false;
    h->typing.burst = ev->burst;
    key_or_text(h, ev);
    if (!h->typing.walks)
        h->pane->walks = false;
    if (armed)                          /* any other key disarms */
        h->typing.quit_until = 0;
}

/* --- Ctrl-C and Esc ------------------------------------------------------------------------------------------------- */

/* Nothing is ever destroyed: the first press closes an open window, else stops the answer under way, else puts the draft into the history;
 * the program ends only when there is nothing of these. */
enum { AGAIN_MS = 2000, ESCAPE_AGAIN_MS = 600 };

static void clear_draft(struct host *h)
{
    struct buf text = {0};
    editor_text(h->line[WINDOW_input], &text);
    input_remember(h, buf_str(&text));
    editor_reset(h->line[WINDOW_input]);
    host_hint(h, "Up brings it back");
    buf_free(&text);
}

void app_interrupt(struct app *a, int64_t ms)
{
    a->host.ms = ms;
    act_interrupt(&a->host);
}

void act_interrupt(struct host *h)
{
    if (window_escape(h, window_active(h), false))
        return;
    if (host_busy(h)) {
        host_stop(h);
    } else if (revise_end(h)) {
        return;
    } else if (!editor_empty(h->line[WINDOW_input])) {
        clear_draft(h);
    } else if (h->ms < h->typing.quit_until) {
        input_quit(h);
    } else {
        h->typing.quit_until = h->ms + AGAIN_MS;
        host_hint(h, "Ctrl-C again to quit");
        h->hint.until = h->typing.quit_until;
    }
}

void act_escape(struct host *h)
{
    bool again = h->ms - h->typing.escape_ms < ESCAPE_AGAIN_MS;
    if (window_escape(h, window_active(h), true))
        return;
    if (host_busy(h)) {
        host_stop(h);
    } else if (revise_end(h)) {
        h->typing.escape_ms = 0;
    } else if (!again) {
        h->typing.escape_ms = h->ms;
    } else {
        h->typing.escape_ms = 0;
        if (!editor_empty(h->line[WINDOW_input]))
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

/* --- keys that switch how things are shown ------------------------------------------------------------------------ */

void act_raw(struct host *h)
{
    h->looks.raw = !h->looks.raw;
    pane_raw(h->pane, h->looks.raw);
}

void act_tables(struct host *h)
{
    static const char *const told[] = {"tables as they fit", "tables as grids", "tables as records", "tables as source"};
    h->looks.tables = (h->looks.tables + 1) % (TABLE_SOURCE + 1);
    pane_tables(h->pane, h->looks.tables);
    host_hint(h, "%s", told[h->looks.tables]);
}

void act_bare(struct host *h)
{
    h->looks.bare = !h->looks.bare;
    h->wishes |= WISH_MOUSE;            /* the selection of the terminal must work */
}

void act_panel(struct host *h)
{
    int columns = h->at.input.cols;
    h->looks.panel = !h->looks.panel;
    if (h->looks.panel && columns && columns < PANEL_MIN_SCREEN) {       /* the panel appears as soon as the window is wide enough */
        host_hint(h, "the panel needs %d columns, this screen has %d", PANEL_MIN_SCREEN, columns);
        h->hint.columns = PANEL_MIN_SCREEN;
    }
}

void act_mouse(struct host *h)
{
    h->looks.mouse = !h->looks.mouse;
    h->looks.lent = false;
    h->wishes |= WISH_MOUSE;
    host_hint(h, h->looks.mouse ? "mouse on: the wheel scrolls, Shift and drag selects" : "mouse off: dragging selects, PgUp and PgDn scroll");
}

ACT(redraw, h->wishes |= WISH_REDRAW)
ACT(suspend, h->wishes |= WISH_SUSPEND)
ACT(print_all, h->wishes |= WISH_PRINT)
ACT(page_all, h->wishes |= WISH_PAGE)

void act_heat(struct host *h)
{
    h->looks.heat.shown = (h->looks.heat.shown + 1) % 3;        /* the legend says what the colours mean */
    if (h->looks.heat.shown == HEAT_NONE)
        host_hint(h, "colours off");
}

/* Starts the answer now, while the model reasons; otherwise switches reasoning for the next answer. */
void act_think(struct host *h)
{
    struct err e = {0};
    if (host_busy(h)) {
        host_hint(h, chat_answer_now(h->chat) ? "reasoning ends, the answer begins" : "it is not reasoning now");
        return;
    }
    bool on = !options_on(h->o, OPT_think);
    CHECK(options_set(h->o, OPT_think, on ? "on" : "off", FROM_SET, &e));
    host_hint(h, on ? "thinking on, from the next message" : "thinking off, from the next message");
}

/* --- drawing ------------------------------------------------------------------------------------------------------- */

enum { QUEUE_ROWS = 3, PROGRESS_AFTER_MS = 500 };

static const struct look TEXT = {STYLE_text, 0}, DIM = {STYLE_dim, 0}, NOTE = {STYLE_note, 0};

/* --- the parts -------------------------------------------------------------------------------------------------- */

/* Draws hints for new users; they go with the first message. */
static void draw_welcome(const struct app *a, struct cells *c, struct area at)
{
    static const char *const told[] = {
        "Ask anything. Alt-Enter or Ctrl-J makes a new line, @ attaches a file,",
        "/ lists commands, Ctrl-C stops an answer, Ctrl-D leaves.",
        "Conversations are saved; q35chat --continue reopens the last one.",
    };
    struct buf head = {0};
    const char *dir = a->host.chat ? chat_model_dir(a->host.chat) : "", *slash = strrchr(dir, '/');
    buf_addf(&head, "q35chat " Q35_VERSION "   %s   F1 or ? for help", slash && slash[1] ? slash + 1 : dir);
    cells_puts(c, at, 0, 0, TEXT, head.data);
    buf_free(&head);
    const bool wide = at.rows >= 8 && at.cols >= 72;
    const int row = wide ? at.rows / 3 + 4 : 2;
    for (int i = 0; wide && i < 3; i++)
        cells_puts(c, at, at.rows / 3 + i, 2, DIM, told[i]);
    if (a->host.chat && chat_notice(a->host.chat)) {
        struct lines notice = {0};
        lines_wrap(&notice, NOTE, chat_notice(a->host.chat), strlen(chat_notice(a->host.chat)), 0, at.cols - 4, 0);
        for (int i = 0; row + notice.n <= at.rows && i < notice.n; i++)
            lines_draw(&notice, i, c, (struct area){at.row, at.col + 2, at.rows, at.cols - 2}, row + i);
        lines_free(&notice);
    }
}

/* Draws the messages that wait, one row each. */
static void draw_queue(const struct app *a, struct cells *c, struct area at)
{
    for (int i = 0; i < at.rows; i++) {
        struct buf line = {0};
        bool last = i == at.rows - 1 && input_state(&a->host)->queue.n > at.rows;
        const char *text = input_state(&a->host)->queue.texts[i];
        buf_addf(&line, "%s %d: %.*s", input_state(&a->host)->queue.held ? "held" : "queued", i + 1, (int)strcspn(text, "\n"), text);
        if (last)
            buf_addf(&line, "  (and %d more)", input_state(&a->host)->queue.n - at.rows);
        cells_puts(c, at, i, 0, DIM, line.data);
        buf_free(&line);
    }
}

static bool shows_progress(const struct app *a)
{
    const struct phase *p = &a->host.phase;
    return a->figures.progress.total && !p->stopping && a->host.ms - p->reads_ms >= PROGRESS_AFTER_MS
        && (p->kind == PHASE_LOADING || p->kind == PHASE_READING);
}

/* Draws the status line.  A hint about the last key has the row for itself: it cannot be guessed, and is soon gone. */
static void draw_status(struct app *a, struct cells *c, struct area at)
{
    static const struct look look = {STYLE_status, 0};
    struct status s;
    summary_status(&a->said, &s);
    if (!a->host.hint.text.len) {
        status_draw(&s, c, at);
        return;
    }
    cells_blank(c, at, look);
    int wide = 1 + glyph_columns(s.state, strlen(s.state)) + 2, room = at.cols - wide;
    bool both = glyph_columns(a->host.hint.text.data, a->host.hint.text.len) <= room;
    if (both) {
        cells_puts(c, at, 0, 1, look, s.state);
        cells_puts(c, at, 0, wide, look, a->host.hint.text.data);
    } else {
        /* A long hint goes over the rows above the status line, since the end of a sentence may matter. */
        struct lines lines = {0};
        lines_wrap(&lines, look, a->host.hint.text.data, a->host.hint.text.len, 0, most(at.cols - 2, 1), 0);
        int rows = least(lines.n, at.row + 1);
        struct area over = {at.row - rows + 1, at.col, rows, at.cols};
        cells_blank(c, over, look);
        over.col++;
        over.cols -= 2;
        for (int i = 0; i < rows; i++)
            lines_draw(&lines, i, c, over, i);
        lines_free(&lines);
    }
}

/* Draws the legend of the colours, each word in its own. */
static void draw_legend(const struct app *a, struct cells *c, struct area at)
{
    static const struct { enum heat heat; enum style style; const char *text; } words[] = {
        {HEAT_HOW, STYLE_drafted, "drafted and accepted"}, {HEAT_HOW, STYLE_looked_up, "found by lookup"}, {HEAT_HOW, STYLE_text, "sampled"},
        {HEAT_PROBABILITY, STYLE_sure, "90 % and more"}, {HEAT_PROBABILITY, STYLE_text, "60 to 90 %"},
        {HEAT_PROBABILITY, STYLE_unsure, "30 to 60 %"}, {HEAT_PROBABILITY, STYLE_doubtful, "below 30 %"},
    };
    int col = cells_puts(c, at, 0, 0, DIM, a->host.looks.heat.shown == HEAT_HOW ? "how tokens were made:" : "how likely tokens were:");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].heat == a->host.looks.heat.shown)
            col = cells_puts(c, at, 0, col + 2, (struct look){(uint8_t)words[i].style, 0}, words[i].text);
    if (at.cols - col > (int)strlen("Alt-H: next") + 2)
        cells_puts(c, at, 0, at.cols - (int)strlen("Alt-H: next"), DIM, "Alt-H: next");
}

/* --- windows ---------------------------------------------------------------------------------------------------- */

static const struct window *front(const struct app *a)
{
    return a->host.windows[window_front(&a->host)];
}

static const struct window *in_place_of_input(const struct app *a)
{
    return a->host.windows[window_in_place_of_input(&a->host)];
}

/* True if there is a status line.  On a tiny screen a tool's question takes its row: all of the question must be seen. */
static bool has_status(const struct app *a, const struct cells *c)
{
    return !a->host.looks.bare && !(in_place_of_input(a)->takes_status && cells_are_tiny(c));
}

static int input_rows(struct app *a, const struct cells *c)
{
    int above = has_status(a, c) ? 2 : 1;       /* a row of transcript, the status line */
    return most(least(in_place_of_input(a)->input_rows(&a->host, c), c->rows - above), 1);
}

/* Returns the rows at the end of the transcript that are covered. */
static int cover_rows(struct app *a, int rows)
{
    const struct popup *list = window_list(&a->host, window_front(&a->host));
    return front(a)->cover_rows ? front(a)->cover_rows(&a->host, rows) : list ? popup_height(list, rows) : 0;
}

static void draw_cover(struct app *a, struct cells *c, struct area at)
{
    struct popup *list = window_list(&a->host, window_front(&a->host));
    if (front(a)->draw_cover)
        front(a)->draw_cover(&a->host, c, at);
    else if (list)
        popup_draw(list, c, at);
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

/* Draws the whole screen: divides its rows and columns among transcript, panel, progress, queue, status and input. */
static void draw_all(struct app *a, struct cells *c)
{
    int input = input_rows(a, c), status = has_status(a, c), free_rows = c->rows - input - status;
    int queue = a->host.looks.bare ? 0 : least(least(input_state(&a->host)->queue.n, cells_are_tiny(c) ? 0 : QUEUE_ROWS), free_rows - 1);
    int progress = shows_progress(a) ? least(PROGRESS_ROWS, free_rows - queue - 2) : 0;
    queue = most(queue, 0);
    progress = most(progress, 0);
    int legend = a->host.looks.heat.shown != HEAT_NONE && !a->host.looks.bare && !cells_are_tiny(c) && free_rows - queue - progress > 2;
    int rows = free_rows - queue - progress - legend;
    bool beside = a->host.looks.panel && !a->host.looks.bare && c->cols >= PANEL_MIN_SCREEN;
    int panel = panel_columns(c->cols, options_int(a->host.o, OPT_width));
    struct area text = {0, 0, rows, beside ? c->cols - panel - 1 : c->cols};
    a->host.at.pane = text;
    a->host.at.input = (struct area){c->rows - input, 0, input, c->cols};
    if (a->host.chat)
        heat_tint(&a->host.looks.heat, a->host.pane, a->host.chat);
    int covered = cover_rows(a, rows);
    a->host.pane->covered = covered;
    pane_measure(a->host.pane, options_int(a->host.o, OPT_width));
    a->host.pane->faded = a->host.chat ? chat_edited(a->host.chat) : -1;
    pane_draw(a->host.pane, c, text);
    const bool starts = !a->host.chat || (!chat_n_messages(a->host.chat) && !host_busy(&a->host));
    if (starts && !a->host.pane->items.n)
        draw_welcome(a, c, text);
    if (progress)
        (a->host.phase.kind == PHASE_LOADING ? progress_draw_load : progress_draw_prompt)(&a->figures.progress, a->host.ms, c,
                                                                                         (struct area){rows, 0, progress, text.cols});
    if (beside) {
        struct panel p;
        summary_panel(&a->said, &p);
        panel_draw(&p, c, (struct area){0, c->cols - panel, rows + progress + legend, panel});
    }
    if (legend)
        draw_legend(a, c, (struct area){rows + progress, 0, 1, text.cols});
    draw_queue(a, c, (struct area){rows + progress + legend, 0, queue, c->cols});
    if (status)
        draw_status(a, c, (struct area){c->rows - input - 1, 0, 1, c->cols});
    const struct window *w = front(a), *active = a->host.windows[window_active(&a->host)];
    in_place_of_input(a)->draw_input(&a->host, c, a->host.at.input);
    if (w->draw_rest)
        w->draw_rest(&a->host, c, (struct area){text.row, text.col, text.rows - covered, text.cols});
    if (covered)
        draw_cover(a, c, (struct area){text.row + text.rows - covered, text.col, covered, text.cols});
    if (active->cursor)
        active->cursor(&a->host, c);
}

void view_draw(struct app *a, struct cells *c)
{
    figures_follow(&a->figures, &a->host);
    cells_blank(c, cells_all(c), TEXT);
    c->cursor_row = -1;
    if (a->host.hint.columns && c->cols >= a->host.hint.columns)
        buf_reset(&a->host.hint.text);
    if (c->rows < VIEW_MIN_ROWS || c->cols < VIEW_MIN_COLUMNS) {
        if (in_place_of_input(a)->hidden)
            in_place_of_input(a)->hidden(&a->host);
        cells_puts(c, cells_all(c), 0, 0, TEXT, "too small");
    } else {
        draw_all(a, c);
    }
}

void view_title(struct app *a, struct buf *out)
{
    struct status s;
    summary_status(&a->said, &s);
    status_title(&s, out);
    buf_addf(out, " · %s", a->host.chat ? phase_name(&a->host.phase) : "opening");
}
