#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ui/tui/numbers.h"
#include "ui/tui/phase.h"
#include "ui/tui/status.h"

static struct buf shown;

static const char *line(const struct status *s, int cols)
{
    struct cells c = {0};
    cells_size(&c, 1, cols);
    status_draw(s, &c, cells_all(&c));
    buf_reset(&shown);
    cells_dump(&c, false, &shown);
    cells_free(&c);
    return buf_str(&shown);
}

static const struct status answering = {
    .state = "answering", .timed = true, .state_s = 13, .tok_s = 46.2, .drafts = {{100, 71}}, .per_step = 2.4, .ctx_used = 3100,
    .ctx_total = 131072, .sampling = "T 0.6",
    .machine = {.memory_used = 84.1 * (1 << 30), .memory_total = 119.0 * (1 << 30), .celsius = 71, .watts = 41},
    .recipe = "INT4, INT8 head, KV turbo4", .session = "hashmap", .hint = "^C stop\t^C",
}, reading = {
    .state = "reading", .timed = true, .state_s = 5, .percent = 80, .read_tok_s = 1900, .ctx_used = 62000, .ctx_total = 131072,
    .session = "review", .hint = "^C stop\t^C",
}, loading = {
    .state = "loading", .session = "untitled", .queued = 1,
}, named = {
    .state = "answering", .timed = true, .state_s = 13, .tok_s = 46.2, .drafts = {{100, 71}}, .ctx_used = 3100, .ctx_estimated = true,
    .ctx_total = 131072, .session = "A title of some length", .hint = "^C stop\t^C", .signs = "NO-THINK",
}, after = {
    .state = "ready", .tok_s = 129, .ctx_used = 403, .ctx_total = 8192, .hint = "F1 keys",
    .cost = "read 383 in 1.3 s, 24 tok in 0.2 s, 5 J\t24 tok in 0.2 s",
}, scrolled = {
    .state = "view", .ctx_used = 403, .ctx_total = 8192, .below = 1237, .hint = "F1 keys, q back\tq back",
}, crowded = {
    .state = "waiting for approval", .timed = true, .state_s = 3725, .tok_s = 46.1, .drafts = {{9, 3}}, .ctx_used = 130000,
    .ctx_total = 131072, .session = "Why is a hash map O(1) on average?", .hint = "y a p e n or Esc", .queued = 2, .below = 1237,
    .search = "hit 3 of 12", .signs = "RAW NO-SAVE YOLO", .machine.throttled = "hot", .percent = 12,
};

static const struct status traffic = {
    .state = "answering", .timed = true, .state_s = 13, .tok_s = 46.2, .per_step = 2.4, .gb_token = 2.44, .ctx_used = 3100, .ctx_total = 131072,
    .hint = "^C stop\t^C",
}, slow = {
    .state = "answering", .tok_s = 31.5, .ctx_used = 3100, .ctx_total = 131072, .slow = true, .hint = "^C stop\t^C",
}, small = {.state = "ready", .gb_token = 0.0099, .hint = "F1 keys"};

static const struct row { const struct status *s; int cols; const char *line; } rows[] = {
    {&answering, 40,  " answering  2%                       ^C\n"},
    {&answering, 60,  " answering 0:13  46.2 tok/s  ctx 3.1k/128k 2%       ^C stop\n"},
    {&answering, 80,  " answering 0:13  46.2 tok/s  accept 71%  ctx 3.1k/128k 2%      hashmap  ^C stop\n"},
    {&answering, 120, " answering 0:13  46.2 tok/s  accept 71%  2.4 tok/step  ctx 3.1k/128k 2%  T 0.6  84.1/119 GiB  71 C     hashmap  ^C stop\n"},
    {&answering, 160, " answering 0:13  46.2 tok/s  accept 71%  2.4 tok/step  ctx 3.1k/128k 2%  [----------]  T 0.6  84.1/119 GiB  71 C  41 W"
                      "  KV turbo4              hashmap  ^C stop\n"},
    {&traffic, 90,    " answering 0:13  46.2 tok/s  2.4 tok/step  2.4 GB/tok  ctx 3.1k/128k 2%           ^C stop\n"},
    {&traffic, 70,    " answering 0:13  46.2 tok/s  2.4 tok/step  ctx 3.1k/128k 2%   ^C stop\n"},
    {&slow, 80,       " answering  31.5 tok/s  ctx 3.1k/128k 2%  slow memory: /stats           ^C stop\n"},
    {&slow, 62,       " answering  31.5 tok/s  ctx 3.1k/128k 2%  slow memory      ^C\n"},
    {&small, 60,      " ready  9.9 MB/tok                                  F1 keys\n"},
    {&named, 80,      " answering 0:13  46.2 tok/s  accept 71%  ctx ~3.1k/128k 2%    NO-THINK  ^C stop\n"},
    {&named, 90,      " answering 0:13  46.2 tok/s  accept 71%  ctx ~3.1k/128k 2%              NO-THINK  ^C stop\n"},
    {&after, 60,      " ready  129 tok/s  ctx 403/8k 4%  24 tok in 0.2 s   F1 keys\n"},
    {&after, 110,     " ready  129 tok/s  ctx 403/8k 4%  [----------]  read 383 in 1.3 s, 24 tok in 0.2 s, 5 J               F1 keys\n"},
    {&after, 109,     " ready  129 tok/s  ctx 403/8k 4%  read 383 in 1.3 s, 24 tok in 0.2 s, 5 J                            F1 keys\n"},
    {&scrolled, 80,   " view  ctx 403/8k 4%  -- 1,237 more lines, End to follow --     F1 keys, q back\n"},
    {&scrolled, 40,   " view  4%  1,237 below           q back\n"},
    {&reading, 80,    " reading 0:05  80%  1.9k tok/s  ctx 62.0k/128k 47%              review  ^C stop\n"},
    {&loading, 80,    " loading                                      untitled  1 queued (Alt-Up edits)\n"},
    {&loading, 40,    " loading                       1 queued\n"},
    {&crowded, 40,    " waiting for approval  RAW NO-SAVE YOLO\n"},
    {&crowded, 20,    "   RAW NO-SAVE YOLO\n"},
    {&(struct status){0}, 30, "\n"},
};

static void test_status__what_matters_least_goes_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(line(rows[i].s, rows[i].cols), rows[i].line);
}

/* Whatever is known, at every width: nothing outside the row, nothing over each other, and state and signs are there. */
static void test_status__fits_every_width(void **state)
{
    (void)state;
    static const struct status *const all[] = {&answering, &reading, &loading, &crowded};
    struct cells c = {0};
    for (int k = 0; k < 4; k++)
        for (int cols = 1; cols <= 300; cols++) {
            cells_size(&c, 3, cols + 2);
            status_draw(all[k], &c, (struct area){1, 1, 1, cols});
            for (int i = 0; i < c.rows * c.cols; i++) {
                bool inside = i / c.cols == 1 && i % c.cols >= 1 && i % c.cols <= cols;
                assert_int_equal(c.at[i].look.style != STYLE_text, inside);
            }
            const char *text = line(all[k], cols);
            if (cols >= (int)strlen(all[k]->state) + 2 + (all[k]->signs ? 18 : 0))
                assert_non_null(strstr(text, all[k]->state));
            if (all[k]->signs && cols >= 18)
                assert_non_null(strstr(text, all[k]->signs));
            if (cols == 300 && all[k]->session)
                assert_non_null(strstr(text, all[k]->session));
        }
    cells_free(&c);
}

static void test_status__a_full_context_changes_its_look(void **state)
{
    (void)state;
    struct status s = {.ctx_total = 100};
    struct cells c = {0};
    static const struct { int used; enum style style; } looks[] = {
        {0, STYLE_figures}, {74, STYLE_figures}, {75, STYLE_status_warn}, {89, STYLE_status_warn}, {90, STYLE_status_bad}, {100, STYLE_status_bad},
    };
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        s.ctx_used = looks[i].used;
        cells_size(&c, 1, 70);
        status_draw(&s, &c, cells_all(&c));
        assert_int_equal(c.at[1].look.style, looks[i].style);
    }
    cells_free(&c);
}

static void test_status__drafts_found_in_the_text_stand_apart(void **state)
{
    (void)state;
    struct status s = answering;
    s.drafts[DRAFT_LOOKUP] = (struct draft_count){20, 19};
    assert_non_null(strstr(line(&s, 120), "accept 71%  lookup 95%"));
    s.drafts[DRAFT_MTP].drafted = 0;
    assert_non_null(strstr(line(&s, 120), "  lookup 95%"));
    s.drafts[DRAFT_LOOKUP].accepted = 0;
    assert_null(strstr(line(&s, 120), "lookup"));
    s = answering;
    s.drafts[DRAFT_LOOKUP] = (struct draft_count){20, 19};
    assert_string_equal(line(&s, 75), " answering 0:13  46.2 tok/s  accept 71%  ctx 3.1k/128k 2%          ^C stop\n");
}

static void test_status__shows_the_parts_that_the_user_chose(void **state)
{
    (void)state;
    struct status s = answering;
    s.parts = "ctx  speed";
    s.signs = "NO-THINK";
    assert_string_equal(line(&s, 80), " answering 0:13  46.2 tok/s  ctx 3.1k/128k 2%                 NO-THINK  ^C stop\n");
    s.parts = "formats title";
    assert_string_equal(line(&s, 120),
                        " answering 0:13  INT4, INT8 head, KV turbo4                                                  hashmap  NO-THINK  ^C stop\n");
}

/* State and hint, and what needs a look, each with a blank of its own at either side. */
static void test_status__state_and_hint_stand_apart_from_figures(void **state)
{
    (void)state;
    struct status s = named;
    struct cells c = {0};
    struct buf looks = {0};
    s.session = NULL;
    cells_size(&c, 1, 80);
    status_draw(&s, &c, cells_all(&c));
    cells_dump(&c, false, &looks);
    for (int i = 0; i < 80; i++)
        buf_addc(&looks, c.at[i].look.style == STYLE_status ? 's' : c.at[i].look.style == STYLE_status_warn ? 'w' : '.');
    assert_string_equal(looks.data, " answering 0:13  46.2 tok/s  accept 71%  ctx ~3.1k/128k 2%    NO-THINK  ^C stop\n"
                                    "ssssssssssssssss.............................................wwwwwwwwwwsssssssss");
    buf_free(&looks);
    cells_free(&c);
}

static void test_status__a_title_is_cut_before_it_goes(void **state)
{
    (void)state;
    struct status s = {.state = "idle", .session = "Why is a hash map O(1)?"};
    assert_string_equal(line(&s, 60), " idle                               Why is a hash map O(1)?\n");
    s.search = "123456789012345678901234567890123";
    assert_string_equal(line(&s, 60), " idle  123456789012345678901234567890123  Why is a hash ...\n");
    s.search = "12345678901234567890123456789012345678";
    assert_string_equal(line(&s, 60), " idle  12345678901234567890123456789012345678  Why is a ...\n");
    s.search = "123456789012345678901234567890123456789";
    assert_string_equal(line(&s, 60), " idle  123456789012345678901234567890123456789\n");
}

static void test_status__a_title_goes_before_what_matters_less(void **state)
{
    (void)state;
    struct status s = answering;
    s.session = "Tell me about hash maps.";
    assert_string_equal(line(&s, 90), " answering 0:13  46.2 tok/s  accept 71%  ctx 3.1k/128k 2%  Tell me about hash...  ^C stop\n");
    assert_string_equal(line(&s, 80), " answering 0:13  46.2 tok/s  accept 71%  ctx 3.1k/128k 2%               ^C stop\n");
}

static void test_status__the_title_names_the_session(void **state)
{
    (void)state;
    struct buf b = {0};
    status_title(&answering, &b);
    assert_string_equal(b.data, "q35chat: hashmap");
    buf_reset(&b);
    status_title(&(struct status){0}, &b);
    assert_string_equal(b.data, "q35chat");
    buf_free(&b);
}

static void test_figure__numbers_as_people_read_them(void **state)
{
    (void)state;
    struct buf b = {0};
    static const struct { double n; const char *tokens, *rate; } figures[] = {
        {0, "0", "0.0"}, {7, "7", "7.0"}, {46.24, "46", "46.2"}, {99.96, "100", "100"}, {999, "999", "999"}, {999.6, "1.0k", "1.0k"},
        {3100, "3.1k", "3.1k"}, {99949, "99.9k", "99.9k"}, {99950, "100k", "100k"}, {128000, "128k", "128k"}, {1234567, "1.2M", "1.2M"},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        buf_reset(&b);
        number_tokens(&b, figures[i].n);
        assert_string_equal(b.data, figures[i].tokens);
        buf_reset(&b);
        number_rate(&b, figures[i].n);
        assert_string_equal(b.data, figures[i].rate);
    }
    buf_reset(&b);
    for (long n = 0; n < 10000000; n = 10 * n + 12)
        number_count(&b, n), buf_addc(&b, ' ');
    assert_string_equal(b.data, "0 12 132 1,332 13,332 133,332 1,333,332 ");
    buf_reset(&b);
    for (int s = 0; s < 20000; s = 10 * s + 9)
        number_clock(&b, s), buf_addc(&b, ' ');
    assert_string_equal(b.data, "0:00 0:09 1:39 16:39 2:46:39 ");
    buf_reset(&b);
    number_context(&b, 131072);
    number_context(&b, 131073);
    assert_string_equal(b.data, "128k131k");
    buf_free(&b);
}

static void test_rate__is_that_of_the_last_two_seconds(void **state)
{
    (void)state;
    struct rate r = {0};
    assert_true(rate_now(&r, 1000) == 0);
    for (int ms = 1000; ms <= 9000; ms += 20)           /* 50 steps of 2 tokens a second */
        rate_add(&r, ms, 2);
    assert_true(rate_now(&r, 9000) > 95 && rate_now(&r, 9000) < 105);
    for (int ms = 9020; ms <= 11500; ms += 40)
        rate_add(&r, ms, 2);
    assert_true(rate_now(&r, 11500) > 47 && rate_now(&r, 11500) < 53);
    assert_true(rate_now(&r, 12500) < 30);              /* nothing comes any more */
    assert_true(rate_now(&r, 13600) == 0);
    rate_add(&r, 60000, 1000);                          /* the first ones say nothing */
    assert_true(rate_now(&r, 60001) == 0);
    rate_add(&r, 60500, 50);
    rate_add(&r, 61000, 50);
    assert_true(rate_now(&r, 61000) > 95 && rate_now(&r, 61000) < 105);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status__what_matters_least_goes_first),
        cmocka_unit_test(test_status__fits_every_width),
        cmocka_unit_test(test_status__a_full_context_changes_its_look),
        cmocka_unit_test(test_status__drafts_found_in_the_text_stand_apart),
        cmocka_unit_test(test_status__shows_the_parts_that_the_user_chose),
        cmocka_unit_test(test_status__state_and_hint_stand_apart_from_figures),
        cmocka_unit_test(test_status__a_title_is_cut_before_it_goes),
        cmocka_unit_test(test_status__a_title_goes_before_what_matters_less),
        cmocka_unit_test(test_status__the_title_names_the_session),
        cmocka_unit_test(test_figure__numbers_as_people_read_them),
        cmocka_unit_test(test_rate__is_that_of_the_last_two_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
