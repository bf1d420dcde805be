/* `q35chat debug ...`: JSON lines in, JSON lines out, one answer per line, in order.  Each command returns the exit status:
 * 0, or 1 if a line was bad (its answer is {"error": "..."}) or the model could not be read (the reason goes to stderr). */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* {0} is valid: NULL and 0 mean the command's own default. */
struct debug_options {
    const char *model_dir, *out_file;
    const char *backend, *kv;           /* NULL: the best one, its first recipe */
    const char *head, *mtp;             /* NULL: as stored */
    int  n_threads, n_ctx;
    int  chunk;                         /* prompt rows a call; 0: the device's usual number */
    const char *math;                   /* logits: "exact", "int8", or one product, whatever its format; NULL: exact */
    bool step;                          /* logits: through decode steps */
    int  rows;                          /* logits: tokens of a step; 0: 1 */
};

int debug_tokenize(const struct debug_options *o, FILE *in, FILE *out);
int debug_render(const struct debug_options *o, FILE *in, FILE *out);
int debug_parse(const struct debug_options *o, FILE *in, FILE *out);
int debug_draft(const struct debug_options *o, FILE *in, FILE *out);
int debug_generate(const struct debug_options *o, FILE *in, FILE *out);
/* {"ids": [...]} -> {"line": i, "n": rows}, lines numbered from 0; the file gets logits.<line> and hidden.<line>: F32 [n, vocab] and [n, hidden]
 * (after the final norm), as safetensors.  Needs no tokenizer.
 * With "images": [PATH, ...], which draft and generate take, too, the ids have one pad for each picture or as many as its tokens, and the file gets
 * positions.<line>, I32 [3, n]: time, row and column by which rope turns.  Steps then begin after the last picture. */
int debug_logits(const struct debug_options *o, FILE *in, FILE *out);
/* {"image": PATH, "min_pixels": n, "max_pixels": n} (limits optional: the model's) -> {"grid": [1, h, w], "tokens": n}, in patches; the file gets
 * resized.<line>, U8 [H, W, 3].  Needs of the model only its preprocessor_config.json.
 * With "rows": true the vision tower runs on the CPU, in fp32: the answer also has "rows": [{"mean", "norm", "first": [4 numbers]}, ...], one for
 * each token, and the file rows.<line>, F32 [tokens, hidden]. */
int debug_image(const struct debug_options *o, FILE *in, FILE *out);
