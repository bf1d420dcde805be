#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <poll.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/emulated.h"
#include "tool/calc.h"
#include "tool/tool.h"

static void test_calc__expressions_have_these_values(void **state)
{
    static const struct { const char *text, *value; } rows[] = {
        {"17 + 25", "42"}, {"(3 + 4) * 12", "84"}, {"2+3*4", "14"}, {"7/2", "3.5"}, {"8/2", "4"}, {"1/3", "0.333333333333333"},
        {"-2^2", "-4"}, {"2^3^2", "512"}, {"2**10", "1024"}, {"(-2)^2", "4"}, {"2^-1", "0.5"}, {"10 % 3", "1"}, {"-7 % 3", "2"},
        {"0.1 + 0.2", "0.3"}, {".5*4", "2"}, {"1e3", "1000"}, {"5 - -3", "8"}, {"--5", "5"}, {"sqrt(16)", "4"}, {"sqrt(2)", "1.4142135623731"},
        {"max(3, 9, 4)", "9"}, {"min(2.5, 2)", "2"}, {"abs(-3)", "3"}, {"round(2.5)", "3"}, {"floor(-2.5)", "-3"}, {"2 * pi", "6.28318530717959"},
        {"12\xc3\x97" "3", "36"}, {"12\xc3\xb7" "4", "3"}, {"9\xe2\x88\x92" "4", "5"}, {"17 + 25 =", "42"},
        {"123456789012345678901234567890 * 3", "370370367037037036703703703670"},
        {"2^126", "85070591730234615865843651857942052864"}, {"10^40", "1e+40"}, {"9007199254740993 + 0", "9007199254740993"},
        {"170141183460469231731687303715884105727 + 1", "1.70141183460469e+38"}, {"0 * -1.5", "0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[64] = "";
        struct err e = {0};
        if (!calc(rows[i].text, out, sizeof out, &e))
            fail_msg("%s: %s", rows[i].text, e.msg);
        if (!strcmp(rows[i].text, "sqrt(2)"))
            assert_memory_equal(out, "1.41421356237", 13);
        else
            assert_string_equal(out, rows[i].value);
    }
}

static void test_calc__what_is_not_arithmetic_gets_a_sentence(void **state)
{
    static const struct { const char *text, *says; } rows[] = {
        {"1/0", "division by zero"}, {"5 % 0", "division by zero"}, {"0^-1", "division by zero"}, {"", "ends too early"}, {"2 +", "ends too early"},
        {"(1 + 2", "parenthesis"}, {"1 + 2)", "expected an operator"}, {"hello", "unknown name"}, {"system(1)", "unknown function"},
        {"2 3", "expected an operator"}, {"sqrt(-1)", "not a real number"}, {"10^4000", "too large"}, {"sqrt(1, 2)", "one number"},
        {"1 = 2", "nothing may follow"}, {"$(ls)", "not arithmetic"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[64];
        struct err e = {0};
        assert_false(calc(rows[i].text, out, sizeof out, &e));
        if (!strstr(e.msg, rows[i].says))
            fail_msg("%s: %s", rows[i].text, e.msg);
    }
}

static void test_calc__deep_nesting_is_refused(void **state)
{
    char text[20001], out[64];
    struct err e = {0};
    (void)state;
    const char *const units[] = {"(", "2^", "sqrt(", "-("};
    for (int k = 0; k < 4; k++) {
        size_t n = strlen(units[k]);
        for (size_t i = 0; i + n < sizeof text; i += n)
            memcpy(text + i, units[k], n + 1);
        assert_false(calc(text, out, sizeof out, &e));
    }
}

/* --- tools ------------------------------------------------------------------------------------------------------ */

static struct options *o;
static struct tools *tools;

static void with(const char *conf)
{
    char path[] = "/tmp/q35chat-test-XXXXXX";
    struct err e = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, conf, strlen(conf)) == (ssize_t)strlen(conf));
    close(fd);
    o = options_open();
    if (!options_read_file(o, path, &e))
        fail_msg("%s", e.msg);
    unlink(path);
    tools = tools_open(o, &e);
    if (!tools || !tools_offer(tools, "all", &e))
        fail_msg("%s", e.msg);
}

static int teardown(void **state)
{
    (void)state;
    tools_close(tools);
    options_close(o);
    tools = NULL;
    o = NULL;
    return 0;
}

/* Runs a call to its end; the text stays valid until the next one. */
static const char *call(const char *name, const char *arguments)
{
    static struct buf result;
    struct err e = {0};
    buf_reset(&result);
    const struct tool *t = tools_find(tools, name);
    assert_non_null(t);
    struct tool_run *r = tool_start(t, arguments, strlen(arguments), &e);
    if (!r) {
        buf_adds(&result, e.msg);
        return result.data;
    }
    while (!tool_step(r, &result)) {
        struct pollfd fds[TOOL_MAX_FDS];
        poll(fds, (nfds_t)tool_fds(r, fds), TOOL_TICK_MS);
    }
    tool_close(r);
    return buf_str(&result);
}

static void test_tool__calculator_and_clock_answer(void **state)
{
    (void)state;
    with("");
    assert_string_equal(call("calculator", "{\"expression\": \"(3 + 4) * 12\"}"), "84");
    assert_string_equal(call("calculator", "{\"expression\": \"1/0\"}"), "error: division by zero");
    assert_string_equal(call("calculator", "{}"), "error: the argument expression is missing");
    const char *utc = call("clock", "{\"zone\": \"UTC\"}");
    int y, mo, d, h, mi, s, end = 0;
    char day[16];
    assert_int_equal(sscanf(utc, "%d-%d-%d %d:%d:%d %15[A-Za-z], UTC+00:00 (UTC)%n", &y, &mo, &d, &h, &mi, &s, day, &end), 7);
    assert_int_equal(end, strlen(utc));
    assert_true(y >= 2024);
    assert_non_null(strstr(call("clock", "{}"), ", UTC"));
    assert_non_null(strstr(call("clock", "{\"zone\": \"../../etc/passwd\"}"), "error: unknown time zone"));
    assert_non_null(strstr(call("clock", "{\"zone\": \"Mars/Olympus\"}"), "error: unknown time zone"));
    assert_non_null(strstr(call("clock", "not json"), ", UTC"));
}

static void test_tool__the_clock_leaves_the_programs_zone_alone(void **state)
{
    (void)state;
    with("");
    setenv("TZ", "UTC", 1);
    call("clock", "{\"zone\": \"Asia/Tokyo\"}");
    assert_string_equal(getenv("TZ"), "UTC");
    assert_non_null(strstr(call("clock", "{}"), "UTC+00:00"));
    unsetenv("TZ");
}

static void test_tool__arguments_come_on_stdin_and_never_through_a_shell(void **state)
{
    (void)state;
    with("[tool back]\ncommand = cat\n[tool words]\ncommand = printf '%s|' a 'b c' \"d \\\" e\" f\\ g $HOME '' ;x\n");
    assert_string_equal(call("back", "{\"x\": \"$(id); `id`\"}"), "{\"x\": \"$(id); `id`\"}");
    assert_string_equal(call("words", "{}"), "a|b c|d \" e|f g|$HOME||");
}

static void test_tool__words_are_cut_as_a_shell_cuts_them(void **state)
{
    (void)state;
    with("[tool words]\ncommand = printf '%s|' \"a\\n\\\\\\$b\\`\\x\" \\n 'c\\n' \"d\\\n  e\" f\\\n  g\n"
         "[tool shell]\ncommand = bash -c \"printf 'x\\n\\ny'\"\n");
    assert_string_equal(call("words", "{}"), "a\\n\\$b`\\x|n|c\\n|de|fg|");
    assert_string_equal(call("shell", "{}"), "x\n\ny");
}

static void test_tool__exit_status_and_stderr_are_reported(void **state)
{
    (void)state;
    with("[tool fails]\ncommand = sh -c 'echo out, then err >&2 && exit 3'\n[tool dies]\ncommand = sh -c 'kill -9 $$'\n"
         "[tool quiet]\ncommand = true\n[tool bytes]\ncommand = printf 'a\\377b\\n\\n'\n[tool absent]\ncommand = /nonexistent/program\n");
    assert_string_equal(call("fails", "{}"), "out, then err\n[exit status 3]");
    assert_string_equal(call("dies", "{}"), "[ended by signal 9]");
    assert_string_equal(call("quiet", "{}"), "[no output]");
    assert_string_equal(call("bytes", "{}"), "a\xef\xbf\xbd" "b");
    if (vfork_shares())                 /* that is how one learns of it */
        assert_string_equal(call("absent", "{}"), "cannot run /nonexistent/program: No such file or directory");
}

static void test_tool__how_a_call_ended_is_said_in_a_word(void **state)
{
    static const struct { const char *result, *word; } rows[] = {
        {"out\n[exit status 3]", "exit 3"}, {"[exit status 127]", "exit 127"}, {"[ended by signal 9]", "signal 9"},
        {"x\n[ended: longer than 1 s]", "ended"},
        {"error: the user did not allow this call: no", "not run"}, {"error: this call was not allowed; answer without it", "not run"},
        {"error: not run, the user interrupted", "not run"}, {"error: the user interrupted", "stopped"},
        {"fine", ""}, {"", ""}, {"[exit status 3]\nmore", ""}, {"[exit status ", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char word[TOOL_OUTCOME];
        tool_outcome(rows[i].result, strlen(rows[i].result), word);
        assert_string_equal(word, rows[i].word);
    }
}

static void test_tool__limits_end_the_whole_group(void **state)
{
    (void)state;
    with("[tool endless]\ncommand = yes\nmax_output = 1000\n[tool slow]\ncommand = sh -c 'sleep 600 | sleep 600'\ntimeout_s = 1\n"
         "[tool leaves]\ncommand = sh -c 'echo done; sleep 600 &'\ntimeout_s = 3600\n");
    const char *text = call("endless", "{}");
    assert_true(strlen(text) < 1100);
    assert_non_null(strstr(text, "[ended: more than 1000 bytes of output]"));
    const int64_t start = clock_ns();
    assert_string_equal(call("slow", "{}"), "[ended: longer than 1 s]");
    assert_string_equal(call("leaves", "{}"), "done");
    assert_true(clock_ms_since(start) < 500e3);         /* nobody waited for a sleep of ten minutes */
}

/* Processes whose command line has the word. */
static int n_named(const char *word)
{
    struct buf command = {0};
    int n;
    buf_addf(&command, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx '%s'", word);
    FILE *f = popen(command.data, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    buf_free(&command);
    return n;
}

static void test_tool__what_has_left_its_group_is_ended_too(void **state)
{
    char conf[600], nap[32], line[64];
    struct err e = {0};
    (void)state;
    if (emulated())
        skip();                         /* qemu-user knows no subreaper */
    snprintf(nap, sizeof nap, "9%d", (int)getpid());    /* a number of our own, and a pattern that does not match itself */
    snprintf(line, sizeof line, "[9]%s", nap + 1);
    snprintf(conf, sizeof conf, "[tool leaves]\ncommand = sh -c 'setsid sleep %s & (setsid setsid sleep %s &); echo done'\n"
             "[tool slow]\ncommand = sh -c 'setsid sleep %s & setsid -f sh -c \"sleep %s & sleep %s\"; sleep 600'\ntimeout_s = 1\n", nap, nap, nap,
             nap, nap);
    with(conf);
    assert_string_equal(call("leaves", "{}"), "done");
    assert_int_equal(n_named(line), 0);
    assert_string_equal(call("slow", "{}"), "[ended: longer than 1 s]");
    assert_int_equal(n_named(line), 0);
    struct tool_run *r = tool_start(tools_find(tools, "slow"), "{}", 2, &e);    /* as at the end of the program */
    assert_non_null(r);
    while (n_named(line) < 3)
        poll(NULL, 0, 20);
    tool_close(r);
    assert_int_equal(n_named(line), 0);
}

/* Two calls at the same time: the end of one reaches what it has started, orphans too, and nothing of the other. */
static void test_tool__the_end_of_a_call_leaves_other_calls_alone(void **state)
{
    char conf[500], naps[2][32], lines[2][64];
    struct tool_run *runs[2];
    struct err e = {0};
    (void)state;
    if (emulated())
        skip();
    for (int i = 0; i < 2; i++) {
        snprintf(naps[i], sizeof naps[i], "6%d%d", i, (int)getpid());
        snprintf(lines[i], sizeof lines[i], "[6]%s", naps[i] + 1);
    }
    snprintf(conf, sizeof conf, "[tool a]\ncommand = sh -c '(setsid sleep %s &); sleep %s'\n[tool b]\ncommand = sh -c '(setsid sleep %s &); sleep 1; "
             "echo done'\n", naps[0], naps[0], naps[1]);
    with(conf);
    for (int i = 0; i < 2; i++)
        assert_non_null(runs[i] = tool_start(tools_find(tools, i ? "b" : "a"), "{}", 2, &e));
    while (n_named(lines[0]) < 2 || n_named(lines[1]) < 1)
        poll(NULL, 0, 20);
    struct buf result = {0};
    while (!tool_step(runs[1], &result))
        poll(NULL, 0, TOOL_TICK_MS);
    tool_close(runs[1]);
    assert_string_equal(result.data, "done");
    assert_int_equal(n_named(lines[1]), 0);
    assert_int_equal(n_named(lines[0]), 2);
    tool_close(runs[0]);
    assert_int_equal(n_named(lines[0]), 0);
    buf_free(&result);
}

static void test_tool__no_process_gets_rid_of_its_mark(void **state)
{
    char conf[400], nap[32], line[64];
    (void)state;
    if (emulated())
        skip();
    snprintf(nap, sizeof nap, "7%d", (int)getpid());
    snprintf(line, sizeof line, "[7]%s", nap + 1);
    snprintf(conf, sizeof conf, "[tool tries]\ncommand = bash -c 'ulimit -S -x 5; ulimit -H -x 5; env -i setsid /bin/sleep %s & echo done'\n", nap);
    with(conf);
    assert_string_equal(call("tries", "{}"), "done");
    assert_int_equal(n_named(line), 0);
}

static void test_tool__a_process_inherits_no_descriptor(void **state)
{
    (void)state;
    if (emulated())
        skip();
    with("[tool list]\ncommand = ls /proc/self/fd\n");
    int leaked[] = {dup(2), fcntl(2, F_DUPFD, 100)};
    assert_true(leaked[0] > 2 && leaked[1] >= 100);
    assert_string_equal(call("list", "{}"), "0\n1\n2\n3");       /* ls has the directory as 3 */
    close(leaked[0]);
    close(leaked[1]);
}

static void test_tool__a_tree_of_processes_is_ended(void **state)
{
    enum { DEPTH = 5, N = 1 << DEPTH };
    char conf[400], nap[32], line[64];
    (void)state;
    if (emulated())                     /* as above: most of the tree has lost its parents */
        skip();
    snprintf(nap, sizeof nap, "8%d", (int)getpid());
    snprintf(line, sizeof line, "[8]%s", nap + 1);
    snprintf(conf, sizeof conf, "[tool grows]\ncommand = sh -c 'grow() { if [ $1 -gt 0 ]; then grow $(($1 - 1)) & grow $(($1 - 1)) & else sleep %s & "
                                "fi; sleep 600; }; "
             "trap \"\" INT TERM; grow %d'\n", nap, DEPTH);
    with(conf);
    struct err e = {0};
    struct tool_run *r = tool_start(tools_find(tools, "grows"), "{}", 2, &e);
    assert_non_null(r);
    while (n_named(line) < N)
        poll(NULL, 0, 20);
    tool_close(r);
    assert_int_equal(n_named(line), 0);
}

static void test_tool__a_process_has_a_small_environment_and_limits(void **state)
{
    (void)state;
    setenv("Q35_SECRET", "key", 1);
    setenv("Q35_GIVEN", "this", 1);
    setenv("LC_TIME", "C", 1);
    setenv("PAGER", "less", 1);
    with("[tool env]\ncommand = env\nenv = Q35_GIVEN, Q35_ABSENT\n"
         "[tool limits]\ncommand = sh -c 'ulimit -c; ulimit -n; ulimit -f; ulimit -v'\nmax_files = 77\nmax_file_mb = 3\nmax_memory_mb = 2000\n"
         "[tool terminal]\ncommand = sh -c 'echo x > /dev/tty'\n");
    const char *env = call("env", "{}");
    assert_null(strstr(env, "Q35_SECRET"));
    assert_null(strstr(env, "less"));
    static const char *const there[] = {"PATH=", "Q35_GIVEN=this", "LC_TIME=C", "TERM=dumb", "PAGER=cat"};
    for (int i = 0; i < 5; i++)
        assert_non_null(strstr(env, there[i]));
    /* qemu-user keeps its own addresses unlimited */
    assert_string_equal(call("limits", "{}"), emulated() ? "0\n77\n6144\nunlimited" : "0\n77\n6144\n2048000");
    assert_non_null(strstr(call("terminal", "{}"), "[exit status "));
}

/* Attempts to use one tool's permission, or a shell, for something else. */
static const char *const bypasses[] = {
    "mine ", " mine", "mine\t", "mine\n", "\nmine", "mine\r", "Mine", "MINE", "min", "mines", "mine2", "xmine", "mine-", "mine_", "mine.", "mine/",
    "./mine",
    "../mine", "/bin/mine", "mine,other", "other,mine", "mine;other", "mine other", "mine|other", "mine&other", "mine&&other", "mine||other",
    "mine>f", "mine<f",
    "mine=", "mine:other", "mine#", "mine*", "min?", "m*", "*", "?", "[m]ine", "{mine,other}", "mine\\", "'mine'", "\"mine\"", "`mine`", "$(mine)",
    "${mine}", "$mine",
    "~mine", "-mine", "--mine", "!mine", "(mine)", "", ",", "always", "auto", "all", "ask", "none", "mine\x1b", "m\xc4\xb1ne", "mine\xc2\xa0",
    "\xe2\x80\x8bmine",
    "mi\xcc\x87ne", "m\xd1\x96ne", "other; rm -rf $HOME", "$(touch ran)", "`touch ran`", "x\ntouch ran", "'; touch ran; '", "\" && touch ran && \"",
    "| touch ran",
};

static void test_tool__a_permission_is_for_the_very_name_and_opens_no_shell(void **state)
{
    int n_near = 0;
    (void)state;
    with("[tool mine]\ncommand = sh -c 'cat; test ! -e ran || echo ran'\n[tool Mine]\ncommand = cat\n[tool min]\ncommand = cat\n[tool mines]\n"
         "command = cat\n"
         "[tool mine2]\ncommand = cat\n[tool mine-]\ncommand = cat\n[tool mine_]\ncommand = cat\n[tool xmine]\ncommand = cat\n");
    for (size_t i = 0; i < sizeof bypasses / sizeof *bypasses; i++) {
        const struct tool *t = tools_find(tools, bypasses[i]);      /* as the name of a call */
        n_near += t != NULL;
        assert_true(!t || tool_approval(t, "mine") == TOOL_ASK);
        char text[64];
        snprintf(text, sizeof text, "{\"x\": \"%s\"}", bypasses[i]);
        assert_string_equal(call("mine", text), text);              /* as an argument: text, and nothing else ran */
    }
    assert_int_equal(n_near, 7);
}

static void test_tool__bad_definitions_are_refused_with_their_section(void **state)
{
    static const struct { const char *conf, *says; } rows[] = {
        {"[tool clock]\ncommand = x\n", "[tool clock]: a built-in tool has this name"},
        {"[tool never]\ncommand = x\n", "in a list of tools this word means something else"},
        {"[tool a b]\ncommand = x\n", "[tool a b]: a name has letters, digits, - and _"},
        {"[tool x]\ndescription = y\n", "[tool x] of the config file has no command"}, {"[tool x]\n", "[tool x] of the config file has no command"},
        {"[tool x]\ncommand = 'a\n", "[tool x]: command is ''a', expected a program"},
        {"[tool x]\ncommand = a\nparameters = [1]\n", "[tool x]: parameters is not a JSON object"},
        {"[tool x]\ncommand = a\nparameters = {\"properties\": {\"a>b\": {}}}\n", "[tool x]: a parameter has the name \"a>b\": a name has no <, >"},
        {"[tool x]\ncommand = a\ntimeout_s = 0\n", "[tool x]: timeout_s is '0', expected 1 to 3600"},
        {"[tool x]\ncommand = a\nmax_files = many\n", "[tool x]: max_files is 'many', expected 1 to 1048576"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[] = "/tmp/q35chat-test-XXXXXX";
        struct err e = {0};
        int fd = mkstemp(path);
        assert_true(fd >= 0 && write(fd, rows[i].conf, strlen(rows[i].conf)) > 0);
        close(fd);
        struct options *bad = options_open();
        assert_true(options_read_file(bad, path, &e));
        assert_null(tools_open(bad, &e));
        if (!strstr(e.msg, rows[i].says))
            fail_msg("%s", e.msg);
        options_close(bad);
        unlink(path);
    }
}

static void test_tool__only_offered_tools_are_found(void **state)
{
    struct err e = {0};
    int n;
    (void)state;
    with("[tool mine]\ncommand = cat\n");
    assert_true(tools_offer(tools, "clock, mine", &e));
    tools_schemas(tools, &n);
    assert_int_equal(n, 2);
    assert_non_null(tools_find(tools, "mine"));
    assert_null(tools_find(tools, "calculator"));
    assert_false(tools_offer(tools, "clock,nope", &e));
    assert_string_equal(e.msg, "unknown tool nope; expected one of clock, calculator, mine");
    assert_true(tools_offer(tools, "none", &e));
    tools_schemas(tools, &n);
    assert_int_equal(n, 0);
}

static void test_tool__approval_follows_the_policy(void **state)
{
    (void)state;
    with("[tool mine]\ncommand = cat\n");
    const struct tool *mine = tools_find(tools, "mine"), *clock = tools_find(tools, "clock");
    assert_int_equal(tool_approval(mine, "ask"), TOOL_ASK);
    assert_int_equal(tool_approval(mine, "always"), TOOL_RUN);
    assert_int_equal(tool_approval(mine, "never"), TOOL_DENY);
    assert_int_equal(tool_approval(mine, "a,mine"), TOOL_RUN);
    assert_int_equal(tool_approval(mine, "mines"), TOOL_ASK);
    assert_int_equal(tool_approval(mine, "auto"), TOOL_ASK);
    assert_int_equal(tool_approval(clock, "auto"), TOOL_RUN);
    assert_int_equal(tool_approval(clock, "mine"), TOOL_RUN);
    assert_int_equal(tool_approval(clock, "always"), TOOL_RUN);
    assert_int_equal(tool_approval(clock, "ask"), TOOL_ASK);
    assert_int_equal(tool_approval(clock, "never"), TOOL_DENY);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(test_tool__##name, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calc__expressions_have_these_values),
        cmocka_unit_test(test_calc__what_is_not_arithmetic_gets_a_sentence),
        cmocka_unit_test(test_calc__deep_nesting_is_refused),
        TEST(calculator_and_clock_answer),
        TEST(the_clock_leaves_the_programs_zone_alone),
        TEST(arguments_come_on_stdin_and_never_through_a_shell),
        TEST(words_are_cut_as_a_shell_cuts_them),
        TEST(exit_status_and_stderr_are_reported),
        TEST(how_a_call_ended_is_said_in_a_word),
        TEST(limits_end_the_whole_group),
        TEST(what_has_left_its_group_is_ended_too),
        TEST(the_end_of_a_call_leaves_other_calls_alone),
        TEST(no_process_gets_rid_of_its_mark),
        TEST(a_process_inherits_no_descriptor),
        TEST(a_tree_of_processes_is_ended),
        TEST(a_process_has_a_small_environment_and_limits),
        TEST(bad_definitions_are_refused_with_their_section),
        TEST(only_offered_tools_are_found),
        TEST(approval_follows_the_policy),
        TEST(a_permission_is_for_the_very_name_and_opens_no_shell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
