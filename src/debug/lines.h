/* The loop that all debug commands share: JSON lines in, JSON lines out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"

/* Answers one line, which has no newline, by appending one JSON value (no newline) to `out`.
 * False with the reason: the appended text is dropped and {"error": reason} written instead. */
typedef bool debug_line_fn(const char *line, size_t n, struct buf *out, void *arg, struct err *e);

/* Answers each line of `in`, of any length, with one line, which is flushed.  Returns 0, or 1 if a line failed or `out` did. */
int debug_lines(FILE *in, FILE *out, debug_line_fn *fn, void *arg);

/* Appends "key": [1, 2]. */
void debug_list(struct buf *out, const char *key, const int32_t *x, int n);

/* A line with token ids. */
struct debug_request {
    struct ids ids;                     /* at least one, within the vocabulary */
    struct ids stop;                    /* may be empty */
    int max_tokens, draft, depth;       /* -1 when not given */
    char **images;                      /* [n_images] paths; may be none */
    int n_images;
};

/* Reads a line; other keys are ignored.  *q must be freed either way. */
bool debug_request_read(struct debug_request *q, const char *line, size_t n, int vocab, struct err *e);
void debug_request_free(struct debug_request *q);
