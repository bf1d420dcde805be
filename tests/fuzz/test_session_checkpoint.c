/* Damaged checkpoint files of conversations: bytes changed, cut out, doubled; and pages whose checksums are right but whose numbers lie.
 * Each is read as one of the turns that were written, or refused in a sentence, and can then be written again.  Seeds are fixed. */
#include "tests/checkpoint_file.h"

#include <unistd.h>

#include "base/file.h"
#include "tests/tmpdir.h"

enum { PAGE = 4096, ROOT_BYTES = 40 };

static uint64_t seed;

static size_t below(size_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (size_t)((seed >> 11) % n);
}

static void damage(struct buf *b)
{
    for (size_t k = 1 + below(4); k && b->len; k--) {
        size_t at = below(b->len), n = below(2) ? below(64) : below(2 * PAGE);
        n = at + n > b->len ? b->len - at : n;
        struct buf out = {0};
        buf_add(&out, b->data, at);
        if (below(3) == 0)              /* a stretch twice */
            buf_add(&out, b->data + at, n);
        else if (below(2))              /* other bytes */
            for (size_t i = 0; i < n; i++)
                buf_addc(&out, (char)below(256));
        if (below(4) == 0)              /* a stretch less */
            n = n / 2;
        buf_add(&out, b->data + at + n, b->len - at - n);
        buf_free(b);
        *b = out;
    }
}

static uint64_t word(const struct buf *b, size_t at)
{
    uint64_t v = 0;
    if (at + sizeof v <= b->len)
        memcpy(&v, b->data + at, sizeof v);
    return v;
}

static void set_word(struct buf *b, size_t at, uint64_t v)
{
    if (at + sizeof v <= b->len)
        memcpy(b->data + at, &v, sizeof v);
}

static uint64_t strange(void)
{
    static const uint64_t numbers[] = {0, 1, 4095, 4096, 12288, UINT32_MAX, INT32_MAX, UINT64_MAX, UINT64_MAX - 4095, (uint64_t)1 << 63};
    return below(2) ? numbers[below(sizeof numbers / sizeof *numbers)] : below(100000);
}

/* Somebody who knows the format: one number of index or root is another, and all checksums are right. */
static void lie(struct buf *b)
{
    size_t root = PAGE * (1 + (word(b, PAGE) < word(b, 2 * PAGE))), index = word(b, root + 8), bytes = word(b, root + 16);
    if (below(4))
        set_word(b, index + 8 * below(bytes / 8), below(3) ? strange() : strange() << 32 | strange() % INT32_MAX);
    else
        set_word(b, root + 8 * below(3), strange());
    index = word(b, root + 8);
    bytes = word(b, root + 16);
    if (index <= b->len && bytes <= b->len - index)
        set_word(b, root + 24, checksum(b->data + index, bytes));
    set_word(b, root + 32, checksum(b->data + root, ROOT_BYTES - 8));
}

/* Whatever the numbers say, reading stays inside of memory and file. */
static bool read_anything(const char *path, struct err *e)
{
    bool useless;
    struct checkpoint *c = checkpoint_open(path, IDENTITY, &useless, e);
    int n, sum = 0;
    if (!c)
        return false;
    const struct spans has = checkpoint_spans(c);
    const struct checkpoint_section *s = checkpoint_sections(c, &n);
    for (int i = 0; i < has.n; i++)
        sum += has.ids[i] & 1;
    for (int i = 0; i < has.n_pictures; i++)
        sum += has.pictures[i].w & 1;
    bool ok = sum >= 0;
    for (int i = 0; ok && i < n; i++) {
        char *data = malloc(s[i].bytes);
        ok = checkpoint_read(c, &s[i], data, e);
        free(data);
    }
    checkpoint_close(c);
    return ok;
}

static void try_all(void (*change)(struct buf *b), int n_tries, bool exact, bool pictures)
{
    struct tmpdir d;
    char path[96];
    struct buf whole = {0};
    struct err e = {0};
    int read = 0, refused = 0;
    assert_true(tmpdir_make(&d));
    snprintf(path, sizeof path, "%s/talk", d.path);
    write_file(path, 2);
    if (pictures)
        write_pictures(path);
    assert_true(file_read(&whole, path, 1 << 20, &e));
    for (int i = 0; i < n_tries; i++) {
        struct buf b = {0};
        seed = (uint64_t)i + 1;
        buf_add(&b, whole.data, whole.len);
        change(&b);
        assert_true(tmpdir_put(&d, "talk", buf_str(&b), b.len));
        bool ok = exact ? read_file(path, &e) >= 0 : read_anything(path, &e);
        read += ok;
        refused += !ok;
        if (!ok) {
            assert_sentence(&e);
            unlink(path);               /* as the engine does it */
        }
        if (i % 4) {
            buf_free(&b);
            continue;
        }
        struct checkpoint *c = checkpoint_edit(path, IDENTITY, &e);
        assert_non_null(c);
        checkpoint_cut(c, 0);
        assert_true(add_turn(c, 1, &e) && checkpoint_commit(c, &e));
        checkpoint_close(c);
        assert_int_equal(read_file(path, &e), 1);
        buf_free(&b);
    }
    assert_true(read > 20 && refused > 20);
    buf_free(&whole);
    tmpdir_drop(&d, "talk");
    tmpdir_remove(&d);
}

static void test_session_checkpoint__a_damaged_one_is_read_whole_or_refused(void **state)
{
    (void)state;
    try_all(damage, 400, true, false);
}

static void test_session_checkpoint__numbers_that_lie_do_no_harm(void **state)
{
    (void)state;
    try_all(lie, 400, false, false);
}

static void test_session_checkpoint__pictures_that_lie_do_no_harm(void **state)
{
    (void)state;
    try_all(lie, 800, false, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session_checkpoint__a_damaged_one_is_read_whole_or_refused),
        cmocka_unit_test(test_session_checkpoint__numbers_that_lie_do_no_harm),
        cmocka_unit_test(test_session_checkpoint__pictures_that_lie_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
