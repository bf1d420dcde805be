/* Limits to which several layers hold, each number once.  What a device does by itself (context, chunk, drafts): engine/load.c. */
#ifndef Q35_CONFIG_LIMITS_H
#define Q35_CONFIG_LIMITS_H

enum {
    LIMIT_CTX          = 1 << 24,       /* positions; a model has a limit of its own */
    LIMIT_CHUNK        = 8192,          /* prompt tokens a call */
    LIMIT_DRAFTS       = 5,             /* drafts a step */
    LIMIT_STEP_ROWS    = 8,             /* rows of a decode step */
    LIMIT_STOP_IDS     = 8,             /* ids that end an answer */
    LIMIT_ALTERNATIVES = 8,             /* likely ids told with a token */
    LIMIT_SNAPSHOTS    = 1024,
    LIMIT_THREADS      = 1024,
};

#endif
