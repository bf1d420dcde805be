#include "prepare/models.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "fetch/cache.h"
#include "model/config.h"
#include "option/paths.h"
#include "prepare/part.h"
#include "prepare/source.h"

/* --- one directory ------------------------------------------------------------------------------------------------------ */

static bool is_there(const char *dir, const char *file)
{
    struct buf path = {0};
    struct stat st;
    buf_addf(&path, "%s/%s", dir, file);
    bool there = !stat(path.data, &st) && st.st_size > 0;
    buf_free(&path);
    return there;
}

struct weights_seen {
    int n, n_there;
};

/* Counts the files in the index. */
static bool seen_by_index(const char *dir, struct weights_seen *w)
{
    struct buf path = {0};
    buf_addf(&path, "%s/model.safetensors.index.json", dir);
    json_t *j = json_load_file(path.data, 0, NULL), *map = json_object_get(j, "weight_map"), *files = json_object(), *file;
    const char *name;
    buf_free(&path);
    json_object_foreach(map, name, file)
        if (json_is_string(file))
            json_object_set(files, json_string_value(file), file);
    json_object_foreach(files, name, file) {
        w->n++;
        w->n_there += is_there(dir, name);
    }
    bool known = w->n > 0;
    json_decref(files);
    json_decref(j);
    return known;
}

/* Counts the files without an index: model.safetensors, or model-00001-of-00014.safetensors, whose name has their number. */
static void seen_by_names(const char *dir, struct weights_seen *w)
{
    DIR *d = opendir(dir);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        int i, n;
        if (!repos_is_weight(entry->d_name) || !is_there(dir, entry->d_name))
            continue;
        w->n_there++;
        if (sscanf(entry->d_name, "model-%d-of-%d.safetensors", &i, &n) == 2 && n > w->n)
            w->n = n;
    }
    if (d)
        closedir(d);
    if (w->n < w->n_there)
        w->n = w->n_there;
}

/* Finds out whether a model is complete, and what is missing. */
static void look_at_weights(struct models_item *it)
{
    struct weights_seen w = {0};
    struct buf text = {0};
    if (!seen_by_index(it->dir, &w))
        seen_by_names(it->dir, &w);
    if (!is_there(it->dir, "config.json"))
        buf_adds(&text, "config.json is missing");
    else if (!w.n_there)
        buf_adds(&text, "the weights are missing");
    else if (w.n_there < w.n)
        buf_addf(&text, "%d of %d files of weights are missing", w.n - w.n_there, w.n);
    else if (!is_there(it->dir, "tokenizer.json"))
        buf_adds(&text, "tokenizer.json is missing");
    it->complete = !text.len;
    it->missing = text.data;
}

/* Returns the bytes of all files of a folder. */
static uint64_t bytes_below(const char *dir)
{
    struct fetch_repo r = {0};
    uint64_t n = 0;
    if (cache_list(dir, &r, NULL))
        for (int i = 0; i < r.n_files; i++)
            n += r.files[i].bytes;
    fetch_repo_free(&r);
    return n;
}

/* Returns the name of the geometry; NULL if config.json is of another family. */
static struct models_item *add_model(struct models *m, enum models_place place, const char *name, const char *dir)
{
    struct model_config c;
    struct buf path = {0};
    struct stat st = {0};
    buf_addf(&path, "%s/config.json", dir);
    bool has_config = !stat(path.data, &st), known = has_config && config_load(&c, dir, NULL);
    buf_free(&path);
    if (has_config && !known)
        return NULL;
    m->items = memory_grow(m->items, m->n, &m->cap, sizeof *m->items);
    struct models_item *it = &m->items[m->n++];
    *it = (struct models_item){.name = memory_strdup(name), .dir = memory_strdup(dir), .place = place, .bytes = bytes_below(dir),
                               .changed_s = st.st_mtime};
    if (known)
        snprintf(it->geometry, sizeof it->geometry, "%s", c.name);
    look_at_weights(it);
    return it;
}

/* --- the places ----------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct models_item *)a)->name, ((const struct models_item *)b)->name);
}

static void sort(struct models *m, int first)
{
    if (m->n - first > 1)
        qsort(m->items + first, (size_t)(m->n - first), sizeof *m->items, by_name);
}

/* Adds the models in q35chat's own folder. */
static void find_ours(struct models *m)
{
    struct buf root = {0}, dir = {0};
    DIR *d = paths_models(&root) ? opendir(root.data) : NULL;
    for (struct dirent *entry; d && (entry = readdir(d));) {
        struct stat st;
        buf_reset(&dir);
        buf_addf(&dir, "%s/%s", root.data, entry->d_name);
        if (entry->d_name[0] != '.' && !stat(dir.data, &st) && S_ISDIR(st.st_mode))
            add_model(m, MODELS_OURS, entry->d_name, dir.data);
    }
    if (d)
        closedir(d);
    buf_free(&root);
    buf_free(&dir);
}

/* Returns the bytes of unfinished downloads. */
static uint64_t bytes_of_parts(const char *folder)
{
    struct buf blobs = {0};
    uint64_t n = 0;
    buf_addf(&blobs, "%s/blobs", folder);
    DIR *d = opendir(blobs.data);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        struct buf final = {0};
        size_t len = strlen(entry->d_name), suffix = strlen(part_suffix);
        if (len > suffix && !strcmp(entry->d_name + len - suffix, part_suffix)) {
            buf_addf(&final, "%s/%.*s", blobs.data, (int)(len - suffix), entry->d_name);
            n += part_left(final.data);
        }
        buf_free(&final);
    }
    if (d)
        closedir(d);
    buf_free(&blobs);
    return n;
}

/* Finds the last commit of main; without one, the newest snapshot. */
static bool find_snapshot(const char *folder, struct buf *dir)
{
    char commit[FETCH_HASH];
    struct buf root = {0};
    int64_t newest = -1;
    if (cache_commit(folder, "main", commit)) {
        cache_snapshot(dir, folder, commit);
        return true;
    }
    buf_addf(&root, "%s/snapshots", folder);
    DIR *d = opendir(root.data);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        struct buf path = {0};
        struct stat st;
        buf_addf(&path, "%s/%s", root.data, entry->d_name);
        if (entry->d_name[0] != '.' && !stat(path.data, &st) && st.st_mtime > newest) {
            newest = st.st_mtime;
            buf_reset(dir);
            buf_adds(dir, path.data);
        }
        buf_free(&path);
    }
    if (d)
        closedir(d);
    buf_free(&root);
    return newest >= 0;
}

/* Adds the models in the hub's cache; unfinished downloads count, too. */
static void find_hub(struct models *m)
{
    struct buf root = {0}, folder = {0}, name = {0}, dir = {0};
    DIR *d = cache_root(&root, NULL) ? opendir(root.data) : NULL;
    for (struct dirent *entry; d && (entry = readdir(d));) {
        if (!cache_repo_name(&name, entry->d_name))
            continue;
        buf_reset(&folder);
        buf_addf(&folder, "%s/%s", root.data, entry->d_name);
        uint64_t parts = bytes_of_parts(folder.data);
        buf_reset(&dir);
        if (!find_snapshot(folder.data, &dir))
            buf_adds(&dir, folder.data);
        struct models_item *it = parts || is_there(dir.data, "config.json") ? add_model(m, MODELS_HUB, name.data, dir.data) : NULL;
        if (it)
            it->bytes += parts;
    }
    if (d)
        closedir(d);
    buf_free(&root);
    buf_free(&folder);
    buf_free(&name);
    buf_free(&dir);
}

void models_find(struct models *m)
{
    struct buf demo = {0}, looked = {0};
    *m = (struct models){0};
    find_ours(m);
    sort(m, 0);
    int n = m->n;
    find_hub(m);
    sort(m, n);
    if (paths_demo(&demo, &looked))
        add_model(m, MODELS_DEMO, "demo", demo.data);
    buf_free(&demo);
    buf_free(&looked);
}

void models_free(struct models *m)
{
    for (int i = 0; i < m->n; i++) {
        free(m->items[i].name);
        free(m->items[i].dir);
        free(m->items[i].missing);
    }
    free(m->items);
    *m = (struct models){0};
}

/* --- which one ------------------------------------------------------------------------------------------------------------- */

int models_standard(const struct models *m)
{
    int best = -1;
    for (int i = 0; i < m->n; i++) {
        const struct models_item *it = &m->items[i], *b = best < 0 ? NULL : &m->items[best];
        if (it->complete && (!b || (it->place == b->place && it->changed_s > b->changed_s)))
            best = i;
    }
    return best;
}

bool models_fits(const struct models_item *item, struct memory_plan *plan, struct err *e)
{
    *plan = (struct memory_plan){0};
    return engine_fits(&(struct engine_options){.model_dir = item->dir, .draft_depth = -1}, plan, e);
}

static bool has_part(const struct models_item *it, const char *part)
{
    return strcasestr(it->name, part) || strcasestr(it->geometry, part);
}

/* Finds all models that a word may mean: the one of that name, otherwise those whose name contains it. */
static int candidates(const struct models *m, const char *given, bool complete, int *found)
{
    int n = 0;
    for (int pass = 0; pass < 2 && !n; pass++)
        for (int i = 0; i < m->n; i++)
            if ((m->items[i].complete || !complete) && (pass ? has_part(&m->items[i], given) : !strcasecmp(m->items[i].name, given)))
                found[n++] = i;
    return n;
}

static bool refuse_many(const struct models *m, const char *given, const int *found, int n, struct err *e)
{
    struct buf names = {0};
    for (int i = 0; i < n; i++)
        buf_addf(&names, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", m->items[found[i]].name);
    err_set(e, "%s matches %s; name one of them, or a directory", given, names.data);
    buf_free(&names);
    return false;
}

/* Reports that no complete model has the name, and how to get one.  Returns false. */
static bool refuse_none(const struct models *m, const char *given, int *found, struct err *e)
{
    if (candidates(m, given, false, found)) {
        const struct models_item *it = &m->items[found[0]];
        return err_set(e, "%s is incomplete: %s%s%s", it->name, it->missing,
                       it->place == MODELS_HUB ? "; to continue the download: q35chat model get " : "", it->place == MODELS_HUB ? it->name : "");
    }
    if (repos_is_name(given) || (strchr(given, '/') && given[0] != '/' && given[0] != '.'))
        return err_set(e, "%s is neither a directory nor a model on this machine; to download it: q35chat model get %s", given, given);
    return err_set(e, "%s is neither a directory nor a model on this machine, which `q35chat model list` lists", given);
}

bool models_resolve(const char *given, struct buf *dir, struct err *e)
{
    struct models m;
    struct stat st;
    buf_reset(dir);
    if (!*given || !stat(given, &st) || given[0] == '/' || given[0] == '.') {
        buf_adds(dir, given);
        return true;
    }
    models_find(&m);
    int *found = memory_zeroed((size_t)m.n + 1, sizeof *found), n = candidates(&m, given, true, found);
    bool ok = n == 1 || (n ? refuse_many(&m, given, found, n, e) : refuse_none(&m, given, found, e));
    if (ok)
        buf_adds(dir, m.items[found[0]].dir);
    free(found);
    models_free(&m);
    return ok;
}
