/* The files of a checkpoint, read by byte range from a local directory or a repository, the tensors in them, and the index of their names.
 * Any thread may read. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/safetensors.h"

#define INDEX_FILE "model.safetensors.index.json"
#define EXTRA_FILE "model_extra_tensors.safetensors"

struct source {
    char *name;                         /* for messages: the directory, or the repository */
    char *repo, *commit;                /* NULL: unknown */
    void *arg;
    /* False with the reason, also if there is no such file. */
    bool (*size)(struct source *s, const char *file, uint64_t *bytes, struct err *e);
    /* Reads bytes [at, at + n) of the file completely. */
    bool (*read)(struct source *s, const char *file, uint64_t at, uint64_t n, void *dst, struct err *e);
    void (*close)(struct source *s);    /* frees arg */
    atomic_ullong n_bytes, n_reads;     /* read so far */
};

/* `name` is a directory, or a repository of the hub: ORG/NAME or ORG/NAME@REVISION, or a name of config/repos.def, which means its SMALL
 * row.  For a directory in the Hugging Face cache repo and commit are known.  False with the reason. */
bool source_open(struct source *s, const char *name, struct err *e);
void source_open_dir(struct source *s, const char *dir);
/* Opens a local directory: a repository is looked up in the Hugging Face cache, at the commit downloaded last; a name of
 * config/repos.def means its WHOLE row.  The path becomes the name of the source. */
bool source_open_local(struct source *s, const char *name, struct err *e);
void source_close(struct source *s);

bool source_read(struct source *s, const char *file, uint64_t at, uint64_t n, void *dst, struct err *e);

/* ---- tensors by name; only headers are read */

struct headers {
    struct source      *source;
    void               *index;          /* names and files; NULL: one model.safetensors */
    struct safetensors *files;          /* parsed headers, nothing mapped */
    char              **names;          /* of the files */
    int                 n_files;
};

/* Reads the index.  False with the reason if there is neither an index nor a model.safetensors. */
bool headers_open(struct headers *h, struct source *s, struct err *e);
void headers_close(struct headers *h);
/* Reads the header of one more file. */
bool headers_read(struct headers *h, const char *file, struct err *e);
bool headers_list(const struct headers *h, const char *name);          /* true if the index has it, or there is no index */
/* The tensor and its *file; reads the header of the file on first use.  NULL with the reason. */
const struct tensor *headers_find(struct headers *h, const char *name, const char **file, struct err *e);

/* ---- model.safetensors.index.json: the file of each tensor */

struct index_entry {
    const char *tensor, *file;
    uint64_t    bytes;
};

/* Sorts the entries by name and writes the index of DIR, replacing an old one atomically. */
bool index_write(const char *dir, struct index_entry *list, int n, struct err *e);

/* Writes a small file of DIR atomically, readable by everybody. */
bool index_write_text(const char *dir, const char *name, const char *text, uint64_t n, struct err *e);

/* ---- the names of config/repos.def */

struct repos_row {
    const char *name, *repo;
    bool        small;                  /* without the weights */
};

extern const struct repos_row repos_rows[];             /* ends with a NULL name */
bool repos_is_name(const char *word);
bool repos_is_weight(const char *path);                 /* a file that `small` leaves out */
