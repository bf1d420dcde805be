#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "option/options.h"
#include "base/file.h"
#include "tests/tmpdir.h"

static struct options *o;
static struct err e;
static struct buf prompt;

static int setup(void **state)
{
    (void)state;
    o = options_open();
    e = (struct err){0};
    prompt = (struct buf){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    options_close(o);
    buf_free(&prompt);
    return 0;
}

#define ARGS(...) args((char *[]){"q35chat", __VA_ARGS__, NULL})

static bool args(char **argv)
{
    int n = 0;
    while (argv[n])
        n++;
    return options_read_args(o, n, argv, &prompt, &(const char *){NULL}, &e);
}

static bool file(const char *text)
{
    char path[] = "/tmp/q35chat-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    bool ok = options_read_file(o, path, &e);
    unlink(path);
    return ok;
}

static void test_options__flags_take_values_in_every_usual_way(void **state)
{
    (void)state;
    assert_true(ARGS("--temperature", "0.5", "--top-p=0.9", "-n", "20", "-C32k", "--no-think", "-jv", "what", "is", "--", "-this"));
    assert_float_equal(options_real(o, OPT_temperature), 0.5, 0);
    assert_float_equal(options_real(o, OPT_top_p), 0.9, 0);
    assert_int_equal(options_int(o, OPT_max_tokens), 20);
    assert_int_equal(options_int(o, OPT_ctx), 32768);
    assert_false(options_on(o, OPT_think));
    assert_true(options_on(o, OPT_json));
    assert_true(options_on(o, OPT_verbose));
    assert_string_equal(prompt.data, "what is -this");
}

static void test_options__a_bad_flag_gets_one_sentence(void **state)
{
    static const struct { char *flag, *value; const char *says; } rows[] = {
        {"--temprature", "1", "unknown option --temprature (did you mean --temperature?); --help lists them"},
        {"--qqqqqq", "1", "unknown option --qqqqqq; --help lists them"},
        {"-Z", "1", "unknown option -Z; --help lists them"},
        {"--temperature", "warm", "--temperature is 'warm', expected a number"},
        {"--temperature", "nan", "--temperature is 'nan', expected a number"},
        {"--temperature", "11", "--temperature is 11, expected 0 to 10"},
        {"--top-k", "1.5", "--top-k is '1.5', expected a whole number"},
        {"--top-k", "99999999999999999999", "--top-k is '99999999999999999999', expected a whole number"},
        {"--seed", "-1", "--seed is '-1', expected a whole number from 0"},
        {"--ctx", "many", "--ctx is 'many', expected a whole number, 32k also"},
        {"--backend", "tpu", "--backend is 'tpu', expected one of cpu|cuda"},
        {"--think=maybe", "x", "--think is 'maybe', expected on or off"},
        {"--no-model", "x", "unknown option --no-model (did you mean --model?); --help lists them"},
        {"--max-tokens", NULL, "--max-tokens needs a value: N"},
        {"-n", NULL, "-n needs a value: N"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        e = (struct err){0};
        assert_false(ARGS(rows[i].flag, rows[i].value));
        assert_string_equal(e.msg, rows[i].says);
    }
}

static void test_options__later_sources_win_and_a_list_starts_again(void **state)
{
    int n;
    (void)state;
    assert_true(file("temperature = 0.1\ntop_k = 3\nstop = A\nstop = B\n"));
    options_list(o, OPT_stop, &n);
    assert_int_equal(n, 2);
    assert_true(ARGS("--temperature", "0.2", "--stop", "C", "--stop", "D"));
    const char *const *stops = options_list(o, OPT_stop, &n);
    assert_int_equal(n, 2);
    assert_string_equal(stops[0], "C");
    assert_string_equal(stops[1], "D");
    assert_true(ARGS("--logit-bias", "a=b=1", "--logit-bias", "12=-inf"));
    const char *const *biases = options_list(o, OPT_logit_bias, &n);
    assert_int_equal(n, 2);
    assert_string_equal(biases[0], "a=b=1");
    assert_float_equal(options_real(o, OPT_temperature), 0.2, 0);
    assert_int_equal(options_int(o, OPT_top_k), 3);
    assert_true(options_set_named(o, "temperature", "0.3", &e));
    assert_float_equal(options_real(o, OPT_temperature), 0.3, 0);
}

static void test_options__set_refuses_what_only_the_start_reads(void **state)
{
    (void)state;
    assert_false(options_set_named(o, "ctx", "1k", &e));
    assert_string_equal(e.msg, "ctx is read when the program starts: `q35chat --continue --ctx 1k` continues this conversation with it; "
                               "it can also be set in the config file");
    assert_false(options_set_named(o, "share", "off", &e));
    assert_non_null(strstr(e.msg, "`q35chat --continue --no-share`"));
    assert_false(options_set_named(o, "mouse", "yes", &e));
    assert_non_null(strstr(e.msg, "`q35chat --continue --mouse`"));
    assert_false(options_set_named(o, "model", "a b", &e));
    assert_non_null(strstr(e.msg, "`q35chat --continue --model MODEL`"));
    assert_false(options_set_named(o, "kv", "tq4", &e));
    assert_non_null(strstr(e.msg, "`q35chat --continue --kv tq4`"));
    assert_false(options_set_named(o, "kv", "tq5", &e));
    assert_string_equal(e.msg, "kv is 'tq5', expected one of auto|f32|bf16|int8|k8v4|tq4|k4v3");
    assert_false(options_set_named(o, "stdin", "off", &e));
    assert_string_equal(e.msg, "stdin is an option of the command line: q35chat --no-stdin");
    assert_false(options_set_named(o, "topk", "1", &e));
    assert_string_equal(e.msg, "unknown option topk (did you mean top_k?)");
}

static void test_options__a_value_over_several_lines_is_joined(void **state)
{
    (void)state;
    assert_true(file("system = You are brief.\n  You like trees.\n# a comment\nthink = off\n"));
    assert_string_equal(options_text(o, OPT_system), "You are brief.\nYou like trees.");
    assert_false(options_on(o, OPT_think));
}

static void test_options__a_bad_file_is_named_with_its_line(void **state)
{
    static const struct { const char *text, *says; } rows[] = {
        {"top_p = 2\n", ":1: top_p is 2, expected 0 to 1"},
        {"json = on\n", ":1: json is for the command line only"},
        {"\n\nnonsense\n", ":3: expected key = value, [tool NAME] or [endpoint NAME], or # comment"},
        {"think = on\nnonsense\ntop_p = 2\n", ":2: expected key = value, [tool NAME] or [endpoint NAME], or # comment"},
        {"[tool aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\ncommand = x\n", ":1: the name of this section has more than 49 bytes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        e = (struct err){0};
        assert_false(file(rows[i].text));
        assert_non_null(strstr(e.msg, rows[i].says));
    }
    assert_false(options_read_file(o, "/nonexistent/file", &e));
    assert_non_null(strstr(e.msg, "/nonexistent/file"));
}

static void test_options__a_line_without_a_key_is_an_error(void **state)
{
    static const char *const rows[][2] = {
        {"= 1\n", ":1: expected key = value"}, {"think = off\n= 1\n", ":2: expected key = value"},
        {"[tool a]\n= 1\n", ":2: expected key = value"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        e = (struct err){0};
        options_close(o);
        o = options_open();
        if (file(rows[i][0]) || !strstr(e.msg, rows[i][1]))
            fail_msg("row %zu: %s", i, e.msg);
    }
}

static void test_options__a_value_may_have_many_lines(void **state)
{
    enum { LINES = 200000 };            /* with a copy of all lines at each line these are 100 GB */
    struct buf text = {0};
    (void)state;
    buf_adds(&text, "system = a\n");
    for (int i = 1; i < LINES; i++)
        buf_adds(&text, " abc\n");
    buf_adds(&text, "temperature = 2\n[tool t]\ncommand = x\n  y\n[tool u]\ncommand = z\n");
    assert_true(file(text.data));
    assert_int_equal(strlen(options_text(o, OPT_system)), 1 + 4 * (LINES - 1));
    assert_string_equal(options_tool(o, 0)->command, "x\ny");
    assert_string_equal(options_tool(o, 1)->command, "z");
    buf_free(&text);
}

static void test_options__a_value_of_a_file_has_a_place(void **state)
{
    (void)state;
    assert_true(file("think = off\nsystem = a\n  b\n"));
    const char *place = options_place(o, OPT_system), *line = place ? strrchr(place, ':') : NULL;
    assert_non_null(line);
    assert_string_equal(line, ":2");
    assert_true(args((char *[]){"q", "--system", "c", NULL}));
    assert_null(options_place(o, OPT_system));
}

/* Reads this text as the usual config file. */
static bool usual_file(const char *text)
{
    struct tmpdir d;
    char folder[80];
    assert_true(tmpdir_make(&d));
    snprintf(folder, sizeof folder, "%s/q35chat", d.path);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_true(tmpdir_put(&d, "q35chat/q35chat.conf", text, strlen(text)));
    setenv("XDG_CONFIG_HOME", d.path, 1);
    bool ok = options_read_usual_file(o, &e);
    unsetenv("XDG_CONFIG_HOME");
    tmpdir_drop(&d, "q35chat/q35chat.conf");
    rmdir(folder);
    tmpdir_remove(&d);
    return ok;
}

/* Most likely it is of another version. */
static void test_options__unknown_names_in_the_usual_file_are_warnings(void **state)
{
    (void)state;
    assert_true(usual_file("tempreature = 1\n  2\nthink = off\n[model]\nx = 1\n[tool a]\nscript = 1\ncommand = c\n"));
    assert_false(options_on(o, OPT_think));
    assert_string_equal(options_tool(o, 0)->command, "c");
    static const char *const lines[] = {
        ":1: unknown option tempreature (did you mean temperature?); ignored\n",
        ":5: no section [model], expected [tool NAME] or [endpoint NAME]; ignored\n",
        ":7: a tool has no script, expected description, parameters, command, ",
    };
    const char *p = options_warnings(o);
    for (int i = 0; i < 3; i++) {
        p = strstr(p, lines[i]);
        assert_non_null(p);
    }
    assert_null(strstr(options_warnings(o), ":2:"));
}

static void test_options__unknown_names_in_a_named_file_are_errors(void **state)
{
    static const char *const rows[][2] = {
        {"think = off\ntempreature = 1\n  2\nnosuch = 1\n", ":2: unknown option tempreature (did you mean temperature?)"},
        {"[model]\nx = 1\n", ":2: no section [model], expected [tool NAME] or [endpoint NAME]"},
        {"[tool a]\ncommand = c\nscript = 1\n", ":3: a tool has no script, expected description, "},
        {"[endpoint home]\nurl = http://spark:8000\nkey = x\n", ":3: an endpoint has no key, expected url, model, "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(file(rows[i][0]));
        assert_non_null(strstr(e.msg, rows[i][1]));
        assert_string_equal(options_warnings(o), "");
    }
}

static void test_options__lines_may_be_of_any_length(void **state)
{
    struct buf text = {0}, value = {0};
    (void)state;
    for (int n = 150; n < 900; n += n < 230 ? 1 : 97) {
        buf_reset(&text);
        buf_reset(&value);
        for (int i = 0; i < n; i++)
            buf_addc(&value, i % 7 ? 'x' : i % 14 ? ' ' : '=');
        buf_addc(&value, 'z');
        buf_addf(&text, "# %s\nsystem = %s   ; %s\n  [%s]\n  # no %s\nthink = off\n[tool a]\nparameters:%s\n", value.data, value.data,
                 value.data, value.data, value.data, value.data);
        options_close(o);
        o = options_open();
        if (!file(text.data))
            fail_msg("%s", e.msg);
        buf_reset(&text);
        buf_addf(&text, "%s\n[%s]", value.data, value.data);
        assert_string_equal(options_text(o, OPT_system), text.data);
        assert_string_equal(options_tool(o, 0)->parameters, value.data);
        assert_false(options_on(o, OPT_think));
        assert_string_equal(options_warnings(o), "");
    }
    buf_reset(&text);
    for (int i = 0; i < 300; i++)
        buf_addc(&text, 'x');
    assert_false(file(text.data));
    assert_non_null(strstr(e.msg, ":1: expected key = value"));
    buf_free(&text);
    buf_free(&value);
}

static void test_options__a_file_that_is_no_text_or_does_not_answer_is_refused(void **state)
{
    char path[] = "/tmp/q35chat-test-XXXXXX", name[64];
    struct buf text = {0};
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "temperature=0.1\n\0\nbadkey=1\n", 27) == 27);
    close(fd);
    assert_false(options_read_file(o, path, &e));
    assert_non_null(strstr(e.msg, "holds a zero byte"));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(600);                         /* these would wait for ever */
    assert_false(file_read(&text, path, 100, &e));
    assert_non_null(strstr(e.msg, "is not a regular file"));
    assert_false(file_read(&text, "/tmp", 100, &e));
    assert_string_equal(e.msg, "/tmp is a directory, expected a file");
    assert_false(file_read_stream(&text, path, 100, 50, &e));
    assert_non_null(strstr(e.msg, "its end was not reached"));
    unlink(path);
    int ends[2];                        /* as a shell writes <(command) */
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "top_k = 7\n", 10), 10);
    close(ends[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    if (!options_read_file(o, name, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(options_int(o, OPT_top_k), 7);
    close(ends[0]);
    assert_true(options_read_file(o, "/dev/null", &e));
    alarm(0);
    buf_free(&text);
}

static void test_options__tools_are_read_from_their_sections(void **state)
{
    (void)state;
    assert_true(file("[tool a]\ncommand = x y\nparameters = {\n  \"type\": \"object\"}\n[tool b]\ncommand = z\ntimeout_s = 3\n"));
    assert_int_equal(options_n_tools(o), 2);
    assert_string_equal(options_tool(o, 0)->name, "a");
    assert_string_equal(options_tool(o, 0)->parameters, "{\n\"type\": \"object\"}");
    assert_string_equal(options_tool(o, 1)->timeout_s, "3");
    assert_null(options_tool(o, 1)->description);
}

static void test_options__endpoints_are_read_from_their_sections(void **state)
{
    (void)state;
    assert_true(file("[endpoint work]\nurl = https://llm.example.org\nkey_env = WORK_KEY\n[tool a]\ncommand = x\n[endpoint home]\n"
                     "url = http://spark:8000\n"));
    assert_int_equal(options_n_endpoints(o), 2);
    assert_string_equal(options_endpoint(o, 0)->url, "https://llm.example.org");
    assert_string_equal(options_endpoint(o, 0)->key_env, "WORK_KEY");
    assert_null(options_endpoint(o, 0)->model);
    assert_string_equal(options_endpoint(o, 1)->name, "home");
    assert_int_equal(options_n_tools(o), 1);
}

static void drop_comments(char *text)
{
    char *to = text;
    for (char *p = text; *p;) {
        size_t n = strcspn(p, "\n") + 1;
        if (*p != '#') {
            memmove(to, p, n);
            to += n;
        }
        p += n;
    }
    *to = 0;
}

static void test_options__what_is_printed_can_be_read_again(void **state)
{
    struct buf first = {0}, second = {0};
    (void)state;
    assert_true(file("system = a\n  b\nstop = X\nstop = Y\n[tool t]\ncommand = c 'd e'\nparameters = {}\n"));
    assert_true(ARGS("--temperature", "0.25", "--no-think", "-m", "/some/dir"));
    options_print(o, &first);
    options_close(o);
    o = options_open();
    assert_true(file(first.data));
    options_print(o, &second);
    assert_string_equal(options_text(o, OPT_system), "a\nb");
    assert_string_equal(options_text(o, OPT_model), "/some/dir");
    drop_comments(first.data);          /* they tell the origins, which differ */
    drop_comments(second.data);
    assert_string_equal(first.data, second.data);
    int n;
    assert_non_null(options_list(o, OPT_stop, &n));
    assert_int_equal(n, 2);
    buf_free(&first);
    buf_free(&second);
}

/* Reads what was printed, with the same origins, and prints it again. */
static void assert_same_again(const char *printed)
{
    struct buf again = {0};
    options_close(o);
    o = options_open();
    assert_true(file(printed));
    options_print(o, &again);
    assert_string_equal(printed, again.data);
    buf_free(&again);
}

static void test_options__what_is_printed_of_a_file_is_printed_again(void **state)
{
    struct buf first = {0};
    (void)state;
    options_print(o, &first);
    assert_same_again(first.data);              /* nothing but defaults: nothing but comments */
    buf_reset(&first);
    assert_true(file("system = a\n  b\nstop = X\nstop = Y\ntheme = dark\nthink = on\n[tool t]\ncommand = c 'd e'\nparameters = {}\n"));
    options_print(o, &first);
    assert_same_again(first.data);
    assert_string_equal(options_text(o, OPT_system), "a\nb");
    assert_string_equal(options_text(o, OPT_theme), "dark");
    assert_true(options_given(o, OPT_think) && !options_given(o, OPT_seed));
    buf_free(&first);
}

static void test_options__any_value_is_printed_as_it_is_or_as_a_comment(void **state)
{
    static const char *const parts[] = {"a", "bc", " ", ";", "#", "\n", "=", "[", "]", "\t", "\"", "'", ":", "\303\244", "word word word word ",
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"};
    uint32_t seed = 7;
    int kept = 0;
    (void)state;
    for (int round = 0; round < 4000; round++) {
        struct buf value = {0}, printed = {0};
        for (int n = round % 24; n >= 0; n--) {
            seed = seed * 1664525 + 1013904223;
            buf_adds(&value, parts[(seed >> 16) % (sizeof parts / sizeof *parts)]);
        }
        assert_true(options_set(o, OPT_system, value.data, FROM_FILE, &e));
        options_print(o, &printed);
        options_close(o);
        o = options_open();
        assert_true(file(printed.data));
        if (options_given(o, OPT_system)) {
            assert_string_equal(options_text(o, OPT_system), value.data);
            kept++;
        } else {
            assert_non_null(strstr(printed.data, "cannot stand in a config file"));
        }
        buf_free(&value);
        buf_free(&printed);
    }
    assert_true(kept > 500);
}

/* A value of any option, as the option takes it. */
static bool set_any(enum option_id id, uint32_t random)
{
    static const char *const texts[] = {"on", "off", "0", "1", "0.5", "32k", "x=1", "a b", " very=-inf", "x;y", "x ;y", "# no", "/a/long way/to=it",
                                        "two\nlines"};
    const char *choices = options_choices(id), *text = texts[random % (sizeof texts / sizeof *texts)];
    struct buf b = {0};
    if (choices) {
        for (uint32_t k = random % 5; k && strchr(choices, '|'); k--)
            choices = strchr(choices, '|') + 1;
        buf_add(&b, choices, strcspn(choices, "|"));
    } else {
        buf_adds(&b, text);
        for (uint32_t k = random % 3 ? 0 : 300; k; k--)
            buf_addc(&b, 'y');
    }
    bool ok = options_set(o, id, b.data, FROM_COMMAND_LINE, &e);
    buf_free(&b);
    return ok;
}

static void test_options__whatever_is_printed_is_read_again(void **state)
{
    uint32_t seed = 3;
    int kept = 0;
    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct buf printed = {0}, again = {0};
        options_close(o);
        o = options_open();
        for (int k = round % 40; k >= 0; k--) {
            seed = seed * 1664525 + 1013904223;
            set_any((enum option_id)((seed >> 8) % N_OPTIONS), seed >> 16);
        }
        options_print(o, &printed);
        struct options *first = o;
        o = options_open();
        if (!file(printed.data))
            fail_msg("%s in:\n%s", e.msg, printed.data);
        assert_string_equal(options_warnings(o), "");
        for (int id = 0; id < N_OPTIONS; id++) {
            struct option_about about;
            int n, m;
            assert_true(options_about((enum option_id)id, &about));
            const char *const *was = options_list(first, (enum option_id)id, &n);
            const char *const *is = options_list(o, (enum option_id)id, &m);
            char refused[64];
            snprintf(refused, sizeof refused, "# This value of %s cannot", about.key);
            if (about.flag_only || !options_given(first, (enum option_id)id) || strstr(printed.data, refused))
                continue;
            assert_string_equal(options_text(o, (enum option_id)id), options_text(first, (enum option_id)id));
            assert_int_equal(n, m);
            for (int k = 0; k < n; k++)
                assert_string_equal(is[k], was[k]);
            kept++;
        }
        options_close(first);
        buf_free(&printed);
        buf_free(&again);
    }
    assert_true(kept > 5000);
}

/* The example's lines are comments; taken at their word they must do, and name what there is. */
static void test_options__the_example_is_a_config_file(void **state)
{
    struct buf example = {0}, taken = {0};
    (void)state;
    assert_true(file_read(&example, "config/q35chat.conf", 1 << 20, &e));
    assert_true(file(example.data));
    for (char *line = example.data, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        *next++ = 0;
        const char *text = line + 2;
        size_t key = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
        if (!strncmp(line, "#   ", 4) || !strncmp(line, "# [tool ", 8) || !strncmp(line, "# [endpoint ", 12)
            || (!strncmp(line, "# ", 2) && key && !strncmp(text + key, " = ", 3)))
            buf_addf(&taken, "%s\n", text);
    }
    assert_true(file(taken.data));
    assert_string_equal(options_text(o, OPT_theme), "dark");
    assert_string_equal(options_text(o, OPT_system), "You are brief.\nYou say when you do not know.");
    assert_int_equal(options_n_tools(o), 2);
    assert_non_null(strstr(options_tool(o, 1)->parameters, "required"));
    assert_int_equal(options_n_endpoints(o), 1);
    assert_string_equal(options_endpoint(o, 0)->key_file, "~/.config/q35chat/cluster.key");
    buf_free(&example);
    buf_free(&taken);
}

static void test_options__the_environment_is_weaker_than_the_command_line(void **state)
{
    struct buf dir = {0};
    (void)state;
    setenv("Q35CHAT_MODEL", "/from/env", 1);
    assert_true(options_read_environment(o, &e));
    assert_true(options_model_dir(o, &dir, &e));
    assert_string_equal(dir.data, "/from/env");
    assert_true(ARGS("--model", "/from/flag"));
    buf_reset(&dir);
    assert_true(options_model_dir(o, &dir, &e));
    assert_string_equal(dir.data, "/from/flag");
    unsetenv("Q35CHAT_MODEL");
    buf_free(&dir);
}

static void test_options__help_names_every_flag_it_promises_within_80_columns(void **state)
{
    struct buf out = {0};
    (void)state;
    options_help(&out);
    for (const char *p = out.data; *p;) {
        size_t n = strcspn(p, "\n");
        assert_true(n <= 80);
        p += n + (p[n] == '\n');
    }
    assert_non_null(strstr(out.data, "--max-tokens N"));
    assert_non_null(strstr(out.data, "--no-think"));
    buf_free(&out);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_options__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(flags_take_values_in_every_usual_way),
        TEST(a_bad_flag_gets_one_sentence),
        TEST(later_sources_win_and_a_list_starts_again),
        TEST(set_refuses_what_only_the_start_reads),
        TEST(a_value_over_several_lines_is_joined),
        TEST(a_bad_file_is_named_with_its_line),
        TEST(unknown_names_in_the_usual_file_are_warnings),
        TEST(unknown_names_in_a_named_file_are_errors),
        TEST(lines_may_be_of_any_length),
        TEST(a_file_that_is_no_text_or_does_not_answer_is_refused),
        TEST(endpoints_are_read_from_their_sections),
        TEST(tools_are_read_from_their_sections),
        TEST(what_is_printed_can_be_read_again),
        TEST(what_is_printed_of_a_file_is_printed_again),
        TEST(a_line_without_a_key_is_an_error),
        TEST(a_value_may_have_many_lines),
        TEST(a_value_of_a_file_has_a_place),
        TEST(any_value_is_printed_as_it_is_or_as_a_comment),
        TEST(whatever_is_printed_is_read_again),
        TEST(the_example_is_a_config_file),
        TEST(the_environment_is_weaker_than_the_command_line),
        TEST(help_names_every_flag_it_promises_within_80_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
