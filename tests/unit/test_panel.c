#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ui/tui/status.h"

static const struct panel_part parts[] = {
    {"system", "Be brief", 2100, "pinned"}, {"user", "Why does it fail?", 100}, {"file", "timeline.c", 9800, NULL}, {"tool", "make", 12300, NULL},
    {"answer", NULL, 5700, NULL},
};
static const float steps[] = {50, 50, 50, 100, 25, 0};

static const struct panel full = {
    .session = "timeline bug", .model = "Qwen3.5-122B int4", .sampling = "T 0.6 p .95", .think = "on, budget 4096",
    .branch = "2/3 of turn 1", .recipe = "INT4 + FP8 shared, KV turbo4", .ctx_used = 23900, .ctx_total = 131072, .parts = parts, .n_parts = 5,
    .not_counted = 400, .decode_tok_s = {47.9, 46.1}, .prefill_tok_s = {0, 1900}, .per_step = {2.5, 2.4}, .step_ms = {52, 53},
    .drafts_now = {{100, 74}}, .drafts_turn = {{100, 71}}, .steps = steps, .n_steps = 6,
    .machine = {.memory_used = 84.1 * (1 << 30), .memory_total = 119.0 * (1 << 30), .celsius = 71, .watts = 41, .throttled = "power cap",
                .snapshots = 6, .snapshots_max = 16},
    .disk = "log saved 1 s ago", .turn_s = 38.2, .turn_tokens = 1204, .joules = 1600,
};

static struct buf shown;

static const char *drawn(const struct panel *p, int rows, int cols)
{
    struct cells c = {0};
    cells_size(&c, rows, cols);
    panel_draw(p, &c, cells_all(&c));
    buf_reset(&shown);
    cells_dump(&c, false, &shown);
    cells_free(&c);
    return buf_str(&shown);
}

static void test_panel__shows_all_that_is_known(void **state)
{
    (void)state;
    assert_string_equal(drawn(&full, 40, PANEL_COLUMNS),
                        "│ SESSION  timeline bug\n"
                        "│ model   Qwen3.5-122B int4\n"
                        "│ samples T 0.6 p .95\n"
                        "│ think   on, budget 4096\n"
                        "│ branch  2/3 of turn 1\n"
                        "│ weights INT4 + FP8 shared\n"
                        "│         KV turbo4\n"
                        "│\n"
                        "│ CONTEXT  23.9k of 128k  18%\n"
                        "│ [####--------------------]\n"
                        "│ system  Be brief   2.1k pinned\n"
                        "│ user    Why does    100\n"
                        "│ file    timeline.  9.8k\n"
                        "│ tool    make      12.3k\n"
                        "│ answer             5.7k\n"
                        "│ (thinking 400 not counted)\n"
                        "│\n"
                        "│ SPEED           now     turn\n"
                        "│ decode tok/s   47.9     46.1\n"
                        "│ prefill tok/s    --     1.9k\n"
                        "│ accept         74 %     71 %\n"
                        "│ tokens/step     2.5      2.4\n"
                        "│ step ms        52.0     53.0\n"
                        "│ ▅▅▅█▃▁\n"
                        "│\n"
                        "│ MACHINE\n"
                        "│ memory  84.1 of 119 GiB\n"
                        "│ GPU     71 C   41 W\n"
                        "│ throttled: power cap\n"
                        "│ disk    log saved 1 s ago\n"
                        "│\n"
                        "│ THIS TURN\n"
                        "│ 38.2 s   1,204 tok\n"
                        "│ 1.6 kJ   0.44 Wh\n"
                        "│\n"
                        "│ SNAPSHOTS  6 of 16\n"
                        "│\n"
                        "│\n"
                        "│\n"
                        "│\n");
}

static void test_panel__grows_with_the_screen(void **state)
{
    (void)state;
    static const struct { int screen, measure, columns; } rows[] = {
        {110, 100, 32}, {130, 100, 32}, {140, 100, 38}, {200, 100, 48}, {200, 0, 32}, {400, 300, 48},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(panel_columns(rows[i].screen, rows[i].measure), rows[i].columns);
    assert_non_null(strstr(drawn(&full, 40, PANEL_MOST_COLUMNS), "│ user    Why does it fail?           100\n"));
    assert_non_null(strstr(drawn(&full, 40, PANEL_MOST_COLUMNS), "│ system  Be brief                   2.1k pinned\n"));
}

static void test_panel__what_is_not_known_is_left_out(void **state)
{
    (void)state;
    assert_string_equal(drawn(&(struct panel){0}, 3, PANEL_COLUMNS), "│\n│\n│\n");
    struct panel p = {.session = "new", .machine = {.celsius = 60, .snapshots_max = 4}, .decode_tok_s = {.turn = 31}};
    assert_string_equal(drawn(&p, 10, PANEL_COLUMNS),
                        "│ SESSION  new\n"
                        "│\n"
                        "│ SPEED           now     turn\n"
                        "│ decode tok/s     --     31.0\n"
                        "│\n"
                        "│ MACHINE\n"
                        "│ GPU     60 C\n"
                        "│\n"
                        "│ SNAPSHOTS  0 of 4\n"
                        "│\n");
}

static void test_panel__drafts_found_in_the_text_have_a_row_of_their_own(void **state)
{
    (void)state;
    struct panel p = full;
    p.drafts_turn[DRAFT_LOOKUP] = (struct draft_count){20, 9};
    assert_non_null(strstr(drawn(&p, 40, PANEL_COLUMNS), "│ accept         74 %     71 %\n"
                                                         "│ lookup           --     45 %\n"
                                                         "│ tokens/step "));
}

static void test_panel__the_largest_parts_of_the_context_stay_on_few_rows(void **state)
{
    (void)state;
    drawn(&full, 34, PANEL_COLUMNS);
    assert_non_null(strstr(shown.data, "file    timeline.  9.8k"));
    assert_non_null(strstr(shown.data, "tool    make      12.3k"));
    assert_null(strstr(shown.data, "user "));
    assert_non_null(strstr(shown.data, "3 smaller          7.9k"));
    assert_non_null(strstr(shown.data, "SNAPSHOTS  6 of 16"));   /* nothing below is pushed out */
}

static void test_panel__every_size_stays_inside_its_area(void **state)
{
    (void)state;
    struct cells c = {0};
    for (int rows = 0; rows <= 50; rows++)
        for (int cols = 0; cols <= 40; cols++) {
            cells_size(&c, rows + 2, cols + 2);
            panel_draw(&full, &c, (struct area){1, 1, rows, cols});
            for (int i = 0; i < c.rows * c.cols; i++) {
                int row = i / c.cols, col = i % c.cols;
                assert_true((row >= 1 && row <= rows && col >= 1 && col <= cols) || c.at[i].glyph.text[0] == ' ');
            }
        }
    cells_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_panel__shows_all_that_is_known),
        cmocka_unit_test(test_panel__grows_with_the_screen),
        cmocka_unit_test(test_panel__what_is_not_known_is_left_out),
        cmocka_unit_test(test_panel__drafts_found_in_the_text_have_a_row_of_their_own),
        cmocka_unit_test(test_panel__the_largest_parts_of_the_context_stay_on_few_rows),
        cmocka_unit_test(test_panel__every_size_stays_inside_its_area),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
