/* The process of a tool, which cannot leave: a session of its own without a terminal, a small environment, limits, and an end that
 * reaches everything it has started, under whatever name.  One at a time. */
#ifndef Q35_TOOL_CHILD_H
#define Q35_TOOL_CHILD_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child_limits {
    long memory_mb;                     /* addresses of each process; MiB */
    long processes;                     /* more than run already; root has no such limit */
    long file_mb, files;                /* the size of each; how many may be open at a time */
};

struct child {
    pid_t pid;                          /* also its session and group; 0: there is none */
    char  cgroup[PATH_MAX];             /* "" where none can be made */
    int64_t swept_ns;                   /* since when what it left is being ended; 0: not yet */
};

/* `in` becomes its stdin, `out` its stdout and stderr.  `pass`: names of variables, with commas, that it gets beside the usual
 * ones.  0, or errno. */
int  child_start(struct child *c, char *const *argv, const char *pass, const struct child_limits *l, int in, int out);
/* When its process has ended and was waited for: ends what it has started and left running, for a few milliseconds.  False: not all of it
 * has ended, call it again soon. */
bool child_sweep(struct child *c);
/* The same to its end, which may take two seconds. */
void child_end(struct child *c);

#endif
