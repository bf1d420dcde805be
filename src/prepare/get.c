#include "prepare/get.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/grow.h"
#include "base/log.h"
#include "base/memory.h"
#include "fetch/cache.h"
#include "fetch/digest.h"
#include "prepare/part.h"
#include "prepare/repos.h"

enum { TICK_MS = 100, COMMIT_EVERY_TICKS = 5, MAX_CONNECTIONS = 64 };

struct repo {
    struct fetch_repo list;
    struct buf folder;                  /* in the Hugging Face cache; empty with --to */
    struct buf dir;                     /* the snapshot, or --to */
};

struct item {
    struct repo             *repo;
    const struct fetch_file *f;
    struct buf               final;     /* the blob, or the file in --to */
    struct part             *part;
    enum get_state           state;
    int                      workers;   /* connections that work on it */
    bool                     kept;      /* its journal is being written */
    bool                     finishing; /* a connection is renaming it */
    bool                     wrong_once;
    uint64_t                 had;
};

struct get {
    struct get_options o;
    struct fetch *fetch;
    struct repo  *repos;
    int           n_repos;
    struct item  *items;
    int           n_items, cap_items;

    pthread_mutex_t lock;               /* protects the items and the members below */
    pthread_cond_t  changed;
    pthread_t       workers[MAX_CONNECTIONS], keeper;
    int             n_running;
    bool            failed;
    struct err      why;                /* the first failure */
};

/* --- what to get ------------------------------------------------------------------------------------------------------ */

static void add_items(struct get *g, struct repo *r, bool small)
{
    for (int i = 0; i < r->list.n_files; i++) {
        const struct fetch_file *f = &r->list.files[i];
        if (small && repos_is_weight(f->path))
            continue;
        g->items = grow(g->items, g->n_items, &g->cap_items, sizeof *g->items);
        g->items[g->n_items++] = (struct item){.repo = r, .f = f};
        struct item *it = &g->items[g->n_items - 1];
        if (g->o.to || !f->hash[0])
            buf_addf(&it->final, "%s/%s", r->dir.data, f->path);
        else
            cache_blob(&it->final, r->folder.data, f->hash);
    }
}

static bool list_repo(struct get *g, const char *name, const char *revision, bool small, struct err *e)
{
    struct repo *r = &g->repos[g->n_repos++];
    if (!fetch_list(g->fetch, name, revision, &r->list, e) || !cache_repo(&r->folder, name, e))
        return false;
    if (g->o.to)
        buf_adds(&r->dir, g->o.to);
    else
        cache_snapshot(&r->dir, r->folder.data, r->list.commit);
    add_items(g, r, small);
    return true;
}

/* The rows of a name, or "ORG/NAME[@REVISION]". */
static bool list_what(struct get *g, const char *what, struct err *e)
{
    bool ok = true;
    for (const struct repos_row *r = repos_rows; ok && r->name; r++)
        if (!strcmp(r->name, what) && !(g->o.to && r->small))
            ok = list_repo(g, r->repo, NULL, r->small, e);
    if (repos_is_name(what))
        return ok;
    if (!strchr(what, '/')) {
        struct buf names = {0};
        for (const struct repos_row *r = repos_rows; r->name; r++)
            if (r == repos_rows || strcmp(r[-1].name, r->name))
                buf_addf(&names, "%s%s", names.len ? ", " : "", r->name);
        err_set(e, "\"%s\" is not a known name; expected %s or ORG/NAME[@REVISION]", what, names.data);
        buf_free(&names);
        return false;
    }
    const char *at = strchr(what, '@');
    struct buf name = {0};
    buf_add(&name, what, at ? (size_t)(at - what) : strlen(what));
    ok = list_repo(g, name.data, at ? at + 1 : NULL, false, e);
    buf_free(&name);
    return ok;
}

/* --- what is there ---------------------------------------------------------------------------------------------------- */

static bool has_size(const char *path, uint64_t bytes)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
}

/* Links a file of the cache.  If that is impossible, the file is downloaded again. */
static bool from_cache(const struct item *it)
{
    struct buf blob = {0};
    cache_blob(&blob, it->repo->folder.data, it->f->hash);
    bool ok = it->f->hash[0] && has_size(blob.data, it->f->bytes) && cache_make_parents(it->final.data, NULL) &&
              !link(blob.data, it->final.data);
    buf_free(&blob);
    return ok;
}

static bool place(const struct get *g, const struct item *it, struct err *e)
{
    return g->o.to || !it->f->hash[0] || cache_link(it->repo->folder.data, it->repo->list.commit, it->f->path, it->f->hash, e);
}

static bool look_for(struct get *g, struct item *it, struct err *e)
{
    bool there = has_size(it->final.data, it->f->bytes);
    if (there && g->o.to && it->f->hash[0]) {
        it->state = GET_CHECKING;       /* so far only its name matches */
    } else if (there || (g->o.to && from_cache(it))) {
        it->state = g->o.check && it->f->hash[0] ? GET_CHECKING : GET_HAD;
        it->had = it->f->bytes;
        part_drop(it->final.data);      /* a kill between rename and removal leaves a journal */
        return place(g, it, e);
    }
    return true;
}

/* Of the nearest directory above `path` that is there. */
static bool free_bytes(const char *path, uint64_t *n)
{
    struct buf dir = {0};
    struct statvfs st;
    buf_adds(&dir, path);
    bool ok = false;
    while (!(ok = !statvfs(dir.data, &st)) && errno == ENOENT) {
        char *slash = strrchr(dir.data, '/');
        if (!slash || slash == dir.data)
            strcpy(dir.data, slash ? "/" : ".");
        else
            *slash = 0;
    }
    *n = ok ? (uint64_t)st.f_bavail * st.f_frsize : 0;
    buf_free(&dir);
    return ok;
}

static bool check_space(const struct get *g, struct err *e)
{
    uint64_t wanted = 0, there;
    for (int i = 0; i < g->n_items; i++) {
        const struct item *it = &g->items[i];
        uint64_t left = part_left(it->final.data), bytes = it->f->bytes;
        if (it->state == GET_WAITING)
            wanted += left < bytes ? bytes - left : 0;
    }
    const char *dir = g->o.to ? g->o.to : g->n_repos ? g->repos[0].folder.data : ".";
    if (!wanted || !free_bytes(dir, &there) || wanted <= there)
        return true;
    return err_set(e, "%.2f GB are to be downloaded to %s, which has %.2f GB free; choose another place with %s",
                   (double)wanted / 1e9, dir, (double)there / 1e9, g->o.to ? "--to" : "HF_HUB_CACHE or --to");
}

static bool two_of_a_name(const struct get *g, struct err *e)
{
    for (int i = 1; g->o.to && i < g->n_items; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(g->items[i].final.data, g->items[k].final.data))
                return !err_set(e, "both %s and %s have a file %s: with --to, get one of them", g->items[k].repo->list.name,
                                g->items[i].repo->list.name, g->items[i].f->path);
    return false;
}

/* A repository may have the same bytes under several names: they are one blob and are downloaded once. */
static bool same_blob_before(const struct get *g, int i)
{
    for (int k = 0; k < i; k++)
        if (!strcmp(g->items[k].final.data, g->items[i].final.data))
            return true;
    return false;
}

static bool look_for_all(struct get *g, struct err *e)
{
    bool ok = !two_of_a_name(g, e);
    for (int i = 0; ok && i < g->n_items; i++) {
        ok = look_for(g, &g->items[i], e);
        if (ok && g->items[i].state != GET_HAD && !g->o.to && same_blob_before(g, i)) {
            g->items[i].state = GET_HAD;
            g->items[i].had = g->items[i].f->bytes;
            ok = place(g, &g->items[i], e);
        }
        if (ok && g->items[i].state == GET_WAITING && fetch_offline(g->fetch))
            ok = err_set(e, "%s of %s is not on this machine, and HF_HUB_OFFLINE is set", g->items[i].f->path, g->items[i].repo->list.name);
    }
    return ok && check_space(g, e);
}

/* --- opening and closing ---------------------------------------------------------------------------------------------- */

struct get *get_open(const struct get_options *o, struct err *e)
{
    struct get *g = memory_zeroed(1, sizeof *g);
    int most = 0;
    g->o = *o;
    g->o.connections = o->connections ? o->connections : GET_CONNECTIONS;
    g->o.connections = g->o.connections < MAX_CONNECTIONS ? g->o.connections : MAX_CONNECTIONS;
    g->o.range_bytes = o->range_bytes ? o->range_bytes : (uint64_t)GET_RANGE_MIB << 20;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    for (const struct repos_row *r = repos_rows; r->name; r++)
        most++;
    g->repos = memory_zeroed((size_t)(o->n_what * most) + 1, sizeof *g->repos);
    g->fetch = fetch_open(&o->fetch, e);
    bool ok = g->fetch != NULL;
    for (int i = 0; ok && i < o->n_what; i++)
        ok = list_what(g, o->what[i], e);
    if (ok && look_for_all(g, e))
        return g;
    get_close(g);
    return NULL;
}

void get_close(struct get *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_items; i++) {
        part_close(g->items[i].part);
        buf_free(&g->items[i].final);
    }
    for (int i = 0; i < g->n_repos; i++) {
        fetch_repo_free(&g->repos[i].list);
        buf_free(&g->repos[i].folder);
        buf_free(&g->repos[i].dir);
    }
    fetch_close(g->fetch);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g->items);
    free(g->repos);
    free(g);
}

/* --- one connection ----------------------------------------------------------------------------------------------------- */

static void fail(struct get *g, const struct err *e)
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
    return it->state == GET_WAITING || (it->state == GET_CHECKING && !it->workers) ||
           (it->state == GET_RUNNING && (free || (!it->workers && !it->kept)));
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
        if (g->items[i].state < GET_HAD)
            return false;
    return true;
}

/* Call with the lock.  The first connection opens the file.  *range -1: nothing is left to download. */
static bool begin_item(struct get *g, struct item *it, int *range, struct err *e)
{
    *range = -1;
    if (it->state == GET_CHECKING)
        return true;
    if (!it->part) {
        it->part = part_open(it->final.data, it->f, g->o.range_bytes, e);
        if (!it->part)
            return false;
        it->had = part_bytes(it->part);
        it->state = GET_RUNNING;
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
    bool ok = fetch_range_to(g->fetch, &it->repo->list, it->f, offset, n, take_bytes, &sink, e);
    part_give(it->part, range);
    return ok;
}

static void set_state(struct get *g, struct item *it, enum get_state state)
{
    pthread_mutex_lock(&g->lock);
    it->state = state;
    pthread_mutex_unlock(&g->lock);
}

/* Called by the last connection of the file. */
static bool finish_item(struct get *g, struct item *it, struct err *e)
{
    bool wrong;
    CHECK(part_is_whole(it->part));
    if (part_finish(it->part, &wrong, e)) {
        bool ok = place(g, it, e);
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
    it->had = 0;
    it->state = GET_WAITING;
    pthread_mutex_unlock(&g->lock);
    part_close(old);
    return true;
}

/* Checks a file that existed; a wrong one is downloaded again. */
static bool check_item(struct get *g, struct item *it, struct err *e)
{
    enum { PIECE = 1 << 20 };
    char hex[DIGEST_HEX] = "", *piece = memory_alloc(PIECE);
    struct digest *d = digest_open(it->f->lfs, it->f->bytes);
    int fd = open(it->final.data, O_RDONLY | O_CLOEXEC);
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
        return err_set(e, "cannot read %s: %s", it->final.data, strerror(errno));
    bool right = !strcmp(hex, it->f->hash);
    pthread_mutex_lock(&g->lock);
    it->had = right ? it->f->bytes : 0;
    it->state = right ? GET_HAD : GET_WAITING;
    pthread_mutex_unlock(&g->lock);
    if (right)
        return true;
    if (fetch_offline(g->fetch))
        return err_set(e, "%s has the hash %s, %s was expected", it->final.data, hex, it->f->hash);
    if (g->o.fetch.note) {
        struct buf text = {0};
        buf_addf(&text, "%s has a wrong hash; it is downloaded again", it->f->path);
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

static void *work(void *arg)
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
        fail(g, &e);
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
        it->kept = it->state == GET_RUNNING && !it->finishing;
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

static void *write_journals(void *arg)
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
        fail(g, &e);
    return NULL;
}

static bool set_refs(struct get *g, struct err *e)
{
    bool ok = true;
    for (int i = 0; ok && !g->o.to && i < g->n_repos; i++)
        ok = fetch_offline(g->fetch) || cache_set_ref(g->repos[i].folder.data, g->repos[i].list.revision, g->repos[i].list.commit, e);
    return ok;
}

bool get_run(struct get *g, void (*tick)(void *arg), void *arg, struct err *e)
{
    int n = g->o.connections;
    g->n_running = n;
    for (int i = 0; i < n; i++)
        CHECK(!pthread_create(&g->workers[i], NULL, work, g));
    CHECK(!pthread_create(&g->keeper, NULL, write_journals, g));
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
    pthread_join(g->keeper, NULL);
    tick(arg);
    if (g->failed)
        return err_set(e, "%s", g->why.msg);
    return set_refs(g, e);
}

void get_stop(struct get *g)
{
    fail(g, &(struct err){"stopped"});
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
    pthread_mutex_lock(&g->lock);
    *out = (struct get_file){.repo = it->repo->list.name, .path = it->f->path, .bytes = it->f->bytes, .had = it->had, .state = it->state};
    out->done = it->state >= GET_HAD ? it->f->bytes : it->state == GET_RUNNING ? part_bytes(it->part) : 0;
    pthread_mutex_unlock(&g->lock);
}

int get_n_repos(const struct get *g)
{
    return g->n_repos;
}

void get_repo(const struct get *g, int i, struct get_repo *out)
{
    const struct repo *r = &g->repos[i];
    *out = (struct get_repo){r->list.name, r->list.revision, r->list.commit, r->dir.data};
}
