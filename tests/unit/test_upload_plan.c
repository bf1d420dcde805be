#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/upload.h"

/* A plan with slabs in host memory, of which it only takes addresses. */
struct planned {
    struct model_config c;
    struct weights      w;
    struct upload_plan  p;
    void **slabs;
    size_t bytes;                       /* of all slabs, as measured */
};

static void open_plan(struct planned *t, const char *dir, unsigned heads, enum mtp_form mtp)
{
    struct err e = {0};
    if (!config_load(&t->c, dir, &e) || !weights_open(&t->w, &t->c, dir, &e))
        fail_msg("%s", e.msg);
    const struct weight embed = t->w.embed;
    t->bytes = upload_plan_bytes(&t->w, &t->c, heads, mtp);
    upload_plan_init(&t->p, &t->w, &t->c, heads, mtp);
    assert_memory_equal(&embed, &t->w.embed, sizeof embed);             /* measuring changes nothing */
    t->slabs = calloc((size_t)t->p.n_slabs, sizeof *t->slabs);
    for (int i = 0; i < t->p.n_slabs; i++)
        t->slabs[i] = malloc(t->p.slab_bytes[i] + 1);
}

static void close_plan(struct planned *t)
{
    for (int i = 0; i < t->p.n_slabs; i++)
        free(t->slabs[i]);
    free(t->slabs);
    upload_plan_free(&t->p);
    weights_close(&t->w);
}

static int stored_rows(const struct pack_piece *p)
{
    switch (p->kind) {
    case PACK_INT4:       return p->cols / 8;
    case PACK_INT4_SCALE: return pack_groups(p->cols);
    case PACK_FP8_SCALE:  return pack_groups(p->rows);
    default:              return p->rows;
    }
}

/* By place and half, then by rows. */
static int by_place_and_rows(const void *a, const void *b)
{
    const struct pack_piece *x = a, *y = b;
    if (x->dst != y->dst)
        return (uintptr_t)x->dst < (uintptr_t)y->dst ? -1 : 1;
    if (x->half != y->half)
        return x->half < y->half ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

static bool is_in_slab(const struct planned *t, const void *at)
{
    for (int i = 0; i < t->p.n_slabs; i++)
        if ((uintptr_t)at >= (uintptr_t)t->slabs[i] && (uintptr_t)at < (uintptr_t)t->slabs[i] + t->p.slab_bytes[i])
            return true;
    return false;
}

/* Each tensor's rows are read from the first one to the last one, none twice. */
static void check_rows(const struct planned *t, struct pack_piece *all, int n)
{
    qsort(all, (size_t)n, sizeof *all, by_place_and_rows);
    for (int i = 0; i < n; i++) {
        const bool goes_on = i && all[i - 1].dst == all[i].dst && all[i - 1].half == all[i].half;
        const bool ends = i + 1 == n || all[i + 1].dst != all[i].dst || all[i + 1].half != all[i].half;
        assert_int_equal(all[i].first, goes_on ? all[i - 1].first + all[i - 1].n : 0);
        assert_true(!ends || all[i].first + all[i].n == stored_rows(&all[i]));
        assert_true(is_in_slab(t, all[i].dst));
    }
}

static void check_plan(const char *dir, unsigned heads, enum mtp_form mtp, size_t span)
{
    struct planned t = {0};
    struct err e = {0};
    size_t total = 0, slab_bytes = 0;
    int n = 0, cap = 0;
    struct pack_piece *all = NULL;
    char *data = malloc(span);
    open_plan(&t, dir, heads, mtp);
    if (!upload_plan_fill(&t.p, t.slabs, span, &e))
        fail_msg("%s: %s", dir, e.msg);
    for (int i = 0; i < t.p.n_slabs; i++)
        slab_bytes += t.p.slab_bytes[i];
    assert_int_equal(slab_bytes, t.bytes);
    for (int i = 0; i < t.p.n_jobs; i++) {
        const struct read_job *j = &t.p.jobs[i], *before = i ? j - 1 : NULL;
        assert_true(j->bytes > 0 && j->bytes <= span);
        assert_true(!before || j->copy || before->file < j->file || (before->file == j->file && before->offset < j->offset));
        total += j->bytes;
        while (cap < n + UPLOAD_PLAN_PIECES)
            all = realloc(all, (size_t)(cap += UPLOAD_PLAN_PIECES) * sizeof *all);
        for (int k = upload_plan_pieces(&t.p, i, data, all + n); k; k--, n++)
            assert_true((const char *)all[n].src >= data && (const char *)all[n].src < data + j->bytes);
    }
    assert_int_equal(total, t.p.total);
    check_rows(&t, all, n);
    assert_true(is_in_slab(&t, t.w.embed.data) && is_in_slab(&t, t.w.norm) && is_in_slab(&t, t.w.layers[0].moe.experts[0].down.data));
    close_plan(&t);
    free(all);
    free(data);
}

static void test_upload_plan__every_row_is_read_once_and_has_a_place(void **state)
{
    (void)state;
    static const char *const dirs[] = {"tests/data/model/g0/bf16", "tests/data/model/g0/int4", "tests/data/model/g1/hybrid", "assets/demo",
                                       "tests/data/vision/v0"};
    static const size_t spans[] = {277777, 1 << 20, 8 << 20};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        for (size_t k = 0; k < sizeof spans / sizeof *spans; k++)
            check_plan(dirs[i], HEAD_BF16 | HEAD_INT8 | HEAD_PLANES, (enum mtp_form)((i + k) % 3), spans[k]);
}

static void test_upload_plan__a_head_that_is_not_asked_for_takes_nothing(void **state)
{
    (void)state;
    struct planned t = {0}, with = {0};
    open_plan(&t, "assets/demo", 0, MTP_STORED);
    open_plan(&with, "assets/demo", HEAD_BF16, MTP_STORED);
    assert_int_equal(with.bytes - t.bytes, pack_bytes(WEIGHT_DENSE, t.w.head.rows, t.w.head.cols));
    close_plan(&with);
    close_plan(&t);
}

static void test_upload_plan__of_an_mtp_block_in_int4_attention_and_routed_experts_take_less(void **state)
{
    (void)state;
    struct planned t[2] = {0};
    const struct model_config *c = &t[0].c;
    open_plan(&t[0], "assets/demo", 0, MTP_FP8);
    open_plan(&t[1], "assets/demo", 0, MTP_INT4);
    const int h = c->hidden, q = c->n_q_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim, i = c->moe_inter;
    const struct { int n, rows, cols; } all[] = {{1, 2 * q, h}, {2, kv, h}, {1, h, q}, {c->n_experts, 2 * i, h}, {c->n_experts, h, i}};
    size_t less = 0;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        less += (size_t)all[k].n * (pack_bytes(WEIGHT_FP8, all[k].rows, all[k].cols) - pack_bytes(WEIGHT_INT4, all[k].rows, all[k].cols));
    assert_int_equal(t[0].bytes - t[1].bytes, less);
    close_plan(&t[0]);
    close_plan(&t[1]);
}

static void test_upload_plan__a_row_longer_than_a_read_is_refused(void **state)
{
    (void)state;
    struct planned t = {0};
    struct err e = {0};
    open_plan(&t, "assets/demo", HEAD_INT8, MTP_STORED);
    assert_false(upload_plan_fill(&t.p, t.slabs, 64, &e));
    assert_non_null(strstr(e.msg, "more than a read of 64"));
    close_plan(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upload_plan__every_row_is_read_once_and_has_a_place),
        cmocka_unit_test(test_upload_plan__a_head_that_is_not_asked_for_takes_nothing),
        cmocka_unit_test(test_upload_plan__of_an_mtp_block_in_int4_attention_and_routed_experts_take_less),
        cmocka_unit_test(test_upload_plan__a_row_longer_than_a_read_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
