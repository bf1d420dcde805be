#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ui/tui/app.h"
#include "ui/tui/keys.h"

static struct actions *actions;

static action_fn *find(enum context first, const char *key, bool behind_ctrl_x)
{
    struct contexts where = {{first, CONTEXT_any}, 2};
    uint32_t code;
    uint8_t mods;
    assert_true(keys_parse(key, &code, &mods));
    return actions_find(actions, &where, code, mods, behind_ctrl_x);
}

static void test_action__no_key_means_two_things_in_one_place(void **state)
{
    (void)state;
    for (int i = 0; i < actions->n; i++)
        for (int k = 0; k < i; k++) {
            const struct binding *a = &actions->bindings[i], *b = &actions->bindings[k];
            if (a->context == b->context && a->code == b->code && a->mods == b->mods && a->behind_ctrl_x == b->behind_ctrl_x)
                fail_msg("%s is %s and %s", a->key, b->action, a->action);
        }
}

static void test_action__every_alt_key_is_ctrl_x_and_the_key_as_well(void **state)
{
    (void)state;
    int seen = 0;
    for (int i = 0; i < actions->n; i++) {
        const struct binding *b = &actions->bindings[i];
        if (!(b->mods & MOD_ALT))
            continue;
        struct contexts where = {{b->context}, 1};
        seen++;
        if (actions_find(actions, &where, b->code, b->mods & (uint8_t)~MOD_ALT, true) != b->fn)
            fail_msg("Ctrl-X does not reach %s", b->key);
    }
    assert_true(seen > 10);
}

static void test_action__rows_without_help_follow_one_that_has_it(void **state)
{
    (void)state;
    for (int i = 0; i < actions->n; i++) {
        const struct binding *b = &actions->bindings[i];
        bool told = *b->help;
        for (int k = 0; k < actions->n && !told; k++)
            told = actions->bindings[k].fn == b->fn && *actions->bindings[k].help;
        if (!told && strncmp(b->action, "wheel", 5) && strcmp(b->action, "copy_numbered"))
            fail_msg("no help tells what %s does", b->key);
    }
}

static void test_action__the_window_that_is_open_is_asked_first(void **state)
{
    (void)state;
    assert_ptr_equal(find(CONTEXT_input, "Enter", false), act_send);
    assert_ptr_equal(find(CONTEXT_empty, "Enter", false), act_go_on);
    assert_ptr_equal(find(CONTEXT_inspect, "Enter", false), act_branch_token);
    assert_ptr_equal(find(CONTEXT_view, "PgUp", false), act_page_up);
    assert_ptr_equal(find(CONTEXT_approve, "PgUp", false), act_approve_page_up);
    assert_null(find(CONTEXT_approve, "Enter", false));
    assert_null(find(CONTEXT_input, "F9", false));
}

static void test_action__shift_with_alt_is_alt(void **state)
{
    (void)state;
    struct contexts where = {{CONTEXT_any}, 1};
    assert_ptr_equal(actions_find(actions, &where, 'v', MOD_ALT | MOD_SHIFT, false), act_browse);
    assert_ptr_equal(actions_find(actions, &where, 'V', 0, true), act_browse);
}

static void test_action__ctrl_x_alone_makes_an_alt_key_of_a_letter(void **state)
{
    (void)state;
    assert_ptr_equal(find(CONTEXT_input, "s", true), act_steer);
    assert_ptr_equal(find(CONTEXT_input, "Ctrl-E", true), act_handoff);
    assert_ptr_equal(find(CONTEXT_edit, "Ctrl-E", false), act_line_end);
    assert_null(find(CONTEXT_input, "s", false));
}

static void test_action__help_names_each_key_of_a_row_once(void **state)
{
    (void)state;
    struct buf help = {0};
    struct contexts where = {{CONTEXT_input, CONTEXT_edit, CONTEXT_any}, 3};
    actions_help(actions, &where, &help);
    assert_non_null(strstr(help.data, "  Left, Ctrl-B          a character left\n"));
    assert_null(strstr(help.data, "Esc back"));
    for (const char *line = help.data; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
    const char *first = strstr(help.data, "Ctrl-G");
    assert_non_null(first);
    assert_null(strstr(first + 1, "Ctrl-G"));
    assert_null(strstr(help.data, "half a screen"));    /* of another place */
    buf_free(&help);
}

static int open_actions(void **state)
{
    (void)state;
    actions = app_actions();
    return 0;
}

static int close_actions(void **state)
{
    (void)state;
    actions_close(actions);
    return 0;
}

static void check_bind(struct actions *a, const char *text, const char *why)
{
    struct err e = {0};
    bool ok = actions_bind(a, text, &e);
    if (ok != !why || (why && !strstr(e.msg, why)))
        fail_msg("%s: %s", text, ok ? "it is taken" : e.msg);
}

static void test_action__the_user_binds_keys(void **state)
{
    (void)state;
    struct actions *usual = actions;
    actions = app_actions();
    check_bind(actions, "Ctrl-S steer", NULL);
    assert_ptr_equal(find(CONTEXT_input, "Ctrl-S", false), act_steer);
    assert_ptr_equal(find(CONTEXT_input, "Alt-S", false), act_steer);
    check_bind(actions, "  view   Ctrl-E  line_down ", NULL);
    assert_ptr_equal(find(CONTEXT_view, "Ctrl-E", false), act_line_down);
    assert_ptr_equal(find(CONTEXT_edit, "Ctrl-E", false), act_line_end);
    check_bind(actions, "Alt-V none", NULL);
    assert_null(find(CONTEXT_input, "Alt-V", false));
    check_bind(actions, "F5 browse", NULL);
    check_bind(actions, "view x browse_end", NULL);
    assert_ptr_equal(find(CONTEXT_view, "x", false), act_browse_end);
    check_bind(actions, "Ctrl-X g browse", NULL);
    assert_ptr_equal(find(CONTEXT_input, "g", true), act_browse);
    check_bind(actions, "input Enter newline", NULL);
    check_bind(actions, "input Alt-Enter send", NULL);
    assert_ptr_equal(find(CONTEXT_input, "Enter", false), act_newline);
    assert_ptr_equal(find(CONTEXT_input, "Alt-Enter", false), act_send);
    test_action__no_key_means_two_things_in_one_place(NULL);
    test_action__every_alt_key_is_ctrl_x_and_the_key_as_well(NULL);
    test_action__rows_without_help_follow_one_that_has_it(NULL);
    struct buf help = {0};
    actions_help(actions, &(struct contexts){{CONTEXT_any, CONTEXT_input}, 2}, &help);
    assert_non_null(strstr(help.data, "  F5, Ctrl-X g          view mode"));
    assert_non_null(strstr(help.data, "  Alt-Enter             sends"));
    assert_null(strstr(help.data, "Alt-V"));
    buf_free(&help);
    actions_close(actions);
    actions = usual;
}

static void test_action__what_cannot_be_bound_is_one_sentence_and_changes_nothing(void **state)
{
    (void)state;
    struct actions *a = app_actions();
    check_bind(a, "Ctrl-S fly", "unknown action fly");
    check_bind(a, "", "unknown action");
    check_bind(a, "steer", "unknown key");
    check_bind(a, "Hyper-S steer", "unknown key Hyper-S");
    check_bind(a, "nowhere Ctrl-S steer", "unknown key Ctrl-S");
    check_bind(a, "Ctrl-X steer", "Ctrl-X begins other keys");
    check_bind(a, "j steer", "j could no longer be typed");
    check_bind(a, "any Space to_end", "could no longer be typed");
    check_bind(a, "a b c d e f g h i j k", "unknown action");
    assert_int_equal(a->n, actions->n);
    for (int i = 0; i < a->n; i++)
        assert_ptr_equal(a->bindings[i].fn, actions->bindings[i].fn);
    actions_close(a);
}

static void test_action__every_row_of_the_list_can_be_bound(void **state)
{
    (void)state;
    struct actions *a = app_actions();
    struct buf list = {0};
    actions_list(actions, &list);
    int n = 0;
    for (char *line = strtok(list.data, "\n"); line; line = strtok(NULL, "\n"))
        if (*line != '#') {
            check_bind(a, line, NULL);
            n++;
        }
    assert_int_equal(n, actions->n);
    assert_int_equal(a->n, n);
    buf_free(&list);
    actions_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_action__the_user_binds_keys),
        cmocka_unit_test(test_action__what_cannot_be_bound_is_one_sentence_and_changes_nothing),
        cmocka_unit_test(test_action__every_row_of_the_list_can_be_bound),
        cmocka_unit_test(test_action__no_key_means_two_things_in_one_place),
        cmocka_unit_test(test_action__every_alt_key_is_ctrl_x_and_the_key_as_well),
        cmocka_unit_test(test_action__rows_without_help_follow_one_that_has_it),
        cmocka_unit_test(test_action__the_window_that_is_open_is_asked_first),
        cmocka_unit_test(test_action__shift_with_alt_is_alt),
        cmocka_unit_test(test_action__ctrl_x_alone_makes_an_alt_key_of_a_letter),
        cmocka_unit_test(test_action__help_names_each_key_of_a_row_once),
    };
    return cmocka_run_group_tests(tests, open_actions, close_actions);
}
