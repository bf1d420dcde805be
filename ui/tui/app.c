#include "ui/tui/app.h"

#include "base/unicode.h"
#include "ui/tui/input.h"

/* Those of the config file; what cannot be bound is told, and nothing else suffers. */
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

/* Who has said nothing yet loses nothing, and wants to read why in the shell. */
static void on_fatal(struct app *a, const struct chat_event *ev)
{
    struct host *h = &a->host;
    buf_reset(&a->fatal);
    buf_adds(&a->fatal, ev->text);
    if (!chat_info(h->chat) && !chat_n_messages(h->chat))
        h->wishes |= WISH_LEAVE;
}

static void on_event(struct app *a, const struct chat_event *ev)
{
    struct host *h = &a->host;
    phase_event(&h->phase, ev, h->ms);
    feed_event(&h->feed, ev, h->ms);
    for (int i = 0; i < N_WINDOWS; i++)
        if (window_at((enum window_id)i)->chat)
            window_at((enum window_id)i)->chat(h, ev);
    if (ev->kind == CHAT_FATAL)
        on_fatal(a, ev);
    if (ev->kind == CHAT_READY)         /* until now these were estimates */
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
    input_tell(h);
    figures_sample(&a->figures, h);
    for (int i = 0; i < N_WINDOWS; i++)
        if (works(h, i))
            window_at((enum window_id)i)->work(h);
}

int app_timeout(const struct app *a)
{
    const struct host *h = &a->host;
    int timeout = figures_timeout(&a->figures, h);
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
        buf_reset(&h->hint.text);            /* it was about the key before */
        fn(h);
    }
    return fn || behind;
}

/* Characters: keys where one only looks, text where one writes.  There only a single one can be a key ("?" of an empty draft):
 * of several at once none is, they are a word, or one emoji. */
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

/* Windows that look at everything that comes, from the topmost on. */
static bool some_window_takes(struct host *h, const struct key_event *ev)
{
    for (int i = 0; i < N_WINDOWS; i++) {
        const struct window *w = window_at((enum window_id)i);
        if (w->event && w->event(h, ev))
            return true;
    }
    return false;
}

static void click(struct host *h, const struct key_event *ev)
{
    const struct window *w = window_at(window_active(h));
    if (w->click && w->click(h, ev->row, ev->col))
        press(h, KEY_ENTER, 0);
}

void app_key(struct app *a, const struct key_event *ev, int64_t ms)
{
    struct host *h = &a->host;
    h->ms = ms;
    if (some_window_takes(h, ev) || ev->kind == KEYS_REPORT || !h->chat)
        return;
    bool armed = ms < h->typing.quit_until;
    if (armed)
        buf_reset(&h->hint.text);
    h->typing.walks = false;
    if (h->typing.literal)
        literally(h, ev);
    else if (ev->kind == KEYS_TEXT)
        typed(h, ev->text, ev->n);
    else if (ev->code == KEY_CLICK)
        click(h, ev);
    else
        press(h, ev->code, ev->mods);
    if (!h->typing.walks)
        pane_rest(h->pane);
    if (armed)                          /* any other key disarms */
        h->typing.quit_until = 0;
}
