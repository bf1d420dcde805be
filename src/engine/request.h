/* Requests to the engine and their outcomes, as plain values. */
#ifndef Q35_ENGINE_REQUEST_H
#define Q35_ENGINE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "answer/end.h"
#include "answer/sampling.h"
#include "answer/stats.h"
#include "base/err.h"
#include "config/limits.h"

/* Prompts that are cut at multiples of so many tokens have the same bits however they are cut. */
enum { ENGINE_BLOCK = 64 };

enum { ENGINE_MAX_DEPTH = LIMIT_DRAFTS, ENGINE_MAX_STOP = LIMIT_STOP_IDS, ENGINE_MAX_ALTERNATIVES = LIMIT_ALTERNATIVES };

/* The beginning of a prompt that may come. */
struct beginning {
    uint64_t       sequence;            /* the conversation's name; 0: none */
    const int32_t *ids;
    int            n, snapshot_pos;
};

struct outcome {
    enum end     finish;
    struct stats stats;
    struct err   why;                   /* when finish is END_FAILED */
};

#endif
