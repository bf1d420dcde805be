/* The sections of the config file, [tool NAME] and [endpoint NAME]: values as they are written there. */
#ifndef Q35_OPTION_SECTIONS_H
#define Q35_OPTION_SECTIONS_H

#include <stdbool.h>

#include "base/buf.h"

/* NULL for what is missing. */
struct option_tool {
    char *name;
#define TOOL_KEY(key) char *key;
#include "config/tool.def"
};

struct option_endpoint {
    char *name;
#define ENDPOINT_KEY(key) char *key;
#include "config/endpoint.def"
};

enum section_kind { SECTION_TOOL, SECTION_ENDPOINT, N_SECTION_KINDS };
#define SECTIONS_EXPECTED "[tool NAME] or [endpoint NAME]"

/* Plain value, valid as {0}; sections_free() frees it. */
struct sections {
    struct { void *items; int n; } kinds[N_SECTION_KINDS];     /* structs as above */
};

void sections_free(struct sections *s);
/* "tool disk": its kind, and its name.  False: it is of none. */
bool sections_kind(const char *title, enum section_kind *kind, const char **name);
/* The section, made if it is not there.  Valid until another one is made. */
void *sections_named(struct sections *s, enum section_kind kind, const char *name);
/* Where a section has the value of that key; NULL: it has none of that name. */
char **sections_value(enum section_kind kind, void *section, const char *key);
const char *sections_said(enum section_kind kind);              /* "a tool" */
void sections_keys(enum section_kind kind, struct buf *out);    /* "description, parameters, ..." */
/* Each section's title, then each value that is set: for who prints them. */
typedef void section_fn(const char *title, const char *key, const char *value, void *arg);     /* key NULL: a section begins */
void sections_each(const struct sections *s, section_fn *fn, void *arg);

#endif
