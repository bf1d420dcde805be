#include "model/shards.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"

#define INDEX "model.safetensors.index.json"
#define EXTRA "model_extra_tensors.safetensors"
enum { MAX_INDEX = 128 << 20, MAX_FILES = 4096 };

/* ---- names */

static int *slot_of(const struct shards *s, const char *name, uint64_t hash)
{
    for (uint64_t at = hash;; at++) {
        int *slot = &s->slots[at & (s->n_slots - 1)];
        if (!*slot || (s->list[*slot - 1].hash == hash && !strcmp(s->list[*slot - 1].name, name)))
            return slot;
    }
}

struct shard_tensor *shards_find(const struct shards *s, const char *name)
{
    if (!s->n)
        return NULL;
    int i = *slot_of(s, name, safetensors_hash(name));
    return i ? &s->list[i - 1] : NULL;
}

/* Makes room for `more` names, so that the table stays at most half full. */
static void reserve(struct shards *s, int more)
{
    if (s->n + more > s->cap) {
        s->cap = s->n + more > 2 * s->cap ? s->n + more : 2 * s->cap;
        s->list = memory_resized(s->list, (size_t)s->cap * sizeof *s->list);
    }
    if (2 * (uint64_t)s->cap <= s->n_slots)
        return;
    for (s->n_slots = s->n_slots ? s->n_slots : 64; s->n_slots < 2 * (uint64_t)s->cap;)
        s->n_slots *= 2;
    free(s->slots);
    s->slots = memory_zeroed(s->n_slots, sizeof *s->slots);
    for (int i = 0; i < s->n; i++)
        *slot_of(s, s->list[i].name, s->list[i].hash) = i + 1;
}

static struct shard_tensor *add(struct shards *s, int *slot, const char *name, uint64_t hash, int file, const struct tensor *t)
{
    s->list[s->n] = (struct shard_tensor){.name = name, .hash = hash, .file = file, .t = t};
    *slot = ++s->n;
    return &s->list[s->n - 1];
}

/* ---- files */

static const char *base_name(const char *path)
{
    return strrchr(path, '/') + 1;      /* every path here is DIR/NAME */
}

/* Opens a file of the folder and appends it to the list. */
static bool open_file(struct shards *s, const char *dir, const char *name, struct err *e)
{
    struct buf path = {0};
    if (s->n_files == MAX_FILES)
        return err_set(e, "%s has more than %d files", dir, MAX_FILES);
    s->files = memory_resized(s->files, (size_t)(s->n_files + 1) * sizeof *s->files);
    buf_addf(&path, "%s/%s", dir, name);
    bool ok = safetensors_open(&s->files[s->n_files++], buf_str(&path), e);
    buf_free(&path);
    return ok;
}

static bool exists(const char *dir, const char *name)
{
    struct buf path = {0};
    buf_addf(&path, "%s/%s", dir, name);
    bool yes = !access(buf_str(&path), F_OK);
    buf_free(&path);
    return yes;
}

/* Returns the index of the file, which is opened when new; -1 on failure. */
static int file_index(struct shards *s, const char *dir, const char *name, int guess, struct err *e)
{
    if (guess < s->n_files && !strcmp(base_name(s->files[guess].path), name))
        return guess;
    for (int i = 0; i < s->n_files; i++)
        if (!strcmp(base_name(s->files[i].path), name))
            return i;
    return open_file(s, dir, name, e) ? s->n_files - 1 : -1;
}

/* ---- with an index */

static bool plain_name(const char *s)
{
    size_t n = strlen(s), end = strlen(".safetensors");
    return n > end && n < 256 && s[0] != '.' && !strchr(s, '/') && !strcmp(s + n - end, ".safetensors");
}

/* Enters every name of the index, with its tensor in its file. */
static bool place(struct shards *s, const char *dir, const json_t *map, struct err *e)
{
    const char *name;
    json_t *value;
    int file = 0;
    reserve(s, (int)json_object_size(map));
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        const char *in = json_string_value(value);
        if (!in || !plain_name(in))
            return err_set(e, "%s/" INDEX ": tensor %s is in \"%s\", expected the name of a .safetensors file", dir, name,
                           in ? in : "(no string)");
        file = file_index(s, dir, in, file, e);
        if (file < 0)
            return false;
        const struct tensor *t = safetensors_find(&s->files[file], name);
        if (!t)
            return err_set(e, "%s/%s has no tensor %s, though " INDEX " says that it is there", dir, in, name);
        add(s, slot_of(s, t->name, t->hash), t->name, t->hash, file, t);
    }
    return true;
}

/* Opens the files that the index of the folder names, and lists their tensors. */
static bool follow_index(struct shards *s, const char *dir, struct err *e)
{
    struct buf path = {0}, text = {0};
    json_t *root = NULL;
    json_error_t je;
    bool ok = false;
    buf_addf(&path, "%s/" INDEX, dir);
    if (!file_read(&text, buf_str(&path), MAX_INDEX, e))
        goto out;
    root = json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, &je);
    const json_t *map = json_object_get(root, "weight_map");
    if (!root)
        err_set(e, "%s: not valid JSON: %s (line %d)", buf_str(&path), je.text, je.line);
    else if (!json_is_object(map) || !json_object_size(map))
        err_set(e, "%s: weight_map is missing or empty, expected tensor names and their files", buf_str(&path));
    else
        ok = place(s, dir, map, e);
out:
    json_decref(root);
    buf_free(&text);
    buf_free(&path);
    return ok;
}

/* ---- without */

enum copies { FIRST_WINS, LAST_WINS };

/* Lists the tensors of a file; `which` decides about a name that another file has, too. */
static void add_file(struct shards *s, int file, enum copies which)
{
    const struct safetensors *f = &s->files[file];
    reserve(s, f->n_tensors);
    for (int i = 0; i < f->n_tensors; i++) {
        const struct tensor *t = &f->tensors[i];
        int *slot = slot_of(s, t->name, t->hash);
        if (!*slot)
            add(s, slot, t->name, t->hash, file, t);
        else if (which == LAST_WINS)
            s->list[*slot - 1] = (struct shard_tensor){.name = t->name, .hash = t->hash, .file = file, .t = t};
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the names of DIR that match model-*.safetensors, sorted; the caller frees them. */
static char **list_shards(const char *dir, int *n, struct err *e)
{
    char **names = NULL;
    *n = 0;
    DIR *d = opendir(dir);
    if (!d) {
        err_set(e, "cannot open %s: %s", dir, strerror(errno));
        return NULL;
    }
    for (struct dirent *ent; (ent = readdir(d));) {
        if (strncmp(ent->d_name, "model-", 6) || !plain_name(ent->d_name))
            continue;
        names = memory_resized(names, (size_t)(*n + 1) * sizeof *names);
        names[*n] = memory_strdup(ent->d_name);
        ++*n;
    }
    closedir(d);
    if (!*n)
        err_set(e, "%s holds neither " INDEX " nor model.safetensors nor model-*.safetensors", dir);
    else
        qsort(names, (size_t)*n, sizeof *names, by_name);
    return names;
}

/* Opens all safetensors files of a folder without an index; the last copy of a name counts. */
static bool scan(struct shards *s, const char *dir, struct err *e)
{
    int n;
    char **names = list_shards(dir, &n, e);
    bool ok = n > 0;
    for (int i = 0; i < n && ok; i++) {
        ok = open_file(s, dir, names[i], e);
        if (ok)
            add_file(s, i, LAST_WINS);
    }
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return ok;
}

static bool open_single(struct shards *s, const char *dir, struct err *e)
{
    if (!open_file(s, dir, "model.safetensors", e))
        return false;
    add_file(s, 0, LAST_WINS);
    return true;
}

static bool open_extra(struct shards *s, const char *dir, struct err *e)
{
    int i = file_index(s, dir, EXTRA, 0, e);
    if (i < 0)
        return false;
    add_file(s, i, FIRST_WINS);
    return true;
}

bool shards_open(struct shards *s, const char *dir, struct err *e)
{
    *s = (struct shards){0};
    if (!(exists(dir, INDEX) ? follow_index(s, dir, e) : exists(dir, "model.safetensors") ? open_single(s, dir, e) : scan(s, dir, e)))
        return false;
    if (exists(dir, EXTRA) && !open_extra(s, dir, e))
        return false;
    s->n_stale = -s->n;
    for (int i = 0; i < s->n_files; i++)
        s->n_stale += s->files[i].n_tensors;
    return true;
}

void shards_drop_names(struct shards *s)
{
    free(s->list);
    free(s->slots);
    s->list = NULL;
    s->slots = NULL;
    s->n = s->cap = 0;
    s->n_slots = 0;
    for (int i = 0; i < s->n_files; i++)
        safetensors_drop_header(&s->files[i]);
}

void shards_close(struct shards *s)
{
    shards_drop_names(s);
    for (int i = 0; i < s->n_files; i++)
        safetensors_close(&s->files[i]);
    free(s->files);
    *s = (struct shards){0};
}

/* ---- fingerprint ---- */

enum { SAMPLES = 16, SAMPLE = 4096 };   /* of a shard; bytes of one */

static int is_part(const struct dirent *f)
{
    const char *dot = strrchr(f->d_name, '.');
    return !strcmp(f->d_name, "config.json") || !strcmp(f->d_name, "model.safetensors.index.json") || (dot && !strcmp(dot, ".safetensors"));
}

/* Adds samples of a file at equal distances, its beginning first; a file that is smaller than the samples together is added as a whole. */
static void add_samples(struct fingerprinter *f, int fd, size_t size)
{
    char sample[SAMPLE];
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t at = size <= SAMPLES * SAMPLE ? i * SAMPLE : (size - SAMPLE) / (SAMPLES - 1) * i;
        ssize_t n = at < size ? pread(fd, sample, sizeof sample, (off_t)at) : 0;
        if (n > 0)
            fingerprint_add(f, sample, (size_t)n);
    }
}

/* Adds name, size and samples of a file to the fingerprint; a file that cannot be read adds nothing. */
static void sample_file(struct fingerprinter *f, const char *dir, const char *name)
{
    struct buf path = {0};
    struct stat st;
    buf_addf(&path, "%s/%s", dir, name);
    int fd = open(path.data, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode)) {
        const uint64_t size = (uint64_t)st.st_size;
        fingerprint_add(f, name, strlen(name) + 1);
        fingerprint_add(f, &size, sizeof size);
        add_samples(f, fd, (size_t)size);
    }
    if (fd >= 0)
        close(fd);
    buf_free(&path);
}

void shards_add_fingerprint(struct fingerprinter *f, const char *dir)
{
    struct dirent **files;
    int n = scandir(dir, &files, is_part, alphasort);
    for (int i = 0; i < n; i++) {
        sample_file(f, dir, files[i]->d_name);
        free(files[i]);
    }
    if (n >= 0)
        free(files);
}
