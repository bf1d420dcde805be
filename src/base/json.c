#include "base/json.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/unicode.h"

/* True for characters that are written as \\uXXXX.  Joiners are part of words and of emoji, and stay. */
static bool is_odd(uint32_t cp)
{
    enum unicode_kind kind = cp < 0x7F ? UNICODE_ALONE : unicode_kind(cp);
    return kind == UNICODE_CONTROL || (kind == UNICODE_FORMAT && cp != 0x200C && cp != 0x200D) || (cp & 0xFFFE) == 0xFFFE ||
           (cp >= 0xFDD0 && cp <= 0xFDEF);
}

static void add_escaped(struct buf *out, uint32_t cp)
{
    if (cp < 0x10000)
        buf_addf(out, "\\u%04x", cp);
    else
        buf_addf(out, "\\u%04x\\u%04x", 0xD7C0 + (cp >> 10), 0xDC00 + (cp & 0x3FF));
}

void json_escape(struct buf *out, const char *json, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t k = utf8_decode(json + i, n - i, &cp, NULL);
        if (is_odd(cp)) {
            buf_add(out, json + from, i - from);
            add_escaped(out, cp);
            from = i + k;
        }
        i += k;
    }
    buf_add(out, json + from, n - from);
}

static int add_piece(const char *piece, size_t n, void *out)
{
    buf_add(out, piece, n);
    return 0;
}

void json_print(struct buf *out, const struct json_t *j, size_t flags)
{
    struct buf text = {0};
    CHECK(!json_dump_callback(j, add_piece, &text, flags));
    json_escape(out, buf_str(&text), text.len);
    buf_free(&text);
}

struct json_t *json_text(const char *s, size_t n)
{
    struct buf valid = {0};
    unicode_replace(&valid, s, n);
    json_t *j = memory_got(json_stringn_nocheck(buf_str(&valid), valid.len));
    buf_free(&valid);
    return j;
}

struct json_t *json_text_of(const char *s)
{
    return json_text(s, strlen(s));
}

void json_quote(struct buf *out, const char *s, size_t n)
{
    json_t *j = json_text(s, n);
    json_print(out, j, JSON_ENCODE_ANY);
    json_decref(j);
}
