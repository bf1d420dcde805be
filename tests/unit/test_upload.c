#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>

#include "kernels/planes.h"
#include "model/reader.h"
#include "model/safetensors.h"
#include "model/upload.h"
#include "tests/checkpoint.h"
#include "tests/uploaded.h"

/* ---- a device in host memory; its pieces are packed by the very arithmetic of the kernel */

struct fake {
    struct dev dev;
    size_t room, allocated;
    int n_live;
};

static void *fake_alloc(struct dev *d, size_t bytes)
{
    struct fake *f = (struct fake *)d;
    if (f->allocated + bytes > f->room)
        return NULL;
    f->allocated += bytes;
    f->n_live++;
    return calloc(1, bytes);
}
static void *fake_alloc_host(struct dev *d, size_t bytes)
{
    ((struct fake *)d)->n_live++;
    void *p = malloc(bytes);
    return p ? memset(p, 0xee, bytes) : NULL;
}
static void fake_free(struct dev *d, void *p)
{
    ((struct fake *)d)->n_live -= p != NULL;
    free(p);
}
static void fake_copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
    (void)d;
    memcpy(dst, src, bytes);
}
static bool fake_finish(struct dev *d, struct err *e)
{
    (void)d, (void)e;
    return true;
}

static struct plane_row plane_row(const struct pack_piece *p, int row, uint16_t scale)
{
    struct plane_sums sums = {0};
    for (int k = 0; k < p->cols; k++)
        plane_add(&sums, (int8_t)pack_int8_value(pack_load(p->src, p->dtype, (uint64_t)row * (uint64_t)p->cols + (uint64_t)k), scale));
    return plane_row_of(&sums, scale);
}

static void int8_tile(const struct pack_piece *p, int tile)
{
    const bool planes = p->kind == PACK_PLANES;
    uint16_t scale[16] = {0};
    for (int r = 0; r < 16 && tile * 16 + r < p->n; r++) {
        uint32_t top = 0;
        for (int k = 0; k < p->cols; k++) {
            uint32_t u = pack_load(p->src, p->dtype, (uint64_t)(tile * 16 + r) * (uint64_t)p->cols + (uint64_t)k) & 0x7fffffff;
            top = u > top ? u : top;
        }
        scale[r] = pack_int8_scale(top);
        if (planes)
            *pack_plane_row_at(p, tile, r) = plane_row(p, tile * 16 + r, scale[r]);
        else
            *pack_int8_scale_at(p, tile, r) = scale[r];
    }
    for (unsigned u = 0; u < (unsigned)pack_groups(p->cols) * (planes ? 2 : 4) * 32; u++)
        if (planes)
            pack_planes_unit(p, tile, u, scale);
        else
            pack_int8_unit(p, tile, u, scale);
}
static void fp8_block(const struct pack_piece *p, int block)
{
    enum { N = 7 };                     /* threads */
    uint32_t max = 0;
    for (int i = 0; i < N; i++) {
        const uint32_t own = pack_fp8_max(p, block, i, N);
        max = own > max ? own : max;
    }
    for (int i = 0; i < N; i++)
        pack_fp8_block(p, block, max, i, N);
}
/* A row of a tile as its warp does it: returns the part of each lane's word. */
static void int4_row(const struct pack_piece *p, int tile, int group, int g, int h, uint32_t words[32])
{
    const int row = pack_row(p, tile, g, h) - p->first;
    float x[PACK_GROUP];
    for (int lane = 0; lane < 32; lane++)
        if (row < 0)
            words[lane] |= pack_int4_beyond(p, h);
        else
            pack_int4_load(p, row, group, lane, x + 4 * lane);
    if (row < 0)
        return;
    const uint16_t scale = pack_int4_best(x);
    for (int lane = 0; lane < 32; lane++)
        words[lane] |= pack_int4_part(pack_int4_nibbles(x + 4 * lane, scale), h);
    pack_int4_put_scale(p, tile, group, g, h, scale);
}
static void int4_tiles(const struct pack_piece *p)
{
    const int of_tile = p->half == PACK_WHOLE ? 16 : 8, groups = pack_groups(p->cols);
    for (int i = 0; i < pack_up(p->n, of_tile) * groups * 8; i++) {
        uint32_t words[32] = {0};
        const int g = i % 8, group = i / 8 % groups, tile = p->first / of_tile + i / 8 / groups;
        for (int h = 0; h < 2; h++)
            int4_row(p, tile, group, g, h, words);
        for (int lane = 0; lane < 32; lane++)
            pack_int4_put(p, tile, group, g, lane, words[lane]);
    }
}
static void fake_pack(struct dev *d, const struct pack_args *a)
{
    (void)d;
    uint64_t blocks = 0;
    for (int i = 0; i < a->n; i++) {
        const struct pack_piece *p = &a->pieces[i];
        assert_int_equal(p->first_block, blocks);
        assert_int_equal(p->first % pack_unit_rows(p->kind, p->half), 0);
        blocks += (pack_units(p) + PACK_THREADS - 1) / PACK_THREADS;
        if (p->kind == PACK_INT8 || p->kind == PACK_PLANES)
            for (int t = 0; t < pack_tiles(p->n); t++)
                int8_tile(p, t);
        else if (p->kind == PACK_DENSE_FP8)
            for (int b = 0; b < pack_up(p->n, PACK_BLOCK) * pack_up(p->cols, PACK_BLOCK); b++)
                fp8_block(p, b);
        else if (p->kind == PACK_DENSE_INT4)
            int4_tiles(p);
        else
            for (uint64_t u = 0; u < pack_units(p); u++)
                pack_unit(p, u);
    }
    assert_int_equal(blocks, a->n_blocks);
}

static struct fake fake_device(size_t room)
{
    return (struct fake){.room = room, .dev = {.name = "fake", .alloc = fake_alloc, .alloc_weights = fake_alloc, .free = fake_free,
                                               .alloc_host = fake_alloc_host,
                         .free_host = fake_free, .copy = fake_copy, .finish = fake_finish, .pack = fake_pack}};
}

/* ---- uploads */

static void upload_and_compare(const char *dir, unsigned heads, enum mtp_form mtp, size_t span, int n_threads)
{
    struct err e = {0};
    struct model_config c;
    struct weights host, w;
    struct fake f = fake_device(SIZE_MAX);
    struct uploaded u = {.d = &f.dev};
    if (!config_load(&c, dir, &e) || !weights_open(&host, &c, dir, &e) || !weights_open(&w, &c, dir, &e))
        fail_msg("%s", e.msg);
    weights_make_head(&host, HEAD_INT8);
    weights_make_head(&host, HEAD_PLANES);
    weights_make_mtp(&host, &c, mtp);
    size_t expected = upload_plan_bytes(&w, &c, heads, mtp);
    if (!weights_upload(&w, &c, &f.dev, &(struct upload_options){.heads = heads, .mtp = mtp, .span = span, .n_threads = n_threads}, NULL, NULL, &e))
        fail_msg("%s: %s", dir, e.msg);
    assert_true(f.allocated >= expected && f.allocated <= expected + (span ? span : 8 << 20) + (1 << 20));
    uploaded_check(&u, &c, heads, &w, &host);
    if (u.wrong[0])
        fail_msg("%s: %s", dir, u.wrong);
    assert_true(u.n_matrices > 20 && u.n_vectors > 5);
    weights_close(&w);
    weights_close(&host);
    assert_int_equal(f.n_live, 0);
}

static void test_upload__every_layout_arrives_as_the_host_packs_it(void **state)
{
    (void)state;
    static const char *const dirs[] = {"tests/data/model/g0/bf16", "tests/data/model/g0/int4", "tests/data/model/g0/hybrid",
                                       "tests/data/model/g1/int4", "tests/data/model/g1/hybrid", "assets/demo", "tests/data/vision/v0"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        for (int form = MTP_STORED; form <= MTP_INT4; form++)
            upload_and_compare(dirs[i], HEAD_BF16 | HEAD_INT8 | HEAD_PLANES, (enum mtp_form)form, 0, 0);
}

static void test_upload__reads_of_any_length_give_the_same(void **state)
{
    (void)state;
    static const size_t spans[] = {300 << 10, 277777, 1 << 20};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        upload_and_compare("tests/data/model/g1/hybrid", i ? HEAD_INT8 : HEAD_PLANES, MTP_STORED, spans[i], 1 + (int)i * 3);
        upload_and_compare("assets/demo", HEAD_BF16, MTP_FP8, spans[i], 8);
        upload_and_compare("assets/demo", 0, MTP_INT4, spans[i], 8);
    }
    upload_and_compare("tests/data/model/g0/bf16", 0, MTP_STORED, 0, 3);
}

/* The zeros of random bytes are not 8; these are. */
static void set_zeros(const struct ck *k, int file)
{
    char name[64], path[160];
    struct safetensors s;
    struct err e = {0};
    ck_file_name(k, file, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", k->dir, name);
    if (!safetensors_open(&s, path, &e))
        fail_msg("%s", e.msg);
    int fd = open(path, O_WRONLY);
    const uint32_t seven = 0x77777777;
    for (int i = 0; i < s.n_tensors; i++)
        for (uint64_t at = 0; strstr(s.tensors[i].name, ".qzeros") && at < s.tensors[i].bytes; at += 4)
            assert_int_equal(pwrite(fd, &seven, 4, (off_t)(s.tensors[i].offset + at)), 4);
    close(fd);
    safetensors_close(&s);
}

static void test_upload__odd_sizes_types_and_places(void **state)
{
    (void)state;
    static const enum ck_layout layouts[] = {CK_BF16, CK_F32, CK_F16, CK_FP8, CK_INT4, CK_HYBRID};
    for (size_t i = 0; i < 2 * sizeof layouts / sizeof *layouts; i++) {
        struct model_config c = ck_tiny();
        struct ck k;
        if (layouts[i / 2] < CK_FP8) {          /* multiples of nothing */
            c.hidden = 132;
            c.moe_inter = 20;
            c.shared_inter = 44;
            c.vocab = 37;
        } else if (layouts[i / 2] == CK_FP8) {
            c.hidden = 200;
            c.moe_inter = 136;
        } else {
            c.lin_v_heads = 16;
        }
        ck_model(&k, &c, layouts[i / 2], "model.", 2, i % 2 ? CK_EXTRA : 2);
        k.odd_header = i % 2;                   /* then nothing is aligned, and everything comes from copies */
        ck_write(&k, &c);
        set_zeros(&k, 1);
        set_zeros(&k, 2);
        upload_and_compare(k.dir, HEAD_BF16 | HEAD_INT8 | HEAD_PLANES, MTP_STORED, i % 2 ? 100000 : 0, 4);
        upload_and_compare(k.dir, HEAD_BF16 | HEAD_INT8, MTP_FP8, 0, 4);
        upload_and_compare(k.dir, HEAD_INT8, MTP_INT4, 0, 4);
        ck_close(&k);
    }
}

static void test_upload__a_tied_head_is_made_from_the_embedding(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    ck_model(&k, &c, CK_BF16, "model.", 2, 2);
    ck_drop(&k, "lm_head.weight");
    snprintf(k.config_extra, sizeof k.config_extra, ", \"tie_word_embeddings\": true");
    ck_write(&k, &c);
    for (unsigned heads = 0; heads < 8; heads++)
        upload_and_compare(k.dir, heads, MTP_STORED, 0, 2);
    ck_close(&k);
}

static bool stop_at_once(size_t done, size_t total, void *arg)
{
    (void)total;
    ++*(int *)arg;
    return done == 0 && *(int *)arg < 3;
}

static void expect_failure(const char *dir, size_t room, bool stop, const char *message)
{
    struct err e = {0};
    struct model_config c;
    struct weights w;
    struct fake f = fake_device(room);
    int calls = 0;
    if (!config_load(&c, dir, &e) || !weights_open(&w, &c, dir, &e))
        fail_msg("%s", e.msg);
    assert_false(weights_upload(&w, &c, &f.dev, &(struct upload_options){.heads = HEAD_INT8, .span = 300 << 10},
                                stop ? stop_at_once : NULL, &calls, &e));
    if (!strstr(e.msg, message))
        fail_msg("%s", e.msg);
    weights_close(&w);
    assert_int_equal(f.n_live, 0);
}

static void test_upload__failures_say_why_and_leave_nothing(void **state)
{
    (void)state;
    struct model_config c = ck_tiny();
    struct ck k;
    expect_failure("assets/demo", 5 << 20, false, "no room on the GPU for the weights");
    expect_failure("assets/demo", SIZE_MAX, true, "loading was stopped");
    ck_model(&k, &c, CK_INT4, "model.", 2, 2);
    ck_write(&k, &c);
    expect_failure(k.dir, SIZE_MAX, false, "expected 0x77777777: a GPU takes symmetric quantization only");
    ck_close(&k);
    ck_model(&k, &c, CK_FP8, "model.", 2, 2);
    ck_drop(&k, "model.layers.1.mlp.experts.1.down_proj.weight_scale_inv");
    snprintf(ck_find(&k, "model.layers.1.mlp.experts.1.down_proj.weight")->dtype, 16, "F16");
    ck_write(&k, &c);
    expect_failure(k.dir, SIZE_MAX, false, "layer 1: expert 1 is in FP8 and 16 or 32 bits, expert 0 in FP8 and FP8");
    ck_close(&k);
}

/* ---- the reader alone */

static void test_reader__ranges_arrive_whole_and_a_shrunk_file_is_an_error(void **state)
{
    (void)state;
    enum { N = 300000, BUFFERS = 3, SIZE = 32 << 10 };
    char path[] = "/tmp/readerXXXXXX";
    int fd = mkstemp(path);
    unsigned char *bytes = malloc(N);
    char *memory = NULL, *buffers[BUFFERS];
    struct read_job jobs[40];
    struct read_block b;
    struct err e = {0};
    assert_true(fd >= 0 && bytes && !posix_memalign((void **)&memory, READER_PAGE, BUFFERS * SIZE));
    for (int i = 0; i < N; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    assert_int_equal(write(fd, bytes, N), N);
    for (int i = 0; i < 39; i++)
        jobs[i] = (struct read_job){.offset = (uint64_t)i * 7100 + 13, .bytes = 7111};
    jobs[39] = (struct read_job){.offset = N - 1, .bytes = 1};
    for (int i = 0; i < BUFFERS; i++)
        buffers[i] = memory + i * SIZE;
    const char *paths[] = {path};
    struct reader_options o = {.paths = paths, .n_paths = 1, .jobs = jobs, .n_jobs = 40, .buffers = buffers, .n_buffers = BUFFERS,
                               .n_threads = 4, .buffer_bytes = SIZE};
    struct reader *r = reader_open(&o, &e);
    assert_non_null(r);
    for (int n = 0; n < 40;) {
        enum read_result result = reader_next(r, &b, 100, &e);
        assert_int_not_equal(result, READ_FAILED);
        if (result == READ_NOTHING_YET)
            continue;
        assert_memory_equal(b.data, bytes + jobs[b.job].offset, jobs[b.job].bytes);
        reader_give_back(r, b.buffer);
        n++;
    }
    assert_int_equal(reader_next(r, &b, 1, &e), READ_NOTHING_YET);
    reader_close(r);
    assert_int_equal(ftruncate(fd, 5000), 0);
    r = reader_open(&o, &e);
    enum read_result result;
    while ((result = reader_next(r, &b, 100, &e)) != READ_FAILED)
        if (result == READ_BLOCK)
            reader_give_back(r, b.buffer);
    assert_non_null(strstr(e.msg, "has shrunk"));
    reader_close(r);
    o.paths = (const char *const[]){"/nonexistent/file"};
    assert_null(reader_open(&o, &e));
    unlink(path);
    close(fd);
    free(bytes);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upload__every_layout_arrives_as_the_host_packs_it),
        cmocka_unit_test(test_upload__reads_of_any_length_give_the_same),
        cmocka_unit_test(test_upload__odd_sizes_types_and_places),
        cmocka_unit_test(test_upload__a_tied_head_is_made_from_the_embedding),
        cmocka_unit_test(test_upload__failures_say_why_and_leave_nothing),
        cmocka_unit_test(test_reader__ranges_arrive_whole_and_a_shrunk_file_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
