#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <fcntl.h>
#include <cmocka.h>

#include "base/file.h"
#include "fake_engine.h"
#include "option/options.h"
#include "ui/front.h"

/* Appends what one answer writes to a descriptor, 1 or 2, with an option set to on. */
static void output(int fd, enum option_id on, struct buf *out)
{
    char path[] = "/tmp/q35chat-test-XXXXXX";
    struct err e = {0};
    struct options *o = options_open();
    struct buf prompt = {0};
    int file = mkstemp(path), before = dup(2), usual = dup(1), nothing = open("/dev/null", O_WRONLY);
    assert_true(file >= 0 && before >= 0 && nothing >= 0);
    assert_true(options_set(o, OPT_model, "tests/data/chat", FROM_COMMAND_LINE, &e));
    assert_true(options_set(o, OPT_stdin, "off", FROM_COMMAND_LINE, &e));
    assert_true(options_set(o, on, "on", FROM_COMMAND_LINE, &e));
    assert_true(options_set(o, OPT_tools, "all", FROM_COMMAND_LINE, &e));
    buf_adds(&prompt, "hi");
    fflush(stdout);
    dup2(nothing, 3 - fd);
    dup2(file, fd);
    int status = pipe_run(o, &prompt);
    fflush(stdout);
    dup2(before, 2);
    dup2(usual, 1);
    assert_int_equal(status, 0);
    assert_true(file_read(out, path, 1 << 20, &e));
    unlink(path);
    close(file);
    close(before);
    close(usual);
    close(nothing);
    buf_free(&prompt);
    options_close(o);
}

static void test_pipe__the_name_of_a_call_cannot_command_the_terminal(void **state)
{
    struct buf told = {0};
    (void)state;
    fake_reset();
    fake_say("x</think><tool_call>\n<function=\033]52;c;QUJDBELx\302\233>\n</function>\n</tool_call>");
    fake_say("z</think>done");
    output(2, OPT_verbose, &told);
    assert_non_null(strstr(told.data, "calls \342\220\233]52;c;QUJDBELx<U+009B>\n"));
    assert_null(strchr(told.data, '\033'));
    buf_free(&told);
}

static void test_pipe__json_of_an_answer_cannot_command_the_terminal(void **state)
{
    static const enum option_id forms[] = {OPT_json, OPT_jsonl};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct buf printed = {0};
        fake_reset();
        fake_say("x\302\235y</think>A\302\23331mB\342\200\256C");
        output(1, forms[i], &printed);
        assert_non_null(strstr(printed.data, "\\u009b31mB"));
        assert_non_null(strstr(printed.data, "\\u202eC"));
        assert_non_null(strstr(printed.data, "x\\u009dy"));
        assert_null(strstr(printed.data, "\302\233"));
        assert_null(strstr(printed.data, "\342\200\256"));
        buf_free(&printed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipe__json_of_an_answer_cannot_command_the_terminal),
        cmocka_unit_test(test_pipe__the_name_of_a_call_cannot_command_the_terminal),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < FAKE_MAX; i++)
        ids_free(&fake.prompts[i]);
    tokenizer_close(fake.tok);
    return failed;
}
