/* The prompt of a line with pictures: `logits`, `draft` and `generate` take {"ids": [...], "images": [PATH, ...]}. */
#pragma once

#include "debug/lines.h"
#include "engine/spans.h"
#include "model/cache.h"

struct model;
struct model_config;

/* Valid as {0}: no tokens. */
struct debug_prompt {
    struct ids spread;                  /* the ids with as many pads for each picture as it has tokens */
    struct picture *pictures;           /* [n] */
    struct pixels **pixels;             /* [n] */
    int n;
    struct spans spans;                 /* all of the above */
    /* after debug_prompt_begin() */
    struct rope_position *at;           /* [n_at] positions up to the end of the last picture; those of later tokens are at index + offset */
    int n_at, offset;
    struct picture_rows *rows;          /* [n] */
    float *memory;                      /* of the rows, on the device */
};

/* Decodes the pictures of a line and shrinks those that would have more than picture_tokens tokens.  The ids have one pad for each picture, or as
 * many as its tokens.  False with the reason; *p must be freed either way. */
bool debug_prompt_read(struct debug_prompt *p, const struct debug_request *q, const char *dir, const struct model_config *c, int picture_tokens,
                       struct err *e);
/* Empties the cache of the model and prepares it for the prompt: the tower sees the pictures.  False with the reason.  The prompt must be freed
 * before the model is closed. */
bool debug_prompt_begin(struct debug_prompt *p, struct model *m, struct err *e);
void debug_prompt_free(struct debug_prompt *p, struct model *m);        /* m: only for prompts that have begun */
