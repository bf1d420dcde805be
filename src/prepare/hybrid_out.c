#include "prepare/hybrid_build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "prepare/place.h"

#define REQUEST_FILE ".request.json"    /* describes the sources of OUT.part */

/* ---- OUT.part */

static int open_dir(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool hybrid_out_sweep(struct hybrid *b, const struct hybrid_report *keep)
{
    DIR *d = opendir(b->part);
    bool ok = d || err_set(b->e, "cannot open %s: %s", b->part, strerror(errno));
    for (struct dirent *ent; ok && (ent = readdir(d));) {
        const char *name = ent->d_name;
        bool wanted = !strcmp(name, ".") || !strcmp(name, "..") || (keep && (!strcmp(name, INDEX_FILE) || !strcmp(name, REQUEST_FILE)));
        for (int i = 0; keep && i < keep->n_files && !wanted; i++)
            wanted = !strcmp(keep->files[i].name, name);
        if (!wanted && unlinkat(dirfd(d), name, 0))
            ok = err_set(b->e, "cannot remove %s/%s: %s", b->part, name, strerror(errno));
    }
    if (d)
        closedir(d);
    return ok;
}

/* Is the directory empty, or has it only an incomplete request file? */
static bool is_empty(const char *dir)
{
    DIR *d = opendir(dir);
    bool empty = d;
    for (struct dirent *ent; empty && (ent = readdir(d));)
        empty = !strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..") || !strcmp(ent->d_name, "." REQUEST_FILE ".tmp");
    if (d)
        closedir(d);
    return empty;
}

bool hybrid_out_start(struct hybrid *b, int *lock)
{
    struct buf path = {0}, found = {0}, wanted = {0};
    if (mkdir(b->part, 0755) && errno != EEXIST)
        return err_set(b->e, "cannot make %s: %s", b->part, strerror(errno));
    *lock = open_dir(b->part);
    if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB))
        return err_set(b->e, "cannot use %s: %s", b->part, errno == EWOULDBLOCK ? "another q35chat is building there" : strerror(errno));
    buf_addf(&path, "%s/" REQUEST_FILE, b->part);
    provenance_print(&b->p, &wanted);
    bool ok, there = file_read(&found, buf_str(&path), 1 << 20, NULL);
    if (there && found.len == wanted.len && !memcmp(found.data, wanted.data, found.len))
        ok = true;
    else if (!there && !is_empty(b->part))
        ok = err_set(b->e, "%s exists and is not an unfinished hybrid: remove it, or choose another --out", b->part);
    else
        ok = hybrid_out_sweep(b, NULL) && index_write_text(b->part, REQUEST_FILE, buf_str(&wanted), wanted.len, b->e)
             && place_sync_dir(b->part, b->e);
    buf_free(&path);
    buf_free(&found);
    buf_free(&wanted);
    return ok;
}

static void drop_request(const char *dir)
{
    struct buf path = {0};
    buf_addf(&path, "%s/" REQUEST_FILE, dir);
    unlink(buf_str(&path));
    buf_free(&path);
}

bool hybrid_out_finish(struct hybrid *b)
{
    const char *parent = hybrid_parent(b);
    if (!place_sync_dir(b->part, b->e))
        return false;
    if (rename(b->part, b->out))
        return err_set(b->e, "cannot rename %s to %s: %s", b->part, b->out, strerror(errno));
    drop_request(b->out);
    return place_sync_dir(parent, b->e);
}

/* ---- OUT */

static bool files_are_there(struct hybrid *b, const struct provenance *p)
{
    for (int i = 0; i < p->n_files; i++) {
        struct stat st;
        const char *path = arena_printf(&b->memory, "%s/%s", b->out, p->files[i].name);
        if (stat(path, &st))
            return err_set(b->e, "%s was built before, but %s is gone: remove the directory and build again", b->out, p->files[i].name);
        if ((uint64_t)st.st_size != p->files[i].bytes)
            return err_set(b->e, "%s was built before, but %s has %llu bytes, expected %llu: remove the directory and build again", b->out,
                           p->files[i].name, (unsigned long long)st.st_size, (unsigned long long)p->files[i].bytes);
        hybrid_report_add(b, p->files[i].name, p->files[i].bytes, placing_names[PLACED_ALREADY]);
    }
    return true;
}

enum hybrid_found hybrid_out_look(struct hybrid *b)
{
    struct provenance p;
    struct stat st;
    bool there;
    enum hybrid_found found = HYBRID_IN_THE_WAY;
    if (lstat(b->out, &st) || (S_ISDIR(st.st_mode) && is_empty(b->out)))
        return HYBRID_NOTHING;
    if (!S_ISDIR(st.st_mode)) {
        err_set(b->e, "%s exists and is not a directory: choose another --out", b->out);
        return HYBRID_IN_THE_WAY;
    }
    if (!provenance_read(&p, b->out, &there, b->e)) {
        if (!there)
            err_set(b->e, "%s is there and holds no " PROVENANCE_FILE ", so q35chat did not build it: choose another --out", b->out);
    } else if (!provenance_same_sources(&p, &b->p)) {
        bool other = strcmp(p.layout, b->p.layout);
        err_set(b->e, "%s holds a hybrid that was built %s: remove it, or choose another --out", b->out,
                !other ? "from other checkpoints" : b->o->compact ? "without --compact" : "with --compact");
    } else if (files_are_there(b, &p)) {
        drop_request(b->out);
        found = HYBRID_FINISHED;
    }
    provenance_free(&p);
    return found;
}
