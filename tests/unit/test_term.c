/* What a terminal shows in the end is what was drawn: libvterm is the terminal, at the other end of a pty. */
#include <langinfo.h>
#include <locale.h>
#include <pthread.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include <cmocka.h>
#include <vterm.h>

#include "base/unicode.h"
#include "ui/tui/keys.h"
#include "ui/tui/term.h"

/* --- the other end ---------------------------------------------------------------------------------------------- */

struct far_end {
    int master, slave;
    struct termios found;
    pthread_t reader;           /* a pty takes only some kilobytes before it makes the writer wait */
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct buf bytes;           /* all that came */
    size_t shown;               /* of those, given to the terminal */
    VTerm *vt;
    VTermScreen *screen;
    bool alternate, cursor, mouse;
    char title[64];
};

static void *read_all(void *arg)
{
    struct far_end *f = arg;
    char chunk[4096];
    ssize_t n;
    while ((n = read(f->master, chunk, sizeof chunk)) > 0) {
        pthread_mutex_lock(&f->lock);
        buf_add(&f->bytes, chunk, (size_t)n);
        pthread_cond_signal(&f->more);
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

static int on_prop(VTermProp prop, VTermValue *value, void *arg)
{
    struct far_end *f = arg;
    if (prop == VTERM_PROP_ALTSCREEN)
        f->alternate = value->boolean;
    else if (prop == VTERM_PROP_CURSORVISIBLE)
        f->cursor = value->boolean;
    else if (prop == VTERM_PROP_MOUSE)
        f->mouse = value->number != VTERM_PROP_MOUSE_NONE;
    return 1;
}

static void on_output(const char *bytes, size_t n, void *arg)
{
    struct far_end *f = arg;
    assert_int_equal(write(f->master, bytes, n), n);
}

static void far_open(struct far_end *f, int rows, int cols)
{
    static const VTermScreenCallbacks calls = {.settermprop = on_prop};
    *f = (struct far_end){.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .cursor = true};
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    assert_int_equal(openpty(&f->master, &f->slave, NULL, NULL, &size), 0);
    tcgetattr(f->slave, &f->found);
    f->vt = vterm_new(rows, cols);
    vterm_set_utf8(f->vt, 1);
    vterm_output_set_callback(f->vt, on_output, f);
    f->screen = vterm_obtain_screen(f->vt);
    vterm_screen_enable_altscreen(f->screen, 1);
    vterm_screen_set_callbacks(f->screen, &calls, f);
    vterm_screen_reset(f->screen, 1);
    assert_int_equal(pthread_create(&f->reader, NULL, read_all, f), 0);
}

static void far_close(struct far_end *f)
{
    close(f->slave);
    pthread_join(f->reader, NULL);
    close(f->master);
    vterm_free(f->vt);
    buf_free(&f->bytes);
}

/* Waits for all that was sent, and shows it. */
static void far_show(struct far_end *f, size_t sent)
{
    pthread_mutex_lock(&f->lock);
    while (f->bytes.len < sent)
        pthread_cond_wait(&f->more, &f->lock);
    assert_int_equal(f->bytes.len, sent);
    pthread_mutex_unlock(&f->lock);
    if (sent > f->shown)
        vterm_input_write(f->vt, f->bytes.data + f->shown, sent - f->shown);
    f->shown = sent;
}

static void far_resize(struct far_end *f, int rows, int cols)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    ioctl(f->master, TIOCSWINSZ, &size);
    vterm_set_size(f->vt, rows, cols);
}

/* Whether it would mark a paste. */
static bool far_marks_pastes(struct far_end *f)
{
    char bytes[16];
    vterm_output_set_callback(f->vt, NULL, NULL);
    vterm_keyboard_start_paste(f->vt);
    bool marks = vterm_output_read(f->vt, bytes, sizeof bytes) > 0;
    vterm_keyboard_end_paste(f->vt);
    vterm_output_read(f->vt, bytes, sizeof bytes);
    vterm_output_set_callback(f->vt, on_output, f);
    return marks;
}

static void check_restored(struct far_end *f)
{
    struct termios now;
    assert_false(f->alternate);
    assert_true(f->cursor);
    assert_false(f->mouse);
    assert_false(far_marks_pastes(f));
    tcgetattr(f->slave, &now);
    assert_int_equal(now.c_lflag, f->found.c_lflag);
    assert_int_equal(now.c_iflag, f->found.c_iflag);
    assert_int_equal(now.c_oflag, f->found.c_oflag);
    assert_int_equal(now.c_cflag, f->found.c_cflag);
    assert_memory_equal(now.c_cc, f->found.c_cc, sizeof now.c_cc);
}

static struct term *open_term(struct far_end *f, const char *theme)
{
    struct err e = {0};
    struct term *t = term_open(&(struct term_options){.theme = theme, .color = "auto", .fd = f->slave}, &e);
    if (!t)
        fail_msg("%s", e.msg);
    return t;
}

/* --- comparing -------------------------------------------------------------------------------------------------- */

static bool color_is(const VTermColor *c, int32_t want, bool fg)
{
    bool own = fg ? VTERM_COLOR_IS_DEFAULT_FG(c) : VTERM_COLOR_IS_DEFAULT_BG(c);
    return want < 0 ? own : !own && VTERM_COLOR_IS_INDEXED(c) && c->indexed.idx == want;
}

/* The characters of column `half` (0 or 1) of a glyph as code points; a flag has one in each.  What libc does not know is shown
 * as a replacement. */
static int chars_of(const struct glyph *g, int half, uint32_t *out)
{
    int n = 0, column = -1;
    for (size_t i = 0; i < g->n;) {
        uint32_t cp;
        i += unicode_decode(g->text + i, g->n - i, &cp, NULL);
        if (wcwidth((wchar_t)cp) < 0) {
            *out = half ? ' ' : UNICODE_REPLACEMENT;
            return 1;
        }
        column += wcwidth((wchar_t)cp) > 0;
        if (column == half)
            out[n++] = cp;
    }
    return n;
}

static void check_cell(struct far_end *f, const struct theme *theme, const struct cells *c, int row, int col)
{
    const struct cell *want = &c->at[row * c->cols + col];
    VTermScreenCell got;
    uint32_t chars[8] = {0};
    int half = want->glyph.width == 0;
    vterm_screen_get_cell(f->screen, (VTermPos){row, col}, &got);
    int n = chars_of(half ? &want[-1].glyph : &want->glyph, half, chars);
    if (half && !n)
        return;                                 /* the right half of one wide character */
    bool blank = n == 1 && chars[0] == ' ';
    bool ok = blank && (got.chars[0] == 0 || got.chars[0] == ' ');
    if (!ok)
        ok = !memcmp(chars, got.chars, (size_t)n * 4) && !got.chars[n];
    const struct theme_style *s = &theme->style[want->look.style];
    int marks = s->marks | want->look.marks;
    ok = ok && color_is(&got.bg, s->bg, false) && !got.attrs.reverse == !(marks & LOOK_REVERSE) && !got.attrs.underline == !(marks & LOOK_UNDERLINE);
    if (!blank || (marks & (LOOK_REVERSE | LOOK_UNDERLINE)))
        ok = ok && color_is(&got.fg, s->fg, true);
    if (!blank)
        ok = ok && !got.attrs.bold == !(marks & LOOK_BOLD) && !got.attrs.italic == !(marks & LOOK_ITALIC);
    if (!ok)
        fail_msg("row %d col %d of %dx%d: want \"%.*s\" %s marks %d, got U+%04X U+%04X width %d bold %d reverse %d underline %d fg %d bg %d", row, col, c->rows, c->cols,
                 want->glyph.n, want->glyph.text, style_name(want->look.style), marks, got.chars[0], got.chars[1], got.width, got.attrs.bold, got.attrs.reverse,
                 got.attrs.underline, got.fg.indexed.idx, got.bg.indexed.idx);
}

static void check_screen(struct far_end *f, const struct theme *theme, const struct cells *c)
{
    for (int r = 0; r < c->rows; r++)
        for (int col = 0; col < c->cols; col++)
            check_cell(f, theme, c, r, col);
    assert_int_equal(f->cursor, c->cursor_row >= 0);
    VTermPos pos;
    vterm_state_get_cursorpos(vterm_obtain_state(f->vt), &pos);
    if (c->cursor_row >= 0) {
        assert_int_equal(pos.row, c->cursor_row);
        assert_int_equal(pos.col, c->cursor_col);
    }
}

/* --- random frames ---------------------------------------------------------------------------------------------- */

static uint32_t seed = 1;

static uint32_t rnd(uint32_t n)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static const char *const nasty[] = {
    "the quick brown fox jumps", "a", " ", "                    ", "0123456789", "------", "\t", "\n", "\x1B[31mred\x1B[2J", "\xC2\x9B" "2J", "\xE2\x80\xAE" "abc", "\xFF\xFE",
    "\xE4\xBD\xA0\xE5\xA5\xBD", "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E", "\xED\x95\x9C", "e\xCC\x81", "a\xCC\x80\xCC\x81\xCC\x82\xCC\x83\xCC\x84", "\xCC\x81",
    "\xF0\x9F\x99\x82", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7", "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD", "\xE2\x9D\xA4\xEF\xB8\x8F", "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA",
    "\xE0\xA4\xB9\xE0\xA4\xBF\xE0\xA4\xA8\xE0\xA5\x8D\xE0\xA4\xA6\xE0\xA5\x80", "\xE0\xB8\x97\xE0\xB8\xB5\xE0\xB9\x88", "\xD7\xA9\xD6\xB8\xD7\x9C", "\xE2\x94\x80\xE2\x94\x82\xE2\x94\xBC",
    "\xEF\xBC\xA1\xEF\xBC\xA2", "\xE2\x80\x8B\xC2\xADx", "1\xEF\xB8\x8F\xE2\x83\xA3", "\xCD\xB8\xF4\x8F\xBF\xBF", "\xF0\x9F\xAB\xA8", "\xF0\x9F\x9B\xA0\xEF\xB8\x8F", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB",
};
enum { N_NASTY = sizeof nasty / sizeof *nasty };

/* Draws a few things over what is there, as a program does. */
static void change(struct cells *c)
{
    struct area all = cells_all(c);
    for (uint32_t n = 1 + rnd(6); n; n--) {
        struct look look = {(uint8_t)rnd(N_STYLES), (uint8_t)(rnd(3) ? 0 : 1u << rnd(4))};
        uint32_t what = rnd(12);
        if (what == 0)
            cells_blank(c, (struct area){(int)rnd(24), (int)rnd(80), (int)rnd(8), (int)rnd(60)}, look);
        else if (what == 1)                     /* scrolls a part up by a row */
            for (int r = (int)rnd((uint32_t)c->rows); r + 1 < c->rows; r++)
                memcpy(c->at + r * c->cols, c->at + (r + 1) * c->cols, (size_t)c->cols * sizeof *c->at);
        else
            for (int row = (int)rnd((uint32_t)c->rows), col = (int)rnd((uint32_t)c->cols), k = 1 + (int)rnd(5); k; k--)
                col = cells_puts(c, all, row, col, look, nasty[rnd(N_NASTY)]);
    }
    for (int r = 0; r < c->rows; r++) {         /* libvterm puts marks behind the last column to the next row */
        struct glyph *last = &c->at[(r + 1) * c->cols - 1].glyph;
        if (last->width == 1 && last->n > 1)
            *last = (struct glyph){.n = 1, .width = 1, .text = "x"};
    }
    c->cursor_row = rnd(5) ? (int)rnd((uint32_t)c->rows) : -1;
    c->cursor_col = (int)rnd((uint32_t)c->cols);
}

static bool holds(const struct far_end *f, size_t from, const char *what)
{
    return f->bytes.len > from && memmem(f->bytes.data + from, f->bytes.len - from, what, strlen(what)) != NULL;
}

static void test_term__after_any_frames_the_terminal_shows_what_was_drawn(void **state)
{
    (void)state;
    struct far_end f;
    struct cells c = {0};
    far_open(&f, 24, 80);
    struct term *t = open_term(&f, "dark");
    const struct theme *theme = theme_at(theme_find("dark"));
    cells_size(&c, 24, 80);
    for (int i = 0; i < 6000; i++) {
        size_t before = term_sent(t);
        bool may_erase = i == 0;
        change(&c);
        if (rnd(100) == 0) {
            int rows = 1 + (int)rnd(40), cols = 1 + (int)rnd(120);
            far_resize(&f, rows, cols);
            cells_size(&c, rows, cols);
            change(&c);
            may_erase = true;
        } else if (rnd(100) == 0) {
            term_leave(t);
            far_show(&f, term_sent(t));
            check_restored(&f);
            term_enter(t);
            may_erase = true;
        } else if (rnd(200) == 0) {
            term_redraw(t);
            may_erase = true;
        } else if (rnd(200) == 0) {
            term_report(t, REPORT_SYNC, (int)rnd(2));
        } else if (rnd(100) == 0) {
            theme = theme_at((int)rnd(6));
            term_theme(t, theme);
            may_erase = true;
        }
        term_draw(t, &c);
        far_show(&f, term_sent(t));
        if (!may_erase && (holds(&f, before, "\033[2J") || holds(&f, before, "\033[H\033[J")))
            fail_msg("frame %d erased the screen", i);
        check_screen(&f, theme, &c);
        size_t sent = term_sent(t);
        term_draw(t, &c);
        assert_int_equal(term_sent(t), sent);   /* nothing has changed */
    }
    term_leave(t);
    far_show(&f, term_sent(t));
    term_close(t);
    check_restored(&f);
    cells_free(&c);
    far_close(&f);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    setenv("TERM", "xterm-256color", 1);
    unsetenv("NO_COLOR");
    unsetenv("Q35CHAT_COLOR");
    unsetenv("TMUX");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_term__after_any_frames_the_terminal_shows_what_was_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
