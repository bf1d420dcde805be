/* `q35chat model get`: whole repositories of the hub, over several connections, into the hub's cache on this machine or a directory.
 *
 * get_open() lists, finds what is there, and checks the space; get_run() downloads the rest.  A connection takes the next range of the file
 * that has the fewest connections, so that most files come in order and are hashed from memory.  One thread writes the journals.
 * A run that ended early, in whatever way, is gone on with by the next one. */
#ifndef Q35_PREPARE_GET_H
#define Q35_PREPARE_GET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "fetch/fetch.h"

enum { GET_CONNECTIONS = 8, GET_RANGE_MIB = 64 };

struct get_options {
    const char *const *what;            /* names of config/repos.def, "ORG/NAME" or "ORG/NAME@REVISION" */
    int         n_what;
    const char *to;                     /* files under their own names below this directory; NULL: into the hub's cache */
    int         connections;            /* 0: GET_CONNECTIONS */
    uint64_t    range_bytes;            /* 0: GET_RANGE_MIB */
    bool        check;                  /* hash also what the cache has already */
    struct fetch_options fetch;
};

enum get_state {
    GET_WAITING, GET_RUNNING,
    GET_CHECKING,                       /* it was there; its hash is being computed */
    GET_HAD, GET_DONE,                  /* it was there; it was downloaded */
};

struct get_file {
    const char *repo, *path;
    uint64_t    bytes, done, had;       /* had: were there at the start */
    enum get_state state;
};

struct get_repo {
    const char *name, *revision, *commit;
    const char *dir;                    /* where its files are */
};

struct get;
/* Blocks while the hub is asked.  NULL with the reason. */
struct get *get_open(const struct get_options *o, struct err *e);
void get_close(struct get *g);
/* Downloads; calls `tick` ten times a second in this thread.  False with the first thing that went wrong. */
bool get_run(struct get *g, void (*tick)(void *arg), void *arg, struct err *e);
void get_stop(struct get *g);           /* from tick: get_run() returns soon, with "stopped" */
bool get_stopped(const struct get *g);

int  get_n_files(const struct get *g);
void get_look(struct get *g, int file, struct get_file *out);   /* as it is now */
int  get_n_repos(const struct get *g);
void get_repo(const struct get *g, int i, struct get_repo *out);

#endif
