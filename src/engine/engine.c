#include "engine/engine.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dev.h"
#include "backend/machine.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/quiet.h"
#include "engine/decode.h"
#include "engine/memplan.h"
#include "engine/requests.h"
#include "model/config.h"
#include "model/fused.h"
#include "model/safetensors.h"
#include "model/stepper.h"
#include "model/upload.h"
#include "model/weights.h"

enum {
    MAX_CHUNK         = 8192,
    DEFAULT_SNAPSHOTS = 8,
    MAX_SNAPSHOTS     = 1024,
    PROGRESS_MS       = 50,             /* between two EV_LOADING */
};

/* What a backend does when nobody says otherwise.  Context: on a CPU the model's 262144 would take memory that nobody has the
 * patience to fill.  Chunk: a GPU reads every expert for each of them, so each should use them all often.  MTP drafts a step,
 * measured on a CPU with the demo model (tests/bench/bench_engine.c): from the third on nothing is gained even when 97 % are
 * accepted, since each verified row costs nearly a decoded one. */
static const struct defaults {
    const char *kv;
    int         n_ctx, chunk, draft_depth;
} defaults_cpu = {.kv = "f32", .n_ctx = 32768, .chunk = 256, .draft_depth = 2},
  defaults_gpu = {.kv = "bf16", .n_ctx = INT_MAX, .chunk = 4096, .draft_depth = 2};
/* Left free: a host has swap or an OOM killer, a GB10 freezes; a GPU of its own needs some for code and recorded graphs. */
static const size_t CPU_MARGIN = 512u << 20, UNIFIED_MARGIN = (size_t)14 << 30, GPU_MARGIN = (size_t)1 << 30;

struct engine {
    /* set by engine_open; the engine thread then lowers decode.depth when the weights hold no MTP block */
    char               *model_dir;
    struct model_config config;
    const char         *backend;
    const struct kv_recipe *kv;
    enum head           head;
    int                 n_threads;
    int                 asked_ctx;      /* 0: what fits */
    struct decoder_options decode;
    pthread_t           thread;

    struct requests  requests;            /* shared */
    atomic_int       snapshots;         /* in use */

    /* engine thread; info is constant once EV_READY was posted */
    struct weights     weights;
    struct dev        *dev;
    struct decoder    *decoder;
    struct engine_info info;
    size_t             packed_bytes;    /* of the weights on a GPU */
    struct engine_fit  plan;
    int64_t            opened_ns, progress_ns;

    struct machine    *gpu;             /* constant likewise; read by the owner thread */

    /* owner thread */
    struct machine *host;
    bool     ready;
};

static bool is_gpu(const char *backend)
{
    return strcmp(backend, "cpu");
}

static const struct defaults *defaults_of(const char *backend)
{
    return is_gpu(backend) ? &defaults_gpu : &defaults_cpu;
}

/* ---- loading, on the engine thread ---- */

static bool load_progress(size_t done, size_t total, void *arg)
{
    struct engine *g = arg;
    if (done == total || clock_ms_since(g->progress_ns) >= PROGRESS_MS) {
        g->progress_ns = clock_ns();
        requests_post(&g->requests, &(struct event){.kind = EV_LOADING, .done = done, .total = total});
    }
    return !requests_closing(&g->requests);
}

static unsigned heads(const struct engine *g)
{
    return g->head == HEAD_INT8 ? UPLOAD_HEAD_INT8 : UPLOAD_HEAD_BF16;
}

static void describe_formats(char *out, size_t size, const struct engine *g)
{
    const struct weights_stats *s = &g->weights.stats;
    const char *body = s->n_int4 && s->n_fp8 ? "INT4 + FP8 shared" : s->n_int4 ? "INT4" : s->n_fp8 ? "FP8"
                     : dtype_name(g->weights.embed.dtype);
    const char *head = g->head == HEAD_INT8 ? "INT8" : dtype_name(g->weights.head.dtype);
    snprintf(out, size, "%s, %s head, KV %s", body, head, g->kv->name);
}

static void fill_info(struct engine *g)
{
    const struct model_config *c = &g->config;
    struct engine_info *i = &g->info;
    snprintf(i->model, sizeof i->model, "%s", c->name);
    snprintf(i->backend, sizeof i->backend, "%s", g->dev->name);
    describe_formats(i->formats, sizeof i->formats, g);
    i->n_ctx = g->decode.n_ctx;
    i->n_layers = c->n_layers;
    i->n_vocab = c->vocab;
    i->draft_depth = g->decode.depth;
    i->n_threads = dev_cpu_threads(g->dev);
    i->n_eos = c->n_eos < ENGINE_MAX_STOP ? c->n_eos : ENGINE_MAX_STOP;
    for (int k = 0; k < i->n_eos; k++)
        i->eos[k] = c->eos[k];
    i->weight_bytes = g->packed_bytes ? g->packed_bytes : g->weights.stats.bytes;
    i->kv_bytes = cache_kv_bytes(c, g->kv, g->decode.n_ctx);
    i->state_bytes = cache_state_bytes(c);
    i->gen_temperature = c->gen_temperature;
    i->gen_top_p = c->gen_top_p;
    i->gen_top_k = c->gen_top_k;
    i->load_ms = clock_ms_since(g->opened_ns);
}

static bool load_host(struct engine *g, struct err *e)
{
    if (!weights_prefetch(&g->weights, load_progress, g, e))
        return false;
    if (requests_closing(&g->requests))
        return err_set(e, "closed while loading");
    if (g->head == HEAD_INT8)
        weights_make_int8_head(&g->weights);
    return true;
}

/* Device memory of decode steps, beyond what a CPU has. */
static size_t step_bytes(const struct engine *g)
{
    const struct model_config *c = &g->config;
    return cache_step_bytes(c) + fused_bytes(c) + stepper_bytes(c, g->decode.depth);
}

/* The formats are known now, and nothing but headers has been read. */
static bool plan_device(struct engine *g, struct err *e)
{
    struct memplan m;
    struct dev_facts facts = {.integrated = false};
    bool discrete = dev_facts(g->dev, &facts) && !facts.integrated;
    struct memplan_request q = {
        .model = &g->config,
        .kv = g->kv,
        .weight_bytes = weights_packed_bytes(&g->weights, &g->config, heads(g)),
        .int8_weight_bytes = weights_packed_bytes(&g->weights, &g->config, UPLOAD_HEAD_INT8),
        .n_ctx = g->asked_ctx,
        .default_ctx = defaults_of(g->backend)->n_ctx,
        .max_rows = g->decode.chunk,
        .max_step = g->decode.depth + 1,
        .n_snapshots = g->decode.n_snapshots,
        .available = discrete ? g->dev->available(g->dev) : memplan_available(),
        .margin = discrete ? GPU_MARGIN : UNIFIED_MARGIN,
        .gpu = true,
        .discrete = discrete,
        .host_available = memplan_available(),
        .host_margin = CPU_MARGIN,
        .spare_positions = STEP_ROWS,
        .step_bytes = step_bytes(g),
        .scratch_bytes = forward_scratch_bytes(&g->config, g->decode.chunk),
        .read_bytes = weights_upload_bytes(),
    };
    if (!memplan_make(&m, &q, e))
        return false;
    g->decode.n_ctx = m.n_ctx;
    g->packed_bytes = q.weight_bytes;
    g->plan = (struct engine_fit){m.total, q.available, m.n_ctx};
    return true;
}

static bool load_device(struct engine *g, struct err *e)
{
    return plan_device(g, e)
        && weights_upload(&g->weights, &g->config, g->dev, &(struct upload_options){.heads = heads(g)}, load_progress, g, e);
}

static bool load(struct engine *g, struct err *e)
{
    if (!weights_open(&g->weights, &g->config, g->model_dir, e))
        return false;
    if (!g->weights.mtp.present)
        g->decode.depth = 0;
    g->dev = dev_open(g->backend, g->n_threads, e);
    if (!g->dev || !(g->dev->caps->packs_weights ? load_device(g, e) : load_host(g, e)))
        return false;
    struct dev_facts facts = {0};
    if (dev_facts(g->dev, &facts))
        g->gpu = machine_open(NULL, facts.pci);
    g->decoder = decoder_open(g->dev, &g->config, &g->weights, g->kv, &g->decode, e);
    return g->decoder != NULL;
}

static void unload(struct engine *g)
{
    decoder_close(g->decoder);
    weights_close(&g->weights);         /* their memory is the device's */
    dev_close(g->dev);
}

/* ---- answering, on the engine thread ---- */

struct answering {
    struct engine  *g;
    struct request *q;
    struct outcome  out;
};

static bool must_stop(void *arg)
{
    struct answering *a = arg;
    return requests_cancelled(&a->g->requests, a->q);
}

static void on_prefill(void *arg, int done, int total, int cached)
{
    struct answering *a = arg;
    const struct event ev = {.kind = EV_PREFILL, .serial = a->q->serial, .done = (size_t)done, .total = (size_t)total, .cached = (size_t)cached};
    requests_report(&a->g->requests, a->q, &ev, &a->out.stats);
}

static bool on_tokens(void *arg, const struct picks *p)
{
    struct answering *a = arg;
    struct event ev = {.kind = EV_TOKENS, .serial = a->q->serial, .n = p->n, .stats = a->out.stats};
    const size_t n = (size_t)p->n;
    memcpy(ev.ids, p->ids, n * sizeof *p->ids);
    memcpy(ev.how, p->how, n * sizeof *p->how);
    memcpy(ev.prob, p->prob, n * sizeof *p->prob);
    memcpy(ev.outlook, p->outlook, n * sizeof *p->outlook);
    return requests_report(&a->g->requests, a->q, &ev, &a->out.stats);
}

static bool serve_request(struct engine *g, struct request *q, struct err *fault)
{
    struct answering a = {.g = g, .q = q};
    struct decoder_hooks hooks = {must_stop, on_prefill, on_tokens, &a};
    struct prompt p = {.ids = q->ids, .n = q->n, .keep_at = q->keep_at, .how = &q->how, .submitted_ns = q->submitted_ns};
    bool ok = decoder_answer(g->decoder, &p, &hooks, &a.out, fault);
    if (!ok)
        a.out = (struct outcome){.finish = FINISH_ERROR, .why = *fault};
    requests_done(&g->requests, q, &a.out);
    return ok && decoder_settle(g->decoder, fault);
}

static bool ahead_ends(void *arg)
{
    return requests_ahead_ends(arg);
}

static bool serve_ahead(struct engine *g, struct work *w, struct err *fault)
{
    bool ok = decoder_read_ahead(g->decoder, &w->ahead, ahead_ends, &g->requests, fault);
    free(w->ahead_ids);
    return ok;
}

/* False with the device's fault. */
static bool serve(struct engine *g, struct err *fault)
{
    struct work w;
    bool ok = true;
    while (ok && requests_next(&g->requests, &w)) {
        ok = w.request ? serve_request(g, w.request, fault) : serve_ahead(g, &w, fault);
        atomic_store(&g->snapshots, decoder_n_snapshots(g->decoder));
    }
    return ok;
}

static void *engine_main(void *arg)
{
    struct engine *g = arg;
    struct outcome end = {.finish = FINISH_INTERRUPTED};
    bool ok = load(g, &end.why);
    if (ok) {
        fill_info(g);
        requests_post(&g->requests, &(struct event){.kind = EV_READY});
        ok = serve(g, &end.why);
    }
    if (ok || requests_closing(&g->requests)) {
        requests_end(&g->requests, &end);
    } else {
        struct event fatal = {.kind = EV_FATAL};
        snprintf(fatal.message, sizeof fatal.message, "%s", end.why.msg);
        end.finish = FINISH_ERROR;
        requests_end(&g->requests, &end);
        requests_post(&g->requests, &fatal);
    }
    unload(g);
    return NULL;
}

/* ---- the owner's side ---- */

static bool in_range(const char *name, int value, int low, int high, struct err *e)
{
    return (value >= low && value <= high) || err_set(e, "%s is %d, expected %d to %d", name, value, low, high);
}

static const struct kv_recipe *choose_kv(const char *backend, const char *name, struct err *e)
{
    const struct kv_recipe *r = kv_recipe_find(name ? name : defaults_of(backend)->kv, e);
    if (r && is_gpu(backend) && r->dtype != DT_BF16) {
        err_set(e, "the KV recipe '%s' works on the CPU only, expected bf16 on the backend '%s'", r->name, backend);
        return NULL;
    }
    return r;
}

static bool check_options(struct engine *g, const struct engine_options *o, struct err *e)
{
    if (!o->model_dir)
        return err_set(e, "no model directory was given");
    g->backend = dev_backend(o->backend, e);
    g->kv = g->backend ? choose_kv(g->backend, o->kv, e) : NULL;
    if (!g->kv)
        return false;
    if (o->head && strcmp(o->head, "bf16") && strcmp(o->head, "int8"))
        return err_set(e, "the head is '%s', expected bf16 (as stored) or int8", o->head);
    g->head = o->head && !strcmp(o->head, "bf16") ? HEAD_BF16 : HEAD_INT8;
    if (!in_range("the number of threads", o->n_threads, 0, 1024, e) || !in_range("the prompt chunk", o->chunk, 0, MAX_CHUNK, e)
        || !in_range("the draft depth", o->draft_depth, -1, ENGINE_MAX_DEPTH, e)
        || !in_range("the number of snapshots", o->n_snapshots, 0, MAX_SNAPSHOTS, e))
        return false;
    g->n_threads = o->n_threads;
    g->model_dir = memory_strdup(o->model_dir);
    const struct defaults *d = defaults_of(g->backend);
    g->decode = (struct decoder_options){
        .chunk = o->chunk ? o->chunk : d->chunk,
        .fixed_chunk = o->chunk != 0,
        .depth = o->draft_depth < 0 ? d->draft_depth : o->draft_depth,
        .n_snapshots = o->n_snapshots ? o->n_snapshots : DEFAULT_SNAPSHOTS,
        .head = g->head,
    };
    return true;
}

/* Of a CPU.  What a GPU needs depends on the formats that the shards hold: plan_device(). */
static bool plan_memory(struct engine *g, int n_ctx, struct err *e)
{
    struct memplan m;
    g->asked_ctx = n_ctx;
    if (is_gpu(g->backend))
        return in_range("--ctx", n_ctx, 0, g->config.max_pos, e);
    struct memplan_request q = {
        .model = &g->config,
        .kv = g->kv,
        .weight_bytes = memplan_weight_bytes(g->model_dir),
        .int8_head = g->head == HEAD_INT8,
        .n_ctx = n_ctx,
        .default_ctx = defaults_of(g->backend)->n_ctx,
        .max_rows = g->decode.chunk,
        .max_step = g->decode.depth + 1,
        .n_snapshots = g->decode.n_snapshots,
        .available = memplan_available(),
        .margin = CPU_MARGIN,
    };
    if (!memplan_make(&m, &q, e))
        return false;
    g->decode.n_ctx = m.n_ctx;
    g->plan = (struct engine_fit){m.total, q.available, m.n_ctx};
    return true;
}

static void engine_free(struct engine *g)
{
    requests_free(&g->requests);
    machine_close(g->gpu);
    machine_close(g->host);
    free(g->model_dir);
    free(g);
}

struct engine *engine_open(const struct engine_options *o, struct err *e)
{
    struct engine *g = memory_zeroed(1, sizeof *g);
    g->opened_ns = clock_ns();
    g->host = machine_open(NULL, NULL);
    if (!requests_init(&g->requests, e))
        goto fail;
    if (!check_options(g, o, e) || !config_load(&g->config, g->model_dir, e))
        goto fail;
    if (!g->config.n_mtp)
        g->decode.depth = 0;
    if (!plan_memory(g, o->n_ctx, e))
        goto fail;
    int rc = quiet_thread(&g->thread, engine_main, g);
    if (rc) {
        err_set(e, "cannot start the engine thread: %s", strerror(rc));
        goto fail;
    }
    return g;
fail:
    engine_free(g);
    return NULL;
}

bool engine_fits(const struct engine_options *o, struct engine_fit *fit, struct err *e)
{
    struct engine g = {0};
    bool ok = check_options(&g, o, e) && config_load(&g.config, g.model_dir, e);
    if (ok && !g.config.n_mtp)
        g.decode.depth = 0;
    ok = ok && plan_memory(&g, o->n_ctx, e);
    if (ok && is_gpu(g.backend))
        ok = weights_open(&g.weights, &g.config, g.model_dir, e) && (g.dev = dev_open(g.backend, g.n_threads, e)) && plan_device(&g, e);
    *fit = g.plan;
    weights_close(&g.weights);
    dev_close(g.dev);
    free(g.model_dir);
    return ok;
}

uint32_t engine_submit(struct engine *g, const int32_t *ids, int n_ids, int keep_at, const struct sampling *s)
{
    return requests_submit(&g->requests, ids, n_ids, keep_at, s);
}

void engine_read_ahead(struct engine *g, const int32_t *ids, int n_ids, int keep_at)
{
    requests_read_ahead(&g->requests, ids, n_ids, keep_at);
}

void engine_interrupt(struct engine *g, uint32_t serial)
{
    requests_interrupt(&g->requests, serial);
}

int engine_fd(const struct engine *g)
{
    return g->requests.events.fd;
}

struct event_list engine_drain(struct engine *g)
{
    struct event_list l;
    l.events = mailbox_take(&g->requests.events, &l.n);
    for (int i = 0; i < l.n; i++)
        if (l.events[i].kind == EV_READY)
            g->ready = true;
    return l;
}

bool engine_wait(struct engine *g, int timeout_ms)
{
    return mailbox_wait(&g->requests.events, timeout_ms);
}

const struct engine_info *engine_info(const struct engine *g)
{
    return g->ready ? &g->info : NULL;
}

void engine_machine(struct engine *g, struct engine_machine *m)
{
    struct nvml_reading r;
    machine_read(g->ready && g->gpu ? g->gpu : g->host, &r);
    *m = (struct engine_machine){
        .memory_used = r.memory_used, .memory_total = r.memory_total, .celsius = r.celsius, .watts = r.watts, .joules = r.joules,
        .throttled = r.throttled, .snapshots = atomic_load(&g->snapshots), .snapshots_max = g->decode.n_snapshots,
    };
}

void engine_close(struct engine *g)
{
    if (!g)
        return;
    requests_close(&g->requests);
    pthread_join(g->thread, NULL);
    engine_free(g);
}
