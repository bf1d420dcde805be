/* Where the tokens of an answer come from: the engine in this process, or the one of another q35chat on this machine, which is asked over its
 * socket.  Ids in, events out; the functions do what those of the same names in engine/engine.h do. */
#ifndef Q35_RESPONDER_LOCAL_SOURCE_H
#define Q35_RESPONDER_LOCAL_SOURCE_H

#include "responder/responder.h"
#include "engine/engine.h"

struct source;

struct source_ops {
    uint32_t (*submit)(struct source *s, uint64_t conversation, const struct ids *ids, int snapshot_pos, const struct sampling *how);
    void (*interrupt)(struct source *s, uint32_t serial);
    void (*read_ahead)(struct source *s, uint64_t conversation, const struct ids *ids, int snapshot_pos);
    void (*save)(struct source *s, uint64_t conversation, const char *path);
    void (*restore)(struct source *s, uint64_t conversation, const char *path);
    void (*keep)(struct source *s, uint64_t conversation, const char *path);
    int  (*fd)(const struct source *s);
    struct event_list (*drain)(struct source *s);
    const struct model_info *(*info)(const struct source *s);       /* after EV_READY */
    void (*machine)(struct source *s, struct machine_figures *m);
    void (*close)(struct source *s);
};

/* The head of both. */
struct source {
    const struct source_ops *ops;
    bool gone;                          /* nobody is there any more, and nothing will come */
    const char *note;                   /* a sentence for the user, once; NULL: there is none */
};

struct source *source_near(const struct engine_options *o, struct err *e);
struct source *source_far(const char *socket, struct err *e);

#endif
