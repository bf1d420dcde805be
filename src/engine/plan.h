/* What a memory plan came to: plain values, and the words for them. */
#ifndef Q35_ENGINE_PLAN_H
#define Q35_ENGINE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

enum { PLAN_MAX_LINES = 10 };

struct plan_line {
    const char *name;                   /* "weights"; a constant */
    size_t      bytes;
    int         times;                  /* the equal parts that `bytes` consist of, one for each conversation; 0: it is one thing */
    bool        host;                   /* in the host's memory, beside a discrete GPU */
};

struct memory_plan {
    struct plan_line lines[PLAN_MAX_LINES];
    int    n_lines;                     /* 0: nothing was planned */
    size_t total, host_total;           /* bytes; host_total: of the lines with `host`, which are not in total */
    size_t available, margin;           /* of the memory where `total` lies; the margin is to be left free */
    size_t kv_bytes;                    /* the line of the KV cache */
    const char *kv, *kv_why;            /* the recipe's name; why --kv auto took it, or NULL.  Constants */
    int    stretched_from;              /* positions that the model was trained on, where YaRN stretches them; 0: it does not */
    int    n_ctx;                       /* decided: positions of each conversation */
    int    n_sequences;                 /* likewise: conversations resident at once */
};

struct buf;
/* "weights 67.12 GiB, states 144 MiB": those of the host, or the others. */
void plan_parts(const struct memory_plan *p, bool host, struct buf *out);
/* The whole plan in a line; nothing when nothing was planned. */
void plan_say(const struct memory_plan *p, struct buf *out);

#endif
