#include "ui/tui/app.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/unicode.h"

enum { HINT_MS = 4000, SAMPLE_MS = 200, MACHINE_MS = 1000 };

/* Those of the config file; what cannot be bound is told, and nothing else suffers. */
static void bind_keys(struct app *a)
{
    int n;
    const char *const *keys = options_list(a->o, OPT_key, &n);
    for (int i = 0; i < n; i++) {
        struct err e = {0};
        if (!actions_bind(a->actions, keys[i], &e))
            feed_say(&a->feed, ITEM_ERROR, e.msg);
    }
}

void app_open(struct app *a, struct options *o, const char *history_path)
{
    *a = (struct app){.o = o};
    windows_begin(a);
    a->actions = actions_open();
    a->pane = pane_open();
    a->editor = editor_open();
    a->line = editor_open();
    a->history = history_open(history_path, options_int(o, OPT_history_size) + 1);
    feed_init(&a->feed, a->pane, o);
    bind_keys(a);
}

void app_chat(struct app *a, struct chat *c)
{
    a->chat = a->feed.chat = c;
    a->suggest.chat = c;
    phase_open(&a->phase, a->ms);
}

void app_close(struct app *a)
{
    actions_close(a->actions);
    pane_close(a->pane);
    editor_close(a->editor);
    editor_close(a->line);
    history_close(a->history);
    queue_free(&a->queue);
    windows_end(a);
    picker_free(&a->picker);
    suggest_free(&a->suggest);
    buf_free(&a->fatal);
    buf_free(&a->hint);
    buf_free(&a->copied);
    summary_free(&a->said);
    free(a->unsent);
    free(a->steer);
    free(a->set_aside);
}

bool app_busy(const struct app *a)
{
    return a->chat && chat_busy(a->chat);
}

void app_hint(struct app *a, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_reset(&a->hint);
    buf_adds(&a->hint, text);
    a->hint_until = a->ms + HINT_MS;
}

void app_note(struct app *a, const char *text)
{
    feed_say(&a->feed, ITEM_NOTE, text);
}

/* --- the conversation changes ----------------------------------------------------------------------------------- */

void app_changed(struct app *a)
{
    for (int i = 0; i < N_WINDOWS; i++)
        if (window_at((enum window_id)i)->changed)
            window_at((enum window_id)i)->changed(a);
    if (!chat_n_messages(a->chat))
        pane_reset(a->pane);
    feed_sync(&a->feed);
    app_count_context(a);
}

void app_began(struct app *a, bool ok, const struct err *e)
{
    app_count_context(a);
    if (!ok) {
        feed_sync(&a->feed);
        feed_say(&a->feed, ITEM_ERROR, e->msg);
        return;
    }
    feed_turn(&a->feed);
    phase_turn(&a->phase, a->ms);
    steps_begin(&a->steps);
    pane_to_end(a->pane);
    a->quit_until = 0;
}

void app_count_context(struct app *a)
{
    struct figures *f = &a->figures;
    f->n_parts = chat_context(a->chat, &f->parts);
    f->ctx = chat_context_used(a->chat);
    f->not_counted = chat_not_counted(a->chat);
}

/* --- events ----------------------------------------------------------------------------------------------------- */

/* Who has said nothing yet loses nothing, and wants to read why in the shell. */
static void on_fatal(struct app *a, const struct chat_event *ev)
{
    buf_reset(&a->fatal);
    buf_adds(&a->fatal, ev->text);
    if (!chat_info(a->chat) && !chat_n_messages(a->chat))
        a->wishes |= WISH_LEAVE;
}

static void on_event(struct app *a, const struct chat_event *ev)
{
    phase_event(&a->phase, ev, a->ms);
    feed_event(&a->feed, ev, a->ms);
    for (int i = 0; i < N_WINDOWS; i++)
        if (window_at((enum window_id)i)->chat)
            window_at((enum window_id)i)->chat(a, ev);
    if (ev->kind == CHAT_DONE)
        app_count_context(a);
    if (ev->kind == CHAT_FATAL)
        on_fatal(a, ev);
    if (ev->kind == CHAT_READY) {       /* until now these were estimates */
        app_count_context(a);
        feed_recount(&a->feed);
    }
}

/* What has come while a turn is under way. */
static void count(struct app *a)
{
    struct chat_stats now;
    chat_stats_now(a->chat, &now);
    phase_tokens(&a->phase, chat_n_tokens(a->chat, -1), a->ms);
    steps_add(&a->steps, &now);
}

void app_events(struct app *a, const struct chat_event *ev, int n, int64_t ms)
{
    a->ms = ms;
    for (int i = 0; i < n; i++)
        on_event(a, &ev[i]);
    if (app_busy(a) && n)
        count(a);
    if (a->phase.kind != PHASE_DEAD && !a->closing && !app_busy(a))
        input_next(a);
}

/* --- time ------------------------------------------------------------------------------------------------------- */

static bool shows_machine(const struct app *a)
{
    return a->chat && (a->looks.panel || app_busy(a));
}

/* Figures that change with every token are taken a few times a second: nobody reads faster, and each change is sent. */
static void sample(struct app *a)
{
    struct figures *f = &a->figures;
    if (a->ms - f->sampled_ms < SAMPLE_MS && f->phase == a->phase.kind)
        return;
    f->sampled_ms = a->ms;
    f->phase = a->phase.kind;
    f->progress = a->phase.progress;
    f->tok_s = rate_now(&a->phase.rate, a->ms);
    if (a->chat)
        chat_stats_now(a->chat, &f->turn);
    if (app_busy(a)) {
        f->ctx = chat_context_used(a->chat);
        steps_sample(&a->steps, &f->turn);
        steps_recent(&a->steps, &f->recent);
    }
    if (shows_machine(a) && a->ms - f->machine_ms >= MACHINE_MS) {
        f->machine_ms = a->ms;
        chat_machine(a->chat, &f->machine);
    }
}

void app_tick(struct app *a, int64_t ms)
{
    a->ms = ms;
    if (a->hint.len && ms >= a->hint_until)
        buf_reset(&a->hint);
    if (a->chat)
        feed_tick(&a->feed, ms);
    sample(a);
}

static void until(int *timeout, int64_t ms)
{
    if (*timeout < 0 || ms < *timeout)
        *timeout = ms > 0 ? (int)ms : 0;
}

int app_timeout(const struct app *a)
{
    int timeout = -1;
    int64_t sample_ms = a->figures.sampled_ms + SAMPLE_MS, machine_ms = a->figures.machine_ms + MACHINE_MS;
    if (a->hint.len)
        until(&timeout, a->hint_until - a->ms);
    if (app_busy(a) || a->phase.kind == PHASE_LOADING)
        until(&timeout, sample_ms - a->ms);
    if (shows_machine(a))
        until(&timeout, (machine_ms > sample_ms ? machine_ms : sample_ms) - a->ms);
    return timeout;
}

/* --- keys ------------------------------------------------------------------------------------------------------- */

struct editor *app_focus(struct app *a)
{
    const struct window *w = window_at(window_active(a));
    return w->focus ? w->focus(a) : NULL;
}

void app_edited(struct app *a)
{
    const struct window *w = window_at(window_active(a));
    if (w->edited)
        w->edited(a);
}

static void insert(struct app *a, const char *text, size_t n)
{
    struct editor *e = app_focus(a);
    if (e)
        editor_insert(e, text, n);
    app_edited(a);
}

/* True if the key does something here. */
static bool press(struct app *a, uint32_t code, uint8_t mods)
{
    const struct window *w = window_at(window_active(a));
    struct contexts where = {.n = 0};
    if (!mods && w->key && w->key(a, code))
        return true;
    w->contexts(a, &where);
    contexts_add(&where, CONTEXT_any);
    bool behind = a->behind_ctrl_x;
    a->behind_ctrl_x = !behind && code == 'x' && mods == MOD_CTRL;
    if (a->behind_ctrl_x) {
        app_hint(a, "Ctrl-X ...");
        return true;
    }
    if (behind)
        buf_reset(&a->hint);
    a->key = code;
    action_fn *fn = actions_find(a->actions, &where, code, mods, behind);
    if (fn) {
        buf_reset(&a->hint);            /* it was about the key before */
        fn(a);
    }
    return fn || behind;
}

/* Characters: keys where one only looks, text where one writes.  There only a single one can be a key ("?" of an empty draft):
 * of several at once none is, they are a word, or one emoji. */
static void typed(struct app *a, const char *text, size_t n)
{
    for (size_t at = 0, took; at < n; at += took) {
        uint32_t cp;
        bool writes = app_focus(a) && !a->behind_ctrl_x;
        took = unicode_decode(text + at, n - at, &cp, NULL);
        if (writes && (took < n || !press(a, cp, 0))) {
            insert(a, text + at, n - at);
            return;
        }
        if (!writes)
            press(a, cp, 0);
    }
}

static void literally(struct app *a, const struct key_event *ev)
{
    a->literal = false;
    if (ev->kind == KEYS_TEXT)
        insert(a, ev->text, ev->n);
    else if (ev->code == KEY_TAB)
        insert(a, "\t", 1);
    else if (ev->code == KEY_ENTER)
        insert(a, "\n", 1);
}

/* Windows that look at everything that comes, from the topmost on. */
static bool some_window_takes(struct app *a, const struct key_event *ev)
{
    for (int i = 0; i < N_WINDOWS; i++) {
        const struct window *w = window_at((enum window_id)i);
        if (w->event && w->event(a, ev))
            return true;
    }
    return false;
}

static void click(struct app *a, const struct key_event *ev)
{
    const struct window *w = window_at(window_active(a));
    if (w->click)
        w->click(a, ev->row, ev->col);
}

void app_key(struct app *a, const struct key_event *ev, int64_t ms)
{
    a->ms = ms;
    if (some_window_takes(a, ev) || ev->kind == KEYS_REPORT || !a->chat)
        return;
    bool armed = ms < a->quit_until;
    if (armed)
        buf_reset(&a->hint);
    a->walks = false;
    if (a->literal)
        literally(a, ev);
    else if (ev->kind == KEYS_TEXT)
        typed(a, ev->text, ev->n);
    else if (ev->code == KEY_CLICK)
        click(a, ev);
    else
        press(a, ev->code, ev->mods);
    if (!a->walks)
        pane_rest(a->pane);
    if (armed)                          /* any other key disarms */
        a->quit_until = 0;
}
