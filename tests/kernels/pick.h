/* Picking on a device against the law of engine/sampler.h: greedy exactly, sampled by chi-square against the exact
 * distribution; acceptance, stops, room, logits that are NaN or infinite, and what a pick leaves behind for the next step. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/sampler.h"
#include "tests/kernels/one_device.h"
#include "tests/kernels/rand.h"
#include "tests/picker.h"

static int most_ids = 1 << 30;          /* larger vocabularies are left out */

static void need_device(void)
{
    if (!dev)
        skip();
}

static void finish(void)
{
    struct err e = {0};
    if (!dev->finish(dev, &e))
        fail_msg("%s", e.msg);
}

enum { WIDTH = 256 };

/* One picker with everything around it.  Host copies; put() and get() move them. */
struct rig {
    int vocab, rows;
    float *logits;                      /* [rows, vocab] */
    float *hidden;                      /* [rows, WIDTH] */
    struct step_live live;
    struct step_sampling how;
    uint8_t *seen;
    float *bias;                        /* [vocab] */
    struct step_result *results;        /* memory of both sides */
    struct { float *logits, *tile_max, *hidden, *last, *bias; struct step_live *live; struct step_sampling *how; uint8_t *seen; void *scratch; } on;
};

static void *device(size_t bytes)
{
    void *p = dev->alloc(dev, bytes);
    assert_non_null(p);
    return p;
}

static void rig_open(struct rig *g, int vocab, int rows)
{
    size_t V = (size_t)vocab, R = (size_t)rows;
    *g = (struct rig){.vocab = vocab, .rows = rows};
    g->logits = calloc(R * V, sizeof(float));
    g->hidden = rand_array(R * WIDTH, 1);
    g->seen = calloc(V, 1);
    g->bias = calloc(V, sizeof(float));
    g->results = dev->alloc_host(dev, STEP_RESULTS * sizeof *g->results);
    assert_non_null(g->results);
    g->on.logits = device(R * V * sizeof(float));
    g->on.tile_max = device(R * (size_t)step_maxima(vocab) * sizeof(float));
    g->on.hidden = device(R * WIDTH * sizeof(float));
    g->on.last = device(3 * WIDTH * sizeof(float));
    g->on.live = device(sizeof *g->on.live);
    g->on.how = device(sizeof *g->on.how);
    g->on.seen = device(V);
    g->on.bias = device(V * sizeof(float));
    g->on.scratch = device(step_pick_scratch(vocab));
    g->live = (struct step_live){.pos = 100};
    g->how = (struct step_sampling){.repetition_penalty = 1, .n_ids = vocab, .room = 1000};
}

static void rig_close(struct rig *g)
{
    void *mem[] = {g->on.logits, g->on.tile_max, g->on.hidden, g->on.last, g->on.live, g->on.how, g->on.seen, g->on.bias, g->on.scratch};
    for (size_t i = 0; i < sizeof mem / sizeof *mem; i++)
        dev->free(dev, mem[i]);
    dev->free_host(dev, g->results);
    free(g->logits);
    free(g->hidden);
    free(g->seen);
    free(g->bias);
}

/* Logits as the head leaves them: nothing behind n_ids, and the greatest of every 16, infinite when one is NaN. */
static void put_logits(struct rig *g)
{
    size_t V = (size_t)g->vocab, n = (size_t)g->rows * V;
    size_t tiles = (size_t)step_maxima(g->vocab), n_max = (size_t)g->rows * tiles;
    float *max = malloc(n_max * sizeof *max);
    for (size_t i = 0; i < n; i++)
        if ((int)(i % V) >= g->how.n_ids)
            g->logits[i] = -INFINITY;
    for (size_t t = 0; t < n_max; t++)
        max[t] = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        float *m = &max[i / V * tiles + i % V / 16];
        *m = isnan(g->logits[i]) ? INFINITY : fmaxf(*m, g->logits[i]);
    }
    dev->copy(dev, g->on.logits, g->logits, n * sizeof(float));
    dev->copy(dev, g->on.tile_max, max, n_max * sizeof(float));
    dev->copy(dev, g->on.hidden, g->hidden, (size_t)g->rows * WIDTH * sizeof(float));
    finish();
    free(max);
}

static void put(struct rig *g)
{
    put_logits(g);
    dev->copy(dev, g->on.live, &g->live, sizeof g->live);
    dev->copy(dev, g->on.how, &g->how, sizeof g->how);
    dev->copy(dev, g->on.seen, g->seen, (size_t)g->vocab);
    dev->copy(dev, g->on.bias, g->bias, (size_t)g->vocab * sizeof(float));
    finish();
}

static void get(struct rig *g)
{
    dev->copy(dev, &g->live, g->on.live, sizeof g->live);
    dev->copy(dev, &g->how, g->on.how, sizeof g->how);
    dev->copy(dev, g->seen, g->on.seen, (size_t)g->vocab);
    finish();
}

static void launch(struct rig *g, bool first)
{
    STEP(dev, step_pick, .logits = g->on.logits, .tile_max = g->on.tile_max, .live = g->on.live, .sampling = g->on.how, .seen = g->on.seen,
         .bias = g->on.bias, .results = g->results, .hidden = g->on.hidden, .last_hidden = g->on.last, .scratch = g->on.scratch, .n_rows = g->rows,
         .vocab = g->vocab, .width = WIDTH, .first = first);
}

static struct step_result pick(struct rig *g, bool first)
{
    for (int i = 0; i < STEP_RESULTS; i++)
        memset(&g->results[i], 0xff, sizeof g->results[i]);
    launch(g, first);
    finish();
    get(g);
    struct step_result r = g->results[g->live.step % STEP_RESULTS];
    assert_int_equal(r.serial, g->live.step);
    return r;
}

static void random_logits(struct rig *g, float scale)
{
    for (size_t i = 0; i < (size_t)g->rows * (size_t)g->vocab; i++)
        g->logits[i] = scale * rand_normal();
}

/* ---- greedy ---- */

static void test_pick__greedy_is_the_argmax_and_ties_go_to_the_lower_id(void **state)
{
    (void)state;
    need_device();
    const int vocabs[] = {512, 1000, 1024, 1500, 4096, 151936, 248320};
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs && vocabs[v] <= most_ids; v++)
        for (int rows = 1; rows <= STEP_ROWS; rows += rows == 1 ? 2 : 5) {
            struct rig g;
            rig_open(&g, vocabs[v], rows);
            for (int round = 0; round < 6; round++) {
                size_t V = (size_t)g.vocab;
                int n_ids = g.vocab - round * 77;
                g.live = (struct step_live){.pos = 100};
                g.how = (struct step_sampling){.repetition_penalty = 1, .n_ids = n_ids, .room = 1000};
                for (size_t i = 0; i < (size_t)rows * V; i++)           /* few values: many ties; on odd rounds below zero */
                    g.logits[i] = round < 2 ? rand_normal() : (float)(rand_u64() % 64) - (round % 2 ? 100.0f : 0.0f);
                if (round == 4)
                    for (size_t i = 0; i < (size_t)rows * V; i++)
                        g.logits[i] = i % 3 ? -0.0f : 0.0f;
                g.live.n_drafts = rows - 1;
                int want[STEP_ROWS];
                for (int t = 0; t < rows; t++) {
                    want[t] = sampler_argmax(g.logits + (size_t)t * V, n_ids);
                    if (t + 1 < rows)
                        g.live.ids[1 + t] = want[t];
                }
                put(&g);
                struct step_result r = pick(&g, false);
                assert_int_equal(r.n, rows);
                assert_int_equal(r.n_drafts, rows - 1);
                assert_int_equal(r.ended, STEP_GOES_ON);
                for (int t = 0; t < rows; t++) {
                    assert_int_equal(r.ids[t], want[t]);
                    assert_int_equal(r.drafted[t], t + 1 < rows);
                    assert_true(r.prob[t] == 1);
                }
            }
            rig_close(&g);
        }
}

static double share(const float *logits, int n, int id)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i] - (double)logits[id]);
    return 1 / sum;
}

/* Flat, peaked, and with few values, so that several ids are the greatest. */
static void draft_logits(struct rig *g, int kind)
{
    for (int j = 0; j < g->vocab; j++)
        g->logits[j] = kind == 0 ? (float)(rand_u64() % 5000) - 6000 : kind == 1 ? 0.5f * rand_normal() : 4 * rand_normal();
}

static void test_pick__a_draft_is_the_argmax_of_the_first_ids_with_its_share(void **state)
{
    (void)state;
    need_device();
    struct rig g;
    rig_open(&g, 248320, 1);
    struct step_drafts *drafts = dev->alloc_host(dev, sizeof *drafts);
    const int n_ids[] = {248320, 65536, 4096, 512, 500, 16, 1};
    assert_non_null(drafts);
    for (int i = 0; i < 21; i++) {
        const int n = n_ids[i % 7], at = i % (STEP_ROWS - 1);
        g.how.n_ids = n;
        g.live.step = i;
        draft_logits(&g, i / 7);
        put(&g);
        STEP(dev, step_draft, .logits = g.on.logits, .tile_max = g.on.tile_max, .live = g.on.live, .drafts = drafts, .i = at, .n_ids = n);
        get(&g);
        int want = sampler_argmax(g.logits, n);
        assert_int_equal(g.live.draft_ids[at], want);
        assert_int_equal(g.live.ids[1 + at], want);
        assert_int_equal(g.live.n_drafts, at + 1);
        assert_int_equal(drafts->ids[at], want);
        assert_int_equal(drafts->serial, i * STEP_ROWS + at + 1);
        assert_true(fabs((double)drafts->prob[at] / share(g.logits, n, want) - 1) < 0x1p-12);
    }
    g.how.n_ids = 16;
    draft_logits(&g, 1);
    g.logits[3] = NAN;
    put(&g);
    STEP(dev, step_draft, .logits = g.on.logits, .tile_max = g.on.tile_max, .live = g.on.live, .drafts = drafts, .i = 0, .n_ids = 16);
    get(&g);
    assert_true(drafts->prob[0] == 0);
    dev->free_host(dev, drafts);
    rig_close(&g);
}

/* ---- what a pick leaves behind ---- */

static void last_hidden(struct rig *g, float *out)
{
    dev->copy(dev, out, g->on.last, 3 * WIDTH * sizeof(float));
    finish();
}

/* Row t's greatest logit becomes id[t]. */
static void want_ids(struct rig *g, const int *ids)
{
    random_logits(g, 1);
    for (int t = 0; t < g->rows; t++)
        g->logits[(size_t)t * (size_t)g->vocab + (size_t)ids[t]] = 50;
}

static void test_pick__rows_count_while_picks_and_drafts_agree(void **state)
{
    (void)state;
    need_device();
    struct rig g;
    rig_open(&g, 4096, 4);
    float last[3 * WIDTH], before[3 * WIDTH];
    const int ids[4] = {11, 22, 33, 44};
    for (int right = 0; right <= 3; right++)
        for (int n_drafts = right; n_drafts <= 3; n_drafts++)
            for (int parity = 0; parity < 2; parity++) {
                memset(g.seen, 0, 4096);
                g.live = (struct step_live){.pos = 200, .n_apply = 1, .parity = parity, .ids = {5, 11, 22, 33}, .n_drafts = n_drafts, .step = 6};
                g.how.room = 1000;
                g.how.rng = 9;
                if (right < 3)
                    g.live.ids[1 + right] = 7;
                want_ids(&g, ids);
                put(&g);
                last_hidden(&g, before);
                struct step_result r = pick(&g, false);
                int n = right + 1;
                assert_int_equal(r.n, n);
                assert_int_equal(r.n_drafts, n_drafts);
                assert_int_equal(r.ended, STEP_GOES_ON);
                assert_int_equal(r.serial, 7);
                for (int t = 0; t < n; t++) {
                    assert_int_equal(r.ids[t], ids[t]);
                    assert_int_equal(r.drafted[t], t < right);
                    assert_int_equal(g.live.mtp_next[t], ids[t]);
                }
                const struct step_live *v = &g.live;
                assert_int_equal(v->pos, 200 + n);
                assert_int_equal(v->n_apply, n);
                assert_int_equal(v->parity, 1 - parity);
                assert_int_equal(v->done, 0);
                assert_int_equal(v->ids[0], ids[n - 1]);
                assert_int_equal(v->n_drafts, 0);
                assert_int_equal(v->mtp_pos, 200);
                assert_int_equal(v->mtp_rows, n);
                assert_int_equal(v->mtp_last, n - 1);
                for (int i = 0; i < STEP_ROWS; i++)
                    assert_int_equal(v->draft_pos[i], 200 + n + i);
                assert_int_equal(v->step, 7);
                assert_int_equal(v->drafting, 1);
                assert_int_equal(g.how.room, 1000 - n);
                assert_true(g.how.rng == 9);    /* greedy draws nothing */
                for (int id = 0; id < 4096; id++)
                    assert_int_equal(g.seen[id], (id == 11 || (id == 22 && n > 1) || (id == 33 && n > 2) || (id == 44 && n > 3)) ? 3 : 0);
                last_hidden(&g, last);
                assert_memory_equal(last + (1 - parity) * WIDTH, g.hidden + (n - 1) * WIDTH, WIDTH * sizeof(float));
                assert_memory_equal(last + parity * WIDTH, before + parity * WIDTH, WIDTH * sizeof(float));
                assert_memory_equal(last + 2 * WIDTH, before + (1 - parity) * WIDTH, WIDTH * sizeof(float));
            }
    rig_close(&g);
}

/* Whatever the logits say. */
static void test_pick__in_a_trial_drafts_are_right_by_lot(void **state)
{
    (void)state;
    need_device();
    struct rig g;
    rig_open(&g, 1024, 4);
    const float rates[][2] = {{0, 0}, {1, 1}, {0.75f, 0.75f}, {0, 1}};
    const int ids[4] = {11, 22, 33, 44};
    for (int i = 0; i < 4; i++) {
        int verified = 0, right = 0;
        for (int pos = 100; pos < 300; pos++) {
            g.live = (struct step_live){.pos = pos, .ids = {5, 11, 7, 8, 9}, .n_drafts = 3};     /* one more was made: 9 */
            g.how.room = 1000;
            g.how.trial[0] = rates[i][0];
            g.how.trial[1] = rates[i][1];
            g.how.trial_tokens = 200;
            want_ids(&g, ids);
            put(&g);
            const struct step_result r = pick(&g, false);
            verified += r.n < 4 ? r.n : 3;
            for (int t = 0; t < r.n; t++) {
                right += r.drafted[t];
                assert_int_equal(r.drafted[t], t < r.n - 1);
                if (t == 3)
                    assert_true(r.ids[t] == 9 || (r.ids[t] == ids[t] && rates[i][1] < 1));
                else
                    assert_int_equal(r.ids[t], r.drafted[t] ? g.live.mtp_next[t] : ids[t]);
            }
            if (i == 3)                 /* from position 200 on */
                assert_int_equal(r.n, pos < 200 ? 1 : 4);
        }
        const double rate = (double)right / verified;
        if (i < 2)
            assert_true(rate == (double)rates[i][0]);
        else if (i == 2)
            assert_true(rate > 0.65 && rate < 0.85);
    }
    rig_close(&g);
}

static void test_pick__the_first_pick_runs_no_row(void **state)
{
    (void)state;
    need_device();
    struct rig g;
    rig_open(&g, 1024, 1);
    float last[3 * WIDTH];
    g.live = (struct step_live){.pos = 77, .parity = 1, .n_drafts = 3, .ids = {1, 2, 3, 4}};
    want_ids(&g, (int[]){600});
    put(&g);
    struct step_result r = pick(&g, true);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.ids[0], 600);
    assert_int_equal(r.n_drafts, 0);
    assert_int_equal(r.drafted[0], 0);
    assert_int_equal(g.live.pos, 77);
    assert_int_equal(g.live.n_apply, 0);
    assert_int_equal(g.live.parity, 1);
    assert_int_equal(g.live.mtp_pos, 76);
    assert_int_equal(g.live.mtp_rows, 1);
    assert_int_equal(g.live.mtp_last, 0);
    assert_int_equal(g.live.mtp_next[0], 600);
    assert_int_equal(g.live.draft_pos[0], 77);
    assert_int_equal(g.live.n_drafts, 0);
    assert_int_equal(g.live.step, 1);
    last_hidden(&g, last);
    assert_memory_equal(last + WIDTH, g.hidden, WIDTH * sizeof(float));
    rig_close(&g);
}

static void test_pick__stop_ids_and_room_end_the_answer_in_the_middle_of_a_step(void **state)
{
    (void)state;
    need_device();
    struct rig g;
    rig_open(&g, 1024, 4);
    const int ids[4] = {11, 22, 33, 44};
    const struct { int room, stop, n, ended; } rows[] = {
        {1000, 5, 4, 0}, {1000, 11, 1, 1}, {1000, 33, 3, 1}, {1000, 44, 4, 1}, {4, 5, 4, 2}, {3, 5, 3, 2}, {1, 5, 1, 2}, {3, 33, 3, 1}, {2, 33, 2, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        g.live = (struct step_live){.pos = 200, .ids = {5, 11, 22, 33}, .n_drafts = 3};
        g.how.room = rows[i].room;
        g.how.n_stop = 2;
        g.how.stop[0] = 999;
        g.how.stop[1] = rows[i].stop;
        want_ids(&g, ids);
        put(&g);
        struct step_result r = pick(&g, false);
        assert_int_equal(r.n, rows[i].n);
        assert_int_equal(r.ended, rows[i].ended);
        assert_int_equal(g.live.done, rows[i].ended != 0);
        assert_int_equal(g.live.pos, 200 + r.n);
        assert_int_equal(g.how.room, rows[i].room - r.n);

        /* and the step behind it */
        struct step_live before = g.live;
        float last[2][3 * WIDTH];
        last_hidden(&g, last[0]);
        r = pick(&g, false);
        if (rows[i].ended) {
            assert_int_equal(r.n, 0);
            assert_int_equal(r.ended, STEP_GOES_ON);
            before.n_apply = before.mtp_rows = 0;
            before.parity ^= 1;
            before.step++;
            assert_memory_equal(&before, &g.live, sizeof before);
            assert_int_equal(g.how.room, rows[i].room - rows[i].n);
            last_hidden(&g, last[1]);   /* the same hidden state beside the other states */
            assert_memory_equal(last[1] + g.live.parity * WIDTH, last[0] + (1 - g.live.parity) * WIDTH, WIDTH * sizeof(float));
            assert_memory_equal(last[1] + 2 * WIDTH, last[0] + g.live.parity * WIDTH, WIDTH * sizeof(float));
        } else {
            assert_true(r.n > 0);
        }
    }
    rig_close(&g);
}

static void test_pick__numbers_that_are_none_end_the_answer_when_their_row_is_reached(void **state)
{
    (void)state;
    need_device();
    struct rig g;
    rig_open(&g, 4096, 3);
    const float bad[] = {NAN, INFINITY, -NAN};
    const int ids[3] = {11, 22, 33};
    for (int sampled = 0; sampled < 2; sampled++)
        for (int i = 0; i < 3; i++)
            for (int row = 0; row < 3; row++)
                for (int right = 0; right < 3; right++) {
                    g.live = (struct step_live){.pos = 200, .ids = {5, 11, 22}, .n_drafts = 2};
                    g.how = (struct step_sampling){.temperature = sampled ? 0.5f : 0, .top_k = 20, .repetition_penalty = 1, .n_ids = 4096,
                                                   .room = 50};
                    if (right < 2)
                        g.live.ids[1 + right] = 7;
                    want_ids(&g, ids);
                    g.logits[row * 4096 + 1234] = bad[i];
                    g.logits[row * 4096 + 2345] = NAN;
                    put(&g);
                    struct step_result r = pick(&g, false);
                    if (right < row) {
                        assert_int_equal(r.ended, STEP_GOES_ON);
                        assert_int_equal(r.n, right + 1);
                        continue;
                    }
                    assert_int_equal(r.ended, STEP_BAD_LOGIT);
                    assert_int_equal(r.n, 0);
                    assert_int_equal(r.bad_id, 1234);
                    assert_int_equal(isnan(r.bad_logit), isnan(bad[i]));
                    assert_int_equal(g.live.done, 1);
                    assert_int_equal(g.live.pos, 200);
                    assert_int_equal(g.live.n_apply, 0);
                }
    for (int sampled = 0; sampled < 2; sampled++) {
        g.live = (struct step_live){.pos = 200};
        g.how = (struct step_sampling){.temperature = sampled ? 0.5f : 0, .repetition_penalty = 1, .n_ids = 4096, .room = 50};
        for (int i = 0; i < 3 * 4096; i++)
            g.logits[i] = -INFINITY;
        put(&g);
        struct step_result r = pick(&g, false);
        assert_int_equal(r.ended, STEP_ALL_BANNED);
        assert_int_equal(r.n, 0);
        g.live = (struct step_live){.pos = 200};
        g.logits[777] = -1e30f;         /* all but one are banned */
        put(&g);
        r = pick(&g, false);
        assert_int_equal(r.ended, STEP_GOES_ON);
        assert_int_equal(r.ids[0], 777);
        assert_true(r.prob[0] == 1);
    }
    rig_close(&g);
}

/* ---- sampling ---- */

struct ranked { double weight; float logit; int id; };
static int better_first(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit) - (x->logit > y->logit) : (x->id > y->id) - (x->id < y->id);
}

/* The distribution by definition, from the best down; returns how many ids are kept. */
static int target(struct ranked *r, const float *logits, const struct step_sampling *how)
{
    int n = 0, kept = 0;
    double sum = 0, upto = 0, total = 0;
    for (int i = 0; i < how->n_ids; i++)
        if (logits[i] > -INFINITY)
            r[n++] = (struct ranked){.logit = logits[i], .id = i};
    qsort(r, (size_t)n, sizeof *r, better_first);
    n = how->top_k && how->top_k < n ? how->top_k : n;
    for (int i = 0; i < n; i++)
        sum += r[i].weight = exp(((double)r[i].logit - (double)r[0].logit) / (double)how->temperature);
    if (how->top_p > 0 && how->top_p < 1)
        while (kept < n && upto < (double)how->top_p * sum)
            upto += r[kept++].weight;
    else
        kept = n;
    while (kept > 1 && r[kept - 1].weight < (double)how->min_p)
        kept--;
    for (int i = 0; i < kept; i++)
        total += r[i].weight;
    for (int i = 0; i < kept; i++)
        r[i].weight /= total;
    return kept;
}

/* Many draws, `rows` at a time, against the exact distribution; deviations from chi-square's mean in its standard deviation. */
static double misfit(struct rig *g, int launches, int *n_kept)
{
    struct ranked *r = malloc((size_t)g->vocab * sizeof *r);
    int *rank = malloc((size_t)g->vocab * sizeof *rank), kept = target(r, g->logits, &g->how), draws = 0;
    double *count = calloc((size_t)kept, sizeof *count), chi = 0, rest_p = 0, rest_n = 0;
    for (int i = 0; i < g->vocab; i++)
        rank[i] = -1;
    for (int i = 0; i < kept; i++)
        rank[r[i].id] = i;
    *n_kept = kept;
    for (int i = 0; i < launches; i++) {
        launch(g, false);
        if (i % STEP_RESULTS != STEP_RESULTS - 1)
            continue;
        finish();
        for (int s = 0; s < STEP_RESULTS; s++) {
            const struct step_result *x = &g->results[s];
            assert_int_equal(x->n, 1);
            int k = rank[x->ids[0]];
            if (k < 0)
                fail_msg("id %d was picked, which is cut away", x->ids[0]);
            if (!(fabs((double)x->prob[0] - r[k].weight) <= 1e-4 * r[k].weight))
                fail_msg("id %d has probability %g, expected %g", x->ids[0], (double)x->prob[0], r[k].weight);
            count[k]++;
            draws++;
        }
    }
    int cells = 0;
    for (int k = 0; k < kept; k++) {
        double expected = r[k].weight * draws;
        if (expected < 8) {
            rest_p += r[k].weight;
            rest_n += count[k];
        } else {
            chi += (count[k] - expected) * (count[k] - expected) / expected;
            cells++;
        }
    }
    if (rest_p * draws >= 8) {
        chi += (rest_n - rest_p * draws) * (rest_n - rest_p * draws) / (rest_p * draws);
        cells++;
    }
    free(count);
    free(rank);
    free(r);
    return cells > 1 ? (chi - (cells - 1)) / sqrt(2.0 * (cells - 1)) : 0;
}

static void test_pick__sampled_ids_have_the_target_distribution(void **state)
{
    (void)state;
    need_device();
    const struct step_sampling hows[] = {
        {.temperature = 1, .top_k = 1},
        {.temperature = 1, .top_k = 20},
        {.temperature = 0.6f, .top_k = 20, .top_p = 0.95f},
        {.temperature = 0.7f, .top_k = 20, .top_p = 0.8f, .min_p = 0.05f},
        {.temperature = 2, .top_k = 300, .top_p = 0.9f},
        {.temperature = 2, .top_k = 512},
        {.temperature = 1, .top_k = 700},               /* the slow way */
        {.temperature = 2, .top_k = 3000, .top_p = 0.7f},
        {.temperature = 1},
        {.temperature = 0.3f},
        {.temperature = 2},                             /* mostly behind the best 256 */
        {.temperature = 1, .top_p = 0.9f},
        {.temperature = 2, .top_p = 0.5f},
        {.temperature = 2, .top_p = 0.95f},
        {.temperature = 1, .min_p = 0.05f},
        {.temperature = 2, .min_p = 0.02f},
        {.temperature = 1, .top_p = 0.9f, .min_p = 0.02f},
        {.temperature = 1, .top_k = 1000000, .top_p = 1},
    };
    const struct { int vocab, n_ids; float scale; bool coarse; } shapes[] = {
        {512, 512, 2, false}, {1024, 1000, 1.5f, true}, {4096, 4096, 2, false}, {248320, 248077, 3, false}, {248320, 248320, 2.5f, true},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes && shapes[s].vocab <= most_ids; s++) {
        struct rig g;
        rig_open(&g, shapes[s].vocab, 1);
        random_logits(&g, shapes[s].scale);
        for (int i = 0; i < g.vocab; i += 97)           /* some stand out */
            g.logits[i] += 2 * shapes[s].scale;
        for (int i = 0; i < g.vocab && shapes[s].coarse; i++)           /* ties */
            g.logits[i] = rintf(g.logits[i] * 4) / 4;
        for (int i = 5; i < g.vocab; i += 1000)
            g.logits[i] = -INFINITY;
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
            int kept;
            g.how = hows[h];
            g.how.repetition_penalty = 1;
            g.how.n_ids = shapes[s].n_ids;
            g.how.room = INT32_MAX;
            g.how.rng = 12345 + h;
            g.live = (struct step_live){.pos = 100};
            put(&g);
            double m = misfit(&g, g.vocab > 10000 ? 2000 : 4000, &kept);
            if (m > 5)
                fail_msg("vocab %d, setting %zu (%d ids): chi-square is %.1f deviations off", g.vocab, h, kept, m);
        }
        rig_close(&g);
    }
}

/* The law on a CPU with the same numbers: the same stream, the same law; the order in which ids are summed differs, so only the
 * distribution is the same in general, but with one or two ids left so are the picks. */
static void test_pick__the_random_numbers_are_the_samplers(void **state)
{
    (void)state;
    need_device();
    struct rig g;
    struct err e;
    rig_open(&g, 512, 1);
    struct picker *s = picker_open(512);
    for (int i = 0; i < 512; i++)
        g.logits[i] = -INFINITY;
    g.logits[17] = 1;
    g.logits[300] = 0.7f;
    g.live = (struct step_live){.pos = 100};
    g.how = (struct step_sampling){.temperature = 1, .repetition_penalty = 1, .n_ids = 512, .room = 1000, .rng = 42};
    struct sampling how = {.temperature = 1, .seed = 42};
    picker_begin(s, &how, NULL, 0);
    put(&g);
    for (int i = 0; i < 200; i++) {
        float logits[512];
        struct pick p;
        memcpy(logits, g.logits, sizeof logits);
        assert_true(picker_pick(s, logits, &p, &e));
        struct step_result r = pick(&g, false);
        assert_int_equal(r.ids[0], p.id);
        assert_true(fabsf(r.prob[0] - p.prob) < 1e-6f);
    }
    picker_close(s);
    rig_close(&g);
}

/* Rows of one launch and launches of one row: the same stream, the same ids. */
static void test_pick__a_seed_gives_the_same_ids_however_rows_are_cut(void **state)
{
    (void)state;
    need_device();
    const struct step_sampling hows[] = {{.temperature = 1, .top_k = 20, .top_p = 0.95f}, {.temperature = 1.5f}, {.temperature = 2, .top_k = 900}};
    enum { V = 4096, N = 8 };
    struct rig one, all;
    rig_open(&one, V, 1);
    rig_open(&all, V, N);
    for (size_t h = 0; h < 3; h++)
        for (int round = 0; round < 8; round++) {
            int ids[N];
            float prob[N];
            random_logits(&all, 2);
            one.how = hows[h];
            one.how.n_ids = V;
            one.how.room = 1000;
            one.how.repetition_penalty = 1;
            one.how.rng = (uint64_t)round * 77;
            all.how = one.how;
            one.live = all.live = (struct step_live){.pos = 50, .n_drafts = N - 1};
            for (int t = 0; t < N; t++) {
                memcpy(one.logits, all.logits + t * V, V * sizeof(float));
                put(&one);
                struct step_result r = pick(&one, false);
                assert_int_equal(r.n, 1);
                ids[t] = r.ids[0];
                prob[t] = r.prob[0];
                if (t + 1 < N)
                    all.live.ids[1 + t] = r.ids[0];
            }
            put(&all);
            for (int again = 0; again < 2; again++) {
                struct step_live live = all.live;
                struct step_sampling how = all.how;
                struct step_result r = pick(&all, false);
                assert_int_equal(r.n, N);
                assert_memory_equal(r.ids, ids, sizeof ids);
                assert_memory_equal(r.prob, prob, sizeof prob);
                assert_true(all.how.rng == one.how.rng);
                all.live = live;
                all.how = how;
                put(&all);
            }
        }
    rig_close(&one);
    rig_close(&all);
}

/* A draft counts as often as the target has it. */
static void test_pick__drafts_are_accepted_with_their_probability(void **state)
{
    (void)state;
    need_device();
    enum { V = 1024, N = 4000 };
    struct rig g;
    rig_open(&g, V, 2);
    random_logits(&g, 2);
    g.how = (struct step_sampling){.temperature = 1, .top_k = 20, .repetition_penalty = 1, .n_ids = V, .room = INT32_MAX, .rng = 3};
    struct ranked r[V];
    int n = target(r, g.logits, &g.how), hits = 0;
    assert_int_equal(n, 20);
    for (int i = 0; i < N; i++) {
        g.live = (struct step_live){.pos = 100, .n_drafts = 1, .ids = {0, r[0].id}};
        if (!i)
            put(&g);
        dev->copy(dev, g.on.live, &g.live, sizeof g.live);
        struct step_result x = pick(&g, false);
        hits += x.n == 2;
        assert_int_equal(x.n == 2, x.ids[0] == r[0].id);
    }
    double p = r[0].weight, off = (hits - p * N) / sqrt(p * (1 - p) * N);
    assert_true(fabs(off) < 5);
    rig_close(&g);
}

/* Bias and penalties of a logit of row t, as the head applies them. */
static float penalised(const struct rig *g, float l, int id, int t)
{
    int seen = g->seen[id];
    for (int i = 0; i < t; i++)
        seen = g->live.ids[1 + i] == id ? 3 : seen;
    l += g->how.biased ? g->bias[id] : 0;
    if (seen && g->how.repetition_penalty != 1)
        l = l > 0 ? l / g->how.repetition_penalty : l * g->how.repetition_penalty;
    return seen & STEP_IN_ANSWER ? l - g->how.presence_penalty : l;
}

static void check_logprobs(const struct logprobs *o, const float *plain, int n_ids, int n, int id)
{
    struct ranked *r = malloc((size_t)n_ids * sizeof *r);
    double sum = 0;
    for (int i = 0; i < n_ids; i++) {
        r[i] = (struct ranked){.logit = plain[i], .id = i};
        sum += exp((double)plain[i]);
    }
    qsort(r, (size_t)n_ids, sizeof *r, better_first);
    assert_int_equal(o->n, n < n_ids ? n : n_ids);
    assert_true(fabs((double)o->prob - exp((double)plain[id]) / sum) < 1e-5);
    for (int k = 0; k < o->n; k++) {    /* what was added and taken off again may have changed the last bit, and with it the order */
        assert_true(fabs((double)o->probs[k] - exp((double)r[k].logit) / sum) < 1e-5);
        assert_true(fabs((double)o->probs[k] - exp((double)plain[o->ids[k]]) / sum) < 1e-5);
        for (int j = 0; j < k; j++)
            assert_int_not_equal(o->ids[j], o->ids[k]);
    }
    free(r);
}

static void test_pick__logprobs_are_what_the_model_gave(void **state)
{
    (void)state;
    need_device();
    const struct step_sampling hows[] = {
        {.n_alternatives = 8, .repetition_penalty = 1}, {.n_alternatives = 3, .repetition_penalty = 1.2f, .presence_penalty = 1.5f},
        {.n_alternatives = 8, .repetition_penalty = 1, .presence_penalty = 1.5f, .temperature = 1, .top_k = 20, .top_p = 0.95f},
        {.n_alternatives = 8, .repetition_penalty = 1.1f, .presence_penalty = 0.5f, .temperature = 1.3f, .biased = 1},
        {.n_alternatives = 1, .repetition_penalty = 1, .temperature = 1, .top_p = 0.9f},
    };
    const struct { int vocab, n_ids, rows; } shapes[] = {{512, 500, 1}, {512, 5, 2}, {4096, 4096, 4}, {248320, 248077, 3}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes && shapes[s].vocab <= most_ids; s++)
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++)
            for (int draw = 0; draw < 3; draw++) {
                struct rig g;
                const int V = shapes[s].vocab, N = shapes[s].rows;
                rig_open(&g, V, N);
                random_logits(&g, 2);
                g.how = hows[h];
                g.how.n_ids = shapes[s].n_ids;
                g.how.room = 1000;
                g.how.rng = (uint64_t)draw;
                g.live = (struct step_live){.pos = 100, .n_drafts = N - 1};
                float *plain = malloc((size_t)N * (size_t)V * sizeof *plain);
                memcpy(plain, g.logits, (size_t)N * (size_t)V * sizeof *plain);
                for (int i = 0; i < V; i++) {
                    g.seen[i] = rand_u64() % 5 == 0 ? 1 : rand_u64() % 5 == 0 ? 3 : 0;
                    g.bias[i] = rand_u64() % 3 == 0 ? rand_normal() : 0;
                }
                for (int t = 0; t < N; t++) {           /* drafts that stand out are picked, mostly */
                    int id = (int)(rand_u64() % (uint64_t)shapes[s].n_ids);
                    plain[t * V + id] = 20;
                    g.live.ids[1 + t] = id;
                }
                for (int t = 0; t < N; t++)
                    for (int i = 0; i < V; i++)
                        g.logits[t * V + i] = penalised(&g, plain[t * V + i], i, t);
                put(&g);
                struct step_result r = pick(&g, false);
                assert_true(r.n >= 1 && r.n <= N);
                for (int t = 0; t < r.n; t++)
                    check_logprobs(&r.logprobs[t], plain + t * V, g.how.n_ids, g.how.n_alternatives, r.ids[t]);
                free(plain);
                rig_close(&g);
            }
}

/* ---- masks ---- */

static bool in_mask(const uint32_t *mask, int id) { return mask[id / 32] >> (id % 32) & 1; }

/* Picks once more under masks, from the state that the rig has. */
static struct step_result pick_masked(struct rig *g, const uint32_t *mask, uint32_t masked)
{
    const size_t bytes = (size_t)g->rows * (size_t)step_mask_words(g->vocab) * sizeof *mask;
    uint32_t *on = device(bytes);
    dev->copy(dev, on, mask, bytes);
    dev->copy(dev, g->on.live, &g->live, sizeof g->live);
    dev->copy(dev, g->on.how, &g->how, sizeof g->how);
    STEP(dev, step_pick, .logits = g->on.logits, .tile_max = g->on.tile_max, .live = g->on.live, .sampling = g->on.how, .seen = g->on.seen,
         .bias = g->on.bias, .results = g->results, .hidden = g->on.hidden, .last_hidden = g->on.last, .scratch = g->on.scratch, .n_rows = g->rows,
         .vocab = g->vocab, .width = WIDTH, .mask = on, .masked = masked);
    finish();
    const struct step_result r = g->results[(g->live.step + 1) % STEP_RESULTS];
    dev->free(dev, on);
    return r;
}

/* Ids by chance, one in `of`; with of < 0 only ids that are far from the likeliest. */
static void random_mask(uint32_t *mask, const float *logits, int vocab, int of)
{
    memset(mask, 0, (size_t)step_mask_words(vocab) * sizeof *mask);
    for (int i = 0; i < vocab; i++)
        if (of < 0 ? logits[i] < -1 && rand_u64() % 4 == 0 : rand_u64() % (uint64_t)of == 0)
            mask[i / 32] |= 1u << (i % 32);
}

static void test_pick__a_masked_row_is_the_best_of_the_mask_and_later_rows_follow(void **state)
{
    (void)state;
    need_device();
    const int vocabs[] = {512, 1000, 4096, 248320};
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs && vocabs[v] <= most_ids; v++) {
        struct rig g;
        rig_open(&g, vocabs[v], 3);
        const size_t V = (size_t)g.vocab, words = (size_t)step_mask_words(g.vocab);
        uint32_t *mask = calloc(3 * words, sizeof *mask);
        for (int round = 0; round < 12; round++) {
            int want[3];
            random_logits(&g, 1);
            for (int t = 0; t < 3; t++) {
                random_mask(mask + (size_t)t * words, g.logits + (size_t)t * V, g.vocab, round % 4 == 3 ? -1 : 1 + round % 4 * 30);
                const float *l = g.logits + (size_t)t * V;
                want[t] = -1;
                for (int id = 0; id < g.vocab; id++)
                    if (in_mask(mask + (size_t)t * words, id) && (want[t] < 0 || l[id] > l[want[t]]))
                        want[t] = id;
            }
            const int first = sampler_argmax(g.logits, g.vocab);
            g.live = (struct step_live){.pos = 100, .ids = {1, round % 2 ? first : want[0], want[1]}, .n_drafts = 2, .step = round};
            put(&g);
            struct step_result r = pick_masked(&g, mask, round % 2 ? 6 : 7);    /* all rows, or all but the first one */
            assert_int_equal(r.n, 3);
            assert_int_equal(r.ids[0], round % 2 ? first : want[0]);
            assert_int_equal(r.ids[1], want[1]);
            assert_int_equal(r.ids[2], want[2]);
            memset(mask + words, 0, words * sizeof *mask);      /* nothing is admissible in the second row */
            r = pick_masked(&g, mask, 2);
            assert_int_equal(r.n, round % 2 || want[0] == first ? 0 : 1);
            assert_int_equal(r.ended, round % 2 || want[0] == first ? STEP_ALL_BANNED : STEP_GOES_ON);
        }
        free(mask);
        rig_close(&g);
    }
}

/* The distribution of picks until one is admissible; if none ever is, that of the ids of the mask. */
static int masked_target(struct ranked *r, const struct rig *g, const uint32_t *mask)
{
    int n = target(r, g->logits, &g->how), kept = 0;
    double total = 0;
    for (int i = 0; i < n; i++)
        if (in_mask(mask, r[i].id))
            total += (r[kept++] = r[i]).weight;
    for (int i = 0; i < kept; i++)
        r[i].weight /= total;
    if (kept)
        return kept;
    float *among = malloc((size_t)g->vocab * sizeof *among);
    for (int i = 0; i < g->vocab; i++)
        among[i] = in_mask(mask, i) ? g->logits[i] : -INFINITY;
    kept = target(r, among, &g->how);
    free(among);
    return kept;
}

static void test_pick__a_refused_pick_made_again_leaves_the_distribution_of_what_is_admissible(void **state)
{
    (void)state;
    need_device();
    enum { V = 512, DRAWS = 6000 };
    const struct { float temperature, top_p, min_p; int top_k, of; } rows[] = {
        {1, 0, 0, 0, 2}, {1, 0, 0, 0, 20}, {0.8f, 0.9f, 0, 0, 3}, {1, 0.95f, 0, 20, 4}, {1, 0, 0.05f, 0, 5}, {0.7f, 0.8f, 0.02f, 40, 3},
        {1, 0, 0, 0, -1}, {1, 0.5f, 0, 10, -1}, {0.6f, 0.95f, 0.1f, 20, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rig g;
        struct ranked ranked[V];
        uint32_t mask[(V + 31) / 32];
        double count[V] = {0}, chi = 0, rest_p = 0, rest_n = 0;
        int n_again = 0, n_bins = 0;
        rig_open(&g, V, 1);
        random_logits(&g, 1.5f);
        random_mask(mask, g.logits, V, rows[i].of);
        g.how.temperature = rows[i].temperature;
        g.how.top_p = rows[i].top_p;
        g.how.min_p = rows[i].min_p;
        g.how.top_k = rows[i].top_k;
        g.how.rng = 77 + i;
        put(&g);
        const int kept = masked_target(ranked, &g, mask);
        for (int k = 0; k < DRAWS; k++) {
            const struct step_live live = g.live;
            const struct step_sampling how = g.how;
            struct step_result r = pick(&g, false);
            if (!in_mask(mask, r.ids[0])) {
                g.live = live;
                g.how = how;
                r = pick_masked(&g, mask, 1);
                get(&g);
                n_again++;
                assert_true(in_mask(mask, r.ids[0]));
            }
            g.how.room = 1000;
            dev->copy(dev, g.on.how, &g.how, sizeof g.how);
            count[r.ids[0]]++;
        }
        for (int k = 0; k < kept; k++) {
            const double p = ranked[k].weight, n = count[ranked[k].id];
            count[ranked[k].id] = 0;
            if (p * DRAWS < 5) {
                rest_p += p;
                rest_n += n;
                continue;
            }
            chi += (n - p * DRAWS) * (n - p * DRAWS) / (p * DRAWS);
            n_bins++;
        }
        for (int id = 0; id < V; id++)
            if (count[id] > 0)
                fail_msg("row %zu: id %d was picked, which is cut away", i, id);
        if (rest_p * DRAWS >= 5) {
            chi += (rest_n - rest_p * DRAWS) * (rest_n - rest_p * DRAWS) / (rest_p * DRAWS);
            n_bins++;
        }
        assert_true(n_again > DRAWS / 20);
        if (n_bins > 1 && (chi - (n_bins - 1)) / sqrt(2.0 * (n_bins - 1)) > 5)
            fail_msg("row %zu: chi-square %g with %d bins", i, chi, n_bins);
        rig_close(&g);
    }
}

#define PICK_TESTS \
    cmocka_unit_test(test_pick__a_masked_row_is_the_best_of_the_mask_and_later_rows_follow), \
    cmocka_unit_test(test_pick__a_refused_pick_made_again_leaves_the_distribution_of_what_is_admissible), \
    cmocka_unit_test(test_pick__greedy_is_the_argmax_and_ties_go_to_the_lower_id), \
    cmocka_unit_test(test_pick__a_draft_is_the_argmax_of_the_first_ids_with_its_share), \
    cmocka_unit_test(test_pick__rows_count_while_picks_and_drafts_agree), \
    cmocka_unit_test(test_pick__in_a_trial_drafts_are_right_by_lot), \
    cmocka_unit_test(test_pick__the_first_pick_runs_no_row), \
    cmocka_unit_test(test_pick__stop_ids_and_room_end_the_answer_in_the_middle_of_a_step), \
    cmocka_unit_test(test_pick__numbers_that_are_none_end_the_answer_when_their_row_is_reached), \
    cmocka_unit_test(test_pick__sampled_ids_have_the_target_distribution), \
    cmocka_unit_test(test_pick__the_random_numbers_are_the_samplers), \
    cmocka_unit_test(test_pick__a_seed_gives_the_same_ids_however_rows_are_cut), \
    cmocka_unit_test(test_pick__drafts_are_accepted_with_their_probability), \
    cmocka_unit_test(test_pick__logprobs_are_what_the_model_gave)
