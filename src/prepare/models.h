/* The models on this machine: in q35chat's own directory, in the Hugging Face cache, and the demo.  --model accepts their names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "engine/engine.h"

enum models_place { MODELS_OURS, MODELS_HUB, MODELS_DEMO };

struct models_item {
    char    *name;                      /* the directory's name; "ORG/NAME" in the hub's cache; "demo" */
    char    *dir;
    enum models_place place;
    char     geometry[64];              /* "Qwen3.5-122B-A10B", "custom"; "": no config.json yet */
    uint64_t bytes;                     /* on disk, with unfinished files */
    bool     complete;
    char    *missing;                   /* "3 of 15 files of weights are missing"; NULL when complete */
    int64_t  changed_s;                 /* when its config.json was written */
};

struct models {
    struct models_item *items;          /* own, then cached ones, each sorted by name; the demo last */
    int n, cap;
};

void models_find(struct models *m);
void models_free(struct models *m);
/* The default model: the newest complete one of q35chat's directory, else of the cache, else the demo.  -1: no model. */
int  models_standard(const struct models *m);
/* True if it fits into memory now, with default options; false with the reason. */
bool models_fits(const struct models_item *item, struct memory_plan *plan, struct err *e);

/* Finds the directory that --model and `model inspect` mean: a directory, a name, or a part of a name or geometry that only one complete model
 * has. */
bool models_resolve(const char *given, struct buf *dir, struct err *e);
