/* Which file an attached q35chat may have written: the checkpoint of a conversation in this user's own folder, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/server_state.h"
#include "tests/tmpdir.h"

static struct tmpdir dir;
static char folder[128];                /* of conversations */

static void make(const char *file)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "w");
    assert_true(f && !fclose(f));
}

static void link_to(const char *target, const char *file)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    assert_int_equal(symlink(target, path), 0);
}

static int setup(void **state)
{
    char path[96];
    (void)state;
    if (!tmpdir_make(&dir))
        return 1;
    setenv("XDG_STATE_HOME", dir.path, 1);
    snprintf(path, sizeof path, "%s/q35chat", dir.path);
    snprintf(folder, sizeof folder, "%s/sessions", path);
    assert_true(!mkdir(path, 0700) && !mkdir(folder, 0700));
    make("talk.jsonl");
    make("two words.jsonl");
    make("kept.jsonl");
    make("kept.jsonl.checkpoint");
    make("linked.jsonl");
    make("pipe.jsonl");
    make(".hidden.jsonl");
    make("alone.jsonl.checkpoint");
    link_to("/etc/passwd", "linked.jsonl.checkpoint");
    link_to("talk.jsonl", "link.jsonl");
    char inside[192];
    snprintf(inside, sizeof inside, "%s/pipe.jsonl.checkpoint", folder);
    assert_int_equal(mkfifo(inside, 0600), 0);
    snprintf(inside, sizeof inside, "%s/inside", folder);
    assert_int_equal(mkdir(inside, 0700), 0);
    make("inside/talk.jsonl");
    snprintf(path, sizeof path, "%s/other", dir.path);
    assert_int_equal(symlink(folder, path), 0);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir.path);
    return system(command);
}

static bool check(const char *format, const char *where, struct buf *own, struct err *e)
{
    char path[256];
    snprintf(path, sizeof path, format, where);
    buf_reset(own);
    *e = (struct err){0};
    return attached_checkpoint(text_of(path), own, e);
}

static void test_checkpoint_path__that_of_a_conversation_is_taken(void **state)
{
    struct buf own = {0};
    struct err e;
    char wanted[192];
    (void)state;
    assert_true(check("%s/talk.jsonl.checkpoint", folder, &own, &e));
    snprintf(wanted, sizeof wanted, "%s/talk.jsonl.checkpoint", folder);
    assert_string_equal(own.data, wanted);
    assert_true(check("%s/two words.jsonl.checkpoint", folder, &own, &e));
    assert_true(check("%s/kept.jsonl.checkpoint", folder, &own, &e));   /* it is there already */
    assert_true(check("%s/other/talk.jsonl.checkpoint", dir.path, &own, &e));   /* the folder by another way, as a home that is a link */
    assert_string_equal(own.data, wanted);
    buf_free(&own);
}

static void test_checkpoint_path__anything_else_is_refused_with_a_sentence(void **state)
{
    static const struct { const char *path, *why; } rows[] = {
        {"%s/talk.jsonl", "is not the checkpoint of a conversation"},
        {"%s/talk.checkpoint", "is not the checkpoint of a conversation"},
        {"%s/.jsonl.checkpoint", "is not the checkpoint of a conversation"},
        {"%s/talk.jsonl.checkpoint/", "is not the checkpoint of a conversation"},
        {"%s/talk.jsonl.checkpoint.jsonl", "is not the checkpoint of a conversation"},
        {"talk.jsonl.checkpoint%.0s", "is not in the folder where"},
        {"./talk.jsonl.checkpoint%.0s", "is not in the folder where"},
        {"/tmp/talk.jsonl.checkpoint%.0s", "is not in the folder where"},
        {"/nowhere/talk.jsonl.checkpoint%.0s", "is not in the folder where"},
        {"%s/../talk.jsonl.checkpoint", "is not in the folder where"},
        {"%s/inside/talk.jsonl.checkpoint", "is not in the folder where"},
        {"%s/.hidden.jsonl.checkpoint", "expected a name such as"},
        {"%s/..jsonl.checkpoint", "expected a name such as"},
        {"%s/a\tb.jsonl.checkpoint", "expected a name such as"},
        {"%s/a\xff.jsonl.checkpoint", "expected a name such as"},
        {"%s/nothing.jsonl.checkpoint", "nothing.jsonl: No such file"},
        {"%s/alone.jsonl.checkpoint", "alone.jsonl: No such file"},
        {"%s/link.jsonl.checkpoint", "link.jsonl is not a regular file"},
        {"%s/linked.jsonl.checkpoint", "linked.jsonl.checkpoint is not a regular file"},
        {"%s/pipe.jsonl.checkpoint", "pipe.jsonl.checkpoint is not a regular file"},
    };
    struct buf own = {0};
    struct err e;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("%s\n", rows[i].path);
        assert_false(check(rows[i].path, folder, &own, &e));
        assert_non_null(strstr(e.msg, rows[i].why));
    }
    buf_free(&own);
}

static void test_checkpoint_path__a_text_that_is_no_path_is_refused(void **state)
{
    struct buf own = {0}, path = {0};
    struct err e = {{0}};
    (void)state;
    assert_false(attached_checkpoint(text_of(""), &own, &e));
    buf_addf(&path, "%s/talk.jsonl.checkpoint", folder);
    path.data[path.len - 20] = 0;
    assert_false(attached_checkpoint((struct text){path.data, path.len}, &own, &e));
    assert_string_equal(e.msg, "path is not the path of a file");
    buf_reset(&path);
    for (int i = 0; i < 10000; i++)
        buf_adds(&path, "/..");
    buf_adds(&path, "/talk.jsonl.checkpoint");
    assert_false(attached_checkpoint((struct text){path.data, path.len}, &own, &e));
    buf_free(&path);
    buf_free(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_path__that_of_a_conversation_is_taken),
        cmocka_unit_test(test_checkpoint_path__anything_else_is_refused_with_a_sentence),
        cmocka_unit_test(test_checkpoint_path__a_text_that_is_no_path_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
