#include "fetch/cache.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

/* Replaces *path by $NAME, with "~/" expanded, and the path below it.  False if the variable is not set. */
static bool from_environment(struct buf *path, const char *name, const char *below)
{
    const char *dir = getenv(name), *home = getenv("HOME");
    if (!dir || !*dir)
        return false;
    buf_reset(path);
    if (!strncmp(dir, "~/", 2) && home)
        buf_addf(path, "%s%s%s", home, dir + 1, below);
    else
        buf_addf(path, "%s%s", dir, below);
    return true;
}

bool cache_home(struct buf *path, struct err *e)
{
    return from_environment(path, "HF_HOME", "") || from_environment(path, "XDG_CACHE_HOME", "/huggingface") ||
           from_environment(path, "HOME", "/.cache/huggingface") ||
           err_set(e, "there is no place for downloads: none of HF_HOME, XDG_CACHE_HOME and HOME is set");
}

bool cache_root(struct buf *path, struct err *e)
{
    if (from_environment(path, "HF_HUB_CACHE", "") || from_environment(path, "HUGGINGFACE_HUB_CACHE", ""))
        return true;
    if (!cache_home(path, e))
        return false;
    buf_adds(path, "/hub");
    return true;
}

bool cache_repo(struct buf *path, const char *name, struct err *e)
{
    if (!cache_root(path, e))
        return false;
    buf_adds(path, "/models--");
    for (; *name; name++)
        buf_addf(path, *name == '/' ? "--" : "%c", *name);
    return true;
}

bool cache_repo_name(struct buf *name, const char *folder_name)
{
    static const char head[] = "models--";
    if (strncmp(folder_name, head, sizeof head - 1))
        return false;
    folder_name += sizeof head - 1;
    const char *cut = strstr(folder_name, "--");
    buf_reset(name);
    if (cut)
        buf_addf(name, "%.*s/%s", (int)(cut - folder_name), folder_name, cut + 2);
    else
        buf_adds(name, folder_name);
    return true;
}

void cache_snapshot(struct buf *path, const char *folder, const char *commit)
{
    buf_reset(path);
    buf_addf(path, "%s/snapshots/%s", folder, commit);
}

void cache_blob(struct buf *path, const char *folder, const char *hash)
{
    buf_reset(path);
    buf_addf(path, "%s/blobs/%s", folder, hash);
}

static bool is_commit(const char *s)
{
    return strlen(s) == 40 && strspn(s, "0123456789abcdef") == 40;
}

bool cache_commit(const char *folder, const char *revision, char commit[FETCH_HASH])
{
    struct buf path = {0}, text = {0};
    struct stat st;
    buf_addf(&path, "%s/refs/%s", folder, revision);
    bool ok = file_read(&text, path.data, 1000, NULL);
    while (text.len && strchr(" \r\n", text.data[text.len - 1]))
        text.data[--text.len] = 0;
    if (!ok) {
        cache_snapshot(&path, folder, revision);
        ok = is_commit(revision) && !stat(path.data, &st);
        buf_adds(&text, revision);
    }
    ok = ok && is_commit(buf_str(&text));
    if (ok)
        memcpy(commit, text.data, 41);
    buf_free(&path);
    buf_free(&text);
    return ok;
}

/* --- listing ------------------------------------------------------------------------------------------------------ */

struct walk {
    struct fetch_repo *r;
    int cap;
};

/* Takes the hash from the last component of a link's target, if that looks like a hash. */
static void read_hash(const char *path, struct fetch_file *f)
{
    char target[4096];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return;
    target[n] = 0;
    const char *slash = strrchr(target, '/'), *name = slash ? slash + 1 : target;
    size_t len = strlen(name);
    if ((len != 40 && len != 64) || strspn(name, "0123456789abcdef") != len)
        return;
    f->lfs = len == 64;
    memcpy(f->hash, name, len + 1);
}

/* Lists the regular files of a folder and of those in it, with the hash that the cache has for each; hidden ones are left out. */
static void walk(struct walk *w, const char *dir, const char *below, int depth)
{
    enum { DEEPEST = 16 };
    DIR *d = depth < DEEPEST ? opendir(dir) : NULL;
    for (struct dirent *entry; d && (entry = readdir(d));) {
        struct buf path = {0}, name = {0};
        struct stat st;
        buf_addf(&path, "%s/%s", dir, entry->d_name);
        buf_addf(&name, "%s%s", below, entry->d_name);
        if (entry->d_name[0] == '.' || stat(path.data, &st)) {
            ;
        } else if (S_ISDIR(st.st_mode)) {
            buf_addc(&name, '/');
            walk(w, path.data, name.data, depth + 1);
        } else if (S_ISREG(st.st_mode)) {
            struct fetch_repo *r = w->r;
            r->files = memory_grow(r->files, r->n_files, &w->cap, sizeof *r->files);
            struct fetch_file *f = &r->files[r->n_files++];
            *f = (struct fetch_file){.path = memory_strdup(name.data), .bytes = (uint64_t)st.st_size};
            read_hash(path.data, f);
        }
        buf_free(&path);
        buf_free(&name);
    }
    if (d)
        closedir(d);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct fetch_file *)a)->path, ((const struct fetch_file *)b)->path);
}

bool cache_list(const char *dir, struct fetch_repo *r, struct err *e)
{
    struct walk w = {r, 0};
    struct stat st;
    if (stat(dir, &st))
        return err_set(e, "cannot open %s: %s", dir, strerror(errno));
    walk(&w, dir, "", 0);
    if (r->n_files)
        qsort(r->files, (size_t)r->n_files, sizeof *r->files, by_path);
    return true;
}

/* --- adding ------------------------------------------------------------------------------------------------------- */

bool cache_make_parents(const char *path, struct err *e)
{
    struct buf p = {0};
    bool ok = true;
    buf_adds(&p, path);
    for (char *s = p.data + 1; ok && (s = strchr(s, '/')); s++) {
        *s = 0;
        if (mkdir(p.data, 0777) && errno != EEXIST)
            ok = err_set(e, "cannot make %s: %s", p.data, strerror(errno));
        *s = '/';
    }
    buf_free(&p);
    return ok;
}

bool cache_link(const char *folder, const char *commit, const char *path, const char *hash, struct err *e)
{
    struct buf at = {0}, to = {0}, fresh = {0};
    char there[4096];
    buf_addf(&at, "%s/snapshots/%s/%s", folder, commit, path);
    buf_adds(&to, "../../");
    for (const char *s = path; (s = strchr(s, '/')); s++)
        buf_adds(&to, "../");
    buf_addf(&to, "blobs/%s", hash);
    buf_addf(&fresh, "%s.new", at.data);
    ssize_t n = readlink(at.data, there, sizeof there - 1);
    bool ok = n == (ssize_t)to.len && !memcmp(there, to.data, to.len);
    if (!ok) {
        unlink(fresh.data);             /* left by a run that was killed */
        ok = cache_make_parents(at.data, e) && ((!symlink(to.data, fresh.data) && !rename(fresh.data, at.data)) ||
                                                err_set(e, "cannot make the link %s: %s", at.data, strerror(errno)));
    }
    buf_free(&at);
    buf_free(&to);
    buf_free(&fresh);
    return ok;
}

bool cache_set_ref(const char *folder, const char *revision, const char *commit, struct err *e)
{
    struct buf path = {0};
    if (is_commit(revision))
        return true;
    buf_addf(&path, "%s/refs/%s", folder, revision);
    bool ok = cache_make_parents(path.data, e) &&
              (file_replace(path.data, commit, strlen(commit)) || err_set(e, "cannot write %s: %s", path.data, strerror(errno)));
    buf_free(&path);
    return ok;
}
