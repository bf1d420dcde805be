/* Random numbers for fuzz tests, and random changes of valid inputs.  Each input has random numbers of its own, made of the run's seed and the
 * input's number, so that FUZZ_ONE=NUMBER repeats that input alone; failures show the number. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/memory.h"
#include "tests/fuzz/long_run.h"

static uint64_t rnd_state;

static inline uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rnd_state >> 32) * below >> 32);
}

static inline bool one_in(uint32_t n)
{
    return rnd(n) == 0;
}

#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof *(list)))
#define ANY(list) (list)[rnd(COUNT(list))]

/* The condition of a test's loop. */
static inline bool next_input(struct long_run *r)
{
    const long one = (long)long_run_number("FUZZ_ONE", 0);
    if (one ? r->n != 0 : !long_run_goes_on(r))
        return false;
    r->n = one ? one : r->n;
    rnd_state = long_run_seed(1) + (uint64_t)r->n * 0x9E3779B97F4A7C15u;
    rnd(2);
    return true;
}

/* Fails, and shows the input. */
static inline void fail_input(const struct long_run *r, const char *why, const char *input, size_t n)
{
    struct buf text = {0};
    for (size_t i = 0; i < n && i < 4000; i++)
        if ((unsigned char)input[i] < ' ' || (unsigned char)input[i] > '~' || input[i] == '\\')
            buf_addf(&text, "\\x%02x", (unsigned char)input[i]);
        else
            buf_addc(&text, input[i]);
    fail_msg("FUZZ_ONE=%ld: %s\nfrom: %s", r->n, why, buf_str(&text));
}

/* ---- changes ---- */

static const char *const extreme_numbers[] = {
    "0", "-1", "1", "2147483647", "2147483648", "-2147483649", "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "18446744073709551615", "18446744073709551616", "99999999999999999999999999", "1e308", "1e999", "-1e-999", "0.1",
    "1e5", "00", "-0", "0x10", "nan", "inf", "null", "true", "\"1\"", "[]", "{}",
};
static const char *const odd_bytes[] = {
    "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x99\x82", "\xed\xa0\x80", "\xc0\xaf", "\xc2\x9b", "\xe2\x80\xae", "\xef\xbb\xbf", "\x1b[2J",
    "\x1b]52;c;x\a",
    "\r", "\n", "\r\n", "\t", " ", "\x7f", "\\u0000", "\\ud800", "\\\"", "\"", "'", "\\", "/", "../", "%", "%s", "{", "}", "[", "]", ",", ":", ";",
    "=", "<",
    ">",
};

/* Puts other bytes in the place of n bytes at `at`. */
static inline void replace_bytes(struct buf *b, size_t at, size_t n, const char *with, size_t k)
{
    struct buf out = {0};
    buf_add(&out, buf_str(b), at);
    buf_add(&out, with, k);
    buf_add(&out, buf_str(b) + at + n, b->len - at - n);
    buf_free(b);
    *b = out;
}

static inline size_t number_at(const struct buf *b, size_t at)
{
    size_t n = 0;
    while (at + n < b->len && strchr("0123456789.eE+-", b->data[at + n]) && b->data[at + n])
        n++;
    return n;
}

/* Replaces one of the numbers, if there are any. */
static inline void change_number(struct buf *b)
{
    const size_t from = rnd((uint32_t)b->len);
    for (size_t k = 0; k < b->len; k++) {
        const size_t at = (from + k) % b->len;
        const char before = at ? b->data[at - 1] : ' ';
        if (b->data[at] < '0' || b->data[at] > '9' || (before >= '0' && before <= '9'))
            continue;
        const char *with = ANY(extreme_numbers);
        replace_bytes(b, at, number_at(b, at), with, strlen(with));
        return;
    }
}

static inline void nest(struct buf *b, size_t at)
{
    static const char *const openings[] = {"[", "{\"a\":", "(", "[[\"", "{"};
    const char *opening = ANY(openings);
    struct buf deep = {0};
    for (uint32_t n = one_in(20) ? 3000 : 1 + rnd(40); n; n--)
        buf_adds(&deep, opening);
    replace_bytes(b, at, 0, deep.data, deep.len);
    buf_free(&deep);
}

/* Changes the bytes in one way.  `words`: pieces that mean something to the parser; `other`: another valid input, to splice. */
static inline void mutate_once(struct buf *b, const char *const *words, uint32_t n_words, const char *other)
{
    const size_t at = rnd((uint32_t)b->len), most = b->len - at, n = rnd(one_in(4) ? (uint32_t)most + 1 : most < 8 ? (uint32_t)most + 1 : 8);
    const char *word = n_words && rnd(3) ? words[rnd(n_words)] : ANY(odd_bytes);
    struct buf part = {0};
    switch (rnd(10)) {
    case 0:
        b->data[at] ^= (char)(1 << rnd(8));
        break;
    case 1:
        b->data[at] = (char)rnd(256);
        break;
    case 2:
        b->len = at;
        b->data[at] = 0;
        break;
    case 3:
        replace_bytes(b, at, n, "", 0);
        break;
    case 4:
        for (uint32_t k = one_in(10) ? 200 : 1 + rnd(3); k && part.len < 4096; k--)
            buf_add(&part, b->data + at, n);
        replace_bytes(b, at, 0, buf_str(&part), part.len);
        break;
    case 5:
    case 6:
        replace_bytes(b, at, one_in(2) ? n : 0, word, strlen(word));
        break;
    case 7:
        change_number(b);
        break;
    case 8:
        if (one_in(4))
            nest(b, at);
        else
            change_number(b);
        break;
    default:
        other += rnd((uint32_t)strlen(other) + 1);
        replace_bytes(b, at, most, other, strlen(other));
        break;
    }
    buf_free(&part);
}

/* Changes it in one to three ways; some inputs stay as they are.  `other` may be the input itself. */
static inline void mutate(struct buf *b, const char *const *words, uint32_t n_words, const char *other)
{
    char *kept = memory_strdup(other);
    for (uint32_t n = rnd(8) ? 1 + rnd(3) : 0; n && b->len; n--)
        mutate_once(b, words, n_words, kept);
    free(kept);
}
