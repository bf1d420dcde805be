#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/unicode.h"
#include "kernels/splitmix.h"
#include "ui/tui/formula.h"

static const struct { const char *tex, *text; } rows[] = {
    {"$x^2 + y^2 = z^2$", "x² + y² = z²"},
    {"\\(\\frac{a}{b}\\)", "a/b"},
    {"$\\frac{a+1}{2b}$", "(a+1)/(2b)"},
    {"$2\\frac{1}{3}x$", "2(1/3)x"},                            /* not 21/3x */
    {"$\\frac12 + \\frac\\pi4$", "1/2 + π/4"},
    {"$\\alpha\\beta \\times 3\\cdot4$", "αβ × 3 · 4"},
    {"$e^{i\\pi} = -1$", "e^(iπ) = -1"},
    {"$e^{-x}$, ", NULL},                                       /* no delimiter at the end */
    {"$e^{-x} a_{ij} A^T$", "e⁻ˣ aᵢⱼ Aᵀ"},
    {"$x_\\mu y^q z_{a/b}$", "x_μ y^q z_(a/b)"},
    {"$\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}$", "∑ᵢ₌₁ⁿ i = (n(n+1))/2"},
    {"$\\sqrt{2}x + \\sqrt{b^2-4ac} + \\sqrt[3]{8}$", "√(2)x + √(b²-4ac) + ∛8"},
    {"$\\sin\\theta + \\cos x + \\log 2$", "sin θ + cos x + log 2"},
    {"$\\lim\\limits_{x \\to 0} f'(x)$", "lim_(x → 0) f′(x)"},
    {"$90^\\circ, f \\circ g$", "90°, f ∘ g"},
    {"$\\left(\\frac{a}{b}\\right)^2$", "(a/b)²"},
    {"$\\left. f \\right|_0$", "f|₀"},
    {"$\\mathbb{R}^n \\ni \\vec{v}$", "ℝⁿ ∋ v\u20D7"},
    {"$x \\in \\{1, 2\\} \\quad \\text{if } n > 0$", "x ∈ {1, 2}  if n > 0"},
    {"$a \\equiv b \\pmod{7}$", "a ≡ b (mod 7)"},
    {"$\\boxed{42}$", "[42]"},
    {"$\\operatorname*{argmax}_x f$", "argmaxₓ f"},
    {"$\\binom{n}{k}$", "(n choose k)"},
    {"$100\\%$", "100%"},
    {"\\[ a = b \\\\ c = d \\]", "a = b\nc = d"},
    {"\\(a \\\\ b\\)", NULL},                                   /* a formula in a line has no second one */
    {"$$\\begin{aligned} a &= b + c \\\\[4pt] &= 10 \\end{aligned}$$", "a = b + c\n  = 10"},
    {"$$A = \\begin{pmatrix} 1 & 20 \\\\ 300 & 4 \\end{pmatrix}$$", "A = ( 1    20 )\n    ( 300  4  )"},
    {"$\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}$", "(1 2; 3 4)"},
    {"$$|x| = \\begin{cases} x & x \\ge 0 \\\\ -x & x < 0 \\end{cases}$$", "|x| = { x   x ≥ 0\n      { -x  x < 0"},
    {"\\begin{align}\n a &= 12 \\\\\n &= 10 \\end{align}", "a = 12\n  = 10"},
    {"\\begin{equation*} x \\end{equation*}", "x"},
    {"\\begin{align} x \\end{equation}", NULL},
    {"$\\left( \\frac{a}{b} \\right)^2$", "(a/b)²"},
    {"$\\unknown{x}$", NULL},
    {"$\\frac{a}$", NULL},
    {"$a}$", NULL},
    {"$a & b$", NULL},
    {"$\\begin{tikzpicture} x \\end{tikzpicture}$", NULL},
    {"$\\begin{matrix} x$", NULL},
    {"$$$$", NULL},
};

static void test_formula__is_the_text_that_a_person_would_type(void **state)
{
    struct buf out = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf_reset(&out);
        buf_adds(&out, "x ");
        bool ok = formula_text(rows[i].tex, strlen(rows[i].tex), &out);
        if (ok != (rows[i].text != NULL))
            fail_msg("%s: %s", rows[i].tex, ok ? buf_str(&out) : "shown as source");
        assert_string_equal(buf_str(&out) + 2, rows[i].text ? rows[i].text : "");
    }
    buf_free(&out);
}

static void test_formula__any_source_gives_valid_text_or_none(void **state)
{
    static const char *parts[] = {"\\", "{", "}", "^", "_", "&", "\\\\", " ", "x", "2", "\xce\xb1", "\xff", "$", "[", "]",
        "\\frac", "\\sqrt", "\\text",
        "\\begin{matrix}", "\\end{matrix}", "\\begin{cases}", "\\end{cases}", "\\left", "\\right", "\\hat", "\\sum", "\\alpha", "\\not", "'", "|"};
    uint64_t seed = 7;
    struct buf tex = {0}, out = {0};
    (void)state;
    for (int i = 0; i < 20000; i++) {
        buf_reset(&tex);
        buf_reset(&out);
        buf_adds(&tex, i & 1 ? "$$" : "$");
        for (int n = (int)(splitmix(seed++) % 24); n > 0; n--)
            buf_adds(&tex, parts[splitmix(seed++) % (sizeof parts / sizeof *parts)]);
        buf_adds(&tex, i & 1 ? "$$" : "$");
        bool ok = formula_text(buf_str(&tex), tex.len, &out);
        assert_true(unicode_valid(buf_str(&out), out.len));
        assert_true(ok == (out.len > 0));
        if (!(i & 1))
            assert_null(strchr(buf_str(&out), '\n'));
    }
    for (int n = 1; n < 600; n++) {             /* deep nesting ends */
        buf_reset(&tex);
        buf_adds(&tex, "$");
        for (int k = 0; k < n; k++)
            buf_adds(&tex, "\\frac{");
        buf_adds(&tex, "$");
        assert_false(formula_text(buf_str(&tex), tex.len, &out));
    }
    buf_free(&tex);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula__is_the_text_that_a_person_would_type),
        cmocka_unit_test(test_formula__any_source_gives_valid_text_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
