#include "base/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <utf8proc.h>

#include "base/err.h"
#include "base/memory.h"

void unicode_replace(struct buf *out, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        bool ok;
        size_t k = utf8_decode(s + i, n - i, &cp, &ok);
        if (!ok) {
            buf_add(out, s + from, i - from);
            buf_adds(out, "\xEF\xBF\xBD");
            from = i + k;
        }
        i += k;
    }
    buf_add(out, s + from, n - from);
}

enum unicode_class unicode_class(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return UNICODE_LETTER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return UNICODE_MARK;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return UNICODE_NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return UNICODE_SPACE;
    case UTF8PROC_CATEGORY_CC:
        return (cp >= '\t' && cp <= '\r') || cp == 0x85 ? UNICODE_SPACE : UNICODE_OTHER;
    default:
        return UNICODE_OTHER;
    }
}

enum unicode_kind unicode_kind(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
        return UNICODE_OVER;
    case UTF8PROC_CATEGORY_MC:
        return UNICODE_BEHIND;
    case UTF8PROC_CATEGORY_CF:
        return UNICODE_FORMAT;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return UNICODE_CONTROL;
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CS:
        return UNICODE_UNASSIGNED;
    default:
        return UNICODE_ALONE;
    }
}

/* True if NFC does not change the character, and it cannot change or join a neighbour.  Any character that composes with the character before
 * it is a mark, a Hangul vowel or final, or a vowel sign of Kirat Rai (Unicode 16). */
static bool inert(uint32_t cp)
{
    if (cp < 0x300)
        return true;
    if ((cp >= 0x1160 && cp <= 0x11FF) || (cp >= 0x16D40 && cp <= 0x16D7F) || unicode_class(cp) == UNICODE_MARK)
        return false;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    return p->decomp_type != 0 || p->decomp_seqindex == UINT16_MAX;     /* only canonical decompositions concern NFC */
}

bool unicode_nfc_quick(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        if (!(s[i] & 0x80)) {
            i++;
            continue;
        }
        uint32_t cp;
        bool ok;
        i += utf8_decode(s + i, n - i, &cp, &ok);
        if (!ok || !inert(cp))
            return false;
    }
    return true;
}

static int ccc(int32_t cp)
{
    return cp < 0x300 ? 0 : utf8proc_get_property(cp)->combining_class;
}

/* Sorts one run of marks by combining class, stably.  Counting sort, because a hostile text may have a run of megabytes. */
static void sort_marks(int32_t *cp, size_t n, int32_t *tmp)
{
    size_t at[257] = {0};
    for (size_t i = 0; i < n; i++)
        at[ccc(cp[i]) + 1]++;
    for (int c = 0; c < 256; c++)
        at[c + 1] += at[c];
    for (size_t i = 0; i < n; i++)
        tmp[at[ccc(cp[i])]++] = cp[i];
    memcpy(cp, tmp, n * sizeof *cp);
}

/* Puts combining marks that follow each other into canonical order; `tmp` has room for n code points. */
static void order_marks(int32_t *cp, size_t n, int32_t *tmp)
{
    for (size_t i = 0; i < n;) {
        size_t from = i;
        int last = 0, c;
        bool sorted = true;
        for (; i < n && (c = ccc(cp[i])) != 0; i++) {
            sorted = sorted && c >= last;
            last = c;
        }
        if (!sorted)
            sort_marks(cp + from, i - from, tmp);
        if (i == from)
            i++;
    }
}

/* Appends the NFC of s, which holds whole characters and, unless it ends the text, is followed by an inert character. */
static void nfc_part(struct buf *out, const char *s, size_t n)
{
    /* Canonical decompositions are at most 3 code points for 2 bytes, 4 for 3 or 4 bytes. */
    size_t cap = 2 * n + 4, m = 0;
    int32_t *cp = memory_alloc(2 * cap * sizeof *cp);
    for (size_t i = 0; i < n;) {
        uint32_t c;
        int boundary = 0;
        i += utf8_decode(s + i, n - i, &c, NULL);
        utf8proc_ssize_t k = utf8proc_decompose_char((utf8proc_int32_t)c, cp + m, (utf8proc_ssize_t)(cap - m),
                                                     UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
        CHECK(k > 0 && m + (size_t)k <= cap);
        m += (size_t)k;
    }
    order_marks(cp, m, cp + cap);
    utf8proc_ssize_t k = utf8proc_normalize_utf32(cp, (utf8proc_ssize_t)m, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    CHECK(k >= 0);
    for (utf8proc_ssize_t i = 0; i < k; i++) {
        char utf8[4];
        buf_add(out, utf8, utf8_encode((uint32_t)cp[i], utf8));
    }
    free(cp);
}

/* Long texts are normalised in parts of about this many bytes, cut before inert characters. */
#define NFC_PART 65536

void unicode_nfc(struct buf *out, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t k = utf8_decode(s + i, n - i, &cp, NULL);
        if (i - from >= NFC_PART && inert(cp)) {
            nfc_part(out, s + from, i - from);
            from = i;
        }
        i += k;
    }
    nfc_part(out, s + from, n - from);
}

uint32_t unicode_lower(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 'A' && cp <= 'Z' ? cp + 'a' - 'A' : cp;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

/* curses uses libc's table, which covers Unicode only in UTF-8 locales (MB_CUR_MAX of 4 or more).  In other locales only ASCII
 * is drawn, and utf8proc's table is used; it has no marks that take a column. */
int unicode_width(uint32_t cp)
{
    if (MB_CUR_MAX < 4)
        return unicode_kind(cp) == UNICODE_BEHIND ? 1 : utf8proc_charwidth((utf8proc_int32_t)cp);
    int w = wcwidth((wchar_t)cp);
    return w > 2 ? 2 : w;
}

size_t unicode_grapheme(const char *s, size_t n, int *width)
{
    uint32_t prev, cp;
    utf8proc_int32_t state = 0;
    size_t i = utf8_decode(s, n, &prev, NULL);
    int w = unicode_width(prev);
    w = w < 0 ? 0 : w;
    while (i < n) {
        size_t k = utf8_decode(s + i, n - i, &cp, NULL);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)prev, (utf8proc_int32_t)cp, &state))
            break;
        /* A flag is two regional indicators; U+FE0F selects the wide emoji form of a narrow character. */
        if ((cp >= 0x1F1E6 && cp <= 0x1F1FF) || (cp == 0xFE0F && w == 1))
            w = 2;
        else if (unicode_width(cp) > w)
            w = unicode_width(cp);
        prev = cp;
        i += k;
    }
    if (width)
        *width = w;
    return i;
}

void unicode_safe(struct buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t k = utf8_decode(s + i, n - i, &cp, NULL);
        char utf8[4];
        if (cp < 0x20 && cp != '\n' && cp != '\t')
            buf_add(out, utf8, utf8_encode(0x2400 + cp, utf8));
        else if (cp == 0x7F)
            buf_adds(out, "\xE2\x90\xA1");
        else if ((cp >= 0x80 && cp < 0xA0) || utf8_is_bidi_control(cp))
            buf_addf(out, "<U+%04X>", cp);
        else
            buf_add(out, utf8, utf8_encode(cp, utf8));
        i += k;
    }
}
