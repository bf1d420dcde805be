/* `q35chat debug logits`: {"ids": [...]} lines -> logits.<line> and hidden.<line> in one safetensors file. */
#ifndef Q35_DEBUG_LOGITS_H
#define Q35_DEBUG_LOGITS_H

#include <stdbool.h>
#include <stdio.h>

struct logits_options {
    const char *model_dir;
    const char *out_file;
    const char *backend, *kv, *head;    /* NULL: the best one, its first recipe, bf16 */
    int  n_threads;
    int  chunk;                         /* prompt rows a call; 0: what the device does by itself */
    bool step;                          /* through decode steps */
    int  rows;                          /* tokens of a step; 0: 1 */
};

/* One answer {"line": i, "n": rows} per input line, numbered from 0; the file holds F32 [n, vocab] and [n, hidden] (after the
 * final norm).  Needs no tokenizer.  Returns the exit status. */
int debug_logits(const struct logits_options *o, FILE *in, FILE *out);

#endif
