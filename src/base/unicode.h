/* Unicode's tables: NFC, classes, widths, graphemes, text made safe for a terminal.  The only user of utf8proc.
 * Ill-formed UTF-8 is read as utf8_decode() reads it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/utf8.h"

#define UNICODE_REPLACEMENT UTF8_REPLACEMENT
#define unicode_decode utf8_decode
#define unicode_encode utf8_encode
#define unicode_valid utf8_valid
#define unicode_complete utf8_complete
#define unicode_plain utf8_plain

/* Appends s with ill-formed parts replaced. */
void unicode_replace(struct buf *out, const char *s, size_t n);

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
