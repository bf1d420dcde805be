/* `q35chat model get`: downloads repositories over several connections into the Hugging Face cache or a directory.
 *
 * get_open() lists the files, finds those that exist and checks the free space; get_run() downloads the rest.  A connection takes the
 * next range of the file with the fewest connections, so that most files arrive in order and are hashed from memory.  One thread writes
 * the journals.  If a run ends early, for any reason, the next run continues it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "fetch/fetch.h"

enum { GET_CONNECTIONS = 8, GET_RANGE_MIB = 64 };

struct get_options {
    const char *const *what;            /* names of config/repos.def, "ORG/NAME" or "ORG/NAME@REVISION" */
    int         n_what;
    const char *to;                     /* directory for the files, under their own names; NULL: the Hugging Face cache */
    int         connections;            /* 0: GET_CONNECTIONS */
    uint64_t    range_bytes;            /* 0: GET_RANGE_MIB */
    bool        check;                  /* also hash files that the cache has already */
    struct fetch_options fetch;
};

enum get_state {
    GET_WAITING, GET_RUNNING,
    GET_CHECKING,                       /* the file existed; its hash is being computed */
    GET_HAD, GET_DONE,                  /* the file existed; it was downloaded */
};

struct get_file {
    const char *repo, *path;
    uint64_t    bytes, done, had;       /* had: bytes that existed at the start */
    enum get_state state;
};

struct get_repo {
    const char *name, *revision, *commit;
    const char *dir;                    /* directory of its files */
};

/* Checks a word for get_options.what; contacts no server.  False with the reason: it cannot name a repository. */
bool get_is_name(const char *what, struct err *e);

struct get;
/* Blocks while it requests the lists.  NULL with the reason. */
struct get *get_open(const struct get_options *o, struct err *e);
void get_close(struct get *g);
/* Downloads; calls `tick` ten times a second on this thread.  False with the first error. */
bool get_run(struct get *g, void (*tick)(void *arg), void *arg, struct err *e);
void get_stop(struct get *g);           /* from tick: get_run() returns soon, with "stopped" */
bool get_stopped(const struct get *g);

int  get_n_files(const struct get *g);
void get_look(struct get *g, int file, struct get_file *out);   /* its current state */
int  get_n_repos(const struct get *g);
void get_repo(const struct get *g, int i, struct get_repo *out);
