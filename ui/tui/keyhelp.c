#include "ui/tui/windows.h"

#include <string.h>

#include "base/least.h"
#include "ui/tui/lines.h"

static const struct look POPUP = {STYLE_popup, 0};

struct keyhelp {
    int  top;                           /* first line of the list that is shown */
    bool testing;                       /* keys are only shown */
    bool escape;                        /* the key before was Esc */
    struct buf told;                    /* while testing: a line for each key so far */
    struct buf sent;                    /* the bytes of the key that comes in */
};

static struct keyhelp *keyhelp(const struct host *h)
{
    return h->state[WINDOW_keys];
}

void keyhelp_open(struct host *h)
{
    if (h->open[WINDOW_keys])
        return;
    window_open(h, WINDOW_keys);
    keyhelp(h)->top = 0;
}

ACT(keys, keyhelp_open(h))
ACT(keys_end, window_close(h, WINDOW_keys))

static void scroll_list(struct host *h, int by)
{
    keyhelp(h)->top += by;
}

static bool turn_wheel(struct host *h, int rows)
{
    scroll_list(h, rows);
    return true;
}

static int list_page(const struct host *h)
{
    return h->at.pane.rows > 2 ? h->at.pane.rows - 2 : 1;
}

ACT(keys_up, scroll_list(h, -1))
ACT(keys_down, scroll_list(h, 1))
ACT(keys_page_up, scroll_list(h, -list_page(h)))
ACT(keys_page_down, scroll_list(h, list_page(h)))

/* Writes the keys of the window below, or what was pressed while keys are tested. */
static void put_help(struct host *h, struct buf *out)
{
    const struct window *below = h->windows[window_below(h, WINDOW_keys)];
    struct contexts where = {.n = 0};
    if (keyhelp(h)->testing) {
        buf_adds(out, "Press keys: what each is, what it sends, what it does.  Ctrl-C or Esc twice ends.\n");
        buf_add(out, buf_str(&keyhelp(h)->told), keyhelp(h)->told.len);
        return;
    }
    if (below->told)
        below->told(h, &where);
    else
        window_contexts(h, window_below(h, WINDOW_keys), &where);
    actions_help(h->actions, &where, out);
    buf_adds(out, "\nAlt keys can also be typed as Ctrl-X, then the key.\n"
                  "/keys all names the actions, for the config file; /keys test shows what a key sends.\n");
}

/* --- what a key sends ------------------------------------------------------------------------------------------- */

void keyhelp_test(struct host *h)
{
    keyhelp_open(h);
    keyhelp(h)->testing = true;
    buf_reset(&keyhelp(h)->told);
    buf_reset(&keyhelp(h)->sent);
}

static bool is_testing(const struct host *h)
{
    return h->open[WINDOW_keys] && keyhelp(h)->testing;
}

void keyhelp_sent(struct host *h, const char *bytes, size_t n)
{
    if (is_testing(h))
        buf_add(&keyhelp(h)->sent, bytes, n);
}

/* Writes the bytes that a key sent, readably. */
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

static const char *meaning(struct host *h, const struct key_event *ev)
{
    struct contexts where;
    window_contexts(h, window_below(h, WINDOW_keys), &where);
    if (ev->kind != KEYS_KEY)
        return "text";
    const struct binding *b = actions_meaning(h->actions, &where, ev->code, ev->mods);
    return ev->code == 'x' && ev->mods == MOD_CTRL ? "begins other keys" : b ? b->action : "nothing here";
}

/* While keys are tested, writes what was pressed and what it does.  True: the key does nothing else. */
static bool tell_pressed(struct host *h, const struct key_event *ev)
{
    bool escape = ev->kind == KEYS_KEY && ev->code == KEY_ESCAPE, stop = ev->kind == KEYS_KEY && ev->code == 'c' && ev->mods == MOD_CTRL;
    if (!is_testing(h))
        return false;
    if (ev->kind == KEYS_REPORT || ev->kind == KEYS_PASTE_END)
        return true;
    if (stop || (escape && keyhelp(h)->escape && keyhelp(h)->told.len)) {
        act_keys_end(h);
        return true;
    }
    struct buf *out = &keyhelp(h)->told;
    size_t from = out->len;
    buf_adds(out, "  ");
    if (ev->kind == KEYS_KEY)
        keys_name(ev->code, ev->mods, out);
    else
        buf_add(out, ev->text, ev->n < 16 ? ev->n : strcspn(ev->text, " ") < 16 ? strcspn(ev->text, " ") : 0);
    pad(out, from, 20);
    if (keyhelp(h)->sent.len <= 16)
        put_bytes(out, &keyhelp(h)->sent);
    pad(out, from, 46);
    buf_addf(out, "%s\n", ev->kind == KEYS_PASTE ? "a paste" : meaning(h, ev));
    buf_reset(&keyhelp(h)->sent);
    keyhelp(h)->escape = escape;
    keyhelp(h)->top = 1 << 20;              /* scrolls to the newest */
    return true;
}

/* --- drawing ---------------------------------------------------------------------------------------------------- */

/* Adds the lines of the help from `p` to `end`; what keys do is wrapped in its column. */
static void wrap_help(struct lines *lines, const char *p, const char *end, int columns)
{
    enum { HELP_COLUMN = 24, LEAST_HELP = 12 };
    int indent = columns >= HELP_COLUMN + LEAST_HELP ? HELP_COLUMN : 4;
    while (p < end) {
        size_t n = strcspn(p, "\n");
        struct look look = {STYLE_popup, *p == ' ' ? 0 : LOOK_BOLD};
        lines_wrap(lines, look, p, n, 0, most(columns, 1), columns > indent && *p == ' ' ? indent : 0);
        p += n + (p[n] == '\n');
    }
}

static int count_newlines(const char *p, const char *end)
{
    int n = 0;
    while (p < end)
        n += *p++ == '\n';
    return n;
}

/* Returns the section that begins the second column, so that both are about equally long. */
static const char *middle_section(const char *help)
{
    const char *end = help + strlen(help), *best = end;
    int all = count_newlines(help, end), longest = all;
    for (const char *p = help; (p = strstr(p, "\n\n")); p++) {
        int left = count_newlines(help, p + 1), right = all - left - 1;
        if (most(left, right) < longest) {
            longest = most(left, right);
            best = p + 2;
        }
    }
    return best;
}

/* Draws the keys that work here over the transcript: in two columns if there is room. */
static void draw_keys(struct host *h, struct cells *c, struct area at)
{
    enum { TWO_COLUMNS = 100, GAP = 2 };
    struct buf help = {0}, more = {0};
    struct lines columns[2] = {0};
    bool two = at.cols >= TWO_COLUMNS && !keyhelp(h)->testing;
    int wide = two ? (at.cols - GAP) / 2 : at.cols;
    put_help(h, &help);
    const char *text = buf_str(&help), *end = text + strlen(text), *middle = two ? middle_section(text) : end;
    wrap_help(&columns[0], text, middle, wide);
    wrap_help(&columns[1], middle, end, wide);
    int n = most(columns[0].n, columns[1].n), rows = n > at.rows && at.rows > 1 ? at.rows - 1 : at.rows;
    keyhelp(h)->top = most(least(keyhelp(h)->top, n - rows), 0);
    cells_blank(c, at, POPUP);
    c->cursor_row = at.row;
    c->cursor_col = at.col;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < rows && keyhelp(h)->top + i < columns[k].n; i++)
            lines_draw(&columns[k], keyhelp(h)->top + i, c, (struct area){at.row, at.col + k * (wide + GAP), at.rows, wide}, i);
    if (keyhelp(h)->top + rows < n)
        buf_addf(&more, "-- %d more, PgDn --", n - keyhelp(h)->top - rows);
    else if (rows < at.rows)
        buf_adds(&more, "-- end --");
    cells_puts(c, at, at.rows - 1, 0, (struct look){STYLE_popup, LOOK_DIM}, buf_str(&more));
    lines_free(&columns[0]);
    lines_free(&columns[1]);
    buf_free(&help);
    buf_free(&more);
}

/* --- the window ------------------------------------------------------------------------------------------------- */

static void end_test(struct host *h)
{
    keyhelp(h)->testing = false;
    buf_free(&keyhelp(h)->told);
}

static void free_keyhelp(struct host *h)
{
    buf_free(&keyhelp(h)->told);
    buf_free(&keyhelp(h)->sent);
}

static const char *keyhelp_hint(struct host *h)
{
    return keyhelp(h)->testing ? "Esc Esc back" : "q back";
}

static int cover_all(struct host *h, int rows)
{
    (void)h;
    return rows;
}

const struct window window_keys = {
    .bytes = sizeof(struct keyhelp), .free = free_keyhelp, .in = {{CONTEXT_keys}, 1}, .event = tell_pressed, .wheel = turn_wheel,
    .closed = end_test, .hint_now = keyhelp_hint, .cover_rows = cover_all, .draw_cover = draw_keys,
};
