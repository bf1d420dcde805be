/* Over the small vocabulary of tests/data/tokenizer/small: 256 bytes, 256 rules, ids against the ranks, a token without
 * rule ("hello world"), control tokens from 556 on, and 582 <|audio_start|> in tokenizer_config.json alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/unicode.h"
#include "base/file.h"
#include "tests/tmpdir.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

#define SMALL "tests/data/tokenizer/small"
#define FFFD "\xEF\xBF\xBD"

static struct tokenizer *small;
static struct buf small_json;

static int setup(void **state)
{
    (void)state;
    struct err e = {0};
    small = tokenizer_open(SMALL, &e);
    if (!small)
        print_error("%s\n", e.msg);
    return !small || !file_read(&small_json, SMALL "/tokenizer.json", 1 << 20, &e);
}

static int teardown(void **state)
{
    (void)state;
    tokenizer_close(small);
    buf_free(&small_json);
    return 0;
}

static uint32_t rnd_state = 7;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)rnd_state * below >> 32);
}

/* Pieces of every kind: words, blanks, digits, marks, parts of characters, control tokens, half of them. */
static void random_text(struct buf *b, int n_pieces)
{
    static const char *const pieces[] = {
        "hello", " world", "the ", "ing", "a", "aaaa", " ", "  ", "\n", "\r\n", "\t", "7", "42", "'s", "'LL", ".", "...", "(",
        "\xC3\xA9", "e\xCC\x81", "\xE4\xBD\xA0", "\xE0\xB8\xB1", "\xF0\x9F\x99\x82", "\xE2\x80\x8B", "\xC2\xA0", "\xC2\xBD",
        "<|im_end|>", "<think>", "</think>", "<|im_", "<", "|>", "\xEA\xB0\x80", "\xE1\x86\xA8", "\xC5\xBF", "\x01",
    };
    for (int i = 0; i < n_pieces; i++)
        buf_adds(b, pieces[rnd(sizeof pieces / sizeof *pieces)]);
}

static void decode(const struct tokenizer *t, const struct ids *ids, bool skip_special, struct buf *out)
{
    struct detok d = {0};
    for (int i = 0; i < ids->n; i++)
        detok_push(&d, t, ids->data[i], skip_special, out);
    detok_flush(&d, out);
}

static void assert_encodes(const struct tokenizer *t, const char *text, bool specials, int n, const int32_t *want)
{
    struct ids ids = {0};
    tokenizer_encode(t, text, strlen(text), specials, &ids);
    assert_int_equal(ids.n, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(ids.data[i], want[i]);
    ids_free(&ids);
}
#define ENCODES(t, text, specials, ...) do { static const int32_t want_[] = { __VA_ARGS__ }; \
    assert_encodes(t, text, specials, sizeof want_ / sizeof *want_, want_); } while (0)

/* The definition: look at all neighbours, apply the earliest rule, leftmost first, again and again. */
static void merge_slowly(const struct vocab *v, const char *s, size_t n, struct ids *out)
{
    int32_t id[64];
    size_t m = n;
    for (size_t i = 0; i < n; i++)
        id[i] = v->byte_id[(unsigned char)s[i]];
    for (;;) {
        uint32_t best = VOCAB_NO_RULE;
        size_t at = 0;
        for (size_t i = 0; i + 1 < m; i++)
            for (uint32_t r = 0; r < v->n_merges && r < best; r++)
                if (v->merges[r].left == id[i] && v->merges[r].right == id[i + 1]) {
                    best = r;
                    at = i;
                }
        if (best == VOCAB_NO_RULE)
            break;
        id[at] = v->merges[best].result;
        memmove(id + at + 1, id + at + 2, (--m - at - 1) * sizeof *id);
    }
    ids_append(out, id, (int)m);
}

static void test_tokenizer__a_word_is_merged_as_the_definition_says(void **state)
{
    (void)state;
    struct vocab v = {0};
    assert_true(vocab_read(&v, SMALL, NULL));
    for (int round = 0; round < 3000; round++) {
        char s[48];
        size_t n = 1 + rnd(sizeof s - 1);
        for (size_t i = 0; i < n; i++)
            s[i] = "etaoinshrdlu"[rnd(round % 2 ? 12 : 5)];
        struct ids want = {0}, got = {0};
        merge_slowly(&v, s, n, &want);
        tokenizer_encode(small, s, n, false, &got);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.data, want.data, (size_t)want.n * sizeof *want.data);
        ids_free(&want);
        ids_free(&got);
    }
    vocab_free(&v);
}

static void test_tokenizer__rules_count_by_rank_and_a_token_without_rule_is_never_made(void **state)
{
    (void)state;
    struct ids ids = {0};
    tokenizer_encode(small, "hello world", 11, true, &ids);
    assert_int_equal(ids.n, 2);         /* hello, blank + world: token 512 is the two of them, and no rule makes it */
    size_t n;
    const char *s = tokenizer_bytes(small, 512, &n);
    assert_int_equal(n, 11);
    assert_memory_equal(s, "hello world", 11);
    ids_free(&ids);
}

static void test_tokenizer__words_seen_before_give_the_same_ids(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct buf one = {0}, many = {0};
        struct ids a = {0}, b = {0};
        random_text(&one, 20);
        buf_adds(&one, "<think>");      /* nothing runs into the next copy */
        for (int i = 0; i < 30; i++)
            buf_add(&many, one.data, one.len);
        tokenizer_encode(small, one.data, one.len, true, &a);
        tokenizer_encode(small, many.data, many.len, true, &b);
        assert_int_equal(b.n, 30 * a.n);
        for (int i = 0; i < 30; i++)
            assert_memory_equal(b.data + i * a.n, a.data, (size_t)a.n * sizeof *a.data);
        ids_free(&a);
        ids_free(&b);
        buf_free(&one);
        buf_free(&many);
    }
}

static void test_tokenizer__every_text_comes_back_as_its_nfc(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct buf text = {0}, back = {0}, nfc = {0};
        struct ids ids = {0};
        random_text(&text, (int)rnd(30));
        for (uint32_t i = rnd(3); i && text.len; i--)
            text.data[rnd((uint32_t)text.len)] = (char)rnd(256);
        tokenizer_encode(small, buf_str(&text), text.len, false, &ids);
        for (int i = 0; i < ids.n; i++)
            assert_false(tokenizer_is_added(small, ids.data[i]));
        decode(small, &ids, true, &back);
        unicode_nfc(&nfc, buf_str(&text), text.len);
        assert_int_equal(back.len, nfc.len);
        assert_memory_equal(buf_str(&back), buf_str(&nfc), nfc.len);
        buf_free(&text);
        buf_free(&back);
        buf_free(&nfc);
        ids_free(&ids);
    }
}

static void test_tokenizer__control_tokens_are_found_only_where_asked_for(void **state)
{
    (void)state;
    int32_t end = tokenizer_special(small, "<|im_end|>"), think = tokenizer_special(small, "<think>");
    assert_int_equal(end, 558);
    assert_true(tokenizer_is_special(small, end) && tokenizer_is_added(small, end));
    assert_true(!tokenizer_is_special(small, think) && tokenizer_is_added(small, think));
    assert_int_equal(tokenizer_special(small, "<|im_"), -1);
    assert_int_equal(tokenizer_special(small, "<|im_end|>x"), -1);
    assert_int_equal(tokenizer_special(small, ""), -1);
    ENCODES(small, "<|im_end|><|im_end|>", true, 558, 558);
    struct ids plain = {0};
    tokenizer_encode(small, "<|im_end|>", 10, false, &plain);
    assert_true(plain.n > 1);
    ids_free(&plain);
    /* A mark behind a control token is not joined with anything: the pieces are normalised one by one. */
    ENCODES(small, "<think>\xCC\x81", true, 580, 136, 223);
}

static void test_tokenizer__tokens_of_the_config_alone_have_id_and_name_but_are_not_searched(void **state)
{
    (void)state;
    assert_int_equal(tokenizer_special(small, "<|audio_start|>"), 582);
    assert_int_equal(tokenizer_n_ids(small), 583);
    assert_true(tokenizer_is_special(small, 582));
    struct ids ids = {0};
    tokenizer_encode(small, "<|audio_start|>", 15, true, &ids);
    assert_true(ids.n > 1);
    ids_free(&ids);
}

static void test_tokenizer__ids_that_mean_nothing_decode_to_nothing(void **state)
{
    (void)state;
    static const int32_t none[] = { -1, 530, 583, INT32_MAX, INT32_MIN };
    struct detok d = {0};
    struct buf out = {0};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        size_t n = 1;
        assert_null(tokenizer_bytes(small, none[i], &n));
        assert_int_equal(n, 0);
        assert_false(tokenizer_is_added(small, none[i]) || tokenizer_is_special(small, none[i]));
        detok_push(&d, small, none[i], false, &out);
    }
    detok_flush(&d, &out);
    assert_int_equal(out.len, 0);
    buf_free(&out);
}

static void test_detok__what_is_shown_is_whole_characters_and_adds_up(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct ids ids = {0};
        struct buf raw = {0}, shown = {0}, want = {0};
        for (uint32_t n = rnd(12); n; n--) {
            size_t len;
            int32_t id = (int32_t)rnd(rnd(4) ? 256 : 583);
            const char *s = tokenizer_bytes(small, id, &len);
            ids_add(&ids, id);
            buf_add(&raw, s, len);
        }
        struct detok d = {0};
        for (int i = 0; i < ids.n; i++) {
            detok_push(&d, small, ids.data[i], false, &shown);
            assert_true(unicode_valid(buf_str(&shown), shown.len));
            assert_true(d.n_held < 4 && unicode_complete((char *)d.held, (size_t)d.n_held) == 0);
        }
        detok_flush(&d, &shown);
        assert_int_equal(d.n_held, 0);
        unicode_replace(&want, buf_str(&raw), raw.len);
        assert_int_equal(shown.len, want.len);
        assert_memory_equal(buf_str(&shown), buf_str(&want), want.len);
        ids_free(&ids);
        buf_free(&raw);
        buf_free(&shown);
        buf_free(&want);
    }
}

static void test_detok__a_control_token_ends_a_broken_character_unless_it_is_skipped(void **state)
{
    (void)state;
    struct buf out = {0};
    struct ids ids = {0};
    tokenizer_encode(small, "\xF0\x9F\x99\x82", 4, false, &ids);
    assert_int_equal(ids.n, 4);
    ids_add(&ids, ids.data[3]);
    ids.data[3] = ids.data[2];
    ids.data[2] = 558;                  /* <|im_end|> between the four bytes */
    decode(small, &ids, false, &out);
    assert_string_equal(out.data, FFFD "<|im_end|>" FFFD FFFD);
    buf_reset(&out);
    decode(small, &ids, true, &out);
    assert_string_equal(out.data, "\xF0\x9F\x99\x82");
    buf_free(&out);
    ids_free(&ids);
}

/* One letter a million times is one word: quadratic work would take hours. */
static void test_tokenizer__a_word_of_a_megabyte_is_quick(void **state)
{
    (void)state;
    struct buf text = {0}, back = {0};
    struct ids ids = {0};
    for (int i = 0; i < 1000000; i++)
        buf_addc(&text, 'e');
    tokenizer_encode(small, text.data, text.len, false, &ids);
    decode(small, &ids, false, &back);
    assert_int_equal(back.len, text.len);
    assert_memory_equal(back.data, text.data, text.len);
    buf_free(&text);
    buf_free(&back);
    ids_free(&ids);
}

/* ---- files ---- */

/* The small file with the first `from` replaced by `to`; opened, and the error kept. */
static struct tokenizer *open_changed(const char *from, const char *to, const char *config, struct err *e)
{
    struct tmpdir d;
    struct buf b = {0};
    const char *at = strstr(small_json.data, from);
    assert_non_null(at);
    buf_add(&b, small_json.data, (size_t)(at - small_json.data));
    buf_adds(&b, to);
    buf_adds(&b, at + strlen(from));
    assert_true(tmpdir_make(&d));
    assert_true(tmpdir_put(&d, "tokenizer.json", b.data, b.len));
    if (config)
        assert_true(tmpdir_put(&d, "tokenizer_config.json", config, strlen(config)));
    struct tokenizer *t = tokenizer_open(d.path, e);
    tmpdir_drop(&d, "tokenizer.json");
    tmpdir_drop(&d, "tokenizer_config.json");
    tmpdir_remove(&d);
    buf_free(&b);
    return t;
}

static void test_tokenizer__files_that_mean_the_same_are_taken(void **state)
{
    (void)state;
    static const struct { const char *from, *to, *notice; } rows[] = {
        { "\"or ld\"", "[\"or\", \"ld\"]", NULL },                              /* newer programs write pairs */
        { "\"or ld\"", "\"\\u006fr l\\u0064\"", NULL },
        { "\"dropout\": null,", "\"dropout\": 0.0, \"other\": {\"vocab\": {\"a\": [1]}, \"merges\": \"x]\"},", NULL },
        { "\"continuing_subword_prefix\": \"\"", "\"continuing_subword_prefix\": null", NULL },
        { "[\\\\p{L}\\\\p{M}]+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+", "\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+",
          "Qwen2's split pattern" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e = {0};
        struct tokenizer *t = open_changed(rows[i].from, rows[i].to, NULL, &e);
        assert_string_equal(e.msg, "");
        assert_non_null(t);
        if (rows[i].notice)
            assert_non_null(strstr(tokenizer_notice(t), rows[i].notice));
        else
            assert_null(tokenizer_notice(t));
        for (int round = 0; round < 50; round++) {
            struct buf text = {0};
            struct ids a = {0}, b = {0};
            random_text(&text, 40);
            tokenizer_encode(small, text.data, text.len, true, &a);
            tokenizer_encode(t, text.data, text.len, true, &b);
            assert_int_equal(a.n, b.n);
            assert_memory_equal(a.data, b.data, (size_t)a.n * sizeof *a.data);
            ids_free(&a);
            ids_free(&b);
            buf_free(&text);
        }
        tokenizer_close(t);
    }
}

static void test_tokenizer__what_it_cannot_do_is_refused_in_one_sentence(void **state)
{
    (void)state;
    static const struct { const char *from, *to, *says; } rows[] = {
        { "\"NFC\"", "\"NFKC\"", "normalizer is NFKC, expected NFC" },
        { "\\\\p{N}|", "\\\\p{N}{1,3}|", "split pattern is not Qwen3.5's: (?i:'s" },
        { "\"Isolated\"", "\"Removed\"", "pre_tokenizer is not" },
        { "\"use_regex\": false", "\"use_regex\": true", "pre_tokenizer is not" },
        { "\"BPE\"", "\"Unigram\"", "model.type is Unigram, expected BPE" },
        { "\"ignore_merges\": false", "\"ignore_merges\": true", "model.ignore_merges is set" },
        { "\"dropout\": null", "\"dropout\": 0.5", "model.dropout is set" },
        { "\"end_of_word_suffix\": \"\"", "\"end_of_word_suffix\": \"</w>\"", "model.end_of_word_suffix is set" },
        { "\"decoder\"", "\"recoder\"", "decoder is nothing, expected ByteLevel" },
        { "\"vocab\"", "\"words\"", "has no model.vocab" },
        { "\"merges\"", "\"rules\"", "has no model.merges" },
        { "\"merges\": [", "\"merges\": [ \"a\", ", "damaged at entry 0" },
        { "\"merges\": [", "\"merges\": [ [\"a\", \"b\", \"c\"], ", "damaged at entry 0" },
        { "\"merges\": [", "\"merges\": [ \"Q Z\", ", "entry 0 names a token that model.vocab does not have" },
        { "\"merges\": [", "\"merges\": [ \"or ld\", ", "repeats entry 0" },
        { "\"merges\": [", "\"merges\": [ \"a \xC3\xBF\xE4\xBD\xA0\", ", "damaged at entry 0" },
        { "\"!\": 0", "\"!\": -1", "id -1" },
        { "\"!\": 0", "\"!\": 99999999999", "id 99999999999" },
        { "\"!\": 0", "\"!\": 1", "gives id 1 twice" },
        { "\"!\": 0", "\"!\": 0.5", "model.vocab is damaged" },
        { "\"!\": 0", "\"!!\": 0", "no token for the byte 0x21" },
        { "\"!\": 0", "\"!\": 0, \"!\": 549", "same token as id 0 and as id 549" },
        { "\"!\": 0", "\"!\": 0, \"\": 549", "model.vocab is damaged" },
        { "\"vocab\": {", "\"vocab\": {}, \"vocab\": {", "duplicate" },
        { "\"id\": 556", "\"id\": 0", "which model.vocab gives to another" },
        { "\"id\": 556", "\"id\": -3", "id -3" },
        { "\"id\": 556", "\"id\": \"x\"", "has no id" },
        { "\"id\": 556", "\"id\": 557", "has id 557" },
        { "\"lstrip\": false", "\"lstrip\": true", "single_word, lstrip or rstrip" },
        { "\"<|endoftext|>\"", "\"\"", "id 556 and content \"\"" },
        { "\"<|endoftext|>\"", "\"<|im_start|>\"", "<|im_start|> has id 557, but <|im_start|> has id 556" },
        { "\"version\"", "version", "not valid JSON" },
        { "\"added_tokens\": [", "\"added_tokens\": [ [[[", "not valid JSON" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e = {0};
        assert_null(open_changed(rows[i].from, rows[i].to, NULL, &e));
        if (!strstr(e.msg, rows[i].says))
            fail_msg("%s -> %s: got \"%s\", expected \"%s\"", rows[i].from, rows[i].to, e.msg, rows[i].says);
        assert_non_null(strstr(e.msg, "/tokenizer.json: "));
        assert_null(strchr(e.msg, '\n'));
    }
}

static void test_tokenizer__a_bad_tokenizer_config_is_refused_and_a_missing_one_is_not(void **state)
{
    (void)state;
    static const struct { const char *config, *says; } rows[] = {
        { "[]", "not a JSON object" },
        { "{", "not valid JSON" },
        { "{\"added_tokens_decoder\": []}", "not an object" },
        { "{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}", "key x, expected an id" },
        { "{\"added_tokens_decoder\": {\"600\": {\"content\": 1}}}", "id 600" },
        { "{\"added_tokens_decoder\": {\"600\": {\"content\": \"<|im_end|>\"}}}", "<|im_end|> has id 600" },
        { "{\"added_tokens_decoder\": {\"558\": {\"content\": \"<|fin|>\"}}}", "<|fin|> has id 558, but <|im_end|> has id 558" },
    };
    struct err e = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_null(open_changed("{", "{", rows[i].config, &e));
        if (!strstr(e.msg, rows[i].says) || !strstr(e.msg, "/tokenizer_config.json: "))
            fail_msg("%s: got \"%s\"", rows[i].config, e.msg);
    }
    struct tokenizer *t = open_changed("{", "{", NULL, &e);
    assert_non_null(t);
    assert_int_equal(tokenizer_special(t, "<|audio_start|>"), -1);
    assert_int_equal(tokenizer_n_ids(t), 582);
    tokenizer_close(t);
    assert_null(tokenizer_open("/nowhere", &e));
    assert_non_null(strstr(e.msg, "/nowhere/tokenizer.json"));
}

static void test_tokenizer__a_file_cut_short_anywhere_is_refused(void **state)
{
    (void)state;
    struct tmpdir d;
    assert_true(tmpdir_make(&d));
    size_t whole = small_json.len - 1;  /* the last byte is a newline */
    assert_int_equal(small_json.data[whole - 1], '}');
    for (size_t n = 0; n < whole; n += n + 40 < whole ? 37 : 1) {
        struct err e = {0};
        assert_true(tmpdir_put(&d, "tokenizer.json", small_json.data, n));
        assert_null(tokenizer_open(d.path, &e));
        assert_non_null(strstr(e.msg, "tokenizer.json"));
    }
    tmpdir_drop(&d, "tokenizer.json");
    tmpdir_remove(&d);
}

static void *encode_often(void *arg)
{
    const struct buf *text = arg;
    struct ids first = {0};
    tokenizer_encode(small, text->data, text->len, true, &first);
    bool same = true;
    for (int i = 0; i < 100; i++) {
        struct ids ids = {0};
        tokenizer_encode(small, text->data, text->len, true, &ids);
        same = same && ids.n == first.n && !memcmp(ids.data, first.data, (size_t)ids.n * sizeof *ids.data);
        ids_free(&ids);
    }
    ids_free(&first);
    return same ? arg : NULL;
}

static void test_tokenizer__threads_may_share_one(void **state)
{
    (void)state;
    pthread_t threads[3];
    struct buf text[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        random_text(&text[i], 200);
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &text[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        void *same;
        pthread_join(threads[i], &same);
        assert_non_null(same);
        buf_free(&text[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer__a_word_is_merged_as_the_definition_says),
        cmocka_unit_test(test_tokenizer__rules_count_by_rank_and_a_token_without_rule_is_never_made),
        cmocka_unit_test(test_tokenizer__words_seen_before_give_the_same_ids),
        cmocka_unit_test(test_tokenizer__every_text_comes_back_as_its_nfc),
        cmocka_unit_test(test_tokenizer__control_tokens_are_found_only_where_asked_for),
        cmocka_unit_test(test_tokenizer__tokens_of_the_config_alone_have_id_and_name_but_are_not_searched),
        cmocka_unit_test(test_tokenizer__ids_that_mean_nothing_decode_to_nothing),
        cmocka_unit_test(test_detok__what_is_shown_is_whole_characters_and_adds_up),
        cmocka_unit_test(test_detok__a_control_token_ends_a_broken_character_unless_it_is_skipped),
        cmocka_unit_test(test_tokenizer__a_word_of_a_megabyte_is_quick),
        cmocka_unit_test(test_tokenizer__files_that_mean_the_same_are_taken),
        cmocka_unit_test(test_tokenizer__what_it_cannot_do_is_refused_in_one_sentence),
        cmocka_unit_test(test_tokenizer__a_bad_tokenizer_config_is_refused_and_a_missing_one_is_not),
        cmocka_unit_test(test_tokenizer__a_file_cut_short_anywhere_is_refused),
        cmocka_unit_test(test_tokenizer__threads_may_share_one),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
