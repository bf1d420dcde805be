/* The mixture of experts on the GPU against its definition, and the small operations around it.  The products round activations and
 * scaled weights to fp16 (in short chunks activations to 22 bits), so they are compared by their relative L2 error; the rest is fp32 or
 * exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "backend/dev.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/vec.h"
#include "kernels/gemm.h"
#include "kernels/pack.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/mixture.h"
#include "tests/kernels/rand_weight.h"

static const double tolerances[] = {[1] = 6e-4, [2] = 5e-6};   /* one fp16, two */

static void *poison(size_t bytes)
{
    return memset(malloc(bytes), 0xff, bytes);          /* NaN; as an int -1 */
}

/* Rows of `width` numbers, `row` apart. */
static void compare(const char *what, const float *y, const float *ref, size_t n, size_t row, size_t width, double limit)
{
    double diff = 0, size = 0, max = 0;
    size_t bad = n * row;
    for (size_t i = 0; i < n * row; i++)
        size += i % row < width ? (double)ref[i] * (double)ref[i] : 0;
    double rms = sqrt(size / (double)(n * width));
    for (size_t i = 0; i < n * row; i++) {
        if (i % row >= width)
            continue;
        double d = fabs((double)y[i] - (double)ref[i]);
        diff += d * d;
        if (!(d <= max))
            max = d;
        if (bad == n * row && !(d <= 30 * limit * rms))
            bad = i;
    }
    if (!(sqrt(diff / size) <= limit) || bad < n * row)
        fail_msg("%s: relative error %g, max %g (rms %g), first bad [%zu, %zu]: %g, expected %g", what, sqrt(diff / size), max, rms,
                 bad / row, bad % row, bad < n * row ? (double)y[bad] : 0, bad < n * row ? (double)ref[bad] : 0);
}

static void test_router__chooses_as_the_definition_and_ties_go_to_the_lower_index(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int n, experts, k; bool ties; } cases[] = {
        {1, 256, 8, false}, {700, 256, 8, false}, {300, 512, 16, false}, {33, 8, 4, true}, {130, 12, 6, true}, {257, 16, 4, true},
        {400, 256, 8, true}, {5, 16, 16, true},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t n = (size_t)cases[c].n, E = (size_t)cases[c].experts, k = (size_t)cases[c].k;
        float *l = rand_array(n * E, 2), *w = poison(n * k * 4), *wref = poison(n * k * 4);
        int32_t *e = poison(n * k * 4), *eref = poison(n * k * 4);
        if (cases[c].ties)
            for (size_t i = 0; i < n * E; i++)
                l[i] = rintf(l[i] * 2) / 2;
        void *dl = upload(l, n * E * 4), *dw = upload(w, n * k * 4), *de = upload(e, n * k * 4);
        RUN(cpu, router, .experts = eref, .weights = wref, .logits = l, .n_tokens = (int)n, .n_experts = (int)E, .top_k = (int)k);
        RUN(cuda, router, .experts = de, .weights = dw, .logits = dl, .n_tokens = (int)n, .n_experts = (int)E, .top_k = (int)k);
        download(w, dw, n * k * 4);
        download(e, de, n * k * 4);
        for (size_t i = 0; i < n * k; i++) {
            if (e[i] != eref[i])
                fail_msg("case %zu, token %zu, choice %zu: expert %d, expected %d", c, i / k, i % k, e[i], eref[i]);
            if (!(fabsf(w[i] - wref[i]) <= 2e-6f * wref[i]))
                fail_msg("case %zu, token %zu, choice %zu: weight %.9g, expected %.9g", c, i / k, i % k, (double)w[i], (double)wref[i]);
        }
        cuda->free(cuda, dl), cuda->free(cuda, dw), cuda->free(cuda, de);
        free(l), free(w), free(wref), free(e), free(eref);
    }
}

/* Distinct experts for every token; with `crowd` the first is nearly always the same. */
static int32_t *choices(int n, int n_experts, int k, bool crowd)
{
    int32_t *e = malloc((size_t)(n * k) * sizeof *e);
    for (int t = 0; t < n; t++)
        for (int j = 0; j < k; j++) {
            int32_t *at = e + t * k + j;
            bool again;
            *at = crowd && j == 0 && t % 8 ? n_experts / 3 : (int32_t)(rand_u64() >> 33) % n_experts;
            do {
                again = false;
                for (int i = 0; i < j; i++)
                    again |= e[t * k + i] == *at;
                if (again)
                    *at = (*at + 1) % n_experts;
            } while (again);
        }
    return e;
}

static void test_moe_group__is_exact(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int n, experts, k; bool crowd; } cases[] = {
        {1, 256, 8, false}, {3, 12, 6, true}, {4096, 256, 8, false}, {4095, 256, 8, true}, {8192, 512, 16, false}, {777, 16, 4, true},
        {2, 8, 4, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int n = cases[c].n, E = cases[c].experts, k = cases[c].k;
        size_t n_start = (size_t)(E + 2) * 4, n_slots = (size_t)n * (size_t)(k + 1) * 4;
        int32_t *e = choices(n, E, k, cases[c].crowd), *start = poison(n_start), *slots = poison(n_slots);
        int32_t *start_ref = poison(n_start), *slots_ref = poison(n_slots);
        void *de = upload(e, (size_t)(n * k) * 4), *dstart = upload(start, n_start), *dslots = upload(slots, n_slots);
        RUN(cpu, moe_group, .start = start_ref, .slots = slots_ref, .experts = e, .n_tokens = n, .n_experts = E, .top_k = k);
        RUN(cuda, moe_group, .start = dstart, .slots = dslots, .experts = de, .n_tokens = n, .n_experts = E, .top_k = k);
        download(start, dstart, n_start);
        download(slots, dslots, n_slots);
        for (int i = 0; i < E + 2; i++)
            if (start[i] != start_ref[i])
                fail_msg("case %zu: start[%d] is %d, expected %d", c, i, start[i], start_ref[i]);
        for (int i = 0; i < n * (k + 1); i++)
            if (slots[i] != slots_ref[i])
                fail_msg("case %zu: slots[%d] is %d, expected %d", c, i, slots[i], slots_ref[i]);
        cuda->free(cuda, de), cuda->free(cuda, dstart), cuda->free(cuda, dslots);
        free(e), free(start), free(slots), free(start_ref), free(slots_ref);
    }
}

/* Outputs of the GPU for n tokens with the given choices.  h_in NULL: experts_down reads what experts_up has left for it alone. */
struct result {
    float *h, *d;               /* [n (k + 1), inter_max], [n (k + 1), hidden] */
};
static struct result on_gpu(const struct mixture *m, const float *x, const float *h_in, const int32_t *start, const int32_t *slots, int n, int k,
                            int inter_max)
{
    int E = m->n_experts, n_slots = n * (k + 1);
    size_t h_bytes = (size_t)n_slots * (size_t)inter_max * 4, d_bytes = (size_t)n_slots * (size_t)m->hidden * 4;
    const bool own = !h_in;
    struct result r = {poison(h_bytes), poison(d_bytes)};
    float *dx = upload(x, (size_t)n * (size_t)m->hidden * 4), *dh = upload(r.h, h_bytes), *din = own ? dh : upload(h_in, h_bytes),
        *dd = upload(r.d, d_bytes);
    int32_t *dstart = upload(start, (size_t)(E + 2) * 4), *dslots = upload(slots, (size_t)n_slots * 4);
    RUN(cuda, experts_up, .h = dh, .x = dx, .experts = m->view, .shared = &m->view[E], .start = dstart, .slots = dslots, .n_tokens = n,
        .n_experts = E, .top_k = k, .inter_max = inter_max, .norms = m->norms, .own_form = own);
    RUN(cuda, experts_down, .d = dd, .h = din, .experts = m->view, .shared = &m->view[E], .start = dstart, .slots = dslots, .n_tokens = n,
        .n_experts = E, .top_k = k, .inter_max = inter_max, .own_input = own);
    download(r.h, dh, h_bytes);
    download(r.d, dd, d_bytes);
    cuda->free(cuda, dx), cuda->free(cuda, dh), cuda->free(cuda, dd), cuda->free(cuda, dstart), cuda->free(cuda, dslots);
    if (!own)
        cuda->free(cuda, din);
    return r;
}
static void result_free(struct result *r) { free(r->h), free(r->d); }

static void check(const struct mixture *m, int n, int k, bool crowd)
{
    char what[160];
    int E = m->n_experts, inter = m->host[0].gate.rows, shared = m->host[E].gate.rows, inter_max = inter > shared ? inter : shared;
    size_t n_slots = (size_t)n * (size_t)(k + 1), h_bytes = n_slots * (size_t)inter_max * 4, d_bytes = n_slots * (size_t)m->hidden * 4;
    int32_t *e = choices(n, E, k, crowd), *start = poison((size_t)(E + 2) * 4), *slots = poison(n_slots * 4);
    float *x = rand_array((size_t)n * (size_t)m->hidden, 1), *h = poison(h_bytes), *d = poison(d_bytes);
    RUN(cpu, moe_group, .start = start, .slots = slots, .experts = e, .n_tokens = n, .n_experts = E, .top_k = k);
    RUN(cpu, experts_up, .h = h, .x = x, .experts = m->host, .shared = &m->host[E], .start = start, .slots = slots, .n_tokens = n,
        .n_experts = E, .top_k = k, .inter_max = inter_max);
    RUN(cpu, experts_down, .d = d, .h = h, .experts = m->host, .shared = &m->host[E], .start = start, .slots = slots, .n_tokens = n,
        .n_experts = E, .top_k = k, .inter_max = inter_max);
    const double tolerance = tolerances[gemm_halves(n)];
    struct result r = on_gpu(m, x, h, start, slots, n, k, inter_max), again = on_gpu(m, x, h, start, slots, n, k, inter_max),
        own = on_gpu(m, x, NULL, start, slots, n, k, inter_max);
    snprintf(what, sizeof what, "formats %d and %d, %d tokens, h", (int)m->host[0].gate.format, (int)m->host[E].gate.format, n);
    /* The shared expert's rows are every (k + 1)st. */
    size_t wide = (size_t)(k + 1) * (size_t)inter_max;
    for (int j = 0; j <= k; j++)
        compare(what, r.h + (size_t)j * (size_t)inter_max, h + (size_t)j * (size_t)inter_max, (size_t)n, wide,
                (size_t)(j < k ? inter : shared), 1.5 * tolerance);
    what[strlen(what) - 1] = 'd';
    compare(what, r.d, d, n_slots, (size_t)m->hidden, (size_t)m->hidden, tolerance);
    compare("d of rows of a form of their own", own.d, d, n_slots, (size_t)m->hidden, (size_t)m->hidden, 1.5 * tolerance);
    assert_memory_equal(r.h, again.h, h_bytes);
    assert_memory_equal(r.d, again.d, d_bytes);
    result_free(&r), result_free(&again), result_free(&own);
    free(e), free(start), free(slots), free(x), free(h), free(d);
}

/* 16 experts, 4 chosen: with two halves up to 41 tokens take the tile of 16, more that of 32; with one up to 83 that of 16, more that
 * of 64; and what is smaller for the last rows.  All take the shared expert's 16 up to 512. */
static void test_experts__all_formats_and_tiles_agree_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const enum weight_format pairs[][2] = {
        {WEIGHT_INT4, WEIGHT_INT4}, {WEIGHT_INT4, WEIGHT_FP8}, {WEIGHT_INT4, WEIGHT_DENSE}, {WEIGHT_DENSE, WEIGHT_DENSE},
        {WEIGHT_FP8, WEIGHT_INT8},  {WEIGHT_INT8, WEIGHT_INT4},
    };
    static const int tokens[] = {1, 2, 7, 8, 9, 21, 33, GEMM_FINE - 1, GEMM_FINE, GEMM_FINE + 1, 70, 90, 333, 520};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        int inter = p % 2 ? 256 : 128, shared = p % 3 ? 128 : 256;
        struct mixture m = mixture_make(pairs[p][0], pairs[p][1], 16, p % 2 ? 384 : 256, inter, shared);
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
            check(&m, tokens[i], 4, i % 2);
        check(&m, 150, 2, false);       /* with one half, and the tile of 16 */
        mixture_free(&m);
    }
}

static void test_experts__the_large_models_widths_agree_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    struct mixture m = mixture_make(WEIGHT_INT4, WEIGHT_FP8, 4, 3072, 1024, 1024);
    check(&m, 9, 2, false);
    check(&m, 40, 2, false);
    mixture_free(&m);
    m = mixture_make(WEIGHT_INT4, WEIGHT_DENSE, 8, 2048, 512, 512);
    check(&m, 70, 6, false);
    mixture_free(&m);
    m = mixture_make(WEIGHT_INT4, WEIGHT_FP8, 4, 4096, 256, 256);       /* rows too long for the tile of 16 */
    check(&m, 9, 2, false);
    mixture_free(&m);
}

static void test_experts__a_row_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    need_gpu();
    enum { MOST = 300, E = 16, K = 4, H = 384, I = 256 };
    static const struct { int all, few[3]; } companies[] = {
        {GEMM_FINE, {1, 9, GEMM_FINE / 2}}, {MOST, {GEMM_FINE + 1, GEMM_FINE + 36, MOST - 1}},
    };
    struct mixture m = mixture_make(WEIGHT_INT4, WEIGHT_FP8, E, H, I, I);
    int32_t *e = choices(MOST, E, K, false), start[E + 2], slots[MOST * (K + 1)];
    float *x = rand_array((size_t)MOST * H, 1), *h = rand_array((size_t)MOST * (K + 1) * I, 1);
    for (size_t c = 0; c < sizeof companies / sizeof *companies; c++) {
        int most = companies[c].all;
        RUN(cpu, moe_group, .start = start, .slots = slots, .experts = e, .n_tokens = most, .n_experts = E, .top_k = K);
        struct result all = on_gpu(&m, x, h, start, slots, most, K, I), all_own = on_gpu(&m, x, NULL, start, slots, most, K, I);
        for (int i = 0; i < 3; i++) {
            size_t n = (size_t)companies[c].few[i], from = (size_t)most - n;
            RUN(cpu, moe_group, .start = start, .slots = slots, .experts = e + from * K, .n_tokens = (int)n, .n_experts = E, .top_k = K);
            struct result few = on_gpu(&m, x + from * H, h + from * (K + 1) * I, start, slots, (int)n, K, I),
                own = on_gpu(&m, x + from * H, NULL, start, slots, (int)n, K, I);
            assert_memory_equal(few.h, all.h + from * (K + 1) * I, n * (K + 1) * I * sizeof(float));
            assert_memory_equal(few.d, all.d + from * (K + 1) * H, n * (K + 1) * H * sizeof(float));
            assert_memory_equal(own.d, all_own.d + from * (K + 1) * H, n * (K + 1) * H * sizeof(float));
            result_free(&few), result_free(&own);
        }
        result_free(&all), result_free(&all_own);
    }
    mixture_free(&m);
    free(e), free(x), free(h);
}

/* Norms bound numbers that a block writes before it knows a row's largest: one that is too small may let fp16 overflow. */
static void test_row_norms__are_those_of_the_largest_rows(void **state)
{
    (void)state;
    need_gpu();
    static const enum weight_format formats[] = {WEIGHT_INT4, WEIGHT_FP8, WEIGHT_INT8, WEIGHT_DENSE};
    enum { E = 5, H = 384, I = 128 };
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        struct mixture m = mixture_make(formats[f], formats[(f + 1) % 4], E, H, I, 2 * I);
        float *norms = downloaded(m.norms, (E + 1) * sizeof *norms), column[H] = {0}, out[MATMUL_TOKENS][MATMUL_ROWS];
        for (int e = 0; e <= E; e++) {
            const struct weight *pair[] = {&m.host[e].gate, &m.host[e].up};
            double most = 0;
            for (int row = 0; row < 2 * m.host[e].gate.rows; row += MATMUL_ROWS) {
                const struct weight *w = pair[row >= m.host[e].gate.rows];
                double squares[MATMUL_ROWS] = {0};
                for (int k = 0; k < H; k++) {
                    column[k] = 1;
                    matmul_block(w, row % w->rows, (const float *[]){column}, 1, out);
                    column[k] = 0;
                    for (int i = 0; i < MATMUL_ROWS; i++)
                        squares[i] += (double)out[0][i] * (double)out[0][i];
                }
                for (int i = 0; i < MATMUL_ROWS; i++)
                    most = fmax(most, sqrt(squares[i]));
            }
            if (!(fabs((double)norms[e] - most) <= 0x1p-10 * most))
                fail_msg("format %d, expert %d: norm %g, expected %g", (int)formats[f], e, (double)norms[e], most);
        }
        mixture_free(&m);
        free(norms);
    }
}

/* Scales of the rows of a test at the size of a large model. */
enum kind { PLAIN, TINY, HUGE_ROW, OUTLIERS, NOT_A_NUMBER, INFINITE, KINDS };
static void scale_row(float *x, int hidden, enum kind kind)
{
    for (int i = 0; i < hidden; i++)
        x[i] *= kind == TINY ? 1e-20f : kind == HUGE_ROW ? 1e10f : kind == OUTLIERS && i % 1000 == 7 ? 1000 : 1;
    if (kind == NOT_A_NUMBER || kind == INFINITE)
        x[hidden / 3] = kind == INFINITE ? INFINITY : NAN;
}

/* 256 experts, of which every fourth has the same weights.  The first TOKENS_ALONE tokens are computed by the definition, and once more with h in
 * fp32, each row of which then gets the power of two of its largest number: another one rounds no number that counts differently.  A row with few
 * large columns is off by more than others, since few roundings average out less. */
static void test_experts__rows_of_any_size_at_a_large_models_widths(void **state)
{
    (void)state;
    need_gpu();
    enum { N = 4096, TOKENS_ALONE = 240, E = 256, SAME = 4, K = 8, H = 3072, I = 1024 };
    struct mixture four = mixture_make(WEIGHT_INT4, WEIGHT_FP8, SAME, H, I, I);
    const size_t step = (size_t)((const char *)four.view[1].gate.data - (const char *)four.view[0].gate.data), out = (size_t)N * (K + 1) * H;
    struct expert_weights *host = calloc(E + 1, sizeof *host), *view = calloc(E + 1, sizeof *view);
    char *memory = cuda->alloc(cuda, E * step);
    float *norms = cuda->alloc(cuda, (E + 1) * sizeof *norms);
    for (int e = 0; e < E; e++) {
        cuda->copy(cuda, memory + (size_t)e * step, four.memory + (size_t)(e % SAME) * step, step);
        host[e] = four.host[e % SAME];
        view[e].gate = packed_view(WEIGHT_INT4, 2 * I, H, memory + (size_t)e * step);
        view[e].down = packed_view(WEIGHT_INT4, H, I, memory + (size_t)e * step + pack_bytes(WEIGHT_INT4, 2 * I, H));
    }
    host[E] = four.host[SAME];
    view[E] = four.view[SAME];
    cuda->row_norms(cuda, norms, &view[0].gate, NULL, E, step);
    cuda->row_norms(cuda, norms + E, &view[E].gate, NULL, 1, 0);
    int32_t *e = choices(N, E, K, false), *start = malloc((E + 2) * sizeof *start), *slots = malloc((size_t)N * (K + 1) * sizeof *slots);
    float *x = rand_array((size_t)N * H, 1), *d = malloc(out * sizeof *d), *got = malloc(out * sizeof *got),
        *h = malloc((size_t)TOKENS_ALONE * (K + 1) * I * sizeof *h);
    for (int t = 0; t < N; t++)
        scale_row(x + (size_t)t * H, H, t % 9 < KINDS ? (enum kind)(t % 9) : PLAIN);
    RUN(cpu, moe_group, .start = start, .slots = slots, .experts = e, .n_tokens = TOKENS_ALONE, .n_experts = E, .top_k = K);
    RUN(cpu, experts_up, .h = h, .x = x, .experts = host, .shared = &host[E], .start = start, .slots = slots, .n_tokens = TOKENS_ALONE,
        .n_experts = E, .top_k = K, .inter_max = I);
    RUN(cpu, experts_down, .d = d, .h = h, .experts = host, .shared = &host[E], .start = start, .slots = slots, .n_tokens = TOKENS_ALONE,
        .n_experts = E, .top_k = K, .inter_max = I);
    float *dx = upload(x, (size_t)N * H * sizeof *x), *dh = poisoned((size_t)N * (K + 1) * I * sizeof *h), *dd = poisoned(out * sizeof *d),
        *plain = NULL;
    int32_t *dstart = upload(start, (E + 2) * sizeof *start), *dslots = upload(slots, (size_t)N * (K + 1) * sizeof *slots);
    for (int own = 0; own < 2; own++) {
        const int n = own ? N : TOKENS_ALONE;
        RUN(cpu, moe_group, .start = start, .slots = slots, .experts = e, .n_tokens = n, .n_experts = E, .top_k = K);
        cuda->copy(cuda, dstart, start, (E + 2) * sizeof *start);
        cuda->copy(cuda, dslots, slots, (size_t)n * (K + 1) * sizeof *slots);
        RUN(cuda, experts_up, .h = dh, .x = dx, .experts = view, .shared = &view[E], .start = dstart, .slots = dslots, .n_tokens = n, .n_experts = E,
            .top_k = K, .inter_max = I, .norms = norms, .own_form = own);
        RUN(cuda, experts_down, .d = dd, .h = dh, .experts = view, .shared = &view[E], .start = dstart, .slots = dslots, .n_tokens = n,
            .n_experts = E, .top_k = K, .inter_max = I, .own_input = own);
        if (!own)
            plain = downloaded(dd, (size_t)n * (K + 1) * H * sizeof *plain);
    }
    download(got, dd, out * sizeof *got);
    for (size_t r = 0; r < (size_t)N * (K + 1); r++) {
        const enum kind kind = r / (K + 1) % 9 < KINDS ? (enum kind)(r / (K + 1) % 9) : PLAIN;
        const bool poison = kind == NOT_A_NUMBER || kind == INFINITE;
        for (size_t i = 0; i < H; i++)
            if (isfinite(got[r * H + i]) == poison)
                fail_msg("slot %zu, a row of kind %d: outcome %zu is %g", r, (int)kind, i, (double)got[r * H + i]);
        if (!poison && r < (size_t)TOKENS_ALONE * (K + 1)) {
            char what[64];
            snprintf(what, sizeof what, "slot %zu, a row of kind %d", r, (int)kind);
            compare(what, got + r * H, plain + r * H, 1, H, H, 1e-5);
            compare(what, got + r * H, d + r * H, 1, H, H, 2 * tolerances[1]);
        }
    }
    void *device[] = {memory, norms, dx, dh, dd, dstart, dslots}, *all[] = {host, view, e, start, slots, x, d, got, h, plain};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        cuda->free(cuda, device[i]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    mixture_free(&four);
}

static void test_moe_combine__adds_in_the_order_of_its_definition(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int n, k, hidden; } cases[] = {{1, 8, 3072}, {70, 8, 2048}, {5, 4, 128}, {9, 6, 256}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t n = (size_t)cases[c].n, k = (size_t)cases[c].k, H = (size_t)cases[c].hidden;
        float *x = rand_array(n * H, 1), *d = rand_array(n * (k + 1) * H, 1), *w = rand_array(n * k, 1), *gate = rand_array(n, 2);
        float *y = malloc(n * H * 4);
        void *dx = upload(x, n * H * 4), *dd = upload(d, n * (k + 1) * H * 4), *dw = upload(w, n * k * 4), *dg = upload(gate, n * 4);
        RUN(cpu, moe_combine, .x = x, .d = d, .weights = w, .shared_gate = gate, .n_tokens = (int)n, .top_k = (int)k, .hidden = (int)H);
        RUN(cuda, moe_combine, .x = dx, .d = dd, .weights = dw, .shared_gate = dg, .n_tokens = (int)n, .top_k = (int)k, .hidden = (int)H);
        download(y, dx, n * H * 4);
        compare("moe_combine", y, x, n, H, H, 1e-6);
        cuda->free(cuda, dx), cuda->free(cuda, dd), cuda->free(cuda, dw), cuda->free(cuda, dg);
        free(x), free(d), free(w), free(gate), free(y);
    }
}

static void test_rmsnorm__plain_strided_and_in_place_agree_with_the_definition(void **state)
{
    (void)state;
    need_gpu();
    static const struct { int n, dim, per_group; size_t group, row; } cases[] = {
        {1, 3072, 0, 0, 0}, {300, 3072, 0, 0, 0}, {33, 128, 0, 0, 0}, {5, 256, 0, 0, 0}, {7, 2048, 0, 0, 0}, {3, 8192, 0, 0, 0}, {9, 6144, 0, 0, 0},
        {64, 256, 32, 32 * 512, 512}, {40, 256, 4, 4 * 512, 512}, {6, 256, 2, 512, 256},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int n = cases[c].n, dim = cases[c].dim, per = cases[c].per_group;
        size_t size = per ? (size_t)(n / per) * cases[c].group : (size_t)n * (size_t)dim;
        float *x = rand_array(size, 3), *w = rand_array((size_t)dim, 0.3f), *y = malloc(size * 4);
        void *dx = upload(x, size * 4), *dw = upload(w, (size_t)dim * 4);
        RUN(cpu, rmsnorm, .y = x, .x = x, .w = w, .n_rows = n, .dim = dim, .per_group = per, .x_group = cases[c].group, .x_row = cases[c].row,
            .y_group = cases[c].group, .y_row = cases[c].row, .eps = 1e-6f);
        RUN(cuda, rmsnorm, .y = dx, .x = dx, .w = dw, .n_rows = n, .dim = dim, .per_group = per, .x_group = cases[c].group,
            .x_row = cases[c].row, .y_group = cases[c].group, .y_row = cases[c].row, .eps = 1e-6f);
        download(y, dx, size * 4);
        for (size_t i = 0; i < size; i++)
            if (!(fabsf(y[i] - x[i]) <= 1e-6f * fabsf(x[i])))
                fail_msg("case %zu, element %zu: %.9g, expected %.9g", c, i, (double)y[i], (double)x[i]);
        cuda->free(cuda, dx), cuda->free(cuda, dw);
        free(x), free(w), free(y);
    }
}

static void test_embed__rows_are_exact_for_chunks_and_steps(void **state)
{
    (void)state;
    need_gpu();
    static const int widths[] = {128, 256, 2048, 3072};
    enum { VOCAB = 1000, MOST = 70 };
    for (size_t c = 0; c < sizeof widths / sizeof *widths; c++) {
        size_t H = (size_t)widths[c], bytes = MOST * H * 4;
        uint16_t *table = malloc(VOCAB * H * 2);
        int32_t ids[MOST];
        float *ref = malloc(bytes), *y = poison(bytes);
        for (size_t i = 0; i < VOCAB * H; i++)
            table[i] = f32_bf16(rand_normal());
        for (int i = 0; i < MOST; i++)
            ids[i] = (int32_t)(rand_u64() >> 33) % VOCAB;
        struct weight w = {.format = WEIGHT_DENSE, .dtype = DT_BF16, .rows = VOCAB, .cols = (int)H, .data = table}, v = w;
        int32_t *dids = upload(ids, sizeof ids);
        float *dy = upload(y, bytes);
        v.data = upload(table, VOCAB * H * 2);
        RUN(cpu, embed, .y = ref, .ids = ids, .table = w, .n_tokens = MOST);
        RUN(cuda, embed, .y = dy, .ids = dids, .table = v, .n_tokens = MOST);
        download(y, dy, bytes);
        assert_memory_equal(y, ref, bytes);
        memset(y, 0xff, bytes);
        cuda->copy(cuda, dy, y, bytes);
        const int64_t *stream = (const int64_t *)(void *)y;
        STEP(cuda, step_embed, .stream = (int64_t *)(void *)dy, .ids = dids, .table = v, .n_rows = STEP_ROWS);
        download(y, dy, bytes);
        for (size_t i = 0; i < STEP_ROWS * H; i++)
            assert_int_equal(stream[i], stream_from_float(ref[i]));
        assert_int_equal(stream[STEP_ROWS * H], -1);
        cuda->free(cuda, dids), cuda->free(cuda, dy), cuda->free(cuda, (void *)v.data);
        free(table), free(ref), free(y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_router__chooses_as_the_definition_and_ties_go_to_the_lower_index),
        cmocka_unit_test(test_moe_group__is_exact),
        cmocka_unit_test(test_experts__all_formats_and_tiles_agree_with_the_definition),
        cmocka_unit_test(test_experts__the_large_models_widths_agree_with_the_definition),
        cmocka_unit_test(test_experts__a_row_has_the_same_bits_in_any_company),
        cmocka_unit_test(test_row_norms__are_those_of_the_largest_rows),
        cmocka_unit_test(test_experts__rows_of_any_size_at_a_large_models_widths),
        cmocka_unit_test(test_moe_combine__adds_in_the_order_of_its_definition),
        cmocka_unit_test(test_rmsnorm__plain_strided_and_in_place_agree_with_the_definition),
        cmocka_unit_test(test_embed__rows_are_exact_for_chunks_and_steps),
    };
    return cmocka_run_group_tests(tests, open_devices_with_scratch, close_devices);
}
