/* chat/flags: a command line taken apart; chat/value: what a value may be; ui/subcommand: the table and its help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "option/flags.h"
#include "ui/subcommand.h"

static const struct flag table[] = {{"top_p", 'p', false, "X"}, {"think", 't', true, NULL}, {"json", 'j', false, NULL}, {"read-only", 0, false, NULL},
                                    {"resume", 'r', true, "NAME", true}};

/* Writes what was found as text: "top_p=1 think word:x", or the mistake. */
static const char *apart(const char *line)
{
    static struct buf out, words;
    char *argv[16];
    int argc = 0;
    struct err e = {0};
    buf_reset(&out);
    buf_reset(&words);
    buf_adds(&words, line);
    for (char *p = strtok(words.data, " "); p; p = strtok(NULL, " "))
        argv[argc++] = p;
    struct flags f = {.flags = table, .n_flags = 5, .argc = argc, .argv = argv, .help = "--help"};
    int more;
    while ((more = flags_next(&f, &e)) > 0)
        buf_addf(&out, "%s%s%s%s%s", out.len ? " " : "", f.off ? "no-" : "", f.found < 0 ? "word" : table[f.found].name, f.value ? "=" : "",
                 f.value ? f.value : "");
    if (more < 0)
        buf_addf(&out, "%s%s", out.len ? " " : "", e.msg);
    return buf_str(&out);
}

static void test_flags__a_command_line_is_taken_apart(void **state)
{
    static const struct { const char *line, *found; } cases[] = {
        {"", ""}, {"a b", "word=a word=b"}, {"--top-p 1 a", "top_p=1 word=a"}, {"--top_p=1", "top_p=1"}, {"--top-p=", "top_p="},
        {"-p1 -p 2", "top_p=1 top_p=2"},
        {"-tjp1", "think json top_p=1"}, {"-jp x", "json top_p=x"}, {"--no-think", "no-think"}, {"--think=off", "think=off"},
        {"--read_only", "read-only"},
        {"-r a", "resume=a"}, {"-r", "resume="}, {"-r --json", "resume= json"}, {"a -r -", "word=a resume=-"}, {"--resume -- a", "resume= word=a"},
        {"--resume=", "resume="}, {"-ra", "resume=a"}, {"--no-resume a", "no-resume word=a"}, {"a -- --json -j", "word=a word=--json word=-j"},
        {"--top-p --", "top_p=--"}, {"-", "word=-"}, {"-- --", "word=--"},
        {"--no-json", "unknown option --no-json (did you mean --json?); --help lists them"},
        {"--no-think=1", "--no-think takes no value, found '1'"},
        {"--jsn", "unknown option --jsn (did you mean --json?); --help lists them"},
        {"--top-q 1", "unknown option --top-q (did you mean --top-p?); --help lists them"},
        {"--json off", "--json is followed by 'off', expected --json=off; -- before it makes it a word of its own: --json -- off"},
        {"a --think yes b", "word=a --think is followed by 'yes', expected --think=yes; -- before it makes it a word of its own: --think -- yes"},
        {"--think -- off", "think word=off"}, {"--think=on off", "think=on word=off"}, {"--no-think no", "no-think word=no"},
        {"-j yes", "json word=yes"},
        {"--json No way", "json word=No word=way"}, {"--json 0", "json word=0"}, {"--no-resume off", "no-resume word=off"},
        {"-jx", "json unknown option -x; --help lists them"}, {"--top-p", "--top-p needs a value: X"}, {"-p", "-p needs a value: X"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(apart(cases[i].line), cases[i].found);
}

static void test_flags__a_value_is_checked_by_its_kind(void **state)
{
    static const struct { enum value_type type; const char *text, *why; } cases[] = {
        {VALUE_TEXT, "any", NULL}, {VALUE_DIRECTORY, "any", NULL}, {VALUE_CHOICE, "b", NULL}, {VALUE_CHOICE, "", "x is '', expected one of a|b"},
        {VALUE_INT, "4", NULL}, {VALUE_INT, "4k", "x is '4k', expected a whole number"}, {VALUE_SIZE, "4k", NULL}, {VALUE_REAL, "0.5", NULL},
        {VALUE_INT, "1048577", "x is 1048577, expected 0 to 1048576"}, {VALUE_SWITCH, "YES", NULL},
        {VALUE_SWITCH, "maybe", "x is 'maybe', expected on or off"},
        {VALUE_SEED, "-1", "x is '-1', expected a whole number from 0"}, {VALUE_REAL, "nan", "x is 'nan', expected a number"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        assert_int_equal(value_check(cases[i].type, "x", cases[i].text, "a|b", 0, 1 << 20, &e), !cases[i].why);
        assert_string_equal(e.msg, cases[i].why ? cases[i].why : "");
    }
}

/* Lines of at most 80 columns; every option of a command is named. */
static void test_subcommand__help_names_everything_within_80_columns(void **state)
{
    (void)state;
    for (const struct sub_row *g = NULL; (g = sub_next(g, SUB_GROUP));)
        for (const struct sub_row *c = g; (c = sub_next(c, SUB_COMMAND));) {
            struct buf out = {0};
            char flag[80];
            subcommand_help(NULL, NULL, &out);
            subcommand_help(g, NULL, &out);
            subcommand_help(g, c, &out);
            assert_non_null(strstr(out.data, c->name));
            for (const struct sub_row *f = NULL; (f = sub_next_flag(c, f));) {
                const char letter[] = {'-', sub_letter(f), ',', ' ', 0};
                snprintf(flag, sizeof flag, "\n  %s--%s", letter[1] ? letter : "", f->name);
                assert_non_null(strstr(out.data, flag));
            }
            for (const char *p = out.data; *p; p += strcspn(p, "\n") + 1)
                assert_true(strcspn(p, "\n") <= 80);
            buf_free(&out);
        }
}

/* A default is a value like any other. */
static void test_subcommand__defaults_are_valid(void **state)
{
    (void)state;
    for (const struct sub_row *r = sub_rows; r->kind != SUB_END; r++) {
        struct err e = {0};
        if (r->kind == SUB_FLAG && r->standard && *r->standard && !value_check(r->type, r->name, r->standard, r->arguments, r->min, r->max, &e))
            fail_msg("%s", e.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags__a_command_line_is_taken_apart),
        cmocka_unit_test(test_flags__a_value_is_checked_by_its_kind),
        cmocka_unit_test(test_subcommand__help_names_everything_within_80_columns),
        cmocka_unit_test(test_subcommand__defaults_are_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
