/* UTF-8 without tables: decode, encode, check, make safe.  Uses nothing else of the program.
 * Ill-formed bytes are decoded as U+FFFD, one per maximal ill-formed part, as CPython's errors="replace" does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT 0xFFFDu

/* Decodes the first code point of s[0..n), n > 0, and returns its length in bytes.  *ok (may be NULL) is false if the bytes are
 * ill-formed and cp is U+FFFD. */
size_t utf8_decode(const char *s, size_t n, uint32_t *cp, bool *ok);
/* Writes cp to out[0..4); returns the length, 0 for a number above U+10FFFF. */
size_t utf8_encode(uint32_t cp, char out[4]);
bool   utf8_valid(const char *s, size_t n);
/* Length of the longest prefix that does not end inside a character that more bytes could complete: n, n-1, n-2 or n-3. */
size_t utf8_complete(const char *s, size_t n);
/* True for the characters that change the order of a line: marks, embeddings, overrides and isolates of directions. */
bool   utf8_is_bidi_control(uint32_t cp);
/* Makes a line safe for a terminal, in place: each control (C0, DEL, C1, bidirectional) and each ill-formed part becomes `instead`; an
 * incomplete character at the end is dropped.  Returns the new length, at most n; no NUL is added. */
size_t utf8_plain(char *s, size_t n, char instead);
