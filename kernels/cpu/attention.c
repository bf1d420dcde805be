#include <math.h>

#include "kernels/cpu/vec.h"
#include "kernels/ops.h"

enum { MAX_DIM = 512 };

void kv_store_cpu(const struct kv_store_args *a, int begin, int end)
{
    size_t row = (size_t)a->kv.n_kv_heads * (size_t)a->kv.head_dim;
    for (int t = begin; t < end; t++) {
        size_t from = (size_t)t * row, to = (size_t)kv_exact_row(&a->kv, a->pos + t) * row;
        for (int which = 0; which < 2; which++) {
            const float *x = (which ? a->v : a->k) + from;
            void *y = which ? a->kv.v : a->kv.k;
            if (a->kv.dtype == DT_F32)
                memcpy((float *)y + to, x, row * sizeof *x);
            else
                for (size_t i = 0; i < row; i++)
                    ((uint16_t *)y)[to + i] = f32_bf16(x[i]);
        }
    }
}

/* ---- rows of one KV head ---- */

/* Loads the exact row of a position as fp32. */
static void load_exact(float *x, const struct kv_rows *kv, enum kv_role role, int kv_head, int pos)
{
    size_t at = ((size_t)kv_exact_row(kv, pos) * (size_t)kv->n_kv_heads + (size_t)kv_head) * (size_t)kv->head_dim;
    const void *base = role == KV_KEY ? kv->k : kv->v;
    floats_f32(x, (const char *)base + at * (kv->dtype == DT_F32 ? 4 : 2), kv->dtype, (size_t)kv->head_dim);
}

/* Returns the codes and scales of the block of a position. */
static uint8_t *block_codes(const struct kv_rows *kv, enum kv_role role, int kv_head, int pos, uint16_t **scales)
{
    size_t i = (size_t)(pos / KV_BLOCK) * (size_t)kv->n_kv_heads + (size_t)kv_head;
    *scales = (role == KV_KEY ? kv->k_scales : kv->v_scales) + i * KV_BLOCK;
    return role == KV_KEY ? kv->k_codes + i * kv_block_bytes(kv->k_format) : kv->v_codes + i * kv_block_bytes(kv->v_format);
}

static enum kv_format format(const struct kv_rows *kv, enum kv_role role) { return role == KV_KEY ? kv->k_format : kv->v_format; }

/* Encodes KV_BLOCK exact rows of one head, from position `first` on, into a block of codes and scales. */
static void seal_block(const struct kv_rows *kv, enum kv_role role, int kv_head, int first)
{
    uint16_t *scales;
    uint8_t *block = block_codes(kv, role, kv_head, first, &scales);
    for (int n = 0; n < KV_BLOCK; n++) {
        float x[KV_DIM];
        uint8_t codes[KV_DIM];
        load_exact(x, kv, role, kv_head, first + n);
        kv_encode(format(kv, role), role, x, codes, &scales[n]);
        kv_put(format(kv, role), role, block, n, codes);
    }
}

/* A unit is one head of one block. */
void kv_seal_cpu(const struct kv_seal_args *a, int begin, int end)
{
    for (int u = begin; u < end; u++) {
        int first = a->from + u / a->kv.n_kv_heads * KV_BLOCK, head = u % a->kv.n_kv_heads;
        seal_block(&a->kv, KV_KEY, head, first);
        seal_block(&a->kv, KV_VALUE, head, first);
    }
}

/* ---- attention ---- */

static inline f32x8 load_kv(const void *base, enum dtype t, size_t at)
{
    return t == DT_F32 ? load_f32((const float *)base + at) : load_bf16((const uint16_t *)base + at);
}

/* Rows of a block that are codes, decoded but still rotated: once for all heads that read them. */
struct decoded {
    float k[KV_BLOCK][KV_DIM], v[KV_BLOCK][KV_DIM];
};

static void decode(struct decoded *d, const struct kv_rows *kv, int kv_head, int p0)
{
    uint16_t *k_scales, *v_scales;
    const uint8_t *k = block_codes(kv, KV_KEY, kv_head, p0, &k_scales), *v = block_codes(kv, KV_VALUE, kv_head, p0, &v_scales);
    for (int n = 0; n < KV_BLOCK; n++) {
        kv_fetch(kv->k_format, KV_KEY, k, k_scales, n, d->k[n]);
        kv_fetch(kv->v_format, KV_VALUE, v, v_scales, n, d->v[n]);
    }
}

/* One query head of one row; head_dim is a multiple of 8. */
struct head {
    const float *q;
    float       *y;
    const struct kv_rows *kv;
    int          kv_head;
    int          n, sealed;             /* positions that it reads; sinks..sealed-1 are codes */
    float        max, sum;
    float        turned[MAX_DIM];       /* q after norm and rope, if it was raw */
    float        rotated[KV_DIM];       /* q, for codes */
    f32x8        acc[MAX_DIM / 8];      /* sums of weighted values */
    f32x8        acc_codes[KV_DIM / 8];    /* the same for codes, still rotated */
};

static bool is_code(const struct head *h, int pos) { return pos >= h->kv->sinks && pos < h->sealed; }

static size_t exact_at(const struct head *h, int pos)
{
    return ((size_t)kv_exact_row(h->kv, pos) * (size_t)h->kv->n_kv_heads + (size_t)h->kv_head) * (size_t)h->kv->head_dim;
}

/* Returns q · k of a position, which is stored as codes or exactly; codes are compared with the rotated query. */
static float dot_key(const struct head *h, const struct decoded *d, int pos)
{
    f32x8 dot = {0};
    if (is_code(h, pos)) {
        const float *y = d->k[pos % KV_BLOCK];
        for (int i = 0; i < KV_DIM; i += 8)
            dot += load_f32(h->rotated + i) * load_f32(y + i);
        return sum8(dot);
    }
    size_t at = exact_at(h, pos);
    for (int i = 0; i < h->kv->head_dim; i += 8)
        dot += load_f32(h->q + i) * load_kv(h->kv->k, h->kv->dtype, at + (size_t)i);
    return sum8(dot);
}

/* Adds weight · v of a position to the sum of codes, which is rotated, or to that of exact rows. */
static void add_value(struct head *h, const struct decoded *d, int pos, float weight)
{
    if (is_code(h, pos)) {
        const float *y = d->v[pos % KV_BLOCK];
        for (int i = 0; i < KV_DIM; i += 8)
            h->acc_codes[i / 8] += splat(weight) * load_f32(y + i);
        return;
    }
    size_t at = exact_at(h, pos);
    for (int i = 0; i < h->kv->head_dim; i += 8)
        h->acc[i / 8] += splat(weight) * load_kv(h->kv->v, h->kv->dtype, at + (size_t)i);
}

static void multiply(struct head *h, float by)
{
    for (int i = 0; i < h->kv->head_dim / 8; i++)
        h->acc[i] *= splat(by);
    for (int i = 0; i < KV_DIM / 8 && h->sealed; i++)
        h->acc_codes[i] *= splat(by);
}

/* Norms and turns the query of token t. */
static void turn(struct head *h, const struct attention_args *a, int t)
{
    const struct attention_turn *u = &a->turn;
    rmsnorm_cpu(&(struct rmsnorm_args){.y = h->turned, .x = h->q, .w = u->norm, .n_rows = 1, .dim = a->kv.head_dim, .eps = u->eps}, 0, 1);
    rope_cpu(&(struct rope_args){.x = h->turned, .freq = u->freq, .n_tokens = 1, .n_heads = 1, .half = u->half, .at = u->at ? u->at + t : NULL,
                                 .first = u->first + t, .scale = u->scale}, 0, 1);
    h->q = h->turned;
}

/* Sets up one head of one token: its query, its place in the result, the KV head that it shares. */
static void begin_head(struct head *h, const struct attention_args *a, int unit)
{
    const int t = unit / a->n_q_heads, head = unit % a->n_q_heads;
    *h = (struct head){
        .q = a->q + (size_t)t * a->q_token + (size_t)head * a->q_head, .y = a->y + (size_t)unit * (size_t)a->kv.head_dim, .kv = &a->kv,
        .kv_head = head / (a->n_q_heads / a->kv.n_kv_heads), .n = a->pos + t + 1, .sealed = kv_sealed(&a->kv, a->pos + t), .max = -INFINITY,
    };
    if (a->turn.norm)
        turn(h, a, t);
    if (h->sealed)
        kv_rotate(KV_KEY, h->q, h->rotated);
}

/* Attends to positions p0..p0+KV_BLOCK-1, as far as the row reads them. */
static void attend(struct head *h, const struct decoded *d, int p0, float scale)
{
    int m = h->n - p0 < KV_BLOCK ? h->n - p0 : KV_BLOCK;
    float s[KV_BLOCK], block_max = h->max;
    for (int p = 0; p < m; p++) {
        s[p] = dot_key(h, d, p0 + p) * scale;
        block_max = fmaxf(block_max, s[p]);
    }
    float keep = expf(h->max - block_max);      /* 0 at the first block */
    h->sum *= keep;
    multiply(h, keep);
    for (int p = 0; p < m; p++) {
        float w = expf(s[p] - block_max);
        h->sum += w;
        add_value(h, d, p0 + p, w);
    }
    h->max = block_max;
}

static void end_head(const struct head *h)
{
    float codes[KV_DIM] = {0};
    if (h->sealed)
        kv_unrotate(KV_VALUE, (const float *)h->acc_codes, codes);
    for (int i = 0; i < h->kv->head_dim; i++)
        h->y[i] = (h->sealed ? h->acc[i / 8][i % 8] + codes[i] : h->acc[i / 8][i % 8]) / h->sum;
}

/* Attends with all heads of a KV head together, so that a block is decoded once for them. */
static void attend_together(struct head *heads, int n, int kv_head, float scale)
{
    struct decoded d;
    int end = 0, sealed = 0;
    for (int i = 0; i < n; i++)
        if (heads[i].kv_head == kv_head) {
            end = heads[i].n > end ? heads[i].n : end;
            sealed = heads[i].sealed > sealed ? heads[i].sealed : sealed;
        }
    for (int p0 = 0; p0 < end; p0 += KV_BLOCK) {
        if (p0 < sealed)
            decode(&d, heads->kv, kv_head, p0);
        for (int i = 0; i < n; i++)
            if (heads[i].kv_head == kv_head && p0 < heads[i].n)
                attend(&heads[i], &d, p0, scale);
    }
}

/* Gates one head of one token. */
static void gate_head(const struct sigmoid_gate_args *a, int t, int h)
{
    float *y = a->y + ((size_t)t * (size_t)a->n_heads + (size_t)h) * (size_t)a->head_dim;
    const float *g = a->gate + (size_t)t * a->gate_token + (size_t)h * a->gate_head;
    for (int i = 0; i < a->head_dim; i++)
        y[i] *= sigmoid(g[i]);
}

void sigmoid_gate_cpu(const struct sigmoid_gate_args *a, int begin, int end)
{
    for (int t = begin; t < end; t++)
        for (int h = 0; h < a->n_heads; h++)
            gate_head(a, t, h);
}

void attention_cpu(const struct attention_args *a, int begin, int end)
{
    enum { TOGETHER = 32 };
    struct head heads[TOGETHER];
    for (int u = begin, n; u < end; u += n) {
        n = end - u < TOGETHER ? end - u : TOGETHER;
        for (int i = 0; i < n; i++)
            begin_head(&heads[i], a, u + i);
        for (int kv_head = 0; kv_head < a->kv.n_kv_heads; kv_head++)
            attend_together(heads, n, kv_head, a->scale);
        for (int i = 0; i < n; i++) {
            end_head(&heads[i]);
            if (a->gate)
                gate_head(a->gate, (u + i) / a->n_q_heads, (u + i) % a->n_q_heads);
        }
    }
}
