/* Rows of several conversations in one call give bit for bit what each conversation gives alone, and touch nobody else's memory.  On any
 * device: `dev`. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/kernels/one_device.h"
#include "tests/kernels/rand_weight.h"

static const float eps = 1e-6f;

enum { SLOTS = 8 };

/* ---- memory; everything is freed at the end of a test, what is large before ---- */

static void *host_list[8192], *device_list[8192];
static int   n_host, n_device;

static void *host(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    assert_non_null(p);
    assert_true(n_host < (int)(sizeof host_list / sizeof *host_list));
    return host_list[n_host++] = p;
}

/* Zeros on the device. */
static void *device(size_t bytes)
{
    void *p = dev->alloc(dev, bytes);
    assert_non_null(p);
    assert_true(n_device < (int)(sizeof device_list / sizeof *device_list));
    return device_list[n_device++] = p;
}

/* A copy, from anywhere. */
static void *put(const void *p, size_t bytes)
{
    void *d = device(bytes);
    dev->copy(dev, d, p, bytes);
    return d;
}

static void finish(void)
{
    struct err e = {0};
    if (!dev->finish(dev, &e))
        fail_msg("%s", e.msg);
}

static void *get(const void *d, size_t bytes)
{
    void *p = host(bytes);
    dev->copy(dev, p, d, bytes);
    finish();
    return p;
}

/* Frees everything that was allocated since then. */
struct mark { int n_host, n_device; };
static struct mark mark(void) { return (struct mark){n_host, n_device}; }
static void release(struct mark m)
{
    while (n_device > m.n_device)
        dev->free(dev, device_list[--n_device]);
    while (n_host > m.n_host)
        free(host_list[--n_host]);
}

static int end_test(void **state)
{
    (void)state;
    release((struct mark){0, 0});
    return 0;
}

static void need_device(void)
{
    if (!dev || !dev->caps->several)
        skip();
}

static float *random_host(size_t n, float scale)
{
    float *p = host(n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = rand_normal() * scale;
    return p;
}

static float *normals(size_t n, float scale) { return put(random_host(n, scale), n * sizeof(float)); }

static int64_t *streams(size_t n)
{
    int64_t *s = host(n * sizeof *s);
    for (size_t i = 0; i < n; i++)
        s[i] = stream_from_float(2 * rand_normal());
    return put(s, n * sizeof *s);
}

/* Memory of the device. */
static void same_bits(const char *what, const void *a, const void *b, size_t bytes)
{
    const struct mark m = mark();
    const char *x = get(a, bytes), *y = get(b, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i])
            fail_msg("%s: the bits depend on what else the call holds, at byte %zu of %zu", what, i, bytes);
    release(m);
}

/* ---- matrices, as the device keeps them ---- */

static struct weight stored(enum weight_format format, int rows, int cols)
{
    const float unit = 1 / sqrtf((float)cols);
    struct weight w = rand_weight(format, rows, cols, (struct spread){unit, 0.2f * unit, 0.01f * unit, 0.01f * unit, 0.5f});
    const void *parts[] = {w.data, w.scale, w.zeros};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        host_list[n_host++] = (void *)(uintptr_t)parts[i];
    return w;
}

static struct weight kept(const struct weight *w)
{
    const size_t bytes = pack_bytes(w->format, w->rows, w->cols);
    if (!dev->caps->packs_weights)
        return *w;
    void *h = host(bytes);
    assert_true(pack_matrix(w, h));
    return packed_view(w->format, w->rows, w->cols, put(h, bytes));
}

static struct weight make(enum weight_format format, int rows, int cols)
{
    const struct weight w = stored(format, rows, cols);
    return kept(&w);
}

/* An embedding is never packed. */
static struct weight make_table(int rows, int cols)
{
    struct weight w = stored(WEIGHT_DENSE, rows, cols);
    w.data = put(w.data, (size_t)rows * (size_t)cols * 2);
    return w;
}

/* Experts one behind the other. */
static void make_experts(struct expert_weights *x, int n, enum weight_format f, int hidden, int inter)
{
    const size_t pair = pack_bytes(f, 2 * inter, hidden), down = pack_bytes(f, hidden, inter);
    char *pairs = host((size_t)n * pair), *downs = host((size_t)n * down);
    for (int e = 0; e < n; e++) {
        x[e] = (struct expert_weights){stored(f, inter, hidden), stored(f, inter, hidden), stored(f, hidden, inter)};
        assert_true(pack_pair(&x[e].gate, &x[e].up, pairs + (size_t)e * pair) && pack_matrix(&x[e].down, downs + (size_t)e * down));
    }
    if (!dev->caps->packs_weights)
        return;
    const char *on_pairs = put(pairs, (size_t)n * pair), *on_downs = put(downs, (size_t)n * down);
    for (int e = 0; e < n; e++)
        x[e] = (struct expert_weights){.gate = packed_view(f, 2 * inter, hidden, on_pairs + (size_t)e * pair),
                                       .down = packed_view(f, hidden, inter, on_downs + (size_t)e * down)};
}

/* ---- rows ---- */

/* How the rows of a call are shared out. */
struct share { int n; struct { int slot, rows; } of[SLOTS]; };
static const struct share shares[] = {
    {1, {{2, 8}}}, {1, {{5, 1}}}, {2, {{0, 1}, {1, 1}}}, {2, {{3, 1}, {6, 4}}}, {3, {{1, 1}, {0, 1}, {2, 1}}}, {3, {{4, 1}, {2, 3}, {6, 4}}},
    {3, {{3, 3}, {0, 1}, {7, 4}}}, {4, {{0, 2}, {1, 2}, {2, 2}, {3, 2}}}, {8, {{3, 1}, {0, 1}, {7, 1}, {1, 1}, {5, 1}, {2, 1}, {6, 1}, {4, 1}}},
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

static struct step_row *host_rows(const struct share *s)
{
    struct step_row *r = host(STEP_ROWS * sizeof *r);
    for (int g = 0, t = 0; g < s->n; g++)
        for (int i = 0; i < s->of[g].rows; i++, t++)
            r[t] = (struct step_row){.slot = s->of[g].slot, .index = i, .first = t - i};
    return r;
}

static struct step_row *rows_of(const struct share *s) { return put(host_rows(s), STEP_ROWS * sizeof(struct step_row)); }

/* A row a slot, as calls that make drafts have them. */
static struct step_row *rows_of_drafts(const struct share *s)
{
    struct step_row *r = host(STEP_ROWS * sizeof *r);
    for (int g = 0; g < s->n; g++)
        r[g] = (struct step_row){.slot = s->of[g].slot, .first = first_row(s, g)};
    return put(r, STEP_ROWS * sizeof *r);
}

/* Slots that are at different places, and accept different numbers of their rows. */
static struct step_live *host_lives(void)
{
    struct step_live *v = host(SLOTS * sizeof *v);
    for (int s = 0; s < SLOTS; s++) {
        v[s] = (struct step_live){.pos = 3 + 61 * s, .n_apply = s < 4 ? s : 2, .parity = s % 2, .n_drafts = s < 4 ? 3 - s : s - 2,
                                  .mtp_pos = 2 + 61 * s, .mtp_rows = s < 4 ? s : s - 3, .mtp_last = s % 2, .drafting = s != 1, .step = 10 + s,
                                  .rope_offset = {-s, 2 * s, 5 - s}};
        for (int i = 0; i < STEP_ROWS; i++) {
            v[s].ids[i] = (17 * s + 5 * i) % 40;
            v[s].mtp_next[i] = (13 * s + 7 * i + 1) % 40;
            v[s].draft_ids[i] = (11 * s + 3 * i + 2) % 40;
            v[s].draft_pos[i] = v[s].mtp_pos + s + i;
        }
    }
    return v;
}

static struct step_live *lives(void) { return put(host_lives(), SLOTS * sizeof(struct step_live)); }

/* Rows of a slot that are of use. */
static int useful(const struct share *s, int g, const struct step_live *v)
{
    const int n = v[s->of[g].slot].mtp_rows;
    return n < s->of[g].rows ? n : s->of[g].rows;
}

/* ---- ids and products ---- */

static void test_rows__ids_are_those_of_each_slot(void **state)
{
    (void)state;
    need_device();
    enum { H = 256 };
    const struct weight table = make_table(40, H), join = make(WEIGHT_DENSE, 2 * H, 2 * H);
    const struct step_live *v = lives();
    const float *ne = normals(H, 0.3f), *nh = normals(H, 0.3f), *hidden = normals(STEP_ROWS * H, 1);
    for (EACH_SHARE(s)) {
        const int n = count(s);
        int64_t *together = device(STEP_ROWS * H * 8), *alone = device(STEP_ROWS * H * 8);
        float *halves = device(2 * STEP_ROWS * 2 * H * 4), *half = device(2 * STEP_ROWS * 2 * H * 4);
        STEP(dev, step_embed, .stream = together, .ids = v->ids, .rows = rows_of(s), .table = table, .n_rows = n);
        STEP(dev, step_mtp_join, .halves = halves, .w = join, .table = table, .ids = v->mtp_next, .rows = rows_of(s),
             .norm_embedding = ne, .hidden = hidden, .norm_hidden = nh, .n_rows = n, .eps = eps);
        for (int g = 0; g < s->n; g++) {
            const size_t at = (size_t)first_row(s, g), m = (size_t)s->of[g].rows;
            STEP(dev, step_embed, .stream = alone + at * H, .ids = v[s->of[g].slot].ids, .table = table, .n_rows = (int)m);
            STEP(dev, step_mtp_join, .halves = half, .w = join, .table = table, .ids = v[s->of[g].slot].mtp_next, .norm_embedding = ne,
                 .hidden = hidden + at * H, .norm_hidden = nh, .n_rows = (int)m, .eps = eps);
            for (size_t part = 0; part < 2; part++)
                same_bits("a join", halves + (part * (size_t)n + at) * 2 * H, half + part * m * 2 * H, m * 2 * H * 4);
        }
        same_bits("embeddings", together, alone, STEP_ROWS * H * 8);
    }
}

static void test_rows__a_projection_fills_the_ring_of_each_slot(void **state)
{
    (void)state;
    need_device();
    enum { A = 272, B = 48, WIDTHS = 2 };
    static const int widths[WIDTHS] = {128, 640};
    const struct step_live *v = lives();
    const size_t ring = STEP_RING * A, slot = ring + STEP_RING * B + 24;
    for (int i = 0; i < WIDTHS; i++) {
        const int H = widths[i];
        const struct weight a = make(WEIGHT_INT4, A, H), b = make(WEIGHT_DENSE, B, H), c = make(WEIGHT_FP8, B, H);
        const int64_t *stream = streams((size_t)(STEP_ROWS * H));
        const float *norm = normals((size_t)H, 0.3f);
        for (EACH_SHARE(s)) {
            float *rings = normals(SLOTS * slot, 1), *alone = put(rings, SLOTS * slot * 4), *y = device(STEP_ROWS * B * 4),
                *one = device(STEP_ROWS * B * 4);
            STEP(dev, step_project, .part = {{.w = a, .y = rings, .ring = true}, {.w = b, .y = rings + ring, .ring = true}, {.w = c, .y = y}},
                 .n_parts = 3, .stream = stream, .norm = norm, .pos = &v->pos, .rows = rows_of(s), .slot_bytes = slot * 4, .n_rows = count(s),
                 .eps = eps);
            for (int g = 0; g < s->n; g++) {
                const size_t at = (size_t)first_row(s, g), of = (size_t)s->of[g].slot;
                float *m = alone + of * slot;
                STEP(dev, step_project, .part = {{.w = a, .y = m, .ring = true}, {.w = b, .y = m + ring, .ring = true}, {.w = c, .y = one + at * B}},
                     .n_parts = 3, .stream = stream + at * (size_t)H, .norm = norm, .pos = &v[of].pos, .n_rows = s->of[g].rows, .eps = eps);
            }
            same_bits("rings", rings, alone, SLOTS * slot * 4);
            same_bits("rows beside them", y, one, STEP_ROWS * B * 4);
        }
    }
}

/* Counts the rows of each slot that are of use: those it has accepted. */
static void test_rows__those_of_use_are_each_slots_first_ones(void **state)
{
    (void)state;
    need_device();
    enum { H = 128, E = 16, K = 3, STEP_OF = STEP_ROWS * (E + 1), PARTS = STEP_RMS_PARTS };
    const struct weight w = make(WEIGHT_DENSE, H, H), router = make(WEIGHT_DENSE, E, H), gate = make(WEIGHT_DENSE, 1, H);
    struct expert_weights x[E], shared;
    const struct step_live *v = lives(), *known = host_lives();
    const float *in = normals(STEP_ROWS * H, 1), *norm = normals(H, 0.3f);
    const int parts = step_router_parts(H);
    make_experts(x, E, WEIGHT_INT4, H, 128);
    make_experts(&shared, 1, WEIGHT_DENSE, H, 128);
    for (EACH_SHARE(s)) {
        int64_t *stream = streams(STEP_ROWS * H), *alone = put(stream, STEP_ROWS * H * 8);
        for (int g = -1; g < s->n; g++) {       /* first together */
            const bool all = g < 0;
            const size_t at = all ? 0 : (size_t)first_row(s, g);
            const int n = all ? count(s) : s->of[g].rows;
            const struct step_row *rows = all ? rows_of(s) : NULL, *named = host_rows(s);
            const int32_t *n_valid = &v[all ? 0 : s->of[g].slot].mtp_rows;
            int64_t *to = all ? stream : alone + at * H;
            const size_t space = step_experts_space(n, E, K, 128);
            float *h = device(STEP_ROWS * H * 4), *logits = device(PARTS * STEP_OF * 4), *ssq = device(PARTS * STEP_ROWS * 4),
                *up = device(space * 4);
            struct step_route *route = device(sizeof *route);
            STEP(dev, step_add, .stream = to, .w = w, .x = in + at * H, .n_valid = n_valid, .rows = rows, .n_rows = n, .eps = eps);
            STEP(dev, step_router, .h = h, .logits = logits, .gate = logits + STEP_ROWS * E, .part_step = STEP_OF, .ssq = ssq, .stream = to,
                 .norm = norm, .router = router, .shared_gate = gate, .expert_h = up, .n_expert_h = space, .n_valid = n_valid, .rows = rows,
                 .n_rows = n);
            STEP(dev, step_experts, .stream = to, .h = up, .route = route,
                 .choice = {.rms = {ssq, parts, H, eps}, .logits = logits, .n_logits = parts, .logit_step = STEP_OF, .last_of = n_valid,
                            .rows = rows, .overlap = -1, .n_experts = E, .top_k = K},
                 .x = h, .experts = x, .shared = &shared, .shared_gate = logits + STEP_ROWS * E, .n_gates = parts, .gate_step = STEP_OF,
                 .n_rows = n, .hidden = H, .inter = 128);
            const struct step_route *chosen = get(route, sizeof *route);
            for (int t = 0; all && t < n; t++) {        /* experts are read for the last of a slot's rows that are of use */
                bool used = false;
                for (int i = 0; i < chosen->n; i++)
                    used |= chosen->weight[i][t] > 0;
                assert_int_equal(used, named[t].index + 1 == known[named[t].slot].mtp_rows);
            }
        }
        for (int g = 0; g < s->n; g++)
            same_bits("rows of use", stream + first_row(s, g) * H, alone + first_row(s, g) * H, (size_t)useful(s, g, known) * H * 8);
    }
}

/* ---- logits and picks ---- */

enum { V = 1100, WIDTH = 128, TILES = (V + 63) / 64 * 4 };

static struct step_sampling *samplings(void)
{
    const struct step_sampling of[SLOTS] = {    /* as many alternatives as there may be: what lies behind the last one is undefined */
        {.repetition_penalty = 1, .n_ids = V, .room = 100},
        {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .repetition_penalty = 1.25f, .presence_penalty = 1.5f, .biased = 1,
         .n_ids = 1080, .room = 2, .rng = 99},
        {.temperature = 2, .min_p = 0.01f, .repetition_penalty = 1, .n_ids = 65, .room = 50, .rng = 7, .n_alternatives = STEP_ALTERNATIVES},
        {.repetition_penalty = 1, .presence_penalty = 2, .n_ids = V, .room = 9, .n_stop = 1, .stop = {3}},
        {.temperature = 1, .top_p = 0.95f, .repetition_penalty = 1, .n_ids = V, .room = 30, .rng = 11},
        {.temperature = 0.7f, .repetition_penalty = 1, .biased = 1, .n_ids = V, .room = 30, .rng = 12, .n_alternatives = STEP_ALTERNATIVES},
        {.repetition_penalty = 1.1f, .n_ids = 1000, .room = 3},
        {.temperature = 1, .top_k = 700, .repetition_penalty = 1, .n_ids = V, .room = 30, .rng = 13},
    };
    return put(of, sizeof of);
}

static uint8_t *seen_ids(void)
{
    uint8_t *seen = host(SLOTS * V);
    for (int i = 0; i < SLOTS * V; i++)
        seen[i] = rand_u64() >> 60 ? 0 : STEP_IN_TEXT | STEP_IN_ANSWER;
    return put(seen, SLOTS * V);
}

static void test_rows__logits_have_the_penalties_of_each_slot(void **state)
{
    (void)state;
    need_device();
    const struct weight w = make(WEIGHT_INT8, V, WIDTH);
    const struct step_live *v = lives();
    const struct step_sampling *how = samplings();
    const uint8_t *seen = seen_ids();
    const float *bias = normals(SLOTS * V, 1), *norm = normals(WIDTH, 0.3f);
    const int64_t *stream = streams(STEP_ROWS * WIDTH);
    for (EACH_SHARE(s)) {
        float *y = device(STEP_ROWS * V * 4), *one = device(STEP_ROWS * V * 4), *max = device(STEP_ROWS * TILES * 4),
            *top = device(STEP_ROWS * TILES * 4), *h = device(STEP_ROWS * WIDTH * 4), *h_one = device(STEP_ROWS * WIDTH * 4);
        STEP(dev, step_logits, .logits = y, .tile_max = max, .w = w, .stream = stream, .norm = norm, .hidden_out = h, .sampling = how,
             .seen = seen, .bias = bias, .drafts = v->ids + 1, .rows = rows_of(s), .n_rows = count(s), .eps = eps);
        for (int g = 0; g < s->n; g++) {
            const size_t at = (size_t)first_row(s, g), of = (size_t)s->of[g].slot;
            STEP(dev, step_logits, .logits = one + at * V, .tile_max = top + at * TILES, .w = w, .stream = stream + at * WIDTH, .norm = norm,
                 .hidden_out = h_one + at * WIDTH, .sampling = how + of, .seen = seen + of * V, .bias = bias + of * V,
                 .drafts = v[of].ids + 1, .n_rows = s->of[g].rows, .eps = eps);
        }
        same_bits("logits", y, one, STEP_ROWS * V * 4);
        same_bits("maxima", max, top, STEP_ROWS * TILES * 4);
        same_bits("hidden states", h, h_one, STEP_ROWS * WIDTH * 4);
    }
}

static void test_rows__drafts_come_from_the_chosen_row_of_each_slot(void **state)
{
    (void)state;
    need_device();
    const struct weight w = make(WEIGHT_DENSE, V, WIDTH);
    const float *norm = normals(WIDTH, 0.3f);
    const int64_t *stream = streams(STEP_ROWS * WIDTH);
    for (EACH_SHARE(s)) {
        struct step_live *given = host_lives();
        struct step_drafts *d = device(SLOTS * sizeof *d), *d_one = device(SLOTS * sizeof *d);
        const struct step_row *rows = rows_of_drafts(s);
        float *y = device(STEP_ROWS * V * 4), *max = device(STEP_ROWS * TILES * 4), *h = device(STEP_ROWS * WIDTH * 4),
            *one = device(V * 4), *top = device(TILES * 4), *h_one = device(WIDTH * 4);
        for (int g = 0; g < s->n; g++)
            given[s->of[g].slot].mtp_last = s->of[g].rows - 1;
        struct step_live *v = put(given, SLOTS * sizeof *v), *v_one = put(given, SLOTS * sizeof *v);
        STEP(dev, step_logits, .logits = y, .tile_max = max, .w = w, .stream = stream, .norm = norm, .hidden_out = h, .row = &v->mtp_last,
             .n_ids = V, .rows = rows, .n_rows = s->n, .eps = eps);
        STEP(dev, step_draft, .logits = y, .tile_max = max, .live = v, .drafts = d, .rows = rows, .n_rows = s->n, .i = 1, .n_ids = V);
        for (int g = 0; g < s->n; g++) {
            struct step_live *of = v_one + s->of[g].slot;
            STEP(dev, step_logits, .logits = one, .tile_max = top, .w = w, .stream = stream + first_row(s, g) * WIDTH, .norm = norm,
                 .hidden_out = h_one, .row = &of->mtp_last, .n_ids = V, .n_rows = 1, .eps = eps);
            STEP(dev, step_draft, .logits = one, .tile_max = top, .live = of, .drafts = d_one + s->of[g].slot, .i = 1, .n_ids = V);
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
    return (struct picks){put(p->live, SLOTS * sizeof *p->live), put(p->how, SLOTS * sizeof *p->how),
                          put(p->results, SLOTS * STEP_RESULTS * sizeof *p->results), put(p->seen, SLOTS * V), put(p->last, SLOTS * 3 * WIDTH * 4)};
}

/* Logits with some of the drafts right, and their maxima. */
static float *logits_of(const struct share *s, const struct step_live *v, const struct step_sampling *how, int round, float **tile_max)
{
    float *logits = random_host(STEP_ROWS * V, 2), *max = host(STEP_ROWS * TILES * 4);
    const struct step_row *rows = host_rows(s);
    for (int i = 0; i < STEP_ROWS * TILES; i++)
        max[i] = -INFINITY;
    for (int t = 0; t < count(s); t++) {
        const struct step_row r = rows[t];
        if (r.index < 3 && (r.index + round) % 3)
            logits[t * V + v[r.slot].ids[1 + r.index]] = 30;
        for (int id = how[r.slot].n_ids; id < V; id++)
            logits[t * V + id] = -INFINITY;
        for (int id = 0; id < V; id++)
            max[t * TILES + id / 16] = fmaxf(max[t * TILES + id / 16], logits[t * V + id]);
    }
    *tile_max = put(max, STEP_ROWS * TILES * 4);
    return put(logits, STEP_ROWS * V * 4);
}

static void test_rows__a_pick_takes_of_each_slot_what_its_drafts_allow(void **state)
{
    (void)state;
    need_device();
    const float *bias = normals(SLOTS * V, 1), *hidden = normals(STEP_ROWS * WIDTH, 1);
    void *scratch = device(step_pick_scratch(V));
    int accepted = 0, done = 0;
    for (EACH_SHARE(s))
        for (int round = 0; round < 6; round++) {
            struct step_live *given = host_lives();
            given[3].done = round == 5;
            struct picks a = {put(given, SLOTS * sizeof *given), samplings(), device(SLOTS * STEP_RESULTS * sizeof *a.results), seen_ids(),
                              normals(SLOTS * 3 * WIDTH, 1)};
            float *max, *logits = logits_of(s, given, get(a.how, SLOTS * sizeof *a.how), round, &max);
            struct picks b = copy_picks(&a);
            STEP(dev, step_pick, .logits = logits, .tile_max = max, .live = a.live, .sampling = a.how, .seen = a.seen, .bias = bias,
                 .results = a.results, .hidden = hidden, .last_hidden = a.last, .scratch = scratch, .rows = rows_of(s), .n_rows = count(s),
                 .vocab = V, .width = WIDTH);
            for (int g = 0; g < s->n; g++) {
                const size_t at = (size_t)first_row(s, g), of = (size_t)s->of[g].slot;
                STEP(dev, step_pick, .logits = logits + at * V, .tile_max = max + at * TILES, .live = b.live + of, .sampling = b.how + of,
                     .seen = b.seen + of * V, .bias = bias + of * V, .results = b.results + of * STEP_RESULTS, .hidden = hidden + at * WIDTH,
                     .last_hidden = b.last + of * 3 * WIDTH, .scratch = scratch, .n_rows = s->of[g].rows, .vocab = V, .width = WIDTH);
                const struct step_live *v = get(b.live + of, sizeof *v);
                accepted += v->mtp_rows > 1;
                done += v->done;
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

static void test_rows__delta_carries_the_states_of_each_slot_on(void **state)
{
    (void)state;
    need_device();
    enum { HK = 2, HV = 4, DK = 128, DV = 128, TAPS = 4, CHANNELS = 2 * HK * DK + HV * DV, STATE = HV * DK * DV, VALUES = HV * DV };
    enum { RING_A = STEP_RING * CHANNELS, RING_B = RING_A + STEP_RING * HV, FIRST = RING_B + STEP_RING * HV, OTHER = FIRST + STATE,
           SLOT = OTHER + STATE + 8 };
    const struct step_live *v = lives();
    const float *z = normals(STEP_ROWS * VALUES, 1), *conv = normals(CHANNELS * TAPS, 0.5f), *a_log = normals(HV, 1),
        *dt_bias = normals(HV, 1), *norm = normals(DV, 1), *before = normals(SLOTS * SLOT, 0.5f);
    for (EACH_SHARE(s)) {
        const struct mark start = mark();
        float *slots = put(before, SLOTS * SLOT * 4), *alone = put(before, SLOTS * SLOT * 4), *y = device(STEP_ROWS * VALUES * 4),
            *one = device(STEP_ROWS * VALUES * 4), *ssq = device(STEP_ROWS * HV * 2 * 4), *ssq_one = device(STEP_ROWS * HV * 2 * 4);
        for (int g = -1; g < s->n; g++) {       /* first together */
            const size_t at = g < 0 ? 0 : (size_t)first_row(s, g);
            float *m = g < 0 ? slots : alone + s->of[g].slot * SLOT;
            STEP(dev, step_delta, .y = (g < 0 ? y : one) + at * VALUES, .ssq = (g < 0 ? ssq : ssq_one) + at * HV * 2, .raw = m,
                 .a = m + RING_A, .b = m + RING_B, .z = z + at * VALUES, .conv = conv, .a_log = a_log, .dt_bias = dt_bias, .norm = norm,
                 .state = {m + FIRST, m + OTHER}, .live = v + (g < 0 ? 0 : s->of[g].slot), .rows = g < 0 ? rows_of(s) : NULL,
                 .slot_bytes = SLOT * 4, .n_rows = g < 0 ? count(s) : s->of[g].rows, .n_k_heads = HK, .n_v_heads = HV, .dk = DK, .dv = DV,
                 .taps = TAPS);
        }
        same_bits("outputs", y, one, STEP_ROWS * VALUES * 4);
        same_bits("sums of squares", ssq, ssq_one, STEP_ROWS * HV * 2 * 4);
        same_bits("states", slots, alone, SLOTS * SLOT * 4);
        release(start);
    }
}

/* KV rows of all slots.  The last slot's lie last and may be more than the distance of two slots. */
struct caches {
    struct kv_rows first;               /* slot 0's */
    void  *memory;
    size_t slot, bytes;
};

enum { CTX = 512, LONG_CTX = 4200, KV_HEADS = 2 };

/* Exact rows in bf16: keys of all slots, then values of all slots. */
static struct caches exact_caches(void)
{
    const size_t row = KV_HEADS * KV_DIM * 2, slot = CTX * row, half = (SLOTS - 1) * slot + LONG_CTX * row;
    char *m = device(2 * half);
    return (struct caches){{.dtype = DT_BF16, .n_kv_heads = KV_HEADS, .head_dim = KV_DIM, .k = m, .v = m + half}, m, slot, 2 * half};
}

/* Codes behind a ring of exact rows. */
static struct caches code_caches(enum kv_format keys, enum kv_format values)
{
    struct kv_rows kv = {.dtype = DT_BF16, .n_kv_heads = KV_HEADS, .head_dim = KV_DIM, .k_format = keys, .v_format = values, .sinks = 16,
                         .recent = KV_BLOCK, .ring = 4 * KV_BLOCK};
    const size_t exact = (size_t)(kv.sinks + kv.ring) * kv_exact_bytes(&kv) / 2, blocks = CTX / KV_BLOCK * KV_HEADS,
        k_codes = blocks * kv_block_bytes(keys), v_codes = blocks * kv_block_bytes(values), scales = blocks * KV_BLOCK * 2,
        slot = 2 * exact + k_codes + v_codes + 2 * scales + 256;
    char *m = device(SLOTS * slot);
    kv.k = m;
    kv.v = m + exact;
    kv.k_codes = (uint8_t *)m + 2 * exact;
    kv.v_codes = kv.k_codes + k_codes;
    kv.k_scales = (uint16_t *)(void *)(kv.v_codes + v_codes);
    kv.v_scales = kv.k_scales + scales / 2;
    return (struct caches){kv, m, slot, SLOTS * slot};
}

static void *moved(const struct caches *c, const void *p, const void *copy)
{
    return (char *)(uintptr_t)copy + ((const char *)p - (const char *)c->memory);
}

/* A slot's, in a copy of the memory. */
static struct kv_rows in_copy(const struct caches *c, const void *copy, int slot)
{
    struct kv_rows kv = c->first;
    kv.k = moved(c, kv.k, copy);
    kv.v = moved(c, kv.v, copy);
    if (kv_compressed(&kv)) {
        kv.k_codes = moved(c, kv.k_codes, copy);
        kv.v_codes = moved(c, kv.v_codes, copy);
        kv.k_scales = moved(c, kv.k_scales, copy);
        kv.v_scales = moved(c, kv.v_scales, copy);
    }
    return kv_behind(kv, (size_t)slot * c->slot);
}

static struct step_live *attention_lives(bool exact)
{
    struct step_live *v = host_lives();
    if (exact) {                        /* where ranges become longer */
        v[SLOTS - 1].pos = 4093;
        v[SLOTS - 1].mtp_pos = 4092;
    }
    return v;
}

static void fill_caches(const struct caches *c, const struct step_live *v)
{
    enum { ROW = KV_HEADS * KV_DIM };
    const float *old = normals(CTX * ROW, 1);
    for (int of = 0; of < SLOTS; of++) {
        const struct kv_rows kv = in_copy(c, c->memory, of);
        const int n = v[of].mtp_pos;
        for (int p = 0; p < n; p += CTX / 2)
            RUN(dev, kv_store, .kv = kv, .k = old + of * ROW, .v = old + 2 * of * ROW, .n_tokens = n - p < CTX / 2 ? n - p : CTX / 2, .pos = p);
        if (kv_sealed(&kv, n - 1) > 0)
            RUN(dev, kv_seal, .kv = kv, .from = 0, .to = kv_sealed(&kv, n - 1));
    }
}

static void check_attention(const struct share *s, const struct caches *c)
{
    enum { Q = 8, HALF = 32, QUERY = Q * KV_DIM, KEY = KV_HEADS * KV_DIM };
    const struct mark start = mark();
    const struct step_live *known = attention_lives(!kv_compressed(&c->first)), *v = put(known, SLOTS * sizeof *v);
    const float *qg = normals(STEP_ROWS * 2 * QUERY, 1), *k = normals(STEP_ROWS * KEY, 1), *vs = normals(STEP_ROWS * KEY, 1),
        *qn = normals(KV_DIM, 0.3f), *kn = normals(KV_DIM, 0.3f), *freq = normals(HALF, 0.1f);
    void *scratch = device(step_attention_scratch(Q));
    for (int with = 0; with < 2; with++) {      /* rows that are of no use among them */
        void *together = put(c->memory, c->bytes), *alone = put(c->memory, c->bytes);
        float *y = device(STEP_ROWS * QUERY * 4), *one = device(STEP_ROWS * QUERY * 4);
        for (int g = -1; g < s->n; g++) {       /* first together */
            const size_t at = g < 0 ? 0 : (size_t)first_row(s, g), of = g < 0 ? 0 : (size_t)s->of[g].slot;
            STEP(dev, step_attention, .y = (g < 0 ? y : one) + at * QUERY, .qg = qg + at * 2 * QUERY, .k = k + at * KEY, .v = vs + at * KEY,
                 .q_norm = qn, .k_norm = kn, .freq = freq, .kv = in_copy(c, g < 0 ? together : alone, (int)of),
                 .pos = with ? &v[of].mtp_pos : &v[of].pos, .rope_offset = &v[of].rope_offset,
                 .n_valid = with ? &v[of].mtp_rows : NULL, .rows = g < 0 ? rows_of(s) : NULL,
                 .slot_bytes = c->slot, .scratch = scratch, .n_rows = g < 0 ? count(s) : s->of[g].rows, .n_q_heads = Q, .half = HALF,
                 .eps = eps, .rope_scale = 1, .scale = 0.1f);
        }
        for (int g = 0; g < s->n; g++)
            same_bits("outputs", y + first_row(s, g) * QUERY, one + first_row(s, g) * QUERY,
                      (size_t)(with ? useful(s, g, known) : s->of[g].rows) * QUERY * 4);
        same_bits("KV rows", together, alone, c->bytes);
    }
    release(start);
}

static void test_rows__attention_reads_and_stores_the_rows_of_each_slot(void **state)
{
    (void)state;
    need_device();
    const struct caches c = exact_caches();
    fill_caches(&c, attention_lives(true));
    for (EACH_SHARE(s))
        check_attention(s, &c);
}

static void test_rows__attention_over_codes_does_so_too(void **state)
{
    (void)state;
    need_device();
    static const enum kv_format formats[][2] = {{KV_TQ4, KV_TQ4}, {KV_INT8, KV_TQ4}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const struct caches c = code_caches(formats[i][0], formats[i][1]);
        fill_caches(&c, attention_lives(false));
        for (EACH_SHARE(s))
            check_attention(s, &c);
    }
}

#define ROWS_TEST(name) cmocka_unit_test_teardown(name, end_test)
#define ROWS_TESTS \
    ROWS_TEST(test_rows__ids_are_those_of_each_slot), \
    ROWS_TEST(test_rows__a_projection_fills_the_ring_of_each_slot), \
    ROWS_TEST(test_rows__those_of_use_are_each_slots_first_ones), \
    ROWS_TEST(test_rows__logits_have_the_penalties_of_each_slot), \
    ROWS_TEST(test_rows__drafts_come_from_the_chosen_row_of_each_slot), \
    ROWS_TEST(test_rows__a_pick_takes_of_each_slot_what_its_drafts_allow), \
    ROWS_TEST(test_rows__delta_carries_the_states_of_each_slot_on), \
    ROWS_TEST(test_rows__attention_reads_and_stores_the_rows_of_each_slot), \
    ROWS_TEST(test_rows__attention_over_codes_does_so_too)
