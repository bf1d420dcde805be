/* Limits that several layers share.  engine/load.c has the defaults of a device (context, chunk, drafts). */
#pragma once

enum {
    LIMIT_CTX          = 1 << 24,       /* positions; a model may have a lower limit */
    LIMIT_PICTURES     = 1 << 16,       /* pictures of a conversation */
    LIMIT_PICTURE_TOKENS = 16384,       /* of one picture */
    USUAL_PICTURE_TOKENS = 4096,        /* ... at most, on a GPU, unless the user wants others */
    LIMIT_CHUNK        = 8192,          /* prompt tokens per call */
    LIMIT_DRAFTS       = 7,             /* drafts per step */
    LIMIT_STEP_ROWS    = 8,             /* rows of a decode step */
    LIMIT_STOP_IDS     = 8,             /* ids that end an answer */
    LIMIT_ALTERNATIVES = 8,             /* likely ids reported with a token */
    LIMIT_SNAPSHOTS    = 1024,
    LIMIT_SEQUENCES    = 16,            /* conversations resident at once */
    LIMIT_HOMES        = 256,           /* conversations of which the engine knows the file */
    LIMIT_THREADS      = 1024,
};

/* Version of the protocol between two q35chats (docs/serve-reference.md).  Raise it when a program from before a change and one from after it would
 * misunderstand each other: a path, a key that one of them needs, or what a key means.  Keys that the other one may ignore leave it as it is. */
enum { RELAY_PROTOCOL = 5 };
