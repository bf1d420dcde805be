#include "engine/storage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/least.h"
#include "base/lock.h"
#include "base/memory.h"
#include "engine/decode.h"
#include "engine/load.h"
#include "engine/residency.h"
#include "engine/restoring.h"
#include "model/shards.h"

enum { OWN_HEAD = 1 << 16 };            /* bytes of a file beside rows, states and tokens: its header, and the list of its sections */
enum { BRING_BACK_MS = 5 };             /* time for slices between two steps; a step of a large model takes several times as long */

/* ---- homes ---- */

/* Forgets a file, and deletes it if it is the storage's own. */
static void forget(struct home *h)
{
    if (h->bytes)
        unlink(h->path);
    free(h->path);
    span_buf_free(&h->has);
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

/* Returns a free entry, or the least recently used one; NULL: all conversations are moving.  Called under the lock. */
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
        h->path = memory_strdup(path);
        span_buf_cut(&h->has, 0);
        h->refused = false;
    }
    if (h)
        h->used = ++s->clock;
    lock_release(&s->lock, LOCK_HOMES);
}

/* Returns the conversation's file, which the caller frees; NULL: it has none.  *refused: the file was refused when it was last read; this is
 * reported once, so that one prompt is computed without the file. */
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

/* Notes the content of the file after a save or a restore, and its size after a save, unless the conversation has another file now. */
static void note_content(struct storage *s, uint64_t name, const char *path, const struct content *c, size_t bytes)
{
    lock_take(&s->lock, LOCK_HOMES);
    struct home *h = find_home(s, name);
    if (h && h->path && !strcmp(h->path, path)) {
        span_buf_cut(&h->has, 0);
        span_buf_add(&h->has, c->spans, c->spans.n);
        memcpy(h->pos, c->pos, sizeof h->pos);
        if (h->bytes && bytes)
            h->bytes = bytes;
        h->refused = false;
    }
    lock_release(&s->lock, LOCK_HOMES);
}

/* Returns how many of the content's first tokens the file has.  *whole: it has all of them, and the states. */
static int content_there(struct storage *s, uint64_t name, const struct content *c, bool *whole)
{
    int n = 0;
    lock_take(&s->lock, LOCK_HOMES);
    const struct home *h = find_home(s, name);
    if (h)
        n = spans_common(spans_of(&h->has), c->spans);
    *whole = h && n == c->spans.n;
    for (int i = 0; h && i < SAVED_STATES; i++) {
        bool has = !c->pos[i];
        for (int k = 0; k < SAVED_STATES; k++)
            has |= h->pos[k] == c->pos[i];
        *whole &= has;
    }
    lock_release(&s->lock, LOCK_HOMES);
    return n;
}

/* Notes that a sequence is being written or read, or is no longer. */
static void note_moving(struct storage *s, uint64_t name, bool moving)
{
    lock_take(&s->lock, LOCK_HOMES);
    struct home *h = find_home(s, name);
    if (h)
        h->moving = moving;
    lock_release(&s->lock, LOCK_HOMES);
}

/* Notes that the file of a sequence cannot be used. */
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

/* Posts an event about the file of a sequence, unless the sequence has no name of its owner's. */
static void post(const struct storage *s, enum event_kind kind, uint64_t name, size_t done, size_t total, const struct err *why)
{
    struct event ev = {.kind = kind, .sequence = name, .done = done, .total = total};
    snprintf(ev.message, sizeof ev.message, "%s", why->msg);
    if (!sequence_is_unnamed(name) || !name)            /* nobody knows a name that was given here */
        requests_post(s->requests, &ev);
}

static void count(struct storage *s, int *moves)
{
    lock_take(&s->lock, LOCK_HOMES);
    ++*moves;
    lock_release(&s->lock, LOCK_HOMES);
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
        note_content(s, out->name, out->path, &out->has, out->bytes);
    if (out->evicted && !out->dropped && out->bytes)
        count(s, &s->moves.out);
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

/* Notes that a sequence was read from its file, or why not, frees the slot and posts EV_RESTORED. */
static void on_restored(void *arg, const struct restored *r)
{
    struct storage *s = arg;
    struct err why = r->refused;
    if (r->deleted)
        err_set(&why, "%s: it is deleted", r->refused.msg);
    s->decoder->sequences.all[r->of.slot].busy = false;
    note_moving(s, r->name, false);
    if (r->n_tokens) {
        count(s, &s->moves.in);
        const struct timeline *t = r->of.tl;
        const struct content has = {.spans = spans_head(timeline_spans(t), t->n_run), .pos = {t->n_run}};
        decoder_restored(s->decoder, r->name, &r->of);
        if (!r->name || !sequence_is_unnamed(r->name))          /* else it is known, with all states, since this engine wrote the file */
            note_content(s, r->name, r->path, &has, 0);
    } else if (!decoder_is_there(s->decoder, &(struct arrival){.name = r->name})) {
        note_refused(s, r->name);
    }
    if (r->n_tokens || *why.msg)
        post(s, EV_RESTORED, r->name, (size_t)r->n_tokens, 0, &why);
}

/* ---- open and close ---- */

/* Deletes a folder of conversations that were moved, with its files. */
static void empty_folder(const char *path)
{
    DIR *d = opendir(path);
    struct buf file = {0};
    for (const struct dirent *f; d && (f = readdir(d));) {
        buf_reset(&file);
        buf_addf(&file, "%s/%s", path, f->d_name);
        if (*f->d_name != '.')
            unlink(file.data);
    }
    if (d)
        closedir(d);
    buf_free(&file);
    rmdir(path);
}

/* Locks a folder; -1: another process has it, or there is none. */
static int lock_folder(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || !flock(fd, LOCK_EX | LOCK_NB))
        return fd;
    close(fd);
    return -1;
}

static bool begins_with_moved(const char *name)
{
    return !strncmp(name, "moved-", 6);
}

/* Deletes folders "moved-*" that processes left behind; a folder that a running process has locked stays. */
static void delete_left(const char *dir)
{
    DIR *d = opendir(dir);
    struct buf path = {0};
    for (const struct dirent *f; d && (f = readdir(d));) {
        buf_reset(&path);
        buf_addf(&path, "%s/%s", dir, f->d_name);
        const int fd = begins_with_moved(f->d_name) ? lock_folder(path.data) : -1;
        if (fd >= 0) {
            empty_folder(path.data);
            close(fd);
        }
    }
    if (d)
        closedir(d);
    buf_free(&path);
}

void storage_move_to(struct storage *s, const char *dir, size_t room)
{
    if (!dir || !room)
        return;
    delete_left(dir);
    s->moved_dir = memory_strdup(dir);
    s->own_room = room;
}

/* True if there is a folder of its own; makes it first.  A folder that cannot be made is reported once, and not tried again. */
static bool has_own_dir(struct storage *s)
{
    struct buf path = {0};
    struct err e = {{0}};
    if (s->own_dir || !s->moved_dir)
        return s->own_dir;
    buf_addf(&path, "%s/moved-XXXXXX", s->moved_dir);
    bool ok = file_make_parents(path.data, &e);
    if (ok && (!mkdtemp(path.data) || (s->own_lock = lock_folder(path.data)) < 0))
        ok = err_set(&e, "cannot make a folder in %s: %s", s->moved_dir, strerror(errno));
    if (ok)
        s->own_dir = memory_strdup(path.data);
    else
        err_warn("conversations that leave memory are not kept on disk, and are read again when they continue: %s", e.msg);
    buf_free(&path);
    free(s->moved_dir);
    s->moved_dir = NULL;
    return s->own_dir;
}

struct moves storage_moves(struct storage *s)
{
    lock_take(&s->lock, LOCK_HOMES);
    const struct moves m = s->moves;
    lock_release(&s->lock, LOCK_HOMES);
    return m;
}

void storage_init(struct storage *s, struct requests *q)
{
    *s = (struct storage){.requests = q};
    pthread_mutex_init(&s->lock, NULL);
}

void storage_free(struct storage *s)
{
    for (int i = 0; i < LIMIT_HOMES; i++)
        forget(&s->all[i]);
    if (s->own_dir) {
        empty_folder(s->own_dir);
        close(s->own_lock);
    }
    free(s->moved_dir);
    free(s->own_dir);
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

/* Returns the hash of all that the bytes of a checkpoint depend on. */
static struct fingerprint identity(struct storage *s)
{
    const struct model *m = s->model;
    if (s->identified)
        return s->identity;
    const int32_t numbers[] = {m->depth > 0, kv_n_layers(&m->cfg), (int32_t)cache_saved_bytes(&m->cfg, m->kv)};
    struct fingerprinter *f = fingerprint_begin();
    shards_add_fingerprint(f, m->dir);
    fingerprint_add(f, m->kv->name, strlen(m->kv->name) + 1);
    fingerprint_add(f, m->backend, strlen(m->backend) + 1);
    fingerprint_add(f, numbers, sizeof numbers);
    if (m->math != PROMPT_EXACT) {      /* rounded prompts; exact ones have the hash that they had before there were others */
        const int32_t math = (int32_t)m->math;
        fingerprint_add(f, &math, sizeof math);
    }
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

bool storage_save(struct storage *s, struct request *what, struct err *fault)
{
    struct resident r;
    bool ok = finish_reading(s, what->path, fault);
    if (ok && decoder_resident(s->decoder, what->sequence, &r))
        ok = saving_begin(s->saving, what->sequence, what->path, identity(s), &r, fault);
    else
        requests_saved(s->requests);
    request_free(what);
    return ok;
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
    for (struct request *what; ok && (what = requests_last_save(s->requests));)
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

/* Forgets the least recently used files of the storage's own until there is room for `bytes` more.  False: there is not.  Called under the lock. */
static bool make_room(struct storage *s, size_t bytes)
{
    for (;;) {
        size_t sum = bytes;
        struct home *oldest = NULL;
        for (int i = 0; i < LIMIT_HOMES; i++) {
            struct home *h = &s->all[i];
            sum += h->bytes;
            if (h->bytes && !h->moving && (!oldest || h->used < oldest->used))
                oldest = h;
        }
        if (sum <= s->own_room || !oldest)
            return sum <= s->own_room;
        forget(oldest);
    }
}

/* Makes sure that a long conversation without a name has a file of the storage's own with room for all that will be written, and returns its name;
 * 0: it has no file. */
static uint64_t move_unnamed(struct storage *s, struct sequence *q, const struct content *has)
{
    const size_t bytes = cache_rows_bytes(q->k, 0, has->spans.n) + 2 * SAVED_STATES * s->decoder->sequences.snaps.bytes + OWN_HEAD
                       + sizeof(int32_t) * (size_t)has->spans.n;
    if (has->spans.n < RESIDENCY_LONG || !has_own_dir(s))
        return 0;
    if (!q->name)
        q->name = (uint64_t)SEQUENCE_GIVEN << 32 | ++s->n_given;
    lock_take(&s->lock, LOCK_HOMES);
    struct home *h = find_home(s, q->name);
    if (h) {
        h->used = ++s->clock;
        h->moving = true;
        h->bytes = 1;
    }
    const bool fits = make_room(s, bytes);
    if (!h && fits && (h = make_home(s, q->name))) {
        struct buf path = {0};
        buf_addf(&path, "%s/%u", s->own_dir, (unsigned)q->name);
        h->path = path.data;
    }
    if (h) {
        h->bytes = fits ? bytes : 1;
        h->moving = false;
        h->used = ++s->clock;
    }
    if (h && !fits)
        forget(h);
    lock_release(&s->lock, LOCK_HOMES);
    return h && fits ? q->name : 0;
}

/* Saves the conversation at this place to its file, as far as that lacks it. */
static bool evict(struct storage *s, uint64_t name, const struct resident *r, struct err *fault)
{
    const struct content has = saving_content(r);
    count(s, &s->moves.evicted);
    if (sequence_is_unnamed(name))
        name = move_unnamed(s, &s->decoder->sequences.all[r->slot], &has);
    char *path = home_path(s, name, NULL);
    bool ok = true;
    if (path && has.spans.n && belongs_to_something(path)) {
        bool whole;
        const int known = content_there(s, name, &has, &whole);
        const bool missing = access(path, F_OK);        /* the file may have been deleted since it was written */
        if (missing || !whole) {
            note_moving(s, name, true);
            ok = finish_reading(s, path, fault);
            if (sequence_is_unnamed(name))              /* a prompt that continues it finds it before it is written, and waits */
                note_content(s, name, path, &has, 0);
            const int common = access(path, F_OK) ? 0 : known;          /* reading it may have deleted it */
            ok = ok && saving_evict(s->saving, name, path, common, identity(s), r, fault);
        }
    }
    free(path);
    return ok;
}

/* ---- coming back ---- */

/* Notes which conversations have a file, for engine/residency. */
static void note_kept(struct storage *s)
{
    lock_take(&s->lock, LOCK_HOMES);
    for (int i = 0; i < s->decoder->sequences.n; i++) {
        struct sequence *q = &s->decoder->sequences.all[i];
        const struct home *h = find_home(s, q->name);
        q->kept = h && h->path;
    }
    lock_release(&s->lock, LOCK_HOMES);
}

/* Chooses the place now, evicts the sequence there, and reserves the place until the conversation is back. */
bool storage_restore(struct storage *s, const struct arrival *a, const char *path, struct err *fault)
{
    uint64_t holder;
    if (access(path, F_OK))
        return true;
    note_kept(s);
    const struct resident r = decoder_place(s->decoder, a, &holder);
    const bool own = holder && holder == a->name;
    note_moving(s, a->name, true);      /* so that its file is not forgotten */
    if (!own && r.tl->n && !evict(s, holder, &r, fault))
        return false;
    s->decoder->sequences.all[r.slot].busy = true;
    restoring_begin(s->restoring, a->name, path, identity(s), &r, own);
    return true;
}

/* Returns the name of the conversation that was moved to a file and that the prompt continues; of several the one with the longest common prefix.
 * 0: there is none. */
static uint64_t find_moved(struct storage *s, struct spans prompt)
{
    uint64_t name = 0;
    int longest = 0;
    lock_take(&s->lock, LOCK_HOMES);
    for (int i = 0; i < LIMIT_HOMES; i++) {
        const struct home *h = &s->all[i];
        if (!h->bytes || sequences_named(&s->decoder->sequences, h->name))
            continue;
        const int common = spans_common(spans_of(&h->has), prompt);
        int first = h->pos[0];
        for (int k = 1; k < SAVED_STATES; k++)
            first = h->pos[k] ? least(first, h->pos[k]) : first;
        if (first && common >= first && common > longest) {
            longest = common;
            name = h->name;
        }
    }
    lock_release(&s->lock, LOCK_HOMES);
    return name;
}

bool storage_make_place(struct storage *s, struct arrival *a, struct err *fault)
{
    bool refused, ok = true;
    if (decoder_is_there(s->decoder, a))
        return true;
    if (!a->name && (a->name = find_moved(s, a->prompt)) && storage_moving(s, a->name))
        return true;
    char *path = home_path(s, a->name, &refused);
    if (path && !refused && !access(path, F_OK)) {
        ok = storage_restore(s, a, path, fault);
    } else {
        uint64_t holder;
        note_kept(s);
        const struct resident r = decoder_place(s->decoder, a, &holder);
        ok = !r.tl->n || evict(s, holder, &r, fault);
    }
    free(path);
    return ok;
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
