/* The engine in this process. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "responder/source.h"

struct near {
    struct source base;
    struct engine *engine;
};

static struct near *own(struct source *s)
{
    return (struct near *)s;
}

static const struct near *own_const(const struct source *s)
{
    return (const struct near *)s;
}

static uint32_t submit(struct source *s, uint64_t conversation, struct spans prompt, int snapshot_pos, const struct sampling *sampling)
{
    return engine_submit(own(s)->engine, conversation, prompt, snapshot_pos, sampling);
}

static void interrupt(struct source *s, uint32_t serial)
{
    engine_interrupt(own(s)->engine, serial);
}

static void read_ahead(struct source *s, uint64_t conversation, struct spans prompt, int snapshot_pos)
{
    engine_read_ahead(own(s)->engine, conversation, prompt, snapshot_pos);
}

static void save(struct source *s, uint64_t conversation, const char *path)
{
    engine_save(own(s)->engine, conversation, path);
}

static void restore(struct source *s, uint64_t conversation, const char *path)
{
    engine_restore(own(s)->engine, conversation, path);
}

static void keep(struct source *s, uint64_t conversation, const char *path)
{
    engine_keep(own(s)->engine, conversation, path);
}

static int fd(const struct source *s)
{
    return engine_fd(own_const(s)->engine);
}

static struct event_list drain(struct source *s)
{
    return engine_drain(own(s)->engine);
}

static const struct model_info *info(const struct source *s)
{
    return engine_info(own_const(s)->engine);
}

static void machine(struct source *s, struct machine_figures *m)
{
    engine_machine(own(s)->engine, m);
}

static void close_near(struct source *s)
{
    engine_close(own(s)->engine);
    free(s);
}

static const struct source_ops ops = {
    .guides = true, .submit = submit, .interrupt = interrupt, .read_ahead = read_ahead, .save = save, .restore = restore, .keep = keep, .fd = fd,
    .drain = drain, .info = info, .machine = machine, .close = close_near,
};

struct source *source_near(const struct engine_options *o, struct err *e)
{
    struct near *near = memory_zeroed(1, sizeof *near);
    near->base.ops = &ops;
    near->base.pixels = true;
    near->engine = engine_open(o, e);
    if (near->engine)
        return &near->base;
    free(near);
    return NULL;
}
