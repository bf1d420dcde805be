/* The server of the option `endpoint`: an address, or an [endpoint NAME] section of the config file.  Also keys in files. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "option/options.h"

/* The strings belong to the options, the buffers to this struct.  Valid as {0}; endpoint_free() frees it. */
struct endpoint {
    const char *url;
    const char *model;                  /* NULL: the only one that the server has */
    const char *dialect;                /* NULL: detected */
    struct buf key;                     /* empty: none is sent */
    struct buf key_from;                /* the variable or file for its key */
    struct buf ca_file;                 /* the authorities to trust; empty: those of the system */
};

/* False with a sentence: there is no such section, it lacks its address, its key or its authorities cannot be read.  *ep must be freed either way. */
bool endpoint_find(const struct options *o, struct endpoint *ep, struct err *e);
bool endpoint_is_address(const char *s);                 /* http://, https:// or unix:, with something after it */
/* True for the address of a unix socket; *path becomes its path. */
bool endpoint_is_socket(const char *url, const char **path);
/* Appends a sentence about options of the command line that have no effect because a server answers; nothing if there are none. */
void endpoint_unused(const struct options *o, struct buf *out);
void endpoint_free(struct endpoint *ep);

/* Reads the key for a server: the last word of the first line that is no comment, in a file that its owner alone can read. */
bool key_read(const char *path, struct buf *key, struct err *e);
/* Reads such a file whole.  If there is none and `makes` is set, makes one with a random key. */
bool key_file_read(const char *path, bool makes, struct buf *text, struct err *e);
