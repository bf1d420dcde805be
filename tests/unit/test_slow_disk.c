/* A disk that takes as long as it likes, or fails later: the screen does not wait for it, and nothing is lost. */
#include <stdio.h>
#include <string.h>

#include "session/file.h"
#include "stage.h"
#include "tests/slow_disk.h"

static char path[256];

static void begin(void)
{
    stage_begin(24, 80);
    stage.keeps = true;
    stage_set(OPT_think, "off");
    fake_say("One.");
    fake_say("Two words.");
    fake_say("Three.");
    stage_open();
}

static void wait_until(bool (*so)(void))
{
    while (!so()) {
        chat_wait(stage.chat, -1, 10);
        stage_pass(10);
    }
}

static bool is_unsaved(void) { return chat_unsaved(stage.chat); }
static bool is_saved(void) { return !chat_unsaved(stage.chat); }
static bool is_checkpointed(void) { return fake.n_saves > 0; }

static void note_path(void)
{
    snprintf(path, sizeof path, "%s", chat_saved_as(stage.chat));
}

/* Returns the messages in the file: "Go:One." */
static void on_disk(const char *wanted)
{
    struct transcript t = {0};
    struct buf note = {0}, found = {0};
    struct err e = {0};
    if (!session_read(path, &t, &note, &e))
        fail_msg("%s", e.msg);
    for (int i = 0; i < t.n; i++) {
        buf_adds(&found, i ? ":" : "");
        buf_add(&found, t.entries[i]->m.content.p, t.entries[i]->m.content.n);
    }
    assert_string_equal(buf_str(&found), wanted);
    assert_int_equal(note.len, 0);
    transcript_free(&t);
    buf_free(&note);
    buf_free(&found);
}

/* Lets the disk go on, at a moment when the test should be waiting for it. */
static atomic_bool let_go;

static void *let_it_go(void *arg)
{
    (void)arg;
    usleep(100 * 1000);
    atomic_store(&let_go, true);
    disk_fast();
    return NULL;
}

static pthread_t soon_fast(void)
{
    pthread_t thread;
    atomic_store(&let_go, false);
    assert_int_equal(pthread_create(&thread, NULL, let_it_go, NULL), 0);
    return thread;
}

static void test_slow_disk__keys_and_words_do_not_wait(void **state)
{
    struct buf taken_back = {0};
    struct err e = {0};
    (void)state;
    begin();
    disk_slow();
    stage_say("Go");                    /* makes the file, too */
    stage_answer();
    assert_shows("One.");
    disk_asked();
    stage_type("what I type");
    assert_shows("what I type");
    stage_key("Enter");
    stage_answer();
    assert_shows("Two words.");
    assert_true(chat_rename(stage.chat, "a title", &e));
    assert_true(chat_undo(stage.chat, &taken_back, &e) && chat_redo(stage.chat, &e));
    assert_hides("NO-SAVE");
    assert_int_equal(disk_n_waits, 0);
    assert_int_equal(disk_n_files, 0);
    note_path();
    on_disk("Go:One.:what I type:Two words.");  /* what a kill leaves */
    pthread_t thread = soon_fast();
    chat_close(stage.chat);
    stage.chat = NULL;
    assert_true(atomic_load(&let_go));  /* the end waited */
    pthread_join(thread, NULL);
    assert_true(disk_n_files >= 2);
    assert_int_equal(disk_n_directories, 1);    /* for the name */
    buf_free(&taken_back);
    stage_end();
}

static void test_slow_disk__a_checkpoint_comes_after_what_was_said(void **state)
{
    (void)state;
    begin();
    disk_slow();
    stage_say("Go");
    stage_answer();
    for (int i = 0; i < 10; i++) {
        chat_wait(stage.chat, -1, 2);
        stage_pass(100);
    }
    assert_int_equal(fake.n_saves, 0);
    disk_fast();
    wait_until(is_checkpointed);
    assert_true(disk_n_files >= 1);
    assert_int_equal(disk_n_waits, 0);
    stage_end();
}

static void test_slow_disk__another_conversation_waits_for_this_one(void **state)
{
    struct err e = {0};
    (void)state;
    begin();
    disk_slow();
    stage_say("Go");
    stage_answer();
    pthread_t thread = soon_fast();
    assert_true(chat_new(stage.chat, &e));
    assert_true(atomic_load(&let_go));
    pthread_join(thread, NULL);
    stage_end();
}

static void test_slow_disk__a_later_failure_is_reported_and_tried_again(void **state)
{
    struct err e = {0};
    (void)state;
    begin();
    stage_say("Go");
    stage_answer();
    note_path();
    disk_slow();
    stage_say("On");
    stage_answer();
    assert_hides("NO-SAVE");
    disk_fail(EIO);
    disk_fast();
    wait_until(is_unsaved);             /* nobody does anything */
    assert_shows("NO-SAVE");
    assert_shows("this conversation is not being saved: cannot write");
    assert_false(chat_new(stage.chat, &e));
    assert_false(chat_keep(stage.chat, &e));
    disk_fail(0);
    stage_say("Again");
    stage_answer();
    wait_until(is_saved);
    assert_hides("NO-SAVE");
    on_disk("Go:One.:On:Two words.:Again:Three.");
    stage_end();
}

/* The disk fails while it is left: it is not left. */
static void test_slow_disk__a_conversation_that_fails_while_it_is_left_stays(void **state)
{
    struct err e = {0};
    (void)state;
    begin();
    stage_say("Go");
    stage_answer();
    disk_slow();
    stage_say("On");
    stage_answer();
    disk_fail(ENOSPC);
    pthread_t thread = soon_fast();
    assert_false(chat_new(stage.chat, &e));
    pthread_join(thread, NULL);
    assert_non_null(strstr(e.msg, "could not be saved"));
    disk_fail(0);
    assert_true(chat_keep(stage.chat, &e));
    assert_true(chat_new(stage.chat, &e));
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_disk__keys_and_words_do_not_wait),
        cmocka_unit_test(test_slow_disk__a_checkpoint_comes_after_what_was_said),
        cmocka_unit_test(test_slow_disk__another_conversation_waits_for_this_one),
        cmocka_unit_test(test_slow_disk__a_later_failure_is_reported_and_tried_again),
        cmocka_unit_test(test_slow_disk__a_conversation_that_fails_while_it_is_left_stays),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_close(fake.tok);
    return failed;
}
