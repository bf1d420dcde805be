/* Figures of answers and of machines: sums, JSON, words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "answer/end.h"
#include "answer/machine.h"
#include "answer/stats.h"

/* Every figure of a request has a value of its own. */
static struct stats all_figures(void)
{
    struct stats s = {.refill = {true, true, true, 4, 6}};
    int n = 0;
#define STAT(type, name, ...) s.name = (type)(10 + n++);
#define TURN_STAT(...)
#define FIGURE(...)
#include "config/stats.def"
    for (int i = 0; i < DRAFT_SOURCES * LIMIT_DRAFTS; i++)
        s.drafts[i / LIMIT_DRAFTS][i % LIMIT_DRAFTS] = (struct draft_count){100 - i, 50 - i};
    return s;
}

static json_t *parsed(struct buf *text)
{
    json_t *v = json_loadb(text->data, text->len, 0, NULL);
    assert_non_null(v);
    buf_free(text);
    return v;
}

static void test_answer__figures_written_for_another_program_read_back_the_same(void **state)
{
    (void)state;
    const struct stats s = all_figures();
    struct stats back;
    struct buf text = {0};
    stats_write(&s, &text);
    json_t *v = parsed(&text);
    stats_read(&back, v);
    assert_memory_equal(&s, &back, sizeof s);
    json_decref(v);
}

static void test_answer__a_figure_that_is_missing_or_wild_does_no_harm(void **state)
{
    (void)state;
    static const struct stats none;
    struct stats s = all_figures();
    json_t *v = json_object();
    stats_read(&s, v);
    assert_memory_equal(&s, &none, sizeof s);
    json_object_set_new(v, "n_tokens", json_integer(INT64_MAX));
    json_object_set_new(v, "n_prompt", json_integer(-7));
    json_object_set_new(v, "drafts", json_pack("{s:[[i]], s:i, s:[]}", "mtp", 3, "lookup", 5, "unheard_of"));
    stats_read(&s, v);
    assert_int_equal(s.n_tokens, LIMIT_CTX);
    assert_int_equal(s.n_prompt, 0);
    assert_int_equal(stats_all_drafts(&s).drafted, 3);
    json_decref(v);
}

static void test_answer__a_request_that_continues_adds_no_prompt(void **state)
{
    (void)state;
    const struct stats s = all_figures();
    struct stats sum = {0}, other = {0};
    stats_add(&sum, &s, false);
    assert_memory_equal(&sum, &s, sizeof s);
    stats_add(&other, &s, true);
    assert_int_equal(other.n_prompt + other.n_cached + other.n_ahead + other.n_typed, 0);
    assert_false(other.refill.happened);
    assert_int_equal(other.n_tokens, s.n_tokens);
    stats_add(&sum, &other, true);
    const struct stats between = stats_between(&s, &sum);
    assert_memory_equal(&between, &other, sizeof other);
}

static void test_answer__what_is_unknown_overwrites_nothing(void **state)
{
    (void)state;
    const struct stats s = all_figures();
    struct stats given = stats_unknown(), to = s;
    stats_overwrite(&to, &given);
    assert_memory_equal(&to, &s, sizeof s);
    given.n_prompt = 0;
    given.drafts[DRAFT_LOOKUP][0] = (struct draft_count){9, 8};
    stats_overwrite(&to, &given);
    assert_true(to.n_prompt == 0 && to.n_cached == s.n_cached && to.drafts[DRAFT_LOOKUP][0].drafted == 9);
}

static void test_answer__accept_is_about_the_drafts_of_the_mtp_block(void **state)
{
    (void)state;
    struct stats s = {.drafts = {{{8, 4}, {2, 2}}, {{100, 0}}}};
    assert_float_equal(stats_acceptance(&s), 0.6, 1e-9);
    s.drafts[DRAFT_MTP][0] = s.drafts[DRAFT_MTP][1] = (struct draft_count){0};
    assert_true(stats_acceptance(&s) < 0);
    assert_int_equal(stats_all_drafts(&s).drafted, 100);
}

/* The objects of --json: docs/pipes.md. */
static void test_answer__json_has_each_figure_at_its_path(void **state)
{
    (void)state;
    struct stats s = {.n_prompt = 12, .n_cached = 5, .n_tokens = 7, .n_timed = 6, .ctx_used = 19, .ctx_total = 100, .n_steps = 4, .n_rounds = 1,
                      .decode_ms = 60, .seed = 42, .drafts = {{{4, 2}, {0, 0}, {1, 0}}, {{0, 0}, {3, 1}}}};
    json_t *j = json_object();
    stats_to_json(&s, j);
    char *text = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"acceptance\":0.40000000000000002,\"acceptance_by_position\":[0.5,0.0],\"context\":{\"total\":100,\"used\":19},"
                        "\"decode_ms\":60.0,\"drafts\":{\"guide\":[[0,0],[0,0],[0,0]],\"lookup\":[[0,0],[3,1],[0,0]],\"mtp\":[[4,2],[0,0],[1,0]]},"
                        "\"gb_per_token\":null,\"prefill_ms\":0.0,\"rounds\":1,"
                        "\"seed\":42,\"steps\":4,\"tok_per_s\":100.0,\"tokens\":{\"cached\":5,\"generated\":7,"
                        "\"prompt\":12},\"tokens_per_step\":1.5,\"wall_ms\":0.0}");
    free(text);
    json_decref(j);
}

static void test_answer__facts_about_model_and_machine_read_back_the_same(void **state)
{
    (void)state;
    struct model_info i = {.model = "a \"b\" \xc3\xa9", .slow = true, .n_ctx = 4096, .load_ms = 1.25, .weight_bytes = 1 << 30, .temperature = -1,
                           .top_p = 0.95f, .top_k = -1, .ends = {1, 2}, .n_ends = 2}, j;
    struct machine_figures m = {.memory_used = 1e11, .celsius = -3, .joules = 123456.789, .throttled = "heat", .resident_max = 2}, n;
    struct buf text = {0};
    model_info_write(&i, &text);
    json_t *v = parsed(&text);
    model_info_read(&j, v);
    assert_memory_equal(&i, &j, sizeof i);
    json_decref(v);
    text = (struct buf){0};
    machine_figures_write(&m, &text);
    v = parsed(&text);
    machine_figures_read(&n, v);
    assert_memory_equal(&m, &n, sizeof m);
    json_decref(v);
    model_info_read(&j, NULL);
    machine_figures_read(&n, NULL);
    assert_true(!*j.model && !j.n_ctx && !n.memory_used);
}

static void test_answer__every_end_has_its_word(void **state)
{
    (void)state;
    for (int i = 0; i < ENDS; i++)
        assert_int_equal(end_of_word(end_word((enum end)i)), i);
    assert_int_equal(end_of_word("unheard of"), END_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer__figures_written_for_another_program_read_back_the_same),
        cmocka_unit_test(test_answer__a_figure_that_is_missing_or_wild_does_no_harm),
        cmocka_unit_test(test_answer__a_request_that_continues_adds_no_prompt),
        cmocka_unit_test(test_answer__what_is_unknown_overwrites_nothing),
        cmocka_unit_test(test_answer__accept_is_about_the_drafts_of_the_mtp_block),
        cmocka_unit_test(test_answer__json_has_each_figure_at_its_path),
        cmocka_unit_test(test_answer__facts_about_model_and_machine_read_back_the_same),
        cmocka_unit_test(test_answer__every_end_has_its_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
