/* Answers of the demo model under schemas of real programs: each that ends is one JSON value that its schema accepts, however many drafts its steps
 * verify, and a cut one is said to be cut.  The same for ids drawn from logits at random, which try what no model would write.
 * LONG=1: all schemas, ten answers each; BACKEND=cuda asks a GPU; V=1: figures.  By hand also `test_guided_answers FILE...` with other files of
 * schemas; OUT=FILE: every answer that ended as a line of JSON, for tests/golden/valid.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "guide/guide.h"
#include "tests/emulated.h"
#include "text/pyjson.h"
#include "text/tokenizer.h"

static const char dir[] = "assets/demo";
static const char *const vendored[] = {"tests/data/schemas/schemas.jsonl"};
static const char *const *files = vendored;
static int n_files = 1;
static FILE *kept_in;
static struct engine *engine;
static struct tokenizer *tokenizer;
static struct guide_vocabulary *vocabulary;
static int32_t end_id;

/* ---- schemas ---- */

/* Calls `use` with every schema of the file that compiles, one in `every`. */
static int each_schema_of(const char *file, int every, void (*use)(const char *id, struct text schema))
{
    FILE *f = fopen(file, "r");
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    int n = 0, used = 0;
    assert_non_null(f);
    while ((len = getline(&line, &cap, f)) > 0) {
        struct arena arena = {0};
        struct pyjson v;
        struct buf schema = {0};
        struct err e = {0};
        assert_true(pyjson_parse(&v, (struct text){line, (size_t)len}, PYJSON_LOADS, &arena, NULL));
        pyjson_dump(pyjson_get(&v, "schema"), &schema);
        const struct text id = pyjson_get(&v, "id")->text, text = {schema.data, schema.len};
        struct grammar *g = n++ % every ? NULL : grammar_of_schema(text, &(struct grammar_options){.ordered = true, .plain = true}, &e);
        char name[160];
        snprintf(name, sizeof name, "%.*s", (int)id.n, id.p);
        if (g) {
            use(name, text);
            used++;
        }
        grammar_release(g);
        buf_free(&schema);
        arena_free(&arena);
    }
    free(line);
    fclose(f);
    return used;
}

static int each_schema(int every, void (*use)(const char *id, struct text schema))
{
    int used = 0;
    for (int i = 0; i < n_files; i++)
        used += each_schema_of(files[i], every, use);
    return used;
}

static struct grammar *compiled(struct text schema)
{
    struct err e;
    struct grammar *g = grammar_of_schema(schema, &(struct grammar_options){.ordered = true, .plain = true}, &e);
    assert_non_null(g);
    return g;
}

static struct guide *guide_of(struct text schema)
{
    struct grammar *g = compiled(schema);
    struct guide *guide = guide_new(g, vocabulary, false);
    grammar_release(g);
    return guide;
}

static void add_text(struct buf *out, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) {
        size_t size;
        const char *bytes = tokenizer_bytes(tokenizer, ids[i], &size);
        if (bytes && ids[i] != end_id)
            buf_add(out, bytes, size);
    }
}

/* The text is a value that another grammar of the schema accepts. */
static void assert_valid(const char *id, struct text schema, const struct buf *text)
{
    struct grammar *g = compiled(schema);
    struct grammar_state s = grammar_begin(g);
    struct err e = {0};
    const size_t n = grammar_text(g, &s, (struct text){text->data, text->len});
    if (n < text->len || !grammar_may_end(g, &s) || !grammar_check(g, (struct text){text->data, text->len}, &e))
        fail_msg("%s: %s at byte %zu of %.*s", id, e.msg, n, (int)text->len, text->data);
    grammar_release(g);
    if (kept_in) {
        struct buf line = {0};
        buf_adds(&line, "{\"id\": ");
        pyjson_quote(text_of(id), &line);
        buf_adds(&line, ", \"text\": ");
        pyjson_quote((struct text){text->data, text->len}, &line);
        fprintf(kept_in, "%.*s}\n", (int)line.len, line.data);
        buf_free(&line);
    }
}

/* ---- the demo model ---- */

struct answer {
    struct ids ids;
    enum end end;
    struct stats stats;
    int n_guide;
};

/* Asks; interrupt_after: tokens, or 0. */
static struct answer ask(const int32_t *prompt, int n, const struct sampling *how, int interrupt_after)
{
    struct answer a = {0};
    const uint32_t serial = engine_submit(engine, 0, spans_text(prompt, n), 0, how);
    for (bool done = false; !done;) {
        engine_wait(engine, -1);
        struct event_list l = engine_drain(engine);
        for (int i = 0; i < l.n; i++) {
            const struct event *ev = &l.events[i];
            if (ev->kind == EV_FATAL || (ev->kind == EV_DONE && ev->finish == END_FAILED))
                fail_msg("%s", ev->message);
            if (ev->serial != serial)
                continue;
            if (ev->kind == EV_TOKENS)
                ids_append(&a.ids, ev->ids, ev->n);
            if (ev->kind == EV_DONE) {
                a.end = ev->finish;
                a.stats = ev->stats;
                done = true;
            }
            if (interrupt_after && a.ids.n >= interrupt_after)
                engine_interrupt(engine, serial);
        }
    }
    a.n_guide = stats_drafts(&a.stats, DRAFT_GUIDE).accepted;
    return a;
}

static void encode_prompt(struct ids *out, const char *id, bool reasons)
{
    struct buf text = {0};
    buf_addf(&text, "<|im_start|>user\nWrite a JSON object for %s.<|im_end|>\n<|im_start|>assistant\n<think>\n%s", id,
             reasons ? "" : "\n</think>\n\n");
    tokenizer_encode(tokenizer, text.data, text.len, true, out);
    buf_free(&text);
}

static int n_answers, n_ended, n_forced;

static void answer_schema(const char *id, struct text schema)
{
    const int most = getenv("LONG") ? 5 : 1, n_tokens = getenv("LONG") ? 400 : 100;
    struct guide *guide = guide_of(schema);
    for (int k = 0; k < 2 * most; k++) {
        struct ids prompt = {0};
        struct answer want = {0};
        const bool reasons = k % 2;
        struct sampling how = {.max_tokens = n_tokens, .guide = guide, .guide_rests = reasons, .stop = {end_id}, .n_stop = 1, .seed = (uint64_t)k,
                               .temperature = k % 4 < 2 ? 0 : 1, .top_p = 0.95f, .top_k = 20, .n_ids = tokenizer_n_ids(tokenizer)};
        encode_prompt(&prompt, id, reasons);
        static const int depths[] = {-1, 0, 3};
        for (int i = 0; i < (files == vendored ? 3 : 1); i++) {
            how.draft_depth = depths[i];
            how.lookup = true;
            struct answer a = ask(prompt.data, prompt.n, &how, 0);
            struct buf text = {0};
            int from = 0;
            n_forced += a.n_guide;
            n_answers++;
            for (int j = 0; reasons && j < a.ids.n; j++)
                if (a.ids.data[j] == tokenizer_special(tokenizer, "</think>"))
                    from = j + 1;
            add_text(&text, a.ids.data + from, a.ids.n - from);
            size_t lead = 0;
            while (reasons && from && lead < text.len && text.data[lead] == '\n')
                lead++;
            buf_consume(&text, lead);
            assert_true(a.end == END_STOP || a.end == END_LENGTH);
            assert_int_equal(a.end == END_LENGTH, a.ids.n == n_tokens && a.ids.data[n_tokens - 1] != end_id && a.end != END_STOP);
            if (a.end == END_STOP) {
                assert_valid(id, schema, &text);
                n_ended++;
            }
            if (i)
                assert_true(a.end == want.end && a.ids.n == want.ids.n && !memcmp(a.ids.data, want.ids.data, (size_t)a.ids.n * sizeof(int32_t)));
            buf_free(&text);
            ids_free(&want.ids);
            want = a;
        }
        ids_free(&want.ids);
        ids_free(&prompt);
    }
    guide_release(guide);
}

static void test_guided__every_answer_that_ends_is_one_that_the_schema_accepts(void **state)
{
    (void)state;
    const int n = each_schema(getenv("LONG") ? 1 : SANITIZED ? 76 : 31, answer_schema);
    if (getenv("V"))
        printf("%d schemas, %d answers, %d ended, %d forced tokens\n", n, n_answers, n_ended, n_forced);
    assert_true(n > 1 && n_ended > n_answers / 3);       /* whether forced text pays as drafts is a matter of prices */
}

static void test_guided__an_interrupted_answer_gives_its_guide_back(void **state)
{
    (void)state;
    struct guide *guide = guide_of(text_of("{\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"minItems\": 50}"));
    struct ids prompt = {0};
    encode_prompt(&prompt, "a list", false);
    const struct sampling how = {.guide = guide, .stop = {end_id}, .n_stop = 1, .draft_depth = -1, .n_ids = tokenizer_n_ids(tokenizer)};
    for (int i = 1; i < 6; i++) {
        struct answer a = ask(prompt.data, prompt.n, &how, i);
        assert_int_equal(a.end, END_INTERRUPTED);
        ids_free(&a.ids);
    }
    const uint32_t serial = engine_submit(engine, 0, spans_text(prompt.data, prompt.n), 0, &how);
    guide_release(guide);               /* the engine's reference is the last one */
    engine_interrupt(engine, serial);
    ids_free(&prompt);
}

/* ---- logits at random ---- */

static uint64_t rnd_state = 11;
static double rnd(void)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(rnd_state >> 33) + 0.5) * 0x1p-31;
}

static int n_random, n_random_ended, n_random_closed, n_steps;
static double mask_ms, worst_ms;

/* Draws from logits of -temperature * log(-log u), so the greatest of them is a draw. */
static int32_t draw(const uint32_t *bits, int n_ids, bool may_end)
{
    double best = -INFINITY;
    int32_t id = -1;
    for (int32_t i = 0; i < n_ids; i++) {
        if (i == end_id ? !may_end : !(bits[i / 32] >> (i % 32) & 1))
            continue;
        const double l = -log(-log(rnd())) + (i == end_id ? 3 : 0);
        if (l > best) {
            best = l;
            id = i;
        }
    }
    return id;
}

/* Returns the id of the character if it is admissible, else -1. */
static int32_t admissible(const uint32_t *bits, const char *character)
{
    struct ids ids = {0};
    tokenizer_encode(tokenizer, character, 1, false, &ids);
    const int32_t id = ids.data[0];
    ids_free(&ids);
    return bits[id / 32] >> (id % 32) & 1 ? id : -1;
}

/* Returns an id that may lead to the end: of what closes a string, or what is around it; else, and once in four times, of a character at random;
 * else any. */
static int32_t closing(const uint32_t *bits, int n_ids, bool may_end)
{
    static const char *const in_string[] = {"\"", "0", NULL}, *const outside[] = {"}", "]", "\"", "0", "n", ",", ":", "\\", NULL};
    const char *const *c = admissible(bits, "q") >= 0 || admissible(bits, "z") >= 0 ? in_string : outside;
    int32_t found = may_end ? end_id : -1;
    for (const bool other = rnd() < 0.25; *c && found < 0 && !other; c++)
        found = admissible(bits, *c);
    for (int i = 0; i < 400 && found < 0; i++)
        found = admissible(bits, (char[]){(char)(' ' + (int)(95 * rnd())), 0});
    for (int32_t id = 0; id < n_ids && found < 0; id++)
        if (bits[id / 32] >> (id % 32) & 1)
            found = id;
    return found;
}

static void draw_schema(const char *id, struct text schema)
{
    const int n_ids = tokenizer_n_ids(tokenizer), n_tokens = getenv("LONG") ? 2000 : 400;
    uint32_t *bits = calloc((size_t)(n_ids + 31) / 32, sizeof *bits);
    for (int k = 0; k < (getenv("LONG") ? 10 : 2); k++) {
        struct guide *guide = guide_of(schema);
        struct guide_state s = guide_begin(guide, false);
        struct ids ids = {0};
        int32_t next = -1;
        while (ids.n < 2 * n_tokens && next != end_id) {
            const int64_t t = clock_ns();
            guide_mask(guide, &s, bits, n_ids);
            const double ms = clock_ms_since(t);
            mask_ms += ms;
            worst_ms = fmax(worst_ms, ms);
            n_steps++;
            next = ids.n < n_tokens ? draw(bits, n_ids, guide_may_end(guide, &s)) : closing(bits, n_ids, guide_may_end(guide, &s));
            if (next < 0)
                fail_msg("%s: no id can follow after %d", id, ids.n);
            ids_add(&ids, next);
            if (next != end_id)
                assert_true(guide_advance(guide, &s, next));
        }
        struct guide_state again = guide_begin(guide, false);
        for (int i = 0; i < ids.n - (next == end_id); i++)
            assert_true(guide_advance(guide, &again, ids.data[i]));
        assert_true(guide_may_end(guide, &again) == guide_may_end(guide, &s) && again.at.n_key == s.at.n_key);
        assert_int_equal(guide_mask(guide, &again, bits, n_ids), guide_mask(guide, &s, bits, n_ids));
        n_random++;
        if (next == end_id) {
            struct buf text = {0};
            add_text(&text, ids.data, ids.n);
            assert_valid(id, schema, &text);
            buf_free(&text);
            n_random_ended += ids.n <= n_tokens;
            n_random_closed += ids.n > n_tokens;
        } else {
            struct buf text = {0};
            add_text(&text, ids.data + ids.n - 120, 120);
            printf("%s: does not end: %.*s\n", id, (int)text.len, text.data);
            buf_free(&text);
        }
        ids_free(&ids);
        guide_release(guide);
    }
    free(bits);
}

static void test_guided__ids_at_random_are_values_that_the_schema_accepts(void **state)
{
    (void)state;
    each_schema(getenv("LONG") ? 1 : SANITIZED ? 40 : 5, draw_schema);
    if (getenv("V"))
        printf("%d texts, %d ended, %d more when they were closed, %d masks of %.3f ms, the worst %.2f ms\n", n_random, n_random_ended,
               n_random_closed, n_steps, mask_ms / n_steps, worst_ms);
    assert_true(n_random_ended > (SANITIZED ? 0 : n_random / 4));           /* there it is a handful of texts */
    assert_int_equal(n_random_ended + n_random_closed, n_random);
}

int main(int argc, char **argv)
{
    struct err e;
    if (argc > 1) {
        files = (const char *const *)argv + 1;
        n_files = argc - 1;
    }
    kept_in = getenv("OUT") ? fopen(getenv("OUT"), "w") : NULL;
    const char *backend = getenv("BACKEND");
    const struct engine_options o = {.model_dir = dir, .backend = backend ? backend : "cpu", .n_ctx = 1024, .draft_depth = ENGINE_MAX_DEPTH};
    tokenizer = tokenizer_open(dir, &e);
    engine = tokenizer ? engine_open(&o, &e) : NULL;
    if (!engine) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    end_id = tokenizer_special(tokenizer, "<|im_end|>");
    vocabulary = guide_vocabulary_of(tokenizer);
    while (!engine_info(engine)) {
        engine_wait(engine, -1);
        engine_drain(engine);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guided__ids_at_random_are_values_that_the_schema_accepts),
        cmocka_unit_test(test_guided__every_answer_that_ends_is_one_that_the_schema_accepts),
        cmocka_unit_test(test_guided__an_interrupted_answer_gives_its_guide_back),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    engine_close(engine);
    guide_vocabulary_release(vocabulary);
    tokenizer_close(tokenizer);
    return failed;
}
