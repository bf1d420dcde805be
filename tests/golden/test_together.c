/* Chunks of several conversations in one call have the bits that each has in calls of its own: the demo model with its context stretched by YaRN,
 * with every KV recipe, MTP rows and a picture.  BACKEND=cuda: on a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/answering.h"
#include "engine/load.h"
#include "engine/spans.h"
#include "model/prompt.h"
#include "model/step.h"
#include "tests/emulated.h"
#include "tests/tmpdir.h"

enum { TALKS = 3, ASIDE = TALKS, PLACES, CTX = 384, TRAINED = 128, SEES = 1, STEPS = 2, KEPT = 0 };

/* Rows of each conversation, call by call.  The first one reaches the end of its context. */
static const int calls[][TALKS] = {{40, 64, 24}, {150, 130, 0}, {0, 131, 200}, {190, 0, 140}, {4, 1, 3}};
enum { CALLS = sizeof calls / sizeof *calls, STEP_BEFORE = 2, KEEP_AFTER = 1 };

/* A conversation and its results. */
struct talk {
    int   pos;
    float *hidden;                      /* [CTX, hidden]; of steps zeros */
    float *draft;                       /* [hidden] after its last row */
    char  *states, *rows;
    size_t n_states, n_rows;
};

static struct tmpdir dir;
static struct model m;
static int32_t ids[PLACES][CTX];
static const struct picture picture = {.first = 70, .n = 60, .h = 6, .w = 10, .hash = {1, 2}};
static struct rope_position *positions;
static int n_positions, offset;
static struct picture_rows seen;

static const char *backend(void) { return getenv("BACKEND") ? getenv("BACKEND") : "cpu"; }

static size_t hidden_bytes(int n) { return (size_t)n * (size_t)m.cfg.hidden * sizeof(float); }

static void finish(void)
{
    struct err e;
    if (!m.dev->finish(m.dev, &e))
        fail_msg("%s", e.msg);
}

static struct talk begin(int i)
{
    cache_reset(m.caches[i]);
    if (i == SEES) {
        cache_set_positions(m.caches[i], positions, n_positions, offset);
        cache_set_pictures(m.caches[i], &seen, 1);
    }
    return (struct talk){.hidden = calloc(1, hidden_bytes(CTX))};
}

/* Reads n[i] tokens of each conversation in one call. */
static void read_together(struct talk *all, const int n[TALKS])
{
    struct prompt_part parts[TALKS];
    int n_parts = 0;
    for (int i = 0; i < TALKS; i++)
        if (n[i])
            parts[n_parts++] = (struct prompt_part){.k = m.caches[i], .ids = ids[i] + all[i].pos, .n = n[i], .pos = all[i].pos};
    prompt_chunks(m.forward, parts, n_parts, true);
    const float *hidden = forward_hidden(m.forward);
    for (int i = 0; i < TALKS; hidden += (size_t)n[i++] * (size_t)m.cfg.hidden) {
        if (n[i])
            m.dev->copy(m.dev, all[i].hidden + (size_t)all[i].pos * (size_t)m.cfg.hidden, hidden, hidden_bytes(n[i]));
        all[i].pos += n[i];
    }
    finish();
}

static void read_alone(struct talk *t, int i, int n)
{
    struct talk all[TALKS] = {{0}};
    int only[TALKS] = {0};
    all[i] = *t;
    only[i] = n;
    if (n)
        read_together(all, only);
    *t = all[i];
}

/* A step of three tokens, of which two count. */
static void step(struct talk *t, int i)
{
    step_run(m.forward, m.caches[i], ids[i] + t->pos, 3, t->pos);
    cache_accept(m.caches[i], 2);
    t->pos += 2;
}

/* Copies what the conversation has left behind.  The draft after its last row depends on its MTP rows, and adds the newest one to them. */
static void look(struct talk *t, int i)
{
    struct cache *k = m.caches[i];
    float *out = m.dev->alloc(m.dev, hidden_bytes(1));
    t->n_states = cache_saved_bytes(&m.cfg, m.kv);
    t->n_rows = cache_rows_bytes(k, 0, t->pos);
    t->states = calloc(1, t->n_states);
    t->rows = calloc(1, t->n_rows);
    t->draft = malloc(hidden_bytes(1));
    prompt_mtp(m.forward, k, forward_last_hidden(k), &ids[i][5], 1, t->pos - 1, out);
    m.dev->copy(m.dev, t->draft, out, hidden_bytes(1));
    cache_state_save(k, t->states);
    cache_rows_save(k, 0, t->pos, t->rows);
    finish();
    m.dev->free(m.dev, out);
}

static void drop(struct talk *t)
{
    free(t->hidden), free(t->draft), free(t->states), free(t->rows);
}

static void same(const struct talk *a, const struct talk *b, int i, const char *kv)
{
    assert_int_equal(a->pos, b->pos);
    assert_true(a->n_states == b->n_states && a->n_rows == b->n_rows);
    if (memcmp(a->hidden, b->hidden, hidden_bytes(a->pos)))
        fail_msg("%s: hidden states of conversation %d differ", kv, i);
    if (memcmp(a->states, b->states, a->n_states) || memcmp(a->rows, b->rows, a->n_rows))
        fail_msg("%s: what is saved of conversation %d differs", kv, i);
    if (memcmp(a->draft, b->draft, hidden_bytes(1)))
        fail_msg("%s: the draft of conversation %d differs", kv, i);
}

static struct talk read_by_itself(int i)
{
    struct talk t = begin(i);
    for (int c = 0; c < CALLS; c++) {
        if (i == STEPS && c == STEP_BEFORE)
            step(&t, i);
        read_alone(&t, i, calls[c][i]);
    }
    look(&t, i);
    return t;
}

/* The states that were kept on the way bring their position back, whatever was read with it. */
static void continue_kept(const void *kept, int pos, const struct talk *want, const char *kv)
{
    struct talk t = {.pos = pos, .hidden = malloc(hidden_bytes(CTX))};
    memcpy(t.hidden, want->hidden, hidden_bytes(pos));
    cache_state_load(m.caches[KEPT], kept);
    for (int c = KEEP_AFTER + 1; c < CALLS; c++)
        read_alone(&t, KEPT, calls[c][KEPT]);
    look(&t, KEPT);
    same(&t, want, KEPT, kv);
    drop(&t);
}

static void check_recipe(const char *kv)
{
    const size_t n = cache_saved_bytes(&m.cfg, m.kv);
    struct talk want[TALKS], got[TALKS];
    char *kept = calloc(1, n), *aside[2] = {calloc(1, n), calloc(1, n)};
    int kept_pos = 0;
    for (int i = 0; i < TALKS; i++)
        want[i] = read_by_itself(i);
    for (int i = 0; i < TALKS; i++)
        got[i] = begin(i);
    cache_reset(m.caches[ASIDE]);
    prompt_chunk(m.forward, m.caches[ASIDE], ids[ASIDE], 50, 0, true);
    cache_state_save(m.caches[ASIDE], aside[0]);
    for (int c = 0; c < CALLS; c++) {
        if (c == STEP_BEFORE)
            step(&got[STEPS], STEPS);
        read_together(got, calls[c]);
        if (c == KEEP_AFTER) {
            cache_state_save(m.caches[KEPT], kept);
            kept_pos = got[KEPT].pos;
        }
    }
    assert_int_equal(got[0].pos, CTX);
    cache_state_save(m.caches[ASIDE], aside[1]);
    for (int i = 0; i < TALKS; i++) {
        look(&got[i], i);
        same(&got[i], &want[i], i, kv);
    }
    assert_memory_equal(aside[0], aside[1], n);
    continue_kept(kept, kept_pos, &want[KEPT], kv);
    for (int i = 0; i < TALKS; i++)
        drop(&want[i]), drop(&got[i]);
    free(kept), free(aside[0]), free(aside[1]);
}

/* The tower's rows may be any numbers. */
static void make_picture(void)
{
    float *rows = malloc(hidden_bytes(picture.n));
    for (int i = 0; i < picture.n * m.cfg.hidden; i++)
        rows[i] = (float)(i * 37 % 101 - 50) * 0.002f;
    float *there = m.dev->alloc(m.dev, hidden_bytes(picture.n));
    m.dev->copy(m.dev, there, rows, hidden_bytes(picture.n));
    finish();
    free(rows);
    seen = (struct picture_rows){.first = picture.first, .n = picture.n, .rows = there};
}

static void test_together__rows_states_and_drafts_are_those_that_each_has_alone(void **state)
{
    (void)state;
    const struct spans spans = {.ids = ids[SEES], .n = CTX, .pictures = &picture, .n_pictures = 1};
    positions = spans_positions(spans, &n_positions, &offset);
    for (int i = 0; kv_recipe_at(i); i++) {
        const struct kv_recipe *r = kv_recipe_at(i);
        struct err e = {0};
        if (!load_takes(dev_caps(backend()), r) || (SANITIZED && strcmp(r->name, "f32") && strcmp(r->name, "tq4")))
            continue;
        if (!load_open(&m, &(struct load_options){.dir = dir.path, .backend = backend(), .kv = r->name, .n_threads = 2, .n_ctx = CTX, .chunk = CTX,
                                                  .no_vision = true, .depth = 1, .n_sequences = PLACES, .n_snapshots = LOAD_NO_SNAPSHOTS}, &e))
            fail_msg("%s", e.msg);
        assert_true(m.weights.mtp.present && m.cfg.yarn_factor > 1);
        make_picture();
        check_recipe(r->name);
        m.dev->free(m.dev, (void *)(uintptr_t)seen.rows);
        load_close(&m);
    }
    free(positions);
}

/* ---- answers */

enum { SAID = 16, CALL = 2 * CTX };

static const struct asked { int n; struct sampling how; } asked[TALKS] = {
    {200, {.max_tokens = SAID, .draft_depth = -1, .lookup = true}},
    {150, {.max_tokens = SAID, .draft_depth = 2, .temperature = 1, .top_k = 20, .seed = 3}},
    {CTX - 3, {.max_tokens = SAID, .draft_depth = 3}},  /* until its context ends */
};

struct said {
    int32_t ids[SAID];
    float   prob[SAID];
    int     n;
    struct outcome out;
};

static bool never_stops(void *arg) { return (void)arg, false; }
static void no_progress(void *arg, int done, int total, int cached) { (void)arg, (void)done, (void)total, (void)cached; }
static bool take(void *arg, const struct picks *p)
{
    struct said *s = arg;
    for (int i = 0; i < p->n; i++) {
        s->ids[s->n] = p->ids[i];
        s->prob[s->n++] = p->prob[i];
    }
    return true;
}

/* Begins the answer of conversation i, which has the name `name`. */
static void ask(struct decoder *d, int i, uint64_t name, struct said *s)
{
    const struct decoder_hooks h = {.stop = never_stops, .prefill = no_progress, .tokens = take, .arg = s};
    const struct prompt p = {.sequence = name, .spans = spans_text(ids[i], asked[i].n), .how = &asked[i].how};
    *s = (struct said){0};
    decoder_begin(d, &p, &h, &s->out);
}

static void test_together__answers_are_those_that_each_has_alone(void **state)
{
    (void)state;
    struct said alone[TALKS], together[TALKS];
    struct err e = {0};
    if (!load_open(&m, &(struct load_options){.dir = dir.path, .backend = backend(), .kv = "bf16", .n_threads = 2, .n_ctx = CTX, .chunk = CALL,
                                              .no_vision = true, .depth = 3, .n_sequences = TALKS, .n_snapshots = 4}, &e))
        fail_msg("%s", e.msg);
    struct decoder *d = decoder_open(m.dev, &m.cfg, m.forward, m.caches, &(struct decoder_options){
        .n_ctx = m.n_ctx, .chunk = CALL, .fixed_chunk = true, .depth = m.depth, .n_sequences = TALKS, .n_snapshots = 4, .head = m.head}, &e);
    assert_non_null(d);
    d->pace.call_ms = 1e6;              /* as if it took long to read the weights */
    for (int i = 0; i < TALKS; i++) {
        ask(d, i, 1 + (uint64_t)i, &alone[i]);
        while (d->n_runs)
            assert_true(decoder_turn(d, &e));
    }
    for (int i = 0; i < TALKS; i++)
        ask(d, i, 1 + TALKS + (uint64_t)i, &together[i]);
    assert_true(decoder_turn(d, &e));
    for (int i = 0; i < TALKS; i++)
        assert_int_equal(d->sequences.all[i].tl.n_run, d->sequences.all[i].tl.n);       /* one call has read all of them */
    while (d->n_runs)
        assert_true(decoder_turn(d, &e));
    for (int i = 0; i < TALKS; i++) {
        assert_int_equal(together[i].out.finish, i == TALKS - 1 ? END_CONTEXT : END_LENGTH);
        assert_int_equal(together[i].out.finish, alone[i].out.finish);
        assert_int_equal(together[i].n, alone[i].n);
        assert_memory_equal(together[i].ids, alone[i].ids, sizeof alone[i].ids);
        assert_memory_equal(together[i].prob, alone[i].prob, sizeof alone[i].prob);
    }
    decoder_close(d);
    load_close(&m);
}

/* ---- the model: the demo's, as if it had been trained on TRAINED positions */

static const char *const files[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model_extra_tensors.safetensors",
                                    "model_vision.safetensors", "model.safetensors.index.json"};
enum { N_FILES = sizeof files / sizeof *files };

static int make_dir(void **state)
{
    (void)state;
    char from[300], to[192], here[200];
    if (!tmpdir_make(&dir) || !getcwd(here, sizeof here))
        return -1;
    for (int i = 0; i < N_FILES; i++) {
        snprintf(from, sizeof from, "%s/assets/demo/%s", here, files[i]);
        snprintf(to, sizeof to, "%s/%s", dir.path, files[i]);
        if (symlink(from, to))
            return -1;
    }
    json_t *config = json_load_file("assets/demo/config.json", 0, NULL);
    json_object_set_new(json_object_get(config, "text_config"), "max_position_embeddings", json_integer(TRAINED));
    char *text = json_dumps(config, 0);
    const bool ok = tmpdir_put(&dir, "config.json", text, strlen(text));
    free(text);
    json_decref(config);
    for (int i = 0; i < PLACES; i++)
        for (int j = 0; j < CTX; j++)
            ids[i][j] = (int32_t)((uint32_t)(i * CTX + j + 1) * 2654435761u % 4000);
    return ok ? 0 : -1;
}

static int drop_dir(void **state)
{
    (void)state;
    for (int i = 0; i < N_FILES; i++)
        tmpdir_drop(&dir, files[i]);
    tmpdir_drop(&dir, "config.json");
    tmpdir_remove(&dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together__rows_states_and_drafts_are_those_that_each_has_alone),
        cmocka_unit_test(test_together__answers_are_those_that_each_has_alone),
    };
    return cmocka_run_group_tests_name("together", tests, make_dir, drop_dir);
}
