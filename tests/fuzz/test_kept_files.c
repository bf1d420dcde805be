/* Small files that the program keeps for itself: measured prices, typed messages, text that was not sent.  Each is changed at random, read, and
 * written again: what comes back is valid, and what is kept now is found again whatever else the file held. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/unicode.h"
#include "base/file.h"
#include "engine/price.h"
#include "tests/fuzz/disk.h"
#include "tests/fuzz/mutate.h"
#include "tests/tmpdir.h"
#include "ui/tui/history.h"
#include "ui/tui/input.h"

static struct tmpdir dir;
static char path[96];

static int make_dir(void **state)
{
    (void)state;
    const bool ok = tmpdir_make(&dir);
    snprintf(path, sizeof path, "%s/kept", dir.path);
    return !ok;
}

static int drop_dir(void **state)
{
    (void)state;
    tmpdir_drop(&dir, "kept");
    tmpdir_drop(&dir, "kept.unsent");
    return rmdir(dir.path);             /* nothing else is left there */
}

static void put(const char *name, const struct buf *b)
{
    assert_true(tmpdir_put(&dir, name, buf_str(b), b->len));
}

/* ---- prices ---- */

static const char *const price_words[] = {" ", "\n", "\n\n", "0", "nan", "inf", "1e-5", "a GPU, a model", " 6 6", "1 1 1 1 1 1 1 1"};
static const char *const price_keys[] = {"a GPU, a model", "a GPU", "cpu, 2 threads, m, 4 layers of 64, bf16", "x", " ", "1 2 3", "1e9", "key\xff"};

static double rounded(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.5g", x);
    return strtod(text, NULL);
}

static struct price random_price(void)
{
    struct price p = {0};
    for (uint32_t n = 1 + rnd(20); n; n--) {
        price_step_took(&p, 1 + (int)rnd(PRICE_ROWS), 1e-3 + rnd(1000000) / 100.0);
        if (one_in(2))
            price_drafts_took(&p, 1 + (int)rnd(PRICE_ROWS), 1 + (int)rnd(4), 1e-3 + rnd(10000) / 100.0);
    }
    /* as exact as the file is, so that a bound lies on the same side of both */
    p.one_ms = rounded(p.one_ms);
    for (int i = 0; i < PRICE_ROWS; i++) {
        p.ratio[i] = rounded(p.ratio[i]);
        p.draft_ms[i] = rounded(p.draft_ms[i]);
    }
    return p;
}

static bool same_figure(double a, double b)
{
    return fabs(a - b) <= 1e-4 * fabs(b) + 1e-12;
}

static bool same_price(const struct price *a, const struct price *b)
{
    bool same = same_figure(a->one_ms, b->one_ms);
    for (int i = 0; i < PRICE_ROWS; i++)
        same = same && same_figure(a->ratio[i], b->ratio[i]) && a->timed[i] == b->timed[i] && same_figure(a->draft_ms[i], b->draft_ms[i]);
    return same;
}

static int count_lines(const struct buf *b)
{
    int n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == '\n';
    return n;
}

static const char *keep_one(const char *key)
{
    struct price before[COUNT(price_keys)], p = random_price(), got;
    bool had[COUNT(price_keys)];
    struct buf text = {0};
    struct err e = {{0}};
    const char *wrong = NULL;
    for (uint32_t i = 0; i < COUNT(price_keys); i++)
        if ((had[i] = price_recall(&before[i], path, price_keys[i])) && !price_is_likely(&before[i]))
            return "prices were found that cannot have been measured";
    if (!price_is_likely(&p))
        return "prices that were measured count as unlikely";
    if (!price_remember(&p, path, key, &e))
        return "the prices cannot be kept";
    price_doubt(&p);
    if (!price_recall(&got, path, key) || !same_price(&got, &p))
        wrong = "the prices that were kept last are not found again";
    if (!file_read(&text, path, 1 << 20, &e) || count_lines(&text) > 32)
        wrong = "the file has more than 32 lines";
    for (uint32_t i = 0; i < COUNT(price_keys) && count_lines(&text) < 32; i++)
        if (had[i] && strcmp(price_keys[i], key) && (!price_recall(&got, path, price_keys[i]) || !same_price(&got, &before[i])))
            wrong = "another key's prices are lost";
    buf_free(&text);
    return wrong;
}

static void test_pricelist__a_line_that_is_kept_is_found_again_in_any_file(void **state)
{
    struct buf good = {0}, b = {0};
    struct long_run run;
    struct err e;
    (void)state;
    for (run = long_run_begin(0, 300); next_input(&run);) {
        if (one_in(16) || !good.len) {  /* another valid file */
            tmpdir_drop(&dir, "kept");
            for (uint32_t n = one_in(4) ? 40 : 1 + rnd(6); n; n--) {
                const struct price p = random_price();
                char key[40];
                snprintf(key, sizeof key, "device %u", rnd(60));
                assert_true(price_remember(&p, path, rnd(3) ? ANY(price_keys) : key, &e));
            }
            buf_reset(&good);
            assert_true(file_read(&good, path, 1 << 20, &e));
        }
        buf_reset(&b);
        buf_add(&b, good.data, good.len);
        mutate(&b, price_words, COUNT(price_words), good.data);
        put("kept", &b);
        const char *wrong = keep_one(ANY(price_keys));
        if (wrong)
            fail_input(&run, wrong, buf_str(&b), b.len);
    }
    long_run_print(&run, run.n, "files");
    buf_free(&good);
    buf_free(&b);
}

/* ---- typed messages ---- */

static const char histories[][200] = {
    "\"first\"\n\"second \\u00e9 \\\"q\\\"\"\n\"two\\nlines\"\n\"\xe6\x97\xa5\"\n",
    "\"a\"\n\"a\"\n\"b\"\nno entry\n\"a\"\n\"torn",
    "\"1\"\n\"2\"\n\"3\"\n\"4\"\n\"5\"\n\"6\"\n\"7\"\n\"8\"\n\"9\"\n\"10\"\n\"11\"\n\"12\"\n",
};
static const char *const history_words[] = {"\"", "\n", "\"x\"\n", "\\u0000", "\\ud83d\\ude00", "\\", "[\"x\"]", "null", "\"\"\n", "\r\n", " \"y\" "};
static const char *const typed[] = {"hello", "two\nlines", "\xe6\x97\xa5\xe6\x9c\xac", "\"", "\\", "first", "a", "\x01", "x\xff", "FIRST"};

/* Walks to the oldest and back: each entry is shown, and the draft comes back. */
static const char *walk(struct history *h)
{
    const char *older = "", *draft = "a draft that no entry is";
    int n = 0;
    for (; older; n++) {
        older = history_older(h, draft);
        if (older && strcmp(older, h->entries[h->n - 1 - n]))
            return "a walk shows other entries";
    }
    for (const char *newer = ""; newer && n-- > 0;) {
        newer = history_newer(h);
        if (n == 0 && newer && strcmp(newer, draft))
            return "the way back does not end with the draft";
    }
    h->back = 0;
    return NULL;
}

static const char *use_history(int size)
{
    const char *text = ANY(typed), *wrong = NULL;
    struct buf clean = {0};
    struct history *h = history_open(path, size);
    for (int i = 0; i < h->n; i++)
        if (!*h->entries[i] || !unicode_valid(h->entries[i], strlen(h->entries[i])))
            wrong = "an entry is empty or no UTF-8";
    if (h->n > size)
        wrong = "there are more entries than were asked for";
    if (h->n)
        wrong = wrong ? wrong : walk(h);
    const char *hit = history_search(h, "a", 0);
    if (hit && !strpbrk(hit, "aA"))
        wrong = "an entry was found that does not have the text";
    unicode_replace(&clean, text, strlen(text));
    const bool repeats = h->n && !strcmp(h->entries[h->n - 1], clean.data);   /* which is not written */
    for (int round = 0; round < 2 - repeats && !wrong; round++) {
        if (!round)
            history_add(h, text);
        if (!h->n || strcmp(h->entries[h->n - 1], clean.data))
            wrong = round ? "the newest entry is not in the file" : "the newest entry is not the last one";
        history_close(h);
        h = history_open(path, size);
    }
    history_close(h);
    buf_free(&clean);
    return wrong;
}

static void test_history__what_was_typed_last_comes_back_from_any_file(void **state)
{
    struct buf b = {0};
    struct long_run run;
    (void)state;
    for (run = long_run_begin(0, 500); next_input(&run);) {
        buf_reset(&b);
        buf_adds(&b, ANY(histories));
        mutate(&b, history_words, COUNT(history_words), ANY(histories));
        put("kept", &b);
        const char *wrong = use_history(1 + (int)rnd(6));
        if (wrong)
            fail_input(&run, wrong, buf_str(&b), b.len);
    }
    long_run_print(&run, run.n, "files");
    buf_free(&b);
}

/* ---- text that was not sent ---- */

static const char *const unsents[] = {
    "{\"draft\":\"half a sentence\",\"queue\":[\"one\",\"two\\nlines\"]}", "{\"draft\":\"\",\"queue\":[\"\xe6\x97\xa5\"]}",
    "{\"draft\":\"x\",\"queue\":[]}",
};
static const char *const unsent_words[] = {
    "\"draft\":", "\"queue\":", "[", "]", "{", "}", "null", "7", "\"\"", "\\u0000", "\\ud800", ",", "[[\"x\"]]",
};

static const char *same_unsent(const struct buf *draft, const struct queue *q, const struct buf *again, const struct queue *q_again)
{
    if (strcmp(buf_str(draft), buf_str(again)) || q->n != q_again->n)
        return "what was saved does not come back";
    for (int i = 0; i < q->n; i++)
        if (strcmp(q->texts[i], q_again->texts[i]))
            return "a message that was saved comes back changed";
    return NULL;
}

static const char *use_unsent(void)
{
    struct buf draft = {0}, again = {0};
    struct queue q = {0}, q_again = {0};
    const char *wrong = NULL;
    unsent_load(path, &draft, &q);
    if (draft.len != strlen(buf_str(&draft)) || !unicode_valid(buf_str(&draft), draft.len))
        wrong = "the draft is no text";
    for (int i = 0; i < q.n; i++)
        if (!unicode_valid(q.texts[i], strlen(q.texts[i])))
            wrong = "a message is no text";
    if (!unsent_save(path, buf_str(&draft), &q, false))
        wrong = "what was read cannot be written";
    unsent_load(path, &again, &q_again);
    wrong = wrong ? wrong : same_unsent(&draft, &q, &again, &q_again);
    buf_free(&draft);
    buf_free(&again);
    queue_free(&q);
    queue_free(&q_again);
    return wrong;
}

static void test_unsent__any_file_gives_text_that_is_kept_as_it_is(void **state)
{
    struct buf b = {0};
    struct long_run run;
    (void)state;
    for (run = long_run_begin(0, 1000); next_input(&run);) {
        buf_reset(&b);
        buf_adds(&b, ANY(unsents));
        mutate(&b, unsent_words, COUNT(unsent_words), ANY(unsents));
        put("kept.unsent", &b);
        const char *wrong = use_unsent();
        if (wrong)
            fail_input(&run, wrong, buf_str(&b), b.len);
    }
    long_run_print(&run, run.n, "files");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pricelist__a_line_that_is_kept_is_found_again_in_any_file),
        cmocka_unit_test(test_history__what_was_typed_last_comes_back_from_any_file),
        cmocka_unit_test(test_unsent__any_file_gives_text_that_is_kept_as_it_is),
    };
    return cmocka_run_group_tests_name("kept files fuzz", tests, make_dir, drop_dir);
}
