/* The files of a checkpoint, read by byte range: a directory here, or a repository far away.  Any thread may read. */
#ifndef Q35_PREPARE_SOURCE_H
#define Q35_PREPARE_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/safetensors.h"

struct source {
    char *name;                         /* for messages: the directory, or the repository */
    char *repo, *commit;                /* NULL: not known */
    void *arg;
    /* False with the reason when there is no such file, too. */
    bool (*size)(struct source *s, const char *file, uint64_t *bytes, struct err *e);
    /* Bytes [at, at + n) of the file, all of them. */
    bool (*read)(struct source *s, const char *file, uint64_t at, uint64_t n, void *dst, struct err *e);
    void (*close)(struct source *s);    /* frees arg */
    atomic_ullong n_bytes, n_reads;     /* read so far */
};

/* `name` is a directory, or a repository of the hub: ORG/NAME or ORG/NAME@REVISION, or a name of config/repos.def, which stands for the row
 * that is SMALL.  A directory that lies in the hub's cache knows its repository and commit.  False with the reason. */
bool source_open(struct source *s, const char *name, struct err *e);
void source_open_dir(struct source *s, const char *dir);
/* Makes it a directory on this machine, for those who need one: a repository is looked up in the hub's cache, at the commit that was
 * downloaded last; a name stands for the row that is WHOLE.  The path is the source's name. */
bool source_open_local(struct source *s, const char *name, struct err *e);
void source_close(struct source *s);

bool source_size(struct source *s, const char *file, uint64_t *bytes, struct err *e);
bool source_read(struct source *s, const char *file, uint64_t at, uint64_t n, void *dst, struct err *e);

/* ---- tensors by name, of whom only headers are read */

struct headers {
    struct source      *source;
    void               *index;          /* names and files; NULL: one model.safetensors */
    struct safetensors *files;          /* parsed headers, nothing mapped */
    char              **names;          /* of the files */
    int                 n_files;
};

/* Reads the index.  False with the reason when there is neither an index nor a model.safetensors. */
bool headers_open(struct headers *h, struct source *s, struct err *e);
void headers_close(struct headers *h);
/* Reads the header of one more file. */
bool headers_read(struct headers *h, const char *file, struct err *e);
bool headers_list(const struct headers *h, const char *name);          /* whether the index names it; true without one */
/* The tensor, in *file; reads the header of its file when that is the first one from there.  NULL with the reason. */
const struct tensor *headers_find(struct headers *h, const char *name, const char **file, struct err *e);

#endif
