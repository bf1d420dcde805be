/* `q35chat model inspect DIR`: what a checkpoint holds, by part of the model and by format. */
#include "debug/debug.h"

#include <string.h>

#include "base/log.h"
#include "model/config.h"
#include "model/weights.h"

enum { N_FORMATS = WEIGHT_INT8 + 1 };

struct part {
    const char *name;
    size_t      bytes[N_FORMATS];
};
enum { EMBED, HEAD, ATTENTION, DELTA, ROUTER, SHARED, EXPERTS, MTP, N_PARTS };

static void add(struct part *p, const struct weight *w)
{
    p->bytes[w->format] += weight_bytes(w);
}

static void add_expert(struct part *p, const struct expert_weights *x)
{
    add(p, &x->gate);
    add(p, &x->up);
    add(p, &x->down);
}

static void add_layer(struct part *mixer, struct part *router, struct part *shared, struct part *experts, const struct layer_weights *l, int n_experts)
{
    const struct weight *attn[] = {&l->attn.q, &l->attn.k, &l->attn.v, &l->attn.o};
    const struct weight *delta[] = {&l->delta.qkv, &l->delta.z, &l->delta.a, &l->delta.b, &l->delta.out};
    for (int i = 0; i < (l->full ? 4 : 5); i++)
        add(mixer, l->full ? attn[i] : delta[i]);
    add(router, &l->moe.router);
    add(router, &l->moe.shared_gate);
    add_expert(shared, &l->moe.shared);
    for (int i = 0; i < n_experts; i++)
        add_expert(experts, &l->moe.experts[i]);
}

static size_t total(const struct part *p)
{
    size_t n = 0;
    for (int f = 0; f < N_FORMATS; f++)
        n += p->bytes[f];
    return n;
}

static void print_row(FILE *out, const struct part *p)
{
    const enum weight_format columns[] = {WEIGHT_INT4, WEIGHT_FP8, WEIGHT_DENSE};
    fprintf(out, "%-14s", p->name);
    for (int i = 0; i < 3; i++)
        if (p->bytes[columns[i]])
            fprintf(out, " %12.2f", (double)p->bytes[columns[i]] * 1e-6);
        else
            fprintf(out, " %12s", "-");
    fprintf(out, " %12.2f\n", (double)total(p) * 1e-6);
}

static void print_parts(FILE *out, const struct model_config *c, const struct weights *w)
{
    struct part p[N_PARTS] = {
        [EMBED] = {.name = "embedding"}, [HEAD] = {.name = "head"}, [ATTENTION] = {.name = "attention"}, [DELTA] = {.name = "DeltaNet"},
        [ROUTER] = {.name = "router"}, [SHARED] = {.name = "shared expert"}, [EXPERTS] = {.name = "experts"}, [MTP] = {.name = "MTP block"},
    };
    struct part vectors = {.name = "vectors"}, sum = {.name = "total"};
    add(&p[EMBED], &w->embed);
    if (!c->tied)
        add(&p[HEAD], &w->head);
    for (int i = 0; i < c->n_layers; i++)
        add_layer(&p[w->layers[i].full ? ATTENTION : DELTA], &p[ROUTER], &p[SHARED], &p[EXPERTS], &w->layers[i], c->n_experts);
    if (w->mtp.present) {
        add(&p[MTP], &w->mtp.fc);
        add_layer(&p[MTP], &p[MTP], &p[MTP], &p[MTP], &w->mtp.layer, c->n_experts);
    }
    fprintf(out, "\n%-14s %12s %12s %12s %12s\n", "MB", "INT4", "FP8", "16/32 bit", "all");
    for (int i = 0; i < N_PARTS; i++) {
        print_row(out, &p[i]);
        for (int f = 0; f < N_FORMATS; f++)
            sum.bytes[f] += p[i].bytes[f];
    }
    vectors.bytes[WEIGHT_DENSE] = w->stats.bytes - total(&sum);         /* norms, convolutions, gates: what is no matrix */
    sum.bytes[WEIGHT_DENSE] += vectors.bytes[WEIGHT_DENSE];
    print_row(out, &vectors);
    print_row(out, &sum);
    size_t token = total(&sum) - (c->tied ? 0 : total(&p[EMBED])) - total(&p[MTP]) - total(&p[EXPERTS]) / (size_t)c->n_experts * (size_t)(c->n_experts - c->top_k);
    fprintf(out, "\none token without drafting reads %.2f MB of weights (head as stored)\n", (double)token * 1e-6);
}

static void print_facts(FILE *out, const struct model_config *c, const struct weights *w)
{
    fprintf(out, "model    %s: %d layers (%d attention, %d DeltaNet), hidden %d, %d of %d experts a token, vocabulary %d, %d positions\n", c->name,
            c->n_layers, c->n_full, c->n_delta, c->hidden, c->top_k, c->n_experts, c->vocab, c->max_pos);
    fprintf(out, "files    %d, %.2f MB\n", w->stats.n_files, (double)w->stats.file_bytes * 1e-6);
    fprintf(out, "tensors  %d bound (%d of the MTP block), %d skipped, %d stale copies\n", w->stats.n_tensors, w->stats.n_mtp, w->stats.n_skipped,
            w->stats.n_stale);
    fprintf(out, "matrices %d INT4, %d FP8, %d in 16 or 32 bits%s\n", w->stats.n_int4, w->stats.n_fp8, w->stats.n_dense,
            w->mtp.present ? "" : "; no MTP block: no drafting with it");
}

int debug_inspect(const char *dir, FILE *out)
{
    struct model_config c;
    struct weights w = {0};
    struct err e = {0};
    bool ok = config_load(&c, dir, &e) && weights_open(&w, &c, dir, &e);
    if (ok) {
        print_facts(out, &c, &w);
        print_parts(out, &c, &w);
    } else
        log_warn("%s", e.msg);
    weights_close(&w);
    return ok ? 0 : 1;
}
