/* The only writer of JSON that the program prints.  Its output is safe on a terminal, and the same bytes in a pipe: control characters, characters
 * that change the order of a line and invisible ones are written as \uXXXX, which every JSON reader decodes to the same value. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

struct json_t;

/* Appends j.  `flags` are jansson's, for json_dumps(). */
void json_print(struct buf *out, const struct json_t *j, size_t flags);
/* Appends s as a JSON string; bytes that are not UTF-8 become U+FFFD. */
void json_quote(struct buf *out, const char *s, size_t n);
/* Appends a piece of JSON text, made safe; it must not end inside a character. */
void json_escape(struct buf *out, const char *json, size_t n);
/* Returns s as a JSON string for a document; bytes that are not UTF-8 become U+FFFD.  The caller owns it. */
struct json_t *json_text(const char *s, size_t n);
struct json_t *json_text_of(const char *s);             /* the same for a C string */
