/* The tools that are part of the program: they read nothing but the clock and change nothing. */
#ifndef Q35_TOOL_BUILTIN_H
#define Q35_TOOL_BUILTIN_H

#include <stddef.h>

#include "base/buf.h"

enum { N_BUILTINS = 2 };

/* Appends what the model is told; a bad argument is told too. */
typedef void builtin_fn(const char *arguments, size_t n, struct buf *out);

extern const struct builtin {
    const char *name;
    const char *schema;         /* as the template prints it; the bundled model was trained on exactly these */
    builtin_fn *fn;
} builtins[N_BUILTINS];

#endif
