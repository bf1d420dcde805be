/* Random terminal input: no crash, and what is told as text holds no orders, however the bytes are cut and timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/unicode.h"
#include "tests/fuzz/long_run.h"
#include "ui/tui/keys.h"

static uint64_t rnd_state = 1;
static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

static const char *const bits[] = {
    "\x1B[", "\x1B]", "\x1BP", "\x1BO", "\x1B", "\x1B[200~", "\x1B[201~", "\x1B[<", "\x1B[?", "\x1B[27;", "\x1B[M", "]11;rgb:", "/", ";", ":", "$",
    "~", "u", "R", "M", "c", "y",
    "\x1B\\", "\a", "\r", "\n", "\t", "\xC2\x9B", "\xC3", "\xA9", "\xF0\x9F", "\x99\x82", "\xFF", "57414", "99999999999", "65535", "27", "1", "2026",
    "[", "text ", "\x7F",
};

static void make(struct buf *b)
{
    buf_reset(b);
    for (uint32_t n = rnd(40); n; n--) {
        const char *bit = bits[rnd(sizeof bits / sizeof *bits)];
        if (rnd(4))
            buf_adds(b, bit);
        else
            buf_addc(b, (char)rnd(256));
    }
    if (rnd(100) == 0)
        for (uint32_t n = rnd(3000); n; n--)
            buf_addc(b, (char)('0' + rnd(12)));
}

static void check_event(void *arg, const struct key_event *ev)
{
    (void)arg;
    if (ev->kind == KEYS_KEY) {
        struct buf name = {0};
        uint32_t code = KEY_NONE;
        uint8_t mods = 0;
        keys_name(ev->code, ev->mods, &name);
        if (!keys_parse(buf_str(&name), &code, &mods) || code != ev->code || mods != ev->mods)
            fail_msg("key %x with %d is \"%s\", which is %x with %d", ev->code, ev->mods, buf_str(&name), code, mods);
        buf_free(&name);
    }
    if (ev->kind != KEYS_TEXT && ev->kind != KEYS_PASTE)
        return;
    assert_true(ev->n > 0);
    for (size_t i = 0; i < ev->n;) {
        uint32_t cp;
        bool ok;
        i += unicode_decode(ev->text + i, ev->n - i, &cp, &ok);
        assert_true(ok && !(cp >= 0x7F && cp < 0xA0));
        assert_true(cp >= 0x20 || (ev->kind == KEYS_PASTE && (cp == '\n' || cp == '\t')));
    }
}

static void test_keys__random_bytes_never_type_an_order(void **state)
{
    (void)state;
    struct buf b = {0};
    struct long_run run = long_run_begin(2, 1);
    rnd_state = long_run_seed(rnd_state);
    while (long_run_goes_on(&run)) {
        struct keys *k = keys_open();
        int64_t now = 0;
        for (uint32_t round = 1 + rnd(4); round; round--) {
            make(&b);
            for (size_t i = 0, n; i < b.len; i += n) {
                n = 1 + rnd(rnd(2) ? 3 : 100);
                n = n < b.len - i ? n : b.len - i;
                keys_feed(k, b.data + i, n, now, check_event, NULL);
                now += rnd(3) ? 0 : rnd(700);
                assert_true(keys_timeout(k, now) >= -1 && keys_timeout(k, now) <= 1000);
                if (rnd(2))
                    keys_tick(k, now, check_event, NULL);
            }
        }
        /* Whatever it was: after two seconds of silence a key is a key. */
        keys_tick(k, now + 2000, check_event, NULL);
        assert_int_equal(keys_timeout(k, now + 2000), -1);
        keys_close(k);
    }
    print_message("%ld inputs\n", run.n);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys__random_bytes_never_type_an_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
