#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "ui/tui/sheet.h"

struct seen { struct buf letters; size_t end; };

/* A letter for each byte: the style's first, '.' for code. */
static void see(void *arg, enum style style, size_t from, size_t n)
{
    struct seen *s = arg;
    static const char letters[N_STYLES] = {[STYLE_code] = '.', [STYLE_keyword] = 'k', [STYLE_string] = 's', [STYLE_comment] = 'c',
        [STYLE_number] = 'n', [STYLE_added] = 'a', [STYLE_removed] = 'r'};
    assert_int_equal(from, s->end);
    assert_true(n > 0 && letters[style]);
    for (size_t i = 0; i < n; i++)
        buf_addc(&s->letters, letters[style]);
    s->end += n;
}

static const struct { const char *language, *code, *expected; } rows[] = {
    {"c", "int x = 0x1F; // no\n", "kkk.....nnnn..ccccc\n"},
    {"c", "a /* b\nc */ d\n", "..cccc\ncccc..\n"},
    {"c", "\"a\\\"b\" 'c' \"open\nx\n", "ssssss.sss.sssss\n.\n"},
    {"c", "  #include <x>\n# define A 1\n", "..kkkkkkkk....\nkkkkkkkk...n\n"},
    {"C++", "1e-5+x1 interned\n", "nnnn............\n"},
    {"cuda", "__global__ void\n", "kkkkkkkkkk.kkkk\n"},
    {"python", "x = '''a\nb''' # c\ndef f(): return None\n", "....ssss\nssss.ccc\nkkk......kkkkkk.nnnn\n"},
    {"sh", "echo \"a\nb\" a#b # c\n", "kkkk.ss\nss.....ccc\n"},
    {"json", "{\"a\": \"b\", \"c\" : true}\n", ".kkk..sss..kkk...nnnn.\n"},
    {"js", "`a\n${b}` let\n", "ss\nsssss.kkk\n"},
    {"rust", "fn f<'a>(c: &'a str) { 'x' '\\n' }\n", "kk..............kkk....sss.ssss..\n"},
    {"SQL", "Select 'it''s' -- x\n", "kkkkkk.sssssss.cccc\n"},
    {"diff", "+a\n-b\n@@ c\n d\n", "aa\nrr\nkkkk\n..\n"},
    {"go", "func f() `raw\nx`\n", "kkkk.....ssss\nss\n"},
    {"yaml", "- a-b: 'x' # y\n  http://x: 1\n", "..kkk..sss.ccc\n............n\n"},
    {"toml", "[a.b]\nk = \"v\"\n", "kkkkk\nk...sss\n"},
    {"html", "<a href=\"x\"\n id='y'>it's 1</a><!-- b\nc -->\n", "kk......sss\n....sssk......kkkkcccccc\nccccc\n"},
    {"c", "", ""},
};

static void test_syntax__pieces_have_their_styles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int language = syntax_find(rows[i].language, strlen(rows[i].language)), carry = 0;
        struct buf all = {0};
        assert_true(language >= 0);
        for (const char *p = rows[i].code, *end; *p; p = end + 1) {
            struct seen s = {0};
            end = strchr(p, '\n');
            carry = syntax_line(language, carry, p, (size_t)(end - p), see, &s);
            assert_int_equal(s.end, end - p);
            buf_add(&all, buf_str(&s.letters), s.letters.len);
            buf_addc(&all, '\n');
            buf_free(&s.letters);
        }
        assert_string_equal(buf_str(&all), rows[i].expected);
        buf_free(&all);
    }
}

static void test_syntax__languages_have_many_names(void **state)
{
    static const struct { const char *info, *name; } known[] = {
        {"c", "C"}, {"H", "C"}, {"c++", "C++"}, {"python title=x", "Python"}, {"bash", "Shell"}, {"rust,ignore", "Rust"}, {"TS", "TypeScript"},
        {"yml", "YAML"}, {"patch", "diff"}, {"cu", "CUDA"}, {"js{1,2}", "JavaScript"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int language = syntax_find(known[i].info, strlen(known[i].info));
        assert_true(language >= 0);
        assert_string_equal(syntax_name(language), known[i].name);
    }
    assert_int_equal(syntax_find("", 0), -1);
    assert_int_equal(syntax_find("brainf", 6), -1);
    assert_int_equal(syntax_find("c h", 1), syntax_find("c", 1));
}

/* Any bytes in any language from any state: the pieces cover the line, and a state that comes out is a good one to go in. */
static void test_syntax__random_bytes_are_covered(void **state)
{
    static const char *const some[] = {"\"", "'", "`", "\"\"\"", "\\", "/*", "*/", "//", "#", "--", "<!--", "-->", "<a", ">", "1e", "0x", "if", ":",
                                       "=", "[", "]",
        " ", "\t", "\xFF", "\xE4\xB8\xAD", "_"};
    (void)state;
    srand(3);
    for (int round = 0; round < 20000; round++) {
        int language = rand() % 16, carry = 0;
        for (int line = 0; line < 3; line++) {
            struct seen s = {0};
            struct buf b = {0};
            for (int i = rand() % 12; i > 0; i--) {
                buf_adds(&b, some[(size_t)rand() % (sizeof some / sizeof *some)]);
                if (rand() % 20 == 0)
                    buf_addc(&b, (char)rand());
            }
            carry = syntax_line(language - 1, carry, buf_str(&b), b.len, see, &s);
            assert_int_equal(s.end, b.len);
            buf_free(&s.letters);
            buf_free(&b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syntax__pieces_have_their_styles),
        cmocka_unit_test(test_syntax__languages_have_many_names),
        cmocka_unit_test(test_syntax__random_bytes_are_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
