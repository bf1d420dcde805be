#include "ui/tui/window.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/memory.h"
#include "ui/tui/keys.h"

/* --- keys ---------------------------------------------------------------------------------------------------------- */

static const struct { const char *name; bool typed; const char *title; } contexts[N_CONTEXTS] = {
#define TYPED true
#define KEYS false
#define CONTEXT(name, characters, title, manual) {#name, characters, title},
#include "config/contexts.def"
#undef TYPED
#undef KEYS
};

struct actions *actions_open(const struct key_row *rows, int n)
{
    struct actions *a = memory_zeroed(1, sizeof *a);
    a->rows = rows;
    a->n = a->n_rows = n;
    a->bindings = memory_zeroed((size_t)n, sizeof *a->bindings);
    for (int i = 0; i < n; i++) {
        const struct key_row *r = &rows[i];
        a->bindings[i] = (struct binding){.context = r->context, .key = r->key, .action = r->action, .help = r->help, .fn = r->fn};
        struct binding *b = &a->bindings[i];
        b->behind_ctrl_x = !strncmp(b->key, "Ctrl-X ", 7);
        CHECK(keys_parse(b->key + (b->behind_ctrl_x ? 7 : 0), &b->code, &b->mods));
    }
    return a;
}

void actions_close(struct actions *a)
{
    arena_free(&a->mem);
    free(a->bindings);
    free(a);
}

/* --- what the user binds ---------------------------------------------------------------------------------------- */

static int find_context(const char *name)
{
    for (int i = 0; i < N_CONTEXTS; i++)
        if (!strcmp(contexts[i].name, name))
            return i;
    return -1;
}

/* After the key with the help was unbound, moves the help to another key of the same action. */
static void pass_help(struct actions *a, const struct binding *gone)
{
    for (int i = 0; i < a->n; i++) {
        struct binding *b = &a->bindings[i];
        if (b->context == gone->context && b->fn == gone->fn) {
            b->help = gone->help;
            return;
        }
    }
}

/* Removes a key of a context; its help passes to another key of the action. */
static void unbind(struct actions *a, enum context context, const struct binding *key)
{
    for (int i = 0; i < a->n; i++) {
        struct binding gone = a->bindings[i];
        if (gone.context != context || gone.code != key->code || gone.mods != key->mods || gone.behind_ctrl_x != key->behind_ctrl_x)
            continue;
        memmove(&a->bindings[i], &a->bindings[i + 1], (size_t)(a->n - i - 1) * sizeof gone);
        a->n--;
        if (*gone.help)
            pass_help(a, &gone);
        return;
    }
}

/* Binds a key to an action, in place of what it did before. */
static void bind(struct actions *a, enum context context, struct binding b, const struct key_row *row)
{
    unbind(a, context, &b);
    b.context = context;
    b.action = row->action;
    b.fn = row->fn;
    b.help = row->help;
    for (int i = 0; i < a->n_rows && !*b.help; i++)     /* the row with the help of this action */
        if (a->rows[i].fn == row->fn)
            b.help = a->rows[i].help;
    for (int i = 0; i < a->n; i++)
        if (a->bindings[i].context == context && a->bindings[i].fn == b.fn && *a->bindings[i].help)
            b.help = "";
    a->bindings = memory_resized(a->bindings, (size_t)(a->n + 1) * sizeof *a->bindings);
    a->bindings[a->n++] = b;
}

/* True if the key is no plain character of a context in which text is typed. */
static bool can_be_key(enum context context, const struct binding *key)
{
    bool plain = key->code < KEY_NONE && !key->mods && !key->behind_ctrl_x;
    return !plain || !contexts[context].typed;
}

/* Parses the name of a key.  False with the reason. */
static bool take_key(struct actions *a, char **words, int n, struct binding *b, struct err *e)
{
    b->behind_ctrl_x = n == 2 && !strcasecmp(words[0], "Ctrl-X");
    const char *name = n > 0 ? words[n - 1] : "nothing";
    if (n < 1 || n > 2 || (n == 2 && !b->behind_ctrl_x) || !keys_parse(name, &b->code, &b->mods))
        return err_set(e, "unknown key %s; keys are written Ctrl-G, Alt-Enter, F5, Ctrl-X g", name);
    if (b->code == 'x' && b->mods == MOD_CTRL)
        return err_set(e, "Ctrl-X begins other keys: Ctrl-X g");
    struct buf shown = {0};
    buf_adds(&shown, b->behind_ctrl_x ? "Ctrl-X " : "");
    keys_name(b->code, b->mods, &shown);
    b->key = arena_strdup(&a->mem, shown.data);
    buf_free(&shown);
    return true;
}

/* Binds the key in the contexts of the action (for `none`: of the key), or in the one that was named. */
static bool bind_words(struct actions *a, char **words, int n, struct err *e)
{
    const char *action = n ? words[n - 1] : "";
    int context = n > 2 ? find_context(words[0]) : -1, named = context >= 0;
    bool none = !strcmp(action, "none"), in[N_CONTEXTS] = {false};
    const struct key_row *row = NULL;
    struct binding b = {0};
    for (int i = 0; i < a->n_rows; i++)
        if (!strcmp(a->rows[i].action, action)) {
            row = &a->rows[i];
            in[named ? context : (int)a->rows[i].context] = true;
        }
    if (!row && !none)
        return err_set(e, "unknown action %s; /keys all lists them", action);
    if (!take_key(a, words + named, n - 1 - named, &b, e))
        return false;
    for (int c = 0; c < N_CONTEXTS; c++)
        if (in[c] && !can_be_key((enum context)c, &b))
            return err_set(e, "%s could no longer be typed; choose a key with Ctrl or Alt", b.key);
    for (int c = 0; c < N_CONTEXTS; c++) {
        if (none && (!named || c == context))
            unbind(a, (enum context)c, &b);
        else if (in[c])
            bind(a, (enum context)c, b, row);
    }
    return true;
}

bool actions_bind(struct actions *a, const char *text, struct err *e)
{
    enum { WORDS = 8 };
    char *words[WORDS], *copy = memory_strdup(text), *rest = copy;
    struct err why = {0};
    int n = 0;
    for (char *word; n < WORDS && (word = strtok_r(rest, " \t", &rest));)
        words[n++] = word;
    bool ok = bind_words(a, words, n, &why) || err_set(e, "key = %s: %s", text, why.msg);
    free(copy);
    return ok;
}

/* --- what a key means ------------------------------------------------------------------------------------------- */

/* Returns the action of a key in the first context that has one, or NULL. */
static action_fn *look_up(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods, bool behind_ctrl_x)
{
    for (int k = 0; k < where->n; k++)
        for (int i = 0; i < a->n; i++) {
            const struct binding *b = &a->bindings[i];
            if (b->context == where->at[k] && b->code == code && b->mods == mods && b->behind_ctrl_x == behind_ctrl_x)
                return b->fn;
        }
    return NULL;
}

action_fn *actions_find(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods, bool behind_ctrl_x)
{
    action_fn *fn = look_up(a, where, code, mods, behind_ctrl_x);
    if (!fn && (mods & MOD_ALT))        /* few terminals distinguish Alt-Shift-S from Alt-S */
        fn = look_up(a, where, code, mods & (uint8_t)~MOD_SHIFT, behind_ctrl_x);
    if (!fn && behind_ctrl_x) {
        mods |= MOD_ALT;
        keys_normalize(&code, &mods, 0);
        fn = actions_find(a, where, code, mods, false);
    }
    return fn;
}

/* --- help ------------------------------------------------------------------------------------------------------- */

/* Appends a row of help: the keys of an action, as many as fit, and what it does. */
static void help_row(const struct actions *a, const struct binding *b, struct buf *out)
{
    enum { KEYS_COLUMNS = 22 };
    size_t start = out->len;
    buf_adds(out, "  ");
    for (int i = 0; i < a->n; i++) {
        const struct binding *other = &a->bindings[i];
        if (other->context != b->context || other->fn != b->fn)
            continue;
        if (out->len - start > 2 && out->len - start + strlen(other->key) + 2 > KEYS_COLUMNS)
            break;
        buf_addf(out, out->len - start > 2 ? ", %s" : "%s", other->key);
    }
    do
        buf_addc(out, ' ');
    while (out->len - start < KEYS_COLUMNS + 2);
    buf_addf(out, "%s\n", b->help);
}

void actions_help(const struct actions *a, const struct contexts *where, struct buf *out)
{
    for (int k = 0; k < where->n; k++) {
        bool any = false;
        for (int i = 0; i < a->n; i++) {
            const struct binding *b = &a->bindings[i];
            if (b->context != where->at[k] || !*b->help)
                continue;
            if (!any)
                buf_addf(out, out->len ? "\n%s\n" : "%s\n", contexts[b->context].title);
            any = true;
            help_row(a, b, out);
        }
    }
}

void actions_list(const struct actions *a, struct buf *out)
{
    buf_adds(out, "# where    key              action\n");
    for (int i = 0; i < a->n; i++)
        buf_addf(out, "%-10s %-16s %s\n", contexts[a->bindings[i].context].name, a->bindings[i].key, a->bindings[i].action);
    buf_adds(out, "# In the config file: key = view Ctrl-E line_down.  Without the place, wherever\n"
                  "# the action has a key already; the action none takes a key away.\n");
}

const struct binding *actions_meaning(const struct actions *a, const struct contexts *where, uint32_t code, uint8_t mods)
{
    action_fn *fn = actions_find(a, where, code, mods, false);
    for (int k = 0; k < where->n && fn; k++)
        for (int i = 0; i < a->n; i++)
            if (a->bindings[i].context == where->at[k] && a->bindings[i].fn == fn)
                return &a->bindings[i];
    return NULL;
}

/* --- how the transcript is shown ----------------------------------------------------------------------------------- */

/* Chooses the colour of a token by its probability or its source.  False: it keeps its own. */
static bool style_of(enum heat heat, const struct chat_token *t, enum style *style)
{
    const float sure = 0.9f, unsure = 0.6f, doubtful = 0.3f;
    if (heat == HEAT_HOW) {
        *style = t->source == TOKEN_MTP ? STYLE_drafted : STYLE_looked_up;
        return token_was_drafted(t->source);
    }
    *style = t->prob >= sure ? STYLE_sure : t->prob < doubtful ? STYLE_doubtful : STYLE_unsure;
    return t->prob >= 0 && (t->prob < unsure || t->prob >= sure);
}

void heat_tint(struct heat_tint *h, struct pane *p, struct chat *c)
{
    int n_messages = chat_n_messages(c), under_way = chat_n_tokens(c, -1);
    if (h->shown == h->tinted && under_way == h->n_tokens && p->items.n == h->n_items)
        return;
    bool only_new = h->shown == h->tinted && p->items.n == h->n_items;
    for (int i = only_new && h->n_items > 2 ? h->n_items - 2 : 0; i < p->items.n; i++) {
        enum item_kind kind = p->items.at[i].kind;
        int message = p->items.at[i].message;
        if (message < 0 || (kind != ITEM_ANSWER && kind != ITEM_REASONING))
            continue;
        if (h->shown == HEAT_NONE) {
            pane_tint(p, i, NULL, 0);
        } else {
            int n = chat_n_tokens(c, message < n_messages ? message : -1), used = 0;
            struct pane_tint *tints = memory_zeroed((size_t)n + 1, sizeof *tints);
            struct chat_token t;
            for (int k = 0; k < n && chat_token(c, message < n_messages ? message : -1, k, &t); k++) {
                struct pane_tint tint = {.at = t.at, .n = t.n};
                if (t.reasoning == (kind == ITEM_REASONING) && t.n && style_of(h->shown, &t, &tint.style))
                    tints[used++] = tint;
            }
            pane_tint(p, i, tints, used);
            free(tints);
        }
    }
    h->tinted = h->shown;
    h->n_tokens = under_way;
    h->n_items = p->items.n;
}

/* --- windows ------------------------------------------------------------------------------------------------------- */

void window_close(struct host *h, enum window_id id)
{
    if (!h->open[id])
        return;
    h->open[id] = false;
    if (h->windows[id]->closed)
        h->windows[id]->closed(h);
}

void window_open(struct host *h, enum window_id id)
{
    for (int i = 0; i < (int)id && !h->windows[id]->asks; i++)
        if (!h->windows[i]->asks)
            window_close(h, (enum window_id)i);
    h->open[id] = true;
}

void window_contexts(struct host *h, enum window_id id, struct contexts *where)
{
    *where = h->windows[id]->in;
    if (h->windows[id]->contexts)
        h->windows[id]->contexts(h, where);
    contexts_add(where, CONTEXT_any);
}

bool window_escape(struct host *h, enum window_id id, bool escape)
{
    if (h->windows[id]->close)
        return h->windows[id]->close(h, escape);
    window_close(h, id);
    return true;
}

enum window_id window_below(const struct host *h, enum window_id id)
{
    int i = (int)id + 1;
    while (i < N_WINDOWS - 1 && !h->open[i])
        i++;
    return (enum window_id)i;
}

enum window_id window_active(const struct host *h)
{
    return h->open[0] ? (enum window_id)0 : window_below(h, 0);
}

enum window_id window_front(const struct host *h)
{
    enum window_id id = window_active(h);
    while (h->windows[id]->asks)
        id = window_below(h, id);
    return id;
}

enum window_id window_in_place_of_input(const struct host *h)
{
    enum window_id id = window_active(h);
    while (!h->windows[id]->draw_input)
        id = window_below(h, id);
    return id;
}

struct popup *window_list(struct host *h, enum window_id id)
{
    return h->windows[id]->list && window_active(h) == id ? h->windows[id]->list(h) : NULL;
}

/* --- the host ---------------------------------------------------------------------------------------------------- */

enum { HINT_MS = 4000 };

void host_init(struct host *h)
{
    h->pane = pane_open();
    feed_init(&h->feed, h->pane, h->o);
    for (int i = 0; i < N_WINDOWS; i++) {
        if (h->windows[i]->bytes)
            h->state[i] = memory_zeroed(1, h->windows[i]->bytes);
        h->line[i] = h->windows[i]->has_line ? editor_open() : NULL;
        if (h->windows[i]->init)
            h->windows[i]->init(h);
    }
    h->open[N_WINDOWS - 1] = true;
}

void host_free(struct host *h)
{
    for (int i = 0; i < N_WINDOWS; i++) {
        if (h->windows[i]->free)
            h->windows[i]->free(h);
        editor_close(h->line[i]);
        free(h->state[i]);
    }
    actions_close(h->actions);
    pane_close(h->pane);
    buf_free(&h->hint.text);
    buf_free(&h->bell.text);
    buf_free(&h->copied);
}

bool host_busy(const struct host *h)
{
    return h->chat && chat_busy(h->chat);
}

void host_hint(struct host *h, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_reset(&h->hint.text);
    buf_adds(&h->hint.text, text);
    h->hint.until = h->ms + HINT_MS;
    h->hint.columns = 0;
}

void host_copy(struct host *h, struct buf *text, const char *what)
{
    if (!text->len) {
        host_hint(h, "no %s here", what);
    } else {
        buf_reset(&h->copied);
        buf_add(&h->copied, text->data, text->len);
        h->wishes |= WISH_COPY;
    }
    buf_free(text);
}

struct editor *host_focus(struct host *h)
{
    enum window_id id = window_active(h);
    return h->windows[id]->focus ? h->windows[id]->focus(h) : h->line[id];
}

void host_edited(struct host *h)
{
    const struct window *w = h->windows[window_active(h)];
    if (w->edited)
        w->edited(h);
}

bool host_click_fold(struct host *h, int row, int col)
{
    int item = area_has(h->at.pane, row, col) ? pane_fold_at(h->pane, row - h->at.pane.row) : -1;
    if (item >= 0)
        pane_toggle_fold(h->pane, item);
    return item >= 0;
}

void host_cursor_in_pane(struct host *h, struct cells *c)
{
    c->cursor_row = h->at.pane.row + pane_cursor(h->pane);
    c->cursor_col = 0;
}

void host_changed(struct host *h)
{
    for (int i = 0; i < N_WINDOWS; i++)
        if (h->windows[i]->changed)
            h->windows[i]->changed(h);
    if (!chat_n_messages(h->chat))
        pane_reset(h->pane);
    feed_sync(&h->feed);
    h->recount = true;
}

void host_began(struct host *h, bool ok, const struct err *e)
{
    h->recount = true;
    if (!ok) {
        feed_sync(&h->feed);
        feed_say(&h->feed, ITEM_ERROR, "%s", e->msg);
        host_hint(h, "%s", e->msg);     /* near the input, where the user looks */
        return;
    }
    h->n_turns++;
    h->typing.quit_until = 0;
    feed_turn(&h->feed);
    phase_turn(&h->phase, h->ms);
    pane_to_end(h->pane);
}

void host_stop(struct host *h)
{
    h->phase.stopping = true;
    chat_interrupt(h->chat);
}

/* --- bell --------------------------------------------------------------------------------------------------------- */

enum { WAIT_MS = 5000 };

void bell_call(struct bell *b, const char *when, const char *what, const char *conversation, int64_t ms)
{
    bool always = !strcmp(when, "done");
    if (!strcmp(when, "never") || (!always && b->focus == BELL_IN))
        return;
    buf_reset(&b->text);
    buf_addf(&b->text, "%s%s%s", what, *conversation ? ": " : "", conversation);
    b->due_ms = ms + (always || b->focus == BELL_OUT ? 0 : WAIT_MS);
}

void bell_focus(struct bell *b, bool in)
{
    b->focus = in ? BELL_IN : BELL_OUT;
    if (in)
        bell_answer(b);
}

void bell_answer(struct bell *b)
{
    b->due_ms = 0;
}

bool bell_due(struct bell *b, int64_t ms)
{
    bool due = b->due_ms && ms >= b->due_ms;
    if (due)
        b->due_ms = 0;
    return due;
}

int bell_timeout(const struct bell *b, int64_t ms)
{
    return !b->due_ms ? -1 : b->due_ms > ms ? (int)(b->due_ms - ms) : 0;
}
