/* What `q35chat model get` is to bring: the files of repositories, where each belongs, and which of them exist.  One thread. */
#ifndef Q35_PREPARE_WANTED_H
#define Q35_PREPARE_WANTED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "fetch/fetch.h"
#include "prepare/get.h"

struct wanted_repo {
    struct fetch_repo list;
    struct buf folder;                  /* in the Hugging Face cache; empty with --to */
    struct buf dir;                     /* the snapshot, or --to */
};

struct wanted_file {
    struct wanted_repo      *repo;
    const struct fetch_file *f;
    struct buf               final;     /* its path: the blob, or the file in --to */
    enum get_state           state;
    uint64_t                 had;       /* bytes that existed */
};

struct wanted {
    struct fetch *fetch;
    const char   *to;                   /* NULL: the Hugging Face cache */
    bool          check;                /* files that are in the cache are to be hashed, too */
    struct wanted_repo *repos;
    int                 n_repos;
    struct wanted_file *files;
    int                 n_files, cap_files;
};

/* For n_what calls of wanted_add(), of which only `fetch` and `to` must stay valid. */
void wanted_open(struct wanted *w, struct fetch *fetch, const char *to, bool check, int n_what);
void wanted_close(struct wanted *w);
bool wanted_is_name(const char *what, struct err *e);   /* what get_is_name() returns */
/* Lists the repositories of a name of config/repos.def, or "ORG/NAME[@REVISION]". */
bool wanted_add(struct wanted *w, const char *what, struct err *e);
/* Sets the state of each file: GET_WAITING, GET_CHECKING or GET_HAD.  False with the reason: there is no room for those that wait, or no network. */
bool wanted_look(struct wanted *w, struct err *e);
/* Where a complete file belongs besides: from the snapshot of the cache a link leads to it.  Any thread. */
bool wanted_place(const struct wanted *w, const struct wanted_file *it, struct err *e);

#endif
