/* The engine on real checkpoints: greedy continuations and drafts of the reference, the same answer at every draft depth,
 * chunk size and after every rewind, and the sampling distribution.  Once on the CPU, and where there is a GPU most of it there:
 * it rounds, so the reference binds it only where its margin is clear, but depths, rewinds and snapshots must not show.
 * BACKEND=cuda: there alone.  HEAD=planes: with that head, where a test does not say which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/ids.h"
#include "debug/debug.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/load.h"
#include "model/prompt.h"
#include "model/safetensors.h"
#include "tests/emulated.h"
#include "tests/tmpdir.h"

static const char *const golden[] = {"g0/bf16", "g0/int4", "g0/hybrid", "g1/int4", "g1/hybrid"};
enum { N_GOLDEN = sizeof golden / sizeof *golden, N_PROMPTS = 6 };

static const char *backend = "cpu";
static bool on_gpu(void) { return strcmp(backend, "cpu"); }
static const float clear_margin = 0.1f; /* of the best logit to the next: no rounding turns them round */

static const char *golden_dir(int i)
{
    static char path[256];
    snprintf(path, sizeof path, "tests/data/model/%s", golden[i]);
    return path;
}

/* The checkpoints for the tests that need no reference; the trained one is where it matters most. */
static const char *const own[] = {"tests/data/model/g0/hybrid", "tests/data/model/g1/int4", "assets/demo"};
enum { N_OWN = SANITIZED ? 1 : sizeof own / sizeof *own };

static bool is_there(const char *dir)
{
    char path[256];
    snprintf(path, sizeof path, "%s/config.json", dir);
    if (!access(path, R_OK))
        return true;
    printf("%s is not there: left out\n", dir);
    return false;
}

/* ---- debug commands ---- */

struct file {
    FILE  *f;
    char  *data;
    size_t n;
};

/* Feeds the lines, parses the answers. */
static json_t *debug(int (*command)(const void *, FILE *, FILE *), const void *arg, const char *lines, int want_status)
{
    struct file out = {0};
    FILE *in = fmemopen((void *)(uintptr_t)lines, strlen(lines), "r");
    out.f = open_memstream(&out.data, &out.n);
    assert_true(in && out.f);
    assert_int_equal(command(arg, in, out.f), want_status);
    fclose(in);
    fclose(out.f);
    json_t *answers = json_array();
    for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *j = json_loads(line, 0, NULL);
        assert_non_null(j);
        json_array_append_new(answers, j);
    }
    free(out.data);
    return answers;
}

static int run_generate(const void *options, FILE *in, FILE *out) { return debug_generate(options, in, out); }
static int run_draft(const void *dir, FILE *in, FILE *out)
{
    return debug_draft(&(struct debug_options){.model_dir = dir, .backend = "cpu"}, in, out);
}

static void add_ids(struct buf *b, const int32_t *ids, int n)
{
    buf_adds(b, "{\"ids\": [");
    for (int i = 0; i < n; i++)
        buf_addf(b, "%s%d", i ? "," : "", ids[i]);
    buf_adds(b, "]");
}

static void assert_list(const json_t *list, const int32_t *want, int n)
{
    assert_int_equal(json_array_size(list), n);
    for (int i = 0; i < n; i++)
        assert_int_equal(json_integer_value(json_array_get(list, (size_t)i)), want[i]);
}

static const int32_t *expected(const struct safetensors *s, int *n, const char *fmt, int i)
{
    char name[64];
    snprintf(name, sizeof name, fmt, i);
    const struct tensor *t = safetensors_find(s, name);
    assert_non_null(t);
    *n = (int)t->shape[0];
    return safetensors_data(s, t);
}

static void open_expected(struct safetensors *s, int i)
{
    struct err e = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/expected.safetensors", golden_dir(i));
    if (!safetensors_open(s, path, &e))
        fail_msg("%s", e.msg);
}

/* How many of the tokens the reference, whose head is in bf16, binds. */
static int n_clear(const struct safetensors *s, int n)
{
    int i = 0;
    const struct tensor *t = safetensors_find(s, "greedy.margin");
    assert_non_null(t);
    const float *margin = safetensors_data(s, t);
    while (i < n && ((!on_gpu() && !getenv("HEAD")) || margin[i] > clear_margin))
        i++;
    return i;
}

static void test_generate__greedy_continuations_equal_the_reference_at_every_depth(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        struct safetensors s;
        struct buf lines = {0};
        int n, n_want, accepted = 0;
        open_expected(&s, i);
        const int32_t *prompt = expected(&s, &n, "greedy.prompt", 0), *want = expected(&s, &n_want, "greedy.ids", 0);
        if (SANITIZED)
            n_want = 12;
        for (int depth = 0; depth <= ENGINE_MAX_DEPTH; depth++) {
            add_ids(&lines, prompt, n);
            buf_addf(&lines, ", \"max_tokens\": %d, \"draft\": %d, \"text\": \"extra\"}\n", n_want, depth);
        }
        json_t *answers = debug(run_generate, &(struct debug_options){.backend = backend, .model_dir = golden_dir(i), .n_ctx = 128,
                                                                       .head = getenv("HEAD")}, lines.data, 0);
        json_t *first = json_object_get(json_array_get(answers, 0), "ids");
        assert_int_equal(json_array_size(answers), ENGINE_MAX_DEPTH + 1);
        for (int depth = 0; depth <= ENGINE_MAX_DEPTH; depth++) {
            json_t *a = json_array_get(answers, (size_t)depth), *by_position = json_object_get(a, "accepted"), *x;
            size_t k;
            assert_true(json_equal(json_object_get(a, "ids"), first));
            assert_int_equal(json_array_size(json_object_get(a, "ids")), n_want);
            for (int t = 0; t < n_clear(&s, n_want); t++)
                assert_int_equal(json_integer_value(json_array_get(first, (size_t)t)), want[t]);
            assert_int_equal(json_array_size(by_position), depth);
            int tokens = 1 + (int)json_integer_value(json_object_get(a, "steps"));
            json_array_foreach(by_position, k, x)
                tokens += (int)json_integer_value(x);
            assert_int_equal(tokens, n_want);
            accepted += n_want - 1 - (int)json_integer_value(json_object_get(a, "steps"));
        }
        printf("%-10s %s: %d of %d tokens clear, %d drafts accepted over depths 1 to %d\n", golden[i], backend, n_clear(&s, n_want), n_want,
               accepted, ENGINE_MAX_DEPTH);
        json_decref(answers);
        buf_free(&lines);
        safetensors_close(&s);
    }
}

static void test_generate__drafts_equal_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        struct safetensors s;
        struct buf lines = {0};
        int n;
        open_expected(&s, i);
        for (int p = 0; p < N_PROMPTS; p++) {
            const int32_t *ids = expected(&s, &n, "prompt%d.ids", p);
            add_ids(&lines, ids, n);
            buf_adds(&lines, ", \"depth\": 3}\n");
        }
        json_t *answers = debug(run_draft, golden_dir(i), lines.data, 0);
        for (int p = 0; p < N_PROMPTS; p++) {
            json_t *a = json_array_get(answers, (size_t)p);
            assert_int_equal(json_integer_value(json_object_get(a, "first")), expected(&s, &n, "prompt%d.mtp_first", p)[0]);
            assert_list(json_object_get(a, "drafts"), expected(&s, &n, "prompt%d.mtp_drafts", p), 3);
        }
        json_decref(answers);
        buf_free(&lines);
        safetensors_close(&s);
    }
}

static void test_generate__bad_lines_get_an_error_each_and_the_others_an_answer(void **state)
{
    (void)state;
    const struct debug_options o = {.backend = "cpu", .model_dir = golden_dir(0), .n_ctx = 64};
    const char *lines = "{\"ids\": [1], \"max_tokens\": 2}\n"
                        "not json\n"
                        "[1]\n"
                        "{\"ids\": []}\n"
                        "{\"ids\": [512], \"max_tokens\": 2}\n"
                        "{\"ids\": [1]}\n"
                        "{\"ids\": [1], \"max_tokens\": 2, \"draft\": 8}\n"
                        "{\"ids\": [1], \"max_tokens\": -2}\n"
                        "{\"ids\": [1], \"max_tokens\": 1e99}\n"
                        "{\"ids\": \"1\", \"max_tokens\": 2}\n"
                        "{\"ids\": [1], \"stop\": [1,2,3,4,5,6,7,8,9], \"max_tokens\": 2}\n"
                        "{\"ids\": [1], \"max_tokens\": 500}\n";
    json_t *answers = debug(run_generate, &o, lines, 1), *a;
    size_t i;
    assert_int_equal(json_array_size(answers), 12);
    json_array_foreach(answers, i, a)
        assert_int_equal(json_object_get(a, "error") == NULL, i == 0 || i == 11);
    assert_int_equal(json_array_size(json_object_get(json_array_get(answers, 11), "ids")), 63);         /* up to the context's end */

    json_t *first = json_array_get(json_object_get(json_array_get(answers, 11), "ids"), 10);            /* stops when told */
    char line[128];
    snprintf(line, sizeof line, "{\"ids\": [1], \"max_tokens\": 60, \"draft\": 3, \"stop\": [%d]}\n", (int)json_integer_value(first));
    json_t *stopped = debug(run_generate, &o, line, 0), *ids = json_object_get(json_array_get(stopped, 0), "ids");
    assert_true(json_array_size(ids) <= 11);
    assert_int_equal(json_integer_value(json_array_get(ids, json_array_size(ids) - 1)), json_integer_value(first));
    json_decref(stopped);
    json_decref(answers);

    answers = debug(run_draft, golden_dir(0), "{\"ids\": [1]}\n{\"ids\": [1], \"depth\": 100}\n{\"ids\": [1], \"depth\": 0}\n", 1);
    assert_non_null(json_object_get(json_array_get(answers, 0), "error"));
    assert_non_null(json_object_get(json_array_get(answers, 1), "error"));
    assert_non_null(json_object_get(json_array_get(answers, 2), "first"));
    json_decref(answers);
}

/* ---- the engine ---- */

enum { MOST_TOLD = 40 };

struct answer {
    struct ids ids;
    enum end finish;
    struct stats stats;
    struct logprobs told[MOST_TOLD];     /* of its first ids */
};

static struct engine *open_on(const char *where, const char *dir, int depth, int chunk, int n_sequences)
{
    struct err e = {0};
    struct engine_options o = {.backend = where, .model_dir = dir, .n_ctx = 512, .draft_depth = depth, .n_sequences = n_sequences, .chunk = chunk,
                               .head = getenv("HEAD")};
    struct engine *g = engine_open(&o, &e);
    if (!g)
        fail_msg("%s", e.msg);
    return g;
}

static struct engine *open_engine(const char *dir, int depth, int chunk)
{
    return open_on(backend, dir, depth, chunk, 1);
}

/* The whole answer; interrupts it when `interrupt_at` tokens came (0: never). */
static struct answer ask_in(struct engine *g, uint64_t sequence, const int32_t *ids, int n, int snapshot_pos, const struct sampling *how,
                            int interrupt_at)
{
    struct answer a = {0};
    uint32_t serial = engine_submit(g, sequence, spans_text(ids, n), snapshot_pos, how);
    for (bool done = false; !done;) {
        engine_wait(g, -1);
        struct event_list l = engine_drain(g);
        for (int i = 0; i < l.n; i++) {
            const struct event *ev = &l.events[i];
            if (ev->kind == EV_FATAL)
                fail_msg("%s", ev->message);
            for (int k = 0; ev->kind == EV_TOKENS && k < ev->n && a.ids.n + k < MOST_TOLD; k++)
                a.told[a.ids.n + k] = ev->logprobs[k];
            if (ev->kind == EV_TOKENS)
                ids_append(&a.ids, ev->ids, ev->n);
            if (ev->kind == EV_DONE) {
                assert_int_equal(ev->serial, serial);
                a.finish = ev->finish;
                a.stats = ev->stats;
                done = true;
            }
        }
        if (interrupt_at && a.ids.n >= interrupt_at)
            engine_interrupt(g, serial);
    }
    return a;
}

static struct answer ask(struct engine *g, const int32_t *ids, int n, int snapshot_pos, const struct sampling *how, int interrupt_at)
{
    return ask_in(g, 0, ids, n, snapshot_pos, how, interrupt_at);
}

static void assert_same(const struct ids *a, const struct ids *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->data, b->data, (size_t)a->n * sizeof *a->data);
}

static int some_ids(int32_t *ids, int n, unsigned seed)
{
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)((seed = seed * 1103515245u + 12345u) >> 16) % 512;
    return n;
}

static void test_generate__a_seed_gives_one_answer_at_every_depth_and_chunk(void **state)
{
    (void)state;
    const struct sampling hows[] = {
        {.max_tokens = 24, .draft_depth = -1},
        {.max_tokens = 24, .draft_depth = -1, .temperature = 1, .top_k = 20, .top_p = 0.95f, .seed = 3},
        {.max_tokens = 24, .draft_depth = -1, .temperature = 0.7f, .presence_penalty = 1.5f, .repetition_penalty = 1.1f, .seed = 4},
    };
    const int depths[] = {0, 1, 3, 5}, chunks[] = {64, 128, 192, 256};
    for (int m = 0; m < N_OWN; m++) {
        int32_t prompt[130];
        struct ids first[3] = {{0}};
        if (!is_there(own[m]))
            continue;
        some_ids(prompt, 130, 7);
        for (int d = 0; d < 4; d += SANITIZED ? 2 : 1) {
            struct engine *g = open_engine(own[m], depths[d], chunks[on_gpu() ? 0 : d]);
            for (int h = 0; h < 3; h++) {
                struct answer a = ask(g, prompt, 130, 0, &hows[h], 0);
                assert_int_equal(a.finish, END_LENGTH);
                if (d) {
                    assert_same(&a.ids, &first[h]);
                    ids_free(&a.ids);
                } else {
                    first[h] = a.ids;
                }
            }
            engine_close(g);
        }
        for (int h = 0; h < 3; h++)
            ids_free(&first[h]);
    }
}

/* The same alternatives; the greatest difference of their probabilities. */
static double compare_told(const struct answer *got, const struct answer *want)
{
    double worst = 0;
    for (int i = 0; i < want->ids.n && i < MOST_TOLD; i++) {
        const struct logprobs *g = &got->told[i], *w = &want->told[i];
        assert_int_equal(g->n, w->n);
        assert_memory_equal(g->ids, w->ids, (size_t)w->n * sizeof *w->ids);
        worst = fmax(worst, fabs((double)g->prob - (double)w->prob));
        for (int k = 0; k < w->n; k++)
            worst = fmax(worst, fabs((double)g->probs[k] - (double)w->probs[k]));
    }
    return worst;
}

/* Greedy, among the best ids with bias and penalties, and among all. */
static void test_generate__the_head_in_two_planes_answers_as_the_int8_head(void **state)
{
    (void)state;
    static const int32_t bias_ids[] = {3, 77, 300};
    static const float bias[] = {4, -INFINITY, -2};
    const struct sampling hows[] = {
        {.max_tokens = 40, .draft_depth = -1},
        {.max_tokens = 40, .draft_depth = -1, .presence_penalty = 0.5f, .repetition_penalty = 1.2f},
        {.max_tokens = 40, .draft_depth = -1, .temperature = 1, .top_k = 20, .top_p = 0.95f, .presence_penalty = 1.5f, .seed = 3,
         .bias_ids = bias_ids, .bias = bias, .n_bias = 3},
        {.max_tokens = 40, .draft_depth = -1, .temperature = 0.7f, .top_k = 64, .repetition_penalty = 0.9f, .seed = 6},
        {.max_tokens = 24, .draft_depth = -1, .temperature = 0.7f, .min_p = 0.05f, .seed = 4},
        {.max_tokens = 40, .draft_depth = -1, .n_alternatives = 8},
        {.max_tokens = 40, .draft_depth = -1, .temperature = 1, .top_k = 20, .top_p = 0.95f, .presence_penalty = 1.5f, .seed = 5,
         .n_alternatives = 5},
    };
    enum { N_HOWS = sizeof hows / sizeof *hows };
    static const int depths[] = {0, 3, 7};
    for (int m = 0; m < N_OWN; m++) {
        int32_t prompt[70];
        struct answer want[N_HOWS] = {{{0}}};
        double off = 0;
        if (!is_there(own[m]))
            continue;
        some_ids(prompt, 70, 21);
        for (int i = 0; i < 4; i++) {
            struct err e = {0};
            struct engine_options o = {.backend = "cpu", .model_dir = own[m], .n_ctx = 256, .draft_depth = i ? depths[i - 1] : 0,
                                       .head = i ? "planes" : "int8"};
            struct engine *g = engine_open(&o, &e);
            if (!g)
                fail_msg("%s", e.msg);
            for (int h = 0; h < N_HOWS; h++) {
                struct answer a = ask(g, prompt, 70, 0, &hows[h], 0);
                assert_int_equal(a.finish, END_LENGTH);
                if (!i) {
                    want[h] = a;
                    continue;
                }
                assert_same(&a.ids, &want[h].ids);
                off = fmax(off, compare_told(&a, &want[h]));
                ids_free(&a.ids);
            }
            engine_close(g);
        }
        print_message("%s: a probability is off by %.1e at most\n", own[m], off);
        assert_true(off < 1e-3);        /* kernels/step.h, step_logits */
        for (int h = 0; h < N_HOWS; h++)
            ids_free(&want[h].ids);
    }
}

/* Drafts may differ, answers may not. */
static void test_generate__an_mtp_block_in_any_form_answers_the_same(void **state)
{
    (void)state;
    static const char *const forms[] = {"bf16", "fp8", "int4"};
    const struct sampling how = {.max_tokens = 60, .draft_depth = 3, .temperature = 0};
    for (int m = 0; m < N_OWN; m++) {
        int32_t prompt[70];
        struct answer a[3];
        if (!is_there(own[m]))
            continue;
        some_ids(prompt, 70, 33);
        for (int i = 0; i < 3; i++) {
            struct err e = {0};
            struct engine *g = engine_open(&(struct engine_options){.backend = "cpu", .model_dir = own[m], .n_ctx = 256, .draft_depth = 3,
                                                                    .mtp = forms[i]}, &e);
            if (!g)
                fail_msg("%s", e.msg);
            a[i] = ask(g, prompt, 70, 0, &how, 0);
            engine_close(g);
        }
        assert_int_equal(a[0].ids.n, 60);
        for (int i = 1; i < 3; i++)
            assert_same(&a[i].ids, &a[0].ids);
        for (int i = 0; i < 3; i++)
            ids_free(&a[i].ids);
    }
}

/* An answer of an engine that remembers prices in that folder. */
static struct stats ask_remembering(const char *folder)
{
    const struct sampling how = {.max_tokens = 12, .draft_depth = -1};
    struct err e = {0};
    int32_t prompt[20];
    const struct engine_options o = {.backend = "cpu", .model_dir = own[0], .n_ctx = 256, .draft_depth = -1, .machine_dir = folder};
    struct engine *g = engine_open(&o, &e);
    if (!g)
        fail_msg("%s", e.msg);
    some_ids(prompt, 20, 3);
    struct answer a = ask(g, prompt, 20, 0, &how, 0);
    engine_close(g);
    assert_int_equal(a.ids.n, 12);
    ids_free(&a.ids);
    return a.stats;
}

static void test_generate__an_engine_begins_with_the_prices_that_one_before_it_measured(void **state)
{
    (void)state;
    static const char dear[] = "50 1 1.6 2.2 2.8 3.4 4 4.6 5.2 6 6 6 6 6 6 6 6 5000 0 0 0 0 0 0 0",
        cheap[] = "50 1 1 1 1 1 1 1 1 6 6 6 6 6 6 6 6 0.001 0 0 0 0 0 0 0";
    struct tmpdir dir;
    struct buf file = {0}, text = {0};
    struct err e;
    assert_true(tmpdir_make(&dir));
    ask_remembering(dir.path);
    buf_addf(&file, "%s/prices", dir.path);
    assert_true(file_read(&text, file.data, 10000, &e));
    const char *key = strstr(text.data, " cpu, ");
    assert_non_null(key);
    for (int i = 0; i < 2; i++) {
        struct buf line = {0};
        buf_addf(&line, "%s%s", i ? cheap : dear, key);
        assert_true(tmpdir_put(&dir, "prices", line.data, line.len));
        buf_free(&line);
        const struct stats s = ask_remembering(dir.path);
        assert_true(i ? s.drafts[DRAFT_MTP][LIMIT_DRAFTS - 1].drafted > 0 : stats_all_drafts(&s).drafted == 0);
    }
    tmpdir_drop(&dir, "prices");
    tmpdir_remove(&dir);
    buf_free(&file);
    buf_free(&text);
}

static void test_generate__rewind_and_refill_gives_what_a_fresh_engine_gives(void **state)
{
    (void)state;
    for (int m = 0; m < N_OWN; m++) {
        int32_t ids[400];
        struct sampling how = {.max_tokens = 30, .draft_depth = -1, .temperature = 0.8f, .top_k = 20, .seed = 5};
        if (!is_there(own[m]))
            continue;
        struct engine *g = open_engine(own[m], 3, 64);
        int n = some_ids(ids, 200, 9);
        struct answer a = ask(g, ids, n, 192, &how, 0);
        struct answer again = ask(g, ids, n, 192, &how, 0);             /* regenerate */
        assert_int_equal(again.stats.n_cached, 192);
        assert_same(&again.ids, &a.ids);

        struct answer cut = ask(g, ids, n, 192, &how, 5);               /* an interrupted one is a beginning of it */
        assert_true(cut.ids.n >= 5 && cut.ids.n <= 30);
        assert_memory_equal(cut.ids.data, a.ids.data, (size_t)cut.ids.n * sizeof *cut.ids.data);
        memcpy(ids + n, cut.ids.data, (size_t)cut.ids.n * sizeof *ids);
        n += cut.ids.n;
        n += some_ids(ids + n, 40, 11);
        struct answer next = ask(g, ids, n, 0, &how, 0);                /* and the talk goes on after it */
        assert_int_equal(next.stats.n_cached, 200 + cut.ids.n - 1);

        ids[195] = (ids[195] + 1) % 512;                                /* an edit */
        struct answer edited = ask(g, ids, 200, 192, &how, 0);
        assert_int_equal(edited.stats.n_cached, 192);
        engine_close(g);

        g = open_engine(own[m], 0, 64);
        struct answer fresh = ask(g, ids, 200, 192, &how, 0);
        assert_int_equal(fresh.stats.n_cached, 0);
        assert_same(&edited.ids, &fresh.ids);
        engine_close(g);
        ids_free(&a.ids);
        ids_free(&again.ids);
        ids_free(&cut.ids);
        ids_free(&next.ids);
        ids_free(&edited.ids);
        ids_free(&fresh.ids);
    }
}

/* A turn of a conversation in an engine.  Returns how many tokens of its prompt were computed. */
struct talk {
    int32_t ids[512];
    int     n, computed;
};

static void talk_turn(struct talk *t, struct engine *g, uint64_t name, int turn, int interrupt_at, struct ids *out)
{
    const struct sampling how = {.max_tokens = 14, .draft_depth = -1, .temperature = name % 2 ? 0.8f : 0, .top_k = 20, .seed = 5};
    t->n += some_ids(t->ids + t->n, 20, (unsigned)(100 * name) + (unsigned)turn);
    struct answer a = ask_in(g, name, t->ids, t->n, t->n - 2, &how, interrupt_at);
    t->computed += t->n - a.stats.n_cached;
    if (interrupt_at)                   /* where it is stopped depends on time: the talk goes on behind the same token everywhere */
        a.ids.n = interrupt_at;
    memcpy(t->ids + t->n, a.ids.data, (size_t)a.ids.n * sizeof *a.ids.data);
    t->n += a.ids.n;
    ids_append(out, a.ids.data, a.ids.n);
    ids_free(&a.ids);
}

/* In turns in one engine, two conversations say what each says in an engine of its own, and no token is computed twice. */
static void test_generate__two_alternating_conversations_equal_two_processes(void **state)
{
    enum { TURNS = 10, STOPPED = 4, STOP_AT = 3 };
    (void)state;
    for (int m = 0; m < N_OWN; m++)
        for (int depth = 0; is_there(own[m]) && depth <= 3; depth += 3) {
            struct talk both[2] = {{.n = 0}}, alone[2] = {{.n = 0}};
            struct ids said[2] = {{0}}, want[2] = {{0}};
            struct engine *g = open_on(backend, own[m], depth, 64, 2);
            for (int turn = 0; turn < TURNS; turn++)
                for (int i = 0; i < 2; i++)
                    talk_turn(&both[i], g, 7 + (uint64_t)i, turn, i && turn == STOPPED ? STOP_AT : 0, &said[i]);
            engine_close(g);
            for (int i = 0; i < 2; i++) {
                g = open_on(backend, own[m], depth, 64, 1);
                for (int turn = 0; turn < TURNS; turn++)
                    talk_turn(&alone[i], g, 7 + (uint64_t)i, turn, i && turn == STOPPED ? STOP_AT : 0, &want[i]);
                engine_close(g);
                assert_same(&said[i], &want[i]);
                /* what was said, and the newest token of each answer, which no step had run; an interrupt may come late */
                assert_true(both[i].computed >= 20 * TURNS && both[i].computed <= 21 * TURNS + (i ? 14 : 0));
                ids_free(&said[i]);
                ids_free(&want[i]);
            }
        }
}

/* ---- several answers at once ---- */

enum { AT_ONCE = 4 };

/* Each is asked when the one before it has said some words; the last one takes another conversation's place. */
static void all_at_once(struct engine *g, const int32_t ids[AT_ONCE + 1][130], const int *n, const struct sampling *how, struct ids *said)
{
    uint32_t serials[AT_ONCE + 1] = {0};
    int asked = 0, n_done = 0;
    while (n_done <= AT_ONCE) {
        if (asked <= AT_ONCE && (!asked || said[asked - 1].n >= 2 + asked || n_done)) {
            serials[asked] = engine_submit(g, 100 + (uint64_t)asked, spans_text(ids[asked], n[asked]), 0, &how[asked]);
            asked++;
        }
        engine_wait(g, -1);
        struct event_list l = engine_drain(g);
        for (int i = 0; i < l.n; i++) {
            const struct event *ev = &l.events[i];
            assert_int_not_equal(ev->kind, EV_FATAL);
            for (int k = 0; k < asked && ev->kind == EV_TOKENS; k++)
                if (serials[k] == ev->serial)
                    ids_append(&said[k], ev->ids, ev->n);
            n_done += ev->kind == EV_DONE;
        }
    }
}

static void test_generate__answers_at_once_are_those_of_engines_of_their_own(void **state)
{
    (void)state;
    const struct sampling how[AT_ONCE + 1] = {
        {.max_tokens = 40, .draft_depth = -1, .lookup = true},
        {.max_tokens = 30, .draft_depth = 2, .temperature = 1, .top_k = 20, .top_p = 0.95f, .seed = 3},
        {.max_tokens = 25, .draft_depth = -1, .temperature = 0.7f, .presence_penalty = 1.5f, .repetition_penalty = 1.1f, .seed = 4,
         .n_alternatives = 3},
        {.max_tokens = 20, .draft_depth = 0},
        {.max_tokens = 12, .draft_depth = 3},
    };
    const int n[AT_ONCE + 1] = {20, 130, 64, 100, 7};
    for (int m = 0; m < N_OWN; m++) {
        int32_t ids[AT_ONCE + 1][130];
        struct ids want[AT_ONCE + 1] = {{0}};
        if (!is_there(own[m]))
            continue;
        struct engine *g = open_on(backend, own[m], 3, 64, 1);
        for (int i = 0; i <= AT_ONCE; i++) {
            some_ids(ids[i], n[i], 50 + (unsigned)i);
            want[i] = ask(g, ids[i], n[i], 0, &how[i], 0).ids;
        }
        engine_close(g);
        for (int n_sequences = 2; n_sequences <= AT_ONCE; n_sequences += 2) {
            struct ids said[AT_ONCE + 1] = {{0}};
            g = open_on(backend, own[m], 3, 64, n_sequences);
            all_at_once(g, ids, n, how, said);
            engine_close(g);
            for (int i = 0; i <= AT_ONCE; i++) {
                assert_same(&said[i], &want[i]);
                ids_free(&said[i]);
            }
        }
        for (int i = 0; i <= AT_ONCE; i++)
            ids_free(&want[i]);
    }
}

/* ---- sampling ---- */

enum { TOP = 4 };                       /* top-k, so that the joint distribution of two tokens has 16 cells */

/* Finds the TOP most likely ids after the prompt, with their probabilities, and the next one if rounding may put it in the place of the last of
 * them; -1: it may not. */
static void best_ids(struct model *m, const int32_t *ids, int n, int32_t best[TOP + 1], double *p)
{
    float *logits = malloc((size_t)m->cfg.vocab * sizeof *logits);
    double total = 0, least = 0;
    cache_reset(m->cache);
    prompt_chunk(m->forward, m->cache, ids, n, 0, false);
    prompt_head(m->forward, HEAD_BF16, forward_last_hidden(m->cache), 1, logits);
    for (int i = 0; i < TOP; i++) {
        best[i] = sampler_argmax(logits, m->cfg.vocab);
        least = (double)logits[best[i]];
        total += p[i] = exp(least);
        logits[best[i]] = -INFINITY;
    }
    best[TOP] = sampler_argmax(logits, m->cfg.vocab);
    if (least - (double)logits[best[TOP]] > (double)clear_margin)
        best[TOP] = -1;
    for (int i = 0; i < TOP; i++)
        p[i] /= total;
    free(logits);
}

/* Returns the place of an id among the most likely ones; one that is as near as the last of them counts as that. */
static int index_of(const int32_t list[TOP + 1], int32_t id)
{
    for (int i = 0; i <= TOP; i++)
        if (list[i] == id)
            return i < TOP ? i : TOP - 1;
    return -1;
}

/* Distribution of the two ids after a prompt: each first id, and each second one after it, with their probabilities. */
enum { N_BEFORE = 24 };
struct two_tokens {
    int32_t prompt[N_BEFORE + 1];       /* the last one is the first id that comes */
    int32_t first[TOP + 1], second[TOP][TOP + 1];
    double  p1[TOP], p2[TOP][TOP];
};

static void expect_two(struct model *m, struct two_tokens *t)
{
    best_ids(m, t->prompt, N_BEFORE, t->first, t->p1);
    for (int i = 0; i < TOP; i++) {
        t->prompt[N_BEFORE] = t->first[i];
        best_ids(m, t->prompt, N_BEFORE + 1, t->second[i], t->p2[i]);
    }
}

/* One that goes round in a circle of some ids, and may go on so for two more tokens: then these are found in the text. */
static bool expect_circle(struct model *m, struct two_tokens *t)
{
    enum { ROUND = 5 };
    for (unsigned seed = 1; seed < 200; seed++) {
        some_ids(t->prompt, ROUND, seed);
        for (int i = ROUND; i < N_BEFORE; i++)
            t->prompt[i] = t->prompt[i - ROUND];
        const int32_t next = t->prompt[N_BEFORE - ROUND], then = t->prompt[N_BEFORE - ROUND + 1];
        best_ids(m, t->prompt, N_BEFORE, t->first, t->p1);
        const int i = index_of(t->first, next);
        if (i < 0 || t->p1[i] < 0.2)
            continue;
        expect_two(m, t);
        const int k = index_of(t->second[i], then);
        if (k >= 0 && t->p2[i][k] > 0.1 && t->p2[i][k] < 0.9)
            return true;
    }
    return false;
}

struct counts {
    struct draft_count mtp, lookup;     /* first drafts of a step */
};

/* Many answers of three tokens, one seed each: the first two against their exact joint distribution. */
static struct counts assert_distribution(const char *name, const struct two_tokens *t, const struct engine_options *o, bool lookup, int rounds)
{
    struct err e = {0};
    struct engine *g = engine_open(o, &e);
    struct counts c = {0};
    int count[TOP][TOP] = {{0}};
    double chi = 0;
    if (!g)
        fail_msg("%s", e.msg);
    for (int i = 0; i < rounds; i++) {
        struct sampling how = {.max_tokens = 3, .draft_depth = o->draft_depth, .lookup = lookup, .temperature = 1, .top_k = TOP,
                               .seed = (uint64_t)(i + o->draft_depth * rounds)};
        struct answer a = ask(g, t->prompt, N_BEFORE, N_BEFORE, &how, 0);
        int i1 = index_of(t->first, a.ids.data[0]), i2 = i1 < 0 ? -1 : index_of(t->second[i1], a.ids.data[1]);
        assert_true(i1 >= 0 && i2 >= 0);
        count[i1][i2]++;
        c.mtp.drafted += a.stats.drafts[DRAFT_MTP][0].drafted;
        c.mtp.accepted += a.stats.drafts[DRAFT_MTP][0].accepted;
        c.lookup.drafted += a.stats.drafts[DRAFT_LOOKUP][0].drafted;
        c.lookup.accepted += a.stats.drafts[DRAFT_LOOKUP][0].accepted;
        ids_free(&a.ids);
    }
    for (int i = 0; i < TOP; i++)
        for (int k = 0; k < TOP; k++) {
            double want = rounds * t->p1[i] * t->p2[i][k];
            chi += (count[i][k] - want) * (count[i][k] - want) / want;
        }
    double off = (chi - (TOP * TOP - 1)) / sqrt(2.0 * (TOP * TOP - 1));
    printf("%s: chi-square %.1f of %d cells, %d of %d drafts accepted; %d looked up, %d of them accepted\n", name, chi, TOP * TOP, c.mtp.accepted,
           c.mtp.drafted, c.lookup.drafted, c.lookup.accepted);
    assert_true(off < 4);
    engine_close(g);
    return c;
}

static void open_for_logits(struct model *m, const char *dir)
{
    struct err e = {0};
    if (!load_open(m, &(struct load_options){
        .head = "bf16", .backend = "cpu", .dir = dir,
        .n_ctx = 64, .chunk = 64, .n_snapshots = LOAD_NO_SNAPSHOTS,
    }, &e))
        fail_msg("%s", e.msg);
}

enum { ANSWERS = 1500 };

/* Random weights accept no drafts: there every one is rejected.  The trained model goes on with a circle, so that some are accepted. */
static void test_generate__drafts_leave_the_sampling_distribution_as_it_is(void **state)
{
    (void)state;
    for (int which = 0; which < N_OWN; which += 2) {
        const bool trained = !strcmp(own[which], "assets/demo");
        struct model m;
        struct two_tokens t;
        char name[100];
        if (!is_there(own[which]))
            continue;
        open_for_logits(&m, own[which]);
        some_ids(t.prompt, N_BEFORE, 21);
        if (trained)
            assert_true(expect_circle(&m, &t));
        else
            expect_two(&m, &t);
        load_close(&m);
        for (int depth = 0; depth <= 3; depth += 3) {
            const int rounds = trained ? ANSWERS : ANSWERS / 10;
            snprintf(name, sizeof name, "%s depth %d", own[which], depth);
            const struct engine_options o = {.backend = backend, .model_dir = own[which], .n_ctx = 64, .draft_depth = depth, .head = "bf16",
                                             .n_threads = 1};
            const struct counts c = assert_distribution(name, &t, &o, false, rounds);
            assert_int_equal(c.mtp.drafted > 0, depth > 0);
            assert_true(!depth || c.mtp.accepted < c.mtp.drafted);
            assert_true(!depth || !trained || c.mtp.accepted > rounds / 20);
        }
    }
}

/* As many as pay, of the MTP block and of the text. */
static void test_generate__what_is_looked_up_leaves_the_sampling_distribution_as_it_is(void **state)
{
    (void)state;
    static const char dir[] = "assets/demo";
    const struct engine_options o = {.backend = backend, .model_dir = dir, .n_ctx = 64, .draft_depth = -1, .head = "bf16", .n_threads = 1};
    struct model m;
    struct two_tokens t;
    if (SANITIZED || !is_there(dir))
        return;
    open_for_logits(&m, dir);
    assert_true(expect_circle(&m, &t));
    load_close(&m);
    const struct counts c = assert_distribution("auto and lookup", &t, &o, true, ANSWERS / 2);
    assert_true(c.lookup.drafted > c.lookup.accepted && c.lookup.accepted > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generate__greedy_continuations_equal_the_reference_at_every_depth),
        cmocka_unit_test(test_generate__drafts_equal_the_reference),
        cmocka_unit_test(test_generate__bad_lines_get_an_error_each_and_the_others_an_answer),
        cmocka_unit_test(test_generate__a_seed_gives_one_answer_at_every_depth_and_chunk),
        cmocka_unit_test(test_generate__the_head_in_two_planes_answers_as_the_int8_head),
        cmocka_unit_test(test_generate__an_mtp_block_in_any_form_answers_the_same),
        cmocka_unit_test(test_generate__an_engine_begins_with_the_prices_that_one_before_it_measured),
        cmocka_unit_test(test_generate__rewind_and_refill_gives_what_a_fresh_engine_gives),
        cmocka_unit_test(test_generate__two_alternating_conversations_equal_two_processes),
        cmocka_unit_test(test_generate__answers_at_once_are_those_of_engines_of_their_own),
        cmocka_unit_test(test_generate__drafts_leave_the_sampling_distribution_as_it_is),
        cmocka_unit_test(test_generate__what_is_looked_up_leaves_the_sampling_distribution_as_it_is),
    };
    const struct CMUnitTest gpu_tests[] = {
        cmocka_unit_test(test_generate__greedy_continuations_equal_the_reference_at_every_depth),
        cmocka_unit_test(test_generate__bad_lines_get_an_error_each_and_the_others_an_answer),
        cmocka_unit_test(test_generate__a_seed_gives_one_answer_at_every_depth_and_chunk),
        cmocka_unit_test(test_generate__rewind_and_refill_gives_what_a_fresh_engine_gives),
        cmocka_unit_test(test_generate__two_alternating_conversations_equal_two_processes),
        cmocka_unit_test(test_generate__answers_at_once_are_those_of_engines_of_their_own),
        cmocka_unit_test(test_generate__drafts_leave_the_sampling_distribution_as_it_is),
        cmocka_unit_test(test_generate__what_is_looked_up_leaves_the_sampling_distribution_as_it_is),
    };
    struct err e = {0};
    const bool gpu = dev_backend("cuda", &e), gpu_alone = getenv("BACKEND") && !strcmp(getenv("BACKEND"), "cuda");
    if (gpu_alone && !gpu)
        print_error("BACKEND=cuda: %s\n", e.msg);
    const int failed = gpu_alone ? !gpu : cmocka_run_group_tests_name("CPU", tests, NULL, NULL);
    if (!gpu)
        return failed;
    backend = "cuda";
    return failed + cmocka_run_group_tests_name("GPU", gpu_tests, NULL, NULL);
}
