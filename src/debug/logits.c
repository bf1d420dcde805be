#include "debug/logits.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/ids.h"
#include "base/log.h"
#include "debug/lines.h"
#include "model/model.h"

enum { MAX_IDS = 262144 };

struct job {
    const struct logits_options *o;
    struct model m;
    bool   open;
    int    n_lines, n_ctx;
    struct buf header;                  /* entries of the safetensors header, "name": {...}, */
    FILE  *data;                        /* the tensors, in a temporary file until the header is known */
    size_t at;
};

/* Token ids of one line, each within the vocabulary. */
static bool read_ids(struct ids *ids, const char *line, size_t n, int vocab, struct err *e)
{
    json_error_t je;
    json_t *root = json_loadb(line, n, JSON_ALLOW_NUL, &je), *list = json_object_get(root, "ids"), *item;
    size_t i;
    bool ok = true;
    if (!root)
        ok = err_set(e, "not JSON: %s", je.text);
    else if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > MAX_IDS)
        ok = err_set(e, "\"ids\" must be a list of 1 to %d token ids", MAX_IDS);
    else
        json_array_foreach(list, i, item) {
            if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) >= vocab) {
                ok = err_set(e, "ids[%zu] is not a token id: expected an integer from 0 to %d", i, vocab - 1);
                break;
            }
            ids_add(ids, (int32_t)json_integer_value(item));
        }
    json_decref(root);
    return ok;
}

static bool put(struct job *j, const char *kind, int n, int width, const float *x, struct err *e)
{
    size_t bytes = (size_t)n * (size_t)width * sizeof *x;
    buf_addf(&j->header, "%s\"%s.%d\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}", j->header.len ? "," : "", kind,
             j->n_lines, n, width, j->at, j->at + bytes);
    j->at += bytes;
    return fwrite(x, 1, bytes, j->data) == bytes || err_set(e, "cannot write %s: %s", j->o->out_file, strerror(errno));
}

/* The cache grows with the longest line. */
static bool room(struct job *j, int n, struct err *e)
{
    if (j->open && n <= j->n_ctx)
        return true;
    if (j->open)
        model_close(&j->m);
    j->n_ctx = n < 512 ? 512 : n;
    int chunk = j->o->chunk > 0 ? j->o->chunk : 512;
    j->open = model_open(&j->m, &(struct model_options){
        .dir = j->o->model_dir, .backend = j->o->backend, .kv = j->o->kv, .n_threads = j->o->n_threads, .n_ctx = j->n_ctx,
        .max_rows = j->o->step ? 1 : chunk, .max_step = 1, .int8_head = j->o->head && !strcmp(j->o->head, "int8"),
    }, e);
    if (!j->open)
        model_close(&j->m);
    return j->open;
}

static bool answer(const char *line, size_t n_line, struct buf *out, void *arg, struct err *e)
{
    struct job *j = arg;
    struct ids ids = {0};
    float *hidden = NULL, *logits = NULL;
    bool ok = read_ids(&ids, line, n_line, j->m.cfg.vocab, e) && room(j, ids.n, e);
    if (ok) {
        struct model *m = &j->m;
        size_t H = (size_t)m->cfg.hidden, V = (size_t)m->cfg.vocab;
        enum head head = j->o->head && !strcmp(j->o->head, "int8") ? HEAD_INT8 : HEAD_BF16;
        hidden = malloc((size_t)ids.n * H * sizeof *hidden);
        logits = malloc((size_t)ids.n * V * sizeof *logits);
        CHECK(hidden && logits);
        cache_reset(m->cache);
        int chunk = j->o->step ? 1 : j->o->chunk > 0 ? j->o->chunk : 512;
        for (int pos = 0; pos < ids.n; pos += chunk) {
            int n = ids.n - pos < chunk ? ids.n - pos : chunk;
            forward_run(m->forward, m->cache, ids.data + pos, n, pos, j->o->step ? ROWS_STAGE : ROWS_COMMIT);
            if (j->o->step)
                cache_accept(m->cache, n);
            memcpy(hidden + (size_t)pos * H, forward_hidden(m->forward), (size_t)n * H * sizeof *hidden);
            forward_head(m->forward, head, forward_hidden(m->forward), n, logits + (size_t)pos * V);
        }
        ok = m->dev->finish(m->dev, e) && put(j, "logits", ids.n, m->cfg.vocab, logits, e) && put(j, "hidden", ids.n, m->cfg.hidden, hidden, e);
        buf_addf(out, "{\"line\": %d, \"n\": %d}", j->n_lines, ids.n);
    }
    j->n_lines++;
    free(hidden);
    free(logits);
    ids_free(&ids);
    return ok;
}

static bool write_file(struct job *j, struct err *e)
{
    FILE *f = fopen(j->o->out_file, "wb");
    if (!f)
        return err_set(e, "cannot write %s: %s", j->o->out_file, strerror(errno));
    struct buf head = {0};
    buf_addf(&head, "{%s}", buf_str(&j->header));
    while (head.len % 8)
        buf_addc(&head, ' ');
    uint64_t n = head.len;
    char block[65536];
    size_t got;
    bool ok = fwrite(&n, 8, 1, f) == 1 && fwrite(head.data, 1, head.len, f) == head.len;
    rewind(j->data);
    while (ok && (got = fread(block, 1, sizeof block, j->data)))
        ok = fwrite(block, 1, got, f) == got;
    ok = !fclose(f) && ok && !ferror(j->data);
    buf_free(&head);
    return ok || err_set(e, "cannot write %s: %s", j->o->out_file, strerror(errno));
}

int debug_logits(const struct logits_options *o, FILE *in, FILE *out)
{
    struct job j = {.o = o, .data = tmpfile()};
    struct err e = {0};
    int status = 1;
    if (!j.data)
        log_warn("cannot make a temporary file: %s", strerror(errno));
    else if (o->head && strcmp(o->head, "bf16") && strcmp(o->head, "int8"))
        log_warn("--head %s: expected bf16 or int8", o->head);
    else if (!room(&j, 1, &e))
        log_warn("%s", e.msg);
    else {
        status = debug_lines(in, out, answer, &j);
        if (!write_file(&j, &e)) {
            log_warn("%s", e.msg);
            status = 1;
        }
    }
    if (j.open)
        model_close(&j.m);
    if (j.data)
        fclose(j.data);
    buf_free(&j.header);
    return status;
}
