/* The engine in this process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "responder/local_source.h"

struct near {
    struct source base;
    struct engine *engine;
    struct responder_info info;
};

static struct near *own(struct source *s)
{
    return (struct near *)s;
}

static const struct near *own_const(const struct source *s)
{
    return (const struct near *)s;
}

static uint32_t submit(struct source *s, uint64_t conversation, const struct ids *ids, int snapshot_pos, const struct sampling *how)
{
    return engine_submit(own(s)->engine, conversation, ids->data, ids->n, snapshot_pos, how);
}

static void interrupt(struct source *s, uint32_t serial)
{
    engine_interrupt(own(s)->engine, serial);
}

static void read_ahead(struct source *s, uint64_t conversation, const struct ids *ids, int snapshot_pos)
{
    engine_read_ahead(own(s)->engine, conversation, ids->data, ids->n, snapshot_pos);
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

static void fill_info(struct near *near)
{
    const struct engine_info *from = engine_info(near->engine);
    struct chat_info *to = &near->info.chat;
    snprintf(to->model, sizeof to->model, "%s", from->model);
    snprintf(to->backend, sizeof to->backend, "%s", from->backend);
    snprintf(to->formats, sizeof to->formats, "%s", from->formats);
    to->n_ctx = from->n_ctx;
    to->draft_depth = from->draft_depth;
    to->n_threads = from->n_threads;
    to->load_ms = from->load_ms;
    snprintf(to->kv, sizeof to->kv, "%s", from->kv);
    to->kv_token_bytes = from->kv_token_bytes;
    snprintf(to->weights_in, sizeof to->weights_in, "%s", from->weights_in);
    snprintf(to->reads, sizeof to->reads, "%s", from->reads);
    to->slow = from->slow;
    struct buf plan = {0};
    plan_say(&from->plan, &plan);
    snprintf(to->memory, sizeof to->memory, "%s", buf_str(&plan));
    buf_free(&plan);
    near->info.temperature = from->gen_temperature;
    near->info.top_p = from->gen_top_p;
    near->info.top_k = from->gen_top_k;
    memcpy(near->info.ends, from->eos, sizeof near->info.ends);
    near->info.n_ends = from->n_eos;
    near->info.at_once = from->n_answers;
}

static struct event_list drain(struct source *s)
{
    struct event_list list = engine_drain(own(s)->engine);
    for (int i = 0; i < list.n; i++)
        if (list.events[i].kind == EV_READY)
            fill_info(own(s));
    return list;
}

static const struct responder_info *info(const struct source *s)
{
    return &own_const(s)->info;
}

static void machine(struct source *s, struct chat_machine *m)
{
    struct engine_machine e;
    engine_machine(own(s)->engine, &e);
    *m = (struct chat_machine){
        .memory_used = e.memory_used, .memory_total = e.memory_total, .celsius = e.celsius, .watts = e.watts, .throttled = e.throttled,
        .snapshots = e.snapshots, .snapshots_max = e.snapshots_max, .resident = e.resident, .resident_max = e.resident_max,
        .joules = e.joules,
    };
}

static void close_near(struct source *s)
{
    engine_close(own(s)->engine);
    free(s);
}

static const struct source_ops ops = {
    .submit = submit, .interrupt = interrupt, .read_ahead = read_ahead, .save = save, .restore = restore, .keep = keep, .fd = fd,
    .drain = drain, .info = info, .machine = machine, .close = close_near,
};

struct source *source_near(const struct engine_options *o, struct err *e)
{
    struct near *near = memory_zeroed(1, sizeof *near);
    near->base.ops = &ops;
    near->engine = engine_open(o, e);
    if (near->engine)
        return &near->base;
    free(near);
    return NULL;
}
