#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/unicode.h"
#include "ui/tui/keys.h"

/* Events as words: keys by name in <>, text as it is, pastes in [], reports in {}. */
struct told {
    struct buf line;
    bool in_paste;
};

static void tell(void *arg, const struct key_event *ev)
{
    static const char *const reports[] = {"DA1", "SYNC", "BACKGROUND", "FOCUS", "KITTY", "CURSOR", "WHEEL_KEYS", "GRAPHICS", "CELL"};
    struct told *t = arg;
    if ((ev->kind == KEYS_PASTE || ev->kind == KEYS_PASTE_END) && !t->in_paste)
        buf_addc(&t->line, '[');
    t->in_paste = ev->kind == KEYS_PASTE;
    switch (ev->kind) {
    case KEYS_KEY:
        buf_addc(&t->line, '<');
        keys_name(ev->code, ev->mods, &t->line);
        if (ev->code >= KEY_WHEEL_UP)
            buf_addf(&t->line, " %d,%d", ev->row, ev->col);
        buf_addc(&t->line, '>');
        break;
    case KEYS_TEXT:
    case KEYS_PASTE:
        assert_true(ev->n > 0 && unicode_valid(ev->text, ev->n));
        buf_add(&t->line, ev->text, ev->n);
        break;
    case KEYS_PASTE_END:
        buf_addc(&t->line, ']');
        break;
    case KEYS_REPORT:
        buf_addf(&t->line, "{%s %d}", reports[ev->report], ev->value);
    }
}

static void check_told(struct told *t, const char *want)
{
    assert_string_equal(buf_str(&t->line), want);
    buf_reset(&t->line);
}

/* All at once and byte by byte at the same moment must give the same. */
static void check(const char *in, size_t n, const char *want)
{
    for (int by_byte = 0; by_byte < 2; by_byte++) {
        struct told t = {0};
        struct keys *k = keys_open();
        if (!by_byte)
            keys_feed(k, in, n, 1000, tell, &t);
        for (size_t i = 0; i < n && by_byte; i++)
            keys_feed(k, in + i, 1, 1000, tell, &t);
        keys_tick(k, 9000, tell, &t);
        check_told(&t, want);
        assert_int_equal(keys_timeout(k, 9000), -1);
        keys_close(k);
        buf_free(&t.line);
    }
}

struct row { const char *in, *out; };

static void check_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check(rows[i].in, strlen(rows[i].in), rows[i].out);
}
#define ROWS(...) do { static const struct row rows[] = { __VA_ARGS__ }; check_rows(rows, sizeof rows / sizeof *rows); } while (0)

static void test_keys__single_bytes_are_text_and_control_keys(void **state)
{
    (void)state;
    ROWS(
        { "a", "a" }, { "na\xC3\xAFve \xF0\x9F\x99\x82", "na\xC3\xAFve \xF0\x9F\x99\x82" },
        { "\r", "<Enter>" }, { "\t", "<Tab>" }, { "\x7F", "<Backspace>" }, { "\b", "<Backspace>" }, { "\x1B", "<Esc>" },
        { "\n", "<Ctrl-J>" }, { "\x03", "<Ctrl-C>" }, { "\x1A", "<Ctrl-Z>" }, { "\x1F", "<Ctrl-_>" }, { "\x1C", "<Ctrl-\\>" },
        { "a\x03" "b", "a<Ctrl-C>b" }, { "\x1B\x1B", "<Esc><Esc>" }, { "\x1B\x1B\x1B", "<Esc><Esc><Esc>" },
        { "\xFF" "a", "\xEF\xBF\xBD" "a" }, { "\xC3", "\xEF\xBF\xBD" }, { "a\xE2\x82", "a\xEF\xBF\xBD" }, { "a\xC2\x9B" "b", "ab" });
    check("\0", 1, "<Ctrl-Space>");
}

static void test_keys__alt_is_an_escape_in_front(void **state)
{
    (void)state;
    ROWS(
        { "\x1B" "a", "<Alt-A>" }, { "\x1B" "A", "<Alt-Shift-A>" }, { "\x1B<", "<Alt-<>" }, { "\x1B_", "<Alt-_>" },
        { "\x1B\r", "<Alt-Enter>" }, { "\x1B\n", "<Ctrl-Alt-J>" }, { "\x1B\x7F", "<Alt-Backspace>" }, { "\x1B\x03", "<Ctrl-Alt-C>" },
        { "\x1B\xC3\xA9", "<Alt-\xC3\xA9>" }, { "\x1B[", "<Alt-[>" }, { "\x1B]", "<Alt-]>" }, { "\x1BO", "<Alt-Shift-O>" },
        { "\x1BP", "<Alt-Shift-P>" }, { "\x1B]x", "<Alt-]>x" }, { "\x1BPx", "<Alt-Shift-P>x" }, { "\x1B\x1B[A", "<Alt-Up>" },
        { "\x1B\x1B[3~", "<Alt-Delete>" }, { "\x1B\x1BOC", "<Alt-Right>" }, { "\x1B\x1B" "a", "<Esc><Alt-A>" });
}

static void test_keys__named_keys_come_in_the_forms_of_all_terminals(void **state)
{
    (void)state;
    ROWS(
        /* xterm, tmux, screen */
        { "\x1B[A\x1B[B\x1B[C\x1B[D", "<Up><Down><Right><Left>" }, { "\x1BOA\x1BOD", "<Up><Left>" },
        { "\x1B[H\x1B[F\x1BOH\x1BOF", "<Home><End><Home><End>" },
        { "\x1B[1~\x1B[2~\x1B[3~\x1B[4~\x1B[5~\x1B[6~", "<Home><Insert><Delete><End><PgUp><PgDn>" }, { "\x1B[Z", "<Shift-Tab>" },
        { "\x1BOP\x1BOQ\x1BOR\x1BOS", "<F1><F2><F3><F4>" }, { "\x1B[15~\x1B[17~\x1B[21~\x1B[23~\x1B[24~", "<F5><F6><F10><F11><F12>" },
        { "\x1B[1;5A\x1B[1;2B\x1B[1;3C\x1B[1;6D", "<Ctrl-Up><Shift-Down><Alt-Right><Ctrl-Shift-Left>" }, { "\x1B[3;5~", "<Ctrl-Delete>" },
        { "\x1B[1;5H\x1B[1;2P\x1B[1;2R", "<Ctrl-Home><Shift-F1><Shift-F3>" }, { "\x1BO5A", "<Ctrl-Up>" },
        /* rxvt */
        { "\x1B[7~\x1B[8~\x1B[11~\x1B[14~", "<Home><End><F1><F4>" }, { "\x1B[a\x1BOa", "<Shift-Up><Ctrl-Up>" },
        { "\x1B[3$\x1B[3^\x1B[3@", "<Shift-Delete><Ctrl-Delete><Ctrl-Shift-Delete>" },
        /* the linux console */
        { "\x1B[[A\x1B[[E", "<F1><F5>" }, { "\x1B[1~\x1B[4~", "<Home><End>" },
        /* the keypad in application mode */
        { "\x1BOM\x1BOp\x1BOk", "<Enter>0+" });
}

static void test_keys__kitty_and_modify_other_keys_report_what_others_cannot(void **state)
{
    (void)state;
    ROWS(
        { "\x1B[13;2u\x1B[13;5u", "<Shift-Enter><Ctrl-Enter>" }, { "\x1B[27u", "<Esc>" }, { "\x1B[99;5u", "<Ctrl-C>" },
        { "\x1B[99;6u", "<Ctrl-Shift-C>" },
        { "\x1B[112;3u\x1B[112;4u", "<Alt-P><Alt-Shift-P>" }, { "\x1B[44:60;4u", "<Alt-<>" }, { "\x1B[45:95;6u", "<Ctrl-_>" },
        { "\x1B[47;5u", "<Ctrl-_>" },
        { "\x1B[104;5u\x1B[105;5u\x1B[109;5u\x1B[91;5u", "<Backspace><Tab><Enter><Esc>" }, { "\x1B[127;3u", "<Alt-Backspace>" },
        { "\x1B[97;2u", "A" }, { "\x1B[97u", "a" }, { "\x1B[233:201;2u", "\xC3\x89" }, { "\x1B[57399u\x1B[57414u\x1B[57419u", "0<Enter><Up>" },
        { "\x1B[97;5:3u", "" }, { "\x1B[1;1:3A", "" }, { "\x1B[57441;2u", "" }, { "\x1B[97;9u", "" }, { "\x1B[97;129u", "a" },
        { "\x1B[97;33u", "<Alt-A>" },
        { "\x1B[27;2;13~", "<Shift-Enter>" }, { "\x1B[27;5;99~", "<Ctrl-C>" }, { "\x1B[27;3;60~", "<Alt-<>" }, { "\x1B[3;5u", "" },
        { "\x1B[99999999u", "" });
}

static void test_keys__the_mouse_tells_clicks_and_wheel(void **state)
{
    (void)state;
    ROWS(
        { "\x1B[<0;5;7M\x1B[<0;5;7m", "<Click 6,4>" }, { "\x1B[<64;1;1M\x1B[<65;1;1M", "<WheelUp 0,0><WheelDown 0,0>" },
        { "\x1B[<16;2;2M", "<Ctrl-Click 1,1>" },
        { "\x1B[<32;5;7M", "" }, { "\x1B[<66;5;7M", "" },
        { "\x1B[<2;5;7M\x1B[<2;5;7m", "<Grab 6,4>" }, { "\x1B[<1;5;7M\x1B[<1;6;7m", "<Grab 6,4>" },
        { "\x1B[<0;5;7M\x1B[<0;9;8m", "<Click 6,4><Grab 7,8>" });
}

static void test_keys__the_mouse_of_old_terminals_tells_the_same(void **state)
{
    (void)state;
    ROWS(
        { "\x1B[M !!\x1B[M#!!a", "<Click 0,0>a" }, { "\x1B[M`%'\x1B[Ma%'", "<WheelUp 6,4><WheelDown 6,4>" },
        { "\x1B[M %'\x1B[M#)(", "<Click 6,4><Grab 7,8>" }, { "\x1B[M\"%'", "<Grab 6,4>" }, { "\x1B[M\x05%'", "" });
}

static void count_bursts(void *arg, const struct key_event *ev)
{
    *(int *)arg += ev->burst;
}

static void test_keys__arrows_that_come_at_once_are_a_burst(void **state)
{
    static const struct { const char *in; int bursts; } rows[] = {
        {"\x1B[A", 0}, {"\x1B[A\x1B[A", 2}, {"\x1BOA\x1BOA\x1BOA", 3}, {"\x1B[B\x1B[B\x1B[A", 2}, {"\x1B[A\x1B[B", 0}, {"\x1B[C\x1B[C", 0},
        {"\x1B[A\x1B[Ax\x1B[A", 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int n = 0;
        struct keys *k = keys_open();
        keys_feed(k, rows[i].in, strlen(rows[i].in), 1000, count_bursts, &n);
        keys_close(k);
        assert_int_equal(n, rows[i].bursts);
    }
}

static void test_keys__answers_of_the_terminal_are_reports_and_never_typed(void **state)
{
    (void)state;
    ROWS(
        { "\x1B[?62;1;4c", "{GRAPHICS 4}{DA1 62}" }, { "\x1B[6;20;10t", "{CELL 10260}" },
        { "\x1B_Gi=31;OK\x1B\\x", "{GRAPHICS 2}x" }, { "\x1B_Gi=31;EINVAL:no\x1B\\x", "x" }, { "\x1BP>|iTerm2 3.5\x1B\\", "{GRAPHICS 3}" },
        { "\x1B[>41;354;0c", "" }, { "\x1B[?2026;2$y", "{SYNC 1}" }, { "\x1B[?2026;0$y", "{SYNC 0}" },
        { "\x1B[?2026;4$y", "{SYNC 0}" },
        { "\x1B[?2027;1$y", "" }, { "\x1B[?1007;1$y\x1B[?1007;2$y", "{WHEEL_KEYS 1}{WHEEL_KEYS 0}" },
        { "\x1B[?1u", "{KITTY 1}" }, { "\x1B[I\x1B[O", "{FOCUS 1}{FOCUS 0}" }, { "\x1B[24;80R", "{CURSOR 79}" },
        { "\x1B[?1;1R", "{CURSOR 0}" },
        { "\x1B]11;rgb:ffff/ffff/ffff\x1B\\", "{BACKGROUND 255}" }, { "\x1B]11;rgb:0000/0000/0000\a", "{BACKGROUND 0}" },
        { "\x1B]11;rgb:ff/00/00\a", "{BACKGROUND 76}" },
        { "\x1B]11;rgba:8000/8000/8000/ffff\a", "{BACKGROUND 127}" }, { "\x1B]11;rgb:zz/00/00\a", "" }, { "\x1B]11;rgb:12\a", "" },
        { "\x1B]10;rgb:1/2/3\a", "" },
        { "\x1BP1+r524742\x1B\\", "" }, { "\x1BP>|XTerm(370)\x1B\\x", "x" }, { "\x1B[8;24;80t", "" }, { "\x1B[0n", "" },
        { "\x1B]11;rgb:00\rx", "<Enter>x" },                /* broken off: what follows is not lost */
        { "\x1B]11;rgb:00\x1B[A", "<Up>" }, { "\x1B[12\rx", "<Enter>x" }, { "\x1B[1;\x1B[A", "<Up>" }, { "a\x1B[?62cb", "a{DA1 62}b" });
    struct buf b = {0};
    buf_adds(&b, "\x1B]52;c;");
    for (int i = 0; i < 5000; i++)
        buf_adds(&b, "QUJD");
    buf_adds(&b, "\x1B\\x");
    check(b.data, b.len, "x");
    buf_free(&b);
}

static void test_keys__between_the_marks_everything_is_data(void **state)
{
    (void)state;
    ROWS(
        { "\x1B[200~hello\x1B[201~", "[hello]" }, { "\x1B[200~\x1B[201~", "[]" }, { "\x1B[200~a\rb\r\nc\nd\r\re\x1B[201~", "[a\nb\nc\nd\n\ne]" },
        { "\x1B[200~\ta\x03\x1B[Ab\x7F\x1B[201~x", "[\ta[Ab]x" },
        { "\x1B[200~a\xFF" "b\xC2\x9B\xE2\x82\x1B[201~", "[a\xEF\xBF\xBD" "b\xEF\xBF\xBD]" },
        { "\x1B[200~a\x1B[20\x1B[201~\r", "[a[20]<Enter>" }, { "\x1B\x1B[200~a\x1B[201~", "<Esc>[a]" }, { "\x1B[200~\r\x1B[201~\n", "[\n]<Ctrl-J>" },
        { "\x1B[201~x", "x" }, { "\x1B[200~never ends", "[never ends]" }, { "\x1B[200~cut \xE2\x82", "[cut \xEF\xBF\xBD]" },
        { "\x1B[200~cut\x1B[2", "[cut]" });
}

static void test_keys__a_paste_without_an_end_ends_after_a_second_of_silence(void **state)
{
    (void)state;
    struct told t = {0};
    struct keys *k = keys_open();
    keys_feed(k, "\x1B[200~abc", 9, 0, tell, &t);
    assert_int_equal(keys_timeout(k, 0), 1000);
    keys_tick(k, 999, tell, &t);
    keys_feed(k, "d", 1, 999, tell, &t);
    check_told(&t, "[abcd");
    keys_tick(k, 1998, tell, &t);
    check_told(&t, "");
    keys_feed(k, "\r", 1, 1999, tell, &t);          /* too late: it is a key again */
    check_told(&t, "]<Enter>");
    keys_close(k);
    buf_free(&t.line);
}

static void note_cut(void *arg, const struct key_event *ev)
{
    buf_addc(arg, ev->cut ? '!' : '.');
}

static void test_keys__the_rest_of_a_paste_that_stalled_is_marked(void **state)
{
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        struct buf cut = {0};
        struct keys *k = keys_open();
        keys_feed(k, "a\x1B[200~abc", 10, 0, note_cut, &cut);
        keys_tick(k, 1000, note_cut, &cut);
        assert_string_equal(buf_str(&cut), "...");                  /* text, paste, its end */
        keys_feed(k, "y", 1, 60000, note_cut, &cut);                /* however long it stalled */
        keys_feed(k, "\r", 1, 61999, note_cut, &cut);
        assert_string_equal(buf_str(&cut), "...!!");
        if (ends)
            keys_feed(k, "z\x1B[201~y\r", 9, 62100, note_cut, &cut);
        else
            keys_feed(k, "y\r", 2, 63999, note_cut, &cut);          /* after a pause it was typed */
        assert_string_equal(buf_str(&cut), ends ? "...!!!.." : "...!!..");
        buf_reset(&cut);
        keys_feed(k, "\x1B[200~abc", 9, 70000, note_cut, &cut);
        keys_tick(k, 71000, note_cut, &cut);
        keys_feed(k, "\x1B[200~abc\x1B[201~\r", 16, 72000, note_cut, &cut);     /* another paste, which is whole */
        assert_string_equal(buf_str(&cut), ".....");
        keys_close(k);
        buf_free(&cut);
    }
}

static void test_keys__a_lone_escape_waits_its_time_and_no_longer(void **state)
{
    (void)state;
    struct told t = {0};
    struct keys *k = keys_open();
    keys_feed(k, "\x1B", 1, 100, tell, &t);
    assert_int_equal(keys_timeout(k, 100), 25);
    assert_int_equal(keys_timeout(k, 120), 5);
    keys_tick(k, 124, tell, &t);
    check_told(&t, "");
    keys_tick(k, 125, tell, &t);
    check_told(&t, "<Esc>");
    keys_feed(k, "[A", 2, 400, tell, &t);           /* typed */
    check_told(&t, "[A");
    keys_escape_ms(k, 100);
    keys_feed(k, "\x1B", 1, 1000, tell, &t);
    keys_feed(k, "[A", 2, 1090, tell, &t);
    check_told(&t, "<Up>");
    keys_close(k);
    buf_free(&t.line);
}

/* A slow line cuts Alt-Enter in two: that must not stop the answer and send the draft. */
static void test_keys__enter_soon_after_a_lone_escape_is_alt_enter(void **state)
{
    (void)state;
    struct told t = {0};
    struct keys *k = keys_open();
    keys_feed(k, "\x1B", 1, 100, tell, &t);
    keys_feed(k, "\r", 1, 200, tell, &t);
    keys_feed(k, "\r", 1, 210, tell, &t);
    check_told(&t, "<Esc><Alt-Enter><Enter>");
    keys_feed(k, "\x1B", 1, 1000, tell, &t);
    keys_feed(k, "\r", 1, 1200, tell, &t);
    check_told(&t, "<Esc><Enter>");
    keys_feed(k, "\x1B", 1, 2000, tell, &t);
    keys_feed(k, "a", 1, 2050, tell, &t);
    keys_feed(k, "\r", 1, 2100, tell, &t);
    check_told(&t, "<Esc>a<Enter>");
    keys_close(k);
    buf_free(&t.line);
}

static void test_keys__an_answer_that_comes_in_pieces_over_a_slow_line_is_not_typed(void **state)
{
    (void)state;
    struct told t = {0};
    struct keys *k = keys_open();
    static const char *const pieces[] = {"\x1B[", "?2026", ";2$", "y\x1B]11;rgb:", "ffff/ffff", "/ffff\x1B", "\\a"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        keys_tick(k, 200 * (int64_t)i + 190, tell, &t);
        keys_feed(k, pieces[i], strlen(pieces[i]), 200 * (int64_t)i + 200, tell, &t);
    }
    check_told(&t, "{SYNC 1}{BACKGROUND 255}a");
    keys_close(k);
    buf_free(&t.line);
}

/* Without marks: what comes at once, and then waits. */
static void check_fast(const char *const *feeds, const int *at, int n, const char *want)
{
    struct told t = {0};
    struct keys *k = keys_open();
    int64_t now = 1000;
    for (int i = 0; i < n; i++) {
        now += at[i];
        keys_feed(k, feeds[i], strlen(feeds[i]), now, tell, &t);
    }
    if (keys_timeout(k, now) >= 0)
        assert_true(keys_timeout(k, now) <= 5);     /* Enter may wait, but not so that one notices */
    keys_tick(k, now + 5, tell, &t);
    check_told(&t, want);
    keys_close(k);
    buf_free(&t.line);
}
#define FAST(want, ...) do { static const struct { const char *in; int after; } f[] = { __VA_ARGS__ }; const char *s[8]; int at[8]; \
                             int n = (int)(sizeof f / sizeof *f); for (int i = 0; i < n; i++) { s[i] = f[i].in; at[i] = f[i].after; } \
                             check_fast(s, at, n, want); } while (0)

static void test_keys__without_marks_a_paste_is_known_by_its_speed(void **state)
{
    (void)state;
    FAST("hello<Enter>", {"hello\r", 0});                                   /* a script's way to type */
    FAST("hello<Enter>", {"hello", 0}, {"\r", 1});
    FAST("hi<Enter>there<Enter>", {"hi\rthere\r", 0});                      /* too short to tell */
    FAST("one[\n]two", {"one\rtwo", 0});
    FAST("one[\n]two[\n]", {"one\rtwo\r", 0});
    FAST("one[\n]two[\n]", {"one\r", 0}, {"two", 2}, {"\r", 2});
    FAST("one<Enter>two<Enter>", {"one\r", 0}, {"two\r", 5});
    FAST("one[\n][\n]two[\n]", {"one\r\r\ntwo\r\n", 0});
    FAST("one[\n][\t]x[\n]", {"one\r\tx\r", 0});
    FAST("one<Enter><Up>", {"one\r\x1B[A", 0});                             /* nobody pastes keys */
    FAST("one<Up>tw<Enter>x", {"one\x1B[Atw\rx", 0});
    FAST("one<Enter>x", {"o", 0}, {"n", 80}, {"e", 80}, {"\rx", 80});        /* typed, and the line was slow for once */
    FAST("abc<Tab>", {"abc\t", 0});
    FAST("{SYNC 1}abc<Enter>", {"\x1B[?2026;1$yabc\r", 0});
}

static void test_keys__a_paste_without_marks_is_known_in_a_terminal_that_marks_others(void **state)
{
    (void)state;
    FAST("[x]one[\n]two[\n]", {"\x1B[200~x\x1B[201~", 0}, {"one\rtwo\r", 50});
    FAST("one[\n]two[\n]", {"\x1B[?2004;1$y", 0}, {"one\rtwo\r", 50});
    FAST("[x]one<Enter>", {"\x1B[200~x\x1B[201~", 0}, {"one\r", 50});
}

static uint32_t seed = 1;

static uint32_t rnd(uint32_t n)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static void test_keys__any_split_gives_the_same_events(void **state)
{
    (void)state;
    static const char *const bits[] = {
        "a", "xyz", "\r", "\n", "\t", "\x1B", "\x1B[A", "\x1BOP", "\x1B[1;5C", "\x1B[200~", "\x1B[201~", "\x1B[27;2;13~", "\x1B[97;3u", "\xC3\xA9",
        "\xF0\x9F\x99\x82",
        "\xE2\x82", "\xFF", "\x1B]11;rgb:ff/ff/ff\a", "\x1BP1$r\x1B\\", "\x1B[?62c", "\x1B[<0;1;1M", "\x1B[[A", "\x1B[3$", "[", "O", "\x03", "\xC2",
        "\x9B", "]11;", "\x7F",
    };
    struct buf b = {0};
    struct told whole = {0}, t = {0};
    for (int round = 0; round < 20000; round++) {
        buf_reset(&b);
        for (uint32_t n = 1 + rnd(10); n; n--)
            buf_adds(&b, bits[rnd(sizeof bits / sizeof *bits)]);
        for (int split = 0; split < 4; split++) {
            struct told *x = split ? &t : &whole;
            struct keys *k = keys_open();
            for (size_t i = 0, n; i < b.len; i += n) {
                n = split ? 1 + rnd(4) : b.len;
                n = n < b.len - i ? n : b.len - i;
                keys_feed(k, b.data + i, n, 50, tell, x);
            }
            keys_tick(k, 5000, tell, x);
            keys_close(k);
            if (split)
                check_told(x, buf_str(&whole.line));
        }
        buf_reset(&whole.line);
    }
    buf_free(&b);
    buf_free(&t.line);
    buf_free(&whole.line);
}

static void test_keys__a_megabyte_is_pasted_as_it_is(void **state)
{
    (void)state;
    struct told t = {0};
    struct buf want = {0};
    struct keys *k = keys_open();
    keys_feed(k, "\x1B[200~", 6, 0, tell, &t);
    buf_addc(&want, '[');
    for (int i = 0; want.len < 1000000; i++) {
        buf_addf(&want, "line %d \xC3\xA9\xE4\xBD\xA0\n", i);
    }
    for (size_t i = 1, n; i < want.len; i += n) {
        n = want.len - i < 4095 ? want.len - i : 4095;
        keys_feed(k, want.data + i, n, 0, tell, &t);
    }
    keys_feed(k, "\x1B[201~", 6, 0, tell, &t);
    buf_addc(&want, ']');
    assert_int_equal(t.line.len, want.len);
    assert_memory_equal(t.line.data, want.data, want.len);
    keys_close(k);
    buf_free(&t.line);
    buf_free(&want);
}

static void test_keys__names_are_read_as_they_are_written(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Ctrl-C", "Alt-Enter", "F1", "F12", "Ctrl-X", "\xC3\xA9", "Space", "Ctrl-Space", "Ctrl-Shift-C", "Alt-P", "Alt-Shift-P", "Alt-<", "Alt--",
        "-", "Ctrl-_", "Shift-Tab",
        "PgUp", "Ctrl-Home", "j", "G", "?", "Ctrl-Alt-J", "Shift-Up", "Ctrl-\\", "Esc", "Backspace",
    };
    static const struct row others[] = {
        { "ctrl-c", "Ctrl-C" }, { "Alt-p", "Alt-P" }, { "C-M-x", "Ctrl-Alt-X" }, { "pagedown", "PgDn" }, { "Ctrl-H", "Backspace" },
        { "Ctrl-I", "Tab" }, { "Ctrl-M", "Enter" },
        { "Ctrl-[", "Esc" }, { "Ctrl-/", "Ctrl-_" }, { "escape", "Esc" }, { "shift-a", "A" },
    };
    static const char *const wrong[] = { "", "Ctrl-", "Hyper-X", "F13", "ab", "\xFF", "\x1B" };
    struct buf b = {0};
    uint32_t code;
    uint8_t mods;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++, buf_reset(&b)) {
        assert_true(keys_parse(names[i], &code, &mods));
        keys_name(code, mods, &b);
        assert_string_equal(buf_str(&b), names[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++, buf_reset(&b)) {
        assert_true(keys_parse(others[i].in, &code, &mods));
        keys_name(code, mods, &b);
        assert_string_equal(buf_str(&b), others[i].out);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(keys_parse(wrong[i], &code, &mods));
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys__single_bytes_are_text_and_control_keys),
        cmocka_unit_test(test_keys__alt_is_an_escape_in_front),
        cmocka_unit_test(test_keys__named_keys_come_in_the_forms_of_all_terminals),
        cmocka_unit_test(test_keys__kitty_and_modify_other_keys_report_what_others_cannot),
        cmocka_unit_test(test_keys__the_mouse_tells_clicks_and_wheel),
        cmocka_unit_test(test_keys__the_mouse_of_old_terminals_tells_the_same),
        cmocka_unit_test(test_keys__arrows_that_come_at_once_are_a_burst),
        cmocka_unit_test(test_keys__answers_of_the_terminal_are_reports_and_never_typed),
        cmocka_unit_test(test_keys__between_the_marks_everything_is_data),
        cmocka_unit_test(test_keys__a_paste_without_an_end_ends_after_a_second_of_silence),
        cmocka_unit_test(test_keys__the_rest_of_a_paste_that_stalled_is_marked),
        cmocka_unit_test(test_keys__a_lone_escape_waits_its_time_and_no_longer),
        cmocka_unit_test(test_keys__enter_soon_after_a_lone_escape_is_alt_enter),
        cmocka_unit_test(test_keys__an_answer_that_comes_in_pieces_over_a_slow_line_is_not_typed),
        cmocka_unit_test(test_keys__without_marks_a_paste_is_known_by_its_speed),
        cmocka_unit_test(test_keys__a_paste_without_marks_is_known_in_a_terminal_that_marks_others),
        cmocka_unit_test(test_keys__any_split_gives_the_same_events),
        cmocka_unit_test(test_keys__a_megabyte_is_pasted_as_it_is),
        cmocka_unit_test(test_keys__names_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
