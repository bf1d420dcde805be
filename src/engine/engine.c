#include "engine/engine.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cores.h"
#include "backend/machine.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/worker.h"
#include "engine/answering.h"
#include "engine/load.h"
#include "engine/requests.h"
#include "engine/restoring.h"
#include "engine/saving.h"
#include "engine/storage.h"
#include "guide/guide.h"
#include "model/safetensors.h"
#include "model/shards.h"

enum { PROGRESS_MS = 50 };             /* between two EV_LOADING */

struct engine {
    struct requests     requests;       /* shared */
    pthread_t           thread;
    struct storage      storage;        /* of the engine thread, but for its homes */
    atomic_int          snapshots, resident;    /* snapshots in use; sequences that hold tokens */
    bool                fixed_chunk;

    /* engine thread; info is constant once EV_READY was posted */
    struct model       model;           /* checked by engine_open() before there is a thread */
    struct decoder    *decoder;
    struct model_info info;
    int64_t            opened_ns, progress_ns;

    struct machine    *gpu;             /* constant once EV_READY was posted; read by the owner thread */

    /* owner thread */
    struct machine *host;
    bool     ready;
};

/* ---- loading, on the engine thread ---- */

/* Posts progress of loading, not too often.  False: stop loading, the engine is being closed. */
static bool on_loading(size_t done, size_t total, void *arg)
{
    struct engine *g = arg;
    if (done == total || clock_ms_since(g->progress_ns) >= PROGRESS_MS) {
        g->progress_ns = clock_ns();
        requests_post(&g->requests, &(struct event){.kind = EV_LOADING, .done = done, .total = total});
    }
    return !requests_closing(&g->requests);
}

static void describe_formats(char *out, size_t size, const struct model *m)
{
    const struct weights_stats *s = &m->weights.stats;
    const char *body = s->n_int4 && s->n_fp8 ? "INT4 + FP8 shared" : s->n_int4 ? "INT4" : s->n_fp8 ? "FP8"
                     : dtype_name(m->weights.embed.dtype);
    const char *head = m->head == HEAD_INT8 ? "INT8" : m->head == HEAD_PLANES ? "INT8 (two planes)" : dtype_name(m->weights.head.dtype);
    snprintf(out, size, "%s, %s head, KV %s%s", body, head, m->kv->name, m->math == PROMPT_EXACT ? "" : ", prompts in INT8");
}

/* Fills in the texts about memory: the plan, where the weights lie, how fast they are read. */
static void describe_memory(struct model_info *i, const struct model *m)
{
    struct buf line = {0};
    plan_say(&m->plan, &line);
    snprintf(i->memory, sizeof i->memory, "%s", buf_str(&line));
    buf_reset(&line);
    placement_say(&m->placement, &line);
    if (!line.len && m->dev->weights_in_host)
        buf_adds(&line, "in pinned host memory");
    snprintf(i->weights_in, sizeof i->weights_in, "%s", buf_str(&line));
    buf_reset(&line);
    if (m->reads.now > 0) {
        i->slow = reads_slow(&m->reads, &line);
        snprintf(i->reads, sizeof i->reads, "%s", buf_str(&line));
    }
    buf_free(&line);
}

/* Fills in the facts about the loaded model that EV_READY makes valid. */
static void fill_info(struct engine *g)
{
    const struct model *m = &g->model;
    const struct model_config *c = &m->cfg;
    struct model_info *i = &g->info;
    snprintf(i->model, sizeof i->model, "%s", c->name);
    snprintf(i->backend, sizeof i->backend, "%s", m->backend);
    if (m->dir) {
        struct fingerprinter *f = fingerprint_begin();
        shards_add_fingerprint(f, m->dir);
        const struct fingerprint found = fingerprint_end(f);
        snprintf(i->fingerprint, sizeof i->fingerprint, "%016" PRIx64 "%016" PRIx64, found.high, found.low);
    }
    describe_formats(i->formats, sizeof i->formats, m);
    i->n_ctx = m->n_ctx;
    i->n_layers = c->n_layers;
    i->at_once = g->decoder->most_runs;
    i->n_vocab = c->vocab;
    i->picture_tokens = m->vision ? m->picture_tokens : 0;
    i->no_vision = m->no_vision;
    i->draft_depth = m->depth;
    i->n_threads = dev_cpu_threads(m->dev);
    i->n_ends = c->n_eos < LIMIT_STOP_IDS ? c->n_eos : LIMIT_STOP_IDS;
    for (int k = 0; k < i->n_ends; k++)
        i->ends[k] = c->eos[k];
    i->weight_bytes = m->weight_bytes;
    snprintf(i->kv, sizeof i->kv, "%s", m->kv->name);
    i->kv_token_bytes = kv_token_bytes(c, m->kv);
    describe_memory(i, m);
    i->temperature = c->gen_temperature;
    i->top_p = c->gen_top_p;
    i->top_k = c->gen_top_k;
    i->load_ms = clock_ms_since(g->opened_ns);
}

/* Writes down what the prices of steps depend on, and in which file they are remembered.  False: in none. */
static bool price_place(const struct engine *g, struct buf *key, struct buf *path)
{
    const struct model *m = &g->model;
    const struct model_info *i = &g->info;
    struct dev_facts f;
    if (!m->machine_dir)
        return false;
    buf_addf(path, "%s/prices", m->machine_dir);
    if (dev_facts(m->dev, &f))
        buf_addf(key, "%s, %s", f.gpu, f.driver);
    else
        buf_addf(key, "%s, %d threads", i->backend, i->n_threads);
    buf_addf(key, ", %s, %d layers of %d, %s, MTP form %d%s", i->model, i->n_layers, m->cfg.hidden, i->formats, (int)m->mtp,
             m->dev->weights_in_host ? ", weights in host memory" : "");
    return true;
}

/* Prices that cannot be read or written are measured again. */
static void recall_prices(struct engine *g)
{
    struct buf key = {0}, path = {0};
    if (price_place(g, &key, &path))
        price_recall(&g->decoder->price, path.data, key.data);
    buf_free(&key);
    buf_free(&path);
}

/* Stores the measured prices of steps for the next start, if they are known. */
static void remember_prices(struct engine *g)
{
    struct buf key = {0}, path = {0};
    struct err ignored;
    if (price_known(&g->decoder->price) && price_place(g, &key, &path))
        price_remember(&g->decoder->price, path.data, key.data, &ignored);
    buf_free(&key);
    buf_free(&path);
}

/* Loads the weights, then opens the decoder and the storage of sequences. */
static bool load(struct engine *g, struct err *e)
{
    struct model *m = &g->model;
    struct dev_facts facts = {0};
    if (!load_weights(m, on_loading, g, e) || !load_space(m, e))
        return false;
    if (dev_facts(m->dev, &facts))
        g->gpu = machine_open(NULL, facts.pci);
    const struct decoder_options o = {
        .n_ctx = m->n_ctx, .chunk = m->chunk, .fixed_chunk = g->fixed_chunk, .depth = m->depth,
        .n_sequences = m->n_sequences, .n_snapshots = m->n_snapshots, .head = m->head,
        .vision = m->vision, .picture_tokens = m->picture_tokens, .traffic = load_traffic(m),
    };
    g->decoder = decoder_open(m->dev, &m->cfg, m->forward, m->caches, &o, e);
    return g->decoder && storage_open(&g->storage, m, g->decoder, e);
}

static void unload(struct engine *g)
{
    storage_close(&g->storage);
    decoder_close(g->decoder);
    load_close(&g->model);
}

/* ---- answering, on the engine thread ---- */

/* An answer under way, for the hooks of the decoder. */
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

/* Posts the tokens of a step as an event.  False if the request was cancelled, so that they do not count. */
static bool on_tokens(void *arg, const struct picks *p)
{
    struct answering *a = arg;
    struct event ev = {.kind = EV_TOKENS, .serial = a->q->serial, .n = p->n, .stats = a->out.stats};
    const size_t n = (size_t)p->n;
    memcpy(ev.ids, p->ids, n * sizeof *p->ids);
    memcpy(ev.source, p->source, n * sizeof *p->source);
    memcpy(ev.prob, p->prob, n * sizeof *p->prob);
    memcpy(ev.logprobs, p->logprobs, n * sizeof *p->logprobs);
    return requests_report(&a->g->requests, a->q, &ev, &a->out.stats);
}

static void on_done(void *arg)
{
    struct answering *a = arg;
    requests_done(&a->g->requests, a->q, &a->out);
    free(a);
}

/* Begins a request, or puts it back while its sequence is being saved or restored.  False on a device fault. */
static bool serve_request(struct engine *g, struct work *w, struct err *fault)
{
    struct request *q = w->request;
    if (q->kind == REQUEST_RESTORE) {
        const bool ok = storage_restore(&g->storage, &(struct arrival){.name = q->sequence}, q->path, fault);
        requests_done(&g->requests, q, &(struct outcome){0});
        return ok;
    }
    struct arrival arrival = {.name = q->sequence, .prompt = spans_of(&q->prompt), .client = q->sampling.client};
    if (!storage_make_place(&g->storage, &arrival, fault)) {
        requests_done(&g->requests, q, &(struct outcome){.finish = END_FAILED, .why = *fault});
        return false;
    }
    q->sequence = arrival.name;
    if (storage_moving(&g->storage, q->sequence)) {
        requests_put_back(&g->requests, w);
        return true;
    }
    struct answering *a = memory_zeroed(1, sizeof *a);
    const struct decoder_hooks hooks = {must_stop, on_prefill, on_tokens, on_done, a};
    const struct prompt p = {
        .sequence = q->sequence, .spans = spans_of(&q->prompt), .snapshot_pos = q->snapshot_pos, .how = &q->sampling, .submitted_ns = q->submitted_ns,
    };
    *a = (struct answering){.g = g, .q = q};
    decoder_begin(g->decoder, &p, &hooks, &a->out);
    return true;
}

/* Begins to read a prompt ahead, if the decoder takes it; puts it back while its sequence is being moved.  False on a device fault. */
static bool serve_ahead(struct engine *g, struct work *w, struct err *fault)
{
    const struct beginning *b = &w->ahead;
    bool ok = true;
    if (decoder_reads_ahead(g->decoder, b)) {
        struct arrival a = {.name = b->sequence, .prompt = b->spans};
        ok = storage_make_place(&g->storage, &a, fault);
        w->ahead.sequence = a.name;
        if (ok && storage_moving(&g->storage, b->sequence)) {
            requests_put_back(&g->requests, w);
            return true;
        }
        ok = ok && decoder_read_ahead(g->decoder, b, requests_ahead_ends, &g->requests, fault);
    }
    span_buf_free(&w->ahead_spans);
    return ok;
}

/* True if the sequence is not being saved or restored and the decoder has room for the request; r NULL: for a read-ahead. */
static bool may_begin(void *arg, uint64_t sequence, const struct request *r)
{
    struct engine *g = arg;
    struct arrival a = {.name = sequence};
    if (r && r->kind == REQUEST_SUBMIT) {
        a.prompt = spans_of(&r->prompt);
        a.client = r->sampling.client;
    }
    return !storage_moving(&g->storage, sequence) && decoder_may_begin(g->decoder, &a);
}

/* Does the work of all requests until the engine closes.  False with the device's fault. */
static bool serve(struct engine *g, struct err *fault)
{
    struct work w;
    bool ok = true;
    while (ok && (ok = decoder_end_stopped(g->decoder, fault))) {
        const int n = g->decoder->n_runs;
        const bool returns = restoring_ready(g->storage.restoring);
        if (requests_next(&g->requests, n > 0 || returns, may_begin, g, &w))
            ok = w.request ? serve_request(g, &w, fault) : w.recheck ? true : w.save ? storage_save(&g->storage, w.save, fault)
               : w.rows ? saving_step(g->storage.saving, fault) : serve_ahead(g, &w, fault);
        else if (n)
            ok = decoder_turn(g->decoder, fault);
        else if (!returns || requests_closing(&g->requests))
            break;
        ok = ok && storage_bring_back(&g->storage, fault);
        atomic_store(&g->snapshots, snapshots_in_use(&g->decoder->sequences.snaps));
        atomic_store(&g->resident, sequences_resident(&g->decoder->sequences));
    }
    if (!ok)
        decoder_fail(g->decoder, fault);
    return ok;
}

/* The engine's thread: loads, posts EV_READY, serves requests until it is closed or a fault ends it, and frees everything. */
static void *engine_main(void *arg)
{
    struct engine *g = arg;
    struct outcome end = {.finish = END_INTERRUPTED};
    bool ok = load(g, &end.why);
    if (ok) {
        fill_info(g);
        recall_prices(g);
        requests_post(&g->requests, &(struct event){.kind = EV_READY});
        if (g->model.dev->caps->beside_host)            /* this thread only launches and waits: while it is late, the device is idle */
            cores_keep_to_fast(CORES_ROOT);
        ok = serve(g, &end.why);
        struct err ignored;             /* the owner is closing: there is nobody to report to */
        if (ok)
            storage_finish(&g->storage, &ignored);
        if (ok)
            remember_prices(g);
    }
    if (ok || requests_closing(&g->requests)) {
        requests_end(&g->requests, &end);
    } else {
        struct event fatal = {.kind = EV_FATAL};
        snprintf(fatal.message, sizeof fatal.message, "%s", end.why.msg);
        end.finish = END_FAILED;
        requests_end(&g->requests, &end);
        requests_post(&g->requests, &fatal);
    }
    unload(g);
    return NULL;
}

/* ---- the owner's side ---- */

static struct load_options load_options(const struct engine_options *o)
{
    return (struct load_options){
        .dir = o->model_dir, .synthetic = o->synthetic, .n_layers = o->n_layers, .sees = o->synthetic != NULL, .backend = o->backend, .kv = o->kv,
        .head = o->head, .mtp = o->mtp, .math = o->math, .n_threads = o->n_threads,
        .no_vision = o->no_vision, .picture_tokens = o->picture_tokens, .n_ctx = o->n_ctx, .chunk = o->chunk, .depth = o->draft_depth,
        .n_sequences = o->n_sequences ? o->n_sequences : LOAD_SOME_SEQUENCES, .n_snapshots = o->n_snapshots,
        .weights_in = load_weights_in(o->weights_in), .machine_dir = o->machine_dir, .saves = true,
    };
}

static void engine_free(struct engine *g)
{
    storage_free(&g->storage);
    requests_free(&g->requests);
    machine_close(g->gpu);
    machine_close(g->host);
    load_close(&g->model);
    free(g);
}

struct engine *engine_open(const struct engine_options *o, struct err *e)
{
    struct engine *g = memory_zeroed(1, sizeof *g);
    g->opened_ns = clock_ns();
    g->host = machine_open(NULL, NULL);
    storage_init(&g->storage, &g->requests);
    storage_move_to(&g->storage, o->moved_dir, o->moved_bytes);
    if (!requests_init(&g->requests, e))
        goto fail;
    const struct load_options options = load_options(o);
    if (!load_check(&g->model, &options, e))
        goto fail;
    g->fixed_chunk = o->fixed_chunk || o->chunk;
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

bool engine_fits(const struct engine_options *o, struct memory_plan *plan, struct err *e)
{
    const struct load_options options = load_options(o);
    return load_fits(&options, plan, e);
}

static void *copy(const void *p, int n, size_t size)
{
    return n > 0 ? memcpy(memory_alloc((size_t)n * size), p, (size_t)n * size) : NULL;
}

uint32_t engine_submit(struct engine *g, uint64_t sequence, struct spans prompt, int snapshot_pos, const struct sampling *s)
{
    struct request *r = memory_zeroed(1, sizeof *r);
    r->sequence = sequence;
    span_buf_add(&r->prompt, prompt, prompt.n);
    r->snapshot_pos = snapshot_pos;
    r->bias_ids = copy(s->bias_ids, s->n_bias, sizeof *s->bias_ids);
    r->bias = copy(s->bias, s->n_bias, sizeof *s->bias);
    r->stats.n_prompt = prompt.n;
    r->sampling = *s;
    if (s->guide)
        guide_retain(s->guide);
    r->sampling.bias_ids = r->bias_ids;
    r->sampling.bias = r->bias;
    r->submitted_ns = clock_ns();
    r->due = due_ns(r->submitted_ns, s->patience_ms);
    return requests_add(&g->requests, r);
}

/* Queues a request about the checkpoint file of a sequence. */
static void add_file_request(struct engine *g, int kind, uint64_t sequence, const char *path)
{
    struct request *r = memory_zeroed(1, sizeof *r);
    r->kind = kind;
    r->path = memory_strdup(path);
    r->sequence = sequence;
    r->due = clock_ns();
    requests_add(&g->requests, r);
}

void engine_restore(struct engine *g, uint64_t sequence, const char *path)
{
    add_file_request(g, REQUEST_RESTORE, sequence, path);
}

void engine_read_ahead(struct engine *g, uint64_t sequence, struct spans prompt, int snapshot_pos)
{
    requests_read_ahead(&g->requests, &(struct beginning){.sequence = sequence, .spans = prompt, .snapshot_pos = snapshot_pos});
}

void engine_save(struct engine *g, uint64_t sequence, const char *path)
{
    add_file_request(g, REQUEST_SAVE, sequence, path);
}

void engine_interrupt(struct engine *g, uint32_t serial)
{
    requests_interrupt(&g->requests, serial);
}

void engine_keep(struct engine *g, uint64_t sequence, const char *path)
{
    storage_keep(&g->storage, sequence, path);
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

const struct model_info *engine_info(const struct engine *g)
{
    return g->ready ? &g->info : NULL;
}

void engine_machine(struct engine *g, struct machine_figures *m)
{
    machine_read(g->ready && g->gpu ? g->gpu : g->host, m);
    m->snapshots = atomic_load(&g->snapshots);
    m->snapshots_max = g->ready ? g->model.n_snapshots : 0;
    m->resident = atomic_load(&g->resident);
    const struct moves moves = storage_moves(&g->storage);
    m->evicted = moves.evicted;
    m->moved_out = moves.out;
    m->moved_in = moves.in;
    m->resident_max = g->ready ? g->model.plan.n_sequences : 0;
}

void engine_close(struct engine *g)
{
    if (!g)
        return;
    requests_close(&g->requests);
    pthread_join(g->thread, NULL);
    engine_free(g);
}
