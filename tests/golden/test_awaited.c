/* A large picture is decoded and resized by threads beside the one that draws: no call of that one takes long, from the first key to the answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "chat/chat.h"
#include "image/image.h"
#include "responder/local.h"
#include "tests/tmpdir.h"

enum { MOST_MS = 50, WIDE = 5200, HIGH = 4100 };
static struct options *o;
static struct chat *c;
static struct tmpdir home;
static struct buf message, said;
static enum end end;
static int n_ended, n_ahead;
static double longest_ms;

/* Times of the thread itself: other programs may take its processor away for longer. */
static double thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void took(double before)
{
    const double ms = thread_ms() - before;
    longest_ms = ms > longest_ms ? ms : longest_ms;
}

/* One round of a front end. */
static void turn_around(void)
{
    int n;
    chat_wait(c, -1, 100);
    const double before = thread_ms();
    const struct chat_event *ev = chat_drain(c, &n);
    took(before);
    for (int i = 0; i < n; i++) {
        if (ev[i].kind == CHAT_FATAL)
            fail_msg("%s", ev[i].text);
        if (ev[i].kind == CHAT_DONE) {
            end = ev[i].end;
            n_ended++;
            n_ahead = ev[i].stats.n_ahead;
            buf_reset(&said);
            buf_adds(&said, ev[i].text);
        }
    }
}

static void set(enum option_id id, const char *text)
{
    struct err e = {0};
    if (!options_set(o, id, text, FROM_COMMAND_LINE, &e))
        fail_msg("%s", e.msg);
}

/* Writes a picture that takes a while, whose colours depend on `kind`. */
static void write_picture(const char *name, int kind)
{
    struct image im = {.w = WIDE, .h = HIGH, .rgb = malloc((size_t)WIDE * HIGH * 3)};
    struct buf file = {0}, path = {0};
    struct err e = {0};
    for (size_t i = 0; i < (size_t)WIDE * HIGH * 3; i++)
        im.rgb[i] = (uint8_t)((i / 3 % WIDE + i / 3 / WIDE) / 32 * (unsigned)(kind + i % 3));
    assert_true(image_write_png(&im, &file, &e));
    buf_addf(&path, "%s/%s", home.path, name);
    FILE *f = fopen(path.data, "w");
    assert_true(f && fwrite(file.data, 1, file.len, f) == file.len && !fclose(f));
    buf_reset(&message);
    buf_addf(&message, "@%s/%s Take your time, look at all of it, and then tell me in words that a child knows: What is this?", home.path, name);
    buf_free(&path);
    buf_free(&file);
    image_free(&im);
}

static int open_chat(void **state)
{
    (void)state;
    static const struct chat_front front = {.tools = "none", .screen = true, .attaches = true, .reads_ahead = true};
    struct err e = {0};
    o = options_open();
    assert_true(tmpdir_make(&home));
    set(OPT_model, "tests/data/vision/v0");
    set(OPT_backend, "cpu");
    set(OPT_threads, "1");
    set(OPT_max_tokens, "4");
    set(OPT_think, "off");
    c = chat_open(local_open(o, &e), o, &front, &e);
    if (!c)
        print_error("%s\n", e.msg);
    while (c && !chat_ready(c))
        turn_around();
    longest_ms = 0;
    return !c;
}

static int close_chat(void **state)
{
    (void)state;
    chat_close(c);
    options_close(o);
    tmpdir_remove(&home);
    buf_free(&message);
    buf_free(&said);
    return 0;
}

static bool awaits(void)
{
    const double before = thread_ms();
    const bool is = chat_awaits_files(c, message.data, message.len);
    took(before);
    return is;
}

static void submit(void)
{
    struct err e = {0};
    const double before = thread_ms();
    if (!chat_submit(c, message.data, message.len, &e))
        fail_msg("%s", e.msg);
    took(before);
}

static void assert_short(void)
{
    printf("the longest call took %.1f ms\n", longest_ms);
    assert_true(longest_ms < MOST_MS);
}

static void test_awaited__a_large_picture_is_read_while_the_user_types(void **state)
{
    (void)state;
    write_picture("one.png", 1);
    const double before = thread_ms();
    chat_draft(c, message.data, message.len - strlen("this?"));
    took(before);
    assert_true(awaits());                      /* it has begun, and takes longer than this */
    assert_false(chat_submit(c, message.data, message.len, &(struct err){{0}}));
    for (int i = 0; i < 600 && awaits(); i++)
        turn_around();
    assert_false(awaits());
    for (int i = 0, calm = 0; i < 600 && calm < 10; i++) {      /* the tower reads it, until nothing computes for a second */
        const clock_t used = clock();
        turn_around();
        calm = clock() - used < CLOCKS_PER_SEC / 200 ? calm + 1 : 0;
    }
    submit();
    for (int i = 0; i < 600 && !n_ended; i++)
        turn_around();
    assert_int_equal(end, END_LENGTH);
    const struct chat_file f = chat_file(c, 0, 0);
    assert_true(f.w == WIDE && f.h == HIGH && n_ahead >= f.tokens);
    assert_short();
}

static void test_awaited__an_interrupt_ends_a_request_whose_picture_is_not_decoded_yet(void **state)
{
    (void)state;
    write_picture("two.png", 2);
    for (int i = 0; i < 600 && awaits(); i++)
        turn_around();
    n_ended = 0;
    submit();
    assert_true(chat_busy(c));
    chat_interrupt(c);
    for (int i = 0; i < 100 && !n_ended; i++)
        turn_around();
    assert_int_equal(n_ended, 1);
    assert_int_equal(end, END_INTERRUPTED);
    assert_short();
}

static void test_awaited__a_damaged_file_is_one_sentence_when_it_is_sent(void **state)
{
    struct err e = {0};
    (void)state;
    write_picture("three.png", 3);
    struct buf path = {0};
    buf_addf(&path, "%s/three.png", home.path);
    assert_int_equal(truncate(path.data, 20000), 0);
    for (int i = 0; i < 600 && awaits(); i++)
        turn_around();
    assert_false(chat_submit(c, message.data, message.len, &e));
    assert_non_null(strstr(e.msg, "three.png is a damaged PNG file: it ends too early; not sent"));
    buf_free(&path);
    assert_short();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_awaited__a_large_picture_is_read_while_the_user_types),
        cmocka_unit_test(test_awaited__an_interrupt_ends_a_request_whose_picture_is_not_decoded_yet),
        cmocka_unit_test(test_awaited__a_damaged_file_is_one_sentence_when_it_is_sent),
    };
    return cmocka_run_group_tests_name("awaited", tests, open_chat, close_chat);
}
