/* Checkpoint files of conversations: what is committed comes back whole or not at all, whatever happens to the file. */
#include "tests/checkpoint_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/emulated.h"
#include "tests/tmpdir.h"

static struct tmpdir dir;
static char path[96];
static bool useless;

static int make_dir(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s", tmpdir_make(&dir) ? dir.path : "");
    strcat(path, "/talk.checkpoint");
    return !*dir.path;
}

static int drop_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir.path);             /* no temporary file is left */
}

static size_t size_of(const char *file)
{
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    return (size_t)st.st_size;
}

static void test_session_checkpoint__what_was_committed_comes_back(void **state)
{
    struct err e = {0};
    struct stat st;
    (void)state;
    assert_int_equal(read_file(path, &e), -1);
    assert_string_equal(e.msg, "");     /* there is none */
    write_file(path, 0);
    assert_int_equal(read_file(path, &e), 0);
    unlink(path);
    write_file(path, 1);
    assert_int_equal(read_file(path, &e), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    unlink(path);
    write_file(path, 2);
    assert_int_equal(read_file(path, &e), 2);
}

static uint32_t version_of(const char *file)
{
    struct buf b = {0};
    struct err e;
    uint32_t version;
    assert_true(file_read(&b, file, 1 << 20, &e));
    memcpy(&version, b.data + 16, sizeof version);
    buf_free(&b);
    return version;
}

/* Older programs read it, and what they wrote is read. */
static void test_session_checkpoint__a_file_of_text_has_the_bytes_of_version_1(void **state)
{
    struct buf b = {0};
    struct err e = {0};
    (void)state;
    write_file(path, 2);
    assert_int_equal(version_of(path), CHECKPOINT_TEXT_VERSION);
    assert_true(file_read(&b, path, 1 << 20, &e));
    assert_int_equal(b.len, 45056);
    assert_true(checksum(b.data, b.len) == 0xd20adc885d7bfc10);         /* of a file that was written before there were pictures */
    buf_free(&b);
}

static void test_session_checkpoint__pictures_come_back_and_raise_the_version(void **state)
{
    struct err e = {0};
    (void)state;
    write_file(path, 1);
    write_pictures(path);
    assert_int_equal(version_of(path), CHECKPOINT_VERSION);
    struct checkpoint *c = checkpoint_open(path, IDENTITY, &useless, &e);
    assert_non_null(c);
    const struct spans has = checkpoint_spans(c);
    assert_int_equal(has.n, 40);
    assert_int_equal(has.n_pictures, 2);
    assert_memory_equal(has.pictures, PICTURES, sizeof PICTURES);
    checkpoint_close(c);
    c = checkpoint_edit(path, IDENTITY, &e);                    /* a shorter conversation: a picture less, and one that is cut off */
    checkpoint_cut(c, 15);
    assert_true(checkpoint_commit(c, &e));
    checkpoint_close(c);
    c = checkpoint_open(path, IDENTITY, &useless, &e);
    assert_int_equal(checkpoint_spans(c).n, 15);
    assert_int_equal(checkpoint_spans(c).n_pictures, 1);
    assert_memory_equal(checkpoint_spans(c).pictures, PICTURES, sizeof *PICTURES);
    checkpoint_close(c);
}

/* A program that is killed leaves the file as it is at some moment; at all of them it holds the turn before. */
static void test_session_checkpoint__what_was_not_committed_is_as_if_it_were_not(void **state)
{
    struct err e = {0};
    (void)state;
    write_file(path, 1);
    struct checkpoint *c = checkpoint_edit(path, IDENTITY, &e);
    assert_non_null(c);
    assert_true(add_turn(c, 2, &e));
    checkpoint_close(c);
    assert_int_equal(read_file(path, &e), 1);
    c = checkpoint_edit(path, IDENTITY, &e);
    assert_true(add_turn(c, 2, &e) && checkpoint_commit(c, &e));
    checkpoint_close(c);
    assert_int_equal(read_file(path, &e), 2);
}

static void test_session_checkpoint__cut_at_any_byte_it_is_refused_or_whole(void **state)
{
    struct buf whole = {0};
    struct err e = {0};
    int refused = 0;
    (void)state;
    write_file(path, 2);
    assert_true(file_read(&whole, path, 1 << 20, &e));
    for (size_t n = 0; n < whole.len; n += n % 4096 < 300 || n % 4096 > 4000 ? 1 : 97) {
        assert_int_equal(truncate(path, 0), 0);
        assert_true(tmpdir_put(&dir, "talk.checkpoint", whole.data, n));
        int turn = read_file(path, &e);
        if (turn < 0) {
            refused++;
            assert_sentence(&e);
        } else {
            assert_int_equal(turn, 2);
        }
    }
    assert_true(refused > 1000);
    buf_free(&whole);
}

static void test_session_checkpoint__any_byte_that_changes_is_noticed_or_counts_for_nothing(void **state)
{
    struct buf whole = {0};
    struct err e = {0};
    int refused = 0, older = 0;
    (void)state;
    write_file(path, 2);
    assert_true(file_read(&whole, path, 1 << 20, &e));
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    setbuf(f, NULL);
    for (size_t at = 0; at < whole.len; at += at % 4096 < 512 ? 1 : 61) {
        assert_true(!fseek(f, (long)at, SEEK_SET) && fputc(whole.data[at] ^ (1 << at % 8), f) != EOF);
        int turn = read_file(path, &e);
        if (turn < 0)
            assert_sentence(&e);
        refused += turn < 0;
        older += turn == 1 || !turn;
        assert_true(!fseek(f, (long)at, SEEK_SET) && fputc(whole.data[at], f) != EOF);
    }
    fclose(f);
    assert_int_equal(read_file(path, &e), 2);
    assert_true(refused > 500);
    assert_int_equal(older, 0);         /* what only the turn before needed is overwritten or given back */
    buf_free(&whole);
}

static void test_session_checkpoint__of_another_model_or_version_is_refused_and_replaced(void **state)
{
    struct err e = {0};
    char version = 9;
    (void)state;
    write_file(path, 2);
    assert_null(checkpoint_open(path, (struct fingerprint){11, 23}, &useless, &e));
    assert_non_null(strstr(e.msg, "of another model, KV recipe or --prompt-math"));
    FILE *f = fopen(path, "r+b");
    assert_true(f && !fseek(f, 16, SEEK_SET) && fwrite(&version, 1, 1, f) == 1 && !fclose(f));
    assert_int_equal(read_file(path, &e), -1);
    assert_non_null(strstr(e.msg, "is of version 9, expected 1"));
    write_file(path, 1);
    assert_int_equal(read_file(path, &e), 1);
    assert_true(tmpdir_put(&dir, "talk.checkpoint", "something else", 14));
    assert_int_equal(read_file(path, &e), -1);
    assert_non_null(strstr(e.msg, "is no checkpoint of a conversation"));
}

/* A turn adds its own rows; its states take the place of older ones. */
static void test_session_checkpoint__a_turn_writes_its_own_rows_and_the_file_does_not_grow_by_states(void **state)
{
    enum { TURNS = 40, EACH = 25, MOST = 4096 * 3 + TURNS * 4096 + 6 * 4096 };
    struct err e = {0};
    (void)state;
    for (int turn = 0; turn < TURNS; turn++) {
        struct checkpoint *c = checkpoint_edit(path, IDENTITY, &e);
        assert_non_null(c);
        size_t before = checkpoint_written(c);
        assert_true(add_rows(c, turn * EACH, (turn + 1) * EACH, 1, &e) && add_states(c, (turn + 1) * EACH, 1, &e));
        checkpoint_drop_states(c, turn * EACH);
        assert_true(checkpoint_commit(c, &e));
        assert_true(checkpoint_written(c) - before < EACH * ROW + STATES + 3 * 4096 + TURNS * (EACH * 4 + 40));
        assert_true(checkpoint_bytes(c) <= MOST);
        checkpoint_close(c);
        assert_true(size_of(path) <= MOST + 8 * 4096);        /* with gaps, which take no room */
    }
}

static void test_session_checkpoint__is_written_by_one_program_at_a_time(void **state)
{
    struct err e = {0};
    (void)state;
    write_file(path, 1);
    struct checkpoint *reader = checkpoint_open(path, IDENTITY, &useless, &e), *other = checkpoint_open(path, IDENTITY, &useless, &e);
    assert_true(reader && other);
    checkpoint_close(other);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK);
    close(fd);
    checkpoint_close(reader);
    struct checkpoint *writer = checkpoint_edit(path, IDENTITY, &e);
    assert_null(checkpoint_open(path, IDENTITY, &useless, &e));
    assert_non_null(strstr(e.msg, "in use by another q35chat"));
    assert_false(useless);              /* so nobody deletes it */
    checkpoint_close(writer);
}

static void test_session_checkpoint__follows_no_link(void **state)
{
    struct err e = {0};
    char other[96];
    struct buf text = {0};
    (void)state;
    snprintf(other, sizeof other, "%s/precious", dir.path);
    assert_true(tmpdir_put(&dir, "precious", "words", 5) && !symlink(other, path));
    assert_null(checkpoint_open(path, IDENTITY, &useless, &e));
    assert_sentence(&e);
    write_file(path, 1);
    assert_int_equal(read_file(path, &e), 1);
    assert_true(file_read(&text, other, 100, &e));
    assert_string_equal(buf_str(&text), "words");
    buf_free(&text);
    unlink(other);
}

static void test_session_checkpoint__a_disk_that_is_full_leaves_the_turn_before(void **state)
{
    struct rlimit old, none;
    struct err e = {0};
    (void)state;
    write_file(path, 1);
    struct checkpoint *c = checkpoint_edit(path, IDENTITY, &e);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = size_of(path);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    bool ok = add_turn(c, 2, &e) && checkpoint_commit(c, &e);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_false(ok);
    assert_non_null(strstr(e.msg, "cannot write "));
    checkpoint_close(c);
    assert_int_equal(read_file(path, &e), 1);
}

/* A root that says that the index takes most of a sparse file of 1 TiB, its checksum right. */
static void make_sparse(uint64_t n_ids)
{
    enum { PAGE = 4096 };
    const uint64_t size = UINT64_C(1) << 40, head[2] = {0, n_ids};
    struct { uint64_t number, index_at, index_bytes, index_checksum, checksum; } root = {1, 3 * PAGE, size - 3 * PAGE, 0, 0};
    write_file(path, 0);
    root.checksum = checksum(&root, sizeof root - sizeof root.checksum);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && !ftruncate(fd, (off_t)size));
    assert_int_equal(pwrite(fd, &root, sizeof root, 2 * PAGE), sizeof root);
    assert_int_equal(pwrite(fd, head, sizeof head, 3 * PAGE), sizeof head);
    close(fd);
}

/* With less memory than it says it needs, which would end the program. */
static void test_session_checkpoint__a_sparse_file_does_not_say_how_much_memory_is_taken(void **state)
{
    const uint64_t n_ids[] = {0, 7, (UINT64_C(1) << 38) - 3 * 1024 - 4, UINT64_MAX / 4};
    struct rlimit old, little;
    struct err e = {0};
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    little = old;
    little.rlim_cur = UINT64_C(1) << 32;
    for (size_t i = 0; i < sizeof n_ids / sizeof *n_ids; i++) {
        make_sparse(n_ids[i]);
        if (!SANITIZED)
            setrlimit(RLIMIT_AS, &little);
        struct checkpoint *c = checkpoint_open(path, IDENTITY, &useless, &e);
        setrlimit(RLIMIT_AS, &old);
        assert_null(c);
        assert_true(useless);
        assert_non_null(strstr(e.msg, "is damaged: its index cannot be read"));
        unlink(path);
    }
    write_file(path, 1);
}

#define test(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
int main(void)
{
    const struct CMUnitTest tests[] = {
        test(test_session_checkpoint__what_was_committed_comes_back),
        test(test_session_checkpoint__a_file_of_text_has_the_bytes_of_version_1),
        test(test_session_checkpoint__pictures_come_back_and_raise_the_version),
        test(test_session_checkpoint__what_was_not_committed_is_as_if_it_were_not),
        test(test_session_checkpoint__cut_at_any_byte_it_is_refused_or_whole),
        test(test_session_checkpoint__any_byte_that_changes_is_noticed_or_counts_for_nothing),
        test(test_session_checkpoint__of_another_model_or_version_is_refused_and_replaced),
        test(test_session_checkpoint__a_turn_writes_its_own_rows_and_the_file_does_not_grow_by_states),
        test(test_session_checkpoint__is_written_by_one_program_at_a_time),
        test(test_session_checkpoint__follows_no_link),
        test(test_session_checkpoint__a_sparse_file_does_not_say_how_much_memory_is_taken),
        test(test_session_checkpoint__a_disk_that_is_full_leaves_the_turn_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
