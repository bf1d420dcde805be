/* Editors and pagers are little shell scripts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tests/tmpdir.h"
#include "base/file.h"
#include "ui/tui/handoff.h"

static struct tmpdir dir;
static struct buf edited;
static struct err e;
static char editor[128];

static int setup(void **state)
{
    (void)state;
    if (!tmpdir_make(&dir))
        return -1;
    setenv("XDG_RUNTIME_DIR", dir.path, 1);
    setenv("Q35_TEST_DIR", dir.path, 1);
    unsetenv("VISUAL");
    unsetenv("PAGER");
    snprintf(editor, sizeof editor, "%s/an editor", dir.path);
    setenv("EDITOR", "sh \"$Q35_TEST_DIR/an editor\" -x", 1);          /* as in git, the shell reads it */
    buf_reset(&edited);
    buf_adds(&edited, "untouched");
    e = (struct err){0};
    return 0;
}

static int n_left(void)
{
    DIR *d = opendir(dir.path);
    int n = 0;
    for (struct dirent *f; (f = readdir(d));)
        n += !strncmp(f->d_name, "q35chat-", 8);
    closedir(d);
    return n;
}

static int teardown(void **state)
{
    (void)state;
    tmpdir_drop(&dir, "an editor");
    tmpdir_drop(&dir, "seen");
    tmpdir_remove(&dir);                /* fails if something else was left there */
    buf_free(&edited);
    return access(dir.path, F_OK) ? 0 : -1;
}

static void script(const char *s)
{
    assert_true(tmpdir_put(&dir, "an editor", s, strlen(s)));
}

static void assert_seen(const char *expected)
{
    char path[128];
    struct buf b = {0};
    snprintf(path, sizeof path, "%s/seen", dir.path);
    assert_true(file_read(&b, path, 1 << 20, NULL));
    assert_string_equal(buf_str(&b), expected);
    buf_free(&b);
}

static void test_handoff__gives_the_draft_and_takes_the_text(void **state)
{
    (void)state;
    script("(cat \"$2\"; stat -c ' %a' \"$2\"; echo $1) > $Q35_TEST_DIR/seen; printf 'new\\ntext\\n' > \"$2\"");
    assert_true(handoff_edit("old \xc3\xa4", &edited, &e));
    assert_string_equal(edited.data, "new\ntext");      /* the end of the last line is the editor's */
    assert_seen("old \xc3\xa4 600\n-x\n");
    assert_int_equal(n_left(), 0);
}

static void test_handoff__visual_goes_first(void **state)
{
    (void)state;
    setenv("VISUAL", "echo visual >", 1);
    assert_true(handoff_edit("old", &edited, &e));
    assert_string_equal(edited.data, "visual");
}

static void test_handoff__a_recreated_file_and_an_emptied_one_are_read(void **state)
{
    (void)state;
    script("echo anew > \"$2.x\"; mv \"$2.x\" \"$2\"");
    assert_true(handoff_edit("old", &edited, &e));
    assert_string_equal(edited.data, "anew");
    script(": > \"$2\"");
    assert_true(handoff_edit("old", &edited, &e));
    assert_string_equal(buf_str(&edited), "");
    script(":");
    assert_true(handoff_edit("old\n", &edited, &e));
    assert_string_equal(edited.data, "old\n");
}

static void test_handoff__a_failing_editor_changes_nothing(void **state)
{
    (void)state;
    script("exit 3");
    assert_false(handoff_edit("old", &edited, &e));
    assert_string_equal(edited.data, "untouched");
    assert_string_equal(e.msg, "sh \"$Q35_TEST_DIR/an editor\" -x ended with status 3; your draft is unchanged");
    assert_int_equal(n_left(), 0);
    setenv("EDITOR", "q35-no-such-editor", 1);
    assert_false(handoff_edit("old", &edited, &e));
    assert_string_equal(e.msg, "no such program: q35-no-such-editor; your draft is unchanged");
    script("rm \"$2\"");
    setenv("EDITOR", "sh \"$Q35_TEST_DIR/an editor\" -x", 1);
    assert_false(handoff_edit("old", &edited, &e));
    assert_non_null(strstr(e.msg, "No such file or directory; your draft is unchanged"));
    assert_string_equal(edited.data, "untouched");
}

static void test_handoff__what_a_dying_editor_saved_is_kept(void **state)
{
    static const char *const scripts[] = {"echo much work > \"$2\"; kill -9 $$", "printf 'a\\000b' > \"$2\""};
    (void)state;
    for (int i = 0; i < 2; i++) {
        script(scripts[i]);
        assert_false(handoff_edit("old", &edited, &e));
        assert_string_equal(edited.data, "untouched");
        const char *path = strstr(e.msg, "the edited text is in ");
        assert_non_null(path);
        assert_int_equal(unlink(path + strlen("the edited text is in ")), 0);
    }
}

static void test_handoff__an_interrupt_is_the_editors_alone(void **state)
{
    (void)state;
    signal(SIGINT, SIG_DFL);            /* who runs us in the background has it ignored */
    /* Ctrl-C goes to the whole process group: us, the shell, the editor. */
    script("trap 'echo interrupted > \"$2\"; exit 0' INT; kill -INT $Q35_TEST_PID; kill -INT $PPID; kill -INT $$");
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("Q35_TEST_PID", pid, 1);
    assert_true(handoff_edit("old", &edited, &e));
    assert_string_equal(edited.data, "interrupted");
    struct sigaction now;
    sigaction(SIGINT, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL);
}

static void test_handoff__a_place_that_is_not_there_is_passed_over(void **state)
{
    (void)state;
    script("echo \"$2\" > $Q35_TEST_DIR/seen");
    setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
    assert_true(handoff_edit("old", &edited, &e));
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    assert_true(handoff_edit("old", &edited, &e));
}

static void test_handoff__a_pager_gets_harmless_text(void **state)
{
    (void)state;
    setenv("PAGER", "cp -- \"$@\" $Q35_TEST_DIR/seen && true", 1);
    assert_true(handoff_page("a\033[31mb", 7, &e));
    assert_seen("a\xe2\x90\x9b[31mb");
    assert_int_equal(n_left(), 0);
    setenv("PAGER", "false", 1);
    assert_false(handoff_page("x", 1, &e));
    assert_string_equal(e.msg, "false ended with status 1");
}

static void test_handoff__a_file_opens_in_the_program_of_the_desktop(void **state)
{
    (void)state;
    static const char opener[] = "#!/bin/sh\nprintf %s \"$1\" > \"$Q35_TEST_DIR/seen.new\" && mv \"$Q35_TEST_DIR/seen.new\" \"$Q35_TEST_DIR/seen\"\n";
    char path[128], seen[128], *was = strdup(getenv("PATH"));
    struct buf with = {0}, name = {0};
    snprintf(path, sizeof path, "%s/xdg-open", dir.path);
    snprintf(seen, sizeof seen, "%s/seen", dir.path);
    assert_true(tmpdir_put(&dir, "xdg-open", opener, sizeof opener - 1) && !chmod(path, 0700));
    buf_addf(&with, "%s:%s", dir.path, was);
    setenv("PATH", with.data, 1);
    assert_true(handoff_open("a $(b) 'c.png", &e));
    for (int i = 0; i < 2000 && access(seen, F_OK); i++)
        usleep(5000);
    assert_true(file_read(&name, seen, 100, &e));
    assert_string_equal(name.data, "a $(b) 'c.png");
    tmpdir_drop(&dir, "xdg-open");
    setenv("PATH", dir.path, 1);
    assert_false(handoff_open("x.png", &e));
    assert_string_equal(e.msg, "no program opens files here: xdg-open (xdg-utils) is not installed");
    setenv("PATH", was, 1);
    free(was);
    buf_free(&with);
    buf_free(&name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(test_handoff__##name, setup, teardown)
        T(a_file_opens_in_the_program_of_the_desktop),
        T(gives_the_draft_and_takes_the_text),
        T(visual_goes_first),
        T(a_recreated_file_and_an_emptied_one_are_read),
        T(a_failing_editor_changes_nothing),
        T(what_a_dying_editor_saved_is_kept),
        T(an_interrupt_is_the_editors_alone),
        T(a_place_that_is_not_there_is_passed_over),
        T(a_pager_gets_harmless_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
