/* `q35chat debug ...`: JSON lines in, JSON lines out, one answer per line, in order.  Each returns the exit status:
 * 0, or 1 if a line was bad (it was answered by {"error": "..."}) or the model could not be read (said on stderr). */
#ifndef Q35_DEBUG_DEBUG_H
#define Q35_DEBUG_DEBUG_H

#include <stdio.h>

int debug_tokenize(const char *model_dir, FILE *in, FILE *out);
int debug_render(const char *model_dir, FILE *in, FILE *out);
int debug_parse(FILE *in, FILE *out);
struct draft_options {
    const char *model_dir;
    const char *backend, *kv;           /* NULL: the best one, its first recipe */
    int  n_threads;
};
int debug_draft(const struct draft_options *o, FILE *in, FILE *out);
struct engine_options;
int debug_generate(const struct engine_options *o, FILE *in, FILE *out);        /* head or mtp NULL: as stored */

#endif
