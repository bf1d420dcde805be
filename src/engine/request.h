/* Requests to the engine, its events and the outcomes of requests, as plain values. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "answer/end.h"
#include "answer/sampling.h"
#include "answer/stats.h"
#include "answer/token.h"
#include "base/err.h"
#include "config/limits.h"
#include "engine/spans.h"

/* Prompts that are cut at multiples of so many tokens have the same bits however they are cut. */
enum { ENGINE_BLOCK = 64 };

enum { ENGINE_MAX_DEPTH = LIMIT_DRAFTS, ENGINE_MAX_STOP = LIMIT_STOP_IDS, ENGINE_MAX_ALTERNATIVES = LIMIT_ALTERNATIVES };

/* The beginning of a prompt that may come. */
struct beginning {
    uint64_t     sequence;              /* the conversation's name; 0: none */
    struct spans spans;
    int          snapshot_pos;
};

struct outcome {
    enum end     finish;
    struct stats stats;
    struct err   why;                   /* when end_failed(finish) */
};

enum event_kind {
    EV_LOADING,         /* done, total: bytes */
    EV_READY,           /* engine_info() is filled */
    EV_PREFILL,         /* done, total: prompt positions, `cached` of them were there already */
    EV_TOKENS,          /* ids[n], source[n], prob[n], logprobs[n]; stats: as of these */
    EV_DONE,            /* finish, stats; message when end_failed(finish) */
    EV_RESTORED,        /* done: tokens that are there now; message: why the file is of no use, and whether it is deleted */
    EV_SAVED,           /* done: bytes written; total: bytes that the file has; message: why it could not be written */
    EV_FATAL,           /* message: the engine has ended (bad checkpoint, device fault); only close is left */
};

struct event {
    enum event_kind kind;
    uint32_t serial;                    /* of the submit; 0 for loading, ready, fatal */
    uint64_t sequence;                  /* of restored and saved: the conversation's name */
    size_t   done, total, cached;
    int      n;
    int32_t  ids[ENGINE_MAX_DEPTH + 1];
    uint8_t  source[ENGINE_MAX_DEPTH + 1];        /* enum token_source */
    float    prob[ENGINE_MAX_DEPTH + 1];        /* probability of the id under the distribution that was sampled */
    struct logprobs logprobs[ENGINE_MAX_DEPTH + 1];
    enum end finish;
    struct stats stats;
    char     message[512];
};

struct event_list {
    const struct event *events;
    int n;
};
