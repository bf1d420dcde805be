#include "debug/debug.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/least.h"
#include "base/memory.h"
#include "debug/pictures.h"
#include "engine/load.h"
#include "model/prompt.h"
#include "model/step.h"

enum { FIRST_CTX = 512, HEAD_ROWS = 32 };

struct job {
    const struct debug_options *o;
    struct model m;
    bool   open;
    int    n_lines, n_ctx, vocab;
    float *hidden, *logits;             /* device memory: [n_ctx, hidden], [HEAD_ROWS, vocab] */
    float *read;                        /* [HEAD_ROWS, vocab], host memory */
    struct buf header;                  /* entries of the safetensors header, "name": {...}, */
    FILE  *data;                        /* the tensors, in a temporary file until the header is known */
    size_t at;
};

/* Frees the model and the buffers that depend on it. */
static void close_model(struct job *j)
{
    struct dev *d = j->m.dev;
    if (d) {
        d->free(d, j->hidden);
        d->free(d, j->logits);
    }
    free(j->read);
    j->hidden = j->logits = j->read = NULL;
    load_close(&j->m);
    j->open = false;
}

/* Returns what a choice of --prompt-math rounds. */
static enum prompt_math math_of(const char *choice)
{
    static const struct { const char *name; enum prompt_math math; } choices[] = {
        {"int8", PROMPT_INT8}, {"delta", PROMPT_INT8_DELTA | PROMPT_INT8_ANY}, {"qkv", PROMPT_INT8_QKV | PROMPT_INT8_ANY},
        {"up", PROMPT_INT8_UP | PROMPT_INT8_ANY}, {"all", PROMPT_INT8 | PROMPT_INT8_ANY},
    };
    for (size_t i = 0; choice && i < sizeof choices / sizeof *choices; i++)
        if (!strcmp(choice, choices[i].name))
            return choices[i].math;
    return PROMPT_EXACT;
}

/* Opens the model with room for n positions; again when a line is longer. */
static bool room(struct job *j, int n, struct err *e)
{
    if (j->open && n <= j->n_ctx)
        return true;
    if (j->open)
        close_model(j);
    j->n_ctx = n < FIRST_CTX ? FIRST_CTX : n;
    j->open = load_open(&j->m, &(struct load_options){
        .dir = j->o->model_dir, .backend = j->o->backend, .kv = j->o->kv, .head = j->o->head ? j->o->head : "bf16", .n_threads = j->o->n_threads,
        .n_ctx = j->n_ctx, .chunk = j->o->chunk, .n_snapshots = LOAD_NO_SNAPSHOTS,
    }, e);
    j->open = j->open && forward_math(j->m.forward, math_of(j->o->math), e);
    if (j->open) {
        struct dev *d = j->m.dev;
        size_t block = HEAD_ROWS * (size_t)j->m.cfg.vocab * sizeof(float);
        j->vocab = j->m.cfg.vocab;
        j->hidden = d->alloc(d, (size_t)j->n_ctx * (size_t)j->m.cfg.hidden * sizeof(float));
        j->logits = d->alloc(d, block);
        j->read = memory_alloc(block);
        j->open = (j->hidden && j->logits) || err_set(e, "no room for the logits of %d tokens", j->n_ctx);
    }
    if (!j->open)
        close_model(j);
    return j->open;
}

static bool write_words(struct job *j, const void *x, size_t n, struct err *e)
{
    return fwrite(x, 4, n, j->data) == n || err_set(e, "cannot write the tensors of %s: %s", j->o->out_file, strerror(errno));
}

/* Runs the whole line through the model: the logits go to the file as they come, the hidden states to `hidden`.  Steps begin after the last
 * picture. */
static bool run(struct job *j, const struct debug_prompt *p, float *hidden, struct err *e)
{
    struct model *m = &j->m;
    struct dev *d = m->dev;
    const struct spans *ids = &p->spans;
    size_t H = (size_t)m->cfg.hidden, V = (size_t)m->cfg.vocab;
    const int step_rows = j->o->rows > 0 ? j->o->rows : 1;
    bool ok = true;
    for (int pos = 0, n; pos < ids->n; pos += n) {
        const bool step = j->o->step && pos >= p->n_at;
        const int end = j->o->step && !step ? p->n_at : ids->n;
        n = least(end - pos, step ? step_rows : m->chunk);
        (step ? step_run : prompt_run)(m->forward, m->cache, ids->ids + pos, n, pos);
        if (step)
            cache_accept(m->cache, n);
        d->copy(d, j->hidden + (size_t)pos * H, forward_hidden(m->forward), (size_t)n * H * sizeof *hidden);
    }
    d->copy(d, hidden, j->hidden, (size_t)ids->n * H * sizeof *hidden);
    for (int pos = 0; pos < ids->n && ok; pos += HEAD_ROWS) {
        int n = ids->n - pos < HEAD_ROWS ? ids->n - pos : HEAD_ROWS;
        prompt_head(m->forward, m->head, j->hidden + (size_t)pos * H, n, j->logits);
        d->copy(d, j->read, j->logits, (size_t)n * V * sizeof *hidden);
        ok = d->finish(d, e) && write_words(j, j->read, (size_t)n * V, e);
    }
    return ok;
}

/* Adds a tensor [n, width] of 4-byte numbers to the header, after the last one. */
static void add_tensor(struct job *j, const char *kind, const char *dtype, int n, int width)
{
    size_t bytes = (size_t)n * (size_t)width * 4;
    buf_addf(&j->header, "%s\"%s.%d\":{\"dtype\":\"%s\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}", j->header.len ? "," : "", kind,
             j->n_lines, dtype, n, width, j->at, j->at + bytes);
    j->at += bytes;
}

/* Writes the positions by which rope turned the tokens, [3, n]: time, row, column. */
static bool write_positions(struct job *j, const struct debug_prompt *p, struct err *e)
{
    const size_t n = (size_t)p->spans.n;
    int32_t *axes = memory_alloc(3 * n * sizeof *axes);
    for (int i = 0; i < p->spans.n; i++) {
        const int text = i + p->offset;
        const struct rope_position at = i < p->n_at ? p->at[i] : (struct rope_position){text, text, text};
        axes[i] = at.t;
        axes[n + (size_t)i] = at.h;
        axes[2 * n + (size_t)i] = at.w;
    }
    const bool ok = write_words(j, axes, 3 * n, e);
    free(axes);
    return ok;
}

/* Answers a line: writes logits and hidden rows of all positions to the tensor file. */
static bool answer(const char *line, size_t n_line, struct buf *out, void *arg, struct err *e)
{
    struct job *j = arg;
    struct debug_request q;
    struct debug_prompt p = {0};
    float *hidden = NULL;
    bool ok = debug_request_read(&q, line, n_line, j->vocab, e) &&
              debug_prompt_read(&p, &q, j->o->model_dir, &j->m.cfg, j->m.picture_tokens, e) && room(j, p.spans.n, e) &&
              debug_prompt_begin(&p, &j->m, e);
    if (ok) {
        size_t n_hidden = (size_t)p.spans.n * (size_t)j->m.cfg.hidden;
        hidden = memory_alloc(n_hidden * sizeof *hidden);
        if (fseeko(j->data, (off_t)j->at, SEEK_SET))        /* a line that failed may have left a part */
            ok = err_set(e, "cannot write the tensors of %s: %s", j->o->out_file, strerror(errno));
        ok = ok && run(j, &p, hidden, e) && write_words(j, hidden, n_hidden, e) && (!p.n || write_positions(j, &p, e));
    }
    if (ok) {
        add_tensor(j, "logits", "F32", p.spans.n, j->m.cfg.vocab);
        add_tensor(j, "hidden", "F32", p.spans.n, j->m.cfg.hidden);
        if (p.n)
            add_tensor(j, "positions", "I32", 3, p.spans.n);
        buf_addf(out, "{\"line\": %d, \"n\": %d}", j->n_lines, p.spans.n);
    }
    j->n_lines++;
    free(hidden);
    debug_prompt_free(&p, &j->m);
    debug_request_free(&q);
    return ok;
}

/* Writes the safetensors file: header, then the data collected so far. */
static bool write_file(struct job *j, struct err *e)
{
    FILE *f = fopen(j->o->out_file, "wbe");
    if (!f)
        return err_set(e, "cannot write %s: %s", j->o->out_file, strerror(errno));
    struct buf head = {0};
    buf_addf(&head, "{%s}", buf_str(&j->header));
    while (head.len % 8)
        buf_addc(&head, ' ');
    uint64_t n = head.len;
    char block[4096];
    size_t got;
    bool ok = fwrite(&n, 8, 1, f) == 1 && fwrite(head.data, 1, head.len, f) == head.len;
    rewind(j->data);
    for (size_t left = j->at; ok && left; left -= got) {
        got = fread(block, 1, left < sizeof block ? left : sizeof block, j->data);
        ok = got && fwrite(block, 1, got, f) == got;
    }
    ok = !fclose(f) && ok && !ferror(j->data);
    buf_free(&head);
    return ok || err_set(e, "cannot write %s: %s", j->o->out_file, strerror(errno));
}

int debug_logits(const struct debug_options *o, FILE *in, FILE *out)
{
    struct job j = {.o = o, .data = tmpfile()};
    struct err e = {0};
    int status = 1;
    if (!j.data)
        err_warn("cannot make a temporary file: %s", strerror(errno));
    else if (!room(&j, 1, &e))
        err_warn("%s", e.msg);
    else {
        status = debug_lines(in, out, answer, &j);
        if (!write_file(&j, &e)) {
            err_warn("%s", e.msg);
            status = 1;
        }
    }
    if (j.open)
        close_model(&j);
    if (j.data)
        fclose(j.data);
    buf_free(&j.header);
    return status;
}
