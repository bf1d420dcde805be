#include "prepare/get.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/memory.h"
#include "fetch/cache.h"
#include "fetch/digest.h"
#include "fetch/fetch.h"
#include "prepare/part.h"
#include "prepare/source.h"

struct wanted_repo {
    struct fetch_repo list;
    struct buf folder;                  /* in the Hugging Face cache; empty with --to */
    struct buf dir;                     /* the snapshot, or --to */
};

struct wanted_file {
    struct wanted_repo      *repo;
    const struct fetch_file *f;
    struct buf               final;     /* its path: the blob, or the file in --to */
    enum get_state           state;
    uint64_t                 had;       /* bytes that existed */
};

struct wanted {
    struct fetch *fetch;
    const char   *to;                   /* NULL: the Hugging Face cache */
    bool          check;                /* files that are in the cache are to be hashed, too */
    struct wanted_repo *repos;
    int                 n_repos;
    struct wanted_file *files;
    int                 n_files, cap_files;
};

/* --- the wanted files ------------------------------------------------------------------------------------------------- */

/* Adds the files of a repository, without weights if only small ones are wanted, and where each of them will be. */
static void add_files_of(struct wanted *w, struct wanted_repo *r, bool small)
{
    for (int i = 0; i < r->list.n_files; i++) {
        const struct fetch_file *f = &r->list.files[i];
        if (small && repos_is_weight(f->path))
            continue;
        w->files = memory_grow(w->files, w->n_files, &w->cap_files, sizeof *w->files);
        w->files[w->n_files++] = (struct wanted_file){.repo = r, .f = f};
        struct wanted_file *it = &w->files[w->n_files - 1];
        if (w->to || !f->hash[0])
            buf_addf(&it->final, "%s/%s", r->dir.data, f->path);
        else
            cache_blob(&it->final, r->folder.data, f->hash);
    }
}

/* Lists a repository on the hub and adds its files. */
static bool add_repo(struct wanted *w, const char *name, const char *revision, bool small, struct err *e)
{
    struct wanted_repo *r = &w->repos[w->n_repos++];
    if (!fetch_list(w->fetch, name, revision, &r->list, e) || !cache_repo(&r->folder, name, e))
        return false;
    if (w->to)
        buf_adds(&r->dir, w->to);
    else
        cache_snapshot(&r->dir, r->folder.data, r->list.commit);
    add_files_of(w, r, small);
    return true;
}

/* Splits "ORG/NAME[@REVISION]".  Returns the revision; NULL: not given. */
static const char *split_revision(const char *what, struct buf *name)
{
    const char *at = strchr(what, '@');
    buf_add(name, what, at ? (size_t)(at - what) : strlen(what));
    return at ? at + 1 : NULL;
}

/* Reports an unknown name together with those that are known.  Returns false. */
static bool refuse_name(const char *what, struct err *e)
{
    struct buf names = {0};
    for (const struct repos_row *r = repos_rows; r->name; r++)
        if (r == repos_rows || strcmp(r[-1].name, r->name))
            buf_addf(&names, "%s%s", names.len ? ", " : "", r->name);
    err_set(e, "\"%s\" is not a known name; expected %s or ORG/NAME[@REVISION]", what, names.data);
    buf_free(&names);
    return false;
}

bool get_is_name(const char *what, struct err *e)
{
    struct buf name = {0};
    if (repos_is_name(what))
        return true;
    if (!strchr(what, '/'))
        return refuse_name(what, e);
    const char *revision = split_revision(what, &name);
    bool ok = fetch_is_name(buf_str(&name), revision, e);
    buf_free(&name);
    return ok;
}

/* Lists the repositories of a name of config/repos.def, or of "ORG/NAME[@REVISION]". */
static bool add_wanted(struct wanted *w, const char *what, struct err *e)
{
    bool ok = get_is_name(what, e);
    for (const struct repos_row *r = repos_rows; ok && r->name; r++)
        if (!strcmp(r->name, what) && !(w->to && r->small))
            ok = add_repo(w, r->repo, NULL, r->small, e);
    if (!ok || repos_is_name(what))
        return ok;
    struct buf name = {0};
    const char *revision = split_revision(what, &name);
    ok = add_repo(w, name.data, revision, false, e);
    buf_free(&name);
    return ok;
}

/* --- the files that exist --------------------------------------------------------------------------------------------- */

static bool has_size(const char *path, uint64_t bytes)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
}

/* Links a file of the cache.  If that is impossible, the file is downloaded again. */
static bool link_from_cache(const struct wanted_file *it)
{
    struct buf blob = {0};
    cache_blob(&blob, it->repo->folder.data, it->f->hash);
    bool ok = it->f->hash[0] && has_size(blob.data, it->f->bytes) && cache_make_parents(it->final.data, NULL) &&
              !link(blob.data, it->final.data);
    buf_free(&blob);
    return ok;
}

/* Makes the link in the snapshot that leads to a complete file of the cache.  Any thread. */
static bool link_in_snapshot(const struct wanted *w, const struct wanted_file *it, struct err *e)
{
    return w->to || !it->f->hash[0] || cache_link(it->repo->folder.data, it->repo->list.commit, it->f->path, it->f->hash, e);
}

/* Finds out whether a file is there already, or can be linked from the cache, and whether it must be checked. */
static bool find_file(struct wanted *w, struct wanted_file *it, struct err *e)
{
    bool there = has_size(it->final.data, it->f->bytes);
    if (there && w->to && it->f->hash[0]) {
        it->state = GET_CHECKING;       /* so far only its name and size match */
    } else if (there || (w->to && link_from_cache(it))) {
        it->state = w->check && it->f->hash[0] ? GET_CHECKING : GET_HAD;
        it->had = it->f->bytes;
        part_drop(it->final.data);      /* a kill between rename and removal leaves a journal */
        return link_in_snapshot(w, it, e);
    }
    return true;
}

/* Free bytes of the file system that holds the nearest existing parent. */
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

/* False if the disk has less room than the files that are missing need. */
static bool check_space(const struct wanted *w, struct err *e)
{
    uint64_t wanted = 0, there;
    for (int i = 0; i < w->n_files; i++) {
        const struct wanted_file *it = &w->files[i];
        uint64_t left = part_left(it->final.data), bytes = it->f->bytes;
        if (it->state == GET_WAITING)
            wanted += left < bytes ? bytes - left : 0;
    }
    const char *dir = w->to ? w->to : w->n_repos ? w->repos[0].folder.data : ".";
    if (!wanted || !free_bytes(dir, &there) || wanted <= there)
        return true;
    return err_set(e, "%.2f GB are to be downloaded to %s, which has %.2f GB free; choose another place with %s",
                   (double)wanted / 1e9, dir, (double)there / 1e9, w->to ? "--to" : "HF_HUB_CACHE or --to");
}

/* With --to: false with the reason if two repositories have a file of one name. */
static bool check_names_differ(const struct wanted *w, struct err *e)
{
    for (int i = 1; w->to && i < w->n_files; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(w->files[i].final.data, w->files[k].final.data))
                return err_set(e, "both %s and %s have a file %s: with --to, get one of them", w->files[k].repo->list.name,
                               w->files[i].repo->list.name, w->files[i].f->path);
    return true;
}

/* True if an earlier file is the same blob: a repository may have equal bytes under several names, which are downloaded once. */
static bool same_blob_before(const struct wanted *w, int i)
{
    for (int k = 0; k < i; k++)
        if (!strcmp(w->files[k].final.data, w->files[i].final.data))
            return true;
    return false;
}

/* Sets the state of each file: GET_WAITING, GET_CHECKING or GET_HAD.  False with the reason: the disk is full, or there is no network. */
static bool find_existing(struct wanted *w, struct err *e)
{
    bool ok = check_names_differ(w, e);
    for (int i = 0; ok && i < w->n_files; i++) {
        ok = find_file(w, &w->files[i], e);
        if (ok && w->files[i].state != GET_HAD && !w->to && same_blob_before(w, i)) {
            w->files[i].state = GET_HAD;
            w->files[i].had = w->files[i].f->bytes;
            ok = link_in_snapshot(w, &w->files[i], e);
        }
        if (ok && w->files[i].state == GET_WAITING && fetch_offline(w->fetch))
            ok = err_set(e, "%s of %s is not on this machine, and HF_HUB_OFFLINE is set", w->files[i].f->path, w->files[i].repo->list.name);
    }
    return ok && check_space(w, e);
}

/* Prepares for n_what calls of add_wanted(); `fetch` and `to` must stay valid. */
static void open_wanted(struct wanted *w, struct fetch *fetch, const char *to, bool check, int n_what)
{
    int most = 0;
    for (const struct repos_row *r = repos_rows; r->name; r++)
        most++;
    *w = (struct wanted){.fetch = fetch, .to = to, .check = check};
    w->repos = memory_zeroed((size_t)(n_what * most) + 1, sizeof *w->repos);
}

/* Frees the lists of files and repositories. */
static void close_wanted(struct wanted *w)
{
    for (int i = 0; i < w->n_files; i++)
        buf_free(&w->files[i].final);
    for (int i = 0; i < w->n_repos; i++) {
        fetch_repo_free(&w->repos[i].list);
        buf_free(&w->repos[i].folder);
        buf_free(&w->repos[i].dir);
    }
    free(w->files);
    free(w->repos);
}

/* --- downloading ------------------------------------------------------------------------------------------------------ */

enum { TICK_MS = 100, COMMIT_EVERY_TICKS = 5, MAX_CONNECTIONS = 64 };

/* A file that is being downloaded. */
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
    struct item  *items;                /* one for each wanted file */
    int           n_items;

    pthread_mutex_t lock;               /* protects the items and the members below */
    pthread_cond_t  changed;
    pthread_t       workers[MAX_CONNECTIONS], journals;
    int             n_running;
    bool            failed;
    struct err      why;                /* the first failure */
};

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
    open_wanted(&g->wanted, g->fetch, o->to, o->check, o->n_what);
    bool ok = g->fetch != NULL;
    for (int i = 0; ok && i < o->n_what; i++)
        ok = add_wanted(&g->wanted, o->what[i], e);
    ok = ok && find_existing(&g->wanted, e);
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
    close_wanted(&g->wanted);
    fetch_close(g->fetch);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g->items);
    free(g);
}

/* --- one connection ----------------------------------------------------------------------------------------------------- */

/* Stops all threads; the first reason is kept. */
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

/* True if there is work for one more connection: a missing range, or a complete file to rename. */
static bool has_work(const struct item *it)
{
    bool free = it->part && part_has_free(it->part);
    return it->file->state == GET_WAITING || (it->file->state == GET_CHECKING && !it->workers) ||
           (it->file->state == GET_RUNNING && (free || (!it->workers && !it->kept)));
}

/* Returns the first of the files with work that have the fewest connections.  Call with the lock. */
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

static bool all_done(const struct get *g)
{
    for (int i = 0; i < g->n_items; i++)
        if (g->items[i].file->state < GET_HAD)
            return false;
    return true;
}

/* Reserves a range of the file for a connection; the first connection opens it.  *range -1: nothing is left to download.  Call with the lock. */
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
        bool ok = link_in_snapshot(&g->wanted, it->file, e);
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

/* A worker's thread: downloads and checks the next items until all are done or one has failed. */
static void *work_main(void *arg)
{
    struct get *g = arg;
    struct err e = {0};
    bool ok = true;
    pthread_mutex_lock(&g->lock);
    while (ok && !g->failed && !all_done(g)) {
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

/* The thread that writes journals of progress from time to time, and once at the end. */
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

/* Writes the refs of the cache, unless offline or into a folder of the user's. */
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
