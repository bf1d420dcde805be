/* One debug command with its options, as the command line gave them. */
#ifndef Q35_DEBUG_RUN_H
#define Q35_DEBUG_RUN_H

#include <stdbool.h>
#include <stdio.h>

/* {0} is valid: NULL and 0 mean the command's own default. */
struct debug_options {
    const char *model_dir, *out_file, *backend, *kv, *head, *mtp;
    int  n_threads, chunk, rows;
    bool step;
};

/* Each returns the exit status. */
int debug_run_tokenize(const struct debug_options *o, FILE *in, FILE *out);
int debug_run_render(const struct debug_options *o, FILE *in, FILE *out);
int debug_run_parse(const struct debug_options *o, FILE *in, FILE *out);
int debug_run_logits(const struct debug_options *o, FILE *in, FILE *out);
int debug_run_draft(const struct debug_options *o, FILE *in, FILE *out);
int debug_run_generate(const struct debug_options *o, FILE *in, FILE *out);

#endif
