/* The loop that all debug commands share: JSON lines in, JSON lines out. */
#ifndef Q35_DEBUG_LINES_H
#define Q35_DEBUG_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

/* Answers one line, given without its newline, by appending one JSON value (no newline) to `out`.
 * False with the reason: what was appended is dropped and {"error": reason} written instead. */
typedef bool debug_line_fn(const char *line, size_t n, struct buf *out, void *arg, struct err *e);

/* One output line per input line, of any length, flushed each.  Returns 0, or 1 if a line failed or `out` did. */
int debug_lines(FILE *in, FILE *out, debug_line_fn *fn, void *arg);

/* debug_lines() with the tokenizer of a directory as `arg`, after a word about what is odd in it.  1 too if it cannot be read. */
int debug_lines_with_tokenizer(const char *model_dir, FILE *in, FILE *out, debug_line_fn *fn);

/* Appends "key": [1, 2]. */
void debug_list(struct buf *out, const char *key, const int32_t *x, int n);

#endif
