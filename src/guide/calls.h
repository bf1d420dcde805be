/* Calls of tools in Qwen's XML form as terms. */
#pragma once

#include "guide/values.h"

#define CALLS_TAG "<tool_call>"
#define CALLS_FUNCTION "<function="

enum { CALLS_PARAMETERS = 7, CALLS_TOOLS = 2048 };      /* kind of the lazy terms; most tools: numbers of values are below it */

/* The members of struct grammar_calls. */
struct calls_options {
    struct text tools;
    const char *const *fields;
    const struct text *allowed;
    int  n_allowed;
    bool several, strict;
    struct buf *notes;
};

struct calls;
/* Stores the term of one call or several. */
struct calls *calls_new(struct terms *t, const struct calls_options *of, uint32_t *term, struct err *e);
void calls_free(struct calls *c);
uint32_t calls_expand(struct calls *c, int kind, uint32_t a, uint32_t b);
uint32_t calls_take(struct calls *c, uint32_t a, uint32_t b, struct text key);
/* The values whose lazy terms have that number (VALUES_BITS). */
struct values *calls_values(const struct calls *c, int number);
void calls_sweep(struct calls *c);                 /* values_sweep() for all */
size_t calls_bytes(const struct calls *c);
