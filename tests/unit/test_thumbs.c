/* Pictures on the screen: what a terminal is asked, what it gets when it answers as kitty or with sixel, or not at all, and that rows are cleared. */
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "chat/thumbs.h"
#include "session/transcript.h"
#include "ui/tui/keys.h"
#include "ui/tui/term.h"

enum { ROWS = 24, COLS = 80 };

static struct {
    int master, slave;
    struct term *term;
    struct keys *keys;
    struct cells cells;
    struct buf sent;                    /* since the last take() */
    struct thumbs *thumbs;
    const struct thumb *thumb;
} s;

/* ---- the terminal ---- */

/* Reads what has come; false: nothing. */
static bool take(void)
{
    char bytes[65536];
    struct pollfd p = {.fd = s.master, .events = POLLIN};
    const ssize_t n = poll(&p, 1, 20) > 0 ? read(s.master, bytes, sizeof bytes) : 0;
    if (n > 0)
        buf_add(&s.sent, bytes, (size_t)n);
    return n > 0;
}

static void pump(void)
{
    while (take() || term_waits(s.term))
        term_ready(s.term);
}

static int count(const char *what, size_t n)
{
    int found = 0;
    for (size_t i = 0; i + n <= s.sent.len; i++)
        found += !memcmp(s.sent.data + i, what, n);
    return found;
}
#define COUNT(text) count(text, sizeof text - 1)

static const struct thumb *find(void *arg, uint32_t number)
{
    (void)arg;
    return thumbs_find(s.thumbs, number);
}

static void open_term(const char *type)
{
    struct err e = {0};
    struct winsize size = {.ws_row = ROWS, .ws_col = COLS};
    setenv("TERM", type, 1);
    assert_int_equal(openpty(&s.master, &s.slave, NULL, NULL, &size), 0);
    s.term = term_open(&(struct term_options){.color = "auto", .probe = true, .pictures = true, .fd = s.slave}, &e);
    if (!s.term)
        fail_msg("%s", e.msg);
    term_pictures(s.term, find, NULL);
    s.keys = keys_open();
    cells_size(&s.cells, ROWS, COLS);
    pump();
}

static void on_answer(void *arg, const struct key_event *ev)
{
    (void)arg;
    assert_int_equal(ev->kind, KEYS_REPORT);            /* no answer is typed */
    term_report(s.term, ev->report, ev->value);
}

static void answer(const char *bytes)
{
    keys_feed(s.keys, bytes, strlen(bytes), 0, on_answer, NULL);
    buf_reset(&s.sent);
}

static void close_term(void)
{
    term_close(s.term);
    keys_close(s.keys);
    cells_free(&s.cells);
    close(s.slave);
    close(s.master);
    buf_free(&s.sent);
}

/* ---- the screen ---- */

/* Draws a frame with a text in row 0 and the picture from row `at` on, as far as there are rows; -1: without it. */
static void draw(const char *text, int at)
{
    struct cells *c = &s.cells;
    int rows, cols;
    graphics_size(s.thumb->w, s.thumb->h, &rows, &cols);
    cells_blank(c, cells_all(c), (struct look){STYLE_text, 0});
    for (int i = 0; at >= 0 && i < rows; i++)
        cells_picture(c, cells_all(c), at + i, (struct strip){s.thumb->number, i, rows, 2, cols});
    cells_puts(c, cells_all(c), 0, 0, (struct look){STYLE_text, 0}, text);
    buf_reset(&s.sent);
    term_draw(s.term, c);
    pump();
}

static int picture_rows(void)
{
    int rows, cols;
    graphics_size(s.thumb->w, s.thumb->h, &rows, &cols);
    return rows;
}

/* ---- tests ---- */

#define PLACEHOLDER "\xF4\x8E\xBB\xAE"
#define KITTY_SAYS "\033_Gi=31;OK\033\\\033[?62;22c"

static void test_thumbs__kitty_gets_the_picture_once_and_text_in_its_place(void **state)
{
    (void)state;
    open_term("xterm-256color");
    assert_int_equal(COUNT("\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\"), 1);
    answer(KITTY_SAYS);
    draw("hello", 3);
    const int cells = COUNT(PLACEHOLDER);
    assert_int_equal(COUNT("\033_Ga=T,U=1,f=100,"), 1);
    assert_true(cells > 0 && cells % picture_rows() == 0);
    draw("hello", 3);
    assert_int_equal(s.sent.len, 0);                    /* nothing has changed */
    draw("hello", 4);                                   /* scrolled */
    assert_int_equal(COUNT("\033_G"), 0);
    assert_int_equal(COUNT(PLACEHOLDER), cells);
    draw("hello", ROWS - 2);                            /* two rows are left of it */
    assert_int_equal(COUNT(PLACEHOLDER), cells / picture_rows() * 2);
    assert_true(s.sent.len < 4096);
    term_leave(s.term);
    pump();
    assert_int_equal(COUNT("\033_Ga=d,d=I,"), 1);
    close_term();
}

static void test_thumbs__what_is_drawn_over_a_picture_clears_its_row(void **state)
{
    (void)state;
    const struct area over = {4, 0, 1, COLS};
    open_term("xterm-256color");
    answer(KITTY_SAYS);
    draw("hello", 3);
    const int cells = COUNT(PLACEHOLDER);
    cells_puts(&s.cells, over, 0, 5, (struct look){STYLE_popup, 0}, "a list");
    assert_int_equal(cells_strip(&s.cells, 4).number, 0);
    assert_int_equal(cells_strip(&s.cells, 5).number, s.thumb->number);
    buf_reset(&s.sent);
    term_draw(s.term, &s.cells);
    pump();
    assert_int_equal(COUNT("a list"), 1);
    assert_int_equal(COUNT(PLACEHOLDER), 0);            /* the rows around it stay */
    draw("hello", 3);
    assert_int_equal(COUNT(PLACEHOLDER), cells / picture_rows());
    close_term();
}

static void test_thumbs__sixel_is_drawn_where_the_size_of_a_cell_is_known(void **state)
{
    (void)state;
    open_term("xterm-256color");
    answer("\033[?62;4;22c");
    draw("hello", 3);
    assert_int_equal(COUNT("\033P0;1;0q"), 0);          /* its rows could cover others */
    assert_true(COUNT("\xE2\x96\x80") > 0);
    answer("\033[6;20;10t\033[?62;4;22c");
    draw("hello", 3);
    assert_int_equal(COUNT("\033P0;1;0q"), 1);
    const size_t bytes = s.sent.len;
    draw("hello", 4);                                   /* moved: drawn again, and the row above is sent */
    assert_int_equal(COUNT("\033P0;1;0q"), 1);
    assert_true(s.sent.len < bytes + 4096 && bytes < 200000);
    draw("hello", -1);
    assert_int_equal(COUNT("\033P"), 0);
    assert_true(s.sent.len > 0);                        /* its rows are blanked */
    close_term();
}

static void test_thumbs__iterm_gets_a_file_and_a_wrong_answer_of_sixel_changes_nothing(void **state)
{
    (void)state;
    open_term("xterm-256color");
    answer("\033P>|iTerm2 3.5.0\033\\\033[6;20;10t\033[?62;4c");
    draw("hello", 3);
    assert_int_equal(COUNT("\033]1337;File=inline=1;"), 1);
    draw("hello", ROWS - 2);                            /* only whole */
    assert_int_equal(COUNT("\033]1337;"), 0);
    close_term();
}

static void test_thumbs__a_silent_terminal_gets_half_blocks_in_its_colours(void **state)
{
    (void)state;
    unsetenv("COLORTERM");
    open_term("xterm-256color");
    draw("hello", 3);
    assert_true(COUNT("\xE2\x96\x80") > 0 && COUNT("\033[38;5;") > 0 && COUNT("\033[38;2;") == 0);
    close_term();
    setenv("COLORTERM", "truecolor", 1);
    open_term("xterm-256color");
    draw("hello", 3);
    assert_true(COUNT("\033[38;2;") > 0);
    close_term();
    unsetenv("COLORTERM");
}

static void test_thumbs__few_or_no_colours_mean_no_picture_and_no_question(void **state)
{
    static const struct { const char *type, *no_color; } rows[] = {{"xterm", NULL}, {"xterm-256color", "1"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].no_color)
            setenv("NO_COLOR", rows[i].no_color, 1);
        open_term(rows[i].type);
        assert_false(term_shows_pictures(s.term));
        assert_true(COUNT("\033_G") == 0 && COUNT("\033[>q") == 0 && COUNT("\033[16t") == 0 && COUNT("\033[c") == 1);
        answer(KITTY_SAYS);                             /* even then */
        draw("hello", 3);
        assert_true(COUNT("hello") == 1 && COUNT(PLACEHOLDER) == 0 && COUNT("\xE2\x96\x80") == 0);
        close_term();
    }
    unsetenv("NO_COLOR");
}

static void test_thumbs__tmux_passes_the_question_and_the_picture_on(void **state)
{
    (void)state;
    setenv("TMUX", "/tmp/tmux-0/default,1,0", 1);
    open_term("tmux-256color");
    assert_int_equal(COUNT("\033Ptmux;\033\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\033\\\033\\"), 1);
    answer(KITTY_SAYS);
    draw("hello", 3);
    assert_int_equal(COUNT("\033Ptmux;\033\033_Ga=T,U=1,"), 1);
    assert_true(COUNT(PLACEHOLDER) > 0);
    close_term();
    unsetenv("TMUX");
}

static int make_thumb(void **state)
{
    (void)state;
    struct buf bytes = {0};
    setlocale(LC_CTYPE, "C.UTF-8");
    unsetenv("NO_COLOR");
    unsetenv("TMUX");
    s.thumbs = thumbs_open();
    if (!s.thumbs || !file_read(&bytes, "tests/data/pictures/photo.jpg", 1 << 20, NULL))
        return 1;
    const struct entry_picture p = {.bytes = {bytes.data, bytes.len}, .kept = text_of("photo")};
    struct pollfd made = {.fd = thumbs_fd(s.thumbs), .events = POLLIN};
    if (thumbs_number(s.thumbs, &p) || poll(&made, 1, 20000) != 1 || !thumbs_changed(s.thumbs))
        return 1;
    s.thumb = thumbs_find(s.thumbs, thumbs_number(s.thumbs, &p));
    buf_free(&bytes);
    return !s.thumb || s.thumb->w > THUMB_W || s.thumb->h > THUMB_H;
}

static int drop_thumb(void **state)
{
    (void)state;
    thumbs_close(s.thumbs);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thumbs__kitty_gets_the_picture_once_and_text_in_its_place),
        cmocka_unit_test(test_thumbs__what_is_drawn_over_a_picture_clears_its_row),
        cmocka_unit_test(test_thumbs__sixel_is_drawn_where_the_size_of_a_cell_is_known),
        cmocka_unit_test(test_thumbs__iterm_gets_a_file_and_a_wrong_answer_of_sixel_changes_nothing),
        cmocka_unit_test(test_thumbs__a_silent_terminal_gets_half_blocks_in_its_colours),
        cmocka_unit_test(test_thumbs__few_or_no_colours_mean_no_picture_and_no_question),
        cmocka_unit_test(test_thumbs__tmux_passes_the_question_and_the_picture_on),
    };
    return cmocka_run_group_tests_name("thumbs", tests, make_thumb, drop_thumb);
}
