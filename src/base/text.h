/* A range of UTF-8 that someone else owns, and the functions to compare, search and trim it.  White space is that of Python's
 * str.strip(), because the chat template uses it: Unicode's, and U+001C to U+001F. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text { const char *p; size_t n; };       /* may hold NUL bytes; {0} is empty */

struct text text_of(const char *s);                             /* a C string */
bool        text_is(struct text t, const char *s);
bool        text_same(struct text a, struct text b);
bool        text_starts(struct text t, const char *s);
bool        text_ends(struct text t, const char *s);
bool        text_listed(const char *list, struct text word);    /* true for one of the words between commas or blanks */
const char *text_find(struct text t, const char *s);            /* first occurrence, or NULL */
/* True if a tool or a parameter can have this name: it comes back from the tags of a call as it is (text/stream.h). */
bool        text_is_tag_name(struct text t);
#define TEXT_TAG_NAME "a name has no <, > or control characters, and no blanks or quotes at its ends"
struct text text_trim(struct text t);                           /* without white space at both ends */
struct text text_ltrim_char(struct text t, char c);
struct text text_rtrim_char(struct text t, char c);

bool        text_space(uint32_t cp);
