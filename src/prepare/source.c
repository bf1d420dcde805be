#include "prepare/source.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"
#include "fetch/cache.h"
#include "fetch/fetch.h"

/* ---- names of repositories ---- */

#define WHOLE false
#define SMALL true
const struct repos_row repos_rows[] = {
#define REPO(name, repo, files) {name, repo, files},
#include "config/repos.def"
    {NULL, NULL, false},
};

bool repos_is_name(const char *word)
{
    for (const struct repos_row *r = repos_rows; r->name; r++)
        if (!strcmp(r->name, word))
            return true;
    return false;
}

bool repos_is_weight(const char *path)
{
    static const char end[] = ".safetensors";
    size_t n = strlen(path), m = sizeof end - 1;
    return n >= m && !strcmp(path + n - m, end);
}

#define INDEX  "model.safetensors.index.json"
#define SINGLE "model.safetensors"
enum { MAX_INDEX = 128 << 20, MAX_HEADER = 100000000 };

/* ---- a directory */

/* Opens a regular file of the folder and fills in its status. -1 with the reason. */
static int open_in(const struct source *s, const char *file, struct stat *st, struct err *e)
{
    struct buf path = {0};
    buf_addf(&path, "%s/%s", s->name, file);
    int fd = open(buf_str(&path), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, st)) {
        err_set(e, "cannot open %s: %s", buf_str(&path), strerror(errno));
    } else if (!S_ISREG(st->st_mode)) {
        err_set(e, "%s is not a regular file", buf_str(&path));
        close(fd);
        fd = -1;
    }
    buf_free(&path);
    return fd;
}

/* Finds the size of a file of the folder. */
static bool dir_size(struct source *s, const char *file, uint64_t *bytes, struct err *e)
{
    struct stat st;
    int fd = open_in(s, file, &st, e);
    if (fd < 0)
        return false;
    close(fd);
    *bytes = (uint64_t)st.st_size;
    return true;
}

/* Reads n bytes of a file of the folder, from byte `at` on. */
static bool dir_read(struct source *s, const char *file, uint64_t at, uint64_t n, void *dst, struct err *e)
{
    struct stat st;
    int fd = open_in(s, file, &st, e);
    if (fd < 0)
        return false;
    const bool ok = file_read_at(fd, dst, n, at);
    if (!ok && errno)
        err_set(e, "cannot read %s/%s: %s", s->name, file, strerror(errno));
    else if (!ok)
        err_set(e, "%s/%s has %llu bytes, expected at least %llu: the file is cut short", s->name, file, (unsigned long long)st.st_size,
                (unsigned long long)(at + n));
    close(fd);
    return ok;
}

/* Takes repository and commit from a path .../models--ORG--NAME/snapshots/COMMIT. */
static void identify(struct source *s)
{
    struct buf repo = {0};
    char *real = realpath(s->name, NULL), *commit = real ? strrchr(real, '/') : NULL, *at, *folder;
    if (commit && commit - real > 10 && !strncmp(commit - 10, "/snapshots", 10)) {
        at = commit - 10;
        *at = 0;
        folder = strrchr(real, '/');
        if (folder && cache_repo_name(&repo, folder + 1)) {
            s->repo = memory_strdup(buf_str(&repo));
            s->commit = memory_strdup(commit + 1);
        }
    }
    buf_free(&repo);
    free(real);
}

void source_open_dir(struct source *s, const char *dir)
{
    *s = (struct source){.name = memory_strdup(dir), .size = dir_size, .read = dir_read};
    identify(s);
}

/* ---- a repository */

struct remote {
    struct fetch     *fetch;
    struct fetch_repo repo;
};

static bool remote_size(struct source *s, const char *file, uint64_t *bytes, struct err *e)
{
    const struct remote *r = s->arg;
    const struct fetch_file *f = fetch_find(&r->repo, file);
    if (!f)
        return err_set(e, "the repository %s has no file %s", s->name, file);
    *bytes = f->bytes;
    return true;
}

/* Reads n bytes of a file of the repository, from byte `at` on. */
static bool remote_read(struct source *s, const char *file, uint64_t at, uint64_t n, void *dst, struct err *e)
{
    struct remote *r = s->arg;
    const struct fetch_file *f = fetch_find(&r->repo, file);
    if (!f)
        return err_set(e, "the repository %s has no file %s", s->name, file);
    if (at > f->bytes || n > f->bytes - at)
        return err_set(e, "%s/%s has %llu bytes, expected at least %llu", s->name, file, (unsigned long long)f->bytes, (unsigned long long)(at + n));
    return !n || fetch_range(r->fetch, &r->repo, f, at, n, dst, e);
}

static void remote_close(struct source *s)
{
    struct remote *r = s->arg;
    fetch_repo_free(&r->repo);
    fetch_close(r->fetch);
    free(r);
}

/* Returns the repository of a name of config/repos.def: its SMALL row or the other one.  Returns any other name unchanged. */
static const char *named_repo(const char *name, bool small)
{
    for (const struct repos_row *r = repos_rows; r->name; r++)
        if (!strcmp(r->name, name) && r->small == small)
            return r->repo;
    return name;
}

/* Splits ORG/NAME[@REVISION] at the @. */
static bool split_repo(const char *name, struct buf *repo, const char **revision)
{
    const char *at = strchr(name, '@'), *slash = strchr(name, '/');
    size_t n = at ? (size_t)(at - name) : strlen(name);
    *revision = at ? at + 1 : NULL;
    buf_add(repo, name, n);
    return slash && slash > name && slash < name + n - 1 && !strchr(slash + 1, '/') && *name != '.' && (!at || at[1]);
}

static bool is_dir(const char *name)
{
    struct stat st;
    return !stat(name, &st) && S_ISDIR(st.st_mode);
}

bool source_open(struct source *s, const char *name, struct err *e)
{
    struct buf repo = {0};
    const char *revision;
    *s = (struct source){0};
    if (is_dir(name)) {
        source_open_dir(s, name);
        return true;
    }
    name = named_repo(name, true);
    bool ok = split_repo(name, &repo, &revision) || err_set(e, "%s is neither a directory nor a repository (ORG/NAME or ORG/NAME@REVISION)", name);
    if (ok) {
        struct remote *r = memory_zeroed(1, sizeof *r);
        *s = (struct source){.name = memory_strdup(name), .arg = r, .size = remote_size, .read = remote_read, .close = remote_close};
        r->fetch = fetch_open(&(struct fetch_options){0}, e);
        ok = r->fetch && fetch_list(r->fetch, buf_str(&repo), revision, &r->repo, e);
        if (ok) {
            s->repo = memory_strdup(r->repo.name);
            s->commit = memory_strdup(r->repo.commit);
        }
    }
    buf_free(&repo);
    if (!ok)
        source_close(s);
    return ok;
}

bool source_open_local(struct source *s, const char *name, struct err *e)
{
    struct buf repo = {0}, folder = {0}, path = {0};
    char commit[FETCH_HASH];
    const char *revision;
    bool ok = true;
    *s = (struct source){0};
    if (is_dir(name)) {
        buf_adds(&path, name);
    } else if (!split_repo(named_repo(name, false), &repo, &revision)) {
        ok = err_set(e, "%s is neither a directory nor a repository (ORG/NAME or ORG/NAME@REVISION)", name);
    } else if ((ok = cache_repo(&folder, buf_str(&repo), e))) {
        if ((ok = cache_commit(buf_str(&folder), revision ? revision : "main", commit)))
            cache_snapshot(&path, buf_str(&folder), commit);
        ok = (ok && is_dir(buf_str(&path))) || err_set(e, "%s is not on this machine: `q35chat model get %s` fetches it", name, name);
    }
    if (ok)
        source_open_dir(s, buf_str(&path));
    buf_free(&repo);
    buf_free(&folder);
    buf_free(&path);
    return ok;
}

/* ---- any source */

void source_close(struct source *s)
{
    if (s->close)
        s->close(s);
    free(s->name);
    free(s->repo);
    free(s->commit);
    *s = (struct source){0};
}

static bool size_of(struct source *s, const char *file, uint64_t *bytes, struct err *e)
{
    return s->size(s, file, bytes, e);
}

bool source_read(struct source *s, const char *file, uint64_t at, uint64_t n, void *dst, struct err *e)
{
    atomic_fetch_add(&s->n_bytes, n);
    atomic_fetch_add(&s->n_reads, 1);
    return s->read(s, file, at, n, dst, e);
}

/* ---- headers */

/* Reads the index of a checkpoint of several files. */
static bool read_index(struct headers *h, uint64_t bytes, struct err *e)
{
    json_error_t je;
    if (bytes > MAX_INDEX)
        return err_set(e, "%s/" INDEX " has %llu bytes, expected at most %d", h->source->name, (unsigned long long)bytes, MAX_INDEX);
    char *text = memory_alloc(bytes + 1);
    bool ok = source_read(h->source, INDEX, 0, bytes, text, e);
    if (ok) {
        json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &je), *map = json_object_get(root, "weight_map");
        if (!json_object_size(map))
            ok = err_set(e, "%s/" INDEX ": weight_map is missing or empty, expected tensor names and their files", h->source->name);
        else
            h->index = json_incref(map);
        json_decref(root);
    }
    free(text);
    return ok;
}

bool headers_open(struct headers *h, struct source *s, struct err *e)
{
    struct err first = {0};
    uint64_t bytes;
    *h = (struct headers){.source = s};
    if (size_of(s, INDEX, &bytes, &first))
        return read_index(h, bytes, e);
    return size_of(s, SINGLE, &bytes, NULL) || err_set(e, "%s, and there is no " SINGLE " either", first.msg);
}

void headers_close(struct headers *h)
{
    for (int i = 0; i < h->n_files; i++) {
        safetensors_close(&h->files[i]);
        free(h->names[i]);
    }
    free(h->files);
    free(h->names);
    json_decref(h->index);
    *h = (struct headers){0};
}

bool headers_list(const struct headers *h, const char *name)
{
    return !h->index || json_object_get(h->index, name);
}

bool headers_read(struct headers *h, const char *name, struct err *e)
{
    uint64_t size = 0, len = 0;
    uint8_t raw[8];
    if (!size_of(h->source, name, &size, e))
        return false;
    if (size < 8)
        return err_set(e, "%s/%s has %llu bytes, expected a safetensors file of at least 8", h->source->name, name, (unsigned long long)size);
    if (!source_read(h->source, name, 0, 8, raw, e))
        return false;
    for (int i = 0; i < 8; i++)
        len |= (uint64_t)raw[i] << 8 * i;
    if (len > MAX_HEADER || len > size - 8)
        return err_set(e, "%s/%s: the header is said to have %llu bytes, expected at most %llu", h->source->name, name, (unsigned long long)len,
                       (unsigned long long)(size - 8 < MAX_HEADER ? size - 8 : MAX_HEADER));
    struct buf path = {0};
    char *json = memory_alloc(len + 1);
    buf_addf(&path, "%s/%s", h->source->name, name);
    h->files = memory_resized(h->files, (size_t)(h->n_files + 1) * sizeof *h->files);
    h->names = memory_resized(h->names, (size_t)(h->n_files + 1) * sizeof *h->names);
    h->names[h->n_files] = memory_strdup(name);
    h->files[h->n_files] = (struct safetensors){.fd = -1};
    bool ok = source_read(h->source, name, 8, len, json, e) && safetensors_parse(&h->files[h->n_files], json, len, size - 8 - len, buf_str(&path), e);
    h->n_files++;
    free(json);
    buf_free(&path);
    return ok;
}

/* Reads the header of a file that the index does not name. */
static bool plain(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/');
}

const struct tensor *headers_find(struct headers *h, const char *name, const char **file, struct err *e)
{
    const char *in = h->index ? json_string_value(json_object_get(h->index, name)) : SINGLE;
    int i = 0;
    if (!in || !plain(in)) {
        err_set(e, "%s has no tensor %s", h->source->name, name);
        return NULL;
    }
    while (i < h->n_files && strcmp(h->names[i], in))
        i++;
    if (i == h->n_files && !headers_read(h, in, e))
        return NULL;
    const struct tensor *t = safetensors_find(&h->files[i], name);
    *file = h->names[i];
    if (!t)
        err_set(e, "%s/%s has no tensor %s", h->source->name, in, name);
    return t;
}

/* ---- the index ---- */

static int by_tensor_name(const void *a, const void *b)
{
    return strcmp(((const struct index_entry *)a)->tensor, ((const struct index_entry *)b)->tensor);
}

bool index_write_text(const char *dir, const char *name, const char *text, uint64_t n, struct err *e)
{
    struct buf path = {0}, tmp = {0};
    buf_addf(&path, "%s/%s", dir, name);
    buf_addf(&tmp, "%s/.%s.tmp", dir, name);
    int fd = open(buf_str(&tmp), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && file_write(fd, text, n) && !fsync(fd);
    if (fd >= 0 && close(fd))
        ok = false;
    ok = ok && !rename(buf_str(&tmp), buf_str(&path));
    if (!ok) {
        err_set(e, "cannot write %s: %s", buf_str(&path), strerror(errno));
        unlink(buf_str(&tmp));
    }
    buf_free(&path);
    buf_free(&tmp);
    return ok;
}

/* Writes the index in the format of the public recipe: sorted, two spaces per level. */
bool index_write(const char *dir, struct index_entry *list, int n, struct err *e)
{
    struct buf out = {0};
    uint64_t total = 0;
    qsort(list, (size_t)n, sizeof *list, by_tensor_name);
    for (int i = 0; i < n; i++)
        total += list[i].bytes;
    buf_addf(&out, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {", (unsigned long long)total);
    for (int i = 0; i < n; i++)
        buf_addf(&out, "%s\n    \"%s\": \"%s\"", i ? "," : "", list[i].tensor, list[i].file);
    buf_adds(&out, "\n  }\n}\n");
    bool ok = index_write_text(dir, INDEX_FILE, buf_str(&out), out.len, e);
    buf_free(&out);
    return ok;
}
