#include "engine/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "engine/decode.h"
#include "engine/keeper.h"
#include "engine/load.h"
#include "engine/restore.h"
#include "engine/saver.h"
#include "model/identity.h"

void storage_init(struct storage *s, struct requests *q)
{
    *s = (struct storage){.requests = q};
    homes_init(&s->homes);
}

void storage_free(struct storage *s)
{
    homes_free(&s->homes);
}

/* ---- what the keeper tells, on its thread ---- */

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
    if (!k->evicted) {
        requests_saved(s->requests);
        return;
    }
    homes_move(&s->homes, k->name, false);
    requests_look_again(s->requests);
}

/* ---- open and close ---- */

bool storage_open(struct storage *s, const struct model *m, struct decoder *d, struct err *e)
{
    s->model = m;
    s->decoder = d;
    s->keeper = keeper_open(&(struct keeper_hooks){on_wants_rows, on_kept, s}, e);
    return s->keeper;
}

void storage_close(struct storage *s)
{
    keeper_close(s->keeper);
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

bool storage_save(struct storage *s, struct save *what, struct err *fault)
{
    struct resident r;
    bool ok = true;
    if (decoder_resident(s->decoder, what->sequence, &r))
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

/* What is under way to that file comes to its end; NULL: to any. */
static bool finish_saves(struct storage *s, const char *path, struct err *fault)
{
    bool ok = true;
    while (ok && keeper_wait(s->keeper, path))
        ok = keeper_step(s->keeper, fault);
    return ok;
}

bool storage_finish(struct storage *s, struct err *fault)
{
    bool ok = finish_saves(s, NULL, fault);
    for (struct save *what; ok && (what = requests_last_save(s->requests));)
        ok = storage_save(s, what, fault) && finish_saves(s, NULL, fault);
    return ok;
}

/* ---- leaving a place ---- */

/* A file `talk.jsonl.checkpoint` is written only as long as there is a `talk.jsonl`: what was deleted does not come back. */
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

/* What the file has is known from when it was written; it may have been deleted since. */
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
        ok = keeper_evict(s->keeper, name, path, there_already(s, name, path, &has), identity(s), r, fault);
    }
    free(path);
    return ok;
}

/* ---- coming back ---- */

static void say_deleted(struct err *why)
{
    const struct err was = *why;
    err_set(why, "%s: it is deleted", was.msg);
}

static void note_restored(struct storage *s, uint64_t name, const char *path, const struct resident *r)
{
    const struct saving has = {.ids = r->tl->ids, .n = r->tl->n_run, .pos = {r->tl->n_run}};
    decoder_restored(s->decoder, name, r);
    homes_wrote(&s->homes, name, path, &has);
}

/* A save to the file ends before. */
bool storage_restore(struct storage *s, uint64_t name, const char *path, struct err *fault)
{
    struct restored out = {0};
    uint64_t holder;
    if (access(path, F_OK))
        return true;
    const struct resident r = decoder_place(s->decoder, name, &holder);
    bool ok = (!holder || holder == name || evict(s, holder, &r, fault)) && finish_saves(s, path, fault)
           && restore_sequence(path, identity(s), &r, &out, fault);
    if (out.deleted)
        say_deleted(&out.refused);
    if (ok && out.n_tokens)
        note_restored(s, name, path, &r);
    if (ok && (out.n_tokens || *out.refused.msg))
        post(s, EV_RESTORED, name, (size_t)out.n_tokens, 0, &out.refused);
    return ok;
}

bool storage_make_place(struct storage *s, uint64_t name, const int32_t *ids, int n, struct err *fault)
{
    uint64_t holder;
    if (decoder_is_there(s->decoder, name, ids, n))
        return true;
    const struct resident r = decoder_place(s->decoder, name, &holder);
    char *path = homes_path(&s->homes, name);
    bool ok = (!holder || evict(s, holder, &r, fault)) && (!path || storage_restore(s, name, path, fault));
    free(path);
    return ok;
}

bool storage_moving(struct storage *s, uint64_t name)
{
    return homes_moving(&s->homes, name);
}
