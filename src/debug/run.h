/* One debug command with its options, as the command line gave them. */
#ifndef Q35_DEBUG_RUN_H
#define Q35_DEBUG_RUN_H

#include <stdbool.h>
#include <stdio.h>

/* {0} is valid: NULL and 0 mean the command's own default. */
struct debug_options {
    const char *model_dir, *out_file, *backend, *kv, *head;
    int  n_threads, chunk, rows;
    bool step;
};

struct debug_command {
    const char *name;
    bool needs_model, needs_out;
    const char *help;
    int (*run)(const struct debug_options *o, FILE *in, FILE *out);
};

extern const struct debug_command debug_commands[];     /* ends with name NULL */

#endif
