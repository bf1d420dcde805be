/* Whole screens, as text, for a scripted chat.  When one differs, what was drawn is left in build/screens: look at it, and copy it
 * to tests/golden/screens if it is right. */
#include <sys/stat.h>

#include "stage.h"
#include "base/file.h"

static void check_screen(const char *name)
{
    struct buf path = {0}, want = {0};
    const char *got = stage_screen();
    buf_addf(&path, "tests/golden/screens/%s.txt", name);
    bool read = file_read(&want, path.data, 1 << 20, NULL);
    if (!read || strcmp(buf_str(&want), got)) {
        mkdir("build", 0777);
        mkdir("build/screens", 0777);
        buf_reset(&path);
        buf_addf(&path, "build/screens/%s.txt", name);
        FILE *f = fopen(path.data, "w");
        assert_non_null(f);
        fputs(got, f);
        fclose(f);
        fail_msg("%s is another screen now:\n%s", path.data, got);
    }
    buf_free(&path);
    buf_free(&want);
}

static void begin(int rows, int cols)
{
    stage_begin(rows, cols);
    stage_set(OPT_stats, "off");        /* times are never the same */
    fake_say("The user wants a comparison. Keep it short.\n</think>\n\n"
             "A hash map turns the key into an index: one hash, one probe.\n\n"
             "| operation | hash map | B-tree |\n|---|---|---|\n| lookup | O(1) | O(log n) |\n| range | no | yes |\n\n"
             "## In C\n\n```c\nsize_t i = hash(key) & (cap - 1);\nreturn slot[i];\n```\n\nThat is all.");
    fake_end("Cuckoo hashing uses **two** tables", END_LENGTH, true);
    stage_open();
    stage_pass(1000);
}

static void talk(void)
{
    stage_say("Why is a hash map O(1)? Compare it with a B-tree.");
    stage_answer();
}

static const struct { const char *name; int rows, cols; } sizes[] = {
    {"80x24", 24, 80}, {"40x12", 12, 40}, {"120x40", 40, 120}, {"20x4", 4, 20}, {"32x8", 8, 32},
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void check_sized(const char *what, const char *size)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%s", what, size);
    check_screen(name);
}

static void test_view__at_the_start(void **state)
{
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        begin(sizes[i].rows, sizes[i].cols);
        check_sized("start", sizes[i].name);
        stage_end();
    }
}

static void test_view__after_an_answer(void **state)
{
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        begin(sizes[i].rows, sizes[i].cols);
        talk();
        check_sized("answer", sizes[i].name);
        stage_end();
    }
}

static void test_view__while_it_answers_with_a_draft_and_a_queue(void **state)
{
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        begin(sizes[i].rows, sizes[i].cols);
        talk();
        stage_set(OPT_think, "off");
        stage_say("And cuckoo hashing?");
        stage_answer();
        stage_say("Then quit.");
        stage_type("A draft");
        stage_key("Alt-Enter");
        stage_type("of two lines");
        check_sized("busy", sizes[i].name);
        stage_end();
    }
}

static void test_view__with_the_panel_and_a_question(void **state)
{
    (void)state;
    begin(40, 120);
    fake_reset();
    stage_set(OPT_tools_approve, "ask");
    fake_say("Easy.\n</think>\n\nI calculate.\n\n<tool_call>\n<function=calculator>\n<parameter=expression>\n2+3\n</parameter>\n"
             "</function>\n</tool_call>");
    stage_say("2+3?");
    stage_key("Alt-P");
    stage_answer();
    check_screen("panel-question-120x40");
    stage_end();
}

static void test_view__lists_stand_over_the_transcript(void **state)
{
    (void)state;
    begin(24, 80);
    talk();
    stage_type("/s");
    assert_shows("/system [TEXT|none]");
    assert_shows("/stats");
    stage_keys("Esc Ctrl-U");
    stage_pass(1000);
    stage_say("/tree");
    check_screen("tree-80x24");
    stage_key("Esc");
    stage_keys("Alt-V / h a s h Enter");
    check_screen("search-80x24");
    stage_key("q");
    stage_keys("F1");
    check_screen("keys-80x24");
    stage_keys("q");
    stage_type("/");
    assert_shows("\n> /help [COMMAND] ");
    assert_shows("\n Tab completes  Enter accepts  Esc closes ");
    assert_shows("  1 of ");
    stage_keys("Down Enter");
    assert_string_equal(stage_draft(), "/new ");
    stage_key("Ctrl-U");
    stage_type("/s");
    stage_key("Enter");                 /* no command: the chosen one is taken */
    assert_string_equal(stage_draft(), "/system ");
    stage_key("Ctrl-U");
    stage_type("/theme ");
    stage_key("Enter");                 /* a command as it stands */
    assert_string_equal(stage_draft(), "");
    assert_shows("colour-blind");
    stage_end();
}

static void test_view__every_size_draws_and_ends_within_itself(void **state)
{
    (void)state;
    begin(24, 80);
    talk();
    stage_say("And cuckoo hashing?");
    stage_answer();
    stage_say("Queued.");
    stage_type("/");
    for (int step = 0; step < 8; step++) {
        static const char *const keys[] = {"Esc", "Alt-P", "F1", "Esc", "Alt-V", "/", "Esc", "Alt-L"};
        for (int rows = 1; rows <= 50; rows += rows < 12 ? 1 : 7)
            for (int cols = 1; cols <= 130; cols += cols < 45 ? 1 : 9) {
                cells_size(&stage.cells, rows, cols);
                view_draw(&stage.app, &stage.cells);
                assert_true(stage.cells.cursor_row < rows && stage.cells.cursor_col <= cols);
            }
        stage_key(keys[step]);
    }
    stage_end();
}

/* Magnifiers follow the cursor; the row is shown as chosen, too. */
static void test_view__the_cursor_stands_on_the_row_that_is_read(void **state)
{
    (void)state;
    begin(10, 60);
    talk();
    stage_keys("Alt-V g");
    stage_screen();
    assert_int_equal(stage.cells.cursor_row, 0);
    for (int i = 0; i < 8; i++) {
        stage_key("j");
        stage_screen();
        int row = stage.cells.cursor_row;
        assert_true(row >= 0 && row < 8);
        assert_int_equal(stage.cells.at[row * 60].look.style, STYLE_selected);
    }
    stage_keys("g / r a n g e Enter");
    char *screen = strdup(stage_screen()), *rest = screen, *line = screen;
    for (int i = 0; i <= stage.cells.cursor_row; i++)
        line = strsep(&rest, "\n");
    assert_ptr_equal(strstr(line, "range"), line);
    free(screen);
    stage_keys("q F1");
    stage_screen();
    assert_int_equal(stage.cells.cursor_row, 0);
    stage_end();
}

static void test_view__colours_are_explained_as_long_as_they_are_shown(void **state)
{
    (void)state;
    begin(24, 80);
    talk();
    stage_key("Alt-H");
    stage_pass(60000);
    assert_shows("how tokens were made:  drafted and accepted  found by lookup  sampled");
    const char *at = strstr(stage.screen.data, "how tokens");
    int row = 0;
    for (const char *p = stage.screen.data; p < at; p++)
        row += *p == '\n';
    assert_int_equal(stage.cells.at[row * 80 + 23].look.style, STYLE_drafted);
    assert_int_equal(stage.cells.at[row * 80 + 45].look.style, STYLE_looked_up);
    stage_key("Alt-H");
    assert_shows("how likely tokens were:  90 % and more  60 to 90 %  30 to 60 %  below 30 %");
    stage_key("Alt-H");
    assert_hides("how likely");
    stage_end();
}

static void test_view__text_keeps_a_measure_on_a_wide_screen(void **state)
{
    static const char words[] =
        "A hash map turns the key into an index, and an index needs no search, which is all of it; but a tree keeps an order. ";
    (void)state;
    begin(60, 200);
    fake_reset();
    struct buf said = {0};
    buf_addf(&said, "Short.\n</think>\n\n%s%s\n\n```\nint a; /* %s */\n```\n", words, words, words);
    fake_say(said.data);
    stage_say(words);
    stage_answer();
    check_screen("wide-200x60");
    stage_key("F1");
    check_screen("keys-200x60");
    stage_key("q");
    stage_set(OPT_width, "0");
    assert_shows("A hash map turns the key into an index, and an index needs no search, which is all of it; but a tree keeps an order. A hash map");
    buf_free(&said);
    stage_end();
}

static void test_view__the_panel_takes_nothing_from_a_narrow_text(void **state)
{
    (void)state;
    begin(24, 80);
    talk();
    char *before = strdup(stage_screen());
    stage_key("Alt-P");
    assert_shows("the panel needs 110 columns, this screen has 80");
    stage_pass(60000);
    assert_string_equal(stage_screen(), before);
    cells_size(&stage.cells, 24, 120);
    assert_shows("SESSION");
    cells_size(&stage.cells, 24, 80);
    stage_screen();
    stage_keys("Alt-P Alt-P");
    assert_shows("the panel needs 110 columns, this screen has 80");
    cells_size(&stage.cells, 24, 120);
    assert_shows("SESSION");
    assert_hides("the panel needs");
    free(before);
    stage_end();
}

static void test_view__what_a_command_said_is_gone_with_the_next_turn(void **state)
{
    (void)state;
    begin(24, 80);
    talk();
    stage_say("/set");
    stage_say("/set temperature");
    assert_shows("temperature");
    stage_set(OPT_think, "off");
    stage_say("And cuckoo hashing?");
    assert_int_equal(stage.app.host.pane->items.at[stage.app.host.pane->items.n - 1].kind, ITEM_USER);
    stage_answer();
    for (int i = 0; i < stage.app.host.pane->items.n; i++)
        assert_int_not_equal(stage.app.host.pane->items.at[i].kind, ITEM_OUTPUT);
    assert_shows("That is all.");
    stage_end();
}

static void test_view__there_and_back_is_the_same_screen(void **state)
{
    (void)state;
    begin(24, 80);
    talk();
    char *before = strdup(stage_screen());
    cells_size(&stage.cells, 10, 33);
    stage_screen();
    cells_size(&stage.cells, 24, 80);
    assert_string_equal(stage_screen(), before);
    free(before);
    stage_end();
}

static void test_view__what_one_reads_stays_while_more_comes(void **state)
{
    (void)state;
    begin(12, 60);
    talk();
    stage_screen();
    stage_key("PgUp");
    char *before = strdup(stage_screen());
    char *end_of_text = strstr(before, "\n ready");
    assert_non_null(end_of_text);
    *end_of_text = 0;
    stage_set(OPT_think, "off");
    queue_push(&input_state(&stage.app.host)->queue, "And cuckoo hashing?");
    input_state(&stage.app.host)->queue.held = true;
    stage_screen();                     /* the queue takes a row, at the end */
    stage_answer();
    assert_memory_equal(stage_screen(), before, strlen(before) / 2);
    free(before);
    stage_end();
}

static void test_view__the_title_tells_the_state(void **state)
{
    struct buf title = {0};
    (void)state;
    begin(24, 80);
    view_title(&stage.app, &title);
    assert_string_equal(title.data, "q35chat · ready");
    talk();
    stage_set(OPT_think, "off");
    stage_say("And cuckoo hashing?");
    stage_answer();
    buf_reset(&title);
    view_title(&stage.app, &title);
    assert_string_equal(title.data, "q35chat: Why is a hash map O(1)? Compare it with a B-tree. · answering");
    buf_free(&title);
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view__at_the_start),
        cmocka_unit_test(test_view__after_an_answer),
        cmocka_unit_test(test_view__while_it_answers_with_a_draft_and_a_queue),
        cmocka_unit_test(test_view__with_the_panel_and_a_question),
        cmocka_unit_test(test_view__lists_stand_over_the_transcript),
        cmocka_unit_test(test_view__every_size_draws_and_ends_within_itself),
        cmocka_unit_test(test_view__the_cursor_stands_on_the_row_that_is_read),
        cmocka_unit_test(test_view__colours_are_explained_as_long_as_they_are_shown),
        cmocka_unit_test(test_view__text_keeps_a_measure_on_a_wide_screen),
        cmocka_unit_test(test_view__the_panel_takes_nothing_from_a_narrow_text),
        cmocka_unit_test(test_view__what_a_command_said_is_gone_with_the_next_turn),
        cmocka_unit_test(test_view__there_and_back_is_the_same_screen),
        cmocka_unit_test(test_view__what_one_reads_stays_while_more_comes),
        cmocka_unit_test(test_view__the_title_tells_the_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
