#include "text/pretok.h"

#include <stdint.h>
#include <string.h>

#include "base/unicode.h"

#define NEWLINE (UNICODE_SPACE + 1)         /* \r and \n, which have their own rules */

/* Classes of ASCII characters, so that English text does not use the Unicode tables. */
#define O UNICODE_OTHER
#define L UNICODE_LETTER
#define N UNICODE_NUMBER
#define S UNICODE_SPACE
static const uint8_t ascii[128] = {
    O, O, O, O, O, O, O, O, O, S, NEWLINE, S, S, NEWLINE, O, O,
    O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,
    N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,
    L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,
    L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,
};
#undef O
#undef L
#undef N
#undef S

/* Returns the class of the character at s[i], -1 at the end; its length goes to *k. */
static inline int class_at(const char *s, size_t n, size_t i, size_t *k)
{
    *k = 1;
    if (i >= n)
        return -1;
    unsigned char b = (unsigned char)s[i];
    if (b < 0x80)
        return ascii[b];
    uint32_t cp;
    *k = unicode_decode(s + i, n - i, &cp, NULL);
    return (int)unicode_class(cp);
}

/* Returns the end of the run of letters and marks that starts at i. */
static size_t letters(const char *s, size_t n, size_t i)
{
    size_t k;
    for (int c; (c = class_at(s, n, i, &k)) == UNICODE_LETTER || c == UNICODE_MARK;)
        i += k;
    return i;
}

/* Returns the end of the match of the fourth alternative from i, where s[i] is neither space, letter, mark nor number. */
static size_t punctuation(const char *s, size_t n, size_t i)
{
    size_t k;
    while (class_at(s, n, i, &k) == UNICODE_OTHER)
        i += k;
    while (i < n && (s[i] == '\r' || s[i] == '\n'))
        i++;
    return i;
}

/* Returns the length of 's 't 're 've 'm 'll 'd in any case, or 0.  U+017F, the long s, folds to s. */
static size_t contraction(const char *s, size_t n)
{
    if (n < 2)
        return 0;
    char a = (char)(s[1] | 0x20), b = n > 2 ? (char)(s[2] | 0x20) : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
        return 3;
    return n > 2 && !memcmp(s + 1, "\xC5\xBF", 2) ? 3 : 0;
}

/* Returns the end of a run of white space: up to its last line end if it has one; at the end of the text all of it; otherwise all but its last
 * character, which may belong to the next word. */
static size_t blanks(const char *s, size_t n)
{
    size_t i = 0, last = 0, line_end = 0, k;
    for (int c; (c = class_at(s, n, i, &k)) >= UNICODE_SPACE; i += k) {
        last = i;
        if (c == NEWLINE)
            line_end = i + 1;
    }
    if (line_end)
        return line_end;
    return i < n && last ? last : i;
}

size_t pretok_next(const char *s, size_t n)
{
    size_t k, k2;
    int c = class_at(s, n, 0, &k);
    if (c == UNICODE_LETTER || c == UNICODE_MARK)
        return letters(s, n, k);
    if (c == UNICODE_NUMBER)
        return k;
    if (*s == '\'') {
        size_t m = contraction(s, n);
        if (m)
            return m;
    }
    if (c == NEWLINE)
        return blanks(s, n);
    int next = class_at(s, n, k, &k2);
    if (next == UNICODE_LETTER || next == UNICODE_MARK)
        return letters(s, n, k + k2);
    if (c == UNICODE_OTHER)
        return punctuation(s, n, k);
    if (*s == ' ' && next == UNICODE_OTHER)
        return punctuation(s, n, k + k2);
    return blanks(s, n);
}

enum pretok_pattern pretok_check(const char *pattern)
{
    static const char tail[] = "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    static const char *const heads[] = {
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])",
    };
    static const struct { const char *words; enum pretok_pattern is; } bodies[] = {
        { "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*", PRETOK_FAMILY },
        { "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*", PRETOK_RESAVED },
    };
    for (size_t h = 0; h < sizeof heads / sizeof *heads; h++) {
        size_t n = strlen(heads[h]);
        if (strncmp(pattern, heads[h], n))
            continue;
        for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) {
            size_t m = strlen(bodies[b].words);
            if (!strncmp(pattern + n, bodies[b].words, m) && !strcmp(pattern + n + m, tail))
                return bodies[b].is;
        }
    }
    return PRETOK_UNKNOWN;
}
