/* The inside of src/tool: a kind of tools.  A new kind is a file that defines a struct tool_kind, and a row of kinds[] in tool.c.
 *
 * A kind adds its tools when the program starts, and runs their calls: one struct per call, as many at the same time as the caller starts. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct options;
struct tools;

struct tool {
    const struct tool_kind *kind;
    char *name, *schema;                /* schema: the JSON object that the template prints */
    void *def;                          /* the kind's definition of it */
    bool  offered;
    bool  pictures;                     /* its results may name pictures */
};

/* The beginning of a kind's own struct for a call. */
struct tool_run {
    const struct tool *tool;
    struct buf out;                     /* the output so far */
};

/* Functions that a kind does not need may be NULL, except add, start and step.  tool/tool.h describes each. */
struct tool_kind {
    bool harmless;                      /* changes nothing: the policy auto lets its tools run without a question */
    /* Adds its tools with tools_add(). */
    bool (*add)(struct tools *l, const struct options *o, struct err *e);
    void (*free_def)(void *def);
    char **(*argv)(const struct tool *t);       /* the program that a call runs, ended by NULL; absent: no program */
    /* NULL with the reason if the call cannot start. */
    struct tool_run *(*start)(const struct tool *t, const char *arguments, size_t n, struct err *e);
    int  (*fds)(const struct tool_run *r, struct pollfd *fds);
    int  (*timeout)(const struct tool_run *r);
    bool (*step)(struct tool_run *r, struct buf *result);
    void (*interrupt)(struct tool_run *r);
    void (*kill)(struct tool_run *r);
    void (*close)(struct tool_run *r);          /* waits until the call has ended; tool_close() frees the output and the struct */
};

extern const struct tool_kind tool_builtin, tool_child;

/* True if a section [tool NAME] may have this name: it is plain and means nothing else. */
bool tools_check_name(const struct tools *l, const char *name, struct err *e);
/* Adds a tool.  Takes over `schema` and `def`, copies the name. */
struct tool *tools_add(struct tools *l, const struct tool_kind *kind, const char *name, char *schema, void *def);
