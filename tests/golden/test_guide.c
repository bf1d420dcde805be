/* Guides over the ids of Qwen3.5's tokenizer: masks are what the ids are one by one, forced text has the tokenizer's split, instances of real schemas
 * are admitted if they are valid.  V=1: how long the host works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "guide/guide.h"
#include "text/pyjson.h"
#include "text/tokenizer.h"
#include "tests/golden/vocabulary.h"

static struct tokenizer *tokenizer;
static struct guide_vocabulary *vocabulary;
static int n_ids;

static uint64_t rnd_state = 7;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

static const char person[] = "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"age\": {\"type\": \"integer\"}, "
    "\"nick\": {\"type\": \"string\", \"maxLength\": 200}, "
    "\"tags\": {\"type\": \"array\", \"items\": {\"type\": \"string\", \"pattern\": \"^[a-z]+$\"}}}, "
    "\"required\": [\"name\", \"age\"], \"additionalProperties\": {\"type\": \"number\"}}";
static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\": {\"type\": \"object\", "
    "\"properties\": {\"city\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\"}}, \"required\": [\"city\"]}}}]";

/* The guides that the tests walk. */
static struct guide *guide_number(int i)
{
    struct err e = {0};
    const struct text choices[] = {text_of("yes, please"), text_of("no"), text_of("none")};
    struct grammar *g = i == 0 ? grammar_of_schema(text_of(person), &(struct grammar_options){.ordered = true}, &e)
                      : i == 1 ? grammar_of_schema(text_of(person), NULL, &e)
                      : i == 2 || i == 7 || i == 8 ? grammar_of_calls(&(struct grammar_calls){.tools = text_of(tools)}, &e)
                      : i == 3 ? grammar_of_calls(&(struct grammar_calls){.tools = text_of(tools), .several = true}, &e)
                      : i == 4 ? grammar_of_choices(choices, 3, &e)
                      : i == 5 ? grammar_of_pattern(text_of("[A-Z]{2}-\\d{3,5}|(é€|😀)+"), &e)
                      : grammar_of_json();
    if (i == 6)
        assert_true(grammar_or_calls(g, &(struct grammar_calls){.tools = text_of(tools), .several = true}, &e));
    static const enum guide_kind kinds[9] = {[2] = GUIDE_TALK, [3] = GUIDE_CALLS, [6] = GUIDE_EITHER, [7] = GUIDE_TALK, [8] = GUIDE_TALK_ONCE};
    struct guide *guide = guide_new(g, vocabulary, kinds[i]);
    grammar_release(g);
    return guide;
}

/* An admissible id at random, longer and rarer ones too; -1: there is none. */
static int32_t some_id(const uint32_t *bits)
{
    const int from = (int)rnd((uint32_t)n_ids);
    for (int i = 0; i < n_ids; i++) {
        const int32_t id = (from + i) % n_ids;
        if (bits[id / 32] >> (id % 32) & 1)
            return id;
    }
    return -1;
}

/* The time that this thread has had of a processor: other programs do not count. */
static double busy_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

struct times { double worst, all; int n; };

static void note(struct times *t, double ms)
{
    t->worst = ms > t->worst ? ms : t->worst;
    t->all += ms;
    t->n++;
}

/* Walks at random; at some places compares the mask with all ids. */
static void walk(int number, int n_steps, int compare_every)
{
    struct guide *g = guide_number(number);
    struct guide_state s = guide_begin(g, false);
    uint32_t *bits = calloc((size_t)(n_ids + 31) / 32 + 8, sizeof *bits);
    int32_t forced[8];
    guide_watch(g, &s);
    struct times masks = {0}, steps = {0}, forces = {0};
    for (int i = 0; i < n_steps; i++) {
        guide_settle(g, GRAMMAR_TRIM);
        double t = busy_ms();
        const int n = guide_mask(g, &s, bits, n_ids);
        note(&masks, busy_ms() - t);
        for (int32_t id = 0; i % compare_every == 0 && id < n_ids; id++) {
            if (id % 1024 == 0)
                guide_settle(g, GRAMMAR_TRIM);
            struct guide_state next = s;
            if (guide_advance(g, &next, id) != (bits[id / 32] >> (id % 32) & 1))
                fail_msg("guide %d, step %d: id %d is %s the mask", number, i, id, bits[id / 32] >> (id % 32) & 1 ? "wrongly in" : "missing from");
        }
        t = busy_ms();
        const int n_forced = guide_forced(g, &s, forced, 8);
        note(&forces, busy_ms() - t);
        const int32_t tag = tokenizer_special(tokenizer, "<tool_call>");
        const bool calls = guide_rests(g, &s) && s.stage != guide_begin(g, true).stage && rnd(2);
        const int32_t id = n_forced && rnd(2) ? forced[0] : calls ? tag : some_id(bits);
        if (!n)
            assert_true(guide_must_end(g, &s));
        if (id < 0 || (guide_may_end(g, &s) && !rnd(20))) {
            s = guide_begin(g, rnd(2));
            if (s.stage != guide_begin(g, false).stage)
                assert_true(guide_advance(g, &s, tokenizer_special(tokenizer, "</think>")));
            continue;
        }
        t = busy_ms();
        assert_true(guide_advance(g, &s, id));
        note(&steps, busy_ms() - t);
        guide_settle(g, rnd(4) ? GRAMMAR_TRIM : 1);
    }
    guide_unwatch(g, &s);
    if (getenv("V"))
        printf("guide %d: mask mean %.0f worst %.0f us, forced mean %.1f worst %.0f us, advance mean %.2f worst %.1f us\n", number,
               1e3 * masks.all / masks.n, 1e3 * masks.worst, 1e3 * forces.all / forces.n, 1e3 * forces.worst, 1e3 * steps.all / steps.n,
               1e3 * steps.worst);
    free(bits);
    guide_release(g);
}

static void test_guide__masks_are_what_the_ids_are_one_by_one(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++)
        walk(i, 300, 23);
}

/* Advances over the ids of the text; returns how many are admissible. */
static int advance_text(struct guide *g, struct guide_state *s, const char *text, bool marks)
{
    struct ids ids = {0};
    int n = 0;
    tokenizer_encode(tokenizer, text, strlen(text), marks, &ids);
    while (n < ids.n && guide_advance(g, s, ids.data[n]))
        n++;
    const bool all = n == ids.n;
    ids_free(&ids);
    return all ? -1 : n;
}

/* Writes a schema of n parts with a letter and a number each. */
static void write_parts(struct buf *out, const char *before, const char *part, int n)
{
    buf_adds(out, before);
    for (int i = 0; i < n; i++) {
        buf_adds(out, i ? ", " : "");
        buf_addf(out, part, 'A' + i, i, i);
    }
    buf_adds(out, "]}");
}

static void test_guide__a_form_that_compiles_never_stops_for_want_of_work(void **state)
{
    (void)state;
    static const struct { const char *before, *part; int n; } row[] = {
        {"{\"allOf\": [", "{\"anyOf\": [{\"properties\": {\"k%c\": {\"type\": \"null\"}}}, {\"properties\": {\"j%d\": {\"const\": 1}}}]}", 9},
        {"{\"type\": \"string\", \"allOf\": [", "{\"pattern\": \"%c.*%d\"}", 24},
    };
    uint32_t *bits = calloc((size_t)(n_ids + 31) / 32 + 8, sizeof *bits);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct buf schema = {0};
        struct err e = {0};
        write_parts(&schema, row[i].before, row[i].part, row[i].n);
        struct grammar *grammar = grammar_of_schema((struct text){schema.data, schema.len}, &(struct grammar_options){.ordered = true}, &e);
        if (!grammar)
            fail_msg("%s", e.msg);
        struct guide *g = guide_new(grammar, vocabulary, GUIDE_TEXT);
        struct guide_state s = guide_begin(g, false);
        guide_watch(g, &s);
        for (int k = 0; k < 60 && !guide_may_end(g, &s); k++) {
            guide_settle(g, k % 8 ? GRAMMAR_TRIM : 1);
            assert_true(guide_mask(g, &s, bits, n_ids) > 0);
            guide_settle(g, INT_MAX);
            assert_true(guide_advance(g, &s, some_id(bits)));
        }
        guide_unwatch(g, &s);
        guide_release(g);
        grammar_release(grammar);
        buf_free(&schema);
    }
    free(bits);
}

static void test_guide__rests_until_reasoning_ends_and_admits_an_empty_line_after_it(void **state)
{
    (void)state;
    struct guide *g = guide_number(4);
    struct guide_state s = guide_begin(g, true);
    assert_int_equal(advance_text(g, &s, "Any text, <|im_start|>yes\n</think>", true), -1);
    struct guide_state after = s;
    assert_int_equal(advance_text(g, &s, "\n\nyes, please", true), -1);
    assert_true(guide_must_end(g, &s));
    assert_int_equal(advance_text(g, &after, "no", true), -1);
    assert_true(guide_may_end(g, &after) && !guide_must_end(g, &after));
    s = guide_begin(g, true);
    assert_int_equal(advance_text(g, &s, "x</think>", true), -1);
    assert_int_equal(advance_text(g, &s, "\n\n\nno", true), 0);
    s = guide_begin(g, false);
    assert_int_equal(advance_text(g, &s, "\n\nno", true), 0);
    guide_release(g);
}

static void test_guide__control_tokens_are_no_text_and_tags_of_calls_are_marks(void **state)
{
    (void)state;
    static const char call[] = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>";
    struct guide *any = guide_number(6), *calls = guide_number(2), *required = guide_number(3);
    struct guide_state s = guide_begin(any, false);
    assert_int_equal(advance_text(any, &s, "{\"a\": \"<tool_call>\"", false), -1);
    s = guide_begin(any, false);
    assert_int_not_equal(advance_text(any, &s, "{\"a\": \"<tool_call>\"", true), -1);
    s = guide_begin(calls, false);
    assert_int_equal(advance_text(calls, &s, "I look.", true), -1);
    assert_int_equal(advance_text(calls, &s, call, true), -1);
    assert_true(guide_may_end(calls, &s));
    assert_int_equal(advance_text(calls, &s, "<tool_call>\n<function=", true), -1);
    assert_int_equal(advance_text(calls, &s, "<|im_start|>", true), 0);
    s = guide_begin(required, false);
    assert_int_equal(advance_text(required, &s, "I look.", true), 0);
    assert_int_equal(advance_text(required, &s, call, true), -1);
    guide_release(any);
    guide_release(calls);
    guide_release(required);
}

static void test_guide__rests_in_any_text_until_a_call_begins(void **state)
{
    (void)state;
#define PARIS "get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
    static const struct { int guide; bool reasons; const char *text; bool marks, admitted, rests, may_end; } row[] = {
        {2, false, "a < b, <tool>, <function=x>, <|im_start|>", true, true, true, true},
        {2, false, "<tool_call>", true, true, false, false}, {2, false, "<tool_call>\nthe tag", true, false, false, false},
        {2, false, "the <tool_call> tag", false, true, true, true}, {2, false, "<tool_call>\n<function=", false, true, false, false},
        {2, false, "<tool_call>\n<function=no", false, false, false, false}, {2, false, "<tool_call>\n<function=" PARIS, false, true, true, true},
        {2, false, "x\n<function=get_weather>", true, true, false, false}, {2, false, "x <function=get_weather>", true, true, true, true},
        {2, false, "\n <function=get_weather>\nx", true, false, false, false}, {2, false, "\n<function=get_wea", true, true, false, true},
        {2, false, "\n<function=get_time>", true, true, true, true},
        {2, false, "<tool_call>\n<function=" PARIS "\nThere. <tool_call>\n<function=" PARIS, true, true, true, true},
        {2, false, "<tool_call>\n<function=" PARIS "\n<tool_call>\n<function=no", true, false, false, false},
        {8, false, "<tool_call>\n<function=" PARIS, true, true, false, true},
        {8, false, "<tool_call>\n<function=" PARIS "\n", true, false, false, true},
        {2, true, "I think of <tool_call> and {", true, true, true, true}, {2, true, "I <tool_call>\n<function=no", true, false, false, false},
        {2, true, "I call\n<tool_call>\n<function=" PARIS, true, true, true, true}, {2, true, "I\n<function=get_weather>x", true, true, true, true},
        {2, true, "x</think>\n\n<tool_call>\n<function=get_weather>\nx", true, false, false, false},
        {3, true, "I call\n<tool_call>\n<function=" PARIS, true, true, false, true},
        {3, true, "I\n<tool_call>\n<function=no", true, false, false, false},
        {6, false, "<tool_call>\n<function=" PARIS, true, true, false, true}, {6, false, "{\"a\": \"<tool_call>", true, false, false, false},
        {6, false, "{\"a\": \"<tool_call>\"}", false, true, false, true},
        {6, true, "x</think>\n\n<tool_call>\n<function=" PARIS, true, true, false, true},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct guide *g = guide_number(row[i].guide);
        struct guide_state s = guide_begin(g, row[i].reasons);
        guide_watch(g, &s);
        const bool admitted = advance_text(g, &s, row[i].text, row[i].marks) < 0;
        if (admitted != row[i].admitted || (admitted && (guide_rests(g, &s) != row[i].rests || guide_may_end(g, &s) != row[i].may_end)))
            fail_msg("row %zu: %s, %d %d %d", i, row[i].text, admitted, guide_rests(g, &s), guide_may_end(g, &s));
        guide_settle(g, 1);
        guide_unwatch(g, &s);
        guide_release(g);
    }
}

static void test_guide__forced_ids_are_the_split_of_the_whole_text(void **state)
{
    (void)state;
    static const struct { int guide; bool reasons; const char *before, *whole; int least; } row[] = {
        {0, false, "{\"", "{\"name\": \"Ann\", \"age\": 7}", 3},
        {0, true, "x</think>", "x</think>\n\n{\"name\": \"Ann\", \"age\": 7}", 1},
        {3, false, "", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>", 7},
        {2, false, "I look.\n\n<tool_call>", "I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>", 7},
        {4, false, "yes", "yes, please", 2},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct guide *g = guide_number(row[i].guide);
        struct guide_state s = guide_begin(g, row[i].reasons);
        struct ids before = {0}, whole = {0};
        int32_t forced[8];
        tokenizer_encode(tokenizer, row[i].before, strlen(row[i].before), true, &before);
        tokenizer_encode(tokenizer, row[i].whole, strlen(row[i].whole), true, &whole);
        assert_int_equal(advance_text(g, &s, row[i].before, true), -1);
        const int n = guide_forced(g, &s, forced, 8);
        if (n < row[i].least)
            fail_msg("row %zu: %d ids are forced, expected %d", i, n, row[i].least);
        for (int k = 0; k < n; k++) {
            assert_int_equal(forced[k], whole.data[before.n + k]);
            assert_true(guide_advance(g, &s, forced[k]));
        }
        ids_free(&before);
        ids_free(&whole);
        guide_release(g);
    }
}

/* Within keys that patterns bind, and within texts of . and \S, most ids are those of a ready mask; blanks beyond ASCII are looked at. */
static void test_guide__masks_within_patterns_take_little_work(void **state)
{
    (void)state;
    enum { MOST = 15000, LOOKED_AT = 60000 };   /* derivatives: 120,000 and more are taken where each id is looked at, as nearly full keys need */
#define ALPHABET "abcdefghijklmnopqrstuvwxyz"
#define SEVENTY "one two three four five six seven eight nine ten eleven twelve thirteen"
    static const struct { const char *schema, *text; bool nearly_full; } row[] = {
        {"{\"type\": \"object\", \"patternProperties\": {\".*\": true}}", "{\"abcdef"},
        {"{\"type\": \"object\", \"patternProperties\": {\"^[a-z]\": true}}", "{\"abcdef"},
        {"{\"type\": \"object\", \"propertyNames\": {\"minLength\": 1}}", "{\"abcdef"},
        {"{\"type\": \"string\", \"pattern\": \"^.*$\"}", "\"abcdef"}, {"{\"type\": \"string\", \"pattern\": \"^\\\\S+$\"}", "\"abcdef"},
        {"{\"type\": \"string\", \"pattern\": \"^[^\\u3000]+$\"}", "\"abcdef"},
        {"{\"type\": \"string\", \"pattern\": \"^[^\\u1680\\u4680\\u2003\\u2043]+$\"}", "\"abcdef"},
        {"{\"type\": \"object\", \"patternProperties\": {\"[a-zA-Z0-9]\": true}, \"additionalProperties\": false}", "{\""},
        {"{\"type\": \"object\", \"patternProperties\": {\"[a-zA-Z0-9]\": true}, \"additionalProperties\": false}", "{\"- "},
        {"{\"type\": \"object\", \"patternProperties\": {\"[a-zA-Z0-9]\": {\"const\": 1}}, \"properties\": {\"name\": {}, \"nap\": {}}}", "{\""},
        {"{\"type\": \"object\", \"patternProperties\": {\"^[^/]+$\": true}, \"additionalProperties\": false}", "{\""},
        {"{\"type\": \"object\", \"patternProperties\": {\"^[^/]+$\": true}, \"additionalProperties\": false}", "{\"abcdef"},
        {"{\"type\": \"object\", \"patternProperties\": {\"x.*y\": true}, \"additionalProperties\": false}", "{\"x" SEVENTY ALPHABET},
        {"{\"type\": \"object\", \"patternProperties\": {\"[0-9]\": true}, \"additionalProperties\": false}", "{\"x" SEVENTY ALPHABET},
        {"{\"type\": \"object\", \"propertyNames\": {\"minLength\": 100}}", "{\"" SEVENTY, true},
        {"{\"type\": \"object\"}", "{\"" SEVENTY ALPHABET},
    };
#undef SEVENTY
#undef ALPHABET
    uint32_t *bits = calloc((size_t)(n_ids + 31) / 32, sizeof *bits);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct err e = {0};
        struct grammar *grammar = grammar_of_schema(text_of(row[i].schema), NULL, &e);
        struct guide *g = guide_new(grammar, vocabulary, GUIDE_TEXT);
        struct guide_state s = guide_begin(g, false);
        guide_watch(g, &s);
        assert_int_equal(advance_text(g, &s, row[i].text, false), -1);
        guide_settle(g, GRAMMAR_TRIM);
        const uint64_t before = grammar_work(grammar);
        const int n = guide_mask(g, &s, bits, n_ids);
        if (grammar_work(grammar) - before > (row[i].nearly_full ? LOOKED_AT : MOST))
            fail_msg("%s: %d derivatives", row[i].schema, (int)(grammar_work(grammar) - before));
        assert_true(n > n_ids / 2);
        for (int32_t id = 0; id < n_ids; id++) {
            if (id % 1024 == 0)
                guide_settle(g, GRAMMAR_TRIM);
            struct guide_state next = s;
            if (guide_advance(g, &next, id) != (bits[id / 32] >> (id % 32) & 1))
                fail_msg("%s: id %d is %s the mask", row[i].schema, id, bits[id / 32] >> (id % 32) & 1 ? "wrongly in" : "missing from");
        }
        guide_unwatch(g, &s);
        guide_release(g);
        grammar_release(grammar);
    }
    free(bits);
}

/* ---- real schemas ---- */

struct sample { double *ms; int n, cap; };

static void add_sample(struct sample *s, double ms)
{
    s->ms = memory_grow(s->ms, s->n, &s->cap, sizeof *s->ms);
    s->ms[s->n++] = ms;
}

static int compare_ms(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_sample(const char *name, struct sample *s)
{
    qsort(s->ms, (size_t)s->n, sizeof *s->ms, compare_ms);
    if (getenv("V") && s->n)
        printf("%s: %d, us: median %.1f, 95 %% %.1f, 99 %% %.1f, worst %.1f\n", name, s->n, 1e3 * s->ms[s->n / 2], 1e3 * s->ms[s->n * 95 / 100],
               1e3 * s->ms[s->n * 99 / 100], 1e3 * s->ms[s->n - 1]);
    free(s->ms);
}

static struct sample of_tokens, of_masks, of_masks_again;

/* Walks the ids of the text as the engine does, with masks at some places.  True if the text is admitted and may end. */
static bool walk_text(struct guide *g, const struct buf *text, uint32_t *bits)
{
    struct ids ids = {0};
    struct guide_state s = guide_begin(g, false);
    int32_t forced[8];
    bool ok = true;
    tokenizer_encode(tokenizer, text->data, text->len, false, &ids);
    for (int i = 0; i < ids.n && ok; i++) {
        if (rnd(4) == 0) {
            double t = busy_ms();
            guide_mask(g, &s, bits, n_ids);
            add_sample(&of_masks, busy_ms() - t);
            t = busy_ms();
            guide_mask(g, &s, bits, n_ids);
            add_sample(&of_masks_again, busy_ms() - t);
        }
        const double t = busy_ms();
        ok = guide_advance(g, &s, ids.data[i]);
        guide_forced(g, &s, forced, 7);
        add_sample(&of_tokens, busy_ms() - t);
    }
    ids_free(&ids);
    return ok && guide_may_end(g, &s);
}

static void test_guide__valid_instances_of_real_schemas_are_admitted_as_tokens_and_no_others(void **state)
{
    (void)state;
    FILE *f = fopen("tests/data/schemas/schemas.jsonl", "r");
    uint32_t *bits = calloc((size_t)(n_ids + 31) / 32, sizeof *bits);
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    int n_valid = 0, n_invalid = 0;
    assert_non_null(f);
    while ((len = getline(&line, &cap, f)) > 0) {
        struct arena arena = {0};
        struct pyjson v;
        struct buf schema = {0}, text = {0};
        struct err e = {0};
        assert_true(pyjson_parse(&v, (struct text){line, (size_t)len}, PYJSON_LOADS, &arena, NULL));
        const struct pyjson *tests = pyjson_get(&v, "tests");
        pyjson_dump(pyjson_get(&v, "schema"), &schema);
        struct grammar *grammar = grammar_of_schema((struct text){schema.data, schema.len}, NULL, &e);
        for (size_t i = 0; grammar && i < tests->n; i++) {
            const bool valid = pyjson_truth(pyjson_get(&tests->items[i], "valid"));
            struct guide *g = guide_new(grammar, vocabulary, false);
            buf_reset(&text);
            pyjson_dump(pyjson_get(&tests->items[i], "data"), &text);
            if (walk_text(g, &text, bits) != valid)
                fail_msg("%s: %.*s", valid ? "refused" : "admitted", (int)text.len, text.data);
            n_valid += valid;
            n_invalid += !valid;
            guide_release(g);
        }
        grammar_release(grammar);
        buf_free(&schema);
        buf_free(&text);
        arena_free(&arena);
    }
    print_sample("work for a token", &of_tokens);
    print_sample("first mask of a place", &of_masks);
    print_sample("mask of the same place", &of_masks_again);
    assert_true(n_valid > 100 && n_invalid > 50);
    free(line);
    free(bits);
    fclose(f);
}

int main(void)
{
    struct err e;
    const char *dir = vocabulary_dir(&e);
    tokenizer = dir ? tokenizer_open(dir, &e) : NULL;
    if (!tokenizer) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    n_ids = tokenizer_n_ids(tokenizer);
    double t = busy_ms();
    vocabulary = guide_vocabulary_of(tokenizer);
    if (getenv("V"))
        printf("vocabulary of %d ids: %.0f ms\n", n_ids, busy_ms() - t);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guide__masks_are_what_the_ids_are_one_by_one),
        cmocka_unit_test(test_guide__masks_within_patterns_take_little_work),
        cmocka_unit_test(test_guide__a_form_that_compiles_never_stops_for_want_of_work),
        cmocka_unit_test(test_guide__rests_until_reasoning_ends_and_admits_an_empty_line_after_it),
        cmocka_unit_test(test_guide__control_tokens_are_no_text_and_tags_of_calls_are_marks),
        cmocka_unit_test(test_guide__rests_in_any_text_until_a_call_begins),
        cmocka_unit_test(test_guide__forced_ids_are_the_split_of_the_whole_text),
        cmocka_unit_test(test_guide__valid_instances_of_real_schemas_are_admitted_as_tokens_and_no_others),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    guide_vocabulary_release(vocabulary);
    tokenizer_close(tokenizer);
    return failed;
}
