/* `q35chat debug draft`: {"ids", "images", "depth"} -> {"first", "drafts"}: the greedy token after the ids, and the drafts of the MTP block after
 * it, with the head as stored. */
#include "debug/debug.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/memory.h"
#include "debug/pictures.h"
#include "engine/load.h"
#include "engine/sampler.h"
#include "model/prompt.h"

enum { MAX_DEPTH = 64, FIRST_CTX = 512 };

struct job {
    const struct debug_options *o;
    struct model m;
    bool         open;
    int          n_ctx, vocab;
    float       *hidden[2], *logits;    /* device memory; hidden states of chained drafts, alternating */
    float       *read;                  /* [vocab] logits, host memory */
};

/* Frees the model and the buffers that depend on it. */
static void job_close(struct job *j)
{
    if (j->m.dev) {
        j->m.dev->free(j->m.dev, j->logits);
        j->m.dev->free(j->m.dev, j->hidden[0]);
        j->m.dev->free(j->m.dev, j->hidden[1]);
    }
    if (j->open)
        load_close(&j->m);
    free(j->read);
    *j = (struct job){.o = j->o, .vocab = j->vocab};
}

/* Opens the model with room for n positions; again when a line is longer. */
static bool room(struct job *j, int n, struct err *e)
{
    if (j->open && n <= j->n_ctx)
        return true;
    job_close(j);
    j->n_ctx = n < FIRST_CTX ? FIRST_CTX : n;
    j->open = true;                     /* load_close() also closes a model that failed to open */
    bool ok = load_open(&j->m, &(struct load_options){
        .dir = j->o->model_dir, .backend = j->o->backend, .kv = j->o->kv, .head = "bf16", .mtp = "bf16", .n_threads = j->o->n_threads,
        .n_ctx = j->n_ctx, .n_snapshots = LOAD_NO_SNAPSHOTS,
    }, e);
    if (ok) {
        struct dev *d = j->m.dev;
        size_t H = (size_t)j->m.cfg.hidden * sizeof(float);
        j->vocab = j->m.cfg.vocab;
        j->logits = d->alloc(d, (size_t)j->vocab * sizeof(float));
        j->hidden[0] = d->alloc(d, H);
        j->hidden[1] = d->alloc(d, H);
        j->read = memory_alloc((size_t)j->vocab * sizeof(float));
        ok = (j->logits && j->hidden[0] && j->hidden[1]) || err_set(e, "no room for the logits of %s", j->o->model_dir);
    }
    if (!ok)
        job_close(j);
    return ok;
}

/* Finds the id with the greatest logit of a hidden row. */
static bool best(struct job *j, const float *hidden, int32_t *id, struct err *e)
{
    struct dev *d = j->m.dev;
    prompt_head(j->m.forward, HEAD_BF16, hidden, 1, j->logits);
    d->copy(d, j->read, j->logits, (size_t)j->vocab * sizeof(float));
    if (!d->finish(d, e))
        return false;
    *id = sampler_argmax(j->read, j->vocab);
    return true;
}

/* Reads the prompt and writes the first token and the drafts that follow it. */
static bool draft(struct job *j, struct debug_prompt *p, int depth, struct buf *out, struct err *e)
{
    struct model *m = &j->m;
    const struct spans s = p->spans;
    if (!m->weights.mtp.present)
        return err_set(e, "%s has no MTP block, expected one to draft with", j->o->model_dir);
    if (!debug_prompt_begin(p, m, e))
        return false;
    for (int pos = 0; pos < s.n; pos += m->chunk)
        prompt_chunk(m->forward, m->cache, s.ids + pos, s.n - pos < m->chunk ? s.n - pos : m->chunk, pos, true);
    m->dev->copy(m->dev, j->hidden[0], forward_last_hidden(m->cache), (size_t)m->cfg.hidden * sizeof(float));
    int32_t id, drafts[MAX_DEPTH];
    if (!best(j, j->hidden[0], &id, e))
        return false;
    buf_addf(out, "{\"first\": %d, ", id);
    for (int i = 0; i < depth; i++) {
        float *next = j->hidden[(i + 1) % 2];
        prompt_mtp(m->forward, m->cache, j->hidden[i % 2], &id, 1, s.n - 1 + i, next);
        if (!best(j, next, &id, e))
            return false;
        drafts[i] = id;
    }
    debug_list(out, "drafts", drafts, depth);
    buf_addc(out, '}');
    return true;
}

/* Answers a line: reads the prompt and makes `depth` drafts. */
static bool answer(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
{
    struct job *j = arg;
    struct debug_request q;
    struct debug_prompt p = {0};
    bool ok = debug_request_read(&q, line, n, j->vocab, e);
    if (ok && (q.depth < 0 || q.depth > MAX_DEPTH))
        ok = err_set(e, "\"depth\" is missing or too large, expected 0 to %d", MAX_DEPTH);
    ok = ok && debug_prompt_read(&p, &q, j->o->model_dir, &j->m.cfg, j->m.picture_tokens, e) && room(j, p.spans.n + q.depth, e) &&
         draft(j, &p, q.depth, out, e);
    debug_prompt_free(&p, &j->m);
    debug_request_free(&q);
    return ok;
}

int debug_draft(const struct debug_options *o, FILE *in, FILE *out)
{
    struct job j = {.o = o};
    struct err e = {0};
    int status = 1;
    if (room(&j, 1, &e))
        status = debug_lines(in, out, answer, &j);
    else
        err_warn("%s", e.msg);
    job_close(&j);
    return status;
}
