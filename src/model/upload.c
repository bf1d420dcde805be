#include "model/upload.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memory.h"
#include "kernels/pack_piece.h"
#include "model/reader.h"
#include "model/weights.h"

enum {
    N_PARTS = UPLOAD_PLAN_PIECES / 3,   /* most stored tensors of which one read has rows; at most three pieces are made of one */
    GAP     = 64 << 10,                 /* up to so many bytes between two tensors are read too, so that one read brings both */
    ALIGN   = 512,
};

/* A stored tensor, of which n packed matrices are made, targets first..first + n - 1, at most three.  n = 0: zero points of INT4, which are only
 * checked to be 8.  It can be cut after every `unit` rows. */
struct plan_source {
    int         file;
    uint64_t    offset;
    const void *copy;                   /* the tensor in host memory, since it was misaligned in its file; NULL: it is read from the file */
    size_t      row_bytes;
    int         rows, unit, first, n;
};

/* Rows of a source in one read. */
struct plan_part {
    int      source, first, n;
    uint32_t at;                        /* offset of the first row in the read */
};

enum { SLAB_EMBED = SLAB_VECTORS + 1, SLAB_HEAD, SLAB_LAYERS };         /* then one for each layer, for the MTP block, for the vision tower */

/* ---- places: the weights are walked twice, first to measure, then, with slabs, to place each weight and to list its sources */

/* Takes `bytes` of the current slab.  NULL while measuring. */
static void *take_place(struct upload_plan *p, size_t bytes)
{
    size_t at = p->slab_bytes[p->slab];
    p->slab_bytes[p->slab] += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p->slabs ? (char *)p->slabs[p->slab] + at : NULL;
}

static void add_packed(struct upload_plan *p, struct pack_piece target)
{
    p->targets = memory_grow(p->targets, p->n_targets, &p->cap_targets, sizeof *p->targets);
    p->targets[p->n_targets++] = target;
    struct plan_source *s = &p->sources[p->n_sources - 1];
    int unit = pack_unit_rows(target.kind, target.half);
    s->n++;
    s->unit = unit > s->unit ? unit : s->unit;          /* powers of two */
}

/* Adds a stored tensor; add_packed() then adds the matrices that are made of it. */
static void add_stored(struct upload_plan *p, const void *data, int rows, size_t row_bytes)
{
    const struct shards *sh = &p->w->store->shards;
    struct plan_source s = {.file = sh->n_files, .copy = data, .rows = rows, .row_bytes = row_bytes, .unit = 1, .first = p->n_targets};
    for (int i = 0; i < sh->n_files && s.copy; i++) {
        uintptr_t map = (uintptr_t)sh->files[i].map, at = (uintptr_t)data;
        if (at >= map && at - map < sh->files[i].size)
            s = (struct plan_source){.file = i, .offset = at - map, .rows = rows, .row_bytes = row_bytes, .unit = 1, .first = p->n_targets};
    }
    p->sources = memory_grow(p->sources, p->n_sources, &p->cap_sources, sizeof *p->sources);
    p->sources[p->n_sources++] = s;
}

static size_t float_bytes(enum dtype t) { return t == DT_F32 ? 4 : 2; }

/* Returns the format in which a matrix is kept: its own, or in the MTP block that of the option. */
static enum weight_format format_for(const struct upload_plan *p, const struct weight *w, enum mtp_part part)
{
    return p->in_mtp ? weights_mtp_format(p->c, p->mtp, part, w) : w->format;
}

/* Adds the tensors of a stored matrix, to be packed at `at` in format f, whole or as one half of a pair.  all_rows: rows of the packed matrix. */
static void add_stored_matrix(struct upload_plan *p, const struct weight *w, enum weight_format f, char *at, int all_rows, enum pack_half half)
{
    struct pack_piece t = {.dst = at, .half = half, .dtype = w->dtype, .rows = w->rows, .cols = w->cols};
    size_t rows = (size_t)w->rows, cols = (size_t)w->cols;
    int groups = pack_groups(w->cols);
    char *scales = at + pack_data_bytes(w->format, all_rows, w->cols);
    switch (w->format) {
    case WEIGHT_DENSE:
        add_stored(p, w->data, w->rows, cols * float_bytes(w->dtype));
        t.kind = f == WEIGHT_INT4 ? PACK_DENSE_INT4 : f == WEIGHT_FP8 ? PACK_DENSE_FP8 : PACK_DENSE;
        add_packed(p, t);
        return;
    case WEIGHT_FP8:
        add_stored(p, w->data, w->rows, cols);
        t.kind = PACK_FP8;
        add_packed(p, t);
        add_stored(p, w->scale, pack_groups(w->rows), (size_t)groups * float_bytes(w->scale_dtype));
        t.kind = PACK_FP8_SCALE;
        t.dtype = w->scale_dtype;
        t.dst = scales;
        add_packed(p, t);
        return;
    case WEIGHT_INT4:
        add_stored(p, w->data, w->cols / 8, rows * 4);
        t.kind = PACK_INT4;
        add_packed(p, t);
        add_stored(p, w->scale, groups, rows * 2);
        t.kind = PACK_INT4_SCALE;
        t.dst = scales;
        add_packed(p, t);
        add_stored(p, w->zeros, groups * (w->rows / 8), 4);
        return;
    default:
        CHECK(!"a format that checkpoints have");
    }
}

static void place_as(struct upload_plan *p, struct weight *w, enum weight_format f)
{
    void *at = take_place(p, pack_bytes(f, w->rows, w->cols));
    if (!at)
        return;
    add_stored_matrix(p, w, f, at, w->rows, PACK_WHOLE);
    *w = packed_view(f, w->rows, w->cols, at);
}

static void place_matrix(struct upload_plan *p, struct weight *w)
{
    place_as(p, w, format_for(p, w, MTP_ATTENTION));
}

static void place_down(struct upload_plan *p, struct weight *w, enum mtp_part part)
{
    place_as(p, w, format_for(p, w, part));
}

/* Places gate and up of an expert as one packed matrix, with the rows of both; `up` is empty afterwards. */
static void place_pair(struct upload_plan *p, struct expert_weights *x, enum mtp_part part)
{
    const int rows = x->gate.rows + x->up.rows, cols = x->gate.cols;
    const enum weight_format f = format_for(p, &x->gate, part);
    void *at = take_place(p, pack_bytes(f, rows, cols));
    if (!at)
        return;
    add_stored_matrix(p, &x->gate, f, at, rows, PACK_GATE);
    add_stored_matrix(p, &x->up, format_for(p, &x->up, part), at, rows, PACK_UP);
    x->gate = packed_view(f, rows, cols, at);
    x->up = (struct weight){.format = WEIGHT_NONE};
}

/* Places a vector of n floats in the slab of vectors, from where *v points now; *v then points to the device. */
static void place_vector(struct upload_plan *p, const float **v, int n)
{
    int slab = p->slab;
    p->slab = SLAB_VECTORS;
    size_t at = p->slab_bytes[SLAB_VECTORS];
    void *place = take_place(p, (size_t)n * sizeof **v);
    p->slab = slab;
    if (!place)
        return;
    memcpy(p->vectors + at, *v, (size_t)n * sizeof **v);
    *v = place;
}

/* Places all weights of a layer in the current slab, vectors in their own. */
static void place_layer_weights(struct upload_plan *p, struct layer_weights *l)
{
    const struct model_config *c = p->c;
    place_vector(p, &l->norm_in, c->hidden);
    place_vector(p, &l->norm_post, c->hidden);
    if (l->full) {
        place_vector(p, &l->attn.q_norm, c->head_dim);
        place_vector(p, &l->attn.k_norm, c->head_dim);
        place_matrix(p, &l->attn.q);
        place_matrix(p, &l->attn.k);
        place_matrix(p, &l->attn.v);
        place_matrix(p, &l->attn.o);
    } else {
        place_vector(p, &l->delta.conv, config_conv_dim(c) * c->conv_kernel);
        place_vector(p, &l->delta.a_log, c->lin_v_heads);
        place_vector(p, &l->delta.dt_bias, c->lin_v_heads);
        place_vector(p, &l->delta.norm, c->lin_v_dim);
        place_matrix(p, &l->delta.qkv);
        place_matrix(p, &l->delta.z);
        place_matrix(p, &l->delta.a);
        place_matrix(p, &l->delta.b);
        place_matrix(p, &l->delta.out);
    }
    place_as(p, &l->moe.router, l->moe.router.format);
    place_as(p, &l->moe.shared_gate, l->moe.shared_gate.format);
    place_pair(p, &l->moe.shared, MTP_OTHER);
    place_down(p, &l->moe.shared.down, MTP_OTHER);
    for (int i = 0; i < c->n_experts; i++)
        place_pair(p, &l->moe.experts[i], MTP_ROUTED);
    for (int i = 0; i < c->n_experts; i++)
        place_down(p, &l->moe.experts[i].down, MTP_ROUTED);
    float *norms = take_place(p, (size_t)(c->n_experts + 1) * sizeof *norms);
    if (norms)
        l->moe.norms = norms;
    float *norm = take_place(p, sizeof *norm);
    if (norm)
        *(l->full ? &l->attn.v_norm : &l->delta.z_norm) = norm;
}

/* Places the head, made of the stored tensor that was added last: its own, or that of the embedding if both are tied. */
static void place_head(struct upload_plan *p, struct weight head)
{
    struct weights *w = p->w;
    struct pack_piece t = {.dtype = head.dtype, .rows = head.rows, .cols = head.cols};
    void *bf16 = NULL, *int8 = NULL, *planes = NULL;
    p->slab = SLAB_HEAD;
    if (p->heads & HEAD_BF16)
        bf16 = take_place(p, pack_bytes(WEIGHT_DENSE, head.rows, head.cols));
    if (p->heads & HEAD_INT8)
        int8 = take_place(p, pack_bytes(WEIGHT_INT8, head.rows, head.cols));
    if (p->heads & HEAD_PLANES)
        planes = take_place(p, pack_bytes(WEIGHT_PLANES, head.rows, head.cols));
    if (!p->slabs)
        return;
    w->head = w->head_int8 = w->head_planes = (struct weight){.format = WEIGHT_NONE};
    if (bf16) {
        t.kind = PACK_DENSE;
        t.dst = bf16;
        add_packed(p, t);
        w->head = packed_view(WEIGHT_DENSE, head.rows, head.cols, bf16);
    }
    if (int8) {
        t.kind = PACK_INT8;
        t.dst = int8;
        add_packed(p, t);
        w->head_int8 = packed_view(WEIGHT_INT8, head.rows, head.cols, int8);
    }
    if (planes) {
        t.kind = PACK_PLANES;
        t.dst = planes;
        add_packed(p, t);
        w->head_planes = packed_view(WEIGHT_PLANES, head.rows, head.cols, planes);
    }
}

/* Places the embedding, the head and the last norm.  A tied head is packed from the embedding's bytes. */
static void place_ends(struct upload_plan *p)
{
    struct weights *w = p->w;
    struct weight embed = w->embed, head = w->head;
    size_t row = (size_t)embed.cols;
    bool tied = embed.data == head.data;
    p->slab = SLAB_EMBED;
    void *at = take_place(p, (size_t)embed.rows * row * 2);
    if (at) {
        add_stored(p, embed.data, embed.rows, row * float_bytes(embed.dtype));
        add_packed(p, (struct pack_piece){.kind = PACK_PLAIN, .dst = at, .dtype = embed.dtype, .rows = embed.rows, .cols = embed.cols});
        w->embed = (struct weight){.format = WEIGHT_DENSE, .dtype = DT_BF16, .rows = embed.rows, .cols = embed.cols, .data = at};
    }
    if (at && !tied && p->heads)
        add_stored(p, head.data, head.rows, (size_t)head.cols * float_bytes(head.dtype));
    place_head(p, head);
    place_vector(p, &w->norm, p->c->hidden);
}

/* Places the vision tower.  Its positions are read row by row and stay as they are; the matrix of patches is one like all others. */
static void place_vision(struct upload_plan *p, struct vision_weights *v)
{
    const struct vision_config *c = &p->c->vision;
    const struct weight positions = v->positions;
    void *at = take_place(p, (size_t)positions.rows * (size_t)positions.cols * 2);
    if (at) {
        add_stored(p, positions.data, positions.rows, (size_t)positions.cols * float_bytes(positions.dtype));
        add_packed(p, (struct pack_piece){.kind = PACK_PLAIN, .dst = at, .dtype = positions.dtype, .rows = positions.rows, .cols = positions.cols});
        v->positions.dtype = DT_BF16;
        v->positions.data = at;
    }
    place_matrix(p, &v->patch);
    place_vector(p, &v->patch_b, c->hidden);
    for (int i = 0; i < c->depth; i++) {
        struct vision_block_weights *b = &v->blocks[i];
        const struct { const float **v; int n; } vectors[] = {
            {&b->norm1_w, c->hidden}, {&b->norm1_b, c->hidden}, {&b->norm2_w, c->hidden}, {&b->norm2_b, c->hidden},
            {&b->qkv_b, 3 * c->hidden}, {&b->proj_b, c->hidden}, {&b->fc1_b, c->inter}, {&b->fc2_b, c->hidden},
        };
        for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
            place_vector(p, vectors[k].v, vectors[k].n);
        place_matrix(p, &b->qkv);
        place_matrix(p, &b->proj);
        place_matrix(p, &b->fc1);
        place_matrix(p, &b->fc2);
        float *norms = take_place(p, 2 * sizeof *norms);
        if (norms)
            b->norms = norms;
    }
    place_vector(p, &v->norm_w, c->hidden);
    place_vector(p, &v->norm_b, c->hidden);
    place_vector(p, &v->fc1_b, 4 * c->hidden);
    place_vector(p, &v->fc2_b, c->out);
    place_matrix(p, &v->fc1);
    place_matrix(p, &v->fc2);
}

/* Places all weights: ends, layers, vision tower, MTP block. */
static void place_all(struct upload_plan *p)
{
    struct weights *w = p->w;
    place_ends(p);
    for (int i = 0; i < p->c->n_layers; i++) {
        p->slab = SLAB_LAYERS + i;
        place_layer_weights(p, &w->layers[i]);
    }
    if (w->vision.present) {
        p->slab = SLAB_LAYERS + p->c->n_layers + (w->mtp.present ? 1 : 0);
        place_vision(p, &w->vision);
    }
    if (!w->mtp.present)
        return;
    p->slab = SLAB_LAYERS + p->c->n_layers;
    p->in_mtp = true;
    place_vector(p, &w->mtp.norm_embedding, p->c->hidden);
    place_vector(p, &w->mtp.norm_hidden, p->c->hidden);
    place_vector(p, &w->mtp.norm, p->c->hidden);
    place_as(p, &w->mtp.fc, format_for(p, &w->mtp.fc, MTP_OTHER));
    place_layer_weights(p, &w->mtp.layer);
    p->in_mtp = false;
}

void upload_plan_init(struct upload_plan *p, struct weights *w, const struct model_config *c, unsigned heads, enum mtp_form mtp)
{
    *p = (struct upload_plan){.w = w, .c = c, .heads = heads, .mtp = mtp};
    p->n_slabs = SLAB_LAYERS + c->n_layers + (w->mtp.present ? 1 : 0) + (w->vision.present ? 1 : 0);
    p->slab_bytes = memory_zeroed((size_t)p->n_slabs, sizeof *p->slab_bytes);
    place_all(p);
}

void upload_plan_free(struct upload_plan *p)
{
    free(p->slab_bytes);
    free(p->vectors);
    free(p->sources);
    free(p->targets);
    free(p->jobs);
    free(p->first_part);
    free(p->parts);
}

size_t upload_plan_bytes(const struct weights *w, const struct model_config *c, unsigned heads, enum mtp_form mtp)
{
    struct upload_plan p;
    size_t total = 0;
    upload_plan_init(&p, (struct weights *)(uintptr_t)w, c, heads, mtp);        /* measuring changes no weight */
    for (int i = 0; i < p.n_slabs; i++)
        total += p.slab_bytes[i];
    upload_plan_free(&p);
    return total;
}

/* ---- weights that a device cannot take */

static const char *format_name(const struct weight *w)
{
    return w->format == WEIGHT_INT4 ? "INT4" : w->format == WEIGHT_FP8 ? "FP8" : "16 or 32 bits";
}

/* True if all experts of a layer have the same formats. */
static bool check_experts(const struct moe_weights *m, int n, const char *where, int layer, struct err *e)
{
    const struct expert_weights *first = &m->experts[0];
    for (int i = -1; i < n; i++) {
        const struct expert_weights *x = i < 0 ? &m->shared : &m->experts[i];
        if (x->gate.format != x->up.format)
            return err_set(e, "%s %d: gate_proj of %s %d is in %s and up_proj in %s, but a GPU takes both in one format", where, layer,
                           i < 0 ? "shared expert" : "expert", i < 0 ? 0 : i, format_name(&x->gate), format_name(&x->up));
        if (i > 0 && (x->gate.format != first->gate.format || x->down.format != first->down.format))
            return err_set(e, "%s %d: expert %d is in %s and %s, expert 0 in %s and %s, but a GPU takes all experts of a layer in the same formats",
                           where, layer, i, format_name(&x->gate), format_name(&x->down), format_name(&first->gate), format_name(&first->down));
    }
    return true;
}

/* Checks that all experts of a layer have the same formats, since a device computes an expert's place from its number. */
static bool check_formats(const struct weights *w, const struct model_config *c, struct err *e)
{
    for (int i = 0; i < c->n_layers; i++)
        if (!check_experts(&w->layers[i].moe, c->n_experts, "layer", i, e))
            return false;
    return !w->mtp.present || check_experts(&w->mtp.layer.moe, c->n_experts, "MTP layer", 0, e);
}

/* ---- the list of reads */

static int by_file_offset(const void *a, const void *b)
{
    const struct plan_source *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Begins a read at byte `done` of a source. */
static void add_read(struct upload_plan *p, const struct plan_source *s, uint64_t done)
{
    if (p->n_jobs + 1 >= p->cap_jobs) {
        p->cap_jobs = p->cap_jobs ? 2 * p->cap_jobs : 1024;
        p->jobs = memory_resized(p->jobs, (size_t)p->cap_jobs * sizeof *p->jobs);
        p->first_part = memory_resized(p->first_part, (size_t)p->cap_jobs * sizeof *p->first_part);
    }
    p->jobs[p->n_jobs] = (struct read_job){.file = s->file, .offset = s->copy ? 0 : s->offset + done,
                                           .copy = s->copy ? (const char *)s->copy + done : NULL};
    p->first_part[p->n_jobs++] = p->n_parts;
}

/* Returns how many rows of the source, from `row` on, fit into the last read: all of the rest, or whole units. */
static int rows_that_fit(const struct upload_plan *p, const struct plan_source *s, int row, size_t span)
{
    const struct read_job *j = &p->jobs[p->n_jobs - 1];
    uint64_t from = (s->copy ? 0 : s->offset - j->offset) + (s->copy ? 0 : (uint64_t)row * s->row_bytes);
    bool fresh = p->first_part[p->n_jobs - 1] == p->n_parts;
    if (!fresh && (s->copy || j->copy || j->file != s->file || from - j->bytes > GAP || from >= span
                   || p->n_parts - p->first_part[p->n_jobs - 1] == N_PARTS))
        return 0;
    uint64_t n = (span - from) / s->row_bytes, left = (uint64_t)(s->rows - row);
    return (int)(n >= left ? left : n / (unsigned)s->unit * (unsigned)s->unit);
}

/* Divides the sources, in the order of the files, into reads of at most `span` bytes with the parts of tensors in each. */
static bool list_reads(struct upload_plan *p, size_t span, struct err *e)
{
    qsort(p->sources, (size_t)p->n_sources, sizeof *p->sources, by_file_offset);
    for (int i = 0; i < p->n_sources; i++) {
        const struct plan_source *s = &p->sources[i];
        for (int row = 0, n; row < s->rows; row += n) {
            uint64_t done = (uint64_t)row * s->row_bytes;
            n = p->n_jobs ? rows_that_fit(p, s, row, span) : 0;
            if (!n) {
                add_read(p, s, done);
                n = rows_that_fit(p, s, row, span);
            }
            if (!n)
                return err_set(e, "a tensor has %zu bytes in %d rows, more than a read of %zu", s->row_bytes * (size_t)s->unit, s->unit, span);
            struct read_job *j = &p->jobs[p->n_jobs - 1];
            uint64_t at = s->copy ? 0 : s->offset + done - j->offset;
            j->bytes = at + (uint64_t)n * s->row_bytes;
            p->parts = memory_grow(p->parts, p->n_parts, &p->cap_parts, sizeof *p->parts);
            p->parts[p->n_parts++] = (struct plan_part){i, row, n, (uint32_t)at};
        }
    }
    if (p->n_jobs)
        p->first_part[p->n_jobs] = p->n_parts;
    for (int i = 0; i < p->n_jobs; i++)
        p->total += p->jobs[i].bytes;
    return true;
}

bool upload_plan_fill(struct upload_plan *p, void *const *slabs, size_t span, struct err *e)
{
    p->slabs = slabs;
    p->vectors = memory_zeroed(1, p->slab_bytes[SLAB_VECTORS] + 1);
    memset(p->slab_bytes, 0, (size_t)p->n_slabs * sizeof *p->slab_bytes);       /* place_all() counts them again */
    place_all(p);
    return list_reads(p, span, e);
}

/* ---- the bytes of a read */

/* Checks that all INT4 zero points of a read, whose bytes are at `data`, are 8, which is stored as 7.  Called on any thread. */
static bool check_zeros(void *plan, int job, const char *data, struct err *e)
{
    const struct upload_plan *p = plan;
    for (int i = p->first_part[job]; i < p->first_part[job + 1]; i++) {
        const struct plan_part *part = &p->parts[i];
        const struct plan_source *s = &p->sources[part->source];
        for (int k = 0; s->n == 0 && k < part->n; k++) {
            uint32_t word;
            memcpy(&word, data + part->at + (size_t)k * 4, 4);
            if (word != 0x77777777)
                return err_set(e, "%s: the INT4 zero points at byte %llu are 0x%08x, expected 0x77777777: a GPU takes symmetric "
                               "quantization only, --backend cpu takes any", s->copy ? "the checkpoint" : p->w->store->shards.files[s->file].path,
                               (unsigned long long)(s->offset + 4 * (uint64_t)(part->first + k)), word);
        }
    }
    return true;
}

int upload_plan_pieces(const struct upload_plan *p, int job, const char *data, struct pack_piece *table)
{
    int n = 0;
    for (int i = p->first_part[job]; i < p->first_part[job + 1]; i++) {
        const struct plan_part *part = &p->parts[i];
        const struct plan_source *s = &p->sources[part->source];
        for (int k = 0; k < s->n; k++) {
            struct pack_piece *t = &table[n++];
            *t = p->targets[s->first + k];
            t->src = data + part->at;
            t->first = part->first;
            t->n = part->n;
        }
    }
    return n;
}

/* ---- the upload ---- */

enum {
    SPAN      = 8 << 20,                /* bytes of a read */
    N_THREADS = 8,
    IN_FLIGHT = 4,                      /* buffers that the device works on before anybody waits for it */
    N_BUFFERS = N_THREADS + 2 * IN_FLIGHT,
    TABLE     = (UPLOAD_PLAN_PIECES * (int)sizeof(struct pack_piece) + READER_PAGE - 1) / READER_PAGE * READER_PAGE,       /* bytes */
    EMPTY     = 512,                    /* bytes of a slab for nothing */
    PATIENCE_MS = 50,                   /* between two looks at progress() when nothing arrives */
};

struct upload {
    struct upload_plan p;
    struct dev   *d;
    struct reader *reader;
    const char  **paths;                /* of the shards */
    bool   unified;                     /* the device packs out of the pinned buffers */
    size_t buffer_bytes;                /* read into each buffer; a table follows */
    char  *pinned, *staging;            /* n_buffers of them; one in device memory */
    char  *buffers[N_BUFFERS];
    int    n_buffers, n_threads;
    int    in_flight[IN_FLIGHT], n_in_flight;
};

size_t weights_upload_bytes(void)
{
    return (size_t)N_BUFFERS * (SPAN + 2 * READER_PAGE + TABLE);
}

/* Queues the packing of a block that was read; a discrete GPU gets the bytes copied first. */
static void pack_block(struct upload *u, const struct read_block *b)
{
    struct dev *d = u->d;
    char *host = u->buffers[b->buffer], *at = u->unified ? host : u->staging;
    struct pack_piece *table = (struct pack_piece *)(void *)(host + u->buffer_bytes);
    struct pack_args a = {.pieces = (struct pack_piece *)(void *)(at + u->buffer_bytes)};
    a.n = upload_plan_pieces(&u->p, b->job, at + (b->data - host), table);
    a.n_blocks = pack_number(table, a.n);
    if (!a.n)
        return;
    if (!u->unified) {
        d->copy(d, at, host, (size_t)(b->data - host) + u->p.jobs[b->job].bytes);
        d->copy(d, at + u->buffer_bytes, table, (size_t)a.n * sizeof *table);
    }
    d->pack(d, &a);
}

/* Waits for the device; afterwards its buffers are free again. */
static bool wait_for_device(struct upload *u, struct err *e)
{
    if (!u->d->finish(u->d, e))
        return false;
    while (u->n_in_flight)
        reader_give_back(u->reader, u->in_flight[--u->n_in_flight]);
    return true;
}

/* Reads and packs all jobs, with at most IN_FLIGHT blocks under way.  False on an error, or if `progress` returns false. */
static bool stream_reads(struct upload *u, bool (*progress)(size_t done, size_t total, void *arg), void *arg, struct err *e)
{
    const struct upload_plan *p = &u->p;
    size_t done = 0;
    for (int n = 0; n < p->n_jobs;) {
        struct read_block b;
        if (progress && !progress(done, p->total, arg))
            return err_set(e, "loading was stopped");
        enum read_result r = reader_next(u->reader, &b, u->n_in_flight ? 0 : PATIENCE_MS, e);
        if (r == READ_FAILED)
            return false;
        if (r == READ_BLOCK) {
            pack_block(u, &b);
            u->in_flight[u->n_in_flight++] = b.buffer;
            done += p->jobs[b.job].bytes;
            n++;
        }
        /* Waiting costs nothing while the reading threads have other buffers to fill. */
        if ((r == READ_NOTHING_YET || u->n_in_flight == IN_FLIGHT) && !wait_for_device(u, e))
            return false;
    }
    if (!wait_for_device(u, e))
        return false;
    if (progress)
        progress(p->total, p->total, arg);
    return true;
}

/* Allocates the pinned buffers and starts the reading threads. */
static bool open_upload(struct upload *u, const struct shards *sh, size_t span, struct err *e)
{
    const struct upload_plan *p = &u->p;
    struct dev_facts facts = {.integrated = false};
    struct dev *d = u->d;
    u->unified = dev_facts(d, &facts) && facts.integrated;
    u->buffer_bytes = (span + READER_PAGE - 1) / READER_PAGE * READER_PAGE + 2 * READER_PAGE;
    u->n_buffers = p->n_jobs < N_BUFFERS ? p->n_jobs : N_BUFFERS;
    if (u->n_threads > u->n_buffers)
        u->n_threads = u->n_buffers;
    size_t each = u->buffer_bytes + TABLE;
    u->pinned = d->alloc_host(d, (size_t)u->n_buffers * each + READER_PAGE);
    u->staging = u->unified ? NULL : d->alloc(d, each);
    if (!u->pinned || (!u->unified && !u->staging))
        return err_set(e, "no memory for the %zu MiB of buffers that loading needs", (size_t)u->n_buffers * each >> 20);
    char *at = (char *)(((uintptr_t)u->pinned + READER_PAGE - 1) / READER_PAGE * READER_PAGE);
    for (int i = 0; i < u->n_buffers; i++, at += each)
        u->buffers[i] = at;
    u->paths = memory_zeroed((size_t)sh->n_files + 1, sizeof *u->paths);
    for (int i = 0; i < sh->n_files; i++)
        u->paths[i] = sh->files[i].path;
    struct reader_options o = {.paths = u->paths, .n_paths = sh->n_files, .jobs = p->jobs, .n_jobs = p->n_jobs, .buffers = u->buffers,
                               .n_buffers = u->n_buffers, .n_threads = u->n_threads, .buffer_bytes = u->buffer_bytes,
                               .check = check_zeros, .arg = &u->p};
    u->reader = reader_open(&o, e);
    return u->reader;
}

static void close_upload(struct upload *u)
{
    struct err ignored;
    reader_close(u->reader);
    u->d->finish(u->d, &ignored);       /* nothing may copy out of the buffers any more */
    u->d->free(u->d, u->staging);
    u->d->free_host(u->d, u->pinned);
    free(u->paths);
}

/* Allocates the slabs on the device; those that were allocated before a failure stay in the store. */
static bool alloc_slabs(struct weights_store *st, const struct upload_plan *p, struct dev *d, struct err *e)
{
    st->dev = d;
    st->slabs = memory_zeroed((size_t)p->n_slabs, sizeof *st->slabs);
    for (int i = 0; i < p->n_slabs; i++) {
        st->slabs[i] = d->alloc_weights(d, p->slab_bytes[i] ? p->slab_bytes[i] : EMPTY);
        if (!st->slabs[i])
            return err_set(e, "no room on the GPU for the weights: the allocation of %.2f GiB (part %d of %d) failed",
                           (double)p->slab_bytes[i] / (1 << 30), i + 1, p->n_slabs);
        st->n_slabs++;
    }
    return true;
}

bool weights_upload(struct weights *w, const struct model_config *c, struct dev *d, const struct upload_options *o,
                    bool (*progress)(size_t done, size_t total, void *arg), void *arg, struct err *e)
{
    struct weights_store *st = w->store;
    size_t span = o->span ? o->span : SPAN;
    struct upload u = {.d = d, .n_threads = o->n_threads ? o->n_threads : N_THREADS};
    if (!check_formats(w, c, e))
        return false;
    upload_plan_init(&u.p, w, c, o->heads, o->mtp);
    bool ok = alloc_slabs(st, &u.p, d, e) && upload_plan_fill(&u.p, st->slabs, span, e);
    if (ok) {
        d->copy(d, st->slabs[SLAB_VECTORS], u.p.vectors, u.p.slab_bytes[SLAB_VECTORS]);
        ok = open_upload(&u, &st->shards, span, e) && stream_reads(&u, progress, arg, e);
    }
    for (int i = 0; i < c->n_layers && ok; i++)
        weights_norms(&w->layers[i], c->n_experts, d);
    if (ok && w->mtp.present)
        weights_norms(&w->mtp.layer, c->n_experts, d);
    if (ok && w->vision.present)
        weights_vision_norms(&w->vision, c->vision.depth, d);
    ok = ok && d->finish(d, e);
    close_upload(&u);
    upload_plan_free(&u.p);
    shards_close(&st->shards);
    free(st->ranges);
    st->ranges = NULL;
    st->n_ranges = st->cap = 0;
    return ok;
}
