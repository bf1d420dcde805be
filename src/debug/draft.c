/* `q35chat debug draft`: {"ids", "depth"} -> {"first", "drafts"}: the greedy token after the ids, and what the MTP block makes of
 * it, with the head as stored. */
#include "debug/debug.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "debug/lines.h"
#include "debug/request.h"
#include "engine/sampler.h"
#include "model/model.h"

enum { CHUNK = 256, MAX_DEPTH = 64, FIRST_CTX = 512 };

struct job {
    const char  *dir;
    struct model m;
    bool         open;
    int          n_ctx, vocab;
    float       *logits, *hidden[2];    /* of chained drafts, in turns */
};

static void job_close(struct job *j)
{
    if (j->open)
        model_close(&j->m);
    free(j->logits);
    free(j->hidden[0]);
    free(j->hidden[1]);
    *j = (struct job){.dir = j->dir, .vocab = j->vocab};
}

/* Opens the model with room for n positions; again when a line is longer. */
static bool room(struct job *j, int n, struct err *e)
{
    if (j->open && n <= j->n_ctx)
        return true;
    job_close(j);
    j->n_ctx = n < FIRST_CTX ? FIRST_CTX : n;
    j->open = true;                     /* model_close() takes a model that failed to open */
    if (!model_open(&j->m, &(struct model_options){.dir = j->dir, .n_ctx = j->n_ctx, .max_rows = CHUNK, .max_step = 1}, e)) {
        job_close(j);
        return false;
    }
    size_t H = (size_t)j->m.cfg.hidden * sizeof(float);
    j->vocab = j->m.cfg.vocab;
    j->logits = malloc((size_t)j->vocab * sizeof(float));
    j->hidden[0] = malloc(H);
    j->hidden[1] = malloc(H);
    CHECK(j->logits && j->hidden[0] && j->hidden[1]);
    return true;
}

static int32_t best(struct job *j, const float *hidden)
{
    forward_head(j->m.forward, HEAD_BF16, hidden, 1, j->logits);
    return sampler_argmax(j->logits, j->m.cfg.vocab);
}

static bool draft(struct job *j, const struct ids *ids, int depth, struct buf *out, struct err *e)
{
    struct model *m = &j->m;
    if (!m->weights.mtp.present)
        return err_set(e, "%s has no MTP block, expected one to draft with", j->dir);
    cache_reset(m->cache);
    for (int pos = 0; pos < ids->n; pos += CHUNK)
        forward_prefill(m->forward, m->cache, ids->data + pos, ids->n - pos < CHUNK ? ids->n - pos : CHUNK, pos, true);
    memcpy(j->hidden[0], forward_last_hidden(m->cache), (size_t)m->cfg.hidden * sizeof(float));
    int32_t id = best(j, j->hidden[0]);
    int32_t drafts[MAX_DEPTH];
    buf_addf(out, "{\"first\": %d, ", id);
    for (int i = 0; i < depth; i++) {
        float *next = j->hidden[(i + 1) % 2];
        forward_mtp(m->forward, m->cache, j->hidden[i % 2], &id, 1, ids->n - 1 + i, next);
        drafts[i] = id = best(j, next);
    }
    debug_list(out, "drafts", drafts, depth);
    buf_addc(out, '}');
    return m->dev->finish(m->dev, e);
}

static bool answer(const char *line, size_t n, struct buf *out, void *arg, struct err *e)
{
    struct job *j = arg;
    struct debug_request q;
    bool ok = debug_request_read(&q, line, n, j->vocab, e);
    if (ok && (q.depth < 0 || q.depth > MAX_DEPTH))
        ok = err_set(e, "\"depth\" is missing or too large, expected 0 to %d", MAX_DEPTH);
    ok = ok && room(j, q.ids.n + q.depth, e) && draft(j, &q.ids, q.depth, out, e);
    debug_request_free(&q);
    return ok;
}

int debug_draft(const char *model_dir, FILE *in, FILE *out)
{
    struct job j = {.dir = model_dir};
    struct err e = {0};
    int status = 1;
    if (room(&j, 1, &e))
        status = debug_lines(in, out, answer, &j);
    else
        log_warn("%s", e.msg);
    job_close(&j);
    return status;
}
