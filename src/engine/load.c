#include "engine/load.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/least.h"
#include "base/memory.h"
#include "config/limits.h"
#include "engine/memplan.h"
#include "model/config.h"
#include "model/forward.h"
#include "model/rope.h"
#include "model/stepper.h"
#include "model/synthetic.h"
#include "model/upload.h"

enum { DEFAULT_SNAPSHOTS = 8, SPARE_POSITIONS = STEP_ROWS };       /* a step always has all its rows: the last ones may lie behind the context */

/* Defaults for a kind of device.  Context: on a CPU the model's 262144 would take memory that nobody has the
 * patience to fill.  Chunk: a GPU reads every expert for each of them, so each should use them all often.  Pictures: attention of the tower is
 * quadratic; 1024 x 1024 pixels, 1024 tokens, take a core minutes. */
static const struct defaults {
    int n_ctx, chunk, picture_tokens;
} defaults_cpu = {.n_ctx = 32768, .chunk = 256, .picture_tokens = 1024},
  defaults_gpu = {.n_ctx = INT_MAX, .chunk = 8192, .picture_tokens = USUAL_PICTURE_TOKENS};
/* Left free: a host has swap or an OOM killer, a GB10 freezes; a GPU of its own needs some for code and recorded graphs. */
static const size_t CPU_MARGIN = 512u << 20, UNIFIED_MARGIN = (size_t)14 << 30, GPU_MARGIN = (size_t)1 << 30;

/* Bytes that are read to see how fast that is: no cache holds them, and they take a quarter of a second at most. */
static const size_t PROBE_UNIFIED = (size_t)256 << 20, PROBE_OWN = (size_t)2 << 30;

_Static_assert((int)LIMIT_STEP_ROWS == (int)STEP_ROWS, "rows of a step");

/* ---- options ---- */

static bool packs(const struct model *m)
{
    return dev_caps(m->backend)->packs_weights;
}

static bool in_range(const char *name, int value, int low, int high, struct err *e)
{
    return (value >= low && value <= high) || err_set(e, "%s is %d, expected %d to %d", name, value, low, high);
}

/* On a GPU two planes give the INT8 head's answers for half of the bytes; a CPU computes longer than it reads. */
static bool choose_head(struct model *m, const char *name, struct err *e)
{
    static const struct { const char *name; enum head head; } heads[] = {{"int8", HEAD_INT8}, {"planes", HEAD_PLANES}, {"bf16", HEAD_BF16}};
    if (!name)
        name = packs(m) ? "planes" : "int8";
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (!strcmp(heads[i].name, name)) {
            m->head = heads[i].head;
            return true;
        }
    return err_set(e, "the head is '%s', expected bf16 (as stored), int8 or planes", name);
}

enum weights_in load_weights_in(const char *name)
{
    return !name || !strcmp(name, "device") ? WEIGHTS_IN_DEVICE : !strcmp(name, "host") ? WEIGHTS_IN_HOST : WEIGHTS_IN_AUTO;
}

bool load_takes(const struct dev_caps *caps, const struct kv_recipe *r)
{
    return caps->kv_dtypes >> r->dtype & 1 && (!kv_recipe_compresses(r) || caps->kv_codes >> KV_PAIR(r->keys, r->values) & 1);
}

/* Sets the KV recipe by name; NULL and "auto" take the first one that the backend supports.  False with the names that it supports. */
static bool choose_kv(struct model *m, const char *name, struct err *e)
{
    struct buf known = {0};
    m->kv_auto = name && !strcmp(name, "auto");
    m->kv = name && !m->kv_auto ? kv_recipe_find(name, e) : kv_recipe_at(0);
    for (int i = 1; !(name && !m->kv_auto) && m->kv && !load_takes(dev_caps(m->backend), m->kv); i++)
        m->kv = kv_recipe_at(i);        /* the first one that the device takes */
    if (!m->kv || load_takes(dev_caps(m->backend), m->kv))
        return m->kv;
    for (int i = 0; kv_recipe_at(i); i++)
        if (load_takes(dev_caps(m->backend), kv_recipe_at(i)))
            buf_addf(&known, "%s%s", known.len ? ", " : "", kv_recipe_at(i)->name);
    err_set(e, "the backend '%s' does not take the KV recipe '%s', expected one of: %s", m->backend, m->kv->name, buf_str(&known));
    buf_free(&known);
    return false;
}

/* Recipes for this model on this device, bits of their indices. */
static unsigned kv_choices(const struct model *m)
{
    unsigned bits = 0;
    for (int i = 0; m->backend && kv_recipe_at(i); i++)
        bits |= (unsigned)(load_takes(dev_caps(m->backend), kv_recipe_at(i)) && kv_recipe_fits(kv_recipe_at(i), &m->cfg, NULL)) << i;
    return bits;
}

/* Drafts are guesses: on a GPU the bytes that four bits save are worth more than the drafts that they cost.  A CPU computes longer than it reads. */
static bool choose_mtp(struct model *m, const char *name, struct err *e)
{
    static const char *const names[] = {[MTP_STORED] = "bf16", [MTP_FP8] = "fp8", [MTP_INT4] = "int4"};
    m->mtp = packs(m) ? MTP_INT4 : MTP_STORED;
    for (int i = 0; name && i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(names[i], name)) {
            m->mtp = (enum mtp_form)i;
            return true;
        }
    return !name || err_set(e, "the MTP block is '%s', expected bf16 (as stored), fp8 or int4", name);
}

static bool choose_math(struct model *m, const char *name, struct err *e)
{
    m->math = name && !strcmp(name, "int8") ? PROMPT_INT8 : PROMPT_EXACT;
    return m->math || !name || !strcmp(name, "exact") || err_set(e, "products of prompts are '%s', expected exact or int8", name);
}

/* Checks the options for loading before anything is opened, and sets backend, KV recipe, head and MTP form. */
static bool check_options(struct model *m, const struct load_options *o, struct err *e)
{
    if (!o->dir && !o->synthetic)
        return err_set(e, "no model directory was given");
    m->backend = dev_backend(o->backend, e);
    return m->backend && choose_kv(m, o->kv, e) && choose_head(m, o->head, e) && choose_mtp(m, o->mtp, e) && choose_math(m, o->math, e)
        && in_range("the number of threads", o->n_threads, 0, LIMIT_THREADS, e) && in_range("the prompt chunk", o->chunk, 0, LIMIT_CHUNK, e)
        && in_range("the number of tokens of a picture", o->picture_tokens, 0, LIMIT_PICTURE_TOKENS, e)
        && in_range("the draft depth", o->depth, -1, LIMIT_DRAFTS, e)
        && in_range("the number of conversations", o->n_sequences, LOAD_SOME_SEQUENCES, LIMIT_SEQUENCES, e)
        && in_range("the number of snapshots", o->n_snapshots, LOAD_NO_SNAPSHOTS, LIMIT_SNAPSHOTS, e);
}

/* Fills in the sizes that the options leave open, with the defaults of the device. */
static void settle(struct model *m, const struct load_options *o, bool gpu)
{
    const struct defaults *d = gpu ? &defaults_gpu : &defaults_cpu;
    m->options = *o;
    m->n_sequences = o->n_sequences > 1 ? o->n_sequences : 1;
    m->chunk = o->chunk ? o->chunk : d->chunk;
    m->picture_tokens = o->picture_tokens ? o->picture_tokens : d->picture_tokens;
    m->depth = !m->cfg.n_mtp ? 0 : o->depth < 0 ? LIMIT_DRAFTS : o->depth;
    m->n_snapshots = o->n_snapshots == LOAD_NO_SNAPSHOTS ? 0 : o->n_snapshots ? o->n_snapshots : DEFAULT_SNAPSHOTS;
}

/* Returns the rows of the work space: the MTP block takes the rows of a whole step at once, however small a prompt chunk is. */
static int work_rows(const struct model *m)
{
    return m->chunk > STEP_ROWS ? m->chunk : STEP_ROWS;
}

/* Patches of the tower's least slice of work.  On a CPU a chunk's rows against all patches of a picture would hold other answers up for long. */
static int slice_rows(const struct model *m)
{
    enum { CPU_ROWS = 64 };
    return least(work_rows(m), m->dev->caps->packs_weights ? VISION_ROWS : CPU_ROWS);
}

/* ---- memory ---- */

/* Returns the part of the request for a memory plan that CPU and GPU share. */
static struct memplan_request request(const struct model *m, bool gpu)
{
    const struct model_config *c = &m->cfg;
    return (struct memplan_request){
        .n_sequences = m->options.n_sequences == LOAD_SOME_SEQUENCES ? 0 : m->n_sequences,
        .model = c, .kv = m->kv, .weight_bytes = m->weight_bytes, .n_ctx = m->options.n_ctx, .default_ctx = (gpu ? defaults_gpu : defaults_cpu).n_ctx,
        .max_rows = work_rows(m), .n_snapshots = m->n_snapshots, .more_snapshots = !m->options.n_snapshots, .saves = m->options.saves, .gpu = gpu,
        .kv_choices = kv_choices(m), .spare_positions = SPARE_POSITIONS, .picture_tokens = m->picture_tokens,
        .step_bytes = forward_step_bytes(c) + stepper_bytes(c, m->depth), .step_each_bytes = stepper_slot_bytes(c, m->depth),
    };
}

/* Makes the memory plan and takes KV recipe, context, sequences and snapshots from it. */
static bool make_plan(struct model *m, struct memplan_request *q, struct err *e)
{
    const char *why = m->kv_auto ? memplan_choose_kv(q) : NULL;
    bool ok = memplan_make(&m->plan, q, e);
    m->kv = q->kv;
    m->plan.kv_why = why;
    m->n_ctx = m->plan.n_ctx;
    m->n_sequences = m->plan.n_sequences;
    if (ok)
        m->n_snapshots = m->plan.n_snapshots;
    return ok;
}

static size_t made_head_bytes(const struct model *m)
{
    static const enum weight_format formats[] = {[HEAD_BF16] = WEIGHT_NONE, [HEAD_INT8] = WEIGHT_INT8, [HEAD_PLANES] = WEIGHT_PLANES};
    return weight_bytes(&(struct weight){.format = formats[m->head], .rows = m->cfg.vocab, .cols = m->cfg.hidden});
}

/* Plans the memory of the CPU backend, whose weights are read in place. */
static bool plan_host(struct model *m, struct err *e)
{
    m->weight_bytes = memplan_weight_bytes(m->dir);
    struct memplan_request q = request(m, false);
    q.made_head_bytes = made_head_bytes(m);
    q.made_mtp_bytes = weights_made_mtp_bytes(&m->cfg, m->mtp);
    q.mtp_in_int4 = m->mtp == MTP_INT4;
    q.available = memplan_available();
    q.margin = CPU_MARGIN;
    return make_plan(m, &q, e);
}

/* Halves the automatic chunk to make room; false if it is as short as it may be.  With 4,096 rows prompts take a little longer, with 2,048 rows a
 * fifth. */
static bool halve_chunk(struct model *m, bool fits)
{
    if (m->options.chunk || m->chunk <= (fits ? 4096 : 2048))
        return false;
    m->chunk /= 2;
    return true;
}

/* Returns the request for the memory plan of a GPU; the headers of the weights have been read, so that their formats are known. */
static struct memplan_request request_gpu(const struct model *m, size_t available, bool discrete)
{
    const struct model_config *c = &m->cfg;
    struct memplan_request q = request(m, true);
    q.available = available;
    q.margin = discrete ? GPU_MARGIN : UNIFIED_MARGIN;
    q.discrete = discrete;
    q.weights_in_host = m->dev && m->dev->weights_in_host;
    q.host_available = memplan_available();
    q.host_margin = CPU_MARGIN;
    q.scratch_bytes = most_size(forward_scratch_bytes(c, work_rows(m)), vision_scratch_bytes(c, work_rows(m)));
    q.read_bytes = m->options.synthetic ? 0 : weights_upload_bytes();
    return q;
}

static struct synthetic_form form_of(const struct model *m)
{
    return (struct synthetic_form){m->head, m->mtp, m->options.quality};
}

bool load_plan_gpu(struct model *m, size_t available, bool discrete, size_t int8_weight_bytes, struct err *e)
{
    const struct kv_recipe *kv = m->kv;
    const int n_sequences = m->n_sequences, n_snapshots = m->n_snapshots, wanted = m->options.n_ctx ? m->options.n_ctx : m->cfg.max_pos;
    for (;;) {                          /* a longer context, or one of exact rows, comes before a longer chunk */
        struct memplan_request q = request_gpu(m, available, discrete);
        q.int8_weight_bytes = int8_weight_bytes;
        const bool ok = make_plan(m, &q, e);
        if ((ok && m->n_ctx >= wanted && !q.kv_forced) || !halve_chunk(m, ok))
            return ok;
        m->kv = kv;                     /* what a plan decides */
        m->n_sequences = n_sequences;
        m->n_snapshots = n_snapshots;
    }
}

/* Plans the memory of the model's GPU. */
static bool plan_gpu(struct model *m, struct err *e)
{
    struct dev_facts facts = {.integrated = false};
    const bool discrete = dev_facts(m->dev, &facts) && !facts.integrated;
    const struct synthetic_form form = form_of(m);
    m->weight_bytes = m->dir ? upload_plan_bytes(&m->weights, &m->cfg, m->head, m->mtp) : synthetic_bytes(&m->cfg, &form);
    const size_t int8 = m->dir && m->head == HEAD_BF16 ? upload_plan_bytes(&m->weights, &m->cfg, HEAD_INT8, m->mtp) : 0;
    return load_plan_gpu(m, discrete ? m->dev->available(m->dev) : memplan_available(), discrete, int8, e);
}

bool load_estimate(const struct model_config *c, const struct weights *w, const struct kv_recipe *kv, int n_ctx, struct memory_plan *plan)
{
    struct model m = {.kv = kv, .head = HEAD_PLANES, .mtp = MTP_INT4, .cfg = *c};
    settle(&m, &(struct load_options){.n_ctx = n_ctx, .depth = -1, .saves = true}, true);
    m.weight_bytes = upload_plan_bytes(w, c, m.head, m.mtp);
    bool ok, fits;
    do {
        struct memplan_request q = request_gpu(&m, SIZE_MAX / 2, false);        /* so that the numbers are there, whatever this machine has */
        ok = memplan_make(plan, &q, NULL);
        plan->available = memplan_available();
        fits = ok && plan->available > plan->margin && plan->total <= plan->available - plan->margin;
    } while (ok && !fits && halve_chunk(&m, false));
    return fits;
}

/* ---- the steps ---- */

bool load_check(struct model *m, const struct load_options *o, struct err *e)
{
    *m = (struct model){0};
    if (!check_options(m, o, e))
        return false;
    m->dir = memory_strdup(o->dir);
    m->machine_dir = memory_strdup(o->machine_dir);
    if (!(m->dir ? config_load(&m->cfg, m->dir, e) : synthetic_config(&m->cfg, o->synthetic, o->n_layers, e)) || !kv_recipe_fits(m->kv, &m->cfg, e))
        return false;
    if (!m->dir && o->sees)
        synthetic_vision(&m->cfg);
    m->no_vision = o->no_vision && m->cfg.vision.depth;
    if (o->no_vision)
        m->cfg.vision.depth = 0;
    if (!rope_stretch(&m->cfg, o->n_ctx, e))
        return false;
    settle(m, o, packs(m));
    if (packs(m) || !m->dir)
        return in_range("--ctx", o->n_ctx, 0, m->cfg.max_pos, e);
    return plan_host(m, e);
}

/* Returns the path of NAME in the folder for what was measured of this machine; NULL: there is no folder. */
static const char *machine_file(const struct model *m, const char *name, struct buf *path)
{
    if (!m->machine_dir)
        return NULL;
    buf_reset(path);
    buf_addf(path, "%s/%s", m->machine_dir, name);
    return path->data;
}

/* True if the weights go to pinned host memory: by option, or on an integrated GPU because it read them faster when measured. */
static bool is_in_host(struct model *m)
{
    struct dev_facts f;
    struct buf path = {0}, key = {0};
    if (m->options.weights_in == WEIGHTS_IN_AUTO && dev_facts(m->dev, &f) && f.integrated) {
        buf_addf(&key, "%s, %s", f.gpu, f.driver);
        placement_find(&m->placement, m->dev, key.data, machine_file(m, "weights-in", &path));
    }
    buf_free(&path);
    buf_free(&key);
    return m->options.weights_in == WEIGHTS_IN_HOST || placement_prefers_host(&m->placement);
}

/* Measures the read rate while device memory is still empty.  Failures are ignored. */
static void measure_reads(struct model *m)
{
    struct dev_facts f;
    struct err ignored;
    struct buf path = {0};
    if (machine_file(m, "reads", &path) && dev_facts(m->dev, &f)) {
        const double now = m->dev->read_gb_s(m->dev, f.integrated ? PROBE_UNIFIED : PROBE_OWN, &ignored);
        m->reads = (struct reads){now, reads_best(path.data, f.gpu), reads_usual(f.gpu)};
        if (now > 0)
            reads_remember(path.data, f.gpu, now, &ignored);
    }
    buf_free(&path);
}

bool load_device(struct model *m, struct err *e)
{
    if (m->dev)
        return true;
    m->dev = dev_open(m->backend, m->options.n_threads, e);
    if (m->dev && packs(m)) {
        measure_reads(m);
        m->dev->weights_in_host = is_in_host(m);
        m->dev->kv_in_host = m->options.kv_in_host;
    }
    return m->dev;
}

struct loading {
    load_progress *progress;
    void          *arg;
    bool           stopped;
};

static bool on_progress(size_t done, size_t total, void *arg)
{
    struct loading *l = arg;
    l->stopped = l->progress && !l->progress(done, total, l->arg);
    return !l->stopped;
}

/* Brings mapped weights into memory, and makes the head and the MTP block that are wanted. */
static bool bring_host(struct model *m, struct loading *l, struct err *e)
{
    if (!weights_prefetch(&m->weights, on_progress, l, e))
        return false;
    if (l->stopped)
        return err_set(e, "closed while loading");
    weights_make_head(&m->weights, m->head);
    weights_make_mtp(&m->weights, &m->cfg, m->mtp);
    m->weight_bytes = m->weights.stats.bytes;
    return true;
}

/* Opens the checkpoint's weights; without an MTP block there are no drafts, without a tower no pictures. */
static bool open_weights(struct model *m, struct err *e)
{
    if (!weights_open(&m->weights, &m->cfg, m->dir, e))
        return false;
    if (!m->weights.mtp.present)
        m->depth = 0;
    if (!m->weights.vision.present)
        m->cfg.vision.depth = 0;        /* nothing is planned for it */
    return true;
}

bool load_weights(struct model *m, load_progress *progress, void *arg, struct err *e)
{
    struct loading l = {.progress = progress, .arg = arg};
    const struct upload_options o = {.heads = m->head, .mtp = m->mtp};
    if ((m->dir && !open_weights(m, e)) || !load_device(m, e))
        return false;
    if (m->dev->caps->packs_weights && !plan_gpu(m, e))
        return false;
    if (!m->dir) {
        const struct synthetic_form form = form_of(m);
        m->synthetic = synthetic_open(&m->weights, &m->cfg, m->dev, &form, m->options.seed, e);
        return m->synthetic && (!m->cfg.vision.depth || synthetic_add_vision(m->synthetic, &m->weights, &m->cfg, m->options.seed, e));
    }
    return m->dev->caps->packs_weights ? weights_upload(&m->weights, &m->cfg, m->dev, &o, on_progress, &l, e) : bring_host(m, &l, e);
}

bool load_space(struct model *m, struct err *e)
{
    const struct kv_shape shape = {
        .cfg = &m->cfg, .recipe = m->kv, .n_ctx = m->n_ctx + SPARE_POSITIONS, .max_rows = m->chunk, .n_slots = m->n_sequences,
    };
    if (!caches_open(m->caches, m->dev, &shape, e))
        return false;
    m->cache = m->caches[0];
    m->forward = forward_open(m->dev, &m->cfg, &m->weights, work_rows(m), e);
    if (m->forward && m->weights.vision.present)
        m->vision = vision_open(m->dev, &m->cfg, &m->weights, m->picture_tokens * VISION_MERGE, slice_rows(m), e);
    return m->forward && (m->vision || !m->weights.vision.present) && forward_math(m->forward, m->math, e);
}

bool load_open(struct model *m, const struct load_options *o, struct err *e)
{
    return load_check(m, o, e) && load_weights(m, NULL, NULL, e) && load_space(m, e);
}

struct traffic load_traffic(const struct model *m)
{
    return traffic_of(&m->cfg, &m->weights, m->head, m->kv, m->dev->caps->packs_weights);
}

void load_close(struct model *m)
{
    caches_close(m->caches, LIMIT_SEQUENCES);
    vision_close(m->vision);
    forward_close(m->forward);
    synthetic_close(m->synthetic);
    if (m->dir)
        weights_close(&m->weights);     /* their memory is the device's */
    dev_close(m->dev);
    free(m->machine_dir);
    free(m->dir);
    *m = (struct model){0};
}

bool load_fits(const struct load_options *o, struct memory_plan *plan, struct err *e)
{
    struct model m;
    bool ok = load_check(&m, o, e);
    if (ok && packs(&m))
        ok = open_weights(&m, e) && load_device(&m, e) && plan_gpu(&m, e);
    *plan = m.plan;
    load_close(&m);
    return ok;
}
