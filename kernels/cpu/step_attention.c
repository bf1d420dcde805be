#include "kernels/cpu/pool.h"

/* Runs attention for the rows of one slot, as the operations of a prompt do. */
static void attention_of_slot(struct cpu_pool *p, const struct step_attention_args *a)
{
    const int n = step_rows(NULL, a->n_valid, a->n_rows), heads = a->n_q_heads, kv_heads = a->kv.n_kv_heads, dim = a->kv.head_dim, pos = *a->pos;
    const size_t D = (size_t)dim, query = (size_t)heads * D, key = (size_t)kv_heads * D;
    float *q = p->scratch(p, (size_t)n * (query + key) * sizeof *q), *k = q + (size_t)n * query;
    const struct rope_position offset = a->rope_offset ? *a->rope_offset : (struct rope_position){0};
    struct rope_position at[STEP_ROWS];
    for (int t = 0; t < n; t++)
        at[t] = (struct rope_position){pos + t + offset.t, pos + t + offset.h, pos + t + offset.w};

    PLAIN(p, rmsnorm, .y = q, .x = a->qg, .w = a->q_norm, .n_rows = n * heads, .dim = dim, .eps = a->eps, .per_group = heads,
          .x_group = 2 * query, .x_row = 2 * D, .y_group = query, .y_row = D);
    PLAIN(p, rmsnorm, .y = k, .x = a->k, .w = a->k_norm, .n_rows = n * kv_heads, .dim = dim, .eps = a->eps);
    PLAIN(p, rope, .x = q, .token_stride = query, .head_stride = D, .freq = a->freq, .n_tokens = n, .n_heads = heads, .half = a->half,
          .at = at, .scale = a->rope_scale);
    PLAIN(p, rope, .x = k, .token_stride = key, .head_stride = D, .freq = a->freq, .n_tokens = n, .n_heads = kv_heads, .half = a->half,
          .at = at, .scale = a->rope_scale);
    PLAIN(p, kv_store, .kv = a->kv, .k = k, .v = a->v, .n_tokens = n, .pos = pos);
    if (kv_sealed(&a->kv, pos + n - 1) > kv_sealed(&a->kv, pos - 1))
        PLAIN(p, kv_seal, .kv = a->kv, .from = kv_sealed(&a->kv, pos - 1), .to = kv_sealed(&a->kv, pos + n - 1));
    PLAIN(p, attention, .y = a->y, .q = q, .q_token = query, .q_head = D, .kv = a->kv, .n_tokens = n, .n_q_heads = heads, .pos = pos,
          .scale = a->scale);
    PLAIN(p, sigmoid_gate, .y = a->y, .gate = a->qg + D, .gate_token = 2 * query, .gate_head = 2 * D, .n_tokens = n, .n_heads = heads,
          .head_dim = dim);
}

void step_attention_cpu(struct cpu_pool *p, const struct step_attention_args *a)
{
    const size_t query = (size_t)a->n_q_heads * (size_t)a->kv.head_dim, key = (size_t)a->kv.n_kv_heads * (size_t)a->kv.head_dim;
    struct step_run r = {0};
    while (step_next_run(&r, a->rows, a->n_rows)) {
        struct step_attention_args one = *a;
        one.y += (size_t)r.from * query;
        one.qg += (size_t)r.from * 2 * query;
        one.k += (size_t)r.from * key;
        one.v += (size_t)r.from * key;
        one.kv = kv_behind(a->kv, (size_t)r.slot * a->slot_bytes);
        one.pos = step_live_of(a->pos, r.slot);
        if (a->rope_offset)
            one.rope_offset = (const struct rope_position *)step_live_of(&a->rope_offset->t, r.slot);
        one.n_valid = step_live_of(a->n_valid, r.slot);
        one.n_rows = r.n;
        attention_of_slot(p, &one);
    }
}
