#include "prepare/mtp.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory.h"
#include "model/config.h"
#include "model/safetensors_write.h"
#include "model/shards.h"
#include "model/weights.h"
#include "prepare/files.h"
#include "prepare/source.h"
#include "prepare/provenance.h"

#define PREFIX "mtp."

struct part {                           /* a tensor that is copied */
    struct tensor_out out;
    struct source    *source;
    const char       *file;
    uint64_t          at;
};

static bool is_mtp(const char *name)
{
    return !strncmp(name, PREFIX, strlen(PREFIX));
}

/* Counts the tensors of the block in any file of DIR, and finds out whether its index lists all of them. */
static bool look(const char *dir, int *n, bool *listed, struct err *e)
{
    struct shards s;
    struct source here;
    struct headers index = {0};
    bool ok = shards_open(&s, dir, e);
    source_open_dir(&here, dir);
    *n = 0;
    *listed = ok && headers_open(&index, &here, NULL);
    for (int i = 0; i < s.n && ok; i++)
        if (is_mtp(s.list[i].name)) {
            ++*n;
            *listed &= headers_list(&index, s.list[i].name);
        }
    headers_close(&index);
    source_close(&here);
    shards_close(&s);
    return ok;
}

static bool make_bytes(const struct tensor_out *t, uint64_t at, uint64_t n, uint8_t *dst, struct err *e)
{
    const struct part *p = t->source;
    return source_read(p->source, p->file, p->at + at, n, dst, e);
}

static void add_part(struct part **parts, int *n, struct source *from, const char *file, const struct tensor *t)
{
    *parts = memory_resized(*parts, (size_t)(*n + 1) * sizeof **parts);
    struct part *p = &(*parts)[(*n)++];
    *p = (struct part){.out = {.name = t->name, .dtype = t->dtype, .n_dims = t->n_dims}, .source = from, .file = file, .at = t->offset};
    memcpy(p->out.shape, t->shape, sizeof t->shape);
}

/* Finds the block in `from`: in the files of its index, or in model_extra_tensors.safetensors if the index lost it. */
static bool list_parts(struct headers *h, struct headers *extra, struct part **parts, int *n, struct err *e)
{
    const char *name, *file;
    json_t *in;
    json_object_foreach((json_t *)h->index, name, in) {
        const struct tensor *t;
        if (!is_mtp(name))
            continue;
        if (!(t = headers_find(h, name, &file, e)))
            return false;
        add_part(parts, n, h->source, file, t);
    }
    if (*n)
        return true;
    *extra = (struct headers){.source = h->source};
    if (!headers_read(extra, EXTRA_FILE, NULL))
        return err_set(e, "%s has no tensor of an MTP block (" PREFIX "...) either: give the INT4 or the BF16 checkpoint with --from",
                       h->source->name);
    for (int i = 0; i < extra->files[0].n_tensors; i++)
        if (is_mtp(extra->files[0].tensors[i].name))
            add_part(parts, n, h->source, EXTRA_FILE, &extra->files[0].tensors[i]);
    return *n || err_set(e, "%s/" EXTRA_FILE " holds no tensor of an MTP block (" PREFIX "...)", h->source->name);
}

/* Writes the MTP block of another checkpoint into a file of its own beside the model. */
static bool copy_block(const char *dir, struct source *from, struct err *e)
{
    struct headers h = {0}, extra = {0};
    struct part *parts = NULL;
    struct buf path = {0}, tmp = {0};
    int n = 0;
    bool ok = headers_open(&h, from, e) && list_parts(&h, &extra, &parts, &n, e);
    struct tensor_out **list = memory_alloc(((size_t)n + 1) * sizeof(*list));
    for (int i = 0; i < n && ok; i++) {
        parts[i].out.source = &parts[i];
        list[i] = &parts[i].out;
        ok = dtype_bytes(parts[i].out.dtype) || err_set(e, "%s: tensor %s has a dtype that q35chat does not know", from->name, parts[i].out.name);
    }
    buf_addf(&path, "%s/" EXTRA_FILE, dir);
    buf_addf(&tmp, "%s/." EXTRA_FILE ".tmp", dir);
    struct file_out f = {.path = buf_str(&tmp), .tensors = list, .n_tensors = n};
    if (ok && !access(buf_str(&path), F_OK))
        ok = err_set(e, "%s exists and has no MTP block: move it away first", buf_str(&path));
    if (ok) {
        ok = safetensors_write(&f, 1, &(struct write_options){.n_threads = 8, .make = make_bytes}, e)
            && (!rename(buf_str(&tmp), buf_str(&path)) || err_set(e, "cannot write %s: %s", buf_str(&path), strerror(errno)));
        if (!ok)
            unlink(buf_str(&tmp));
    }
    free(list);
    free(parts);
    headers_close(&extra);
    headers_close(&h);
    buf_free(&path);
    buf_free(&tmp);
    return ok;
}

/* Writes an index of all tensors of DIR, with those of the block. */
static bool list_all(const char *dir, struct err *e)
{
    struct shards s;
    bool ok = shards_open(&s, dir, e);
    struct index_entry *list = memory_alloc(((size_t)s.n + 1) * sizeof *list);
    for (int i = 0; i < s.n && ok; i++)
        list[i] = (struct index_entry){s.list[i].name, strrchr(shards_file(&s, &s.list[i])->path, '/') + 1, s.list[i].t->bytes};
    ok = ok && index_write(dir, list, s.n, e);
    free(list);
    shards_close(&s);
    return ok;
}

/* Adds the new file to the provenance record. */
static bool record(const char *dir, struct provenance *p, struct err *e)
{
    struct buf path = {0}, text = {0};
    buf_addf(&path, "%s/" EXTRA_FILE, dir);
    struct hash_job job = {.path = buf_str(&path), .bytes = UINT64_MAX};
    struct safetensors s = {.fd = -1};
    bool ok = hash_jobs(&job, 1, NULL, e) && safetensors_open(&s, buf_str(&path), e);
    if (ok) {
        provenance_add_file(p, EXTRA_FILE, s.size, job.hex);
        provenance_print(p, &text);
        ok = index_write_text(dir, PROVENANCE_FILE, buf_str(&text), text.len, e);
    }
    safetensors_close(&s);
    buf_free(&path);
    buf_free(&text);
    return ok;
}

/* Checks that every tensor of the block exists with its shape. */
static bool check_block(const char *dir, const struct model_config *c, struct err *e)
{
    struct weights w = {0};
    bool ok = weights_open(&w, c, dir, e) && (w.mtp.present || err_set(e, "%s still has no MTP block", dir));
    weights_close(&w);
    return ok;
}

/* Copies the block and lists it.  If it does not fit the model, the copy is removed. */
static bool add_block(const char *dir, const struct model_config *c, struct source *from, struct provenance *p, struct err *e)
{
    if (!copy_block(dir, from, e))
        return false;
    if (!check_block(dir, c, e)) {
        struct buf path = {0};
        buf_addf(&path, "%s/" EXTRA_FILE, dir);
        unlink(buf_str(&path));
        buf_free(&path);
        return false;
    }
    return list_all(dir, e) && (!p || provenance_find(p->files, p->n_files, EXTRA_FILE) || record(dir, p, e));
}

/* Adds the block; the provenance record is read before anything is copied. */
static bool add_recorded_block(const char *dir, const struct model_config *c, struct source *from, struct err *e)
{
    struct provenance p;
    bool there, readable = provenance_read(&p, dir, &there, e);
    bool ok = (readable || !there) && add_block(dir, c, from, readable ? &p : NULL, e);
    provenance_free(&p);
    return ok;
}

bool mtp_add(const char *dir, struct source *from, struct mtp_report *r, struct err *e)
{
    struct model_config c;
    bool listed;
    *r = (struct mtp_report){.state = MTP_THERE};
    if (!config_load(&c, dir, e) || !look(dir, &r->n_tensors, &listed, e))
        return false;
    if (!c.n_mtp)
        return err_set(e, "%s/config.json: mtp_num_hidden_layers is 0: this model has no MTP block", dir);
    if (!r->n_tensors && !from)
        return err_set(e, "%s has no tensor of an MTP block (" PREFIX "...): name a checkpoint that has it with --from, for example the INT4 one",
                       dir);
    if (r->n_tensors && listed)
        return check_block(dir, &c, e);
    r->state = r->n_tensors ? MTP_INDEXED : MTP_ADDED;
    bool ok = r->n_tensors ? check_block(dir, &c, e) && list_all(dir, e) : add_recorded_block(dir, &c, from, e);
    return ok && look(dir, &r->n_tensors, &listed, e);
}
