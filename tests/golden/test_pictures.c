/* Prompts with pictures against the logits, positions, drafts and greedy ids of transformers and vLLM's wiring of the MTP block: see
 * tests/data/vision/README.md.  Bound: 2e-3 on every logit.  BACKEND=cuda asks an engine on a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/load.h"
#include "engine/spans.h"
#include "model/kv_recipe.h"
#include "model/prompt.h"
#include "model/safetensors.h"

static const char dir[] = "tests/data/vision/v0";
static const double bound = 2e-3;
enum { N_PROMPTS = 5, MOST_PICTURES = 3, MAX = 256, N_GREEDY = 12, N_DRAFTS = 3 };

struct both {
    struct model m;
    struct safetensors s;
};

static const void *expected(const struct both *b, int *n, const char *what, int i, const char *of)
{
    char name[64];
    snprintf(name, sizeof name, "%s%d.%s", of, i, what);
    const struct tensor *t = safetensors_find(&b->s, name);
    assert_non_null(t);
    if (n)
        *n = (int)t->shape[t->n_dims - 1];
    return safetensors_data(&b->s, t);
}

static void open_both(struct both *b)
{
    struct err e = {0};
    char path[128];
    snprintf(path, sizeof path, "%s/expected.safetensors", dir);
    if (!load_open(&b->m, &(struct load_options){.head = "bf16", .dir = dir, .backend = "cpu", .kv = "f32", .n_threads = 2, .n_ctx = MAX,
                                                 .chunk = MAX, .n_snapshots = LOAD_NO_SNAPSHOTS}, &e)
        || !safetensors_open(&b->s, path, &e))
        fail_msg("%s", e.msg);
}

static void close_both(struct both *b)
{
    safetensors_close(&b->s);
    load_close(&b->m);
}

/* A prompt of the file with the rows of its pictures. */
struct seen {
    struct spans spans;
    struct picture pictures[MOST_PICTURES];
    struct picture_rows rows[MOST_PICTURES];
    struct rope_position *at;
    int n_at, offset;
};

static void see(struct both *b, struct seen *p, int i)
{
    int n, n_images;
    const int32_t *ids = expected(b, &n, "ids", i, "prompt"), *images = expected(b, &n_images, "images", i, "prompt");
    *p = (struct seen){.spans = {.ids = ids, .n = n, .pictures = p->pictures, .n_pictures = n_images}};
    for (int k = 0, at = 0; k < n_images; k++) {
        const int32_t *grid = expected(b, NULL, "grid_thw", images[k], "image");
        const int tokens = grid[1] * grid[2] / VISION_MERGE;
        float *rows = malloc((size_t)(tokens * b->m.cfg.hidden) * sizeof *rows);
        while (ids[at] != b->m.cfg.vision.image_id)
            at++;
        vision_begin(b->m.vision, expected(b, NULL, "resized", images[k], "image"), grid[1], grid[2], rows);
        while (!vision_continue(b->m.vision, 1))
            ;
        p->pictures[k] = (struct picture){.first = at, .n = tokens, .h = grid[1] / 2, .w = grid[2] / 2, .hash = {1, (uint64_t)images[k]}};
        p->rows[k] = (struct picture_rows){at, tokens, rows};
        at += tokens;
    }
    assert_true(spans_valid(p->spans));
    p->at = spans_positions(p->spans, &p->n_at, &p->offset);
}

static void forget(struct seen *p)
{
    for (int k = 0; k < p->spans.n_pictures; k++)
        free((void *)(uintptr_t)p->rows[k].rows);
    free(p->at);
}

/* Runs the prompt in pieces of `chunk` tokens; logits NULL: not wanted. */
static void run(struct both *b, const struct seen *p, int chunk, float *logits)
{
    struct model *m = &b->m;
    cache_reset(m->cache);
    cache_set_positions(m->cache, p->at, p->n_at, p->offset);
    cache_set_pictures(m->cache, p->rows, p->spans.n_pictures);
    for (int pos = 0; pos < p->spans.n; pos += chunk) {
        const int n = p->spans.n - pos < chunk ? p->spans.n - pos : chunk;
        prompt_chunk(m->forward, m->cache, p->spans.ids + pos, n, pos, true);
        if (logits)                     /* the MTP block's rows leave the hidden states alone */
            prompt_head(m->forward, HEAD_BF16, forward_hidden(m->forward), n, logits + (size_t)pos * (size_t)m->cfg.vocab);
    }
}

static double worst(const float *a, const float *b, size_t n)
{
    double w = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        w = d <= w ? w : d;             /* NaN counts as larger */
    }
    return w;
}

static int argmax(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static void test_pictures__positions_are_those_of_the_reference(void **state)
{
    (void)state;
    struct both b;
    open_both(&b);
    for (int i = 0; i < N_PROMPTS; i++) {
        struct seen p;
        see(&b, &p, i);
        const int32_t *want = expected(&b, NULL, "positions", i, "prompt");
        for (int k = 0; k < p.spans.n; k++) {
            const int text = k + p.offset;
            const struct rope_position at = k < p.n_at ? p.at[k] : (struct rope_position){text, text, text};
            assert_int_equal(at.t, want[k]);
            assert_int_equal(at.h, want[p.spans.n + k]);
            assert_int_equal(at.w, want[2 * p.spans.n + k]);
        }
        assert_int_equal(p.offset, *(const int32_t *)expected(&b, NULL, "rope_delta", i, "prompt"));
        forget(&p);
    }
    close_both(&b);
}

static void test_pictures__logits_match_transformers_however_the_prompt_is_cut(void **state)
{
    (void)state;
    static const int chunks[] = {MAX, 1, 7, 16};
    struct both b;
    open_both(&b);
    const size_t V = (size_t)b.m.cfg.vocab;
    float *logits = malloc(MAX * V * sizeof *logits);
    double all = 0;
    for (int i = 0; i < N_PROMPTS; i++)
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            struct seen p;
            see(&b, &p, i);
            run(&b, &p, chunks[c], logits);
            const double w = worst(expected(&b, NULL, "logits", i, "prompt"), logits, (size_t)p.spans.n * V);
            if (!(w <= bound))
                fail_msg("prompt %d, chunk %d: logits off by %g", i, chunks[c], w);
            all = fmax(all, w);
            forget(&p);
        }
    print_message("max |logit - reference| %.1e\n", all);
    free(logits);
    close_both(&b);
}

static void test_pictures__drafts_read_the_rows_of_pictures(void **state)
{
    (void)state;
    struct both b;
    open_both(&b);
    struct model *m = &b.m;
    const size_t V = (size_t)m->cfg.vocab, H = (size_t)m->cfg.hidden;
    float *logits = malloc(V * sizeof *logits), *in = malloc(H * sizeof *in), *out = malloc(H * sizeof *out);
    for (int i = 0; i < N_PROMPTS; i++)
        for (int chunk = 1; chunk <= MAX; chunk *= 8) {
            struct seen p;
            see(&b, &p, i);
            run(&b, &p, chunk, NULL);
            const int32_t *drafts = expected(&b, NULL, "mtp_drafts", i, "prompt");
            const float *want = expected(&b, NULL, "mtp_logits", i, "prompt");
            memcpy(in, forward_last_hidden(m->cache), H * sizeof *in);
            prompt_head(m->forward, HEAD_BF16, in, 1, logits);
            int32_t token = argmax(logits, m->cfg.vocab);
            assert_int_equal(token, *(const int32_t *)expected(&b, NULL, "mtp_first", i, "prompt"));
            for (int k = 0; k < N_DRAFTS; k++) {
                prompt_mtp(m->forward, m->cache, in, &token, 1, p.spans.n - 1 + k, out);
                prompt_head(m->forward, HEAD_BF16, out, 1, logits);
                const double w = worst(want + (size_t)k * V, logits, V);
                if (!(w <= bound))
                    fail_msg("prompt %d, chunk %d, draft %d: off by %g", i, chunk, k + 1, w);
                token = argmax(logits, m->cfg.vocab);
                assert_int_equal(token, drafts[k]);
                memcpy(in, out, H * sizeof *in);
            }
            forget(&p);
        }
    free(logits), free(in), free(out);
    close_both(&b);
}

/* ---- the engine ---- */

enum { MOST_TOKENS = 32, N_SEQUENCES = 2 };

static bool on_gpu(void) { return getenv("BACKEND") && !strcmp(getenv("BACKEND"), "cuda"); }

/* Opens an engine on the checkpoint, whose chunks of 16 tokens cut pictures. */
static struct engine *open_with(const char *kv, bool no_vision, int depth)
{
    struct err e = {0};
    struct engine *g = engine_open(&(struct engine_options){.model_dir = dir, .backend = on_gpu() ? "cuda" : "cpu",
                                                            .kv = kv, .head = "bf16", .n_threads = 2,
                                                            .n_ctx = MAX, .chunk = 16, .fixed_chunk = true, .draft_depth = depth,
                                                            .no_vision = no_vision, .picture_tokens = MOST_TOKENS, .n_sequences = N_SEQUENCES}, &e);
    if (!g)
        fail_msg("%s", e.msg);
    return g;
}

static struct engine *open_engine(bool no_vision, int depth) { return open_with(on_gpu() ? "bf16" : "f32", no_vision, depth); }

/* An answer as it comes in. */
struct answer {
    int32_t ids[N_GREEDY];
    int     n;
    bool    done;
    enum end finish;
    struct stats stats;
    char    message[512];
};

/* Waits until the answers with serials 1 to n_answers are complete; a[i] is that of serial first + i. */
static void await(struct engine *g, struct answer *a, uint32_t first, int n_answers)
{
    for (int left = n_answers; left;) {
        assert_true(engine_wait(g, 60000));
        const struct event_list l = engine_drain(g);
        for (int i = 0; i < l.n; i++) {
            const struct event *ev = &l.events[i];
            if (ev->kind == EV_FATAL)
                fail_msg("%s", ev->message);
            if (ev->serial < first || ev->serial >= first + (uint32_t)n_answers)
                continue;
            struct answer *to = &a[ev->serial - first];
            for (int k = 0; ev->kind == EV_TOKENS && k < ev->n && to->n < N_GREEDY; k++)
                to->ids[to->n++] = ev->ids[k];
            if (ev->kind != EV_DONE)
                continue;
            to->done = true;
            to->finish = ev->finish;
            to->stats = ev->stats;
            snprintf(to->message, sizeof to->message, "%s", ev->message);
            left--;
        }
    }
}

/* All ids are those of the reference, or on a GPU, where bf16 decides a close choice otherwise now and then, the first half of them. */
static void assert_greedy(const struct both *b, int prompt, const struct answer *a)
{
    const int n = on_gpu() ? N_GREEDY / 2 : N_GREEDY;
    assert_true(a->n >= n);
    assert_memory_equal(a->ids, expected(b, NULL, "greedy", prompt, "prompt"), (size_t)n * sizeof *a->ids);
}

static uint32_t submit(struct engine *g, uint64_t name, struct spans s, int depth)
{
    return engine_submit(g, name, s, s.n - 1, &(struct sampling){.max_tokens = N_GREEDY, .draft_depth = depth});
}

static struct answer ask(struct engine *g, uint64_t name, struct spans s, int depth)
{
    struct answer a = {0};
    await(g, &a, submit(g, name, s, depth), 1);
    return a;
}

/* Prompt i of the file with pixels instead of rows. */
static void see_pixels(struct both *b, struct seen *p, struct pixels **pixels, int i)
{
    int n_images;
    const int32_t *images = expected(b, &n_images, "images", i, "prompt");
    see(b, p, i);
    for (int k = 0; k < n_images; k++) {
        const int32_t *grid = expected(b, NULL, "grid_thw", images[k], "image");
        pixels[k] = pixels_new(expected(b, NULL, "resized", images[k], "image"), grid[1] * PATCH_SIDE, grid[2] * PATCH_SIDE);
    }
    p->spans.pixels = pixels;
}

static void forget_pixels(struct seen *p, struct pixels **pixels)
{
    for (int k = 0; k < p->spans.n_pictures; k++)
        pixels_release(pixels[k]);
    forget(p);
}

static void test_pictures__answers_are_those_of_the_reference_at_every_depth(void **state)
{
    (void)state;
    static const int depths[] = {0, 1, 2, 3, 4, 5, 6, 7, -1};
    struct both b;
    open_both(&b);
    struct engine *g = open_engine(false, -1);
    for (int i = 0; i < N_PROMPTS; i++)
        for (size_t k = 0; k < sizeof depths / sizeof *depths; k++) {
            struct seen p;
            struct pixels *pixels[MOST_PICTURES];
            see_pixels(&b, &p, pixels, i);
            const struct answer a = ask(g, 100 * (uint64_t)i + k + 1, p.spans, depths[k]);
            assert_int_equal(a.finish, END_LENGTH);
            assert_int_equal(a.n, N_GREEDY);
            assert_greedy(&b, i, &a);
            assert_true(a.stats.n_pictures <= p.spans.n_pictures && (!k || !a.stats.n_pictures));
            forget_pixels(&p, pixels);
        }
    engine_close(g);
    close_both(&b);
}

static void test_pictures__the_same_picture_is_computed_once(void **state)
{
    (void)state;
    struct both b;
    struct seen p;
    struct pixels *pixels[MOST_PICTURES];
    open_both(&b);
    see_pixels(&b, &p, pixels, 0);
    struct engine *g = open_engine(false, 0);
    const struct answer first = ask(g, 1, p.spans, 0), second = ask(g, 2, p.spans, 0), again = ask(g, 1, p.spans, 0);
    assert_int_equal(first.stats.n_pictures, 1);
    assert_int_equal(second.stats.n_pictures, 0);
    assert_int_equal(second.stats.n_cached, 0);         /* another conversation: its rows of KV are its own */
    assert_int_equal(again.stats.n_pictures, 0);
    assert_true(again.stats.n_cached >= p.spans.n - 1);
    assert_memory_equal(first.ids, second.ids, sizeof first.ids);
    /* another picture at the same place */
    pixels[0]->rgb[0] ^= 1;
    p.pictures[0].hash.low ^= 1;
    const struct answer other = ask(g, 1, p.spans, 0);
    assert_int_equal(other.stats.n_pictures, 1);
    assert_true(other.stats.n_cached <= p.pictures[0].first);
    /* without pixels: there, then not */
    p.spans.pixels = NULL;
    assert_int_equal(ask(g, 3, p.spans, 0).finish, END_LENGTH);
    p.pictures[0].hash.low ^= 2;
    const struct answer lacks = ask(g, 4, p.spans, 0);
    assert_int_equal(lacks.finish, END_FAILED);
    assert_non_null(strstr(lacks.message, "picture 1 of the prompt came without its pixels"));
    p.pictures[0].hash.low ^= 2;
    assert_int_equal(ask(g, 4, p.spans, 0).finish, END_LENGTH);
    engine_close(g);
    forget_pixels(&p, pixels);
    close_both(&b);
}

/* Three pictures of the greatest size have room, so these come and go. */
static void test_pictures__many_pictures_take_turns_in_memory(void **state)
{
    (void)state;
    enum { ROUNDS = 3 };
    struct both b;
    open_both(&b);
    struct engine *g = open_engine(false, 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < N_PROMPTS; i++) {
            struct seen p;
            struct pixels *pixels[MOST_PICTURES];
            see_pixels(&b, &p, pixels, i);
            for (int k = 0; k < p.spans.n_pictures; k++)
                p.pictures[k].hash.high = (uint64_t)(10 * round + i);   /* as if each had been computed from other pixels */
            const struct answer a = ask(g, (uint64_t)(10 * round + i + 1), p.spans, 0);
            assert_greedy(&b, i, &a);
            assert_int_equal(a.stats.n_pictures, p.spans.n_pictures);
            forget_pixels(&p, pixels);
        }
    engine_close(g);
    close_both(&b);
}

static void test_pictures__answers_under_way_at_once_see_their_own(void **state)
{
    (void)state;
    static const int prompts[N_SEQUENCES] = {2, 3};
    struct both b;
    struct seen p[N_SEQUENCES];
    struct pixels *pixels[N_SEQUENCES][MOST_PICTURES];
    struct answer a[N_SEQUENCES] = {0};
    uint32_t first = 0;
    open_both(&b);
    struct engine *g = open_engine(false, -1);
    for (int i = 0; i < N_SEQUENCES; i++) {
        see_pixels(&b, &p[i], pixels[i], prompts[i]);
        const uint32_t serial = submit(g, (uint64_t)i + 1, p[i].spans, -1);
        first = first ? first : serial;
    }
    await(g, a, first, N_SEQUENCES);
    for (int i = 0; i < N_SEQUENCES; i++) {
        assert_greedy(&b, prompts[i], &a[i]);
        forget_pixels(&p[i], pixels[i]);
    }
    engine_close(g);
    close_both(&b);
}

static void test_pictures__what_cannot_be_seen_is_refused_in_a_sentence(void **state)
{
    (void)state;
    struct both b;
    struct seen p;
    struct pixels *pixels[MOST_PICTURES];
    open_both(&b);
    see_pixels(&b, &p, pixels, 0);
    struct engine *g = open_engine(true, 0);
    struct answer a = ask(g, 1, p.spans, 0);
    assert_int_equal(a.finish, END_REFUSED);
    assert_non_null(strstr(a.message, "the model sees no pictures here"));
    engine_close(g);
    g = open_engine(false, 0);
    pixels[0]->h -= 2 * PATCH_SIDE;
    a = ask(g, 1, p.spans, 0);
    assert_int_equal(a.finish, END_REFUSED);
    assert_non_null(strstr(a.message, "pixels, expected"));
    pixels[0]->h += 2 * PATCH_SIDE;
    assert_int_equal(ask(g, 1, p.spans, 0).finish, END_LENGTH);
    engine_close(g);
    forget_pixels(&p, pixels);
    close_both(&b);
}

/* Waits until a save or a restore has ended. */
static void await_kind(struct engine *g, enum event_kind kind)
{
    for (bool there = false; !there;) {
        assert_true(engine_wait(g, 60000));
        const struct event_list l = engine_drain(g);
        for (int i = 0; i < l.n; i++) {
            if (l.events[i].kind == EV_FATAL || (l.events[i].kind == kind && *l.events[i].message))
                fail_msg("%s", l.events[i].message);
            there |= l.events[i].kind == kind;
        }
    }
}

static void test_pictures__a_saved_conversation_comes_back_without_pixels(void **state)
{
    (void)state;
    struct both b;
    char folder[] = "/tmp/q35-seen-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/kept", folder);
    open_both(&b);
    for (int i = 0; i < N_PROMPTS; i++) {
        struct seen p;
        struct pixels *pixels[MOST_PICTURES];
        see_pixels(&b, &p, pixels, i);
        struct engine *g = open_engine(false, -1);
        ask(g, 1, p.spans, -1);
        engine_save(g, 1, path);
        await_kind(g, EV_SAVED);
        engine_close(g);

        g = open_engine(false, -1);
        engine_restore(g, 2, path);
        await_kind(g, EV_RESTORED);
        struct spans there = p.spans;
        there.pixels = NULL;
        const struct answer again = ask(g, 2, there, -1);
        assert_int_equal(again.finish, END_LENGTH);
        assert_memory_equal(again.ids, expected(&b, NULL, "greedy", i, "prompt"), sizeof again.ids);
        assert_int_equal(again.stats.n_pictures, 0);
        assert_true(again.stats.n_cached >= p.spans.n - 1);
        /* with another picture the file has nothing beyond the text before it */
        for (int k = p.spans.n_pictures - 1; k >= 0; k--) {
            p.pictures[k].hash.high ^= 1;
            assert_true(ask(g, 2, p.spans, 0).stats.n_cached <= p.pictures[k].first);
        }
        engine_close(g);
        unlink(path);
        forget_pixels(&p, pixels);
    }
    rmdir(folder);
    close_both(&b);
}

static void test_pictures__a_pad_is_never_picked_where_it_would_be_a_picture(void **state)
{
    (void)state;
    enum { TEXT = 4 };
    static const int prompts[] = {TEXT, 0, 2};
    struct both b;
    open_both(&b);
    struct engine *g = open_engine(false, -1);
    const int32_t pad = b.m.cfg.vision.image_id;
    const float wanted = 1000;
    for (size_t k = 0; k < sizeof prompts / sizeof *prompts; k++)
        for (int depth = -1; depth < 3; depth++) {
            struct seen p;
            struct pixels *pixels[MOST_PICTURES];
            struct answer a = {0};
            int n_pads = 0;
            see_pixels(&b, &p, pixels, prompts[k]);
            await(g, &a, engine_submit(g, 1, p.spans, 0, &(struct sampling){.max_tokens = N_GREEDY, .draft_depth = depth, .lookup = true,
                                                                            .bias_ids = &pad, .bias = &wanted, .n_bias = 1}), 1);
            for (int i = 0; i < a.n; i++)
                n_pads += a.ids[i] == pad;
            assert_int_equal(n_pads, prompts[k] == TEXT ? N_GREEDY : 0);
            if (prompts[k] != TEXT)
                assert_memory_equal(a.ids, expected(&b, NULL, "greedy", prompts[k], "prompt"), sizeof a.ids);
            forget_pixels(&p, pixels);
        }
    engine_close(g);
    close_both(&b);
}

/* So long a prompt that rows of its pictures are stored in codes. */
static void test_pictures__drafts_change_no_answer_with_any_kv_recipe(void **state)
{
    (void)state;
    enum { MOST_ALL = 10 };
    static const int depths[] = {0, 1, 3, 7, -1}, parts[] = {3, 2, 1, 0, 3};
    struct both b;
    struct picture pictures[MOST_ALL];
    struct pixels *pixels[MOST_ALL];
    int32_t ids[MAX];
    int n = 0, n_pictures = 0;
    open_both(&b);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct seen p;
        see_pixels(&b, &p, &pixels[n_pictures], parts[i]);
        memcpy(ids + n, p.spans.ids, (size_t)p.spans.n * sizeof *ids);
        for (int k = 0; k < p.spans.n_pictures; k++) {
            pictures[n_pictures] = p.pictures[k];
            pictures[n_pictures++].first += n;
        }
        n += p.spans.n;
        forget(&p);
    }
    assert_true(n > 150 && n + N_GREEDY < MAX);
    const struct spans s = {ids, n, pictures, n_pictures, pixels};
    for (int r = 0; kv_recipe_at(r); r++) {
        if (on_gpu() && !strcmp(kv_recipe_at(r)->name, "f32"))          /* a GPU has no such rows */
            continue;
        struct engine *g = open_with(kv_recipe_at(r)->name, false, -1);
        struct answer first = {0}, both[N_SEQUENCES] = {0};
        for (size_t k = 0; k < sizeof depths / sizeof *depths; k++) {
            const struct answer a = ask(g, 10 + k, s, depths[k]);
            first = k ? first : a;
            assert_int_equal(a.n, N_GREEDY);
            assert_memory_equal(a.ids, first.ids, sizeof a.ids);
        }
        uint32_t serial = submit(g, 1, s, -1);          /* in steps that two answers share */
        submit(g, 2, s, -1);
        await(g, both, serial, N_SEQUENCES);
        for (int k = 0; k < N_SEQUENCES; k++)
            assert_memory_equal(both[k].ids, first.ids, sizeof first.ids);
        engine_close(g);
    }
    for (int k = 0; k < n_pictures; k++)
        pixels_release(pixels[k]);
    close_both(&b);
}

int main(void)
{
#define T(name) cmocka_unit_test(test_pictures__##name)
    const struct CMUnitTest tests[] = {
        T(positions_are_those_of_the_reference), T(logits_match_transformers_however_the_prompt_is_cut), T(drafts_read_the_rows_of_pictures),
        T(answers_are_those_of_the_reference_at_every_depth), T(the_same_picture_is_computed_once), T(many_pictures_take_turns_in_memory),
        T(answers_under_way_at_once_see_their_own), T(what_cannot_be_seen_is_refused_in_a_sentence),
        T(a_saved_conversation_comes_back_without_pixels), T(a_pad_is_never_picked_where_it_would_be_a_picture),
        T(drafts_change_no_answer_with_any_kv_recipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
