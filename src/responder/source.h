/* A source of tokens: the engine in this process, or the engine of another q35chat on this machine, over its socket.  Ids go in,
 * events come out; each function does what the function of the same name in engine/engine.h does. */
#pragma once

#include "base/buf.h"
#include "engine/engine.h"
#include "responder/responder.h"

struct source;

struct source_ops {
    bool guides;                        /* submit() takes a guide; else it takes `wish` */
    uint32_t (*submit)(struct source *s, uint64_t conversation, struct spans prompt, int snapshot_pos, const struct sampling *sampling);
    void (*interrupt)(struct source *s, uint32_t serial);
    void (*read_ahead)(struct source *s, uint64_t conversation, struct spans prompt, int snapshot_pos);
    void (*save)(struct source *s, uint64_t conversation, const char *path);
    void (*restore)(struct source *s, uint64_t conversation, const char *path);
    void (*keep)(struct source *s, uint64_t conversation, const char *path);
    int  (*fd)(const struct source *s);
    struct event_list (*drain)(struct source *s);
    const struct model_info *(*info)(const struct source *s);   /* after EV_READY */
    void (*machine)(struct source *s, struct machine_figures *m);
    void (*close)(struct source *s);
};

/* The head of both. */
struct source {
    const struct source_ops *ops;
    bool gone;                          /* the other program has ended, and no event will come */
    bool pixels;                        /* its prompts may have pictures, if the model sees them */
    bool files;                         /* ... as `pictures`, and prompts have one pad for each; else as pixels in their spans */
    struct buf pictures;                /* JSON of the files for the next prompts, as /q35chat/answer takes it; empty: there are none */
    const char *note;                   /* a sentence for the user, once; NULL: no note */
    struct buf wish;                    /* JSON of what guides the next answers (local_guide.c); empty: they are not guided */
};

struct source *source_near(const struct engine_options *o, struct err *e);
struct source *source_far(const char *socket, struct err *e);
