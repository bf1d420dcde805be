/* The programs are scripts of the same names, which write down what they were given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "tests/emulated.h"
#include "tests/tmpdir.h"
#include "tool/tool.h"
#include "ui/tui/handoff.h"

static struct tmpdir dir;
static struct buf said, terminal;

static const char *const made[] = {"tmux", "wl-copy", "xclip", "xsel", "input", "arguments", "new", "q35chat/clipboard.txt"};

static int setup(void **state)
{
    static const char *const environment[] = {"TMUX", "WAYLAND_DISPLAY", "DISPLAY", "SSH_CONNECTION"};
    (void)state;
    if (!tmpdir_make(&dir))
        return -1;
    for (int i = 0; i < 4; i++)
        unsetenv(environment[i]);
    setenv("Q35_TEST_DIR", dir.path, 1);
    setenv("XDG_STATE_HOME", dir.path, 1);
    setenv("HOME", dir.path, 1);
    char path[256];
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", dir.path);
    setenv("PATH", path, 1);
    buf_reset(&said);
    buf_reset(&terminal);
    return 0;
}

static int teardown(void **state)
{
    char path[128];
    (void)state;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        tmpdir_drop(&dir, made[i]);
    snprintf(path, sizeof path, "%s/q35chat", dir.path);
    rmdir(path);
    tmpdir_remove(&dir);                /* fails if something else was left there */
    buf_free(&said);
    buf_free(&terminal);
    return access(dir.path, F_OK) ? 0 : -1;
}

static void program(const char *name, const char *script)
{
    char path[192];
    assert_true(tmpdir_put(&dir, name, script, strlen(script)));
    snprintf(path, sizeof path, "%s/%s", dir.path, name);
    assert_int_equal(chmod(path, 0700), 0);
}

#define TAKES "#!/bin/sh\necho \"$@\" > $Q35_TEST_DIR/arguments\ncat > $Q35_TEST_DIR/input\n"
#define TMUX(version) "#!/bin/sh\nif test \"$1\" = -V; then echo 'tmux " version "'; exit; fi\n" \
                      "echo \"$@\" > $Q35_TEST_DIR/arguments\ncat > $Q35_TEST_DIR/input\n"

static void on_terminal(void *arg, const char *text, size_t n)
{
    (void)arg;
    buf_add(&terminal, text, n);
}

static bool copy(const char *text)
{
    return clip_copy(text, strlen(text), on_terminal, NULL, true, &said);
}

static void assert_file(const char *name, const char *expected)
{
    char path[192];
    struct buf b = {0};
    snprintf(path, sizeof path, "%s/%s", dir.path, name);
    assert_true(file_read(&b, path, 1 << 20, NULL));
    assert_string_equal(buf_str(&b), expected);
    buf_free(&b);
}

static void test_clip__tmux_comes_first(void **state)
{
    (void)state;
    setenv("TMUX", "/tmp/tmux-0/default,1,0", 1);
    setenv("DISPLAY", ":0", 1);
    program("tmux", TMUX("3.3a"));
    program("xclip", TAKES);
    assert_true(copy("some text"));
    assert_string_equal(said.data, "copied 9 bytes to the tmux buffer, and the clipboard if the terminal lets it");
    assert_file("arguments", "load-buffer -w -\n");
    assert_file("input", "some text");
    assert_int_equal(terminal.len, 0);
}

static void test_clip__an_old_tmux_keeps_it(void **state)
{
    static const struct { const char *script, *arguments; } rows[] = {
        {TMUX("3.1c"), "load-buffer -\n"}, {TMUX("2.9"), "load-buffer -\n"}, {TMUX("3.2"), "load-buffer -w -\n"},
        {TMUX("next-3.4"), "load-buffer -w -\n"}, {TMUX("master"), "load-buffer -w -\n"}, {TMUX("10.0"), "load-buffer -w -\n"},
    };
    (void)state;
    setenv("TMUX", "x", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        program("tmux", rows[i].script);
        buf_reset(&said);
        assert_true(copy("text"));
        assert_file("arguments", rows[i].arguments);
        assert_int_equal(strstr(said.data, "if the terminal lets it") != NULL, strstr(rows[i].arguments, "-w") != NULL);
    }
}

static void test_clip__then_the_programs_of_the_desktop(void **state)
{
    (void)state;
    setenv("DISPLAY", ":0", 1);
    program("xsel", TAKES);
    program("xclip", "#!/bin/sh\nexit 1\n");            /* the display is not there */
    program("wl-copy", TAKES);
    assert_true(copy("x"));
    assert_string_equal(said.data, "copied 1 byte to the clipboard (xsel)");
    assert_file("arguments", "--clipboard --input\n");
    setenv("WAYLAND_DISPLAY", "wayland-0", 1);
    buf_reset(&said);
    assert_true(copy("x"));
    assert_string_equal(said.data, "copied 1 byte to the clipboard (wl-copy)");
}

static void test_clip__over_ssh_the_terminal_is_asked(void **state)
{
    (void)state;
    setenv("DISPLAY", ":0", 1);
    setenv("SSH_CONNECTION", "1 2 3 4", 1);
    program("xclip", TAKES);
    assert_true(copy("some text"));
    assert_string_equal(terminal.data, "some text");
    assert_string_equal(said.data, "copied 9 bytes with OSC 52 (the terminal does not confirm)");
}

static void test_clip__what_is_too_long_for_a_terminal_goes_into_a_file(void **state)
{
    static char text[CLIP_TERMINAL_MAX + 2];
    char expected[192];
    struct stat st;
    (void)state;
    memset(text, 'x', CLIP_TERMINAL_MAX + 1);
    assert_true(copy(text));
    assert_int_equal(terminal.len, 0);
    snprintf(expected, sizeof expected, "copied 74,995 bytes to %s/q35chat/clipboard.txt: too long for a terminal's clipboard",
             dir.path);
    assert_string_equal(said.data, expected);
    assert_file("q35chat/clipboard.txt", text);
    snprintf(expected, sizeof expected, "%s/q35chat/clipboard.txt", dir.path);
    assert_int_equal(stat(expected, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    text[CLIP_TERMINAL_MAX] = 0;
    assert_true(copy(text));
    assert_int_equal(terminal.len, CLIP_TERMINAL_MAX);
}

static void test_clip__says_when_it_went_nowhere(void **state)
{
    (void)state;
    setenv("XDG_STATE_HOME", "/dev/null", 1);
    assert_false(clip_copy("x", 1, NULL, NULL, true, &said));
    assert_true(!strncmp(said.data, "nothing was copied: cannot make /dev/null", 41));
    buf_reset(&said);
    assert_false(copy(""));
    assert_string_equal(said.data, "nothing to copy");
}

static void test_clip__a_program_that_does_not_read_is_no_harm(void **state)
{
    char *text = malloc(1 << 20);
    (void)state;
    memset(text, 'x', 1 << 20);
    setenv("DISPLAY", ":0", 1);
    program("xclip", "#!/bin/sh\nexit 0\n");
    assert_true(clip_copy(text, 1 << 20, NULL, NULL, true, &said));
    free(text);
}

static void test_clip__a_program_that_hangs_is_given_up(void **state)
{
    (void)state;
    setenv("DISPLAY", ":0", 1);
    program("xclip", "#!/bin/sh\nexec sleep 600\n");
    assert_true(copy("x"));
    assert_int_equal(terminal.len, 1);
}

static void test_clip__a_program_may_stay_in_the_background(void **state)
{
    (void)state;
    setenv("DISPLAY", ":0", 1);
    program("xclip", "#!/bin/sh\ncat > $Q35_TEST_DIR/input\nsleep 3 &\n");        /* as xclip does, to serve the clipboard */
    assert_true(copy("x"));
    assert_string_equal(said.data, "copied 1 byte to the clipboard (xclip)");
}

/* Imitates wl-copy and xclip: a process that nobody waits for keeps the text until somebody else copies. */
static void test_clip__what_serves_the_clipboard_outlives_a_tool(void **state)
{
    static const char conf[] = "[tool waits]\ncommand = sleep 600\n";
    struct err e = {0};
    struct buf owner = {0};
    struct options *o = options_open();
    char path[192];
    (void)state;
    if (emulated())
        skip();                         /* qemu-user knows no subreaper */
    setenv("WAYLAND_DISPLAY", "wayland-0", 1);
    program("wl-copy", "#!/bin/sh\ncat > $Q35_TEST_DIR/input\nsleep 600 &\necho $! > $Q35_TEST_DIR/new\n");
    assert_true(tmpdir_put(&dir, "arguments", conf, strlen(conf)));
    snprintf(path, sizeof path, "%s/arguments", dir.path);
    assert_true(options_read_file(o, path, &e));
    struct tools *tools = tools_open(o, &e);
    assert_true(tools && tools_offer(tools, "waits", &e));
    struct tool_run *r = tool_start(tools_find(tools, "waits"), "{}", 2, &e);
    assert_non_null(r);
    assert_true(copy("x"));
    tool_close(r);
    snprintf(path, sizeof path, "%s/new", dir.path);
    assert_true(file_read(&owner, path, 100, &e));
    assert_int_equal(kill(atoi(owner.data), SIGKILL), 0);
    tools_close(tools);
    options_close(o);
    buf_free(&owner);
}

static void test_clip__a_program_gets_no_other_descriptor(void **state)
{
    (void)state;
    if (emulated())
        skip();                         /* qemu-user has descriptors of its own */
    int leaked = fcntl(2, F_DUPFD, 100);
    setenv("DISPLAY", ":0", 1);
    program("xclip", "#!/bin/sh\nls /proc/self/fd > $Q35_TEST_DIR/arguments\n");
    assert_true(copy("x"));
    assert_file("arguments", "0\n1\n2\n3\n");      /* ls has the directory as 3 */
    close(leaked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(test_clip__##name, setup, teardown)
        T(tmux_comes_first),
        T(an_old_tmux_keeps_it),
        T(then_the_programs_of_the_desktop),
        T(over_ssh_the_terminal_is_asked),
        T(what_is_too_long_for_a_terminal_goes_into_a_file),
        T(says_when_it_went_nowhere),
        T(a_program_that_does_not_read_is_no_harm),
        T(a_program_that_hangs_is_given_up),
        T(a_program_may_stay_in_the_background),
        T(what_serves_the_clipboard_outlives_a_tool),
        T(a_program_gets_no_other_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
