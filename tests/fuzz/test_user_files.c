/* Damaged transcripts, config files and expressions: bytes changed, cut out, doubled.  Every result must be a value that can be
 * read in full, or one printable sentence.  Seeds are fixed unless FUZZ_SEED says otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "tool/calc.h"
#include "option/options.h"
#include "session/file.h"
#include "tool/tool.h"
#include "tests/fuzz/long_run.h"
#include "tests/tmpdir.h"

static uint64_t seed;

static size_t below(size_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (size_t)((seed >> 11) % n);
}

static const char *const pieces[] = {
    "{", "}", "[", "]", "\"", "\n", "\\u0000", "null", "-1", "99999999999999999999", "{\"keep\":0}\n", "{\"go\":1}\n",
    "{\"keep\":1,\"forget\":true}\n", "\"content\":", "\"role\":\"tool\"", "\"time\":\"9999-12-31T23:59:60Z\",", "\"time\":\"",
    "=", "[tool x]\n", "command = ", "'", " ;", "\t", "(", "^", "e", "1e999", "%", "\xff", "\xc3", "\xe2\x88\x92",
};

static void damage(struct buf *b)
{
    for (size_t k = 1 + below(4); k && b->len; k--) {
        size_t at = below(b->len), n = below(8);
        struct buf out = {0};
        buf_add(&out, b->data, at);
        switch (below(4)) {
        case 0:                         /* other bytes */
            buf_addc(&out, (char)below(256));
            break;
        case 1:                         /* something that means something */
            buf_adds(&out, pieces[below(sizeof pieces / sizeof *pieces)]);
            n = 0;
            break;
        case 2:                         /* a stretch twice */
            n = at + n > b->len ? b->len - at : n;
            buf_add(&out, b->data + at, n);
            n = 0;
            break;
        default:                        /* a stretch less */
            break;
        }
        n = at + n > b->len ? b->len - at : n;
        buf_add(&out, b->data + at + n, b->len - at - n);
        buf_free(b);
        *b = out;
    }
}

static void is_sentence(const struct err *e)
{
    size_t n = strlen(e->msg);
    assert_true(n > 0 && n < sizeof e->msg);
    for (size_t i = 0; i < n; i++)
        assert_true((unsigned char)e->msg[i] >= 32 && e->msg[i] != 127);
}

static size_t sum;              /* what is read must be there to be read */

static void touch(struct text t)
{
    for (size_t i = 0; i < t.n; i++)
        sum += (unsigned char)t.p[i];
}

static void test_session__damaged_transcripts_load_or_are_refused(void **state)
{
    static const char good[] =
        "{\"q35chat\":1,\"created\":\"2026-01-01T00:00:00Z\",\"model\":\"m\"}\n{\"role\":\"system\",\"content\":\"s\"}\n"
        "{\"role\":\"user\",\"time\":\"2026-01-31T14:02:03Z\",\"content\":\"hello \\u0000 \xc3\xa9\"}\n"
        "{\"role\":\"assistant\",\"reasoning\":\"r\",\"content\":\"\",\"calls\":[{\"name\":\"clock\",\"arguments\":\"{}\"}],\"ids\":[1,2,3]}\n"
        "{\"role\":\"tool\",\"name\":\"clock\",\"content\":\"noon\"}\n{\"keep\":1}\n"
        "{\"role\":\"assistant\",\"reasoning\":\"\",\"content\":\"hi\",\"ids\":[5],\"stopped\":true}\n"
        "{\"go\":2}\n{\"role\":\"user\",\"content\":\"no\"}\n{\"keep\":3,\"forget\":true}\n{\"title\":\"t\"}\n";
    struct tmpdir d;
    char path[96];
    const uint64_t first = long_run_seed(0);
    struct long_run run = long_run_begin(0, 1500);
    long loaded = 0, refused = 0;
    (void)state;
    assert_true(tmpdir_make(&d));
    snprintf(path, sizeof path, "%s/talk", d.path);
    while (long_run_goes_on(&run)) {
        struct buf b = {0}, note = {0};
        struct transcript t = {0};
        struct err e = {0};
        seed = first + (uint64_t)run.n;
        buf_add(&b, good, sizeof good - 1);
        damage(&b);
        assert_true(tmpdir_put(&d, "talk", buf_str(&b), b.len));
        struct session *s = session_open(path, &t, &note, &e);
        for (int k = 0; k < t.n_all; k++) {
            const struct entry *m = t.all[k];
            touch(m->m.content);
            touch(m->m.reasoning);
            for (int c = 0; c < m->m.n_calls; c++)
                touch(m->m.calls[c].arguments);
            assert_true(!m->parent || m->parent->number < k);
            assert_true(k >= t.n || t.entries[k]->depth == k);
        }
        if (s) {
            loaded++;
        } else {
            refused++;
            is_sentence(&e);
        }
        session_close(s);
        transcript_free(&t);
        buf_free(&b);
        buf_free(&note);
    }
    tmpdir_drop(&d, "talk");
    tmpdir_remove(&d);
    print_message("%ld loaded, %ld refused\n", loaded, refused);
    assert_true(loaded > 50 && refused > 50);
}

static void test_options__damaged_config_files_are_read_or_refused(void **state)
{
    static const char good[] =
        "# comment\ntemperature = 0.5\nsystem = a\n  b\nstop = X\nctx = 32k\nthink = off\nseed = 12\ntools = clock, x\n"
        "[tool x]\ndescription = says \"x\"\nparameters = {\"type\": \"object\",\n  \"properties\": {}}\ncommand = a 'b c' \"d\" e\\ f\n"
        "timeout_s = 3\nmax_output = 100\n";
    struct tmpdir d;
    char folder[96];
    const uint64_t first = long_run_seed(77776);
    struct long_run run = long_run_begin(0, 1500);
    long read = 0, refused = 0;
    (void)state;
    assert_true(tmpdir_make(&d));
    snprintf(folder, sizeof folder, "%s/q35chat", d.path);
    assert_int_equal(mkdir(folder, 0700), 0);
    setenv("XDG_CONFIG_HOME", d.path, 1);       /* the usual file, in which an unknown key is no error */
    while (long_run_goes_on(&run)) {
        struct buf b = {0}, out = {0};
        struct err e = {0};
        struct options *o = options_open();
        seed = first + (uint64_t)run.n;
        buf_add(&b, good, sizeof good - 1);
        damage(&b);
        assert_true(tmpdir_put(&d, "q35chat/q35chat.conf", buf_str(&b), b.len));
        bool ok = options_read_usual_file(o, &e);
        struct tools *t = ok ? tools_open(o, &e) : NULL;
        if (ok && t) {
            options_print(o, &out);
            sum += out.len;
            read++;
        } else {
            refused++;
            is_sentence(&e);
        }
        tools_close(t);
        options_close(o);
        buf_free(&b);
        buf_free(&out);
    }
    tmpdir_drop(&d, "q35chat/q35chat.conf");
    rmdir(folder);
    tmpdir_remove(&d);
    print_message("%ld read, %ld refused\n", read, refused);
    assert_true(read > 50 && refused > 50);
}

static void test_calc__damaged_expressions_have_a_value_or_a_sentence(void **state)
{
    static const char *const good[] = {"(3 + 4) * 12 - sqrt(2)^-3 % 7", "max(1, 2.5, -3e2) / abs(-4)", "123456789012345678901234567890 * 98765"};
    const uint64_t first = long_run_seed(4);
    struct long_run run = long_run_begin(0, 20000);
    long values = 0, refused = 0;
    (void)state;
    while (long_run_goes_on(&run)) {
        struct buf b = {0};
        struct err e = {0};
        char out[64] = "";
        seed = first + (uint64_t)run.n;
        buf_adds(&b, good[run.n % 3]);
        damage(&b);
        if (calc(buf_str(&b), out, sizeof out, &e)) {
            assert_true(*out && strlen(out) < 48);
            values++;
        } else {
            is_sentence(&e);
            refused++;
        }
        buf_free(&b);
    }
    print_message("%ld values, %ld refused\n", values, refused);
    assert_true(values > 500 && refused > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session__damaged_transcripts_load_or_are_refused),
        cmocka_unit_test(test_options__damaged_config_files_are_read_or_refused),
        cmocka_unit_test(test_calc__damaged_expressions_have_a_value_or_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
