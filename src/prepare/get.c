#include "prepare/get.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "fetch/cache.h"
#include "fetch/digest.h"
#include "prepare/part.h"
#include "prepare/wanted.h"

enum { TICK_MS = 100, COMMIT_EVERY_TICKS = 5, MAX_CONNECTIONS = 64 };

/* A file on its way. */
struct item {
    struct wanted_file *file;
    struct part        *part;
    int                 workers;        /* connections that work on it */
    bool                kept;           /* its journal is being written */
    bool                finishing;      /* a connection is renaming it */
    bool                wrong_once;
};

struct get {
    struct get_options o;
    struct fetch *fetch;
    struct wanted wanted;
    struct item  *items;                /* of each of these files */
    int           n_items;

    pthread_mutex_t lock;               /* protects the items and the members below */
    pthread_cond_t  changed;
    pthread_t       workers[MAX_CONNECTIONS], journals;
    int             n_running;
    bool            failed;
    struct err      why;                /* the first failure */
};

/* --- opening and closing ---------------------------------------------------------------------------------------------- */

bool get_is_name(const char *what, struct err *e)
{
    return wanted_is_name(what, e);
}

struct get *get_open(const struct get_options *o, struct err *e)
{
    struct get *g = memory_zeroed(1, sizeof *g);
    g->o = *o;
    g->o.connections = o->connections ? o->connections : GET_CONNECTIONS;
    g->o.connections = g->o.connections < MAX_CONNECTIONS ? g->o.connections : MAX_CONNECTIONS;
    g->o.range_bytes = o->range_bytes ? o->range_bytes : (uint64_t)GET_RANGE_MIB << 20;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->fetch = fetch_open(&o->fetch, e);
    wanted_open(&g->wanted, g->fetch, o->to, o->check, o->n_what);
    bool ok = g->fetch != NULL;
    for (int i = 0; ok && i < o->n_what; i++)
        ok = wanted_add(&g->wanted, o->what[i], e);
    ok = ok && wanted_look(&g->wanted, e);
    g->n_items = ok ? g->wanted.n_files : 0;
    g->items = memory_zeroed((size_t)g->n_items + 1, sizeof *g->items);
    for (int i = 0; i < g->n_items; i++)
        g->items[i].file = &g->wanted.files[i];
    if (ok)
        return g;
    get_close(g);
    return NULL;
}

void get_close(struct get *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_items; i++)
        part_close(g->items[i].part);
    wanted_close(&g->wanted);
    fetch_close(g->fetch);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g->items);
    free(g);
}

/* --- one connection ----------------------------------------------------------------------------------------------------- */

static void fail_get(struct get *g, const struct err *e)
{
    pthread_mutex_lock(&g->lock);
    if (!g->failed)
        g->why = *e;
    g->failed = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    fetch_stop(g->fetch);
}

/* Is there work for one more connection: a missing range, or a complete file to rename? */
static bool has_work(const struct item *it)
{
    bool free = it->part && part_has_free(it->part);
    return it->file->state == GET_WAITING || (it->file->state == GET_CHECKING && !it->workers) ||
           (it->file->state == GET_RUNNING && (free || (!it->workers && !it->kept)));
}

/* Call with the lock.  The first of the files with the fewest connections that have work for one more. */
static struct item *next_item(struct get *g)
{
    struct item *best = NULL;
    for (int i = 0; i < g->n_items; i++) {
        struct item *it = &g->items[i];
        if (has_work(it) && (!best || it->workers < best->workers))
            best = it;
    }
    return best;
}

static bool all_over(const struct get *g)
{
    for (int i = 0; i < g->n_items; i++)
        if (g->items[i].file->state < GET_HAD)
            return false;
    return true;
}

/* Call with the lock.  The first connection opens the file.  *range -1: nothing is left to download. */
static bool begin_item(struct get *g, struct item *it, int *range, struct err *e)
{
    *range = -1;
    if (it->file->state == GET_CHECKING)
        return true;
    if (!it->part) {
        it->part = part_open(it->file->final.data, it->file->f, g->o.range_bytes, e);
        if (!it->part)
            return false;
        it->file->had = part_bytes(it->part);
        it->file->state = GET_RUNNING;
    }
    *range = part_take(it->part);
    it->finishing = *range < 0;
    return true;
}

struct sink {
    struct item *it;
    int range;
};

static bool take_bytes(void *arg, const void *bytes, size_t n, struct err *e)
{
    struct sink *s = arg;
    return part_write(s->it->part, s->range, bytes, n, e);
}

static bool download(struct get *g, struct item *it, int range, struct err *e)
{
    struct sink sink = {it, range};
    uint64_t offset, n;
    part_missing(it->part, range, &offset, &n);
    bool ok = fetch_range_to(g->fetch, &it->file->repo->list, it->file->f, offset, n, take_bytes, &sink, e);
    part_give(it->part, range);
    return ok;
}

static void set_state(struct get *g, struct item *it, enum get_state state)
{
    pthread_mutex_lock(&g->lock);
    it->file->state = state;
    pthread_mutex_unlock(&g->lock);
}

/* Called by the last connection of the file. */
static bool finish_item(struct get *g, struct item *it, struct err *e)
{
    bool wrong;
    CHECK(part_is_whole(it->part));
    if (part_finish(it->part, &wrong, e)) {
        bool ok = wanted_place(&g->wanted, it->file, e);
        if (ok)
            set_state(g, it, GET_DONE);
        return ok;
    }
    if (!wrong || it->wrong_once)
        return false;
    if (g->o.fetch.note)
        g->o.fetch.note(g->o.fetch.arg, e->msg);
    pthread_mutex_lock(&g->lock);
    struct part *old = it->part;
    it->part = NULL;
    it->wrong_once = true;
    it->finishing = false;
    it->file->had = 0;
    it->file->state = GET_WAITING;
    pthread_mutex_unlock(&g->lock);
    part_close(old);
    return true;
}

/* Checks a file that existed; a wrong one is downloaded again. */
static bool check_item(struct get *g, struct item *it, struct err *e)
{
    struct wanted_file *w = it->file;
    enum { PIECE = 1 << 20 };
    char hex[DIGEST_HEX] = "", *piece = memory_alloc(PIECE);
    struct digest *d = digest_open(w->f->lfs, w->f->bytes);
    int fd = open(w->final.data, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    while (fd >= 0 && !fetch_stopped(g->fetch) && (n = read(fd, piece, PIECE)) > 0)
        digest_add(d, piece, (size_t)n);
    if (n == 0)
        digest_end(d, hex);
    if (fd >= 0)
        close(fd);
    digest_close(d);
    free(piece);
    if (fetch_stopped(g->fetch))
        return err_set(e, "stopped");
    if (n < 0)
        return err_set(e, "cannot read %s: %s", w->final.data, strerror(errno));
    bool right = !strcmp(hex, w->f->hash);
    pthread_mutex_lock(&g->lock);
    w->had = right ? w->f->bytes : 0;
    w->state = right ? GET_HAD : GET_WAITING;
    pthread_mutex_unlock(&g->lock);
    if (right)
        return true;
    if (fetch_offline(g->fetch))
        return err_set(e, "%s has the hash %s, %s was expected", w->final.data, hex, w->f->hash);
    if (g->o.fetch.note) {
        struct buf text = {0};
        buf_addf(&text, "%s has a wrong hash; it is downloaded again", w->f->path);
        g->o.fetch.note(g->o.fetch.arg, text.data);
        buf_free(&text);
    }
    return true;
}

static bool work_at(struct get *g, struct item *it, int range, struct err *e)
{
    if (!it->part)
        return check_item(g, it, e);
    return (range < 0 || download(g, it, range, e)) && part_hash_rest(it->part, e) && (range >= 0 || finish_item(g, it, e));
}

static void *work_main(void *arg)
{
    struct get *g = arg;
    struct err e = {0};
    bool ok = true;
    pthread_mutex_lock(&g->lock);
    while (ok && !g->failed && !all_over(g)) {
        struct item *it = next_item(g);
        int range;
        if (!it) {
            pthread_cond_wait(&g->changed, &g->lock);
            continue;
        }
        ok = begin_item(g, it, &range, &e);
        it->workers++;
        pthread_mutex_unlock(&g->lock);
        ok = ok && work_at(g, it, range, &e);
        pthread_mutex_lock(&g->lock);
        it->workers--;
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
    if (!ok)
        fail_get(g, &e);
    pthread_mutex_lock(&g->lock);
    g->n_running--;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* --- the whole ----------------------------------------------------------------------------------------------------------- */

/* Writes the journals, so that little is downloaded twice after an interruption. */
static bool commit_all(struct get *g, struct err *e)
{
    bool ok = true;
    for (int i = 0; ok && i < g->n_items; i++) {
        struct item *it = &g->items[i];
        pthread_mutex_lock(&g->lock);
        it->kept = it->file->state == GET_RUNNING && !it->finishing;
        bool due = it->kept;
        pthread_mutex_unlock(&g->lock);
        if (!due)
            continue;
        ok = part_commit(it->part, e);
        pthread_mutex_lock(&g->lock);
        it->kept = false;
        pthread_cond_broadcast(&g->changed);
        pthread_mutex_unlock(&g->lock);
    }
    return ok;
}

static void wait_ms(struct get *g, int ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += ms * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&g->changed, &g->lock, &t);
}

static void *journals_main(void *arg)
{
    struct get *g = arg;
    struct err e = {0};
    bool ok = true;
    for (int tick = 1; ok; tick++) {
        pthread_mutex_lock(&g->lock);
        bool over = !g->n_running;
        if (!over)
            wait_ms(g, TICK_MS);
        pthread_mutex_unlock(&g->lock);
        if (over || tick % COMMIT_EVERY_TICKS == 0)
            ok = commit_all(g, &e);
        if (over)
            break;
    }
    if (!ok)
        fail_get(g, &e);
    return NULL;
}

static bool set_refs(struct get *g, struct err *e)
{
    bool ok = true;
    for (int i = 0; ok && !g->o.to && i < g->wanted.n_repos; i++)
        ok = fetch_offline(g->fetch) || cache_set_ref(g->wanted.repos[i].folder.data, g->wanted.repos[i].list.revision,
                                                    g->wanted.repos[i].list.commit, e);
    return ok;
}

bool get_run(struct get *g, void (*tick)(void *arg), void *arg, struct err *e)
{
    int n = g->o.connections;
    g->n_running = n;
    for (int i = 0; i < n; i++)
        CHECK(!pthread_create(&g->workers[i], NULL, work_main, g));
    CHECK(!pthread_create(&g->journals, NULL, journals_main, g));
    pthread_mutex_lock(&g->lock);
    while (g->n_running) {
        wait_ms(g, TICK_MS);
        pthread_mutex_unlock(&g->lock);
        tick(arg);
        pthread_mutex_lock(&g->lock);
    }
    pthread_mutex_unlock(&g->lock);
    for (int i = 0; i < n; i++)
        pthread_join(g->workers[i], NULL);
    pthread_join(g->journals, NULL);
    tick(arg);
    if (g->failed)
        return err_set(e, "%s", g->why.msg);
    return set_refs(g, e);
}

void get_stop(struct get *g)
{
    fail_get(g, &(struct err){"stopped"});
}

bool get_stopped(const struct get *g)
{
    return g->failed && !strcmp(g->why.msg, "stopped");
}

int get_n_files(const struct get *g)
{
    return g->n_items;
}

void get_look(struct get *g, int file, struct get_file *out)
{
    struct item *it = &g->items[file];
    const struct wanted_file *w = it->file;
    pthread_mutex_lock(&g->lock);
    *out = (struct get_file){.repo = w->repo->list.name, .path = w->f->path, .bytes = w->f->bytes, .had = w->had, .state = w->state};
    out->done = w->state >= GET_HAD ? w->f->bytes : w->state == GET_RUNNING ? part_bytes(it->part) : 0;
    pthread_mutex_unlock(&g->lock);
}

int get_n_repos(const struct get *g)
{
    return g->wanted.n_repos;
}

void get_repo(const struct get *g, int i, struct get_repo *out)
{
    const struct wanted_repo *r = &g->wanted.repos[i];
    *out = (struct get_repo){r->list.name, r->list.revision, r->list.commit, r->dir.data};
}
