/* The keys that work where one is, and what a key sends. */
#include "ui/tui/app.h"

#include <string.h>

void act_keys(struct app *a)
{
    if (a->mode == MODE_KEYS)
        return;
    a->below = a->mode;
    a->mode = MODE_KEYS;
    a->keys_top = 0;
}

void act_keys_end(struct app *a)
{
    a->mode = a->below;
    a->testing = false;
    buf_free(&a->tested);
}

static void move(struct app *a, int by)
{
    a->keys_top += by;
}

static int page(const struct app *a)
{
    return a->pane_rows > 2 ? a->pane_rows - 2 : 1;
}

void act_keys_up(struct app *a)
{
    move(a, -1);
}

void act_keys_down(struct app *a)
{
    move(a, 1);
}

void act_keys_page_up(struct app *a)
{
    move(a, -page(a));
}

void act_keys_page_down(struct app *a)
{
    move(a, page(a));
}

static void where_one_was(const struct app *a, struct contexts *where)
{
    *where = (struct contexts){{CONTEXT_input, CONTEXT_empty, CONTEXT_edit, CONTEXT_any}, 4};
    if (a->approve.on)
        *where = (struct contexts){{approve_replies(&a->approve) ? CONTEXT_reply : CONTEXT_approve, CONTEXT_any}, 2};
    else if (a->below != MODE_INPUT)
        app_contexts_of(a, a->below, where);
}

/* As they are told: what works just now and what works everywhere first; how one writes, which most know, behind it. */
static void in_order_of_use(const struct app *a, struct contexts *where)
{
    if (a->approve.on || a->below != MODE_INPUT)
        return;
    if (editor_empty(a->editor))
        *where = (struct contexts){{CONTEXT_empty, CONTEXT_any, CONTEXT_input, CONTEXT_edit}, 4};
    else
        *where = (struct contexts){{CONTEXT_any, CONTEXT_input, CONTEXT_edit, CONTEXT_empty}, 4};
}

void app_keys_help(const struct app *a, struct buf *out)
{
    struct contexts where;
    if (a->testing) {
        buf_adds(out, "Press keys: what each is, what it sends, what it does.  Ctrl-C or Esc twice ends.\n");
        buf_add(out, buf_str(&a->tested), a->tested.len);
        return;
    }
    where_one_was(a, &where);
    in_order_of_use(a, &where);
    actions_help(a->actions, &where, out);
    buf_adds(out, "\nEvery Alt key is also Ctrl-X and the key behind it.\n"
                  "/keys all names the actions, for the config file; /keys test tells what a key is.\n");
}

/* --- what a key sends ------------------------------------------------------------------------------------------- */

void keyhelp_test(struct app *a)
{
    act_keys(a);
    a->testing = true;
    buf_reset(&a->tested);
    buf_reset(&a->sent);
}

bool keyhelp_tests(const struct app *a)
{
    return a->mode == MODE_KEYS && a->testing;
}

void app_sent(struct app *a, const char *bytes, size_t n)
{
    if (keyhelp_tests(a))
        buf_add(&a->sent, bytes, n);
}

static void put_bytes(struct buf *out, const struct buf *sent)
{
    for (size_t i = 0; i < sent->len; i++) {
        unsigned char c = (unsigned char)sent->data[i];
        buf_adds(out, i ? " " : "");
        if (c == 27)
            buf_adds(out, "ESC");
        else if (c < ' ')
            buf_addf(out, "^%c", c + '@');
        else if (c < 127)
            buf_addc(out, (char)c);
        else
            buf_addf(out, "%02X", c);
    }
}

static void pad(struct buf *out, size_t from, size_t columns)
{
    do
        buf_addc(out, ' ');
    while (out->len - from < columns);
}

static const char *meaning(const struct app *a, const struct key_event *ev)
{
    struct contexts where;
    where_one_was(a, &where);
    if (ev->kind != KEYS_KEY)
        return "text";
    const struct binding *b = actions_meaning(a->actions, &where, ev->code, ev->mods);
    return ev->code == 'x' && ev->mods == MOD_CTRL ? "begins other keys" : b ? b->action : "nothing here";
}

void keyhelp_take(struct app *a, const struct key_event *ev)
{
    bool escape = ev->kind == KEYS_KEY && ev->code == KEY_ESCAPE, stop = ev->kind == KEYS_KEY && ev->code == 'c' && ev->mods == MOD_CTRL;
    if (ev->kind == KEYS_REPORT || ev->kind == KEYS_PASTE_END)
        return;
    if (stop || (escape && a->key == KEY_ESCAPE && a->tested.len)) {
        act_keys_end(a);
        return;
    }
    struct buf *out = &a->tested;
    size_t from = out->len;
    buf_adds(out, "  ");
    if (ev->kind == KEYS_KEY)
        keys_name(ev->code, ev->mods, out);
    else
        buf_add(out, ev->text, ev->n < 16 ? ev->n : strcspn(ev->text, " ") < 16 ? strcspn(ev->text, " ") : 0);
    pad(out, from, 20);
    if (a->sent.len <= 16)
        put_bytes(out, &a->sent);
    pad(out, from, 46);
    buf_addf(out, "%s\n", ev->kind == KEYS_PASTE ? "a paste" : meaning(a, ev));
    buf_reset(&a->sent);
    a->key = escape ? KEY_ESCAPE : KEY_NONE;
    a->keys_top = 1 << 20;              /* the newest is in view */
}
