/* The models on this machine: in our own directory, in the hub's cache, and the demo.  Their names are what --model takes. */
#ifndef Q35_PREPARE_MODELS_H
#define Q35_PREPARE_MODELS_H

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
    char     geometry[64];              /* "Qwen3.5-122B-A10B", "custom"; "": config.json is not there yet */
    uint64_t bytes;                     /* of what is there, unfinished files included */
    bool     complete;
    char    *missing;                   /* "3 of 15 files of weights are missing"; NULL when complete */
    int64_t  changed_s;                 /* when its config.json was written */
};

struct models {
    struct models_item *items;          /* ours, then the hub's, each by name; the demo last */
    int n, cap;
};

void models_find(struct models *m);
void models_free(struct models *m);
/* The one that is used when none is named: the complete one of ours that is the newest, else of the hub's, else the demo.  -1: none. */
int  models_standard(const struct models *m);
/* Whether it would fit into memory now, with everything at its default; the reason if not. */
bool models_fits(const struct models_item *item, struct memory_plan *plan, struct err *e);

/* What --model means: a directory, a name, or a part of one that only one complete model has, in its name or its geometry. */
bool models_resolve(const char *given, struct buf *dir, struct err *e);

#endif
