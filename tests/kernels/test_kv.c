/* kernels/kv.h against golden vectors of another implementation (tests/data/golden/turboquant.json) and against the error that theory gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/vec.h"
#include "kernels/kv_units.h"
#include "kernels/ops.h"
#include "tests/kernels/rand.h"

static json_t *golden;

static int open_golden(void **state)
{
    (void)state;
    golden = json_load_file("tests/data/golden/turboquant.json", 0, NULL);
    return !golden;
}

static int close_golden(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    assert_non_null(s);
    return s;
}

static unsigned hex(const char *s, int digits)
{
    char part[9] = "";
    memcpy(part, s, (size_t)digits);
    return (unsigned)strtoul(part, NULL, 16);
}

static void read_bf16(const char *s, float *x)
{
    assert_int_equal(strlen(s), 4 * KV_DIM);
    for (int j = 0; j < KV_DIM; j++)
        x[j] = bf16_f32((uint16_t)hex(s + 4 * j, 4));
}

/* The golden packing is that of a key. */
static void read_codes(enum kv_format f, const char *packed, uint8_t *codes)
{
    uint8_t block[KV_BLOCK * KV_DIM] = {0};
    size_t low = f == KV_TQ4 ? 128 : 64;
    assert_int_equal(strlen(packed), 2 * (size_t)KV_DIM * (size_t)kv_bits(f) / 8);
    for (size_t i = 0; i < strlen(packed) / 2; i++)
        block[i < low ? i : KV_BLOCK * low + i - low] = (uint8_t)hex(packed + 2 * i, 2);
    kv_get(f, KV_KEY, block, 0, codes);
}

static void assert_scale(const json_t *codes, const char *key, uint16_t found)
{
    int want = (int)hex(text(codes, key), 4);
    if (abs(want - (int)found) > 1)
        fail_msg("%s is %04x, expected %04x", key, found, want);
}

static void compare_vector(const json_t *v, enum kv_format f, const char *name)
{
    const json_t *want = json_object_get(json_object_get(v, "codes"), name);
    enum kv_role role = *text(v, "role") == 'K' ? KV_KEY : KV_VALUE;
    float x[KV_DIM], y[KV_DIM], back[KV_DIM];
    uint8_t codes[KV_DIM], expected[KV_DIM];
    uint16_t scale;
    double norm = json_number_value(json_object_get(v, "norm"));
    read_bf16(text(v, "x_bf16"), x);
    kv_encode(f, role, x, codes, &scale);
    read_codes(f, text(want, "packed"), expected);
    assert_memory_equal(codes, expected, KV_DIM);
    if (role == KV_VALUE)
        assert_scale(want, "scale_nc_fp16", scale);
    else if (f == KV_TQ4)
        assert_scale(want, "scale_ip_fp16", scale);
    const json_t *recon = json_object_get(want, "recon_nc");
    float nc = f16_f32((uint16_t)hex(text(want, "scale_nc_fp16"), 4));
    for (int j = 0; j < KV_DIM; j++)
        y[j] = kv_level(f, codes[j]) * nc;
    kv_unrotate(role, y, back);
    for (size_t j = 0; recon && j < KV_DIM; j++)
        assert_true(fabs((double)back[j] - json_number_value(json_array_get(recon, j))) <= 2e-6 * norm);
}

static void test_kv__codes_and_scales_are_the_golden_ones(void **state)
{
    (void)state;
    const json_t *list = json_object_get(golden, "vectors");
    assert_int_equal(json_array_size(list), 8);
    for (size_t i = 0; i < json_array_size(list); i++) {
        compare_vector(json_array_get(list, i), KV_TQ4, "gauss4");
        compare_vector(json_array_get(list, i), KV_TQ3, "gauss3");
    }
}

static void test_kv__the_rotation_is_the_golden_one(void **state)
{
    (void)state;
    const json_t *list = json_object_get(golden, "vectors");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i), *z = json_object_get(v, "z_first8");
        enum kv_role role = *text(v, "role") == 'K' ? KV_KEY : KV_VALUE;
        float x[KV_DIM], y[KV_DIM], back[KV_DIM];
        double norm = json_number_value(json_object_get(v, "norm"));
        read_bf16(text(v, "x_bf16"), x);
        kv_rotate(role, x, y);
        for (size_t j = 0; j < 8; j++)
            assert_true(fabs((double)y[j] * 16 - json_number_value(json_array_get(z, j)) * norm) <= 1e-5 * norm);
        kv_unrotate(role, y, back);
        for (int j = 0; j < KV_DIM; j++)
            assert_true(fabs((double)(back[j] - x[j])) <= 1e-6 * norm);
    }
}

/* Logits of the golden queries with decoded keys; the rotated query with rotated keys gives the same. */
static void test_kv__logits_are_the_golden_ones_rotated_or_not(void **state)
{
    (void)state;
    const json_t *a = json_object_get(golden, "attention"), *rows = json_object_get(a, "rows"), *keys = json_object_get(a, "K_codes_gauss4");
    const json_t *queries = json_object_get(a, "Q_bf16");
    int heads = (int)json_integer_value(json_object_get(a, "q_heads"));
    for (size_t r = 0; r < json_array_size(rows); r++) {
        const json_t *row = json_array_get(rows, r), *logits = json_object_get(row, "logits_k4");
        size_t token = (size_t)json_integer_value(json_object_get(row, "token")), head = (size_t)json_integer_value(json_object_get(row, "head"));
        float q[KV_DIM], turned[KV_DIM];
        read_bf16(json_string_value(json_array_get(queries, token * (size_t)heads + head)), q);
        kv_rotate(KV_KEY, q, turned);
        for (size_t n = 0; n < json_array_size(logits); n++) {
            uint8_t codes[KV_DIM];
            float y[KV_DIM], x[KV_DIM];
            const json_t *k = json_array_get(keys, n);
            read_codes(KV_TQ4, text(k, "packed"), codes);
            for (int j = 0; j < KV_DIM; j++)
                y[j] = kv_level(KV_TQ4, codes[j]) * f16_f32((uint16_t)hex(text(k, "scale_nc_fp16"), 4));
            kv_unrotate(KV_KEY, y, x);
            double want = json_number_value(json_array_get(logits, n));
            assert_true(fabs((double)kv_dot(q, x) / 16 - want) <= 1e-4);
            assert_true(fabs((double)kv_dot(turned, y) / 16 - want) <= 1e-4);
        }
    }
}

/* Mean of |x - x'|^2 / |x|^2 and of x . x' / |x|^2 over random vectors. */
static void measure(enum kv_format f, enum kv_role role, double *mse, double *slope)
{
    enum { N = 4096 };
    *mse = *slope = 0;
    for (int i = 0; i < N; i++) {
        float x[KV_DIM], y[KV_DIM], back[KV_DIM];
        uint8_t codes[KV_DIM];
        uint16_t scale;
        double error = 0, square = 0, dot = 0;
        for (int j = 0; j < KV_DIM; j++)
            x[j] = rand_normal();
        kv_encode(f, role, x, codes, &scale);
        for (int j = 0; j < KV_DIM; j++)
            y[j] = kv_level(f, codes[j]) * f16_f32(scale);
        kv_unrotate(role, y, back);
        for (int j = 0; j < KV_DIM; j++) {
            error += (double)(x[j] - back[j]) * (double)(x[j] - back[j]);
            square += (double)x[j] * (double)x[j];
            dot += (double)x[j] * (double)back[j];
        }
        *mse += error / square / N;
        *slope += dot / square / N;
    }
}

static void test_kv__errors_are_those_of_theory(void **state)
{
    (void)state;
    static const struct { enum kv_format f; enum kv_role role; double mse; } rows[] = {
        {KV_TQ4, KV_KEY, 0.00939}, {KV_TQ4, KV_VALUE, 0.00932}, {KV_TQ3, KV_VALUE, 0.0343}, {KV_INT8, KV_KEY, 4.83e-5}, {KV_INT8, KV_VALUE, 4.83e-5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double mse, slope;
        measure(rows[i].f, rows[i].role, &mse, &slope);
        if (fabs(mse / rows[i].mse - 1) > 0.02)
            fail_msg("row %zu: the mean squared error is %g, expected %g", i, mse, rows[i].mse);
        if (rows[i].role == KV_KEY)
            assert_true(fabs(slope - 1) < 5e-4);
    }
}

static void test_kv__a_block_gives_back_what_was_put(void **state)
{
    (void)state;
    static const enum kv_format formats[] = {KV_INT8, KV_TQ4, KV_TQ3};
    for (size_t i = 0; i < 3; i++)
        for (int role = 0; role < 2; role++) {
            enum kv_format f = formats[i];
            uint8_t block[KV_BLOCK * KV_DIM + 1], codes[KV_BLOCK][KV_DIM], got[KV_DIM];
            memset(block, 0xa5, sizeof block);
            for (int n = KV_BLOCK - 1; n >= 0; n--) {
                for (int j = 0; j < KV_DIM; j++)
                    codes[n][j] = (uint8_t)(rand_u64() >> (64 - kv_bits(f)));
                kv_put(f, (enum kv_role)role, block, n, codes[n]);
            }
            assert_int_equal(block[kv_block_bytes(f)], 0xa5);
            for (int n = 0; n < KV_BLOCK; n++) {
                kv_get(f, (enum kv_role)role, block, n, got);
                assert_memory_equal(got, codes[n], KV_DIM);
            }
        }
}

static void test_kv__no_vector_is_too_odd(void **state)
{
    (void)state;
    static const enum kv_format formats[] = {KV_INT8, KV_TQ4, KV_TQ3};
    static const float sizes[] = {0, 1e-3f, 1, 1e4f};
    for (size_t i = 0; i < 3 * 4 * 2; i++) {
        enum kv_format f = formats[i % 3];
        enum kv_role role = (enum kv_role)(i / 3 % 2);
        float size = sizes[i / 6], x[KV_DIM] = {0}, y[KV_DIM], back[KV_DIM];
        uint8_t codes[KV_DIM], block[KV_BLOCK * KV_DIM] = {0};
        uint16_t scales[KV_BLOCK] = {0};
        x[77] = -size;
        kv_encode(f, role, x, codes, &scales[5]);
        kv_put(f, role, block, 5, codes);
        kv_fetch(f, role, block, scales, 5, y);
        kv_unrotate(role, y, back);
        for (int j = 0; j < KV_DIM; j++)        /* a single channel is coded almost exactly: every |y_j| is the same */
            assert_true(fabsf(back[j] - x[j]) <= 2e-3f * size);
        x[3] = i % 2 ? NAN : INFINITY;
        kv_encode(f, role, x, codes, &scales[5]);
        assert_true(isnan(f16_f32(scales[5])));
    }
}

/* ---- attention over a compressed cache ---- */

enum { HEADS = 4, KV_HEADS = 2, RECENT = 128, SINKS = 16, RING = 320, MOST = 700, BLOCKS = (MOST + KV_BLOCK - 1) / KV_BLOCK };

static void open_rows(struct kv_rows *kv, enum kv_format k, enum kv_format v, enum dtype dtype)
{
    *kv = (struct kv_rows){.dtype = dtype, .n_kv_heads = KV_HEADS, .head_dim = KV_DIM, .k_format = k, .v_format = v, .sinks = SINKS,
                           .recent = RECENT, .ring = RING};
    size_t exact = (size_t)(SINKS + RING) * KV_HEADS * KV_DIM * 4, scales = (size_t)BLOCKS * KV_HEADS * KV_BLOCK * 2;
    kv->k = calloc(1, exact);
    kv->v = calloc(1, exact);
    kv->k_codes = calloc((size_t)BLOCKS * KV_HEADS, kv_block_bytes(k));
    kv->v_codes = calloc((size_t)BLOCKS * KV_HEADS, kv_block_bytes(v));
    kv->k_scales = calloc(1, scales);
    kv->v_scales = calloc(1, scales);
}

static void close_rows(struct kv_rows *kv)
{
    void *all[] = {kv->k, kv->v, kv->k_codes, kv->v_codes, kv->k_scales, kv->v_scales};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Stores rows, seals those read as codes, attends: the order of a prompt's chunk and of a step. */
static void run_rows(struct kv_rows *kv, float *y, const float *q, const float *k, const float *v, int pos, int n)
{
    size_t row = KV_HEADS * KV_DIM;
    struct kv_store_args store = {.kv = *kv, .k = k + (size_t)pos * row, .v = v + (size_t)pos * row, .n_tokens = n, .pos = pos};
    struct kv_seal_args seal = {.kv = *kv, .from = kv_sealed(kv, pos ? pos - 1 : 0), .to = kv_sealed(kv, pos + n - 1)};
    struct attention_args attend = {.y = y + (size_t)pos * HEADS * KV_DIM, .q = q + (size_t)pos * HEADS * KV_DIM, .q_token = HEADS * KV_DIM,
                                    .q_head = KV_DIM, .kv = *kv, .n_tokens = n, .n_q_heads = HEADS, .pos = pos, .scale = 0.0625f};
    kv_store_cpu(&store, 0, kv_store_units(&store));
    kv_seal_cpu(&seal, 0, kv_seal_units(&seal));
    attention_cpu(&attend, 0, attention_units(&attend));
}

/* A vector as the row at `at` reads it. */
static void as_read(const struct kv_rows *kv, enum kv_role role, const float *x, int pos, int at, float *out)
{
    enum kv_format f = role == KV_KEY ? kv->k_format : kv->v_format;
    uint8_t codes[KV_DIM];
    uint16_t scale;
    float y[KV_DIM];
    memcpy(out, x, KV_DIM * sizeof *x);
    if (pos < kv->sinks || pos >= kv_sealed(kv, at))
        return;
    kv_encode(f, role, x, codes, &scale);
    for (int j = 0; j < KV_DIM; j++)
        y[j] = kv_level(f, codes[j]) * f16_f32(scale);
    kv_unrotate(role, y, out);
}

/* Plain softmax over decoded rows, in double. */
static void expect_row(const struct kv_rows *kv, const float *q, const float *k, const float *v, int at, int head, double *y)
{
    int kv_head = head / (HEADS / KV_HEADS);
    double sum = 0;
    memset(y, 0, KV_DIM * sizeof *y);
    for (int p = 0; p <= at; p++) {
        size_t from = ((size_t)p * KV_HEADS + (size_t)kv_head) * KV_DIM;
        float kx[KV_DIM], vx[KV_DIM];
        double dot = 0;
        as_read(kv, KV_KEY, k + from, p, at, kx);
        as_read(kv, KV_VALUE, v + from, p, at, vx);
        for (int j = 0; j < KV_DIM; j++)
            dot += (double)q[j] * (double)kx[j];
        double w = exp(dot * 0.0625);
        sum += w;
        for (int j = 0; j < KV_DIM; j++)
            y[j] += w * (double)vx[j];
    }
    for (int j = 0; j < KV_DIM; j++)
        y[j] /= sum;
}

static const enum kv_format pairs[][2] = {{KV_INT8, KV_INT8}, {KV_INT8, KV_TQ4}, {KV_TQ4, KV_TQ4}, {KV_TQ4, KV_TQ3}};

static void test_kv__attention_with_a_gate_is_both_operations(void **state)
{
    (void)state;
    enum { N = 37, POS = 3 };
    const size_t row = KV_HEADS * KV_DIM, query = 2 * HEADS * KV_DIM, cells = (size_t)N * HEADS * KV_DIM;
    float *k = rand_array((POS + N) * row, 1), *v = rand_array((POS + N) * row, 1), *q = rand_array((size_t)N * query, 2);
    float *want = rand_array(cells, 1), *got = rand_array(cells, 1);
    struct attention_args a = {.y = want, .q = q, .q_token = query, .q_head = 2 * KV_DIM, .n_tokens = N, .n_q_heads = HEADS, .pos = POS,
                               .scale = 0.0625f, .kv = {.k = k, .v = v, .dtype = DT_F32, .n_kv_heads = KV_HEADS, .head_dim = KV_DIM}};
    struct sigmoid_gate_args gate = {.y = want, .gate = q + KV_DIM, .gate_token = query, .gate_head = 2 * KV_DIM, .n_tokens = N, .n_heads = HEADS,
                                     .head_dim = KV_DIM};
    attention_cpu(&a, 0, attention_units(&a));
    sigmoid_gate_cpu(&gate, 0, sigmoid_gate_units(&gate));
    a.y = gate.y = got;
    a.gate = &gate;
    for (int u = 0, n; u < attention_units(&a); u += n) {       /* in pieces that end within a token */
        n = attention_units(&a) - u < 7 ? attention_units(&a) - u : 7;
        attention_cpu(&a, u, u + n);
    }
    assert_memory_equal(got, want, cells * sizeof *got);
    free(k), free(v), free(q), free(want), free(got);
}

static void test_kv__attention_reads_old_rows_as_codes_and_others_exactly(void **state)
{
    (void)state;
    static const int probes[] = {0, 15, 16, 127, 191, 192, 255, 256, 300, 511, MOST - 1};
    size_t row = KV_HEADS * KV_DIM;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct kv_rows kv;
        open_rows(&kv, pairs[i][0], pairs[i][1], DT_F32);
        float *k = rand_array(MOST * row, 1), *v = rand_array(MOST * row, 1), *q = rand_array((size_t)MOST * HEADS * KV_DIM, 1);
        float *y = rand_array((size_t)MOST * HEADS * KV_DIM, 0);
        for (int pos = 0; pos < MOST; pos += 100)
            run_rows(&kv, y, q, k, v, pos, 100);
        for (size_t p = 0; p < sizeof probes / sizeof *probes; p++)
            for (int head = 0; head < HEADS; head++) {
                double want[KV_DIM];
                size_t at = ((size_t)probes[p] * HEADS + (size_t)head) * KV_DIM;
                expect_row(&kv, q + at, k, v, probes[p], head, want);
                for (int j = 0; j < KV_DIM; j++)
                    if (fabs((double)y[at + (size_t)j] - want[j]) > 2e-5)
                        fail_msg("formats %zu, position %d, head %d, number %d: %g, expected %g", i, probes[p], head, j, (double)y[at + (size_t)j],
                                 want[j]);
            }
        free(k), free(v), free(q), free(y);
        close_rows(&kv);
    }
}

static void test_kv__a_row_has_the_same_bits_however_the_prompt_is_cut(void **state)
{
    (void)state;
    size_t row = KV_HEADS * KV_DIM, n = (size_t)MOST * HEADS * KV_DIM;
    float *k = rand_array(MOST * row, 1), *v = rand_array(MOST * row, 1), *q = rand_array(n, 1);
    float *whole = rand_array(n, 0), *cut = rand_array(n, 0);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct kv_rows kv, other;
        open_rows(&kv, pairs[i][0], pairs[i][1], DT_BF16);
        open_rows(&other, pairs[i][0], pairs[i][1], DT_BF16);
        for (int pos = 0; pos < MOST; pos += 100)
            run_rows(&kv, whole, q, k, v, pos, 100);
        for (int pos = 0, rows; pos < MOST; pos += rows) {
            rows = 1 + (int)(rand_u64() % 64);
            rows = rows < MOST - pos ? rows : MOST - pos;
            run_rows(&other, cut, q, k, v, pos, rows);
            if (pos + rows < MOST)      /* rows that are taken back: they are stored again */
                run_rows(&other, cut, q, k, v, pos + rows, MOST - pos - rows < 8 ? MOST - pos - rows : 8);
        }
        assert_memory_equal(whole, cut, n * sizeof *cut);
        assert_memory_equal(kv.k_codes, other.k_codes, (size_t)BLOCKS * KV_HEADS * kv_block_bytes(pairs[i][0]));
        close_rows(&kv);
        close_rows(&other);
    }
    free(k), free(v), free(q), free(whole), free(cut);
}

/* ---- how a GPU's decode step reads a cache ---- */

/* How often the row at `pos` reads position p, exactly and as a code; the rows of its step begin at `first`. */
static void count_reads(const struct kv_rows *kv, int first, int pos, int p, int *exact, int *code)
{
    const int sealed = kv_sealed(kv, first);
    *exact = *code = 0;
    for (int place = 0; place < kv_places(kv); place++) {
        struct kv_span s = kv_seen_exactly(kv, place, pos);
        int begin = kv_place_begin(kv, place, sealed);
        *exact += p >= begin && p < begin + KV_BLOCK && p >= s.from && p < s.to;
    }
    struct kv_span s = kv_seen_as_codes(kv, pos);
    *code += p >= s.from && p < s.to && p / KV_UNIT < kv_code_units(kv_sealed(kv, pos));
}

static void test_kv_units__every_position_is_read_once_at_a_place_of_its_own(void **state)
{
    (void)state;
    static const int recents[] = {128, 192, 256, 640};
    for (int i = 0; i < 4000; i++) {
        struct kv_rows kv = {.k_format = KV_TQ4, .v_format = KV_TQ4, .sinks = (int)(rand_u64() % (KV_BLOCK + 1)), .recent = recents[i % 4]};
        int first = (int)(rand_u64() % (i % 2 ? 300 : 5000)), pos = first + (int)(rand_u64() % 8), exact, code;
        for (int p = 0; p <= pos + 70; p += p < pos - 900 ? 61 : 1) {
            count_reads(&kv, first, pos, p, &exact, &code);
            bool want = p >= kv.sinks && p < kv_sealed(&kv, pos);
            if (code != want || exact != (p <= pos && !want))
                fail_msg("sinks %d, recent %d, row %d of a step at %d: position %d is read %d times exactly, %d times as a code", kv.sinks, kv.recent,
                         pos, first, p, exact, code);
            if (exact && p >= kv.sinks && p < pos)      /* at the same place, whichever row comes first */
                assert_int_equal(kv_place_begin(&kv, 1 + p / KV_BLOCK % kv_window(&kv), kv_sealed(&kv, pos)), p / KV_BLOCK * KV_BLOCK);
        }
    }
}

/* Units are dealt out to halves of parts: each one is reached once, where kv_unit_part() says, and parts have equally many. */
static void test_kv_units__every_unit_is_in_one_half_of_a_part(void **state)
{
    (void)state;
    enum { UNITS = 3000 };
    static int seen[UNITS];
    for (int n = 40; n < KV_PARTS; n += 3)
        for (int units = 0; units < UNITS; units += 1 + units / 3) {
            int least = UNITS, most = 0, used = 0;
            memset(seen, 0, sizeof seen);
            for (int part = 0; part < n; part++) {
                int of_part = 0;
                for (int half = 0; half < 2; half++)
                    for (int u = kv_first_unit(part, half); u < units; u = kv_next_unit(u, n), of_part++) {
                        assert_int_equal(seen[u]++, 0);
                        assert_int_equal(kv_unit_part(u, n), part);
                    }
                least = of_part < least ? of_part : least, most = of_part > most ? of_part : most, used += of_part > 0;
            }
            for (int u = 0; u < units; u++)
                assert_int_equal(seen[u], 1);
            assert_int_equal(kv_code_parts(units * KV_UNIT, n), used);
            assert_true(most - least <= (units < 2 * n ? 2 : 1));
        }
}

static void test_kv_units__lanes_read_all_numbers_of_a_key(void **state)
{
    (void)state;
    static const enum kv_format formats[] = {KV_EXACT, KV_INT8, KV_TQ4};
    for (size_t i = 0; i < 3; i++) {
        enum kv_format f = formats[i];
        int seen[KV_DIM / 4] = {0}, n = kv_piece_steps(f);
        for (int s = 0; s < KV_DIM / 16; s++)
            for (int t = 0; t < 4; t++) {
                int d = kv_step_number(f, s, t), byte = d * kv_key_bits(f) / 8;
                assert_int_equal(kv_number_step(f, d), 4 * s + t);
                assert_true(d >= 0 && d <= KV_DIM - 4);
                seen[d / 4]++;
                /* piece s / n of lane t, at the place of step s % n in it */
                assert_int_equal(byte, 64 * (s / n) + 16 * t + 16 / n * (s % n));
            }
        for (int j = 0; j < KV_DIM / 4; j++)
            assert_int_equal(seen[j], 1);
    }
}

static void test_kv_units__index_bytes_hold_the_codes_of_two_tokens(void **state)
{
    (void)state;
    static const enum kv_format formats[] = {KV_TQ4, KV_TQ3};
    for (size_t i = 0; i < 2; i++) {
        enum kv_format f = formats[i];
        uint8_t block[KV_BLOCK * KV_DIM] = {0}, codes[KV_BLOCK][KV_DIM];
        for (int n = 0; n < KV_BLOCK; n++) {
            for (int j = 0; j < KV_DIM; j++)
                codes[n][j] = (uint8_t)(rand_u64() >> (64 - kv_bits(f)));
            kv_put(f, KV_VALUE, block, n, codes[n]);
        }
        for (int pair = 0; pair < KV_BLOCK / 2; pair++)
            for (int j = 0; j < KV_DIM; j += 4) {
                uint32_t low, high, index;
                memcpy(&low, block + (f == KV_TQ4 ? pair : pair / 2) * KV_DIM + j, 4);
                memcpy(&high, block + 64 * KV_BLOCK + pair / 4 * KV_DIM + j, 4);
                index = f == KV_TQ4 ? low : kv_value_index_3(low, high, pair);
                for (int e = 0; e < 4; e++)
                    for (int second = 0; second < 2; second++)
                        assert_int_equal(kv_pair_code(f, (int)(index >> (8 * e) & 0xff), second), codes[2 * pair + second][j + e]);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv__codes_and_scales_are_the_golden_ones),
        cmocka_unit_test(test_kv__the_rotation_is_the_golden_one),
        cmocka_unit_test(test_kv__logits_are_the_golden_ones_rotated_or_not),
        cmocka_unit_test(test_kv__errors_are_those_of_theory),
        cmocka_unit_test(test_kv__a_block_gives_back_what_was_put),
        cmocka_unit_test(test_kv__no_vector_is_too_odd),
        cmocka_unit_test(test_kv__attention_with_a_gate_is_both_operations),
        cmocka_unit_test(test_kv__attention_reads_old_rows_as_codes_and_others_exactly),
        cmocka_unit_test(test_kv__a_row_has_the_same_bits_however_the_prompt_is_cut),
        cmocka_unit_test(test_kv_units__every_position_is_read_once_at_a_place_of_its_own),
        cmocka_unit_test(test_kv_units__every_unit_is_in_one_half_of_a_part),
        cmocka_unit_test(test_kv_units__lanes_read_all_numbers_of_a_key),
        cmocka_unit_test(test_kv_units__index_bytes_hold_the_codes_of_two_tokens),
    };
    return cmocka_run_group_tests_name("kv", tests, open_golden, close_golden);
}
