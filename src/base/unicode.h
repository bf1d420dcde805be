/* UTF-8 and Unicode: decode, NFC, classes, widths, graphemes, text made safe for a terminal.  The only user of utf8proc.
 * Invalid UTF-8 is decoded as U+FFFD, one per maximal ill-formed part, as CPython's errors="replace" does. */
#ifndef Q35_BASE_UNICODE_H
#define Q35_BASE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define UNICODE_REPLACEMENT 0xFFFDu

/* Decodes the first code point of s[0..n), n > 0, and returns its length in bytes.  *ok (may be NULL) is false if the bytes are
 * ill-formed and cp is U+FFFD. */
size_t unicode_decode(const char *s, size_t n, uint32_t *cp, bool *ok);
/* cp as UTF-8 in out[0..4); returns the length. */
size_t unicode_encode(uint32_t cp, char out[4]);
bool   unicode_valid(const char *s, size_t n);
/* Length of the longest prefix that does not end inside a character that more bytes could complete: n, n-1, n-2 or n-3. */
size_t unicode_complete(const char *s, size_t n);
/* Appends s with ill-formed parts replaced. */
void   unicode_replace(struct buf *out, const char *s, size_t n);

/* True only if s is well-formed and in NFC.  False does not mean that it is not. */
bool unicode_nfc_quick(const char *s, size_t n);
/* Appends the NFC of s, ill-formed parts replaced first. */
void unicode_nfc(struct buf *out, const char *s, size_t n);

/* By general category, except UNICODE_SPACE: the property White_Space.  The classes do not overlap. */
enum unicode_class { UNICODE_OTHER, UNICODE_LETTER, UNICODE_MARK, UNICODE_NUMBER, UNICODE_SPACE };
enum unicode_class unicode_class(uint32_t cp);

/* How a character is placed in a line: ALONE in its own columns; OVER the previous character (marks without width); BEHIND it
 * (marks with width); FORMAT: not drawn; CONTROL: control characters and line separators; UNASSIGNED: not in Unicode yet. */
enum unicode_kind { UNICODE_ALONE, UNICODE_OVER, UNICODE_BEHIND, UNICODE_FORMAT, UNICODE_CONTROL, UNICODE_UNASSIGNED };
enum unicode_kind unicode_kind(uint32_t cp);

/* The lower case letter of a capital one, else cp itself. */
uint32_t unicode_lower(uint32_t cp);

/* Columns on a terminal as libc, and therefore curses, counts them: 0, 1 or 2; -1: libc does not know it as printable.  Every width
 * of a character in this program comes from here. */
int unicode_width(uint32_t cp);
/* Length in bytes of the first grapheme cluster of s[0..n), n > 0; its columns go to *width (may be NULL). */
size_t unicode_grapheme(const char *s, size_t n, int *width);

/* Appends s without control characters: C0 controls but \n and \t become their pictures (ESC is U+241B),
 * DEL is U+2421, C1 controls and the bidirectional controls become <U+009B>; ill-formed parts are replaced. */
void unicode_safe(struct buf *out, const char *s, size_t n);
/* The same in place, for a line: each control (C0, DEL, C1, bidirectional) and each ill-formed part becomes `instead`; an
 * incomplete character at the end is dropped.  Returns the new length, at most n; no NUL is added. */
size_t unicode_plain(char *s, size_t n, char instead);

#endif
