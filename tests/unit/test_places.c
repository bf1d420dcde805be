/* Which conversations stay in memory, which leave for a file and come back: whole engines with a model made of hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "engine/engine.h"
#include "fake_model.h"
#include "tests/tmpdir.h"

enum { LONG = 20000, SHORT = 40, PATIENCE_MS = 120000, MB = 1000000 };

static struct tmpdir dir;

static struct engine *open_places(int n_places, size_t room)
{
    struct err e = {0};
    const struct engine_options o = {.model_dir = "fake", .n_ctx = 100000, .draft_depth = 0, .n_sequences = n_places,
                                     .moved_dir = dir.path, .moved_bytes = room};
    struct engine *g = engine_open(&o, &e);
    assert_non_null(g);
    return g;
}

/* The tokens of talk `which`; different talks differ from the first token on.  Only the ids 2 to 15, so that no message ends in them. */
static uint32_t ask(struct engine *g, int which, int n, uint32_t client)
{
    const struct sampling how = {.max_tokens = 3, .client = client};
    int32_t *ids = calloc((size_t)n, sizeof *ids);
    for (int i = 0; i < n; i++)
        ids[i] = i < 4 ? 2 + (which >> (3 * i) & 7) : 2 + (i * 7 + i / 14) % 14;
    const uint32_t serial = engine_submit(g, 0, spans_text(ids, n), n - 2, &how);
    free(ids);
    return serial;
}

/* Waits for n answers; the cached tokens of each go to cached[serial]. */
static void wait_for(struct engine *g, int n, int *cached)
{
    while (n) {
        assert_true(engine_wait(g, PATIENCE_MS));
        const struct event_list l = engine_drain(g);
        for (int i = 0; i < l.n; i++)
            if (l.events[i].kind == EV_DONE) {
                assert_int_equal(l.events[i].finish, END_LENGTH);
                cached[l.events[i].serial] = l.events[i].stats.n_cached;
                n--;
            }
    }
}

static int talk(struct engine *g, int which, int n, uint32_t client)
{
    static int cached[100000];
    const uint32_t serial = ask(g, which, n, client);
    wait_for(g, 1, cached);
    return cached[serial];
}

static struct machine_figures figures(struct engine *g)
{
    struct machine_figures m;
    engine_machine(g, &m);
    return m;
}

/* Returns the bytes of files in the folders of moved conversations, and how many folders there are. */
static size_t bytes_moved(int *n_folders)
{
    size_t bytes = 0;
    struct stat st;
    struct buf path = {0};
    DIR *d = opendir(dir.path);
    *n_folders = 0;
    for (const struct dirent *f; (f = readdir(d));) {
        if (*f->d_name == '.')
            continue;
        ++*n_folders;
        buf_reset(&path);
        buf_addf(&path, "%s/%s", dir.path, f->d_name);
        DIR *in = opendir(path.data);
        for (const struct dirent *g; in && (g = readdir(in));)
            bytes += *g->d_name != '.' && !fstatat(dirfd(in), g->d_name, &st, 0) ? (size_t)st.st_size : 0;
        closedir(in);
    }
    closedir(d);
    buf_free(&path);
    return bytes;
}

static int begin(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.vocab = 16;
    fake.several = true;
    return !tmpdir_make(&dir);
}

static int end(void **state)
{
    (void)state;
    int n;
    const size_t left = bytes_moved(&n);
    rmdir(dir.path);
    return left || n;
}

/* Two main conversations and six clients whose side requests come between their turns and beside them. */
static void test_places__of_eight_clients_no_main_conversation_is_read_again(void **state)
{
    (void)state;
    static int cached[1000];
    struct engine *g = open_places(4, 0);
    talk(g, 1, LONG, 1);
    talk(g, 2, LONG, 2);
    for (int turn = 1, side = 100; turn <= 10; turn++) {
        const int n = LONG + turn * 100;
        uint32_t serials[8];
        for (int i = 0; i < 8; i++)
            serials[i] = i < 6 ? ask(g, side++, SHORT, (uint32_t)i + 3) : ask(g, i - 5, n, (uint32_t)i - 5);
        wait_for(g, 8, cached);
        for (int i = 6; i < 8; i++)
            assert_true(cached[serials[i]] >= (n - 100) * 99 / 100);
        for (int i = 0; i < 3; i++)
            talk(g, side++, SHORT, 1);
    }
    assert_true(figures(g).evicted >= 60);
    assert_int_equal(figures(g).moved_out, 0);
    assert_int_equal(figures(g).resident, 4);
    engine_close(g);
}

static void test_places__many_conversations_of_one_client_leave_the_only_one_of_another(void **state)
{
    (void)state;
    struct engine *g = open_places(3, 0);
    talk(g, 1, 3000, 1);
    for (int i = 0; i < 6; i++)
        talk(g, 10 + i, LONG, 2);
    assert_true(talk(g, 1, 3100, 1) >= 2900);
    engine_close(g);
}

static void test_places__a_long_conversation_without_a_name_leaves_for_a_file_and_returns(void **state)
{
    (void)state;
    int n;
    struct engine *g = open_places(1, 100 * MB);
    for (int turn = 0; turn < 4; turn++)
        for (int which = 1; which <= 3; which++) {
            const int got = talk(g, which, LONG + turn * 100, 1);
            assert_true(turn ? got >= (LONG + turn * 100 - 100) * 99 / 100 : got == 0);
        }
    assert_int_equal(talk(g, 9, SHORT, 1), 0);          /* a short one is not worth a file */
    assert_int_equal(talk(g, 8, SHORT, 1), 0);
    assert_int_equal(figures(g).moved_in, 9);
    for (int i = 0; i < 10000 && figures(g).moved_out < 12; i++)        /* the last ones may still be written */
        usleep(1000);
    assert_int_equal(figures(g).moved_out, 12);
    assert_true(bytes_moved(&n) > 0);
    assert_int_equal(n, 1);
    engine_close(g);
}

/* The files never have more than their room together; what does not fit is computed again, and 0 turns it off. */
static void test_places__moved_conversations_have_a_bounded_room(void **state)
{
    (void)state;
    const size_t rooms[] = {0, MB / 2, 1 * MB, 3 * MB};
    int n, in[4];
    for (int i = 0; i < 4; i++) {
        struct engine *g = open_places(1, rooms[i]);
        for (int turn = 0; turn < 3; turn++)
            for (int which = 1; which <= 4; which++) {
                talk(g, which, LONG + turn * 100, 1);
                assert_true(bytes_moved(&n) <= rooms[i]);
            }
        in[i] = figures(g).moved_in;
        engine_close(g);
        assert_int_equal(bytes_moved(&n), 0);
        assert_int_equal(n, 0);
    }
    assert_int_equal(in[0], 0);
    assert_true(in[3] > 0);
}

/* Killed at any moment of moving out: the next engine deletes what it left, and its own folder when it closes. */
static int n_warnings;
static char warned[1024];

static void keep_warning(const char *line, void *arg)
{
    (void)arg;
    n_warnings++;
    snprintf(warned, sizeof warned, "%s", line);
}

static void test_places__a_folder_that_cannot_be_made_is_reported_once(void **state)
{
    (void)state;
    struct err e = {0};
    const struct engine_options o = {.model_dir = "fake", .n_ctx = 100000, .draft_depth = 0, .n_sequences = 2, .moved_dir = "/dev/null/moved",
                                     .moved_bytes = 1000 * MB};
    err_set_sink(keep_warning, NULL);
    struct engine *g = engine_open(&o, &e);
    for (int which = 1; which <= 5; which++)
        talk(g, which, LONG, 1);
    assert_true(talk(g, 5, LONG, 1) > LONG / 2);
    engine_close(g);
    err_set_sink(NULL, NULL);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(warned, "conversations that leave memory are not kept on disk"));
    assert_non_null(strstr(warned, "/dev/null"));
}

static void test_places__a_kill_leaves_nothing_behind(void **state)
{
    (void)state;
    int n;
    for (int i = 0; i < 12; i++) {
        const pid_t child = fork();
        if (!child) {
            struct engine *g = open_places(1, 100 * MB);
            for (int k = 0; ; k++)
                talk(g, k % 5, LONG, 1);
        }
        usleep(20000 + (useconds_t)i * 17000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    bytes_moved(&n);
    assert_true(n > 0);
    struct engine *g = open_places(1, 100 * MB), *other = open_places(1, 100 * MB);
    assert_int_equal(bytes_moved(&n), 0);
    assert_int_equal(n, 0);             /* a folder is made when something is moved */
    talk(g, 1, LONG, 1);
    talk(g, 2, LONG, 1);
    struct engine *third = open_places(1, 100 * MB);
    bytes_moved(&n);
    assert_int_equal(n, 1);             /* one in use stays */
    engine_close(third);
    engine_close(other);
    engine_close(g);
    bytes_moved(&n);
    assert_int_equal(n, 0);
}

/* An edited last message costs that turn, however long the answer before it was. */
static void test_places__going_back_by_a_turn_costs_that_turn(void **state)
{
    (void)state;
    static int cached[10];
    static int32_t ids[LONG];
    const struct sampling how = {.max_tokens = 3};
    struct engine *g = open_places(1, 0);
    for (int i = 0; i < LONG; i++)
        ids[i] = 2 + (i * 7 + i / 14) % 14;
    ids[9000] = ids[9990] = ids[12990] = ids[14000] = FAKE_EOS;        /* messages end; an answer from 10000 to 12990 */
    engine_submit(g, 0, spans_text(ids, 10000), 9995, &how);
    wait_for(g, 1, cached);
    engine_submit(g, 0, spans_text(ids, 14010), 14005, &how);
    wait_for(g, 1, cached);
    assert_true(cached[2] >= 9990);
    ids[13100] ^= 4;                    /* the message after that answer */
    engine_submit(g, 0, spans_text(ids, 14010), 14005, &how);
    wait_for(g, 1, cached);
    assert_int_equal(cached[3], 12991 / 64 * 64);
    engine_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_places__of_eight_clients_no_main_conversation_is_read_again, begin, end),
        cmocka_unit_test_setup_teardown(test_places__many_conversations_of_one_client_leave_the_only_one_of_another, begin, end),
        cmocka_unit_test_setup_teardown(test_places__a_long_conversation_without_a_name_leaves_for_a_file_and_returns, begin, end),
        cmocka_unit_test_setup_teardown(test_places__moved_conversations_have_a_bounded_room, begin, end),
        cmocka_unit_test_setup_teardown(test_places__a_folder_that_cannot_be_made_is_reported_once, begin, end),
        cmocka_unit_test_setup_teardown(test_places__a_kill_leaves_nothing_behind, begin, end),
        cmocka_unit_test_setup_teardown(test_places__going_back_by_a_turn_costs_that_turn, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
