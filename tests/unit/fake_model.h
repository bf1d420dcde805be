/* A model made of hashes with the interface of the real one, chosen at link time (these definitions replace those of the
 * archive).  The state is a hash chained over all tokens, a KV row is the chain's value at its position, a hidden state
 * is that value in four floats, and the logits are hashes of it.  So every mistake with states, rows, positions or rollback
 * changes the output.  The fake also checks its arguments with CHECK. */
#pragma once

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "base/err.h"
#include "engine/sampler.h"
#include "model/cache.h"
#include "model/config.h"
#include "model/prompt.h"
#include "model/step.h"
#include "model/stepper.h"
#include "model/synthetic.h"
#include "model/traffic.h"
#include "model/weights.h"
#include "tests/picker.h"

enum { FAKE_HIDDEN = 4, FAKE_MAX_ROWS = 512, FAKE_EOS = 1 };

static struct {
    int   vocab;
    bool  no_mtp;
    int   bad_draft_of;                 /* every n-th MTP output is wrong; 0: none */
    int   n_bad;                        /* MTP drafts that were made wrong on purpose */
    atomic_int row_us;                  /* time a row takes; changed while it runs */
    void (*on_rows)(int rows);          /* called in every chunk and step */
    void (*on_chunk)(const struct prompt_part *parts, int n_parts);    /* called in every chunk */
    atomic_int hold_pos;                /* rows behind this position wait until it is 0 again, a minute at most; 0: none */
    atomic_bool held;                   /* some do */
    atomic_int reached;                 /* the last position that was run, and one */
    atomic_bool hold_load;              /* weights do not arrive, likewise */
    int   n_loaded;                     /* steps of loading */
    int   nan_pos;                      /* the row of this position has NaN logits; 0: none */
    int   fault_pos;                    /* running this position is a device fault; 0: none */
    const char *load_error;             /* weights_open fails */
    int   load_steps, load_step_us;
    long  rows_run;                     /* main model rows so far; a stepper's are not counted */
    long  n_in_vain;                    /* rows and drafts beyond the answer's longest end, where the host decides how many, of answers alone */
    long  n_early;                      /* calls for drafts while the step before them was not heard of, where the host decides how many */
    bool  beside_host;                  /* the device works while the host goes on */
    bool  several;                      /* its steps take rows of several conversations */
    long  n_together;                   /* steps that did */
    long  n_verified_together;          /* rows of these for drafts */
    long  n_again;                      /* picks that were made once more */
    long  n_guarded;                    /* picks that might have been */
    long  n_void;                       /* of these: after which drafts were queued already */
    long  n_cut[STEP_ROWS];             /* steps under a guide, with a fixed number of drafts, that left out draft i and those after it */
    long  n_drafts_together;            /* drafts that were made for several at once */
} fake = {.vocab = 16, .bad_draft_of = 3};

static inline uint64_t fake_mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return h ^ (h >> 32);
}

/* exact: four integers of 16 bits */
static inline void fake_encode(float *hidden, uint64_t h)
{
    for (int i = 0; i < FAKE_HIDDEN; i++)
        hidden[i] = (float)(h >> (16 * i) & 0xffff);
}

static inline uint64_t fake_decode(const float *hidden)
{
    uint64_t h = 0;
    for (int i = 0; i < FAKE_HIDDEN; i++)
        h |= (uint64_t)hidden[i] << (16 * i);
    return h;
}

static inline uint64_t fake_chain(const int32_t *ids, int n)
{
    uint64_t h = 0;
    for (int i = 0; i < n; i++)
        h = fake_mix(h, (uint64_t)ids[i]);
    return h;
}

/* between 0 and 4, so that several ids stay likely */
static inline void fake_logits(float *logits, uint64_t h)
{
    for (int v = 0; v < fake.vocab; v++)
        logits[v] = (float)(fake_mix(h, (uint64_t)v + 1000) >> 40) * 0x1p-22f;
}

/* ---- device ---- */

static atomic_bool fake_faulted;        /* of all engines, each on a thread of its own */

static void *fake_alloc(struct dev *d, size_t n)         { (void)d; return calloc(1, n ? n : 1); }
static void fake_free(struct dev *d, void *p)            { (void)d; free(p); }
static void fake_close(struct dev *d)                    { free(d); }
static bool fake_finish(struct dev *d, struct err *e)
{
    (void)d;
    return !fake_faulted || err_set(e, "operation attention failed: out of order");
}

struct dev *dev_open_cpu(int n_threads, struct err *e)
{
    (void)n_threads;
    (void)e;
    struct dev *d = calloc(1, sizeof *d);
    CHECK(d);
    fake_faulted = false;
    *d = (struct dev){.name = "cpu", .alloc = fake_alloc, .free = fake_free, .alloc_host = fake_alloc, .free_host = fake_free,
                      .finish = fake_finish, .close = fake_close};
    static const struct dev_caps caps[4] = {{.kv_dtypes = 1u << DT_F32}, {.beside_host = true, .kv_dtypes = 1u << DT_F32},
                                            {.several = true, .kv_dtypes = 1u << DT_F32},
                                            {.several = true, .beside_host = true, .kv_dtypes = 1u << DT_F32}};
    d->caps = &caps[fake.several * 2 + fake.beside_host];
    return d;
}

/* Random weights are the real model's. */
bool synthetic_config(struct model_config *c, const char *name, int n_layers, struct err *e)
{
    (void)c, (void)n_layers;
    return err_set(e, "no geometry is called '%s'", name);
}
struct synthetic *synthetic_open(struct weights *w, const struct model_config *c, struct dev *d, const struct synthetic_form *form, uint64_t seed,
                                 struct err *e)
{
    (void)w, (void)c, (void)d, (void)form, (void)seed, (void)e;
    return NULL;
}
void synthetic_vision(struct model_config *c) { (void)c; }
bool synthetic_add_vision(struct synthetic *s, struct weights *w, struct model_config *c, uint64_t seed, struct err *e)
{
    (void)s, (void)w, (void)c, (void)seed, (void)e;
    return true;
}
void synthetic_close(struct synthetic *s) { (void)s; }
size_t synthetic_bytes(const struct model_config *c, const struct synthetic_form *form) { (void)c, (void)form; return 0; }

int dev_cpu_threads(const struct dev *d) { (void)d; return 1; }

/* ---- config and weights ---- */

bool config_load(struct model_config *c, const char *dir, struct err *e)
{
    if (!strcmp(dir, "missing"))
        return err_set(e, "cannot open missing/config.json: No such file or directory");
    *c = (struct model_config){.name = "fake", .hidden = FAKE_HIDDEN, .n_layers = 4, .vocab = fake.vocab, .max_pos = 100000, .yarn_factor = 1,
                               .n_mtp = !fake.no_mtp, .eos = {FAKE_EOS}, .n_eos = 1, .gen_temperature = -1, .gen_top_p = -1};
    return true;
}

bool weights_open(struct weights *w, const struct model_config *c, const char *dir, struct err *e)
{
    (void)dir;
    if (fake.load_error)
        return err_set(e, "%s", fake.load_error);
    *w = (struct weights){.mtp.present = c->n_mtp > 0, .stats = {.bytes = 1000, .n_int4 = 1, .n_fp8 = 1}};
    return true;
}

void weights_close(struct weights *w)          { *w = (struct weights){0}; }
void weights_norms(struct layer_weights *l, int n, struct dev *d) { (void)l, (void)n, (void)d; }
void weights_vision_norms(struct vision_weights *v, int n, struct dev *d) { (void)v, (void)n, (void)d; }
void weights_make_head(struct weights *w, enum head h) { (void)w, (void)h; }
void weights_make_mtp(struct weights *w, const struct model_config *c, enum mtp_form form) { (void)w, (void)c, (void)form; }
size_t weights_made_mtp_bytes(const struct model_config *c, enum mtp_form form) { (void)c, (void)form; return 0; }
enum weight_format weights_mtp_format(const struct model_config *c, enum mtp_form form, enum mtp_part part, const struct weight *w)
{
    (void)c, (void)form, (void)part;
    return w->format;
}

bool weights_prefetch(struct weights *w, bool (*progress)(size_t, size_t, void *), void *arg, struct err *e)
{
    (void)w;
    (void)e;
    for (int i = 0; i < fake.load_steps; i++) {
        for (int ms = 0; fake.hold_load && ms < 60000; ms++)
            usleep(1000);
        usleep((useconds_t)fake.load_step_us);
        fake.n_loaded++;
        if (!progress((size_t)i + 1, (size_t)fake.load_steps, arg))
            return true;
    }
    return true;
}

/* ---- cache ---- */

struct fake_states {
    uint64_t chain;
    int      pos;
    float    last[FAKE_HIDDEN];
};

struct cache {
    int n_ctx;
    struct fake_states s;               /* committed */
    struct { uint64_t chain; int32_t id; } *kv;         /* [n_ctx] */
    struct { uint64_t chain; int32_t next; } *mtp;      /* [n_ctx] */
    uint64_t staged[16];
    int      n_staged;
    const struct rope_position *at;     /* as cache_set_positions() was called last */
    int      n_at, offset;
};

size_t kv_bytes(const struct kv_shape *s) { return (size_t)s->n_slots * (size_t)s->n_ctx * (kv_recipe_compresses(s->recipe) ? 16 : 64); }
int kv_n_layers(const struct model_config *c) { return c->n_full; }
size_t kv_token_bytes(const struct model_config *c, const struct kv_recipe *r) { (void)c, (void)r; return 8; }
bool kv_recipe_fits(const struct kv_recipe *r, const struct model_config *c, struct err *e) { (void)r, (void)c, (void)e; return true; }

size_t cache_state_bytes(const struct model_config *c) { (void)c; return sizeof(struct fake_states); }
size_t cache_saved_bytes(const struct model_config *c, const struct kv_recipe *r) { (void)c, (void)r; return sizeof(struct fake_states); }
size_t cache_step_bytes(const struct model_config *c) { (void)c; return 16; }
size_t forward_step_bytes(const struct model_config *c);
size_t forward_step_bytes(const struct model_config *c) { (void)c; return 16; }

struct cache *cache_open(struct dev *d, const struct kv_shape *s, struct err *e)
{
    (void)d;
    (void)e;
    struct cache *k = calloc(1, sizeof *k);
    CHECK(k);
    k->n_ctx = s->n_ctx;
    k->kv = calloc((size_t)s->n_ctx, sizeof *k->kv);
    k->mtp = calloc((size_t)s->n_ctx, sizeof *k->mtp);
    CHECK(k->kv && k->mtp);
    return k;
}

const struct kv_recipe *cache_recipe(const struct cache *k) { (void)k; return NULL; }

void cache_close(struct cache *k)
{
    if (!k)
        return;
    free(k->kv);
    free(k->mtp);
    free(k);
}

bool caches_open(struct cache **all, struct dev *d, const struct kv_shape *s, struct err *e)
{
    for (int i = 0; i < s->n_slots; i++)
        all[i] = cache_open(d, s, e);
    return true;
}

void caches_close(struct cache **all, int n)
{
    for (int i = 0; i < n; i++)
        cache_close(all[i]);
}

void cache_reset(struct cache *k)
{
    k->s = (struct fake_states){0};
    k->n_staged = 0;
    k->at = NULL;
    k->n_at = k->offset = 0;
}

void cache_set_pictures(struct cache *k, const struct picture_rows *p, int n) { (void)k, (void)p, (void)n; }

void cache_set_positions(struct cache *k, const struct rope_position *at, int n, int offset)
{
    k->at = at;
    k->n_at = n;
    k->offset = offset;
}

void cache_accept(struct cache *k, int n)
{
    CHECK(n >= 0 && n <= k->n_staged);
    if (n)
        k->s.chain = k->staged[n - 1];
    k->s.pos += n;
    k->n_staged = 0;
}

void cache_state_save(struct cache *k, void *dst) { memcpy(dst, &k->s, sizeof k->s); }

int cache_saved_pos(const struct cache *k, const void *saved) { (void)k; return ((const struct fake_states *)saved)->pos; }

/* A row of the model, one of the MTP block. */
size_t cache_rows_bytes(const struct cache *k, int from, int to) { (void)k; return (size_t)(to - from) * (sizeof *k->kv + sizeof *k->mtp); }

void cache_rows_save(struct cache *k, int from, int to, void *dst)
{
    memcpy(dst, k->kv + from, (size_t)(to - from) * sizeof *k->kv);
    memcpy((char *)dst + (size_t)(to - from) * sizeof *k->kv, k->mtp + from, (size_t)(to - from) * sizeof *k->mtp);
}

void cache_rows_load(struct cache *k, int from, int to, const void *src)
{
    memcpy(k->kv + from, src, (size_t)(to - from) * sizeof *k->kv);
    memcpy(k->mtp + from, (const char *)src + (size_t)(to - from) * sizeof *k->kv, (size_t)(to - from) * sizeof *k->mtp);
}

void cache_state_load(struct cache *k, const void *src)
{
    memcpy(&k->s, src, sizeof k->s);
    k->n_staged = 0;
}

/* ---- forward ---- */

struct forward {
    int   max_rows, vocab;
    float hidden[FAKE_MAX_ROWS * FAKE_HIDDEN];
};

struct forward *forward_open(struct dev *d, const struct model_config *c, const struct weights *w, int max_rows, struct err *e)
{
    (void)d;
    (void)w;
    (void)e;
    struct forward *f = calloc(1, sizeof *f);
    CHECK(f && max_rows <= FAKE_MAX_ROWS);
    f->max_rows = max_rows;
    f->vocab = c->vocab;
    return f;
}

void forward_close(struct forward *f) { free(f); }
bool forward_math(struct forward *f, enum prompt_math math, struct err *e) { (void)f, (void)e; return math == PROMPT_EXACT; }
size_t forward_bytes(const struct model_config *c, int max_rows, bool gpu) { (void)c; (void)gpu; return (size_t)max_rows * 100; }
size_t forward_scratch_bytes(const struct model_config *c, int max_rows) { (void)c; return (size_t)max_rows * 10; }

/* All rows below pos belong to one sequence, and the states stand at its end. */
static void fake_check_rows(const struct cache *k, int pos)
{
    uint64_t h = 0;
    CHECK(k->s.pos == pos);
    for (int i = 0; i < pos; i++) {
        h = fake_mix(h, (uint64_t)k->kv[i].id);
        CHECK(h == k->kv[i].chain);
    }
    CHECK(h == k->s.chain);
}

/* The end of the minute is told by hold_pos. */
static void fake_hold(int end)
{
    for (int ms = 0; fake.hold_pos && end > fake.hold_pos; ms++) {
        fake.held = true;
        usleep(1000);
        if (ms == 60000)
            fake.hold_pos = 0;
    }
    fake.held = false;
}

static void fake_run(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos, bool stage)
{
    CHECK(n >= 1 && n <= f->max_rows && pos >= 0 && pos + n <= k->n_ctx);
    CHECK(!stage || n <= STEP_ROWS);
    CHECK(!k->n_staged);                /* somebody said how many of them count */
    fake_check_rows(k, pos);
    fake_hold(pos + n);
    fake.reached = pos + n;
    uint64_t h = k->s.chain;
    for (int i = 0; i < n; i++) {
        CHECK(ids[i] >= 0 && ids[i] < f->vocab);
        h = fake_mix(h, (uint64_t)ids[i]);
        k->kv[pos + i].chain = h;
        k->kv[pos + i].id = ids[i];
        fake_encode(f->hidden + i * FAKE_HIDDEN, h);
        if (stage)
            k->staged[k->n_staged++] = h;
        if (fake.fault_pos && pos + i == fake.fault_pos)
            fake_faulted = true;
        if (fake.nan_pos && pos + i == fake.nan_pos)
            f->hidden[i * FAKE_HIDDEN] = NAN;
    }
    if (!stage) {
        k->s.chain = h;
        k->s.pos = pos + n;
    }
    fake.rows_run += n;
    if (fake.row_us)
        usleep((useconds_t)(fake.row_us * n));
}

static void fake_took(int rows)
{
    if (fake.on_rows)
        fake.on_rows(rows);
}

void step_run(struct forward *f, struct cache *k, const int32_t *ids, int n, int pos)
{
    fake_run(f, k, ids, n, pos, true);
    fake_took(n);
}

const float *forward_hidden(const struct forward *f) { return f->hidden; }

void prompt_head(struct forward *f, enum head h, const float *hidden, int n, float *logits)
{
    (void)h;
    for (int i = 0; i < n; i++, hidden += FAKE_HIDDEN, logits += f->vocab) {
        if (isnan(hidden[0]))
            logits[3] = NAN;
        else
            fake_logits(logits, fake_decode(hidden));
    }
}

/* The chain's value one token on is exactly what the main model would give, so an honest draft is always right. */
void prompt_mtp(struct forward *f, struct cache *k, const float *hidden, const int32_t *next_ids, int n, int pos, float *out)
{
    (void)f;
    CHECK(n >= 1 && n <= FAKE_MAX_ROWS && pos >= 0 && pos + n <= k->n_ctx);
    CHECK(out + n * FAKE_HIDDEN <= hidden || hidden + n * FAKE_HIDDEN <= out);
    for (int i = 0; i < pos && i < k->s.pos - 1; i++)
        CHECK(k->mtp[i].chain == k->kv[i].chain && k->mtp[i].next == k->kv[i + 1].id);
    for (int i = 0; i < n; i++) {
        uint64_t h = isnan(hidden[i * FAKE_HIDDEN]) ? 0 : fake_decode(hidden + i * FAKE_HIDDEN);
        k->mtp[pos + i].chain = h;
        k->mtp[pos + i].next = next_ids[i];
        h = fake_mix(h, (uint64_t)next_ids[i]);
        if (fake.bad_draft_of && (h >> 20) % (uint64_t)fake.bad_draft_of == 0) {
            h ^= 0xff00;
            fake.n_bad++;
        }
        fake_encode(out + i * FAKE_HIDDEN, h);
    }
}

static void fake_chunk(struct forward *f, const struct prompt_part *p, bool mtp)
{
    float in[FAKE_MAX_ROWS * FAKE_HIDDEN], out[FAKE_MAX_ROWS * FAKE_HIDDEN];
    struct cache *k = p->k;
    int n = p->n, from = p->pos ? p->pos - 1 : 0, skip = p->pos ? 0 : 1;
    fake_run(f, k, p->ids, n, p->pos, false);
    memcpy(in, k->s.last, sizeof k->s.last);
    memcpy(in + FAKE_HIDDEN, f->hidden, (size_t)(n - 1) * sizeof k->s.last);
    if (mtp && n > skip)
        prompt_mtp(f, k, in + skip * FAKE_HIDDEN, p->ids + skip, n - skip, from, out);
    memcpy(k->s.last, f->hidden + (n - 1) * FAKE_HIDDEN, sizeof k->s.last);
}

void prompt_chunks(struct forward *f, const struct prompt_part *parts, int n_parts, bool mtp)
{
    int rows = 0;
    for (int i = 0; i < n_parts; i++) {
        CHECK(!rows || prompt_joins(rows, parts[i].n));
        rows += parts[i].n;
        for (int j = 0; j < i; j++)
            CHECK(parts[j].k != parts[i].k);
        fake_chunk(f, &parts[i], mtp);
    }
    CHECK(rows > 0 && rows <= f->max_rows);
    if (fake.on_chunk)
        fake.on_chunk(parts, n_parts);
    fake_took(rows);
}

const float *forward_last_hidden(const struct cache *k) { return k->s.last; }
void forward_keep_hidden(struct cache *k, const float *hidden) { memcpy(k->s.last, hidden, sizeof k->s.last); }

/* ---- stepper: does a step when it is launched, and remembers what the device would ---- */

enum { FAKE_UNDO = 4 };

/* A conversation. */
struct stepper_slot {
    struct stepper *s;
    struct cache *k;
    int depth;
    struct picker *picker;
    struct sampling how;
    struct fake_live {                  /* what one step of undo brings back */
        struct fake_states states;
        int32_t newest, drafts[STEP_ROWS];
        int     n_drafts, room;
        bool    done;
    } live, before[FAKE_UNDO];          /* before[i % FAKE_UNDO]: before launch i */
    struct step_result results[STEP_RESULTS];
    struct step_drafts made;
    /* of an answer under a guide: what picks its newest step again */
    bool  guarded;
    float hidden[STEP_ROWS * FAKE_HIDDEN];
    int   n_hidden, n_verified;
    uint32_t masks[STEP_ROWS][2], masked;
    struct step_sampling sampling_before;
    uint8_t seen_before[64];
    float chain[FAKE_HIDDEN];           /* the MTP block's hidden state that the next draft is made from */
    int n_launched, n_taken;
    struct stepper_counts counts;
};

struct stepper {
    struct forward *f;
    int max_depth, n;
    struct stepper_slot *slots;
    struct stepper_part parts[STEP_ROWS];               /* of the newest step of several */
    int n_parts;
    struct stepper_counts counts;
};

struct stepper *stepper_open(struct forward *f, struct cache *const *caches, int n, enum head h, int max_depth, struct err *e)
{
    (void)h, (void)e;
    struct stepper *s = calloc(1, sizeof *s);
    CHECK(s);
    *s = (struct stepper){.f = f, .max_depth = max_depth, .n = n, .slots = calloc((size_t)n, sizeof *s->slots)};
    CHECK(s->slots);
    for (int i = 0; i < n; i++)
        s->slots[i] = (struct stepper_slot){.s = s, .k = caches[i], .picker = picker_open(f->vocab)};
    return s;
}

void stepper_close(struct stepper *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        picker_close(s->slots[i].picker);
    free(s->slots);
    free(s);
}

size_t stepper_slot_bytes(const struct model_config *c, int max_depth)
{
    (void)c;
    return (size_t)max_depth * 10;
}

size_t stepper_bytes(const struct model_config *c, int max_depth)
{
    (void)c;
    return (size_t)max_depth * 100;
}

struct stepper_slot *stepper_slot(struct stepper *s, int i)
{
    CHECK(i >= 0 && i < s->n);
    return &s->slots[i];
}

void stepper_begin(struct stepper_slot *o, const struct step_sampling *how, const int32_t *prompt, int n_prompt, int n_answer_prefix, int pos,
                   const int32_t *bias_ids, const float *bias, int n_bias, int depth)
{
    struct stepper *s = o->s;
    CHECK(pos == o->k->s.pos && !o->k->n_staged && depth >= 0 && depth <= s->max_depth && how->room > 0);
    CHECK(fake_decode(o->k->s.last) == o->k->s.chain || isnan(o->k->s.last[0]));
    o->how = (struct sampling){
#define SAMPLING_NUMBER(name, ...) .name = how->name,
#include "config/sampling_numbers.def"
        .top_k = how->top_k, .n_ids = how->n_ids,
        .n_stop = how->n_stop, .bias_ids = bias_ids, .bias = bias, .n_bias = n_bias, .n_answer_prefix = n_answer_prefix,
        .n_alternatives = how->n_alternatives,
    };
    o->how.seed = how->rng - (sampler_stream(&o->how) - o->how.seed);           /* the device's stream stands behind n_answer_prefix
                                                                                             * already */
    memcpy(o->how.stop, how->stop, sizeof o->how.stop);
    picker_begin(o->picker, &o->how, prompt, n_prompt);
    o->depth = depth;
    o->live = (struct fake_live){.room = how->room};
    o->n_launched = o->n_taken = 0;
    o->guarded = false;
    o->masked = 0;
}

void stepper_guard(struct stepper_slot *o, bool on)
{
    CHECK(on == o->guarded || o->n_taken == o->n_launched);
    o->guarded = on;
}

/* Picks row by row from `hidden` of at most n rows. */
static struct step_result fake_pick(struct stepper_slot *o, const float *hidden, int n_drafts)
{
    struct stepper *s = o->s;
    struct fake_live *v = &o->live;
    struct step_result r = {.n_drafts = n_drafts < v->room - 1 ? n_drafts : v->room - 1};
    for (bool agreed = true; agreed && !r.ended;) {
        float logits[64] = {0};
        struct pick p;
        struct err e;
        int i = r.n++;
        prompt_head(s->f, HEAD_BF16, hidden + i * FAKE_HIDDEN, 1, logits);
        o->picker->mask = o->masked >> i & 1 ? o->masks[i] : NULL;
        if (!picker_pick(o->picker, logits, &p, &e)) {
            r.n = 0;
            r.ended = 4;
            for (int id = s->f->vocab - 1; id >= 0; id--)
                if (!(logits[id] <= FLT_MAX)) {
                    r.ended = 3;
                    r.bad_id = id;
                    r.bad_logit = logits[id];
                }
            break;
        }
        agreed = i < r.n_drafts && p.id == v->drafts[i];
        r.ids[i] = p.id;
        r.drafted[i] = agreed;
        r.prob[i] = p.prob;
        r.logprobs[i] = (struct logprobs){.prob = p.logprobs.prob, .n = p.logprobs.n};
        memcpy(r.logprobs[i].ids, p.logprobs.ids, sizeof p.logprobs.ids);
        memcpy(r.logprobs[i].probs, p.logprobs.probs, sizeof p.logprobs.probs);
        r.ended = --v->room ? 0 : 2;
        for (int j = 0; j < o->how.n_stop; j++)
            if (o->how.stop[j] == p.id)
                r.ended = 1;
    }
    v->done = r.ended != 0;
    if (r.n)
        v->newest = r.ids[r.n - 1];
    return r;
}

/* MTP rows of the n newest positions. */
static void fake_mtp_rows(struct stepper_slot *o, const float *hidden, const int32_t *next, int n)
{
    struct stepper *s = o->s;
    float out[STEP_ROWS * FAKE_HIDDEN];
    o->live.n_drafts = 0;
    if (!s->max_depth || !n)
        return;
    prompt_mtp(s->f, o->k, hidden, next, n, o->k->s.pos - n, out);
    memcpy(o->chain, out + (n - 1) * FAKE_HIDDEN, sizeof o->chain);
}

static void fake_draft(struct stepper_slot *o, int n)
{
    struct stepper *s = o->s;
    struct fake_live *v = &o->live;
    CHECK(v->n_drafts + n <= s->max_depth);
    s->counts.drafts += n;
    s->counts.heads += n;
    for (; n && !v->done; n--) {
        float logits[64] = {0}, h[FAKE_HIDDEN];
        const int i = v->n_drafts++;
        memcpy(h, o->chain, sizeof h);
        if (i)
            prompt_mtp(s->f, o->k, h, &v->drafts[i - 1], 1, o->k->s.pos + i - 1, o->chain);
        prompt_head(s->f, HEAD_BF16, o->chain, 1, logits);
        o->made.ids[i] = v->drafts[i] = sampler_argmax(logits, o->how.n_ids);
        o->made.prob[i] = (float)((v->drafts[i] * 37 + i) % 100) / 100;
    }
}

/* Behind a step that was not heard of the host knows only that it gives one token. */
void stepper_draft(struct stepper_slot *o, int n)
{
    const bool early = o->n_taken < o->n_launched;
    const int room = early ? o->before[(o->n_launched - 1) % FAKE_UNDO].room - 1 : o->live.room;
    fake.n_early += !o->depth && early;
    fake.n_in_vain += !o->depth && o->live.n_drafts + n > room - 1;
    fake_draft(o, n);
}

void stepper_propose(struct stepper_slot *o, const int32_t *ids, int n)
{
    struct stepper *s = o->s;
    struct fake_live *v = &o->live;
    CHECK(n > 0 && n <= s->max_depth && o->n_taken == o->n_launched);
    memcpy(v->drafts, ids, (size_t)n * sizeof *ids);
    v->n_drafts = n;
}

bool stepper_drafts(struct stepper_slot *o, struct step_drafts *out, struct err *e)
{
    *out = o->made;
    return fake_finish(NULL, e);
}

void stepper_step(struct stepper_slot *o, int n_rows)
{
    struct stepper *s = o->s;
    struct fake_live *v = &o->live;
    struct step_result r = {0};
    float hidden[STEP_ROWS * FAKE_HIDDEN];
    CHECK(o->n_launched - o->n_taken < STEP_RESULTS);
    v->states = o->k->s;
    fake.n_in_vain += !o->depth && n_rows > v->room;
    o->before[o->n_launched % FAKE_UNDO] = *v;
    CHECK(!o->guarded || o->n_taken == o->n_launched);
    fake.n_guarded += o->guarded;
    o->masked = 0;
    o->sampling_before = o->picker->how;
    memcpy(o->seen_before, o->picker->seen, (size_t)s->f->vocab);
    o->n_verified = o->n_hidden = 0;
    fake.n_cut[n_rows - 1] += o->guarded && o->depth && n_rows - 1 < v->n_drafts;
    if (!o->n_launched) {
        memcpy(hidden, o->k->s.last, sizeof o->k->s.last);
        r = fake_pick(o, hidden, 0);
        fake_mtp_rows(o, hidden, r.ids, r.n);
    } else {
        int32_t ids[STEP_ROWS] = {v->newest};
        const int n_drafts = v->n_drafts < n_rows - 1 ? v->n_drafts : n_rows - 1;
        long rows_run = fake.rows_run;
        memcpy(ids + 1, v->drafts, (size_t)n_drafts * sizeof *ids);
        step_run(s->f, o->k, ids, n_rows, o->k->s.pos);    /* also after the end */
        fake.rows_run = rows_run;
        memcpy(hidden, forward_hidden(s->f), (size_t)n_rows * FAKE_HIDDEN * sizeof *hidden);
        memcpy(o->hidden, hidden, (size_t)n_rows * FAKE_HIDDEN * sizeof *hidden);
        o->n_hidden = n_rows;
        o->n_verified = n_drafts;
        if (!v->done)
            r = fake_pick(o, hidden, n_drafts);
        cache_accept(o->k, r.n);
        if (r.n)
            forward_keep_hidden(o->k, hidden + (r.n - 1) * FAKE_HIDDEN);
        fake_mtp_rows(o, hidden, r.ids, r.n);
    }
    r.serial = ++o->n_launched;
    o->results[(o->n_launched - 1) % STEP_RESULTS] = r;
}

void stepper_pick_again(struct stepper_slot *o, int row, const uint32_t *mask)
{
    CHECK(o->guarded && o->n_taken == o->n_launched && row >= 0 && row <= o->n_verified);
    fake.n_again++;
    fake.n_void += o->live.n_drafts > 0;
    o->live = o->before[--o->n_taken % FAKE_UNDO];
    o->k->s = o->live.states;
    o->k->n_staged = o->n_hidden;
    o->picker->how = o->sampling_before;
    memcpy(o->picker->seen, o->seen_before, (size_t)o->s->f->vocab);
    memcpy(o->masks[row], mask, (size_t)step_mask_words(o->s->f->vocab) * sizeof *mask);
    o->masked |= 1u << row;
    const float *hidden = o->n_hidden ? o->hidden : o->k->s.last;
    float copy[STEP_ROWS * FAKE_HIDDEN];
    memcpy(copy, hidden, (size_t)(o->n_hidden ? o->n_hidden : 1) * FAKE_HIDDEN * sizeof *copy);
    struct step_result r = fake_pick(o, copy, o->n_verified);
    if (o->n_hidden) {
        cache_accept(o->k, r.n);
        if (r.n)
            forward_keep_hidden(o->k, copy + (r.n - 1) * FAKE_HIDDEN);
    }
    fake_mtp_rows(o, copy, r.ids, r.n);
    r.serial = o->n_launched;
    o->results[(o->n_launched - 1) % STEP_RESULTS] = r;
}

int stepper_most_rows(const struct stepper *s)
{
    const int most = s->n * (s->max_depth + 1);
    return most < STEP_ROWS ? most : STEP_ROWS;
}

void stepper_step_together(struct stepper *s, const struct stepper_part *parts, int n)
{
    int rows = 0;
    for (int i = 0; i < n; i++) {
        struct stepper_slot *o = stepper_slot(s, parts[i].slot);
        CHECK(o->n_launched && o->n_taken == o->n_launched);
        stepper_step(o, parts[i].rows);
        rows += parts[i].rows;
    }
    CHECK(n >= 1 && rows <= stepper_most_rows(s));
    memcpy(s->parts, parts, (size_t)n * sizeof *parts);
    s->n_parts = n;
    fake.n_together += n > 1;
    fake.n_verified_together += n > 1 ? rows - n : 0;
}

void stepper_draft_together(struct stepper *s, int n_parts, int n)
{
    const struct stepper_counts before = s->counts;
    CHECK(n_parts <= s->n_parts);
    for (int i = 0; i < n_parts; i++) {
        s->counts = before;             /* one run for all of them */
        fake_draft(stepper_slot(s, s->parts[i].slot), n);
    }
    fake.n_drafts_together += n_parts > 1 ? (long)n * n_parts : 0;
}

void stepper_launch(struct stepper_slot *o)
{
    stepper_step(o, 1 + o->depth);
    if (o->depth)
        stepper_draft(o, o->depth);
}

bool stepper_wait(struct stepper_slot *o, struct step_result *out, struct err *e)
{
    CHECK(o->n_taken < o->n_launched);
    *out = o->results[o->n_taken++ % STEP_RESULTS];
    return fake_finish(NULL, e);
}

int stepper_end(struct stepper_slot *o, int n_delivered, struct err *e)
{
    CHECK(n_delivered <= o->n_taken && o->n_taken - n_delivered <= 1 && o->n_launched - n_delivered <= 2);
    if (n_delivered < o->n_launched)
        o->k->s = o->before[n_delivered % FAKE_UNDO].states;
    return fake_finish(NULL, e) ? o->k->s.pos : -1;
}

int stepper_pause(struct stepper_slot *o, struct err *e)
{
    CHECK(o->n_taken == o->n_launched);
    return stepper_end(o, o->n_taken, e);
}

void stepper_resume(struct stepper_slot *o) { (void)o; }

int stepper_behind(const struct stepper_slot *o) { return (void)o, 0; }
struct stepper_counts stepper_counts(const struct stepper *s) { return s->counts; }

/* A step moves a hundred bytes and one more for each row, a draft ten. */
struct traffic traffic_of(const struct model_config *c, const struct weights *w, enum head head, const struct kv_recipe *kv, bool packed)
{
    (void)w, (void)head, (void)kv, (void)packed;
    return (struct traffic){.c = c, .draft_head = 10};
}
double traffic_distinct(const struct traffic *t, double rows) { return (void)t, rows; }
double traffic_step(const struct traffic *t, int rows, int pos, double distinct) { return (void)t, (void)pos, (void)distinct, 100 + rows; }
double traffic_mtp(const struct traffic *t, double distinct) { return (void)t, (void)distinct, 0; }
