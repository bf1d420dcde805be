/* A hybrid in the making, for the three files that make it: hybrid_plan.c decides what goes where, hybrid_out.c knows the directories
 * OUT and OUT.part, hybrid.c makes the files. */
#ifndef Q35_PREPARE_HYBRID_BUILD_H
#define Q35_PREPARE_HYBRID_BUILD_H

#include "base/memory.h"
#include "model/config.h"
#include "model/safetensors_write.h"
#include "model/shards.h"
#include "prepare/hybrid.h"
#include "prepare/index.h"
#include "prepare/provenance.h"

/* The source of the bytes of a tensor to write. */
struct hybrid_origin {
    struct source *source;
    const char    *file;
    uint64_t       at;
    struct hybrid *b;
};

/* One shared-expert matrix, or its scale. */
struct hybrid_matrix {
    const char          *name;
    struct tensor_out    out;
    struct hybrid_origin origin;
    bool                 scale;
};

struct hybrid_plan_file {
    const char *name;
    bool        small, rewritten;       /* small: not a shard */
};

struct hybrid {
    const struct hybrid_options *o;
    struct hybrid_report *r;
    struct err      *e;
    const char      *dir;               /* of the INT4 checkpoint */
    struct source    int4, *fp8;
    struct model_config c;
    struct shards    s;
    struct headers   donor;
    struct arena     memory;
    struct hybrid_matrix *moved;        /* [2 a matrix]: the matrix, its scale */
    int              n_moved;
    struct hybrid_plan_file *files;
    int              n_files;
    struct provenance p;
    char            *out, *part;
    atomic_ullong    n_made;            /* bytes of FP8 */
};

const char *hybrid_base_name(const char *path);         /* of a shard: always DIR/NAME */
char *hybrid_copied(const char *s);                     /* or NULL; for the caller to free */
const char *hybrid_parent(struct hybrid *b);            /* the directory of OUT */
/* Adds a row to the report; how: "written", "linked" and the like. */
void hybrid_report_add(struct hybrid *b, const char *name, uint64_t bytes, const char *how);

/* The matrices that move: checked, with their places in the donor. */
bool hybrid_plan_matrices(struct hybrid *b);
/* The moved matrix of that name, its scale behind it; NULL: it does not move. */
struct hybrid_matrix *hybrid_moved(struct hybrid *b, const char *name);
/* Where all comes from, with fingerprints: two builds with the same one make the same hybrid. */
bool hybrid_plan_provenance(struct hybrid *b);
/* The files of the hybrid but the one of FP8 matrices, by name. */
bool hybrid_plan_files(struct hybrid *b);
struct safetensors *hybrid_shard(struct hybrid *b, const char *name);   /* NULL: the file is no shard */
/* Whether the disk of OUT has room for what is written there; shards that lie on another disk must be copied. */
bool hybrid_plan_space(struct hybrid *b);

/* Whether OUT has this hybrid already, or something that must stay; then e says what. */
enum hybrid_found { HYBRID_NOTHING, HYBRID_FINISHED, HYBRID_IN_THE_WAY };
enum hybrid_found hybrid_out_look(struct hybrid *b);
/* Prepares OUT.part for this request, locked by *lock (-1: not).  Files of an earlier run of the same request stay, those of another
 * are removed. */
bool hybrid_out_start(struct hybrid *b, int *lock);
/* Removes files that are not in the plan, left by an interrupted run; with keep NULL, all files. */
bool hybrid_out_sweep(struct hybrid *b, const struct hybrid_report *keep);
/* OUT.part becomes OUT. */
bool hybrid_out_finish(struct hybrid *b);

#endif
