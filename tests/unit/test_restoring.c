/* A sequence comes back from its file in slices: copied one by one, whatever happens in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/checkpoint.h"
#include "engine/restoring.h"
#include "fake_model.h"
#include "tests/tmpdir.h"

enum { SEQUENCES = 2, SLOTS = 4, TOKENS = 60, PIECES = 3, BEFORE = 40, PATIENCE_MS = 120000 };
static const struct fingerprint identity = {1, 2};

/* States of a little more than a slice. */
static const size_t state_bytes = (size_t)RESTORING_SLICE + 4096;

static struct tmpdir dir;
static char path[96];
static atomic_int n_arrived;

struct talk {
    struct restoring *t;
    struct dev      *dev;
    struct timeline  tl[SEQUENCES];
    struct cache    *caches[SEQUENCES];
    struct snapshots snaps;
    char            *memory;
    int              n_done;
    struct restored  out;               /* of the last one that ended */
};

static void on_arrived(void *arg)
{
    (void)arg;
    n_arrived++;
}

static void on_done(void *arg, const struct restored *r)
{
    struct talk *k = arg;
    k->n_done++;
    k->out = *r;
}

static void begin(struct talk *k, int n_slots)
{
    struct err e = {0};
    const struct kv_shape shape = {.n_ctx = 2 * TOKENS, .n_slots = SEQUENCES};
    *k = (struct talk){.dev = dev_open_cpu(1, &e), .memory = calloc((size_t)n_slots, state_bytes)};
    caches_open(k->caches, k->dev, &shape, &e);
    snapshots_init(&k->snaps, n_slots, SEQUENCES, state_bytes, k->memory);
    for (int i = 0; i < SEQUENCES; i++)
        timeline_init(&k->tl[i], 2 * TOKENS);
    n_arrived = 0;
    k->t = restoring_open(&(struct restoring_hooks){on_arrived, on_done, k}, &e);
    assert_non_null(k->t);
}

static void end(struct talk *k)
{
    restoring_close(k->t);
    for (int i = 0; i < SEQUENCES; i++)
        timeline_free(&k->tl[i]);
    snapshots_free(&k->snaps);
    caches_close(k->caches, SEQUENCES);
    free(k->memory);
    k->dev->close(k->dev);
}

static void comes_back(struct talk *k, int sequence)
{
    const struct resident r = {.dev = k->dev, .slot = sequence, .tl = &k->tl[sequence], .snaps = &k->snaps, .cache = k->caches[sequence]};
    restoring_begin(k->t, (uint64_t)sequence + 1, path, identity, &r, false);
    if (restoring_next(k->t))
        restoring_read(k->t);
}

static void wait_until_ready(struct talk *k)
{
    for (int ms = 0; !restoring_ready(k->t) && ms < PATIENCE_MS; ms++)
        usleep(1000);
    assert_true(restoring_ready(k->t));
}

/* Up to the next one. */
static void step(struct talk *k)
{
    struct err e = {0};
    wait_until_ready(k);
    assert_true(restoring_step(k->t, &e));
    if (restoring_next(k->t))
        restoring_read(k->t);
}

/* Every byte of them tells where it stands. */
static char *states_at(int pos)
{
    char *s = malloc(state_bytes);
    assert_non_null(s);
    for (size_t i = 0; i < state_bytes; i += 4096)
        memset(s + i, (int)(i / 4096 * 7 + (size_t)pos) & 0xff, i + 4096 < state_bytes ? 4096 : state_bytes - i);
    *(struct fake_states *)s = (struct fake_states){.chain = (uint64_t)pos, .pos = pos};
    return s;
}

/* TOKENS tokens in PIECES sections of rows, and states at two positions, the later one first. */
static int make_file(void **state)
{
    struct err e;
    int32_t ids[TOKENS];
    (void)state;
    if (!tmpdir_make(&dir))
        return 1;
    snprintf(path, sizeof path, "%s/talk.checkpoint", dir.path);
    struct checkpoint *c = checkpoint_edit(path, identity, &e);
    for (int i = 0; i < TOKENS; i++)
        ids[i] = i % 16;
    struct cache *k = cache_open(NULL, &(struct kv_shape){.n_ctx = TOKENS, .n_slots = 1}, &e);
    char *rows = malloc(cache_rows_bytes(k, 0, TOKENS)), *states[] = {states_at(TOKENS), states_at(BEFORE)};
    bool ok = c && rows;
    for (int i = 0, n = TOKENS / PIECES; ok && i < PIECES; i++) {
        for (int p = i * n; p < (i + 1) * n; p++)
            k->kv[p].chain = (uint64_t)p * 3;
        cache_rows_save(k, i * n, (i + 1) * n, rows);
        ok = checkpoint_add_rows(c, spans_text(ids, TOKENS), (i + 1) * n, rows, cache_rows_bytes(k, 0, n), &e);
    }
    ok = ok && checkpoint_add_states(c, TOKENS, states[0], state_bytes, &e) && checkpoint_add_states(c, BEFORE, states[1], state_bytes, &e)
         && checkpoint_commit(c, &e);
    checkpoint_close(c);
    cache_close(k);
    free(states[0]);
    free(states[1]);
    free(rows);
    return !ok;
}

static int drop_file(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir.path);
}

static void check_states(const struct talk *k, int sequence, int pos)
{
    const int slot = snapshots_find(&k->snaps, sequence, pos);
    char *wanted = states_at(pos);
    assert_int_equal(k->snaps.pos[slot], pos);
    assert_memory_equal(snapshots_at(&k->snaps, slot), wanted, state_bytes);
    free(wanted);
}

static void check_all(const struct talk *k, int sequence)
{
    assert_string_equal(k->out.refused.msg, "");
    assert_int_equal(k->out.n_tokens, TOKENS);
    assert_int_equal(k->tl[sequence].n_run, TOKENS);
    assert_int_equal(k->caches[sequence]->s.pos, TOKENS);
    for (int p = 0; p < TOKENS; p++)
        assert_int_equal(k->caches[sequence]->kv[p].chain, p * 3);
    check_states(k, sequence, BEFORE);
    check_states(k, sequence, TOKENS);
}

/* A section of rows at a time, states in two slices, and nobody sees any of it before the end. */
static void test_restoring__a_sequence_comes_back_slice_by_slice(void **state)
{
    enum { STEPS = 1 + PIECES + 2 * 2 };
    struct talk k;
    (void)state;
    begin(&k, SLOTS);
    comes_back(&k, 1);
    assert_true(restoring_brings(k.t, 2));
    assert_false(restoring_brings(k.t, 1));
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(k.tl[1].n_run, 0);
        step(&k);
    }
    assert_int_equal(k.tl[1].n_run, TOKENS);
    assert_int_equal(k.n_done, 0);
    step(&k);                           /* the file is closed */
    assert_int_equal(k.n_done, 1);
    assert_false(restoring_brings(k.t, 2));
    assert_false(restoring_ready(k.t));
    assert_true(n_arrived > PIECES);
    check_all(&k, 1);
    end(&k);
}

/* In the order in which they were asked for. */
static void test_restoring__two_come_back_one_after_the_other(void **state)
{
    struct talk k;
    (void)state;
    begin(&k, SLOTS);
    comes_back(&k, 1);
    comes_back(&k, 0);
    for (int i = 1; i >= 0; i--) {
        const int n = k.n_done;
        while (k.n_done == n)
            step(&k);
        assert_int_equal(k.out.name, i + 1);
        check_all(&k, i);
    }
    end(&k);
}

/* The one slot is taken between two slices: it is the other sequence's from then on, and this one has come back for nothing. */
static void test_restoring__a_snapshot_that_is_taken_in_between_is_left_alone(void **state)
{
    enum { STEPS = 1 + PIECES + 1 };
    struct talk k;
    (void)state;
    begin(&k, 1);
    comes_back(&k, 1);
    for (int i = 0; i < STEPS; i++)
        step(&k);
    assert_true(snapshots_find(&k.snaps, 1, TOKENS) >= 0);
    snapshots_drop_after(&k.snaps, 1, 0);
    char *mem = snapshots_claim(&k.snaps, 0, 7, false);
    assert_non_null(mem);
    memset(mem, 0x5a, state_bytes);
    step(&k);                           /* of the same states */
    for (size_t i = 0; i < state_bytes; i++)
        if (mem[i] != 0x5a)
            fail_msg("byte %zu was overwritten", i);
    while (!k.n_done)
        step(&k);
    assert_int_equal(k.tl[1].n_run, k.out.n_tokens);
    end(&k);
}

static void damage(long at)
{
    FILE *f = fopen(path, "r+b");
    assert_true(f && !fseek(f, at, SEEK_SET) && fputc(0x5a, f) != EOF && fputc(0xa5, f) != EOF && !fclose(f));
}

/* In rows that were not read yet when the first ones were copied, and in states. */
static void test_restoring__a_damaged_section_leaves_nothing_behind(void **state)
{
    enum { SECOND_ROWS = 4 * 4096, STATES = 7 * 4096 };
    const long at[] = {SECOND_ROWS, STATES};
    struct talk k;
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (i)
            assert_int_equal(make_file(NULL), 0);
        damage(at[i] + 10);
        begin(&k, SLOTS);
        comes_back(&k, 0);
        while (!k.n_done)
            step(&k);
        assert_non_null(strstr(k.out.refused.msg, "is damaged"));
        assert_true(k.out.deleted);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(k.out.n_tokens, 0);
        assert_int_equal(k.tl[0].n, 0);
        assert_int_equal(snapshots_in_use(&k.snaps), 0);
        assert_int_equal(k.caches[0]->s.pos, 0);
        end(&k);
        rmdir(dir.path);
    }
    assert_int_equal(make_file(NULL), 0);
}

/* Section i of the index gets that many bytes, and the file is long enough; all checksums are right. */
static void lie(int i, uint64_t bytes)
{
    enum { PAGE = 4096, HEAD = 16 };
    struct { uint64_t number, index_at, index_bytes, index_checksum, checksum; } root;
    char index[PAGE];
    struct checkpoint_section s;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &root, sizeof root, 2 * PAGE) == sizeof root && root.number == 1 && root.index_bytes <= sizeof index);
    assert_int_equal(pread(fd, index, root.index_bytes, (off_t)root.index_at), root.index_bytes);
    memcpy(&s, index + HEAD + (size_t)i * sizeof s, sizeof s);
    s.bytes = bytes;
    memcpy(index + HEAD + (size_t)i * sizeof s, &s, sizeof s);
    root.index_checksum = checksum(index, root.index_bytes);
    root.checksum = checksum(&root, sizeof root - sizeof root.checksum);
    assert_int_equal(pwrite(fd, index, root.index_bytes, (off_t)root.index_at), root.index_bytes);
    assert_int_equal(pwrite(fd, &root, sizeof root, 2 * PAGE), sizeof root);
    assert_int_equal(ftruncate(fd, (off_t)(s.at + bytes)), 0);
    close(fd);
}

/* A sparse file says that its rows, or its states, take 2^40 bytes: no memory is asked for, and it goes as a damaged one does. */
static void test_restoring__a_section_of_another_size_is_refused_before_it_is_read(void **state)
{
    struct talk k;
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (i)
            assert_int_equal(make_file(NULL), 0);
        lie(i ? PIECES : 1, UINT64_C(1) << 40);
        begin(&k, SLOTS);
        comes_back(&k, 0);
        while (!k.n_done)
            step(&k);
        assert_non_null(strstr(k.out.refused.msg, "has 1099511627776 bytes for the "));
        assert_non_null(strstr(k.out.refused.msg, i ? " states at 60, expected " : " rows from 20, expected "));
        assert_true(k.out.deleted);
        assert_int_equal(k.out.n_tokens, 0);
        end(&k);
        rmdir(dir.path);
    }
    assert_int_equal(make_file(NULL), 0);
}

/* However far it has come. */
static void test_restoring__closes_at_any_moment(void **state)
{
    struct talk k;
    (void)state;
    for (int n = 0; n <= 1 + PIECES + 4; n++) {
        begin(&k, SLOTS);
        comes_back(&k, 0);
        comes_back(&k, 1);
        for (int i = 0; i < n; i++)
            step(&k);
        end(&k);
    }
    begin(&k, SLOTS);
    comes_back(&k, 0);
    while (!k.n_done)
        step(&k);
    check_all(&k, 0);
    end(&k);
}

#define test(f) cmocka_unit_test_setup_teardown(f, make_file, drop_file)
int main(void)
{
    const struct CMUnitTest tests[] = {
        test(test_restoring__a_sequence_comes_back_slice_by_slice),
        test(test_restoring__two_come_back_one_after_the_other),
        test(test_restoring__a_snapshot_that_is_taken_in_between_is_left_alone),
        test(test_restoring__a_damaged_section_leaves_nothing_behind),
        test(test_restoring__a_section_of_another_size_is_refused_before_it_is_read),
        test(test_restoring__closes_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
