/* Conversations with pictures that grow, branch, are interrupted, read ahead and have pictures exchanged, in one engine: each answer must be that of
 * an engine that has computed nothing before.  FUZZ_SECONDS and FUZZ_SEED: see long_run.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/engine.h"
#include "model/config.h"
#include "model/vision.h"
#include "tests/fuzz/long_run.h"

static const char dir[] = "tests/data/vision/v0";
enum { N_CTX = 192, N_KINDS = 6, N_TALKS = 4, N_SEQUENCES = 2, MOST = 8, SAID = 4, FIRST_TEXT = 10, TEXT_IDS = 480 };

/* Two of each size, which only their pixels tell apart. */
static const struct { int h, w; } sizes[N_KINDS] = {{2, 2}, {2, 2}, {1, 5}, {1, 5}, {3, 4}, {3, 4}};
static struct pixels *pixels[N_KINDS];
static uint64_t seed;
static int32_t pad;

static int below(int n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)((seed >> 11) % (uint64_t)n);
}

/* The tokens of a conversation so far, prompts and answers. */
struct talk {
    int32_t ids[N_CTX];
    int n, n_pictures;
    struct picture pictures[MOST];
    int kind[MOST];
};

static void add_text(struct talk *t, int n)
{
    while (n--)
        t->ids[t->n++] = FIRST_TEXT + below(TEXT_IDS);
}

static void add_picture(struct talk *t)
{
    const int k = below(N_KINDS), n = sizes[k].h * sizes[k].w;
    t->kind[t->n_pictures] = k;
    t->pictures[t->n_pictures++] = (struct picture){.first = t->n, .n = n, .h = sizes[k].h, .w = sizes[k].w, .hash = {.low = 1, .high = (uint64_t)k}};
    for (int i = 0; i < n; i++)
        t->ids[t->n++] = pad;
}

/* Cuts the talk somewhere between its pictures. */
static void cut(struct talk *t)
{
    int n = below(t->n + 1);
    for (int i = 0; i < t->n_pictures; i++)
        if (n > t->pictures[i].first && n < t->pictures[i].first + t->pictures[i].n)
            n = t->pictures[i].first;
    t->n = n;
    while (t->n_pictures && t->pictures[t->n_pictures - 1].first >= n)
        t->n_pictures--;
}

static void change(struct talk *t)
{
    if (t->n > N_CTX / 2 || below(4) == 0)
        cut(t);
    if (t->n_pictures && below(3) == 0) {
        const int i = below(t->n_pictures);             /* another picture of the same size */
        t->kind[i] ^= 1;
        t->pictures[i].hash.high = (uint64_t)t->kind[i];
    }
    for (int parts = 1 + below(3); parts; parts--) {
        if (t->n_pictures < MOST && below(2))
            add_picture(t);
        add_text(t, 1 + below(10));
    }
}

struct answer {
    int32_t ids[SAID];
    float   prob[SAID];
    int     n;
    enum end finish;
    char    message[512];
};

static struct answer await(struct engine *g, uint32_t serial)
{
    struct answer a = {0};
    for (bool done = false; !done;) {
        assert_true(engine_wait(g, 60000));
        const struct event_list l = engine_drain(g);
        for (int i = 0; i < l.n; i++) {
            const struct event *ev = &l.events[i];
            if (ev->kind == EV_FATAL)
                fail_msg("%s", ev->message);
            if (ev->serial != serial)
                continue;
            for (int k = 0; ev->kind == EV_TOKENS && k < ev->n; k++) {
                a.prob[a.n] = ev->logprobs[k].prob;
                a.ids[a.n++] = ev->ids[k];
            }
            if (ev->kind != EV_DONE)
                continue;
            done = true;
            a.finish = ev->finish;
            memcpy(a.message, ev->message, sizeof a.message);
        }
    }
    return a;
}

static uint32_t ask(struct engine *g, uint64_t name, struct spans s, int depth)
{
    const struct sampling how = {.max_tokens = SAID, .draft_depth = depth, .lookup = true, .n_alternatives = 1};
    return engine_submit(g, name, s, s.n - below(2), &how);
}

static struct engine *open_engine(int n_sequences)
{
    struct err e = {0};
    struct engine *g = engine_open(&(struct engine_options){.model_dir = dir, .backend = "cpu", .kv = "f32", .head = "bf16", .n_threads = 1,
                                                            .n_ctx = N_CTX, .chunk = 16, .fixed_chunk = true, .draft_depth = -1, .picture_tokens = 16,
                                                            .n_sequences = n_sequences, .n_snapshots = 4}, &e);
    if (!g)
        fail_msg("%s", e.msg);
    return g;
}

/* The answer of an engine where nothing of the prompt is left: what it had is replaced first, and no picture has a hash that occurred before. */
static struct answer answer_afresh(struct engine *g, const struct talk *t)
{
    static uint64_t never;
    struct picture fresh[MOST];
    struct pixels *seen[MOST];
    const int32_t other = 1;
    await(g, ask(g, ++never, spans_text(&other, 1), 0));
    for (int i = 0; i < t->n_pictures; i++) {
        fresh[i] = t->pictures[i];
        fresh[i].hash.low = 1000 + ++never;
        seen[i] = pixels[t->kind[i]];
    }
    return await(g, ask(g, ++never, (struct spans){t->ids, t->n, fresh, t->n_pictures, seen}, 0));
}

/* Asks as programs do: sometimes after a beginning was read ahead or an answer interrupted, sometimes with pictures whose pixels are left out. */
static struct answer answer_in_passing(struct engine *g, const struct talk *t, uint64_t name)
{
    struct pixels *seen[MOST], *some[MOST];
    const int depth = below(9) - 1;
    for (int i = 0; i < t->n_pictures; i++) {
        seen[i] = pixels[t->kind[i]];
        some[i] = below(2) ? seen[i] : NULL;
    }
    const struct spans s = {t->ids, t->n, t->pictures, t->n_pictures, seen};
    if (below(3) == 0)
        engine_read_ahead(g, name, spans_head(s, 1 + below(t->n)), 0);
    if (below(4) == 0) {
        const uint32_t serial = ask(g, name, s, depth);
        if (below(2))
            engine_wait(g, 2);
        engine_interrupt(g, serial);
        await(g, serial);
    }
    if (below(3) == 0) {
        const struct spans without = {t->ids, t->n, t->pictures, t->n_pictures, some};
        const struct answer a = await(g, ask(g, name, without, depth));
        if (a.finish == END_LENGTH)
            return a;
        assert_int_equal(a.finish, END_FAILED);
        assert_non_null(strstr(a.message, "came without its pixels"));
    }
    return await(g, ask(g, name, s, depth));
}

static void test_pictures_talk__nothing_that_was_computed_before_shows(void **state)
{
    (void)state;
    static struct talk talks[N_TALKS];
    struct model_config c;
    struct err e = {0};
    seed = long_run_seed(0x243F6A8885A308D3u);
    if (!config_load(&c, dir, &e))
        fail_msg("%s", e.msg);
    pad = c.vision.image_id;
    for (int k = 0; k < N_KINDS; k++) {
        static uint8_t rgb[3 * VISION_SIDE * 4 * VISION_SIDE * 3];
        for (size_t i = 0; i < sizeof rgb; i++)
            rgb[i] = (uint8_t)below(256);
        pixels[k] = pixels_new(rgb, sizes[k].h * VISION_SIDE, sizes[k].w * VISION_SIDE);
    }
    struct engine *g = open_engine(N_SEQUENCES), *afresh = open_engine(1);
    struct long_run run = long_run_begin(3, 40);
    while (long_run_goes_on(&run)) {
        const int k = below(N_TALKS);
        struct talk *t = &talks[k];
        if (below(5) == 0)
            *t = talks[below(N_TALKS)];                 /* a branch of another one */
        change(t);
        const struct answer want = answer_afresh(afresh, t), got = answer_in_passing(g, t, (uint64_t)k + 1);
        assert_int_equal(got.finish, END_LENGTH);
        assert_int_equal(got.n, want.n);
        for (int i = 0; i < got.n; i++)
            if (!(fabsf(got.prob[i] - want.prob[i]) <= 1e-3f))
                fail_msg("prompt %ld, token %d: %d with %g, expected %d with %g", run.n, i, got.ids[i], (double)got.prob[i], want.ids[i],
                         (double)want.prob[i]);
        assert_memory_equal(got.ids, want.ids, sizeof got.ids);
        memcpy(t->ids + t->n, got.ids, sizeof got.ids);
        t->n += got.n;
    }
    long_run_print(&run, run.n, "prompts");
    engine_close(g);
    engine_close(afresh);
    for (int k = 0; k < N_KINDS; k++)
        pixels_release(pixels[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pictures_talk__nothing_that_was_computed_before_shows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
