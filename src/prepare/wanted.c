#include "prepare/wanted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/memory.h"
#include "fetch/cache.h"
#include "prepare/part.h"
#include "prepare/repos.h"

/* --- what to get ------------------------------------------------------------------------------------------------------ */

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

/* "ORG/NAME[@REVISION]".  Returns the revision, NULL where there is none. */
static const char *split(const char *what, struct buf *name)
{
    const char *at = strchr(what, '@');
    buf_add(name, what, at ? (size_t)(at - what) : strlen(what));
    return at ? at + 1 : NULL;
}

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

bool wanted_is_name(const char *what, struct err *e)
{
    struct buf name = {0};
    if (repos_is_name(what))
        return true;
    if (!strchr(what, '/'))
        return refuse_name(what, e);
    const char *revision = split(what, &name);
    bool ok = fetch_is_name(buf_str(&name), revision, e);
    buf_free(&name);
    return ok;
}

bool wanted_add(struct wanted *w, const char *what, struct err *e)
{
    bool ok = wanted_is_name(what, e);
    for (const struct repos_row *r = repos_rows; ok && r->name; r++)
        if (!strcmp(r->name, what) && !(w->to && r->small))
            ok = add_repo(w, r->repo, NULL, r->small, e);
    if (!ok || repos_is_name(what))
        return ok;
    struct buf name = {0};
    const char *revision = split(what, &name);
    ok = add_repo(w, name.data, revision, false, e);
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
static bool from_cache(const struct wanted_file *it)
{
    struct buf blob = {0};
    cache_blob(&blob, it->repo->folder.data, it->f->hash);
    bool ok = it->f->hash[0] && has_size(blob.data, it->f->bytes) && cache_make_parents(it->final.data, NULL) &&
              !link(blob.data, it->final.data);
    buf_free(&blob);
    return ok;
}

bool wanted_place(const struct wanted *w, const struct wanted_file *it, struct err *e)
{
    return w->to || !it->f->hash[0] || cache_link(it->repo->folder.data, it->repo->list.commit, it->f->path, it->f->hash, e);
}

static bool look_for_file(struct wanted *w, struct wanted_file *it, struct err *e)
{
    bool there = has_size(it->final.data, it->f->bytes);
    if (there && w->to && it->f->hash[0]) {
        it->state = GET_CHECKING;       /* so far only its name matches */
    } else if (there || (w->to && from_cache(it))) {
        it->state = w->check && it->f->hash[0] ? GET_CHECKING : GET_HAD;
        it->had = it->f->bytes;
        part_drop(it->final.data);      /* a kill between rename and removal leaves a journal */
        return wanted_place(w, it, e);
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

static bool two_have_one_name(const struct wanted *w, struct err *e)
{
    for (int i = 1; w->to && i < w->n_files; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(w->files[i].final.data, w->files[k].final.data))
                return !err_set(e, "both %s and %s have a file %s: with --to, get one of them", w->files[k].repo->list.name,
                                w->files[i].repo->list.name, w->files[i].f->path);
    return false;
}

/* A repository may have the same bytes under several names: they are one blob and are downloaded once. */
static bool same_blob_before(const struct wanted *w, int i)
{
    for (int k = 0; k < i; k++)
        if (!strcmp(w->files[k].final.data, w->files[i].final.data))
            return true;
    return false;
}

bool wanted_look(struct wanted *w, struct err *e)
{
    bool ok = !two_have_one_name(w, e);
    for (int i = 0; ok && i < w->n_files; i++) {
        ok = look_for_file(w, &w->files[i], e);
        if (ok && w->files[i].state != GET_HAD && !w->to && same_blob_before(w, i)) {
            w->files[i].state = GET_HAD;
            w->files[i].had = w->files[i].f->bytes;
            ok = wanted_place(w, &w->files[i], e);
        }
        if (ok && w->files[i].state == GET_WAITING && fetch_offline(w->fetch))
            ok = err_set(e, "%s of %s is not on this machine, and HF_HUB_OFFLINE is set", w->files[i].f->path, w->files[i].repo->list.name);
    }
    return ok && check_space(w, e);
}

void wanted_open(struct wanted *w, struct fetch *fetch, const char *to, bool check, int n_what)
{
    int most = 0;
    for (const struct repos_row *r = repos_rows; r->name; r++)
        most++;
    *w = (struct wanted){.fetch = fetch, .to = to, .check = check};
    w->repos = memory_zeroed((size_t)(n_what * most) + 1, sizeof *w->repos);
}

void wanted_close(struct wanted *w)
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
