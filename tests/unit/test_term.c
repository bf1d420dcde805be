/* A terminal shows what was drawn: libvterm is the terminal, at the other end of a pty. */
#include <locale.h>
#include <poll.h>
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
    struct buf shown;           /* of those, what the terminal was given; only for who asks it */
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

static void far_prepare(struct far_end *f, int rows, int cols)
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
}

static void far_listen(struct far_end *f)
{
    assert_int_equal(pthread_create(&f->reader, NULL, read_all, f), 0);
}

static void far_open(struct far_end *f, int rows, int cols)
{
    far_prepare(f, rows, cols);
    far_listen(f);
}

static void far_close(struct far_end *f)
{
    close(f->slave);
    pthread_join(f->reader, NULL);
    close(f->master);
    vterm_free(f->vt);
    buf_free(&f->bytes);
    buf_free(&f->shown);
}

/* Waits for all that was sent, and shows it. */
static void far_show(struct far_end *f, size_t sent)
{
    pthread_mutex_lock(&f->lock);
    while (f->bytes.len < sent)
        pthread_cond_wait(&f->more, &f->lock);
    assert_int_equal(f->bytes.len, sent);
    size_t before = f->shown.len;
    buf_add(&f->shown, f->bytes.data + before, sent - before);
    pthread_mutex_unlock(&f->lock);
    vterm_input_write(f->vt, f->shown.data + before, sent - before);
}

/* A terminal takes what it is sent when a busy machine lets it. */
static void send_all(struct term *t)
{
    while (term_waits(t))
        if (!term_ready(t))
            usleep(1000);
}

static void draw(struct term *t, const struct cells *c)
{
    term_draw(t, c);
    send_all(t);
}

static void show_all(struct far_end *f, struct term *t)
{
    send_all(t);
    far_show(f, term_sent(t));
}

/* Waits until what came ends in a prompt; returns how much that is. */
static size_t far_prompt(struct far_end *f)
{
    pthread_mutex_lock(&f->lock);
    while (f->bytes.len < 2 || memcmp(f->bytes.data + f->bytes.len - 2, "$ ", 2))
        pthread_cond_wait(&f->more, &f->lock);
    size_t n = f->bytes.len;
    pthread_mutex_unlock(&f->lock);
    return n;
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

/* The columns that libvterm itself gives to a glyph. */
static int far_columns(const struct glyph *g)
{
    VTerm *vt = vterm_new(1, 20);
    VTermPos pos;
    vterm_set_utf8(vt, 1);
    vterm_input_write(vt, g->text, g->n);
    vterm_state_get_cursorpos(vterm_obtain_state(vt), &pos);
    vterm_free(vt);
    return pos.col;
}

/* The characters of column `half` (0 or 1) of a glyph as code points; a flag has one in each. */
static int chars_of(const struct glyph *g, int half, uint32_t *out)
{
    int n = 0, column = -1;
    for (size_t i = 0; i < g->n;) {
        uint32_t cp;
        i += unicode_decode(g->text + i, g->n - i, &cp, NULL);
        column += unicode_width(cp) > 0;
        if (column == half)
            out[n++] = cp;
    }
    return n;
}

/* Returns the characters shown in a column of a glyph, and their number.  At the right edge there is a replacement where a terminal
 * might begin a new row.  -1: the terminal does not agree about the glyph, anything may be seen. */
static int chars_at(const struct glyph *g, int half, int room, uint32_t *out)
{
    if (glyph_disputed(g) && glyph_most_columns(g) > room) {
        *out = half ? ' ' : UNICODE_REPLACEMENT;
        return 1;
    }
    return glyph_disputed(g) && far_columns(g) != g->width ? -1 : chars_of(g, half, out);
}

static void check_cell(struct far_end *f, const struct theme *theme, const struct cells *c, int row, int col)
{
    const struct cell *want = &c->at[row * c->cols + col];
    VTermScreenCell got;
    uint32_t chars[8] = {0};
    int half = want->glyph.width == 0;
    vterm_screen_get_cell(f->screen, (VTermPos){row, col}, &got);
    int n = chars_at(&want[-half].glyph, half, c->cols - col + half, chars);
    if (n < 0 || (half && !n))
        return;                                 /* or it is the right half of one wide character */
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
        fail_msg("row %d col %d of %dx%d: want \"%.*s\" %s marks %d, got U+%04X U+%04X width %d bold %d reverse %d underline %d fg %d bg %d", row,
                 col, c->rows, c->cols, want->glyph.n, want->glyph.text, style_name(want->look.style), marks, got.chars[0], got.chars[1], got.width,
                 got.attrs.bold, got.attrs.reverse, got.attrs.underline, got.fg.indexed.idx, got.bg.indexed.idx);
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
    "the quick brown fox jumps", "a", " ", "                    ", "0123456789", "------", "\t", "\n", "\x1B[31mred\x1B[2J", "\xC2\x9B" "2J",
    "\xE2\x80\xAE" "abc", "\xFF\xFE",
    "\xE4\xBD\xA0\xE5\xA5\xBD", "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E", "\xED\x95\x9C", "e\xCC\x81", "a\xCC\x80\xCC\x81\xCC\x82\xCC\x83\xCC\x84",
    "\xCC\x81",
    "\xF0\x9F\x99\x82", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7", "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD", "\xE2\x9D\xA4\xEF\xB8\x8F",
    "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA",
    "\xE0\xA4\xB9\xE0\xA4\xBF\xE0\xA4\xA8\xE0\xA5\x8D\xE0\xA4\xA6\xE0\xA5\x80", "\xE0\xB8\x97\xE0\xB8\xB5\xE0\xB9\x88", "\xD7\xA9\xD6\xB8\xD7\x9C",
    "\xE2\x94\x80\xE2\x94\x82\xE2\x94\xBC",
    "\xEF\xBC\xA1\xEF\xBC\xA2", "\xE2\x80\x8B\xC2\xADx", "1\xEF\xB8\x8F\xE2\x83\xA3", "\xCD\xB8\xF4\x8F\xBF\xBF", "\xF0\x9F\xAB\xA8",
    "\xF0\x9F\x9B\xA0\xEF\xB8\x8F", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB",
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
    return f->shown.len > from && memmem(f->shown.data + from, f->shown.len - from, what, strlen(what)) != NULL;
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
            show_all(&f, t);
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
        draw(t, &c);
        show_all(&f, t);
        if (!may_erase && (holds(&f, before, "\033[2J") || holds(&f, before, "\033[H\033[J")))
            fail_msg("frame %d erased the screen", i);
        check_screen(&f, theme, &c);
        size_t sent = term_sent(t);
        draw(t, &c);
        assert_int_equal(term_sent(t), sent);   /* nothing has changed */
    }
    term_leave(t);
    show_all(&f, t);
    term_close(t);
    check_restored(&f);
    cells_free(&c);
    far_close(&f);
}

static void test_term__every_small_size_is_drawn(void **state)
{
    (void)state;
    struct far_end f;
    struct cells c = {0};
    far_open(&f, 24, 80);
    struct term *t = open_term(&f, "default");
    for (int rows = 1; rows <= 8; rows++)
        for (int cols = 1; cols <= 24; cols++) {
            int now_rows, now_cols;
            far_resize(&f, rows, cols);
            term_size(t, &now_rows, &now_cols);
            assert_true(now_rows == rows && now_cols == cols);
            cells_size(&c, rows, cols);
            for (int i = 0; i < 4; i++) {
                change(&c);
                draw(t, &c);
                show_all(&f, t);
                check_screen(&f, theme_at(0), &c);
            }
        }
    term_close(t);
    cells_free(&c);
    far_close(&f);
}

/* Puts text at a place, on a screen whose only other content is what was put before. */
static void put(struct term *t, struct far_end *f, struct cells *c, int row, int col, const char *text)
{
    cells_puts(c, cells_all(c), row, col, (struct look){0}, text);
    draw(t, c);
    show_all(f, t);
}

/* The next code point to try: of ideographs, Hangul and private use a few are enough. */
static uint32_t after(uint32_t cp)
{
    bool many = (cp >= 0x3400 && cp < 0xA000) || (cp >= 0xAC00 && cp < 0xD780) || (cp >= 0xE000 && cp < 0xF900) || cp >= 0x20000;
    return many && cp + 61 < 0x110000 ? cp + 61 : cp + 1;
}

/* Fills a screen with code points from `cp` on, each alone and as a mark over a letter, words between them; returns the next. */
static uint32_t put_code_points(struct cells *c, uint32_t cp)
{
    for (int row = 0; row < c->rows; row++)
        for (int col = 0; col + 10 <= c->cols; col += 10, cp = after(cp)) {
            char utf8[5] = {0}, text[32];
            while (cp < 0x110000 && (unicode_kind(cp) == UNICODE_UNASSIGNED || unicode_kind(cp) == UNICODE_CONTROL))
                cp = after(cp);
            if (cp >= 0x110000)
                return cp;
            unicode_encode(cp, utf8);
            snprintf(text, sizeof text, "a%s.%swords", utf8, utf8);
            cells_puts(c, cells_all(c), row, col, (struct look){0}, text);
        }
    return cp;
}

/* The tables of utf8proc, libc and libvterm are of three releases of Unicode. */
static void test_term__no_code_point_moves_what_stands_beside_it(void **state)
{
    (void)state;
    struct far_end f;
    struct cells c = {0};
    far_open(&f, 24, 80);
    struct term *t = open_term(&f, "default");
    int disagree = 0;
    for (uint32_t cp = 0xA0; cp < 0x110000;) {
        cells_size(&c, 24, 80);
        c.cursor_row = 0;
        uint32_t next = put_code_points(&c, cp);
        for (int round = 0; round < 2; round++) {
            draw(t, &c);
            show_all(&f, t);
            check_screen(&f, theme_at(0), &c);
            for (int row = 0; row < c.rows; row++)      /* then only a part of each row */
                cells_puts(&c, cells_all(&c), row, 17, (struct look){0}, "new");
        }
        for (; cp < next; cp = after(cp)) {
            struct glyph g = {.width = (uint8_t)(unicode_width(cp) > 0 ? unicode_width(cp) : 0)};
            g.n = (uint8_t)unicode_encode(cp, g.text);
            disagree += unicode_width(cp) > 0 && cp < 0x20000 && unicode_kind(cp) != UNICODE_UNASSIGNED && far_columns(&g) != g.width;
        }
    }
    assert_true(disagree > 0);
    term_close(t);
    cells_free(&c);
    far_close(&f);
}

static void test_term__a_row_is_sent_whole_behind_what_terminals_do_not_agree_about(void **state)
{
    (void)state;
    static const struct { const char *text; bool whole; } rows[] = {
        { "plain words", false }, { "\xE4\xBD\xA0\xE5\xA5\xBD words", false }, { "na\xC3\xAFve words", false },
        { "\xF0\x9F\x99\x82 words", true }, { "\xE0\xA4\xB9\xE0\xA4\xBF words", true }, { "\xE2\x8C\x9A words", true }, { "e\xCC\x81 words", false },
        { "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA words", true },
    };
    struct far_end f;
    struct cells c = {0};
    far_open(&f, 24, 80);
    struct term *t = open_term(&f, "default");
    cells_size(&c, 24, 80);
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        put(t, &f, &c, i, 0, rows[i].text);
        size_t before = term_sent(t);
        put(t, &f, &c, i, 40, "more");
        assert_true(holds(&f, before, "more"));
        assert_int_equal(holds(&f, before, "words"), rows[i].whole);
    }
    term_close(t);
    cells_free(&c);
    far_close(&f);
}

static void test_term__big_frames_are_wrapped_once_the_terminal_knows_how(void **state)
{
    (void)state;
    struct far_end f;
    struct cells c = {0};
    far_open(&f, 24, 80);
    struct term *t = open_term(&f, "default");
    cells_size(&c, 24, 80);
    c.cursor_row = 3;
    for (int round = 0; round < 3; round++) {
        if (round)
            term_report(t, REPORT_SYNC, round == 1);
        size_t before = term_sent(t);
        for (int r = 0; r < 24; r++)
            cells_puts(&c, cells_all(&c), r, 0, (struct look){0}, round ? "another row of text" : "a row of words");
        put(t, &f, &c, 0, 0, round == 2 ? "x" : "y");
        assert_int_equal(holds(&f, before, "\033[?2026h"), round == 1);
        assert_int_equal(holds(&f, before, "\033[?2026l"), round == 1);
        assert_int_equal(holds(&f, before, "\033[?25l"), round != 1);       /* without, nobody sees it wander */
        before = term_sent(t);
        put(t, &f, &c, 5, 60, round ? "a" : "b");
        assert_false(holds(&f, before, "\033[?"));
        check_screen(&f, theme_at(0), &c);
        cells_blank(&c, cells_all(&c), (struct look){0});
        draw(t, &c);
    }
    term_close(t);
    cells_free(&c);
    far_close(&f);
}

/* --- the end ---------------------------------------------------------------------------------------------------- */

static volatile int deep = 1;

static int overflow(int n)
{
    volatile char room[4096];
    room[0] = (char)n;
    return deep ? overflow(n + 1) + room[0] : n;
}

static void end_somehow(const char *how)
{
    if (!strcmp(how, "exit"))
        exit(3);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "check"))
        cells_size(&(struct cells){0}, -1, 0);
    if (!strcmp(how, "stack"))
        deep += overflow(0);
    static const struct { const char *how; int sig; } kill_by[] = {
        {"SEGV", SIGSEGV}, {"BUS", SIGBUS}, {"FPE", SIGFPE}, {"ILL", SIGILL}, {"TERM", SIGTERM}, {"HUP", SIGHUP}, {"INT", SIGINT}, {"QUIT", SIGQUIT},
    };
    for (size_t i = 0; i < sizeof kill_by / sizeof *kill_by; i++)
        if (!strcmp(how, kill_by[i].how))
            raise(kill_by[i].sig);
    _exit(99);
}

static void child(struct far_end *f, const char *how)
{
    static const int all[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGHUP, SIGINT, SIGQUIT};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        signal(all[i], SIG_DFL);
    struct cells c = {0};
    struct term *t = term_open(&(struct term_options){.mouse = true, .title = true, .fd = f->slave}, NULL);
    cells_size(&c, 24, 80);
    change(&c);
    c.cursor_row = -1;
    term_report(t, REPORT_KITTY, 0);
    term_title(t, "a title");
    draw(t, &c);
    if (freopen("/dev/null", "w", stderr))      /* what a bug has to say */
        end_somehow(how);
}

static void test_term__the_terminal_is_restored_whatever_way_the_program_ends(void **state)
{
    (void)state;
    static const struct { const char *how; int sig; } ways[] = {
        {"exit", 0}, {"abort", SIGABRT}, {"check", SIGABRT}, {"stack", SIGSEGV}, {"SEGV", SIGSEGV}, {"BUS", SIGBUS}, {"FPE", SIGFPE}, {"ILL", SIGILL},
        {"TERM", SIGTERM}, {"HUP", SIGHUP}, {"INT", SIGINT}, {"QUIT", SIGQUIT},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct far_end f;
        int status;
        far_prepare(&f, 24, 80);
        pid_t pid = fork();                     /* before there are threads */
        if (!pid)
            child(&f, ways[i].how);
        far_listen(&f);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (ways[i].sig ? !WIFSIGNALED(status) || WTERMSIG(status) != ways[i].sig : !WIFEXITED(status) || WEXITSTATUS(status) != 3)
            fail_msg("%s: status %x", ways[i].how, status);
        assert_int_equal(write(f.slave, "$ ", 2), 2);
        far_show(&f, far_prompt(&f));
        assert_true(holds(&f, 0, "\033[?1049h") && holds(&f, 0, "\033[?2004h") && holds(&f, 0, "\033[?1006h") && holds(&f, 0, "\033[>5u"));
        assert_true(holds(&f, 0, "\033[<u") && holds(&f, 0, "\033[23;2t"));
        check_restored(&f);
        far_close(&f);
    }
}

static void test_term__a_hang_up_is_reported_and_stops_everything(void **state)
{
    (void)state;
    int master, slave;
    char bytes[16];
    struct cells c = {0};
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    struct term *t = term_open(&(struct term_options){.fd = slave}, NULL);
    assert_int_equal(term_read(t, bytes, sizeof bytes), 0);
    assert_int_equal(write(master, "key", 3), 3);
    assert_int_equal(term_read(t, bytes, sizeof bytes), 3);
    assert_memory_equal(bytes, "key", 3);
    assert_true(term_ready(t));
    close(master);
    assert_int_equal(term_read(t, bytes, sizeof bytes), -1);
    cells_size(&c, 24, 80);
    for (int i = 0; i < 10; i++) {
        change(&c);
        draw(t, &c);
        assert_int_equal(term_read(t, bytes, sizeof bytes), -1);
        assert_true(term_ready(t));
    }
    term_close(t);
    close(slave);
    cells_free(&c);
}

static void on_answer(void *arg, const struct key_event *ev)
{
    assert_int_equal(ev->kind, KEYS_REPORT);    /* nothing is typed */
    *(bool *)arg |= ev->report == REPORT_DA1;
}

/* Reads until the last question is answered. */
static void hear(struct term *t)
{
    struct keys *k = keys_open();
    bool heard = false;
    char bytes[256];
    while (!heard) {
        struct pollfd p = {.fd = term_fd(t), .events = POLLIN};
        assert_int_equal(poll(&p, 1, 120000), 1);
        int n = term_read(t, bytes, sizeof bytes);
        assert_true(n > 0);
        keys_feed(k, bytes, (size_t)n, 0, on_answer, &heard);
    }
    term_report(t, REPORT_DA1, 0);
    keys_close(k);
}

static void test_term__answers_to_its_questions_are_heard_and_never_reach_the_shell(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        struct far_end f;
        int n;
        far_open(&f, 24, 80);
        struct term *t = term_open(&(struct term_options){.probe = true, .fd = f.slave}, NULL);
        show_all(&f, t);             /* it answers */
        if (!late)
            hear(t);
        term_leave(t);
        show_all(&f, t);
        check_restored(&f);
        term_close(t);
        struct termios raw = f.found;
        cfmakeraw(&raw);
        tcsetattr(f.slave, TCSANOW, &raw);
        assert_int_equal(ioctl(f.slave, FIONREAD, &n), 0);
        assert_int_equal(n, 0);
        far_close(&f);
    }
}

/* --- colours and types ------------------------------------------------------------------------------------------ */

/* Whether the bytes hold a colour: SGR 30 to 49 or 90 to 107. */
static bool has_color(const struct far_end *f)
{
    for (size_t i = 0; i + 2 < f->shown.len; i++) {
        if (f->shown.data[i] != '\033' || f->shown.data[i + 1] != '[')
            continue;
        size_t end = i + 2 + strspn(f->shown.data + i + 2, "0123456789;");
        for (size_t at = i + 2; f->shown.data[end] == 'm' && at < end; at += 1 + strcspn(f->shown.data + at, ";m")) {
            int n = atoi(f->shown.data + at);
            if ((n >= 30 && n <= 49) || (n >= 90 && n <= 107))
                return true;
        }
    }
    return false;
}

/* All styles on a screen of a terminal of some type; the theme is what must be seen. */
static void check_colors(const char *type, const char *theme, const struct theme *seen, enum term_colors colors)
{
    struct far_end f;
    struct cells c = {0};
    setenv("TERM", type, 1);
    far_open(&f, 24, 80);
    struct term *t = open_term(&f, theme);
    cells_size(&c, 24, 80);
    for (int i = 0; i < N_STYLES; i++)
        cells_puts(&c, cells_all(&c), i % 24, i / 24 * 40, (struct look){(uint8_t)i, 0}, style_name((enum style)i));
    put(t, &f, &c, 0, 0, "x");
    assert_int_equal(term_colors(t), colors);
    assert_int_equal(has_color(&f), colors != TERM_MONO);
    check_screen(&f, seen, &c);
    term_close(t);
    cells_free(&c);
    far_close(&f);
    setenv("TERM", "xterm-256color", 1);
}

static struct theme mapped(const char *name, int n)
{
    struct theme t = *theme_at(theme_find(name));
    for (int i = 0; i < N_STYLES; i++) {
        t.style[i].fg = look_nearest(t.style[i].fg, n);
        t.style[i].bg = look_nearest(t.style[i].bg, n);
    }
    return t;
}

static void test_term__themes_are_shown_in_the_colours_that_there_are(void **state)
{
    (void)state;
    static const char *const names[] = {"default", "light", "dark", "high-contrast", "colour-blind"};
    const struct theme *mono = theme_at(theme_find("mono"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct theme eight = mapped(names[i], 8);
        check_colors("xterm-256color", names[i], theme_at(theme_find(names[i])), TERM_256);
        check_colors("xterm", names[i], &eight, TERM_8);
        check_colors("vt220", names[i], mono, TERM_MONO);
        setenv("NO_COLOR", "1", 1);
        check_colors("xterm-256color", names[i], mono, TERM_MONO);
        unsetenv("NO_COLOR");
    }
}

static void test_term__every_known_type_is_left_as_it_was_found(void **state)
{
    (void)state;
    static const char *const types[] = {"xterm", "screen-256color", "tmux-256color", "linux", "vt100", "vt220", "rxvt-unicode", "ansi"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct far_end f;
        struct cells c = {0};
        setenv("TERM", types[i], 1);
        far_open(&f, 24, 80);
        struct term *t = term_open(&(struct term_options){.mouse = true, .title = true, .probe = true, .fd = f.slave}, NULL);
        assert_non_null(t);
        assert_null(term_note(t));
        cells_size(&c, 24, 80);
        put(t, &f, &c, 3, 7, "text");
        if (i < 3 || i == 6)
            hear(t);
        else                                    /* consoles would print what they do not know */
            assert_false(holds(&f, 0, "2004") || holds(&f, 0, "\033]") || holds(&f, 0, "$p") || holds(&f, 0, "1006"));
        term_title(t, "title");
        term_leave(t);
        show_all(&f, t);
        check_restored(&f);
        term_close(t);
        cells_free(&c);
        far_close(&f);
    }
    setenv("TERM", "xterm-256color", 1);
}

static void test_term__unknown_types_are_taken_for_xterm_and_hopeless_ones_refused(void **state)
{
    (void)state;
    static const char *const hopeless[] = {"dumb", "", "unknown"};
    struct far_end f;
    struct err e = {0};
    far_open(&f, 24, 80);
    setenv("TERM", "xterm-nosuch", 1);
    struct term *t = open_term(&f, "default");
    assert_string_equal(term_note(t), "terminal type xterm-nosuch is not known here, xterm-256color is assumed");
    term_close(t);
    for (size_t i = 0; i < sizeof hopeless / sizeof *hopeless; i++) {
        setenv("TERM", hopeless[i], 1);
        assert_null(term_open(&(struct term_options){.fd = f.slave}, &e));
        assert_true(strlen(e.msg) > 20);
    }
    setenv("TERM", "xterm-256color", 1);
    far_close(&f);
}

static void test_term__is_usable_or_says_why_not(void **state)
{
    (void)state;
    static const struct { const char *type; int rows, cols, closed; const char *why; } rows[] = {
        { "xterm-256color", 24, 80, -1, "" }, { "vt100", 24, 80, -1, "" }, { "xterm-nosuch", 24, 80, -1, "" }, { "xterm", 4, 20, -1, "" },
        { "xterm", 0, 0, -1, "" },
        { "dumb", 24, 80, -1, "TERM is dumb" }, { "", 24, 80, -1, "TERM is not set" },
        { "xterm", 3, 80, -1, "the terminal has 80 columns and 3 rows; a full screen needs 20 and 4" },
        { "xterm", 24, 19, -1, "the terminal has 19 columns and 24 rows; a full screen needs 20 and 4" },
        { "xterm", 24, 80, 0, "standard input is not a terminal" }, { "xterm", 24, 80, 1, "standard output is not a terminal" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct winsize size = {.ws_row = (unsigned short)rows[i].rows, .ws_col = (unsigned short)rows[i].cols};
        int master, slave, status;
        assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
        pid_t pid = fork();
        if (!pid) {
            struct err why = {0};
            setenv("TERM", rows[i].type, 1);
            dup2(slave, 0);
            dup2(slave, 1);
            if (rows[i].closed >= 0)
                close(rows[i].closed);
            bool usable = term_usable(&why);
            _exit(usable != !*rows[i].why || strcmp(why.msg, rows[i].why));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status)
            fail_msg("row %zu", i);
        close(master);
        close(slave);
    }
}

static void test_term__without_utf8_other_characters_are_question_marks(void **state)
{
    (void)state;
    struct far_end f;
    struct cells c = {0}, want = {0};
    setlocale(LC_CTYPE, "C");
    far_open(&f, 4, 20);
    struct term *t = open_term(&f, "default");
    setlocale(LC_CTYPE, "C.UTF-8");             /* for our own looking */
    assert_non_null(term_note(t));
    cells_size(&c, 4, 20);
    cells_size(&want, 4, 20);
    put(t, &f, &c, 0, 0, "a\xC3\xA9\xE4\xBD\xA0z");
    cells_puts(&want, cells_all(&want), 0, 0, (struct look){0}, "a???z");
    check_screen(&f, theme_at(0), &want);
    term_close(t);
    cells_free(&c);
    cells_free(&want);
    far_close(&f);
}

/* --- what is not a frame ---------------------------------------------------------------------------------------- */

static void test_term__titles_and_the_clipboard_say_what_was_meant(void **state)
{
    (void)state;
    struct far_end f;
    far_open(&f, 24, 80);
    struct term *t = term_open(&(struct term_options){.title = true, .fd = f.slave}, NULL);
    term_title(t, "a\x1B]0;evil\a\xC2\x9C\nb");
    show_all(&f, t);
    assert_true(holds(&f, 0, "\033]2;a\xE2\x90\x9B]0;evil\xE2\x90\x87<U+009C> b\033\\"));
    size_t before = term_sent(t);
    term_title(t, "a\x1B]0;evil\a\xC2\x9C\nb");
    assert_int_equal(term_sent(t), before);
    assert_true(term_clipboard(t, "", 0) && term_clipboard(t, "a", 1) && term_clipboard(t, "ab", 2) && term_clipboard(t, "abc\xFF", 4));
    show_all(&f, t);
    assert_true(holds(&f, before, "\033]52;c;\033\\\033]52;c;YQ==\033\\\033]52;c;YWI=\033\\\033]52;c;YWJj/w==\033\\"));
    before = term_sent(t);
    setenv("TMUX", "/tmp/tmux,1,0", 1);
    assert_true(term_clipboard(t, "a", 1));
    unsetenv("TMUX");
    show_all(&f, t);
    assert_true(holds(&f, before, "\033]52;c;YQ==\033\\\033Ptmux;\033\033]52;c;YQ==\a\033\\"));
    before = term_sent(t);
    char *big = calloc(1, TERM_CLIPBOARD_MAX + 1);
    assert_false(term_clipboard(t, big, TERM_CLIPBOARD_MAX + 1));
    assert_int_equal(term_sent(t), before);
    assert_true(term_clipboard(t, big, TERM_CLIPBOARD_MAX));
    send_all(t);
    assert_int_equal(term_sent(t) - before, 9 + 99992);
    free(big);
    term_close(t);
    far_close(&f);
}

static void test_term__the_mouse_is_switched_and_switched_back(void **state)
{
    (void)state;
    struct far_end f;
    far_open(&f, 24, 80);
    struct term *t = open_term(&f, "default");
    show_all(&f, t);
    assert_false(f.mouse);
    for (int on = 1; on >= 0; on--) {
        term_mouse(t, on);
        show_all(&f, t);
        assert_int_equal(f.mouse, on);
    }
    term_mouse(t, true);
    term_leave(t);
    show_all(&f, t);
    check_restored(&f);
    term_enter(t);
    show_all(&f, t);
    assert_true(f.mouse);
    term_close(t);
    far_close(&f);
}

static void test_term__wheel_keys_are_off_with_the_mouse_and_as_they_were_at_the_end(void **state)
{
    (void)state;
    static const char *const on = "\033[?1007h", *const off = "\033[?1007l";
    for (int found = 0; found < 2; found++) {           /* whether the terminal turns the wheel into keys */
        struct far_end f;
        far_open(&f, 24, 80);
        struct term *t = open_term(&f, "default");
        term_mouse(t, TERM_MOUSE_ON);
        term_report(t, REPORT_WHEEL_KEYS, found);
        show_all(&f, t);
        assert_false(holds(&f, 0, off));
        term_mouse(t, TERM_MOUSE_OFF);
        show_all(&f, t);
        assert_int_equal(holds(&f, 0, off), found);
        size_t before = f.bytes.len;
        term_mouse(t, TERM_MOUSE_LENT);
        show_all(&f, t);
        assert_false(f.mouse);
        assert_int_equal(holds(&f, before, on), found);
        before = f.bytes.len;
        term_mouse(t, TERM_MOUSE_OFF);
        term_leave(t);
        show_all(&f, t);
        assert_int_equal(holds(&f, before, off), found);
        assert_int_equal(holds(&f, before, on), found);
        check_restored(&f);
        term_close(t);
        far_close(&f);
    }
}

static void test_term__calls_use_what_the_terminal_is_known_to_show(void **state)
{
    static const struct { const char *term, *program, *lc, *tmux, *sent; } rows[] = {
        {"xterm-256color", NULL, NULL, NULL, ""}, {"xterm-kitty", NULL, NULL, NULL, "\033]99;;q35chat: done\033\\"},
        {"foot-extra", "", "", "", "\033]777;notify;q35chat;done\033\\"},
        {"xterm-256color", "WezTerm", NULL, NULL, "\033]777;notify;q35chat;done\033\\"},
        {"xterm-256color", NULL, "iTerm2", NULL, "\033]9;q35chat: done\033\\"}, {"tmux-256color", "WezTerm", NULL, NULL, ""},
        {"xterm-kitty", NULL, NULL, "/tmp/tmux-0/default,1,0", ""}, {"screen", "iTerm.app", NULL, NULL, ""}, {NULL, NULL, NULL, NULL, ""},
    };
    (void)state;
    struct buf b = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf_reset(&b);
        osc_call(&b, osc_notice(rows[i].term, rows[i].program, rows[i].lc, rows[i].tmux), "done");
        assert_string_equal(buf_str(&b), rows[i].sent);
    }
    buf_reset(&b);
    osc_call(&b, OSC_NOTICE_9, "a\033\\\a\xC2\x9C\nb");       /* the text may come from an answer */
    assert_null(memchr(b.data + 1, '\033', b.len - 3));
    assert_null(strpbrk(b.data, "\a\n"));
    assert_null(strstr(b.data, "\xC2\x9C"));
    buf_free(&b);
}

/* No order of a hostile text is left in what is sent: between our own sequences there are no controls but cursor movement. */
static void test_term__hostile_text_sends_no_control(void **state)
{
    (void)state;
    struct far_end f;
    struct cells c = {0};
    far_open(&f, 24, 80);
    struct term *t = open_term(&f, "default");
    cells_size(&c, 24, 80);
    for (int i = 0; i < 200; i++) {
        char text[64];
        for (size_t k = 0; k < sizeof text; k++)
            text[k] = (char)(rnd(3) ? rnd(32) : rnd(256));
        cells_put(&c, cells_all(&c), (int)rnd(24), (int)rnd(80), (struct look){0}, text, sizeof text);
        draw(t, &c);
    }
    show_all(&f, t);
    for (size_t i = 0; i < f.shown.len;) {
        uint32_t cp;
        bool ok;
        i += unicode_decode(f.shown.data + i, f.shown.len - i, &cp, &ok);
        assert_true(ok && !(cp >= 0x7F && cp < 0xA0));
        assert_true(cp >= ' ' || cp == '\033' || cp == '\r' || cp == '\n' || cp == '\b');
        if (cp == '\033')
            assert_true(f.shown.data[i] == '[' || f.shown.data[i] == '(');
    }
    term_close(t);
    cells_free(&c);
    far_close(&f);
}

/* A chat as it streams: words at the end of a pane that scrolls, a status line every ten tokens, the cursor in the input. */
static double bytes_per_token(int tokens_per_frame, const char *const *words, uint32_t n_words)
{
    struct far_end f;
    struct cells c = {0};
    far_open(&f, 24, 80);
    struct term *t = open_term(&f, "default");
    cells_size(&c, 24, 80);
    struct area all = cells_all(&c), pane = {0, 0, 20, 80};
    int col = 0, n_tokens = 4000;
    size_t start = 0;
    for (int i = 0; i < n_tokens; i++) {
        char text[80];
        int len = snprintf(text, sizeof text, "%s%s", words[rnd(n_words)], rnd(8) ? "" : ",");
        if (col + glyph_columns(text, (size_t)len) > 80) {
            memmove(c.at, c.at + 80, 19 * 80 * sizeof *c.at);
            cells_blank(&c, (struct area){19, 0, 1, 80}, (struct look){0});
            col = 0;
        }
        col = cells_puts(&c, pane, 19, col, (struct look){0}, text);
        if (i % 10 == 0) {
            snprintf(text, sizeof text, " answering %d:%02d  %d.%d tok/s  accept %d%%  ctx %d", i / 3000, i / 50 % 60, 40 + (int)rnd(9), (int)rnd(10),
                     60 + (int)rnd(20), i);
            cells_blank(&c, (struct area){20, 0, 1, 80}, (struct look){STYLE_status, 0});
            cells_puts(&c, all, 20, 0, (struct look){STYLE_status, 0}, text);
        }
        cells_puts(&c, all, 21, 0, (struct look){STYLE_prompt, 0}, "> ");
        c.cursor_row = 21;
        c.cursor_col = 2;
        if (i % tokens_per_frame == 0)
            draw(t, &c);
        if (i == 400)
            start = term_sent(t);
    }
    double bytes = (double)(term_sent(t) - start) / (n_tokens - 400);
    show_all(&f, t);
    term_close(t);
    cells_free(&c);
    far_close(&f);
    return bytes;
}

static void test_term__a_streamed_token_is_a_few_bytes(void **state)
{
    (void)state;
    static const char *const english[] = {" the", " hash", " map", " is", " fast", "est", " probe", " expected", " of", "ing", " a", " does", " not",
                                          " depend", " on", " size", "1", "7"};
    static const char *const chinese[] = {"\xE5\x93\x88\xE5\xB8\x8C", "\xE8\xA1\xA8", "\xE7\x9A\x84", "\xE5\xB9\xB3\xE5\x9D\x87",
                                          "\xE6\x97\xB6\xE9\x97\xB4", "\xE6\x98\xAF", "\xE5\xB8\xB8\xE6\x95\xB0"};
    static const char *const emoji[] = {" the", " hash", " map", " is", " fast", "est", " probe", " expected", " of", "ing", " a", " does", " not",
                                        " depend", " on", " size", "1", "7", " \xF0\x9F\x9A\x80", " \xE2\x9C\x85"};
    static const char *const thai[] = {"\xE0\xB8\x97\xE0\xB8\xB5\xE0\xB9\x88", "\xE0\xB9\x80\xE0\xB8\xA7\xE0\xB8\xA5\xE0\xB8\xB2",
                                       "\xE0\xB8\x99\xE0\xB8\xB5\xE0\xB9\x89"};
    static const char *const hindi[] = {" \xE0\xA4\xB9\xE0\xA4\xBF\xE0\xA4\xA8\xE0\xA5\x8D\xE0\xA4\xA6\xE0\xA5\x80",
                                        " \xE0\xA4\xAE\xE0\xA5\x87\xE0\xA4\x82", " \xE0\xA4\xB9\xE0\xA5\x88"};
    static const struct { const char *name; const char *const *words; uint32_t n; } rows[] =
        {{"English", english, 18}, {"Chinese", chinese, 7}, {"Thai", thai, 3}, {"Hindi", hindi, 3}, {"emoji", emoji, 20}};
    for (int i = 0; i < 5; i++) {
        double one = bytes_per_token(1, rows[i].words, rows[i].n), four = bytes_per_token(4, rows[i].words, rows[i].n);
        print_message("%s: %.0f bytes a token, %.0f at four tokens a frame\n", rows[i].name, one, four);
        if (i < 3)                              /* whose rows are sent whole */
            assert_true(one < 32 && four < 20);
    }
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
        cmocka_unit_test(test_term__every_small_size_is_drawn),
        cmocka_unit_test(test_term__no_code_point_moves_what_stands_beside_it),
        cmocka_unit_test(test_term__a_row_is_sent_whole_behind_what_terminals_do_not_agree_about),
        cmocka_unit_test(test_term__big_frames_are_wrapped_once_the_terminal_knows_how),
        cmocka_unit_test(test_term__the_terminal_is_restored_whatever_way_the_program_ends),
        cmocka_unit_test(test_term__a_hang_up_is_reported_and_stops_everything),
        cmocka_unit_test(test_term__answers_to_its_questions_are_heard_and_never_reach_the_shell),
        cmocka_unit_test(test_term__themes_are_shown_in_the_colours_that_there_are),
        cmocka_unit_test(test_term__every_known_type_is_left_as_it_was_found),
        cmocka_unit_test(test_term__unknown_types_are_taken_for_xterm_and_hopeless_ones_refused),
        cmocka_unit_test(test_term__is_usable_or_says_why_not),
        cmocka_unit_test(test_term__without_utf8_other_characters_are_question_marks),
        cmocka_unit_test(test_term__titles_and_the_clipboard_say_what_was_meant),
        cmocka_unit_test(test_term__the_mouse_is_switched_and_switched_back),
        cmocka_unit_test(test_term__wheel_keys_are_off_with_the_mouse_and_as_they_were_at_the_end),
        cmocka_unit_test(test_term__calls_use_what_the_terminal_is_known_to_show),
        cmocka_unit_test(test_term__hostile_text_sends_no_control),
        cmocka_unit_test(test_term__a_streamed_token_is_a_few_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
