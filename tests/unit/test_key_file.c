#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "option/endpoint.h"
#include "serve/keys.h"

#define A "aaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbb"

static char dir[64], path[96];

static int open_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/q35chat-keys-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/serve.key", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static void write_file(const char *text)
{
    assert_true(file_replace(path, text, strlen(text)));
    assert_int_equal(chmod(path, 0600), 0);
}

static void test_keys__a_file_of_one_key_or_of_names_and_keys(void **state)
{
    (void)state;
    static const struct { const char *file, *names, *client; } rows[] = {
        {A "\n", "default", A}, {A, "default", A}, {"# mine\n\n  " B "  \r\n", "default", B},
        {"laptop " A "\n# the other\nphone.1\t" B, "laptop phone.1", A}, {"ci  " B "\n" A "\n", "ci default", B},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct keys k = {0};
        struct buf names = {0}, own = {0};
        struct err e;
        write_file(rows[i].file);
        if (!keys_read(&k, path, false, &e) || !key_read(path, &own, &e))
            fail_msg("%s", e.msg);
        for (int j = 0; j < k.n; j++)
            buf_addf(&names, "%s%s", j ? " " : "", k.list[j].name);
        assert_string_equal(buf_str(&names), rows[i].names);
        assert_string_equal(buf_str(&own), rows[i].client);             /* what our own client takes out of the same file */
        assert_true(keys_find(&k, text_of(rows[i].client)) >= 0);
        assert_int_equal(keys_find(&k, text_of("aaaaaaaaaaaaaaa")), -1);
        assert_int_equal(keys_find(&k, text_of(A "a")), -1);
        assert_int_equal(keys_find(&k, text_of("")), -1);
        buf_free(&names);
        buf_free(&own);
        keys_free(&k);
    }
}

static void test_keys__a_bad_file_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    static const struct { const char *file, *says; } rows[] = {
        {"", "has no key"}, {"# none\n", "has no key"}, {"short\n", "line 1: the key has 5 characters, expected 16 to 4096"},
        {"a " A "\nb short", "line 2: the key has 5"}, {"a/b " A, "line 1: expected NAME KEY"}, {"a " A " " B, "line 1: expected NAME KEY"},
        {"a " A "\na " B, "line 2: the name a is there twice"}, {"a " A "\nb " A, "line 2: the key is there twice"},
        {A "\n" B, "the name default is there twice"},
        {"a \xc3\xa4" A, "line 1: expected NAME KEY"},
    };
    struct keys k = {0};
    struct err e;
    write_file("old " A);
    assert_true(keys_read(&k, path, false, &e));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file(rows[i].file);
        assert_false(keys_read(&k, path, false, &e));
        if (!strstr(e.msg, rows[i].says) || !strstr(e.msg, path))
            fail_msg("%zu: %s", i, e.msg);
        assert_true(k.n == 1 && keys_find(&k, text_of(A)) == 0);
    }
    write_file("old " A);
    assert_int_equal(chmod(path, 0644), 0);
    assert_false(keys_read(&k, path, false, &e));
    assert_non_null(strstr(e.msg, "can be read by others"));
    keys_free(&k);
}

static void test_keys__read_again_they_keep_their_places_and_counts(void **state)
{
    (void)state;
    struct keys k = {0};
    struct err e;
    write_file("a " A "\nb " B);
    assert_true(keys_read(&k, path, false, &e));
    k.list[0].use.tokens = 7;
    k.list[1].use.tokens = 8;
    write_file("c cccccccccccccccccccc\nb " A);
    assert_true(keys_read(&k, path, false, &e));
    assert_int_equal(k.n, 3);
    assert_true(!k.list[0].secret && k.list[0].use.tokens == 7 && k.list[1].use.tokens == 8);
    assert_int_equal(keys_find(&k, text_of(A)), 1);
    assert_int_equal(keys_find(&k, text_of(B)), -1);
    assert_int_equal(keys_find(&k, text_of("cccccccccccccccccccc")), 2);
    keys_free(&k);
    unlink(path);
    assert_true(keys_read(&k, path, true, &e));         /* made */
    assert_true(k.n == 1 && strlen(k.list[0].secret) >= KEY_LEAST);
    keys_free(&k);
}

/* A file that has other names each time it is read. */
static void test_keys__names_that_left_are_counted_together_when_there_are_many(void **state)
{
    (void)state;
    struct keys k = {0};
    struct err e;
    char text[200];
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "stays " A "\nname-%d key-of-the-name-%d\n", i, i);
        write_file(text);
        assert_true(keys_read(&k, path, false, &e));
        const int at = keys_find(&k, text_trim(text_of(strstr(text, "key-of"))));
        assert_true(at > 0);
        k.list[at].use.requests++;
        k.list[0].use.requests++;
        assert_string_equal(k.list[0].name, "stays");
    }
    unsigned long long sum = k.forgotten.requests;
    for (int i = 0; i < k.n; i++)
        sum += k.list[i].use.requests;
    assert_int_equal(k.n, KEYS_NAMES);
    assert_int_equal(sum, 2000);
    assert_int_equal(k.list[0].use.requests, 1000);
    keys_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys__a_file_of_one_key_or_of_names_and_keys),
        cmocka_unit_test(test_keys__a_bad_file_is_refused_and_changes_nothing),
        cmocka_unit_test(test_keys__read_again_they_keep_their_places_and_counts),
        cmocka_unit_test(test_keys__names_that_left_are_counted_together_when_there_are_many),
    };
    return cmocka_run_group_tests(tests, open_dir, remove_dir);
}
