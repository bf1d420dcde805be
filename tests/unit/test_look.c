#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ui/tui/look.h"

static const struct theme *find(const char *name)
{
    int i = theme_find(name);
    assert_true(i >= 0);
    return theme_at(i);
}

static void test_look__themes_are_found_by_name(void **state)
{
    (void)state;
    static const char *const names[] = { "default", "light", "dark", "mono", "high-contrast", "colour-blind" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(theme_find(names[i]), i);
        assert_string_equal(find(names[i])->name, names[i]);
        assert_true(strlen(find(names[i])->help) > 10);
    }
    assert_int_equal(theme_find("nosuch"), -1);
    assert_null(theme_at(-1));
    assert_null(theme_at((int)(sizeof names / sizeof *names)));
    assert_string_equal(style_name(STYLE_status_warn), "status_warn");
}

/* Text takes the terminal's own colours everywhere: nobody's background is guessed. */
static void test_look__plain_text_is_left_alone_in_every_theme(void **state)
{
    (void)state;
    const struct theme *t;
    for (int i = 0; (t = theme_at(i)); i++) {
        assert_int_equal(t->style[STYLE_text].fg, -1);
        assert_int_equal(t->style[STYLE_text].bg, -1);
        assert_int_equal(t->style[STYLE_text].marks, 0);
    }
}

static void test_look__the_default_theme_uses_no_black_white_yellow_blue_or_background(void **state)
{
    (void)state;
    const struct theme *t = find("default");
    for (int k = 0; k < N_STYLES; k++) {
        int fg = t->style[k].fg;
        assert_true(fg == -1 || fg == 1 || fg == 2 || fg == 5 || fg == 6);
        assert_int_equal(t->style[k].bg, -1);
    }
}

static void test_look__the_mono_theme_has_marks_only(void **state)
{
    (void)state;
    const struct theme *t = find("mono");
    for (int k = 0; k < N_STYLES; k++)
        assert_true(t->style[k].fg == -1 && t->style[k].bg == -1);
}

/* Warnings, errors and the chosen row differ from plain text, and from each other, without colour as well. */
static void test_look__marks_alone_show_what_matters(void **state)
{
    (void)state;
    const struct theme *t;
    for (int i = 0; (t = theme_at(i)); i++) {
        static const enum style pairs[][2] = { {STYLE_error, STYLE_text}, {STYLE_status_warn, STYLE_status}, {STYLE_found_here, STYLE_found} };
        for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
            assert_int_not_equal(t->style[pairs[k][0]].marks, t->style[pairs[k][1]].marks);
        for (int k = 0; k < N_STYLES; k++)
            assert_true(t->style[k].bg == -1 || t->style[k].fg != -1);      /* a background names its foreground */
    }
}

static double luminance(uint32_t rgb)
{
    static const double weight[3] = {0.2126, 0.7152, 0.0722};
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        double v = (rgb >> (16 - 8 * i) & 255) / 255.0;
        sum += weight[i] * (v <= 0.03928 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static double contrast(uint32_t a, uint32_t b)
{
    double x = luminance(a), y = luminance(b);
    return x > y ? (x + 0.05) / (y + 0.05) : (y + 0.05) / (x + 0.05);
}

/* The first sixteen colours are the user's: of those nothing is known. */
static void test_look__fixed_colours_have_the_contrast_that_reading_needs(void **state)
{
    (void)state;
    const struct theme *t;
    for (int i = 0; (t = theme_at(i)); i++) {
        bool on_black = strcmp(t->name, "light"), on_white = strcmp(t->name, "dark");
        double least = on_black && on_white ? 4.4 : 4.5;
        for (int k = 0; k < N_STYLES; k++) {
            const struct theme_style *s = &t->style[k];
            if (s->fg < 16)
                continue;
            bool ok = s->bg >= 0 ? contrast(look_rgb(s->fg), look_rgb(s->bg)) >= 4.5
                                 : (!on_black || contrast(look_rgb(s->fg), 0) >= least)
                                 && (!on_white || contrast(look_rgb(s->fg), 0xFFFFFF) >= least);
            if (!ok)
                fail_msg("%s: %s is hard to read", t->name, style_name((enum style)k));
        }
    }
}

static void test_look__colours_have_the_values_of_the_256_colour_cube(void **state)
{
    (void)state;
    assert_int_equal(look_rgb(16), 0x000000);
    assert_int_equal(look_rgb(231), 0xFFFFFF);
    assert_int_equal(look_rgb(130), 0xAF5F00);
    assert_int_equal(look_rgb(232), 0x080808);
    assert_int_equal(look_rgb(255), 0xEEEEEE);
    assert_int_equal(look_rgb(0x1000000 | 0x123456), 0x123456);
}

static void test_look__with_few_colours_the_nearest_is_taken(void **state)
{
    (void)state;
    assert_int_equal(look_nearest(-1, 8), -1);
    assert_int_equal(look_nearest(5, 8), 5);
    assert_int_equal(look_nearest(9, 8), 1);            /* bright red */
    assert_int_equal(look_nearest(231, 8), 7);
    assert_int_equal(look_nearest(231, 16), 15);
    assert_int_equal(look_nearest(233, 16), 0);
    assert_int_equal(look_nearest(63, 8), 4);
    assert_int_equal(look_nearest(200, 256), 200);
    assert_int_equal(look_nearest(0x1000000 | 0xAF5F00, 256), 130);
    assert_int_equal(look_nearest(0x1000000 | 0x080808, 256), 232);
    assert_int_equal(look_nearest(0x1000000, 256), 16);  /* black, but not the user's idea of it */
}

static void test_look__who_wants_colours_is_asked_in_order(void **state)
{
    (void)state;
    static const struct { const char *option, *own, *none, *force; int colors; } rows[] = {
        { "auto",   NULL,     NULL, NULL, 256 }, { NULL,     NULL,     NULL, NULL, 256 }, { "never",  NULL,     NULL, NULL, 0 },
        { "auto",   NULL,     "1",  NULL, 0 },   { "auto",   NULL,     "",   NULL, 256 }, { "always", NULL,     "1",  NULL, 256 },
        { "auto",   "always", "1",  NULL, 256 }, { "auto",   "never",  NULL, NULL, 0 },   { "always", "never",  NULL, NULL, 256 },
        { "auto",   "auto",   "1",  NULL, 0 },   { "auto",   NULL,     NULL, "0",  0 },   { "auto",   NULL,     NULL, "1",  256 },
        { "auto",   NULL,     "1",  "1",  0 },   { "never",  "always", NULL, "1",  0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const names[] = {"Q35CHAT_COLOR", "NO_COLOR", "FORCE_COLOR"}, *const values[] = {rows[i].own, rows[i].none, rows[i].force};
        for (int k = 0; k < 3; k++) {
            unsetenv(names[k]);
            if (values[k])
                setenv(names[k], values[k], 1);
        }
        assert_int_equal(look_colors(rows[i].option, 256), rows[i].colors);
        assert_int_equal(look_colors(rows[i].option, -1), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look__themes_are_found_by_name),
        cmocka_unit_test(test_look__plain_text_is_left_alone_in_every_theme),
        cmocka_unit_test(test_look__the_default_theme_uses_no_black_white_yellow_blue_or_background),
        cmocka_unit_test(test_look__the_mono_theme_has_marks_only),
        cmocka_unit_test(test_look__marks_alone_show_what_matters),
        cmocka_unit_test(test_look__fixed_colours_have_the_contrast_that_reading_needs),
        cmocka_unit_test(test_look__colours_have_the_values_of_the_256_colour_cube),
        cmocka_unit_test(test_look__with_few_colours_the_nearest_is_taken),
        cmocka_unit_test(test_look__who_wants_colours_is_asked_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
