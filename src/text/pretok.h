/* The family's split pattern as a scanner.  It finds the ends of words, which byte-pair merging must not cross.
 *
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+ | \p{N} | ?[^\s\p{L}\p{M}\p{N}]+[\r\n]* | \s*[\r\n]+
 *   | \s+(?!\S) | \s+        (blanks around the bars are for reading; the one before the question mark of the fourth is real)
 *
 * Every character belongs to exactly one word; the end of a word depends only on the text after its start. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Length in bytes of the first word of s[0..n), n > 0. */
size_t pretok_next(const char *s, size_t n);

/* The pattern of a tokenizer.json. */
enum pretok_pattern {
    PRETOK_FAMILY,      /* the one above or an equivalent spelling */
    PRETOK_RESAVED,     /* Qwen2's, without \p{M}; some programs replace the family's pattern by it when they save */
    PRETOK_UNKNOWN,
};
enum pretok_pattern pretok_check(const char *pattern);
