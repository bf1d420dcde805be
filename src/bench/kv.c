/* `q35chat bench kv`: recipes of the KV cache, their bytes and their errors. */
#include "bench/kv.h"

#include <math.h>

#include "engine/load.h"
#include "model/synthetic.h"

int kv_recipes_of(const struct dev *d, const struct model_config *c, const struct kv_recipe **out, int most)
{
    int n = 0;
    for (int i = 0; kv_recipe_at(i) && n < most; i++)
        if (load_takes(d->caps, kv_recipe_at(i)) && kv_recipe_fits(kv_recipe_at(i), c, NULL))
            out[n++] = kv_recipe_at(i);
    return n;
}

/* ---- bytes */

static double bits(const struct kv_recipe *r)
{
    const struct model_config one = {.n_full = 1, .n_kv_heads = 1, .head_dim = KV_DIM};
    return 8.0 * (double)kv_token_bytes(&one, r) / (2 * KV_DIM);
}

/* Of 262,144 positions, the MTP block's rows included. */
static double gigabytes(const struct model_config *c, const struct kv_recipe *r)
{
    return 1e-9 * (double)kv_bytes(&(struct kv_shape){.cfg = c, .recipe = r, .n_ctx = 262144, .max_rows = 4096, .n_slots = 1});
}

static bool report_bytes(struct report *r, const struct model_config *own, struct err *e)
{
    static const struct column columns[] = {
        {"recipe", "recipe", -8, 0}, {"bits", "bits", 8, 4}, {"sinks", "sinks", 6, 0}, {"recent", "recent", 7, 0},
        {"bytes_122b", "122B B/token", 13, 0},
        {"to_bf16", "x bf16", 7, 2}, {"gb_256k", "GB at 256K", 11, 2}, {"bytes", "this B/token", 13, 0},
    };
    struct model_config large;
    if (!synthetic_config(&large, "122b", 0, e))
        return false;
    const double bf16 = (double)(4 * large.n_full * large.n_kv_heads * large.head_dim);
    report_table(r, "bytes of a position", columns, sizeof columns / sizeof *columns);
    for (int i = 0; kv_recipe_at(i); i++) {
        const struct kv_recipe *k = kv_recipe_at(i);
        const double bytes = (double)kv_token_bytes(&large, k);
        const double cells[] = {bits(k), k->sinks, k->recent, bytes, bf16 / bytes, gigabytes(&large, k),
                                own && kv_recipe_fits(k, own, NULL) ? (double)kv_token_bytes(own, k) : NAN};
        report_text(r, k->name);
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            report_number(r, cells[c]);
    }
    return true;
}

/* ---- the command */

enum { TEXT_CTX = 8192 };

static bool with_model(const struct bench_options *o, struct report *r, struct err *e)
{
    struct model m;
    const int n_ctx = o->n_ctx ? o->n_ctx : TEXT_CTX;
    bool ok = load_open(&m, &(struct load_options){.dir = o->model_dir, .backend = o->backend, .head = o->head ? o->head : "bf16",
                                                   .n_threads = o->n_threads, .n_ctx = n_ctx, .chunk = o->chunk, .n_snapshots = LOAD_NO_SNAPSHOTS},
                                                   e);
    if (ok) {
        report_device(r, m.dev);
        report_fact(r, "model", "%s", m.cfg.name);
        ok = report_bytes(r, &m.cfg, e) && kv_attention(r, m.dev, e);
    }
    if (ok && o->text_file)
        ok = kv_text(r, &m, o->text_file, n_ctx, e);
    else if (ok)
        report_note(r, "next tokens were not compared: --text FILE names a text");
    load_close(&m);
    return ok;
}

static bool without_model(const struct bench_options *o, struct report *r, struct err *e)
{
    struct dev *d = dev_open(o->backend, o->n_threads, e);
    if (!d)
        return false;
    report_device(r, d);
    bool ok = report_bytes(r, NULL, e) && kv_attention(r, d, e);
    report_note(r, "next tokens were not compared: --model DIR --text FILE name a model and a text");
    dev_close(d);
    return ok;
}

int bench_kv(const struct bench_options *o)
{
    struct report r;
    struct err e = {0};
    report_open(&r, "kv", o);
    bool ok = o->model_dir ? with_model(o, &r, &e) : without_model(o, &r, &e);
    return report_close(&r, ok ? NULL : &e);
}
