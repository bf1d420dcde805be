#include "prepare/inspect.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "base/err.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "engine/load.h"
#include "model/cache.h"
#include "model/weights.h"
#include "prepare/scan.h"

enum { N_FORMATS = WEIGHT_INT8 + 1, MAX_CONTEXTS = 4, MAX_RECIPES = 8 };
static const char *const format_names[N_FORMATS] = {"-", "16/32", "INT4", "FP8", "INT8"};

/* A part of a layer, or of the model. */
struct part {
    size_t bytes[N_FORMATS];
    size_t read;                        /* by one token */
};

struct row {                            /* one layer */
    const char *kind;
    struct part mixer, router, shared, experts;
    struct scan_stats int4, fp8;        /* scales */
};

struct sheet {
    struct model_config c;
    struct weights      w;
    struct row         *layers;         /* followed by the MTP block */
    struct part         embed, head, tower;
    size_t              vectors;
    size_t              token, token_int8;      /* bytes of weights that a token reads, with the head as stored or in INT8 */
    double              gb_s;
    const char         *reader;         /* the measured device, "CPU" or "GPU"; NULL: gb_s was given */
};

/* ---- adding up */

static size_t total(const struct part *p)
{
    size_t n = 0;
    for (int f = 0; f < N_FORMATS; f++)
        n += p->bytes[f];
    return n;
}

static void add_weight(struct part *p, const struct weight *w)
{
    p->bytes[w->format] += weight_bytes(w);
    p->read += weight_bytes(w);
}

static void add_expert(struct part *p, const struct expert_weights *x)
{
    add_weight(p, &x->gate);
    add_weight(p, &x->up);
    add_weight(p, &x->down);
}

/* Adds up the bytes of a layer by part and format; of the experts a token reads top_k. */
static void fill_row(struct row *r, const struct layer_weights *l, const struct model_config *c)
{
    const struct weight *attn[] = {&l->attn.q, &l->attn.k, &l->attn.v, &l->attn.o};
    const struct weight *delta[] = {&l->delta.qkv, &l->delta.z, &l->delta.a, &l->delta.b, &l->delta.out};
    r->kind = l->full ? "attention" : "DeltaNet";
    for (int i = 0; i < (l->full ? 4 : 5); i++)
        add_weight(&r->mixer, l->full ? attn[i] : delta[i]);
    add_weight(&r->router, &l->moe.router);
    add_weight(&r->router, &l->moe.shared_gate);
    add_expert(&r->shared, &l->moe.shared);
    for (int i = 0; i < c->n_experts; i++)
        add_expert(&r->experts, &l->moe.experts[i]);
    r->experts.read = r->experts.read / (size_t)c->n_experts * (size_t)c->top_k;
}

static size_t row_read(const struct row *r)
{
    return r->mixer.read + r->router.read + r->shared.read + r->experts.read;
}

static size_t row_total(const struct row *r)
{
    return total(&r->mixer) + total(&r->router) + total(&r->shared) + total(&r->experts);
}

/* ---- scales: a full-size checkpoint has 2 GB of them, read by several threads */

struct scales {
    struct sheet       *s;
    const struct shards *shards;
    pthread_mutex_t     lock;           /* protects the rows */
    bool                failed;
};

/* Returns the row of a tensor; NULL: it belongs to no layer. */
static struct row *row_of(struct sheet *s, const char *name)
{
    const char *layer = strstr(name, "layers.");
    int i = layer ? atoi(layer + strlen("layers.")) : -1;
    bool mtp = !strncmp(name, "mtp.", 4);
    return mtp ? &s->layers[s->c.n_layers] : i >= 0 && i < s->c.n_layers ? &s->layers[i] : NULL;
}

/* Adds the statistics of tensor i to its layer, if it is one of scales; called by several threads. */
static void read_scales(void *arg, int i)
{
    struct scales *x = arg;
    const struct shard_tensor *t = &x->shards->list[i];
    struct scan_stats stats = {0};
    bool int4 = text_ends(text_of(t->name), ".scales"), fp8 = text_ends(text_of(t->name), ".weight_scale_inv");
    struct row *r = int4 || fp8 ? row_of(x->s, t->name) : NULL;
    if (!r)
        return;
    bool ok = scan_tensor(&stats, shards_file(x->shards, t), t->t);
    pthread_mutex_lock(&x->lock);
    scan_add(int4 ? &r->int4 : &r->fp8, &stats);
    x->failed |= !ok;
    pthread_mutex_unlock(&x->lock);
}

/* Reads all scales of the checkpoint. */
static bool fill_scales(struct sheet *s, const char *dir, struct err *e)
{
    struct shards shards;
    struct scales x = {.s = s, .shards = &shards};
    bool ok = shards_open(&shards, dir, e);
    pthread_mutex_init(&x.lock, NULL);
    if (ok)
        scan_each_tensor(&shards, read_scales, &x);
    pthread_mutex_destroy(&x.lock);
    shards_close(&shards);
    return ok && (!x.failed || err_set(e, "cannot read the scales of %s: a file of it has changed", dir));
}

/* Adds up the bytes of all layers, and those that a token reads. */
static void fill_sheet(struct sheet *s)
{
    const struct model_config *c = &s->c;
    const struct weights *w = &s->w;
    size_t matrices = 0;
    s->layers = memory_zeroed((size_t)c->n_layers + 1, sizeof *s->layers);
    add_weight(&s->embed, &w->embed);
    if (!c->tied)
        add_weight(&s->head, &w->head);
    for (int i = 0; i < c->n_layers; i++) {
        fill_row(&s->layers[i], &w->layers[i], c);
        s->token += row_read(&s->layers[i]);
        matrices += row_total(&s->layers[i]);
    }
    struct row *mtp = &s->layers[c->n_layers];
    if (w->mtp.present) {
        fill_row(mtp, &w->mtp.layer, c);
        mtp->kind = "MTP block";
        add_weight(&mtp->mixer, &w->mtp.fc);
        matrices += row_total(mtp);
    }
    s->tower.bytes[WEIGHT_DENSE] = w->stats.vision_bytes;
    s->vectors = w->stats.bytes - matrices - total(&s->embed) - total(&s->head) - w->stats.vision_bytes;
    s->token += s->vectors;
    s->token_int8 = s->token + (size_t)c->vocab * ((size_t)c->hidden + 2);
    s->token += weight_bytes(&w->head);
}

/* ---- how fast memory is read here */

static bool measure(struct sheet *s, struct err *e)
{
    struct err why = {0};
    struct dev *d = dev_open(NULL, 0, &why);
    s->gb_s = d ? d->read_gb_s(d, 0, &why) : 0;
    s->reader = d && !d->caps->packs_weights ? "CPU" : "GPU";
    dev_close(d);
    return s->gb_s > 0 || err_set(e, "cannot measure the memory bandwidth; give it with --bandwidth: %s", why.msg);
}

/* ---- memory */

struct plan {
    const char *kv;
    int         n_ctx;
    size_t      total, kv_bytes, available, margin;
    bool        fits;                   /* on this machine now */
};

static struct plan make_plan(const struct sheet *s, const struct kv_recipe *kv, int n_ctx)
{
    struct memory_plan m;
    bool fits = load_estimate(&s->c, &s->w, kv, n_ctx, &m);
    return (struct plan){kv->name, n_ctx, m.total, m.kv_bytes, m.available, m.margin, fits};
}

/* Makes memory plans for each KV recipe and context that the model reaches; returns how many. */
static int make_plans(const struct sheet *s, struct plan *out)
{
    static const int contexts[] = {32768, 131072, 262144};
    int n = 0;
    for (int k = 0; kv_recipe_at(k) && k < MAX_RECIPES; k++)
        for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++)
            if (contexts[i] <= s->c.max_pos)
                out[n++] = make_plan(s, kv_recipe_at(k), contexts[i]);
            else if (!i || contexts[i - 1] < s->c.max_pos)
                out[n++] = make_plan(s, kv_recipe_at(k), s->c.max_pos);
    return n;
}

/* ---- as text */

static double mb(size_t bytes) { return (double)bytes * 1e-6; }
static double gib(size_t bytes) { return (double)bytes / (1024.0 * 1024 * 1024); }

/* Appends the lines about model, files, tensors and matrices. */
static void print_facts(const struct sheet *s, struct buf *out)
{
    const struct model_config *c = &s->c;
    const struct weights_stats *t = &s->w.stats;
    buf_addf(out, "model    %s: %d layers (%d attention, %d DeltaNet), hidden %d, %d of %d experts a token, vocabulary %d, %d positions\n", c->name,
             c->n_layers, c->n_full, c->n_delta, c->hidden, c->top_k, c->n_experts, c->vocab, c->max_pos);
    buf_addf(out, "files    %d, %.2f MB\n", t->n_files, mb(t->file_bytes));
    buf_addf(out, "tensors  %d bound (%d of the MTP block, %d of the vision tower), %d skipped, %d stale copies\n", t->n_tensors, t->n_mtp,
             t->n_vision, t->n_skipped, t->n_stale);
    buf_addf(out, "matrices %d INT4, %d FP8, %d in 16 or 32 bits%s\n", t->n_int4, t->n_fp8, t->n_dense,
             s->w.mtp.present ? "" : "; no MTP block: no drafting with it");
}

static void sum_part(struct part *sum, const struct part *p)
{
    for (int f = 0; f < N_FORMATS; f++)
        sum->bytes[f] += p->bytes[f];
    sum->read += p->read;
}

/* Appends a row of the table of parts. */
static void print_part(const char *name, const struct part *p, size_t read, struct buf *out)
{
    static const enum weight_format columns[] = {WEIGHT_INT4, WEIGHT_FP8, WEIGHT_DENSE};
    buf_addf(out, "%-14s", name);
    for (int i = 0; i < 3; i++)
        if (p->bytes[columns[i]])
            buf_addf(out, " %12.2f", mb(p->bytes[columns[i]]));
        else
            buf_addf(out, " %12s", "-");
    buf_addf(out, " %12.2f %12.2f\n", mb(total(p)), mb(read));
}

/* Appends the table of bytes by part and format. */
static void print_parts(const struct sheet *s, struct buf *out)
{
    struct part attention = {0}, delta = {0}, router = {0}, shared = {0}, experts = {0}, mtp = {0}, sum = {0}, vectors = {0};
    for (int i = 0; i < s->c.n_layers; i++) {
        sum_part(s->w.layers[i].full ? &attention : &delta, &s->layers[i].mixer);
        sum_part(&router, &s->layers[i].router);
        sum_part(&shared, &s->layers[i].shared);
        sum_part(&experts, &s->layers[i].experts);
    }
    const struct row *block = &s->layers[s->c.n_layers];
    sum_part(&mtp, &block->mixer), sum_part(&mtp, &block->router), sum_part(&mtp, &block->shared), sum_part(&mtp, &block->experts);
    vectors.bytes[WEIGHT_DENSE] = s->vectors;           /* norms, convolutions, gates: everything but matrices */
    const struct { const char *name; const struct part *p; size_t read; } rows[] = {
        {"embedding", &s->embed, 0}, {"head", &s->head, weight_bytes(&s->w.head)}, {"attention", &attention, attention.read},
        {"DeltaNet", &delta, delta.read}, {"router", &router, router.read}, {"shared expert", &shared, shared.read},
        {"experts", &experts, experts.read}, {"MTP block", &mtp, 0}, {"vision tower", &s->tower, 0},
        {"vectors", &vectors, s->vectors},
    };
    buf_addf(out, "\n%-14s %12s %12s %12s %12s %12s\n", "MB", "INT4", "FP8", "16/32 bit", "all", "a token");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_part(rows[i].name, rows[i].p, rows[i].read, out);
        sum_part(&sum, rows[i].p);
    }
    print_part("total", &sum, s->token, out);
}

/* Appends the formats of a part, most bytes first: "INT4", "INT4+16/32". */
static void add_formats(const struct part *p, struct buf *out)
{
    struct part rest = *p;
    for (int k = 0; total(&rest); k++) {
        int best = 0;
        for (int f = 1; f < N_FORMATS; f++)
            if (rest.bytes[f] > rest.bytes[best])
                best = f;
        buf_addf(out, "%s%s", k ? "+" : "", format_names[best]);
        rest.bytes[best] = 0;
    }
}

static void print_formats(const struct part *p, int width, struct buf *out)
{
    struct buf text = {0};
    add_formats(p, &text);
    buf_addf(out, " %-*s", width, text.len ? buf_str(&text) : "-");
    buf_free(&text);
}

static void print_scales(const struct scan_stats *v, struct buf *out)
{
    struct buf text = {0};
    if (v->n)
        buf_addf(&text, "%.2e to %.2e, %.0f%% < 0", v->min, v->max, 100 * (double)v->n_negative / (double)v->n);
    buf_addf(out, "  %-30s", v->n ? buf_str(&text) : "-");
    buf_free(&text);
}

/* Appends the table of layers. */
static void print_layers(const struct sheet *s, struct buf *out)
{
    buf_addf(out, "\n%-5s %-10s %-11s %-8s %-8s  %-30s  %-30s %10s %10s\n", "layer", "mixer", "", "shared", "experts", "INT4 scales", "FP8 scales",
             "MB",
             "MB a token");
    for (int i = 0; i <= s->c.n_layers; i++) {
        const struct row *r = &s->layers[i];
        if (!r->kind)
            continue;
        buf_addf(out, i < s->c.n_layers ? "%5d" : "%5.0d", i < s->c.n_layers ? i : 0);
        buf_addf(out, " %-10s", r->kind);
        print_formats(&r->mixer, 11, out);
        print_formats(&r->shared, 8, out);
        print_formats(&r->experts, 8, out);
        print_scales(&r->int4, out);
        print_scales(&r->fp8, out);
        buf_addf(out, " %10.2f %10.2f\n", mb(row_total(r)), mb(row_read(r)));
    }
}

static double ceiling(const struct sheet *s, size_t weights)
{
    return s->gb_s * 1e9 / (double)(weights + 2 * cache_state_bytes(&s->c));
}

/* Appends how many bytes a token reads, and the rate that memory allows. */
static void print_speed(const struct sheet *s, struct buf *out)
{
    buf_addf(out, "\none token without drafting reads %.2f MB of weights with the head as stored, %.2f MB with an INT8 head, and %.2f MB of states, "
                  "which are\n"
             "read and written; no context yet\n", mb(s->token), mb(s->token_int8), mb(2 * cache_state_bytes(&s->c)));
    buf_addf(out, "at %.0f GB/s", s->gb_s);
    if (s->reader)
        buf_addf(out, " (measured: the %s of this machine; --bandwidth overrides it)", s->reader);
    buf_addf(out, " that is at most %.1f tokens a second, with an INT8 head %.1f\n", ceiling(s, s->token), ceiling(s, s->token_int8));
}

/* Appends the table of memory by KV recipe and context. */
static void print_plans(const struct sheet *s, struct buf *out)
{
    struct plan plans[MAX_RECIPES * MAX_CONTEXTS];
    int n = make_plans(s, plans);
    buf_addf(out, "\nmemory of an engine with an INT8 head; here %.2f GiB are available, of which %.0f are left free\n", gib(plans[0].available),
             gib(plans[0].margin));
    buf_addf(out, "%-8s %10s %12s %12s  %s\n", "KV", "context", "KV GiB", "all GiB", "here");
    for (int i = 0; i < n; i++)
        buf_addf(out, "%-8s %10d %12.2f %12.2f  %s\n", plans[i].kv, plans[i].n_ctx, gib(plans[i].kv_bytes), gib(plans[i].total),
                 plans[i].fits ? "fits" : "does not fit");
}

/* ---- as JSON */

static json_t *part_json(const struct part *p)
{
    struct buf formats = {0};
    add_formats(p, &formats);
    json_t *j = json_pack("{s:s, s:I, s:I}", "formats", buf_str(&formats), "bytes", (json_int_t)total(p), "token_bytes", (json_int_t)p->read);
    buf_free(&formats);
    return j;
}

static json_t *scales_json(const struct scan_stats *v)
{
    return v->n ? json_pack("{s:I, s:f, s:f, s:I}", "n", (json_int_t)v->n, "min", v->min, "max", v->max, "negative", (json_int_t)v->n_negative)
           : json_null();
}

static json_t *layer_json(const struct row *r)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "kind", r->kind, "mixer", part_json(&r->mixer), "router", part_json(&r->router),
                     "shared", part_json(&r->shared), "experts", part_json(&r->experts), "int4_scales", scales_json(&r->int4),
                     "fp8_scales", scales_json(&r->fp8));
}

/* Appends everything as one JSON object. */
static void print_json(const struct sheet *s, struct buf *out)
{
    const struct model_config *c = &s->c;
    const struct weights_stats *t = &s->w.stats;
    struct plan plans[MAX_RECIPES * MAX_CONTEXTS];
    json_t *layers = json_array(), *memory = json_array();
    int n = make_plans(s, plans);
    for (int i = 0; i < c->n_layers; i++)
        json_array_append_new(layers, layer_json(&s->layers[i]));
    for (int i = 0; i < n; i++)
        json_array_append_new(memory, json_pack("{s:s, s:i, s:I, s:I, s:b}", "kv", plans[i].kv, "context", plans[i].n_ctx, "kv_bytes",
                                                (json_int_t)plans[i].kv_bytes, "bytes", (json_int_t)plans[i].total, "fits", plans[i].fits));
    json_t *root = json_pack(
        "{s:s, s:{s:i, s:I}, s:{s:i, s:i, s:i, s:i, s:i}, s:{s:i, s:i, s:i}, s:o, s:o, s:I, s:{s:I, s:I, s:I, s:f, s:s?, s:f, s:f}, s:I, s:o}",
        "model", c->name, "files", "n", t->n_files, "bytes", (json_int_t)t->file_bytes,
        "tensors", "bound", t->n_tensors, "mtp", t->n_mtp, "vision", t->n_vision, "skipped", t->n_skipped, "stale", t->n_stale,
        "matrices", "int4", t->n_int4, "fp8", t->n_fp8, "dense", t->n_dense,
        "layers", layers, "mtp", s->w.mtp.present ? layer_json(&s->layers[c->n_layers]) : json_null(),
        "vision_bytes", (json_int_t)t->vision_bytes,
        "token", "weight_bytes", (json_int_t)s->token, "weight_bytes_int8_head", (json_int_t)s->token_int8,
        "state_bytes", (json_int_t)(2 * cache_state_bytes(c)), "gb_s", s->gb_s, "measured_by", s->reader,
        "ceiling_tok_s", ceiling(s, s->token), "ceiling_tok_s_int8_head", ceiling(s, s->token_int8),
        "available_bytes", (json_int_t)plans[0].available, "memory", memory);
    CHECK(root);
    json_print(out, root, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    buf_addc(out, '\n');
    json_decref(root);
}

bool inspect_run(const char *dir, const struct inspect_options *o, struct buf *out, struct err *e)
{
    struct sheet s = {.gb_s = o->bandwidth_gb_s};
    bool ok = config_load(&s.c, dir, e) && weights_open(&s.w, &s.c, dir, e);
    if (ok)
        fill_sheet(&s);
    ok = ok && fill_scales(&s, dir, e) && (s.gb_s > 0 || measure(&s, e));
    if (ok && o->json) {
        print_json(&s, out);
    } else if (ok) {
        print_facts(&s, out);
        print_parts(&s, out);
        print_layers(&s, out);
        print_speed(&s, out);
        print_plans(&s, out);
    }
    free(s.layers);
    weights_close(&s.w);
    return ok;
}
