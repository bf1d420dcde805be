/* The family's split pattern as a scanner: where the words end that byte-pair merging may not cross.
 *
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+ | \p{N} | ?[^\s\p{L}\p{M}\p{N}]+[\r\n]* | \s*[\r\n]+
 *   | \s+(?!\S) | \s+        (blanks around the bars are ours, but for the one in front of the fourth's question mark)
 *
 * Every character belongs to exactly one word, and a word's end depends only on what follows its start. */
#ifndef Q35_TEXT_PRETOK_H
#define Q35_TEXT_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

/* Length in bytes of the first word of s[0..n), n > 0. */
size_t pretok_next(const char *s, size_t n);

/* What to think of the pattern that a tokenizer.json carries. */
enum pretok_pattern {
    PRETOK_FAMILY,      /* the one above, or another spelling of it */
    PRETOK_RESAVED,     /* Qwen2's, without \p{M}: newer programs write it over the family's */
    PRETOK_UNKNOWN,
};
enum pretok_pattern pretok_check(const char *pattern);

#endif
