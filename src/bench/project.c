#include "bench/project.h"

#include <math.h>

#include "bench/sweep.h"
#include "kernels/deltanet.h"
#include "kernels/gemm.h"
#include "model/traffic.h"

/* A chunk of n rows at pos, and its cost so far.  Sizes of activations are bytes of a number: fp32 4, fp16 2. */
struct chunk {
    const struct model_config   *c;
    const struct kv_recipe      *kv;
    const struct prompt_machine *m;
    double n, pos;
    struct prompt_cost sum;
};

static void add(struct chunk *k, double bytes, double flops)
{
    k->sum.bytes += bytes;
    k->sum.flops += flops;
    k->sum.ms += fmax(bytes / (k->m->gb_s * 1e6), flops / (k->m->tflop_s * 1e9));
}

/* Adds a product over rows that the operation before left in fp16; narrow products read fp32.  `old`: bytes of the rows that it adds to. */
static void product(struct chunk *k, const struct weight *w, int old)
{
    const double halves = gemm_halves((int)k->n), x = linear_narrow(w) ? 4 : 2 * halves;
    add(k, (double)traffic_matrix(w, true) + k->n * (x * w->cols + (4 + old) * w->rows),
        2 * k->n * w->rows * w->cols * (linear_narrow(w) ? 2 : halves));
}

static void norm(struct chunk *k)
{
    add(k, k->n * k->c->hidden * (4 + 4 + 2 * gemm_halves((int)k->n)), 0);
}

static void delta(struct chunk *k, const struct delta_weights *w)
{
    const struct model_config *c = k->c;
    const double n = k->n, conv = config_conv_dim(c), key = config_lin_key_dim(c), value = config_lin_value_dim(c), dk = c->lin_k_dim,
        dv = c->lin_v_dim;
    product(k, &w->qkv, 0);
    product(k, &w->z, 0);
    product(k, &w->a, 0);
    product(k, &w->b, 0);
    add(k, 8 * n * conv, 0);                                            /* conv */
    add(k, n * (4 * key + 4 * c->lin_v_heads) * 4, 0);                  /* deltanet_gates */
    add(k, (n * (2 * key + 2 * value) + 2 * value * dk) * 4, n * c->lin_v_heads * (2 * DELTANET_CHUNK * (3 * dk + 2 * dv) + 6 * dk * dv));
    add(k, n * value * (4 + 4 + 2 * gemm_halves((int)n)), 0);           /* rmsnorm_gated */
    product(k, &w->out, 4);
}

/* Bytes of K and V rows alone. */
static void attention_rows(struct chunk *k, const struct attn_weights *w)
{
    const struct model_config *c = k->c;
    const double kv = (double)c->n_kv_heads * c->head_dim;
    product(k, &w->k, 0);
    product(k, &w->v, 0);
    add(k, 2 * k->n * kv * 4 * (1 + (double)c->rotary_dim / c->head_dim), 0);              /* norm, rope */
    add(k, k->n * 2 * kv * (4 + 2), 0);                                 /* kv_store */
}

static void attention(struct chunk *k, const struct attn_weights *w)
{
    const struct model_config *c = k->c;
    const double n = k->n, q = (double)c->n_q_heads * c->head_dim, end = k->pos + n;
    product(k, &w->q, 0);
    attention_rows(k, w);
    add(k, 2 * n * q * 4 * (1 + (double)c->rotary_dim / c->head_dim), 0);                  /* norm, rope */
    add(k, (double)kv_token_bytes(c, k->kv) / c->n_full * end + 2 * n * q * 4, 4 * n * (k->pos + n / 2) * q);
    add(k, n * q * (4 + 4 + 2 * gemm_halves((int)n)), 0);               /* gate */
    product(k, &w->o, 4);
}

static void mixture(struct chunk *k, const struct moe_weights *w)
{
    const struct model_config *c = k->c;
    const double n = k->n, slots = n * (c->top_k + 1), inter = c->moe_inter, halves = gemm_halves((int)n);
    const double distinct = c->n_experts * (1 - pow(1 - (double)c->top_k / c->n_experts, n));
    const struct expert_weights *x = &w->experts[0], *s = &w->shared;
    const double up = distinct * (double)(traffic_matrix(&x->gate, true) + traffic_matrix(&x->up, true))
                      + (double)(traffic_matrix(&s->gate, true) + traffic_matrix(&s->up, true));
    const double down = distinct * (double)traffic_matrix(&x->down, true) + (double)traffic_matrix(&s->down, true);
    product(k, &w->router, 0);
    product(k, &w->shared_gate, 0);
    add(k, n * (c->n_experts + 4 * c->top_k) * 4, 0);                   /* router, moe_group */
    add(k, up + n * c->hidden * 2 * halves + slots * inter * 4, 4 * slots * inter * c->hidden * halves);
    add(k, slots * inter * (4 + 2 * halves), 0);                        /* fp16 rows for the next */
    add(k, down + slots * (inter * 2 * halves + c->hidden * 4), 2 * slots * inter * c->hidden * halves);
    add(k, n * (c->top_k + 3) * c->hidden * 4, 0);                      /* moe_combine */
}

static void layer(struct chunk *k, const struct layer_weights *l)
{
    norm(k);
    if (l->full)
        attention(k, &l->attn);
    else
        delta(k, &l->delta);
    norm(k);
    mixture(k, &l->moe);
}

struct prompt_cost prompt_cost(const struct model_config *c, const struct weights *w, const struct kv_recipe *kv, int n_tokens, int chunk,
                               const struct prompt_machine *m)
{
    struct chunk k = {.c = c, .kv = kv, .m = m};
    for (int pos = 0; pos < n_tokens; pos += chunk) {
        k.pos = pos;
        k.n = n_tokens - pos < chunk ? n_tokens - pos : chunk;
        for (int i = 0; i < c->n_layers; i++)
            layer(&k, &w->layers[i]);
        if (w->mtp.present) {
            product(&k, &w->mtp.fc, 0);
            norm(&k);
            attention_rows(&k, &w->mtp.layer.attn);
        }
    }
    return k.sum;
}

/* `q35chat bench project`: the speed of this model on a machine with another memory.  Steps are measured here and their bytes
 * counted; there a step takes its bytes over (the bandwidth there times the share of the plain read that the step reaches here). */

static const double acceptances[] = {0.3, 0.5, 0.7, 0.8, 0.9, 0.95};
static const int contexts[] = {0, 4096, 32768};
enum { N_CONTEXTS = sizeof contexts / sizeof *contexts };

/* Bandwidth of the step as a fraction of the plain read. */
static double read_share(const struct sweep *w, const struct sweep_step *s)
{
    return s->bytes / s->ms * 1e-6 / w->s.read_gb_s;
}

/* Time there of a step that verifies rows - 1 drafts and makes as many. */
static double projected_ms(const struct sweep *w, const struct sweep_step *s, double *bytes)
{
    *bytes = s->bytes + subject_draft_bytes(&w->s, s->rows - 1);
    return *bytes / (w->s.o->bandwidth * 1e6 * read_share(w, s));
}

static void report_projected_steps(const struct sweep *w)
{
    static const struct column columns[] = {
        {"context", "context", 8, 0}, {"rows", "rows", 5, 0}, {"gb", "GB", 8, 3}, {"ms", "ms here", 9, 3}, {"of_read", "% read", 7, 1},
        {"gb_drafts", "GB + drafts", 11, 3}, {"projected_ms", "ms there", 9, 3},
    };
    report_table(w->r, "steps: here without drafts, there with the drafts that they make", columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < w->n_steps; i++) {
        const struct sweep_step *s = &w->steps[i];
        double bytes, ms = projected_ms(w, s, &bytes);
        const double cells[] = {s->pos, s->rows, s->bytes * 1e-9, s->ms, 100 * read_share(w, s), bytes * 1e-9, ms};
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            report_number(w->r, cells[c]);
    }
}

/* Mean tokens of a step with n drafts, each accepted with probability p if all before it are. */
static double mean_tokens(double p, int n)
{
    double tokens = 1, all = 1;
    for (int i = 0; i < n; i++)
        tokens += all *= p;
    return tokens;
}

/* Adds a row with the number of drafts that gives the most tokens a second. */
static void report_best(const struct sweep *w, int pos, double p)
{
    const struct sweep_step *best = NULL;
    double best_rate = 0, best_bytes = 0, none = NAN;
    for (int rows = 1; rows <= STEP_ROWS; rows++) {
        const struct sweep_step *s = sweep_step_of(w, rows, pos);
        double bytes = 0, rate = s ? mean_tokens(p, rows - 1) * 1e3 / projected_ms(w, s, &bytes) : 0;
        if (rows == 1 && s)
            none = rate;
        if (rate > best_rate) {
            best = s;
            best_rate = rate;
            best_bytes = bytes;
        }
    }
    if (!best)
        return;
    const double tokens = mean_tokens(p, best->rows - 1),
        cells[] = {pos, p, best->rows - 1, tokens, best_bytes / tokens * 1e-9, best_rate, best_rate / none};
    for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
        report_number(w->r, cells[c]);
}

static void report_rates(const struct sweep *w)
{
    static const struct column columns[] = {
        {"context", "context", 8, 0}, {"acceptance", "acceptance", 10, 2}, {"drafts", "drafts", 6, 0}, {"tokens_step", "tokens/step", 11, 2},
        {"gb_token", "GB/token", 9, 3}, {"tok_s", "tok/s there", 11, 1}, {"gain", "x no drafts", 11, 2},
    };
    report_table(w->r, "tokens a second there, by the share of drafts that are accepted, at the best number of drafts", columns,
                 sizeof columns / sizeof *columns);
    for (int i = 0; i < N_CONTEXTS; i++)
        for (size_t a = 0; a < sizeof acceptances / sizeof *acceptances; a++)
            report_best(w, contexts[i], acceptances[a]);
}

/* Calculates prompts; nothing is measured. */
static void report_prompts(const struct sweep *w)
{
    static const struct column columns[] = {
        {"tokens", "tokens", 8, 0}, {"gb", "GB", 9, 1}, {"tflop", "TFLOP", 9, 1}, {"ms", "ms there", 10, 1}, {"tok_s", "tok/s there", 11, 0},
    };
    static const int tokens[] = {128, 2048, 8192, 32768};
    const struct model *m = &w->s.m;
    const struct prompt_machine there = {w->s.o->bandwidth, w->s.o->tflops};
    report_table(w->r, "prompts there, by calculation", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const struct prompt_cost p = prompt_cost(&m->cfg, &m->weights, m->kv, tokens[i], w->chunk, &there);
        const double cells[] = {tokens[i], p.bytes * 1e-9, p.flops * 1e-12, p.ms, 1e3 * tokens[i] / p.ms};
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            report_number(w->r, cells[c]);
    }
    report_note(w->r, "prompts: each operation takes its bytes over %g GB/s or its arithmetic over %g TFLOP/s, whichever is longer; nothing of it is "
                      "measured, and no kernel reaches both rates in full", there.gb_s, there.tflop_s);
}

static bool measure(struct sweep *w)
{
    const int most = w->s.o->rows;
    for (int i = 0; i < N_CONTEXTS; i++)
        if (contexts[i] + SWEEP_MARGIN <= w->n_ctx && !sweep_steps(w, contexts[i], most))
            return false;
    report_projected_steps(w);
    report_rates(w);
    report_note(w->r, "the rule: time there = bytes / (%g GB/s x share of the plain read that the step reaches here). Bytes of drafting are counted, "
                "the work between the steps is not", w->s.o->bandwidth);
    report_note(w->r, "acceptance is conditional: of a draft when all before it were accepted");
    report_prompts(w);
    return true;
}

int bench_project(const struct bench_options *given)
{
    struct bench_options o = *given;
    struct sweep w;
    struct report r;
    o.rows = o.rows ? o.rows : STEP_ROWS;
    report_open(&r, "project", &o);
    bool ok = sweep_open(&w, &o, &r);
    if (ok) {
        subject_report(&w.s, &r);
        report_fact(&r, "there", "%g GB/s", o.bandwidth);
    }
    ok = ok && measure(&w);
    int status = report_close(&r, ok ? NULL : &w.e);
    sweep_close(&w);
    return status;
}
