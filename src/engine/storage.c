#include "engine/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"
#include "engine/decode.h"
#include "engine/load.h"
#include "engine/restoring.h"
#include "model/identity.h"

enum { BRING_BACK_MS = 5 };             /* time for slices between two steps; a step of a large model takes several times as long */

/* ---- homes ---- */

static void forget(struct home *h)
{
    free(h->path);
    ids_free(&h->ids);
    *h = (struct home){0};
}

/* Called under the lock. */
static struct home *find_home(struct storage *s, uint64_t name)
{
    for (int i = 0; name && i < LIMIT_HOMES; i++)
        if (s->all[i].name == name)
            return &s->all[i];
    return NULL;
}

/* A free entry, or the least recently used one; NULL: all conversations are moving.  Called under the lock. */
static struct home *make_home(struct storage *s, uint64_t name)
{
    struct home *best = NULL;
    for (int i = 0; i < LIMIT_HOMES; i++)
        if (!s->all[i].moving && (!best || s->all[i].used < best->used))
            best = &s->all[i];
    if (best) {
        forget(best);
        best->name = name;
    }
    return best;
}

void storage_keep(struct storage *s, uint64_t name, const char *path)
{
    lock_take(&s->lock, LOCK_HOMES);
    struct home *h = find_home(s, name);
    if (!h && name && path)
        h = make_home(s, name);
    if (h && !(h->path && path && !strcmp(h->path, path))) {
        free(h->path);
        h->path = path ? memory_strdup(path) : NULL;
        h->ids.n = 0;
        h->refused = false;
    }
    if (h)
        h->used = ++s->clock;
    lock_release(&s->lock, LOCK_HOMES);
}

/* The conversation's file, which the caller frees; NULL: it has none.  *refused: the file was refused when it was last read; this is reported once,
 * so that one prompt is computed without the file. */
static char *home_path(struct storage *s, uint64_t name, bool *refused)
{
    lock_take(&s->lock, LOCK_HOMES);
    struct home *h = find_home(s, name);
    char *path = h && h->path ? memory_strdup(h->path) : NULL;
    if (h)
        h->used = ++s->clock;
    if (refused) {
        *refused = h && h->refused;
        if (h)
            h->refused = false;
    }
    lock_release(&s->lock, LOCK_HOMES);
    return path;
}

/* Notes the content of the file after a save or a restore, unless the conversation has another file now. */
static void note_content(struct storage *s, uint64_t name, const char *path, const struct content *c)
{
    lock_take(&s->lock, LOCK_HOMES);
    struct home *h = find_home(s, name);
    if (h && h->path && !strcmp(h->path, path)) {
        h->ids.n = 0;
        ids_append(&h->ids, c->ids, c->n);
        memcpy(h->pos, c->pos, sizeof h->pos);
        h->refused = false;
    }
    lock_release(&s->lock, LOCK_HOMES);
}

/* How many of the content's first tokens the file has.  *whole: it has all of them, and the states. */
static int content_there(struct storage *s, uint64_t name, const struct content *c, bool *whole)
{
    int n = 0;
    lock_take(&s->lock, LOCK_HOMES);
    const struct home *h = find_home(s, name);
    while (h && n < h->ids.n && n < c->n && h->ids.data[n] == c->ids[n])
        n++;
    *whole = h && n == c->n;
    for (int i = 0; h && i < SAVED_STATES; i++) {
        bool has = !c->pos[i];
        for (int k = 0; k < SAVED_STATES; k++)
            has |= h->pos[k] == c->pos[i];
        *whole &= has;
    }
    lock_release(&s->lock, LOCK_HOMES);
    return n;
}

static void note_moving(struct storage *s, uint64_t name, bool moving)
{
    lock_take(&s->lock, LOCK_HOMES);
    struct home *h = find_home(s, name);
    if (h)
        h->moving = moving;
    lock_release(&s->lock, LOCK_HOMES);
}

static void note_refused(struct storage *s, uint64_t name)
{
    lock_take(&s->lock, LOCK_HOMES);
    struct home *h = find_home(s, name);
    if (h)
        h->refused = true;
    lock_release(&s->lock, LOCK_HOMES);
}

bool storage_moving(struct storage *s, uint64_t name)
{
    lock_take(&s->lock, LOCK_HOMES);
    const struct home *h = find_home(s, name);
    const bool moving = h && h->moving;
    lock_release(&s->lock, LOCK_HOMES);
    return moving || restoring_brings(s->restoring, name);
}

/* ---- outcomes ---- */

static void post(const struct storage *s, enum event_kind kind, uint64_t name, size_t done, size_t total, const struct err *why)
{
    struct event ev = {.kind = kind, .sequence = name, .done = done, .total = total};
    snprintf(ev.message, sizeof ev.message, "%s", why->msg);
    requests_post(s->requests, &ev);
}

/* Called on the thread that writes. */
static void on_wants_rows(void *arg)
{
    const struct storage *s = arg;
    requests_want_rows(s->requests);
}

/* Called on the thread that writes, or within saving_begin() and saving_evict(). */
static void on_saved(void *arg, const struct saved *out)
{
    struct storage *s = arg;
    if (!out->dropped)
        post(s, EV_SAVED, out->name, out->written, out->bytes, &out->failed);
    if (!out->dropped || out->evicted)
        note_content(s, out->name, out->path, &out->has);
    if (out->evicted)
        note_moving(s, out->name, false);
    else
        requests_saved(s->requests);
    requests_recheck(s->requests);
}

/* Called on the thread that reads. */
static void on_arrived(void *arg)
{
    const struct storage *s = arg;
    requests_recheck(s->requests);
}

static void on_restored(void *arg, const struct restored *r)
{
    struct storage *s = arg;
    struct err why = r->refused;
    if (r->deleted)
        err_set(&why, "%s: it is deleted", r->refused.msg);
    decoder_release(s->decoder, &r->of);
    if (r->n_tokens) {
        const struct timeline *t = r->of.tl;
        const struct content has = {.ids = t->ids, .n = t->n_run, .pos = {t->n_run}};
        decoder_restored(s->decoder, r->name, &r->of);
        note_content(s, r->name, r->path, &has);
    } else if (!decoder_is_there(s->decoder, r->name, NULL, 0)) {
        note_refused(s, r->name);
    }
    if (r->n_tokens || *why.msg)
        post(s, EV_RESTORED, r->name, (size_t)r->n_tokens, 0, &why);
}

/* ---- open and close ---- */

void storage_init(struct storage *s, struct requests *q)
{
    *s = (struct storage){.requests = q};
    pthread_mutex_init(&s->lock, NULL);
}

void storage_free(struct storage *s)
{
    for (int i = 0; i < LIMIT_HOMES; i++)
        forget(&s->all[i]);
    pthread_mutex_destroy(&s->lock);
}

bool storage_open(struct storage *s, const struct model *m, struct decoder *d, struct err *e)
{
    s->model = m;
    s->decoder = d;
    s->saving = saving_open(&(struct saving_hooks){on_wants_rows, on_saved, s}, e);
    s->restoring = s->saving ? restoring_open(&(struct restoring_hooks){on_arrived, on_restored, s}, e) : NULL;
    return s->restoring;
}

void storage_close(struct storage *s)
{
    restoring_close(s->restoring);
    saving_close(s->saving);
    s->restoring = NULL;
    s->saving = NULL;
}

/* The hash of all that the bytes of a checkpoint depend on. */
static struct fingerprint identity(struct storage *s)
{
    const struct model *m = s->model;
    if (s->identified)
        return s->identity;
    const int32_t numbers[] = {m->depth > 0, kv_n_layers(&m->cfg), (int32_t)cache_saved_bytes(&m->cfg, m->kv)};
    struct fingerprinter *f = fingerprint_begin();
    identity_add_model(f, m->dir);
    fingerprint_add(f, m->kv->name, strlen(m->kv->name) + 1);
    fingerprint_add(f, m->backend, strlen(m->backend) + 1);
    fingerprint_add(f, numbers, sizeof numbers);
    if (m->cfg.yarn_factor != 1)        /* keys of another rotation */
        fingerprint_add(f, &m->cfg.yarn_factor, sizeof m->cfg.yarn_factor);
    s->identified = true;
    return s->identity = fingerprint_end(f);
}

/* ---- saving ---- */

/* Waits until the file is not being read, so that it can be written.  It waits only if two conversations have the same file. */
static bool finish_reading(struct storage *s, const char *path, struct err *fault)
{
    bool ok = true;
    while (ok && restoring_wait(s->restoring, path))
        ok = restoring_step(s->restoring, fault);
    return ok;
}

bool storage_save(struct storage *s, struct save_order *what, struct err *fault)
{
    struct resident r;
    bool ok = finish_reading(s, what->path, fault);
    if (ok && decoder_resident(s->decoder, what->sequence, &r))
        ok = saving_begin(s->saving, what->sequence, what->path, identity(s), &r, fault);
    else
        requests_saved(s->requests);
    save_order_free(what);
    return ok;
}

bool storage_step(struct storage *s, struct err *fault)
{
    return saving_step(s->saving, fault);
}

/* Waits until all saves that were begun have ended. */
static bool finish_saves(struct storage *s, struct err *fault)
{
    bool ok = true;
    while (ok && saving_wait(s->saving))
        ok = saving_step(s->saving, fault);
    return ok;
}

bool storage_finish(struct storage *s, struct err *fault)
{
    bool ok = finish_saves(s, fault);
    for (struct save_order *what; ok && (what = requests_last_save(s->requests));)
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

/* Saves the conversation `name` at this place to its file, as far as that lacks it. */
static bool evict(struct storage *s, uint64_t name, const struct resident *r, struct err *fault)
{
    const struct content has = saving_content(r);
    char *path = home_path(s, name, NULL);
    bool ok = true;
    if (path && has.n && belongs_to_something(path)) {
        bool whole;
        const int known = content_there(s, name, &has, &whole);
        const bool missing = access(path, F_OK);        /* the file may have been deleted since it was written */
        if (missing || !whole) {
            note_moving(s, name, true);
            ok = finish_reading(s, path, fault);
            const int common = access(path, F_OK) ? 0 : known;          /* reading it may have deleted it */
            ok = ok && saving_evict(s->saving, name, path, common, identity(s), r, fault);
        }
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
    restoring_begin(s->restoring, name, path, identity(s), &r, holder == name);
    return true;
}

bool storage_make_place(struct storage *s, uint64_t name, const int32_t *ids, int n, struct err *fault)
{
    bool refused, ok = true;
    if (decoder_is_there(s->decoder, name, ids, n))
        return true;
    char *path = home_path(s, name, &refused);
    if (path && !refused && !access(path, F_OK)) {
        ok = storage_restore(s, name, path, fault);
    } else {
        uint64_t holder;
        const struct resident r = decoder_place(s->decoder, name, &holder);
        ok = !holder || evict(s, holder, &r, fault);
    }
    free(path);
    return ok;
}

bool storage_returns(struct storage *s)
{
    return restoring_ready(s->restoring);
}

/* Lets the restorer read its next file, if no save writes that file; otherwise continues the save. */
static bool read_next(struct storage *s, struct err *fault)
{
    const char *path = restoring_next(s->restoring);
    if (path && saving_writes(s->saving, path))
        return saving_step(s->saving, fault);
    if (path)
        restoring_read(s->restoring);
    return true;
}

bool storage_bring_back(struct storage *s, struct err *fault)
{
    const int64_t start = clock_ns();
    bool ok = true;
    do
        ok = restoring_step(s->restoring, fault) && read_next(s, fault);
    while (ok && restoring_ready(s->restoring) && clock_ms_since(start) < BRING_BACK_MS);
    return ok;
}
