/* The server that the option `endpoint` means: an address, or an [endpoint NAME] section of the config file. */
#ifndef Q35_OPTION_ENDPOINT_H
#define Q35_OPTION_ENDPOINT_H

#include "base/buf.h"
#include "base/err.h"
#include "option/options.h"

/* The texts are those of the options, but for `key` and `ca_file`.  Valid as {0}; endpoint_free() frees it. */
struct endpoint {
    const char *url;
    const char *model;                  /* NULL: the only one that the server has */
    const char *dialect;                /* NULL: found out */
    struct buf key;                     /* empty: none is sent */
    struct buf key_from;                /* the variable or file that holds a key for it */
    struct buf ca_file;                 /* of the authorities to trust; empty: the usual ones */
};

/* False with a sentence: there is no such section, it lacks its address, its key or its authorities cannot be read.  *ep must be freed either way. */
bool endpoint_find(const struct options *o, struct endpoint *ep, struct err *e);
bool endpoint_is_address(const char *s);                 /* http://, https:// or unix:, with something after it */
/* Whether an address is that of a unix socket; *path is then its path. */
bool endpoint_is_socket(const char *url, const char **path);
/* A sentence about options of the command line that have no effect because a server answers; nothing if there are none. */
void endpoint_unused(const struct options *o, struct buf *out);
void endpoint_free(struct endpoint *ep);

#endif
