#include "model/kv.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/least.h"
#include "base/err.h"
#include "base/memory.h"

enum {
    ALIGN = 256,
    BACK = KV_BLOCK,                    /* at least the positions by which an answer may be taken back */
};

struct kv {
    struct dev     *dev;
    struct kv_shape shape;
    void           *memory;
    size_t          layer_bytes;        /* layers of a slot, and slots, lie one behind the other */
    struct kv_rows *rows;               /* [n_slots, n_layers] */
};

int kv_n_layers(const struct model_config *c)
{
    return c->n_full + (c->n_mtp ? 1 : 0);
}

/* ---- how large */


/* Returns what all layers have in common, without memory. */
static struct kv_rows format_of(const struct model_config *c, const struct kv_recipe *r)
{
    return (struct kv_rows){.dtype = r->dtype, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .k_format = r->keys, .v_format = r->values,
                            .sinks = r->sinks, .recent = r->recent};
}

/* Returns how many exact rows before position p the rows from p on need.  The row at p reads at most recent + KV_BLOCK - 1 of them.  The MTP block
 * continues at p - 1, one more, and then seals a row that was not read as exact: one more. */
static int tail_rows(const struct kv_recipe *r) { return kv_recipe_compresses(r) ? r->recent + KV_BLOCK + 1 : 0; }

static struct kv_rows rows_of(const struct kv_shape *s)
{
    struct kv_rows rows = format_of(s->cfg, s->recipe);
    if (kv_recipe_compresses(s->recipe))
        rows.ring = least(most(s->max_rows, KV_BLOCK) + tail_rows(s->recipe) + BACK, s->n_ctx);
    return rows;
}

static size_t exact_rows(const struct kv_rows *rows, int n_ctx)
{
    return (size_t)(kv_compressed(rows) ? rows->sinks + rows->ring : n_ctx);
}

/* Sets the pointers of a layer into its memory; returns the bytes that it takes.  NULL: only counts them. */
static size_t cut(struct kv_rows *rows, char *memory, int n_ctx)
{
    const size_t exact = exact_rows(rows, n_ctx) * kv_exact_bytes(rows) / 2;
    const size_t blocks = (size_t)(kv_sealed(rows, n_ctx) / KV_BLOCK * rows->n_kv_heads);
    const struct { void *at; size_t bytes; } list[] = {
        {&rows->k, exact}, {&rows->v, exact},
        {&rows->k_codes, blocks * kv_block_bytes(rows->k_format)}, {&rows->v_codes, blocks * kv_block_bytes(rows->v_format)},
        {&rows->k_scales, blocks * KV_BLOCK * 2}, {&rows->v_scales, blocks * KV_BLOCK * 2},
    };
    size_t at = 0;
    for (size_t i = 0; i < (kv_compressed(rows) ? sizeof list / sizeof *list : 2); i++) {
        if (memory)
            *(char **)list[i].at = memory + at;
        at += (list[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    return at;
}

static size_t layer_bytes(const struct kv_shape *s)
{
    struct kv_rows rows = rows_of(s);
    return cut(&rows, NULL, s->n_ctx);
}

size_t kv_bytes(const struct kv_shape *s)
{
    return (size_t)s->n_slots * (size_t)kv_n_layers(s->cfg) * layer_bytes(s);
}

size_t kv_token_bytes(const struct model_config *c, const struct kv_recipe *r)
{
    const struct kv_rows rows = format_of(c, r);
    return (size_t)c->n_full * kv_row_bytes(&rows);
}

size_t kv_read_bytes(const struct model_config *c, const struct kv_recipe *r, int pos)
{
    const struct kv_rows rows = format_of(c, r);
    const int codes = most(kv_sealed(&rows, pos) - r->sinks, 0);
    return (size_t)c->n_full * ((size_t)codes * kv_row_bytes(&rows) + (size_t)(pos + 1 - codes) * kv_exact_bytes(&rows));
}

bool kv_recipe_fits(const struct kv_recipe *r, const struct model_config *c, struct err *e)
{
    return !kv_recipe_compresses(r) || c->head_dim == KV_DIM
        || err_set(e, "the KV recipe '%s' is for heads of %d numbers, but this model's have %d: take --kv bf16", r->name, KV_DIM, c->head_dim);
}

/* ---- memory */

struct kv *kv_open(struct dev *d, const struct kv_shape *s, struct err *e)
{
    const int n_layers = kv_n_layers(s->cfg);
    struct kv *k = memory_zeroed(1, sizeof *k);
    *k = (struct kv){.dev = d, .shape = *s, .layer_bytes = layer_bytes(s)};
    k->rows = memory_zeroed((size_t)(s->n_slots * n_layers) + 1, sizeof *k->rows);
    k->memory = d->alloc_kv(d, kv_bytes(s));
    if (!k->memory) {
        err_set(e, "no memory for a context of %d positions: %zu MiB asked for; try a smaller --ctx", s->n_ctx, kv_bytes(s) >> 20);
        kv_close(k);
        return NULL;
    }
    for (int i = 0; i < s->n_slots * n_layers; i++) {
        k->rows[i] = rows_of(s);
        cut(&k->rows[i], (char *)k->memory + (size_t)i * k->layer_bytes, s->n_ctx);
    }
    return k;
}

void kv_close(struct kv *k)
{
    if (!k)
        return;
    if (k->memory)
        k->dev->free(k->dev, k->memory);
    free(k->rows);
    free(k);
}

const struct kv_rows *kv_slot(const struct kv *k, int slot)
{
    CHECK(slot >= 0 && slot < k->shape.n_slots);
    return k->rows + (size_t)slot * (size_t)kv_n_layers(k->shape.cfg);
}

size_t kv_slot_bytes(const struct kv *k)
{
    return (size_t)kv_n_layers(k->shape.cfg) * k->layer_bytes;
}

/* ---- tails: [k and v, layer, row], positions pos - tail_rows() .. pos - 1 */

size_t kv_tail_bytes(const struct model_config *c, const struct kv_recipe *r)
{
    const struct kv_rows rows = format_of(c, r);
    return (size_t)kv_n_layers(c) * (size_t)tail_rows(r) * kv_exact_bytes(&rows);
}

/* Copies positions from..from+n-1, which are contiguous, of all layers. */
static void copy_run(const struct kv *k, const struct kv_rows *rows, int from, int n, char *tail, int tail_from, bool load)
{
    const size_t row = kv_exact_bytes(rows) / 2, n_layers = (size_t)kv_n_layers(k->shape.cfg), layer = (size_t)tail_rows(k->shape.recipe) * row;
    const size_t there = (size_t)kv_exact_row(rows, from) * row, here = (size_t)(from - tail_from) * row;
    for (size_t which = 0; which < 2; which++) {
        char *on_device = (char *)(which ? rows->v : rows->k) + there, *in_tail = tail + which * n_layers * layer + here;
        if (load)
            k->dev->copy_rows(k->dev, on_device, k->layer_bytes, in_tail, layer, (size_t)n * row, (int)n_layers);
        else
            k->dev->copy_rows(k->dev, in_tail, layer, on_device, k->layer_bytes, (size_t)n * row, (int)n_layers);
    }
}

/* Copies the exact rows of a compressed cache that precede `pos` to `tail`, or back if `load`. */
static void copy_tail(const struct kv *k, int slot, int pos, char *tail, bool load)
{
    const struct kv_rows *rows = kv_slot(k, slot);
    const int first = most(pos - tail_rows(k->shape.recipe), 0);
    for (int from = first, n; from < pos && kv_compressed(rows); from += n) {
        n = 1;
        while (from + n < pos && kv_exact_row(rows, from + n) == kv_exact_row(rows, from) + n)
            n++;
        copy_run(k, rows, from, n, tail, first, load);
    }
}

void kv_tail_save(const struct kv *k, int slot, int pos, void *dst)
{
    copy_tail(k, slot, pos, dst, false);
}

void kv_tail_load(const struct kv *k, int slot, int pos, const void *src)
{
    copy_tail(k, slot, pos, (char *)(uintptr_t)src, true);
}

/* ---- ranges of positions: array after array, layer after layer */

/* One array of a layer, of which units from..to-1 are wanted. */
struct range { char *at; size_t unit; int from, to; };
enum { N_ARRAYS = 6 };

/* Returns how many blocks a layer has sealed when it has n rows: those that its newest row reads.  The next row seals none of them again. */
static int sealed_blocks(const struct kv_rows *rows, int n)
{
    return n < 1 ? 0 : kv_sealed(rows, n - 1) / KV_BLOCK;
}

/* behind: how many positions fewer than the model's layers this layer has (the MTP block's has one fewer). */
static void ranges_of(const struct kv_rows *rows, int from, int to, int behind, struct range list[N_ARRAYS])
{
    const bool packed = kv_compressed(rows);
    const size_t exact = kv_exact_bytes(rows) / 2, heads = (size_t)rows->n_kv_heads;
    const int block = packed ? sealed_blocks(rows, from - behind) : 0, block_end = packed ? sealed_blocks(rows, to - behind) : 0;
    int first = most(from - behind, 0), last = most(to - behind, 0);
    if (packed) {
        first = least(first, rows->sinks);
        last = least(last, rows->sinks);
    }
    const struct range all[N_ARRAYS] = {
        {rows->k, exact, first, last}, {rows->v, exact, first, last},
        {(char *)rows->k_codes, packed ? heads * kv_block_bytes(rows->k_format) : 0, block, block_end},
        {(char *)rows->v_codes, packed ? heads * kv_block_bytes(rows->v_format) : 0, block, block_end},
        {(char *)rows->k_scales, heads * KV_BLOCK * 2, block, block_end}, {(char *)rows->v_scales, heads * KV_BLOCK * 2, block, block_end},
    };
    memcpy(list, all, sizeof all);
}

static size_t range_bytes(const struct range *r) { return (size_t)(r->to - r->from) * r->unit; }

/* Copies the ranges of n_layers layers of one kind to or from host memory; host NULL: copies nothing.  Returns their bytes. */
static size_t copy_ranges(const struct kv *k, const struct range list[N_ARRAYS], int n_layers, char *host, bool load)
{
    size_t done = 0;
    for (int i = 0; i < N_ARRAYS; i++) {
        const size_t bytes = range_bytes(&list[i]);
        char *there = bytes ? list[i].at + (size_t)list[i].from * list[i].unit : NULL;
        if (bytes && host && load)
            k->dev->copy_rows(k->dev, there, k->layer_bytes, host + done, bytes, bytes, n_layers);
        else if (bytes && host)
            k->dev->copy_rows(k->dev, host + done, bytes, there, k->layer_bytes, bytes, n_layers);
        done += bytes * (size_t)n_layers;
    }
    return done;
}

/* Copies the rows of positions from .. to-1 of a slot to `host`, of the MTP block those of from-1 .. to-2, or back if `load`.  Returns the bytes;
 * host NULL: only counts. */
static size_t copy_range(const struct kv *k, int slot, int from, int to, char *host, bool load)
{
    const int n_full = k->shape.cfg->n_full, n_mtp = kv_n_layers(k->shape.cfg) - n_full;
    const struct kv_rows *rows = kv_slot(k, slot);
    struct range list[N_ARRAYS];
    ranges_of(rows, from, to, 0, list);
    size_t done = copy_ranges(k, list, n_full, host, load);
    if (!n_mtp)
        return done;
    ranges_of(rows + n_full, from, to, 1, list);
    return done + copy_ranges(k, list, n_mtp, host ? host + done : NULL, load);
}

size_t kv_saved_bytes(const struct kv *k, int from, int to)
{
    return copy_range(k, 0, from, to, NULL, false);
}

void kv_save(const struct kv *k, int slot, int from, int to, void *dst)
{
    copy_range(k, slot, from, to, dst, false);
}

void kv_load(const struct kv *k, int slot, int from, int to, const void *src)
{
    copy_range(k, slot, from, to, (char *)(uintptr_t)src, true);
}
