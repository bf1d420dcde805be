/* The screen's search in the text of an answer: colours of code and addresses.  Snippets of every language and sentences with addresses, changed
 * at random: the pieces of a line cover it exactly and cut no character, and an address is whole and has nothing around it. */
#include <ctype.h>
#include <strings.h>

#include "base/memory.h"
#include "base/unicode.h"
#include "tests/fuzz/mutate.h"
#include "ui/tui/find.h"
#include "ui/tui/sheet.h"

/* ---- colours ---- */

static const struct { const char *language, *code; } snippets[] = {
    {"c", "#include <x.h>\nint main(void) /* a\nb */ {\n    return x->y == 0x1F ? 'a' : 1e-5; // no\n}\nchar *s = \"a\\\"b\";\n"},
    {"c++", "template <class T> auto f = [](T &t) { return nullptr; };\n"},
    {"cuda", "__global__ void k(float4 *p) { __syncthreads(); p[threadIdx.x] = {}; }\n"},
    {"python title=x", "x = '''a\nb''' # c\ndef f(): return None\ny = \"\"\"q\n\"\"\"\n"},
    {"sh", "echo \"a\nb\" a#b # c\nif [ -n '$x\ny' ]; then exit 1; fi\n"},
    {"json", "{\"a\": \"b\", \"c\" : [true, -1.5e+10, null]} // x\n"},
    {"js,linenos", "const a = `x\n${b}`; /* y */ let c = 'd' + /e/;\n"},
    {"ts", "interface A { readonly b: string | undefined }\n"},
    {"{.rust}", "fn f<'a>(c: &'a str) -> Option<u8> { 'x'; '\\n'; '\xc3\xa9'; \"two\nlines\" }\n"},
    {"rust", "fn f<'a>(c: &'a str) -> Option<u8> { 'x'; '\\n'; '\xc3\xa9'; \"two\nlines\" }\n"},
    {"SQL", "Select 'it''s', 'a\nb' from \"t\" where x >= 1 -- y\n"},
    {"go", "func f() (int, error) { return `raw\nx`, nil }\n"},
    {"yaml", "- a-b: 'x' # y\n  http://x: 1\nkey:\n    - \"v\"\n"},
    {"toml", "[a.b]\nk = \"v\"\nt = '''x\ny''' ; c\n"},
    {"html", "<a href=\"x\"\n id='y'>it's 1</a><!-- b\nc --><br/>\n"},
    {"diff", "diff --git a b\n@@ -1 +1 @@\n-a\n+b\n c\n"},
    {"", "plain \xe6\x97\xa5\xe6\x9c\xac text\n"},
};
static const char *const code_words[] = {
    "/*", "*/", "//", "#", "\"\"\"", "'''", "`", "'", "\"", "\\", "<!--", "-->", "</", "/>", "<a", ">", "--", "[x]", "key:", "- ", "0x", "1e-",
    "return",
    "true", "\xc3\xa9", "''", "\n", "#include", "  ",
};

struct seen {
    const char *line;
    size_t n, end;
    struct buf styles;
    const char *wrong;
};

static void see(void *arg, enum style style, size_t from, size_t n)
{
    struct seen *s = arg;
    if (from != s->end || !n || from + n > s->n)
        s->wrong = "the pieces do not cover the line in order";
    else if (style >= N_STYLES)
        s->wrong = "a piece has no style";
    else if ((s->line[from] & 0xC0) == 0x80 && unicode_valid(s->line, s->n))
        s->wrong = "a piece begins within a character";
    s->end = from + n;
    buf_addf(&s->styles, "%d:%zu ", (int)style, n);
}

static int colour(int language, int state, const char *line, size_t n, struct buf *styles, const char **wrong)
{
    struct seen s = {.line = line, .n = n, .styles = *styles};
    const int next = syntax_line(language, state, line, n, see, &s);
    *styles = s.styles;
    if (s.end != n)
        s.wrong = "the pieces do not cover the line";
    if (next < 0 || (language < 0 && next))
        s.wrong = "the next line's state is no state";
    *wrong = s.wrong ? s.wrong : *wrong;
    return next;
}

static void test_syntax__pieces_cover_any_line_exactly(void **state)
{
    struct buf code = {0}, info = {0}, once = {0}, twice = {0};
    struct long_run run;
    (void)state;
    for (run = long_run_begin(1, 1); next_input(&run);) {
        const uint32_t k = rnd(COUNT(snippets));
        const char *wrong = NULL;
        int carry = 0;
        buf_reset(&code);
        buf_reset(&info);
        buf_adds(&info, snippets[k].language);
        buf_adds(&code, snippets[k].code);
        if (one_in(4))
            mutate(&info, code_words, COUNT(code_words), ANY(snippets).language);
        mutate(&code, code_words, COUNT(code_words), ANY(snippets).code);
        const int language = syntax_find(buf_str(&info), info.len);
        if (language >= 0 && !*syntax_name(language))
            wrong = "the language has no name";
        for (size_t at = 0, n; at < code.len && !wrong; at += n + 1) {
            const char *line = code.data + at, *end = memchr(line, '\n', code.len - at);
            n = end ? (size_t)(end - line) : code.len - at;
            char *own = memory_alloc(n ? n : 1);        /* so that a byte too many is noticed */
            memcpy(own, line, n);
            buf_reset(&once);
            buf_reset(&twice);
            const int next = colour(language, carry, own, n, &once, &wrong);
            if (colour(language, carry, line, n, &twice, &wrong) != next || strcmp(buf_str(&once), buf_str(&twice)))
                wrong = "the same line has other colours the second time";
            free(own);
            carry = next;
        }
        if (wrong)
            fail_input(&run, wrong, buf_str(&code), code.len);
    }
    long_run_print(&run, run.n, "snippets");
    buf_free(&code);
    buf_free(&info);
    buf_free(&once);
    buf_free(&twice);
}

/* ---- addresses ---- */

static const char *const sentences[] = {
    "see https://a.b/c. Then (http://a.b/x_(y)) and <HTTPS://C.d>, or mailto:x@y.z!",
    "[text](https://a.b/?q=1&r=2#z), `ftp://f.g` and **https://a.b** _https://c.d_ \"mailto:x@y.z\"!",
    "http:// https://. xhttp://a.b http:/a https://\303\244.b/\346\227\245 https://a.b\033[31m",
    "https://en.wikipedia.org/wiki/C_(language) [https://[::1]:8080/{a}] https://a.b/}])]",
};
static const char *const address_words[] = {
    "https://", "http://", "ftp://", "mailto:", "HTTP://", "(", ")", "[", "]", "{", "}", ")))", "]]]", ".", ",", "!", "*", "_", "~", "`", "|", "^",
    "\\", "<", ">",
    "x", "\xe6\x97\xa5", " ",
};

static bool begins_with_scheme(const char *s, size_t n)
{
    static const char *const all[] = {"https://", "http://", "ftp://", "mailto:"};
    for (uint32_t i = 0; i < COUNT(all); i++)
        if (n > strlen(all[i]) && !strncasecmp(s, all[i], strlen(all[i])))
            return true;
    return false;
}

static const char *wrong_address(const struct buf *b, bool valid, size_t from, size_t at, size_t n)
{
    size_t again = at, n_again;
    if (at < from || n > b->len || at > b->len - n)
        return "the address is not in the text";
    if (!begins_with_scheme(b->data + at, n))
        return "the address has no scheme";
    for (size_t i = at; i < at + n; i++)
        if ((unsigned char)b->data[i] <= ' ' || b->data[i] == 127 || strchr("<>\"`|\\^", b->data[i]))
            return "the address has a character that no address has";
    if (strchr(".,;:!?'*_~", b->data[at + n - 1]))
        return "the address ends with a mark of the sentence";
    if (!excerpt_url(b->data, b->len, &again, &n_again) || again != at || n_again != n)
        return "the address is another one when it is looked for where it is";
    if (valid && !unicode_valid(b->data + at, n))
        return "the address cuts a character";
    return NULL;
}

static void test_url__what_is_found_in_any_text_is_an_address(void **state)
{
    struct buf text = {0};
    struct long_run run;
    long found = 0;
    (void)state;
    for (run = long_run_begin(1, 1); next_input(&run);) {
        buf_reset(&text);
        buf_adds(&text, ANY(sentences));
        mutate(&text, address_words, COUNT(address_words), ANY(sentences));
        const char *wrong = NULL;
        const bool valid = unicode_valid(buf_str(&text), text.len);
        for (size_t from = 0, at = 0, n; !wrong && excerpt_url(buf_str(&text), text.len, &at, &n); from = at += n, found++)
            wrong = wrong_address(&text, valid, from, at, n);
        if (wrong)
            fail_input(&run, wrong, text.data, text.len);
    }
    long_run_print(&run, run.n, "texts");
    assert_true(found > 0);
    buf_free(&text);
}

static void test_url__a_hundred_thousand_closing_marks_are_no_hang(void **state)
{
    struct buf text = {0};
    size_t at = 0, n = 0;
    const int64_t start = clock_ns();
    (void)state;
    buf_adds(&text, "https://a.b/");
    for (int i = 0; i < 200000; i++)
        buf_addc(&text, ")]}"[i % 3]);
    assert_true(excerpt_url(text.data, text.len, &at, &n));
    assert_int_equal(n, strlen("https://a.b/"));
    assert_true(clock_ms_since(start) < 2000);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syntax__pieces_cover_any_line_exactly),
        cmocka_unit_test(test_url__what_is_found_in_any_text_is_an_address),
        cmocka_unit_test(test_url__a_hundred_thousand_closing_marks_are_no_hang),
    };
    return cmocka_run_group_tests_name("screen text fuzz", tests, NULL, NULL);
}
