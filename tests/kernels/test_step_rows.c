/* Rows of several conversations in one call give bit for bit what each conversation gives alone, and touch nobody else's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/kernels/step_host.h"

enum { SLOTS = 4 };

/* How the rows of a call are shared out. */
struct share { int n; struct { int slot, rows; } of[SLOTS]; };
static const struct share shares[] = {
    {1, {{2, 3}}}, {2, {{0, 1}, {1, 1}}}, {2, {{3, 1}, {1, 4}}}, {3, {{1, 1}, {0, 1}, {2, 1}}}, {3, {{3, 3}, {0, 1}, {1, 4}}},
        {4, {{0, 2}, {1, 2}, {2, 2}, {3, 2}}},
};
#define EACH_SHARE(s) const struct share *s = shares; s < shares + sizeof shares / sizeof *shares; s++

static int count(const struct share *s)
{
    int n = 0;
    for (int g = 0; g < s->n; g++)
        n += s->of[g].rows;
    return n;
}

/* Row of the call at which part g begins. */
static int first_row(const struct share *s, int g)
{
    int n = 0;
    for (int i = 0; i < g; i++)
        n += s->of[i].rows;
    return n;
}

static struct step_row *rows_of(const struct share *s)
{
    struct step_row *r = host(STEP_ROWS * sizeof *r);
    for (int g = 0, t = 0; g < s->n; g++)
        for (int i = 0; i < s->of[g].rows; i++, t++)
            r[t] = (struct step_row){.slot = s->of[g].slot, .index = i, .first = t - i};
    return r;
}

/* A row a slot, as calls that make drafts have them. */
static struct step_row *rows_of_drafts(const struct share *s)
{
    struct step_row *r = host(STEP_ROWS * sizeof *r);
    for (int g = 0; g < s->n; g++)
        r[g] = (struct step_row){.slot = s->of[g].slot, .first = first_row(s, g)};
    return r;
}

static void *copy_of(const void *p, size_t bytes) { return memcpy(host(bytes), p, bytes); }

/* Slots that are at different places, and accept different numbers of their rows. */
static struct step_live *lives(void)
{
    struct step_live *v = host(SLOTS * sizeof *v);
    for (int s = 0; s < SLOTS; s++) {
        v[s] = (struct step_live){.pos = 3 + 61 * s, .n_apply = s, .parity = s % 2, .n_drafts = 3 - s, .mtp_pos = 2 + 61 * s,
                                  .mtp_rows = s, .mtp_last = s % 2,
                                  .drafting = s != 1, .step = 10 + s};
        for (int i = 0; i < STEP_ROWS; i++) {
            v[s].ids[i] = (17 * s + 5 * i) % 40;
            v[s].mtp_next[i] = (13 * s + 7 * i + 1) % 40;
            v[s].draft_ids[i] = (11 * s + 3 * i + 2) % 40;
            v[s].draft_pos[i] = v[s].mtp_pos + s + i;
        }
    }
    return v;
}

static int64_t *streams(size_t n)
{
    const float *u = normals(n, 2);
    int64_t *s = host(n * sizeof *s);
    for (size_t i = 0; i < n; i++)
        s[i] = stream_from_float(u[i]);
    return s;
}

/* Rows of a slot that are of use. */
static int useful(const struct share *s, int g, const struct step_live *v)
{
    const int n = v[s->of[g].slot].mtp_rows;
    return n < s->of[g].rows ? n : s->of[g].rows;
}

/* ---- ids and products ---- */

static void test_ids__are_those_of_each_slot(void **state)
{
    (void)state;
    enum { H = 40 };
    struct weight table = make(WEIGHT_DENSE, 40, H), join = make(WEIGHT_DENSE, 2 * H, 2 * H);
    const struct step_live *v = lives();
    const float *ne = normals(H, 0.3f), *nh = normals(H, 0.3f), *hidden = normals(STEP_ROWS * H, 1);
    for (EACH_SHARE(s)) {
        const int n = count(s);
        int64_t *together = host(STEP_ROWS * H * 8), *alone = host(STEP_ROWS * H * 8);
        float *halves = host(2 * STEP_ROWS * 2 * H * 4), *half = host(2 * STEP_ROWS * 2 * H * 4);
        STEP(cpu, step_embed, .stream = together, .ids = v->ids, .rows = rows_of(s), .table = table, .n_rows = n);
        STEP(cpu, step_mtp_join, .halves = halves, .w = join, .table = table, .ids = v->mtp_next, .rows = rows_of(s),
             .norm_embedding = ne, .hidden = hidden,
             .norm_hidden = nh, .n_rows = n, .eps = eps);
        for (int g = 0; g < s->n; g++) {
            const size_t at = (size_t)first_row(s, g), m = (size_t)s->of[g].rows;
            STEP(cpu, step_embed, .stream = alone + at * H, .ids = v[s->of[g].slot].ids, .table = table, .n_rows = (int)m);
            STEP(cpu, step_mtp_join, .halves = half, .w = join, .table = table, .ids = v[s->of[g].slot].mtp_next,
                 .norm_embedding = ne,
                 .hidden = hidden + at * H, .norm_hidden = nh, .n_rows = (int)m, .eps = eps);
            same_bits("a join", halves + at * 2 * H, half, m * 2 * H * 4);
        }
        same_bits("embeddings", together, alone, STEP_ROWS * H * 8);
    }
}

static void test_project__fills_the_ring_of_each_slot(void **state)
{
    (void)state;
    enum { H = 128, A = 40, B = 16 };
    struct weight a = make(WEIGHT_DENSE, A, H), b = make(WEIGHT_INT4, B, H);
    const struct step_live *v = lives();
    const int64_t *stream = streams(STEP_ROWS * H);
    const float *norm = normals(H, 0.3f);
    const size_t ring = STEP_RING * A, slot = ring + 24;
    for (EACH_SHARE(s)) {
        float *rings = normals(SLOTS * slot, 1), *alone = copy_of(rings, SLOTS * slot * 4), *y = host(STEP_ROWS * B * 4),
            *one = host(STEP_ROWS * B * 4);
        STEP(cpu, step_project, .part = {{.w = a, .y = rings, .ring = true}, {.w = b, .y = y}}, .n_parts = 2, .stream = stream,
             .norm = norm, .pos = &v->pos,
             .rows = rows_of(s), .slot_bytes = slot * 4, .n_rows = count(s), .eps = eps);
        for (int g = 0; g < s->n; g++) {
            const size_t at = (size_t)first_row(s, g), of = (size_t)s->of[g].slot;
            STEP(cpu, step_project, .part = {{.w = a, .y = alone + of * slot, .ring = true}, {.w = b, .y = one + at * B}},
                 .n_parts = 2, .stream = stream + at * H,
                 .norm = norm, .pos = &v[of].pos, .n_rows = s->of[g].rows, .eps = eps);
        }
        same_bits("rings", rings, alone, SLOTS * slot * 4);
        same_bits("rows beside them", y, one, STEP_ROWS * B * 4);
    }
}

/* Of each slot as many rows are of use as it has accepted. */
static void test_rows_of_use__are_each_slots_first_ones(void **state)
{
    (void)state;
    enum { H = 128, E = 16, K = 3 };
    struct weight w = make(WEIGHT_DENSE, H, H), router = make(WEIGHT_DENSE, E, H), gate = make(WEIGHT_DENSE, 1, H);
    struct expert_weights x[E], shared = {make(WEIGHT_DENSE, 64, H), make(WEIGHT_DENSE, 64, H), make(WEIGHT_DENSE, H, 64)};
    const struct step_live *v = lives();
    const float *in = normals(STEP_ROWS * H, 1), *norm = normals(H, 0.3f);
    for (int e = 0; e < E; e++)
        x[e] = (struct expert_weights){make(WEIGHT_INT4, 128, H), make(WEIGHT_INT4, 128, H), make(WEIGHT_INT4, H, 128)};
    for (EACH_SHARE(s)) {
        int64_t *stream = streams(STEP_ROWS * H), *alone = copy_of(stream, STEP_ROWS * H * 8);
        for (int g = -1; g < s->n; g++) {       /* first together */
            const bool all = g < 0;
            const size_t at = all ? 0 : (size_t)first_row(s, g);
            const int n = all ? count(s) : s->of[g].rows;
            const struct step_row *rows = all ? rows_of(s) : NULL;
            const int32_t *n_valid = &v[all ? 0 : s->of[g].slot].mtp_rows;
            int64_t *to = all ? stream : alone + at * H;
            float *h = host(STEP_ROWS * H * 4), *logits = host(STEP_ROWS * (E + 1) * 4),
                *ssq = host(STEP_RMS_PARTS * STEP_ROWS * 4);
            struct step_route route = {0};
            STEP(cpu, step_add, .stream = to, .w = w, .x = in + at * H, .n_valid = n_valid, .rows = rows, .n_rows = n, .eps = eps);
            STEP(cpu, step_router, .h = h, .logits = logits, .gate = logits + STEP_ROWS * E, .part_step = STEP_ROWS * (E + 1),
                 .ssq = ssq, .stream = to, .norm = norm,
                 .router = router, .shared_gate = gate, .n_valid = n_valid, .rows = rows, .n_rows = n);
            STEP(cpu, step_experts, .stream = to, .route = &route,
                 .choice = {.rms = {ssq, 1, H, eps}, .logits = logits, .n_logits = 1, .n_valid = n_valid, .rows = rows,
                            .overlap = -1, .n_experts = E, .top_k = K},
                 .x = h, .experts = x, .shared = &shared, .shared_gate = logits + STEP_ROWS * E, .n_gates = 1, .n_rows = n,
                     .hidden = H, .inter = 128);
            for (int t = 0; all && t < n; t++) {        /* experts are read for rows of use alone */
                bool used = false;
                for (int i = 0; i < route.n; i++)
                    used |= route.weight[i][t] > 0;
                assert_int_equal(used, rows[t].index < v[rows[t].slot].mtp_rows);
            }
        }
        for (int g = 0; g < s->n; g++)
            same_bits("rows of use", stream + first_row(s, g) * H, alone + first_row(s, g) * H, (size_t)useful(s, g, v) * H * 8);
    }
}

/* ---- logits and picks ---- */

enum { V = 90, WIDTH = 24 };

static struct step_sampling *samplings(void)
{
    const struct step_sampling list_of[SLOTS] = {
        {.repetition_penalty = 1, .n_ids = V, .room = 100},
        {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .repetition_penalty = 1.25f, .presence_penalty = 1.5f, .biased = 1,
         .n_ids = 80, .room = 2, .rng = 99},
        {.temperature = 2, .min_p = 0.01f, .repetition_penalty = 1, .n_ids = 65, .room = 50, .rng = 7, .n_alternatives = 4},
        {.repetition_penalty = 1, .presence_penalty = 2, .n_ids = V, .room = 9, .n_stop = 1, .stop = {3}},
    };
    return copy_of(list_of, sizeof list_of);
}

static uint8_t *seen_ids(void)
{
    uint8_t *seen = host(SLOTS * V);
    for (int i = 0; i < SLOTS * V; i++)
        seen[i] = rand_u64() >> 60 ? 0 : STEP_IN_TEXT | STEP_IN_ANSWER;
    return seen;
}

static void test_logits__have_the_penalties_of_each_slot(void **state)
{
    (void)state;
    const size_t tiles = (size_t)step_maxima(V);
    struct weight w = make(WEIGHT_INT8, V, WIDTH);
    const struct step_live *v = lives();
    const struct step_sampling *how = samplings();
    const uint8_t *seen = seen_ids();
    const float *bias = normals(SLOTS * V, 1), *norm = normals(WIDTH, 0.3f);
    const int64_t *stream = streams(STEP_ROWS * WIDTH);
    for (EACH_SHARE(s)) {
        float *y = host(STEP_ROWS * V * 4), *one = host(STEP_ROWS * V * 4), *max = host(STEP_ROWS * tiles * 4),
            *top = host(STEP_ROWS * tiles * 4);
        STEP(cpu, step_logits, .logits = y, .tile_max = max, .w = w, .stream = stream, .norm = norm, .sampling = how, .seen = seen,
             .bias = bias,
             .drafts = v->ids + 1, .rows = rows_of(s), .n_rows = count(s), .eps = eps);
        for (int g = 0; g < s->n; g++) {
            const size_t at = (size_t)first_row(s, g), of = (size_t)s->of[g].slot;
            STEP(cpu, step_logits, .logits = one + at * V, .tile_max = top + at * tiles, .w = w, .stream = stream + at * WIDTH,
                 .norm = norm, .sampling = how + of,
                 .seen = seen + of * V, .bias = bias + of * V, .drafts = v[of].ids + 1, .n_rows = s->of[g].rows, .eps = eps);
        }
        same_bits("logits", y, one, STEP_ROWS * V * 4);
        same_bits("maxima", max, top, STEP_ROWS * tiles * 4);
    }
}

static void test_drafts__come_from_the_chosen_row_of_each_slot(void **state)
{
    (void)state;
    const size_t tiles = (size_t)step_maxima(V);
    struct weight w = make(WEIGHT_DENSE, V, WIDTH);
    const float *norm = normals(WIDTH, 0.3f);
    const int64_t *stream = streams(STEP_ROWS * WIDTH);
    for (EACH_SHARE(s)) {
        struct step_live *v = lives(), *v_one = lives();
        struct step_drafts *d = host(SLOTS * sizeof *d), *d_one = host(SLOTS * sizeof *d);
        const struct step_row *rows = rows_of_drafts(s);
        float *y = host(STEP_ROWS * V * 4), *max = host(STEP_ROWS * tiles * 4), *h = host(STEP_ROWS * WIDTH * 4),
            *one = host(V * 4), *top = host(tiles * 4), *h_one = host(WIDTH * 4);
        for (int g = 0; g < s->n; g++)
            v[s->of[g].slot].mtp_last = v_one[s->of[g].slot].mtp_last = s->of[g].rows - 1;
        STEP(cpu, step_logits, .logits = y, .tile_max = max, .w = w, .stream = stream, .norm = norm, .hidden_out = h,
             .row = &v->mtp_last, .n_ids = V, .rows = rows,
             .n_rows = s->n, .eps = eps);
        STEP(cpu, step_draft, .logits = y, .tile_max = max, .live = v, .drafts = d, .rows = rows, .n_rows = s->n, .i = 1,
             .n_ids = V);
        for (int g = 0; g < s->n; g++) {
            struct step_live *of = v_one + s->of[g].slot;
            STEP(cpu, step_logits, .logits = one, .tile_max = top, .w = w, .stream = stream + first_row(s, g) * WIDTH, .norm = norm,
                 .hidden_out = h_one,
                 .row = &of->mtp_last, .n_ids = V, .n_rows = 1, .eps = eps);
            STEP(cpu, step_draft, .logits = one, .tile_max = top, .live = of, .drafts = d_one + s->of[g].slot, .i = 1, .n_ids = V);
            same_bits("a draft's logits", y + g * V, one, V * 4);
            same_bits("a draft's hidden state", h + g * WIDTH, h_one, WIDTH * 4);
        }
        same_bits("the slots", v, v_one, SLOTS * sizeof *v);
        same_bits("what the host hears", d, d_one, SLOTS * sizeof *d);
    }
}

struct picks {
    struct step_live *live;
    struct step_sampling *how;
    struct step_result *results;
    uint8_t *seen;
    float *last;
};

static struct picks copy_picks(const struct picks *p)
{
    return (struct picks){copy_of(p->live, SLOTS * sizeof *p->live), copy_of(p->how, SLOTS * sizeof *p->how),
                          copy_of(p->results, SLOTS * STEP_RESULTS * sizeof *p->results), copy_of(p->seen, SLOTS * V),
                              copy_of(p->last, SLOTS * 3 * WIDTH * 4)};
}

static void test_pick__takes_of_each_slot_what_its_drafts_allow(void **state)
{
    (void)state;
    const size_t tiles = (size_t)step_maxima(V);
    const float *bias = normals(SLOTS * V, 1), *hidden = normals(STEP_ROWS * WIDTH, 1);
    void *scratch = host(step_pick_scratch(V));
    int accepted = 0, done = 0;
    for (EACH_SHARE(s))
        for (int round = 0; round < 6; round++) {
            struct picks a = {lives(), samplings(), host(SLOTS * STEP_RESULTS * sizeof *a.results), seen_ids(),
                              normals(SLOTS * 3 * WIDTH, 1)};
            float *logits = normals(STEP_ROWS * V, 2), *max = host(STEP_ROWS * tiles * 4);
            const struct step_row *rows = rows_of(s);
            for (int t = 0; t < count(s); t++) {
                const struct step_row r = rows[t];
                if (r.index < 3 && (r.index + round) % 3)       /* some drafts are right */
                    logits[t * V + a.live[r.slot].ids[1 + r.index]] = 30;
                for (int id = a.how[r.slot].n_ids; id < V; id++)
                    logits[t * V + id] = -INFINITY;
                for (size_t i = 0; i < tiles; i++)
                    max[(size_t)t * tiles + i] = -INFINITY;
                for (int id = 0; id < V; id++)
                    max[t * (int)tiles + id / 16] = fmaxf(max[t * (int)tiles + id / 16], logits[t * V + id]);
            }
            a.live[3].done = round == 5;
            struct picks b = copy_picks(&a);
            STEP(cpu, step_pick, .logits = logits, .tile_max = max, .live = a.live, .sampling = a.how, .seen = a.seen, .bias = bias,
                 .results = a.results,
                 .hidden = hidden, .last_hidden = a.last, .scratch = scratch, .rows = rows, .n_rows = count(s), .vocab = V,
                     .width = WIDTH);
            for (int g = 0; g < s->n; g++) {
                const size_t at = (size_t)first_row(s, g), of = (size_t)s->of[g].slot;
                STEP(cpu, step_pick, .logits = logits + at * V, .tile_max = max + at * tiles, .live = b.live + of,
                     .sampling = b.how + of, .seen = b.seen + of * V,
                     .bias = bias + of * V, .results = b.results + of * STEP_RESULTS, .hidden = hidden + at * WIDTH,
                         .last_hidden = b.last + of * 3 * WIDTH,
                     .scratch = scratch, .n_rows = s->of[g].rows, .vocab = V, .width = WIDTH);
                accepted += b.live[of].mtp_rows > 1;
                done += b.live[of].done;
            }
            same_bits("live", a.live, b.live, SLOTS * sizeof *a.live);
            same_bits("sampling", a.how, b.how, SLOTS * sizeof *a.how);
            same_bits("results", a.results, b.results, SLOTS * STEP_RESULTS * sizeof *a.results);
            same_bits("seen ids", a.seen, b.seen, SLOTS * V);
            same_bits("hidden states", a.last, b.last, SLOTS * 3 * WIDTH * 4);
        }
    assert_true(accepted > 5 && done > 5);
}

/* ---- mixers ---- */

static void test_delta__carries_the_states_of_each_slot_on(void **state)
{
    (void)state;
    enum { HK = 2, HV = 4, DK = 16, DV = 24, TAPS = 4, CHANNELS = 2 * HK * DK + HV * DV, STATE = HV * DK * DV, VALUES = HV * DV };
    enum { RING_A = STEP_RING * CHANNELS, RING_B = RING_A + STEP_RING * HV, FIRST = RING_B + STEP_RING * HV, OTHER = FIRST + STATE,
          SLOT = OTHER + STATE + 8 };
    const struct step_live *v = lives();
    const float *z = normals(STEP_ROWS * VALUES, 1), *conv = normals(CHANNELS * TAPS, 0.5f), *a_log = normals(HV, 1),
        *dt_bias = normals(HV, 1), *norm = normals(DV, 1);
    for (EACH_SHARE(s)) {
        float *slots = normals(SLOTS * SLOT, 1), *alone = copy_of(slots, SLOTS * SLOT * 4), *y = host(STEP_ROWS * VALUES * 4),
            *one = host(STEP_ROWS * VALUES * 4);
        float *ssq = host(STEP_ROWS * HV * 2 * 4), *ssq_one = host(STEP_ROWS * HV * 2 * 4);
        for (int g = -1; g < s->n; g++) {       /* first together */
            const size_t at = g < 0 ? 0 : (size_t)first_row(s, g);
            float *m = g < 0 ? slots : alone + s->of[g].slot * SLOT;
            STEP(cpu, step_delta, .y = (g < 0 ? y : one) + at * VALUES, .ssq = (g < 0 ? ssq : ssq_one) + at * HV * 2, .raw = m,
                 .a = m + RING_A, .b = m + RING_B,
                 .z = z + at * VALUES, .conv = conv, .a_log = a_log, .dt_bias = dt_bias, .norm = norm,
                     .state = {m + FIRST, m + OTHER},
                 .live = v + (g < 0 ? 0 : s->of[g].slot), .rows = g < 0 ? rows_of(s) : NULL, .slot_bytes = SLOT * 4,
                     .n_rows = g < 0 ? count(s) : s->of[g].rows,
                 .n_k_heads = HK, .n_v_heads = HV, .dk = DK, .dv = DV, .taps = TAPS);
        }
        same_bits("outputs", y, one, STEP_ROWS * VALUES * 4);
        same_bits("sums of squares", ssq, ssq_one, STEP_ROWS * HV * 2 * 4);
        same_bits("states", slots, alone, SLOTS * SLOT * 4);
    }
}

/* Exact rows in fp32, or codes of 4 bits behind a ring of bf16, in `memory`. */
static struct kv_rows kv_in(char *memory, bool codes, int ctx, size_t *bytes)
{
    struct kv_rows kv = {.dtype = codes ? DT_BF16 : DT_F32, .n_kv_heads = 2, .head_dim = codes ? KV_DIM : 40};
    if (codes)
        kv.k_format = kv.v_format = KV_TQ4, kv.sinks = 16, kv.recent = KV_BLOCK, kv.ring = 4 * KV_BLOCK;
    const size_t exact = (size_t)(codes ? kv.sinks + kv.ring : ctx) * kv_exact_bytes(&kv) / 2,
        blocks = codes ? (size_t)(ctx / KV_BLOCK * 2) : 0;
    const size_t code = blocks * kv_block_bytes(KV_TQ4), scales = blocks * KV_BLOCK * 2;
    *bytes = 2 * (exact + code + scales);
    kv.k = memory;
    kv.v = memory + exact;
    if (codes) {
        kv.k_codes = (uint8_t *)memory + 2 * exact;
        kv.v_codes = kv.k_codes + code;
        kv.k_scales = (uint16_t *)(void *)(kv.v_codes + code);
        kv.v_scales = kv.k_scales + scales / 2;
    }
    return kv;
}

static void check_attention(const struct share *s, bool codes)
{
    enum { CTX = 512, Q = 4, HALF = 8 };
    size_t bytes;
    const struct kv_rows shape = kv_in(host(1), codes, CTX, &bytes);
    const size_t D = (size_t)shape.head_dim, query = Q * D, key = 2 * D, slot = bytes + 256;
    const float *qg = normals(STEP_ROWS * 2 * query, 1), *k = normals(STEP_ROWS * key, 1), *vs = normals(STEP_ROWS * key, 1),
        *qn = normals(D, 0.3f), *kn = normals(D, 0.3f);
    const float *freq = normals(HALF, 0.1f), *old = normals(CTX * key, 1);
    const struct step_live *v = lives();
    char *memory = host(SLOTS * slot), *alone;
    for (size_t of = 0; of < SLOTS; of++) {
        const struct kv_rows kv = kv_in(memory + of * slot, codes, CTX, &bytes);
        RUN(cpu, kv_store, .kv = kv, .k = old + of * key, .v = old + 2 * of * key, .n_tokens = v[of].mtp_pos, .pos = 0);
        if (kv_sealed(&kv, v[of].mtp_pos - 1) > 0)
            RUN(cpu, kv_seal, .kv = kv, .from = 0, .to = kv_sealed(&kv, v[of].mtp_pos - 1));
    }
    alone = copy_of(memory, SLOTS * slot);
    for (int with = 0; with < 2; with++) {      /* rows that are of no use among them */
        float *y = host(STEP_ROWS * query * 4), *one = host(STEP_ROWS * query * 4);
        for (int g = -1; g < s->n; g++) {       /* first together */
            const size_t at = g < 0 ? 0 : (size_t)first_row(s, g), of = g < 0 ? 0 : (size_t)s->of[g].slot;
            STEP(cpu, step_attention, .y = (g < 0 ? y : one) + at * query, .qg = qg + at * 2 * query, .k = k + at * key,
                 .v = vs + at * key, .q_norm = qn, .k_norm = kn,
                 .freq = freq, .kv = kv_in((g < 0 ? memory : alone) + of * slot, codes, CTX, &bytes),
                     .pos = with ? &v[of].mtp_pos : &v[of].pos,
                 .n_valid = with ? &v[of].mtp_rows : NULL, .rows = g < 0 ? rows_of(s) : NULL, .slot_bytes = slot,
                     .n_rows = g < 0 ? count(s) : s->of[g].rows,
                 .n_q_heads = Q, .half = HALF, .eps = eps, .rope_scale = 1, .scale = 0.1f);
        }
        same_bits("outputs", y, one, STEP_ROWS * query * 4);
        same_bits("KV rows", memory, alone, SLOTS * slot);
    }
}

static void test_attention__reads_and_stores_the_rows_of_each_slot(void **state)
{
    (void)state;
    for (EACH_SHARE(s)) {
        check_attention(s, false);
        check_attention(s, true);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {
        TEST(test_ids__are_those_of_each_slot),
        TEST(test_project__fills_the_ring_of_each_slot),
        TEST(test_rows_of_use__are_each_slots_first_ones),
        TEST(test_logits__have_the_penalties_of_each_slot),
        TEST(test_drafts__come_from_the_chosen_row_of_each_slot),
        TEST(test_pick__takes_of_each_slot_what_its_drafts_allow),
        TEST(test_delta__carries_the_states_of_each_slot_on),
        TEST(test_attention__reads_and_stores_the_rows_of_each_slot),
    };
    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
