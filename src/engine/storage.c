#include "engine/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "engine/decode.h"
#include "engine/keeper.h"
#include "engine/load.h"
#include "engine/restorer.h"
#include "engine/saver.h"
#include "model/identity.h"

enum { BRING_BACK_MS = 5 };             /* time for slices between two steps; a step of a large model takes several times as long */

void storage_init(struct storage *s, struct requests *q)
{
    *s = (struct storage){.requests = q};
    homes_init(&s->homes);
}

void storage_free(struct storage *s)
{
    homes_free(&s->homes);
}

/* ---- hooks of the keeper, called on its thread ---- */

static void on_wants_rows(void *arg)
{
    const struct storage *s = arg;
    requests_want_rows(s->requests);
}

static void post(const struct storage *s, enum event_kind kind, uint64_t name, size_t done, size_t total, const struct err *why)
{
    struct event ev = {.kind = kind, .sequence = name, .done = done, .total = total};
    snprintf(ev.message, sizeof ev.message, "%s", why->msg);
    requests_post(s->requests, &ev);
}

static void on_kept(void *arg, const struct kept *k)
{
    struct storage *s = arg;
    if (!k->dropped)
        post(s, EV_SAVED, k->name, k->saved.written, k->saved.bytes, &k->saved.failed);
    if (!k->dropped || k->evicted)
        homes_wrote(&s->homes, k->name, k->path, &k->saved.has);
    if (k->evicted)
        homes_move(&s->homes, k->name, false);
    else
        requests_saved(s->requests);
    requests_look_again(s->requests);
}

/* ---- hooks of the restorer ---- */

/* Called on its thread. */
static void on_arrived(void *arg)
{
    const struct storage *s = arg;
    requests_look_again(s->requests);
}

static void say_deleted(struct err *why)
{
    const struct err was = *why;
    err_set(why, "%s: it is deleted", was.msg);
}

static void note_restored(struct storage *s, const struct restored *r)
{
    const struct timeline *t = r->of.tl;
    const struct saving has = {.ids = t->ids, .n = t->n_run, .pos = {t->n_run}};
    decoder_restored(s->decoder, r->name, &r->of);
    homes_wrote(&s->homes, r->name, r->path, &has);
}

static void on_restored(void *arg, const struct restored *r)
{
    struct storage *s = arg;
    struct err why = r->refused;
    if (r->deleted)
        say_deleted(&why);
    decoder_release(s->decoder, &r->of);
    if (r->n_tokens)
        note_restored(s, r);
    else if (!decoder_is_there(s->decoder, r->name, NULL, 0))
        homes_refuse(&s->homes, r->name);
    if (r->n_tokens || *why.msg)
        post(s, EV_RESTORED, r->name, (size_t)r->n_tokens, 0, &why);
}

/* ---- open and close ---- */

bool storage_open(struct storage *s, const struct model *m, struct decoder *d, struct err *e)
{
    s->model = m;
    s->decoder = d;
    s->keeper = keeper_open(&(struct keeper_hooks){on_wants_rows, on_kept, s}, e);
    s->restorer = s->keeper ? restorer_open(&(struct restorer_hooks){on_arrived, on_restored, s}, e) : NULL;
    return s->restorer;
}

void storage_close(struct storage *s)
{
    restorer_close(s->restorer);
    keeper_close(s->keeper);
    s->restorer = NULL;
    s->keeper = NULL;
}

/* All that the bytes of a checkpoint depend on. */
static struct fingerprint identity_of(const struct model *m)
{
    const int32_t numbers[] = {m->depth > 0, kv_n_layers(&m->cfg), (int32_t)cache_saved_bytes(&m->cfg, m->kv)};
    struct fingerprinter *f = fingerprint_begin();
    identity_add_model(f, m->dir);
    fingerprint_add(f, m->kv->name, strlen(m->kv->name) + 1);
    fingerprint_add(f, m->backend, strlen(m->backend) + 1);
    fingerprint_add(f, numbers, sizeof numbers);
    if (m->cfg.yarn_factor != 1)        /* keys of another rotation */
        fingerprint_add(f, &m->cfg.yarn_factor, sizeof m->cfg.yarn_factor);
    return fingerprint_end(f);
}

static struct fingerprint identity(struct storage *s)
{
    if (!s->identified)
        s->identity = identity_of(s->model);
    s->identified = true;
    return s->identity;
}

/* ---- saving ---- */

/* Waits until the file is not being read, so that it can be written.  There is a wait only if two conversations have the same file. */
static bool finish_reading(struct storage *s, const char *path, struct err *fault)
{
    bool ok = true;
    while (ok && restorer_wait(s->restorer, path))
        ok = restorer_step(s->restorer, fault);
    return ok;
}

bool storage_save(struct storage *s, struct save *what, struct err *fault)
{
    struct resident r;
    bool ok = finish_reading(s, what->path, fault);
    if (ok && decoder_resident(s->decoder, what->sequence, &r))
        ok = keeper_begin(s->keeper, what->sequence, what->path, identity(s), &r, fault);
    else
        requests_saved(s->requests);
    save_free(what);
    return ok;
}

bool storage_step(struct storage *s, struct err *fault)
{
    return keeper_step(s->keeper, fault);
}

/* Waits until all saves that were begun have ended. */
static bool finish_saves(struct storage *s, struct err *fault)
{
    bool ok = true;
    while (ok && keeper_wait(s->keeper))
        ok = keeper_step(s->keeper, fault);
    return ok;
}

bool storage_finish(struct storage *s, struct err *fault)
{
    bool ok = finish_saves(s, fault);
    for (struct save *what; ok && (what = requests_last_save(s->requests));)
        ok = storage_save(s, what, fault) && finish_saves(s, fault);
    return ok;
}

/* ---- eviction ---- */

/* A file `talk.jsonl.checkpoint` is written only as long as `talk.jsonl` exists: a deleted conversation gets no new checkpoint. */
static bool belongs_to_something(const char *path)
{
    const char *ending = strrchr(path, '.'), *slash = strrchr(path, '/');
    if (!ending || (slash && ending < slash))
        return true;
    char *owner = memory_strdup(path);
    owner[ending - path] = 0;
    bool there = !access(owner, F_OK);
    free(owner);
    return there;
}

/* How many of the first tokens the file has.  The homes know that from when the file was written; it may have been deleted since. */
static int there_already(struct storage *s, uint64_t name, const char *path, const struct saving *has)
{
    return access(path, F_OK) ? 0 : homes_common(&s->homes, name, has);
}

static bool evict(struct storage *s, uint64_t name, const struct resident *r, struct err *fault)
{
    const struct saving has = saver_saving(r);
    char *path = homes_path(&s->homes, name);
    bool ok = true;
    if (path && has.n && belongs_to_something(path) && !(homes_has(&s->homes, name, &has) && !access(path, F_OK))) {
        homes_move(&s->homes, name, true);
        ok = finish_reading(s, path, fault) && keeper_evict(s->keeper, name, path, there_already(s, name, path, &has), identity(s), r, fault);
    }
    free(path);
    return ok;
}

/* ---- coming back ---- */

/* Chooses the place now, evicts the sequence there, and reserves the place until the conversation is back. */
bool storage_restore(struct storage *s, uint64_t name, const char *path, struct err *fault)
{
    uint64_t holder;
    if (access(path, F_OK))
        return true;
    const struct resident r = decoder_place(s->decoder, name, &holder);
    if (holder && holder != name && !evict(s, holder, &r, fault))
        return false;
    decoder_reserve(s->decoder, &r);
    restorer_begin(s->restorer, name, path, identity(s), &r, holder == name);
    return true;
}

static bool leave_place(struct storage *s, uint64_t name, struct err *fault)
{
    uint64_t holder;
    const struct resident r = decoder_place(s->decoder, name, &holder);
    return !holder || evict(s, holder, &r, fault);
}

bool storage_make_place(struct storage *s, uint64_t name, const int32_t *ids, int n, struct err *fault)
{
    if (decoder_is_there(s->decoder, name, ids, n))
        return true;
    char *path = homes_path(&s->homes, name);
    const bool refused = homes_take_refused(&s->homes, name);
    bool ok = path && !refused && !access(path, F_OK) ? storage_restore(s, name, path, fault) : leave_place(s, name, fault);
    free(path);
    return ok;
}

bool storage_moving(struct storage *s, uint64_t name)
{
    return homes_moving(&s->homes, name) || restorer_brings(s->restorer, name);
}

bool storage_returns(struct storage *s)
{
    return restorer_ready(s->restorer);
}

/* Lets the restorer read its next file, if no save writes that file; otherwise goes on with the save. */
static bool read_next(struct storage *s, struct err *fault)
{
    const char *path = restorer_next(s->restorer);
    if (path && keeper_writes(s->keeper, path))
        return keeper_step(s->keeper, fault);
    if (path)
        restorer_read(s->restorer);
    return true;
}

bool storage_bring_back(struct storage *s, struct err *fault)
{
    const int64_t start = clock_ns();
    bool ok = true;
    do
        ok = restorer_step(s->restorer, fault) && read_next(s, fault);
    while (ok && restorer_ready(s->restorer) && clock_ms_since(start) < BRING_BACK_MS);
    return ok;
}
