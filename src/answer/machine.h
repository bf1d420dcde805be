/* Who answers, and on what: a loaded model, and the machine as it is now.  Plain values, valid as {0}. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "config/limits.h"

struct json_t;

struct model_info {
#define TEXT(name, size) char name[size];
#define FACT(type, name) type name;
#include "config/model_info.def"
    int32_t ends[LIMIT_STOP_IDS];       /* tokens that end an answer, as the checkpoint says */
    int     n_ends;
};

struct machine_figures {
#define TEXT(name, size) char name[size];
#define FACT(type, name) type name;
#include "config/machine.def"
};

/* Returns the beginning of a sentence: why the model sees no pictures.  i: NULL if it is not known. */
const char *model_info_blind(const struct model_info *i);

/* Append the values as a JSON object, for another q35chat. */
void model_info_write(const struct model_info *i, struct buf *out);
void machine_figures_write(const struct machine_figures *m, struct buf *out);
/* Read them.  What is missing is 0. */
void model_info_read(struct model_info *i, const struct json_t *v);
void machine_figures_read(struct machine_figures *m, const struct json_t *v);
