#include "ui/tui/app.h"

#include <string.h>

#include "base/err.h"
#include "base/unicode.h"
#include "ui/tui/input.h"
#include "ui/tui/numbers.h"
#include "ui/tui/panel.h"
#include "ui/tui/picker.h"
#include "ui/tui/window.h"

/* Binds the keys of the options; a key that cannot be bound is reported, and the others are bound. */
static void bind_keys(struct host *h)
{
    int n;
    const char *const *keys = options_list(h->o, OPT_key, &n);
    for (int i = 0; i < n; i++) {
        struct err e = {0};
        if (!actions_bind(h->actions, keys[i], &e))
            feed_say(&h->feed, ITEM_ERROR, e.msg);
    }
}

void app_open(struct app *a, struct options *o, const char *history_path)
{
    *a = (struct app){.host.o = o};
    a->said.host = &a->host;
    a->said.figures = &a->figures;
    host_init(&a->host);
    input_history(&a->host, history_path);
    bind_keys(&a->host);
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

/* Keeps the reason; leaves at once if nothing was said yet, so that the reason is read in the shell. */
static void on_fatal(struct app *a, const struct chat_event *ev)
{
    struct host *h = &a->host;
    buf_reset(&a->fatal);
    buf_adds(&a->fatal, ev->text);
    if (!chat_info(h->chat) && !chat_n_messages(h->chat))
        h->wishes |= WISH_LEAVE;
}

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

/* Shows by how much the draft, which is taken back, is too long: "too long: 102k of 32k". */
static void hint_too_long(struct host *h, const struct chat_event *ev)
{
    const char *message = ev->taken_back ? ev->taken_back : "";
    struct buf text = {0};
    buf_adds(&text, "too long: ");
    number_tokens(&text, chat_context_used(h->chat).tokens + chat_count_tokens(h->chat, message, strlen(message)));
    buf_adds(&text, " of ");
    number_context(&text, chat_info(h->chat) ? chat_info(h->chat)->n_ctx : 0);
    host_hint(h, "%s", chat_info(h->chat) && chat_info(h->chat)->n_ctx ? text.data : "too long for the context");
    buf_free(&text);
}

static void on_event(struct app *a, const struct chat_event *ev)
{
    struct host *h = &a->host;
    phase_event(&h->phase, ev, h->ms);
    feed_event(&h->feed, ev, h->ms);
    for (int i = 0; i < N_WINDOWS; i++)
        if (window_at((enum window_id)i)->chat)
            window_at((enum window_id)i)->chat(h, ev);
    call_user(h, ev);
    if (ev->kind == CHAT_FATAL)
        on_fatal(a, ev);
    if (ev->kind == CHAT_DONE && ev->end == END_TOO_LONG)
        hint_too_long(h, ev);
    else if (ev->kind == CHAT_DONE && end_failed(ev->end))
        host_hint(h, "failed: %s", ev->text);
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
    const struct window *w = window_at((enum window_id)window);
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
            window_at((enum window_id)i)->work(h);
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
    const struct window *w = window_at(window_active(h));
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

static void literally(struct host *h, const struct key_event *ev)
{
    h->typing.literal = false;
    if (ev->kind == KEYS_TEXT)
        insert(h, ev->text, ev->n);
    else if (ev->code == KEY_TAB)
        insert(h, "\t", 1);
    else if (ev->code == KEY_ENTER)
        insert(h, "\n", 1);
}

/* Offers the event to the windows that see all events, from the topmost on. */
static bool some_window_takes(struct host *h, const struct key_event *ev)
{
    for (int i = 0; i < N_WINDOWS; i++) {
        const struct window *w = window_at((enum window_id)i);
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

/* True if this is the second click on the same text where clicks do nothing, which is meant to select a word. */
static bool selects_word(struct host *h, const struct key_event *ev)
{
    enum { TWICE_MS = 400 };
    struct typing *t = &h->typing;
    bool twice = h->ms - t->click_ms < TWICE_MS && t->click_row == ev->row && t->click_col == ev->col;
    t->click_ms = h->ms;
    t->click_row = ev->row;
    t->click_col = ev->col;
    bool text = area_has(h->at.pane, ev->row, ev->col) && (window_active(h) == WINDOW_input || window_active(h) == WINDOW_view);
    return twice && text && pane_fold_at(h->pane, ev->row - h->at.pane.row) < 0;
}

static void click(struct host *h, const struct key_event *ev)
{
    const struct window *w = window_at(window_active(h));
    bool word = selects_word(h, ev);
    if (w->click && w->click(h, ev->row, ev->col))
        press(h, KEY_ENTER, 0);
    else if (word)
        lend_mouse(h);
}

/* --- all that comes ----------------------------------------------------------------------------------------------- */

static void key_or_text(struct host *h, const struct key_event *ev)
{
    if (h->typing.literal)
        literally(h, ev);
    else if (ev->kind == KEYS_TEXT)
        typed(h, ev->text, ev->n);
    else if (ev->code == KEY_CLICK)
        click(h, ev);
    else if (ev->code == KEY_GRAB)
        lend_mouse(h);
    else
        press(h, ev->code, ev->mods);
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
        pane_rest(h->pane);
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
    editor_text(input_editor(h), &text);
    input_remember(h, buf_str(&text));
    editor_reset(input_editor(h));
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

/* While the model reasons: starts the answer now.  Else: switches reasoning for the next answer. */
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
