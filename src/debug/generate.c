/* `q35chat debug generate`: {"ids", "images", "max_tokens", "draft"} -> {"ids", "steps", "accepted"}, greedy, through the engine.
 * It does not stop at the end-of-text ids, so that answers have the requested length; "stop": [ids] makes it stop. */
#include "debug/debug.h"

#include <string.h>

#include "base/err.h"
#include "debug/pictures.h"
#include "engine/engine.h"
#include "model/config.h"

struct job {
    struct engine *g;
    int            vocab;
    const char    *dir;
    struct model_config cfg;
};

/* Waits until the engine is ready.  False with the reason if it fails. */
static bool wait_ready(struct job *j, struct err *e)
{
    while (!engine_info(j->g)) {
        engine_wait(j->g, -1);
        struct event_list l = engine_drain(j->g);
        for (int i = 0; i < l.n; i++)
            if (l.events[i].kind == EV_FATAL)
                return err_set(e, "%s", l.events[i].message);
    }
    j->vocab = engine_info(j->g)->n_vocab;
    return config_load(&j->cfg, j->dir, e);
}

/* Collects the tokens until EV_DONE. */
static bool collect(struct engine *g, uint32_t serial, struct ids *ids, struct stats *stats, struct err *e)
{
    for (;;) {
        engine_wait(g, -1);
        struct event_list l = engine_drain(g);
        for (int i = 0; i < l.n; i++) {
            const struct event *ev = &l.events[i];
            if (ev->serial != serial)
                continue;
            if (ev->kind == EV_TOKENS)
                ids_append(ids, ev->ids, ev->n);
            if (ev->kind == EV_DONE) {
                *stats = ev->stats;
                return !end_failed(ev->finish) || err_set(e, "%s", ev->message);
            }
        }
    }
}

/* Generates an answer and writes its ids, steps and accepted drafts. */
static bool generate(struct job *j, const struct debug_request *q, struct spans prompt, struct buf *out, struct err *e)
{
    struct sampling how = {.max_tokens = q->max_tokens, .draft_depth = q->draft > 0 ? q->draft : 0, .n_stop = q->stop.n};
    struct ids ids = {0};
    struct stats stats;
    int32_t accepted[LIMIT_DRAFTS];
    if (q->max_tokens < 1)
        return err_set(e, "\"max_tokens\" is missing or 0, expected at least 1");
    if (q->draft > ENGINE_MAX_DEPTH)
        return err_set(e, "\"draft\" is %d, expected 0 to %d", q->draft, ENGINE_MAX_DEPTH);
    if (q->stop.n > ENGINE_MAX_STOP)
        return err_set(e, "\"stop\" has %d ids, expected at most %d", q->stop.n, ENGINE_MAX_STOP);
    if (q->stop.n)
        memcpy(how.stop, q->stop.data, (size_t)q->stop.n * sizeof *how.stop);

    uint32_t serial = engine_submit(j->g, 0, prompt, 0, &how);
    bool ok = collect(j->g, serial, &ids, &stats, e);
    if (ok) {
        buf_addc(out, '{');
        debug_list(out, "ids", ids.data, ids.n);
        buf_addf(out, ", \"steps\": %d, ", stats.n_steps);
        for (int i = 0; i < how.draft_depth; i++)
            accepted[i] = stats.drafts[DRAFT_MTP][i].accepted;
        debug_list(out, "accepted", accepted, how.draft_depth);
        buf_addc(out, '}');
    }
    ids_free(&ids);
    return ok;
}

/* Answers a line with the ids that the engine generates. */
static bool answer(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
{
    struct job *j = arg;
    struct debug_request q;
    struct debug_prompt p = {0};
    bool ok = debug_request_read(&q, line, n, j->vocab, e) &&
              debug_prompt_read(&p, &q, j->dir, &j->cfg, engine_info(j->g)->picture_tokens, e) && generate(j, &q, p.spans, out, e);
    debug_prompt_free(&p, NULL);
    debug_request_free(&q);
    return ok;
}

int debug_generate(const struct debug_options *o, FILE *in, FILE *out)
{
    const struct engine_options eo = {
        .model_dir = o->model_dir, .backend = o->backend, .kv = o->kv, .head = o->head ? o->head : "bf16", .mtp = o->mtp ? o->mtp : "bf16",
        .n_threads = o->n_threads, .n_ctx = o->n_ctx, .n_sequences = 1,
        .draft_depth = ENGINE_MAX_DEPTH,                /* each line has its own number */
        .chunk = o->chunk, .fixed_chunk = true,         /* so that the bits never depend on the speed of the machine */
    };
    struct job j = {.dir = o->model_dir};
    struct err e = {0};
    int status = 1;
    j.g = engine_open(&eo, &e);
    if (j.g && wait_ready(&j, &e))
        status = debug_lines(in, out, answer, &j);
    else
        err_warn("%s", e.msg);
    engine_close(j.g);
    return status;
}
