/* A conversation goes on in another engine from its checkpoint, with the demo model: the same tokens as if it had never stopped, and none
 * of what was there computed again.  BACKEND=cuda: on a GPU, then with a prompt of 32,768 tokens, too.  LONG=N: with one of N tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/ids.h"
#include "engine/engine.h"
#include "tests/emulated.h"
#include "tests/slow_disk.h"
#include "tests/tmpdir.h"

enum { CTX = 2000, MOST = 1000, SAID = 24, ASKED = 30, LONG_CHUNK = 2048 };

/* One engine, and what it said. */
struct talk {
    struct engine *g;
    struct ids ids;                     /* of the newest answer */
    struct stats stats;
    int  n_saved, n_restored;           /* events */
    size_t written, bytes, restored;
    char why[512];
    bool done;
};

static struct tmpdir dir;
static char path[96];

static int make_dir(void **state)
{
    (void)state;
    bool ok = tmpdir_make(&dir);
    snprintf(path, sizeof path, "%s/talk.checkpoint", dir.path);
    return !ok;
}

static int drop_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir.path);
}

static const char *backend(void) { return getenv("BACKEND") ? getenv("BACKEND") : "cpu"; }
static const char *exact(void) { return strcmp(backend(), "cpu") ? "bf16" : "f32"; }

static int n_long;                      /* tokens of the long talk; 0: the others */

/* A picture that every prompt has while n_seen is 1.  Its tokens have positions by row and column. */
static const struct picture seen = {.first = 60, .n = 48, .h = 6, .w = 8, .hash = {1, 2}};
static int n_seen;

static const char *prompt_math;         /* of the engines that begin */

static void begin(struct talk *t, const char *kv, int depth)
{
    struct err e = {0};
    const struct engine_options o = {.model_dir = "assets/demo", .backend = backend(), .kv = kv, .n_threads = 2, .n_ctx = n_long + CTX,
                                     .draft_depth = depth, .math = prompt_math, .no_vision = true,    /* pictures without pixels */
                                     .chunk = n_long ? LONG_CHUNK : 64};      /* however busy the machine is: the cuts decide the last bits */
    *t = (struct talk){.g = engine_open(&o, &e)};
    if (!t->g)
        fail_msg("%s", e.msg);
}

static void end(struct talk *t)
{
    engine_close(t->g);
    ids_free(&t->ids);
}

static void take(struct talk *t)
{
    struct event_list l = engine_drain(t->g);
    for (int i = 0; i < l.n; i++) {
        const struct event *ev = &l.events[i];
        switch (ev->kind) {
        case EV_TOKENS: ids_append(&t->ids, ev->ids, ev->n); break;
        case EV_DONE: t->done = true; t->stats = ev->stats; assert_true(ev->finish != END_FAILED); break;
        case EV_SAVED:
            t->n_saved++;
            t->written += ev->done;
            t->bytes = ev->total;
            snprintf(t->why, sizeof t->why, "%s", ev->message);
            break;
        case EV_RESTORED:
            t->n_restored++;
            t->restored = ev->done;
            snprintf(t->why, sizeof t->why, "%s", ev->message);
            break;
        case EV_FATAL: fail_msg("%s", ev->message); break;
        default: break;
        }
    }
}

static void wait_for(struct talk *t, const bool *what, const int *count, int wanted)
{
    while (what ? !*what : *count < wanted) {
        assert_true(engine_wait(t->g, 120000));
        take(t);
    }
}

static void answer(struct talk *t, const int32_t *ids, int n, int snapshot_pos, float temperature)
{
    const struct sampling how = {.max_tokens = SAID, .draft_depth = -1, .temperature = temperature, .seed = 7};
    t->ids.n = 0;
    t->done = false;
    engine_submit(t->g, 0, (struct spans){ids, n, &seen, n_seen}, snapshot_pos, &how);
    wait_for(t, &t->done, NULL, 0);
    assert_int_equal(t->ids.n, SAID);
}

static void save(struct talk *t)
{
    int before = t->n_saved;
    engine_save(t->g, 0, path);
    wait_for(t, NULL, &t->n_saved, before + 1);
}

/* Text of a kind: a few phrases, over and over with changes, so that drafts are accepted and rejected. */
static void make_prompt(int32_t *ids, int n)
{
    uint32_t x = 12345;
    for (int i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        ids[i] = x >> 28 ? (int32_t)(300 + i % 37 * 11) : (int32_t)(300 + (x >> 12) % 3000);
    }
}

/* The second prompt: another question where the first one's answer stood, without its last tokens. */
static void ask_again(int32_t *ids, int snapshot_pos)
{
    for (int i = 0; i < ASKED; i++)
        ids[snapshot_pos + i] = 400 + i * 13 % 500;
}

/* How the first engine ends. */
enum way { SAVED_WHEN_IDLE, SAVED_AT_THE_END, NEVER_ENDED };

struct result { struct ids ids; struct stats stats; size_t restored; };

static struct result two_turns(const char *kv, int depth, int n, enum way way, bool goes_on)
{
    struct talk t;
    struct result r = {0};
    int32_t *ids = calloc((size_t)n + 100, sizeof *ids);
    make_prompt(ids, n);
    begin(&t, kv, depth);
    const int snapshot_pos = n - 20;
    answer(&t, ids, n, snapshot_pos, 0.8f);
    if (goes_on)
        memcpy(ids + n, t.ids.data, (size_t)t.ids.n * sizeof *ids);
    else
        ask_again(ids, snapshot_pos);
    if (way == SAVED_WHEN_IDLE)
        save(&t);
    else if (way == SAVED_AT_THE_END)
        engine_save(t.g, 0, path);
    if (way != NEVER_ENDED) {
        end(&t);
        begin(&t, kv, depth);
        engine_restore(t.g, 0, path);
    }
    if (goes_on)
        answer(&t, ids, n + SAID, snapshot_pos, 0.8f);
    else
        answer(&t, ids, snapshot_pos + ASKED, snapshot_pos + ASKED - 5, 0.8f);
    r.stats = t.stats;
    r.restored = t.restored;
    ids_append(&r.ids, t.ids.data, t.ids.n);
    end(&t);
    free(ids);
    return r;
}

static void check_way(const char *kv, int depth, int n, enum way way, bool goes_on)
{
    struct result wanted = two_turns(kv, depth, n, NEVER_ENDED, goes_on), got = two_turns(kv, depth, n, way, goes_on);
    assert_int_equal(got.stats.n_prompt, wanted.stats.n_prompt);
    assert_int_equal(got.stats.n_cached, wanted.stats.n_cached);
    assert_true(got.stats.n_cached >= n - 20);
    assert_true(got.restored > 0);
    assert_int_equal(got.ids.n, wanted.ids.n);
    assert_memory_equal(got.ids.data, wanted.ids.data, (size_t)got.ids.n * sizeof(int32_t));
    ids_free(&got.ids);
    ids_free(&wanted.ids);
    unlink(path);
}

static void test_resume__continues_as_if_it_had_never_stopped(void **state)
{
    (void)state;
    check_way(exact(), 3, 300, SAVED_WHEN_IDLE, false);
    check_way("tq4", 0, 420, SAVED_WHEN_IDLE, false);
    if (SANITIZED)
        return;
    check_way(exact(), 0, 300, SAVED_WHEN_IDLE, false);
    check_way("int8", 3, 420, SAVED_WHEN_IDLE, false);
}

static void test_resume__a_stopped_answer_continues(void **state)
{
    (void)state;
    check_way("tq4", 2, 420, SAVED_WHEN_IDLE, true);
    if (!SANITIZED)
        check_way(exact(), 2, 200, SAVED_WHEN_IDLE, true);
}

static bool same(const struct result *a, const struct result *b)
{
    return a->ids.n == b->ids.n && !memcmp(a->ids.data, b->ids.data, (size_t)a->ids.n * sizeof *a->ids.data);
}

/* The file has the picture and with it the positions of all that follows; drafts are made at these, too. */
static void test_resume__so_does_one_about_a_picture(void **state)
{
    (void)state;
    struct result text = two_turns(exact(), 0, 300, NEVER_ENDED, false);
    n_seen = 1;
    check_way(exact(), 3, 300, SAVED_WHEN_IDLE, false);
    check_way("tq4", 2, 420, SAVED_AT_THE_END, true);
    struct result plain = two_turns(exact(), 0, 300, NEVER_ENDED, false), drafted = two_turns(exact(), 3, 300, NEVER_ENDED, false);
    n_seen = 0;
    assert_true(same(&plain, &drafted));
    assert_false(same(&plain, &text));          /* the same ids at other positions */
    ids_free(&text.ids);
    ids_free(&plain.ids);
    ids_free(&drafted.ids);
}

/* One that ended by itself needs only the states before it: the next turn begins there. */
static void test_resume__a_finished_answer_needs_one_snapshot_to_continue(void **state)
{
    struct talk t;
    int32_t ids[300 + ASKED];
    (void)state;
    make_prompt(ids, 300);
    begin(&t, exact(), 0);
    answer(&t, ids, 300, 280, 0);
    save(&t);
    const size_t cut = t.bytes;
    const struct sampling how = {.max_tokens = SAID, .n_stop = 1, .stop = {t.ids.data[SAID / 2]}};
    t.done = false;
    engine_submit(t.g, 0, spans_text(ids, 300), 280, &how);
    wait_for(&t, &t.done, NULL, 0);
    save(&t);
    assert_true(t.bytes < cut - cut / 4);
    end(&t);
    begin(&t, exact(), 0);
    engine_restore(t.g, 0, path);
    ask_again(ids, 280);
    answer(&t, ids, 280 + ASKED, 280 + ASKED - 5, 0);
    assert_true(t.stats.n_cached >= 270 && t.stats.n_cached <= 280);
    end(&t);
}

static void test_resume__what_is_saved_when_the_engine_closes_counts(void **state)
{
    (void)state;
    check_way(exact(), 2, 200, SAVED_AT_THE_END, false);
    check_way(exact(), 2, 200, SAVED_AT_THE_END, true);
}

static void test_resume__of_a_long_talk_no_token_is_computed_again(void **state)
{
    (void)state;
    check_way("bf16", 2, MOST, SAVED_WHEN_IDLE, false);
}

/* With as many drafts as pay, too. */
static void test_resume__so_does_one_of_many_thousand_tokens(void **state)
{
    (void)state;
    const char *const recipes[] = {exact(), "tq4"};
    const int depths[] = {0, 3, -1};
    for (int r = 0; r < 2; r++)
        for (int d = 0; d < 3; d++)
            for (int goes_on = 0; goes_on <= 1; goes_on++) {
                check_way(recipes[r], depths[d], n_long, SAVED_WHEN_IDLE, goes_on);
                print_message("%d tokens, --kv %s, %d drafts, %s: the same\n", n_long, recipes[r], depths[d],
                              goes_on ? "its answer goes on" : "another question");
            }
}

/* A turn writes its own rows, and its states. */
static void test_resume__a_turn_writes_what_it_added(void **state)
{
    struct talk t;
    int32_t ids[2000];
    struct stat st;
    (void)state;
    make_prompt(ids, 2000);
    begin(&t, exact(), 0);
    answer(&t, ids, 700, 680, 0);
    save(&t);
    size_t first = t.written, bytes = t.bytes;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    ask_again(ids, 680);
    answer(&t, ids, 710, 705, 0);
    save(&t);
    assert_int_equal(t.n_saved, 2);
    assert_string_equal(t.why, "");
    const size_t rows = 600 * engine_info(t.g)->kv_token_bytes;         /* of 680, in the file since the first save */
    assert_true(rows > first / 10 && t.written - first + rows < first);
    assert_true(t.bytes < bytes + bytes / 2);
    engine_save(t.g, 0, path);             /* once more, with nothing new */
    wait_for(&t, NULL, &t.n_saved, 3);
    end(&t);
}

static void test_resume__a_damaged_file_is_reported_and_deleted_and_changes_nothing(void **state)
{
    struct talk t;
    int32_t ids[300];
    struct ids wanted = {0};
    (void)state;
    make_prompt(ids, 300);
    begin(&t, exact(), 2);
    answer(&t, ids, 200, 190, 0);
    ids_append(&wanted, t.ids.data, t.ids.n);
    save(&t);
    end(&t);
    FILE *f = fopen(path, "r+b");
    assert_true(f && !fseek(f, 4 * 4096 + 77, SEEK_SET) && fputc(0x5a, f) != EOF && fputc(0xa5, f) != EOF && !fclose(f));
    begin(&t, exact(), 2);
    engine_restore(t.g, 0, path);
    answer(&t, ids, 200, 190, 0);
    assert_int_equal(t.n_restored, 1);
    assert_int_equal(t.restored, 0);
    assert_non_null(strstr(t.why, "is damaged"));
    assert_non_null(strstr(t.why, ": it is deleted"));
    assert_int_equal(t.stats.n_cached, 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_memory_equal(t.ids.data, wanted.data, (size_t)wanted.n * sizeof(int32_t));
    engine_restore(t.g, 0, path);          /* there is none: nothing is said */
    save(&t);
    assert_int_equal(t.n_restored, 1);
    end(&t);
    begin(&t, "tq4", 2);                /* of another recipe */
    engine_restore(t.g, 0, path);
    answer(&t, ids, 200, 190, 0);
    assert_non_null(strstr(t.why, "another model, KV recipe or --prompt-math"));
    assert_int_equal(access(path, F_OK), -1);
    end(&t);
    ids_free(&wanted);
}

static void test_resume__a_file_of_exact_prompts_is_none_of_rounded_ones_and_the_reverse(void **state)
{
    struct talk t;
    int32_t ids[300];
    (void)state;
    make_prompt(ids, 300);
    for (int i = 0; i < 2; i++) {
        prompt_math = i ? "int8" : "exact";
        begin(&t, exact(), 0);
        answer(&t, ids, 200, 190, 0);
        save(&t);
        end(&t);
        prompt_math = i ? "exact" : "int8";
        begin(&t, exact(), 0);
        engine_restore(t.g, 0, path);
        answer(&t, ids, 200, 190, 0);
        assert_int_equal(t.restored, 0);
        assert_int_equal(t.stats.n_cached, 0);
        assert_non_null(strstr(t.why, "another model, KV recipe or --prompt-math"));
        end(&t);
    }
    prompt_math = NULL;
}

static void test_resume__a_failed_write_is_reported_and_the_conversation_continues(void **state)
{
    struct talk t;
    int32_t ids[300];
    (void)state;
    make_prompt(ids, 300);
    begin(&t, exact(), 0);
    answer(&t, ids, 100, 90, 0);
    engine_save(t.g, 0, "/proc/talk.checkpoint");
    wait_for(&t, NULL, &t.n_saved, 1);
    assert_non_null(strstr(t.why, "cannot make /proc/talk.checkpoint"));
    answer(&t, ids, 150, 140, 0);
    save(&t);
    assert_string_equal(t.why, "");
    end(&t);
}

/* Whole answers come while a save waits for the disk. */
static void test_resume__a_slow_disk_holds_up_nobody(void **state)
{
    struct talk t;
    int32_t ids[300];
    (void)state;
    make_prompt(ids, 300);
    begin(&t, exact(), 0);
    answer(&t, ids, 100, 90, 0);
    disk_slow();
    engine_save(t.g, 0, path);
    disk_asked();
    answer(&t, ids, 150, 140, 0);
    answer(&t, ids, 200, 190, 0);
    assert_int_equal(t.n_saved, 0);
    disk_fast();
    wait_for(&t, NULL, &t.n_saved, 1);
    assert_string_equal(t.why, "");
    end(&t);
}

#define test(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
int main(void)
{
    const struct CMUnitTest tests[] = {
        test(test_resume__continues_as_if_it_had_never_stopped),
        test(test_resume__a_stopped_answer_continues),
        test(test_resume__so_does_one_about_a_picture),
        test(test_resume__a_finished_answer_needs_one_snapshot_to_continue),
        test(test_resume__what_is_saved_when_the_engine_closes_counts),
        test(test_resume__of_a_long_talk_no_token_is_computed_again),
        test(test_resume__a_turn_writes_what_it_added),
        test(test_resume__a_slow_disk_holds_up_nobody),
        test(test_resume__a_damaged_file_is_reported_and_deleted_and_changes_nothing),
        test(test_resume__a_file_of_exact_prompts_is_none_of_rounded_ones_and_the_reverse),
        test(test_resume__a_failed_write_is_reported_and_the_conversation_continues),
    };
    const struct CMUnitTest long_tests[] = {test(test_resume__so_does_one_of_many_thousand_tokens)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    n_long = getenv("LONG") ? atoi(getenv("LONG")) : strcmp(backend(), "cpu") ? 32768 : 0;
    return n_long > 0 ? failed + cmocka_run_group_tests_name("a long talk", long_tests, NULL, NULL) : failed;
}
