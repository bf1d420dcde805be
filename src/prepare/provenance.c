#include "prepare/provenance.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

enum { MAX_FILE = 16 << 20, FORMAT = 1 };

static void add_item(struct provenance_item **list, int *n, const char *name, uint64_t bytes, const char *sha256)
{
    *list = memory_resized(*list, (size_t)(*n + 1) * sizeof **list);
    struct provenance_item *p = &(*list)[(*n)++];
    *p = (struct provenance_item){.name = memory_strdup(name), .bytes = bytes};
    snprintf(p->sha256, sizeof p->sha256, "%s", sha256 ? sha256 : "");
}

void provenance_add_file(struct provenance *p, const char *name, uint64_t bytes, const char *sha256)
{
    add_item(&p->files, &p->n_files, name, bytes, sha256);
}

void provenance_add_tensor(struct provenance *p, const char *name, uint64_t bytes, const char *sha256)
{
    add_item(&p->tensors, &p->n_tensors, name, bytes, sha256);
}

static void free_items(struct provenance_item *list, int n)
{
    for (int i = 0; i < n; i++)
        free(list[i].name);
    free(list);
}

void provenance_free(struct provenance *p)
{
    free_items(p->files, p->n_files);
    free_items(p->tensors, p->n_tensors);
    free(p->program);
    free(p->layout);
    free(p->int4.repo);
    free(p->int4.commit);
    free(p->fp8.repo);
    free(p->fp8.commit);
    *p = (struct provenance){0};
}

static json_t *text_or_null(const char *s)
{
    return s && *s ? json_string(s) : json_null();
}

static json_t *origin_json(const struct provenance_origin *o)
{
    return json_pack("{s:o, s:o, s:o}", "repo", text_or_null(o->repo), "commit", text_or_null(o->commit), "fingerprint",
                     text_or_null(o->fingerprint));
}

static json_t *items_json(const struct provenance_item *list, int n)
{
    json_t *out = json_object();
    for (int i = 0; i < n; i++)
        json_object_set_new(out, list[i].name,
                            json_pack("{s:I, s:o}", "bytes", (json_int_t)list[i].bytes, "sha256", text_or_null(list[i].sha256)));
    return out;
}

void provenance_print(const struct provenance *p, struct buf *out)
{
    json_t *root = json_pack("{s:i, s:s, s:s, s:o, s:o, s:o, s:o}", "format", FORMAT, "program", p->program, "layout", p->layout,
                             "int4", origin_json(&p->int4), "fp8", origin_json(&p->fp8), "files", items_json(p->files, p->n_files),
                             "tensors", items_json(p->tensors, p->n_tensors));
    json_print(out, root, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    buf_addc(out, '\n');
    json_decref(root);
}

/* ---- reading */

static bool is_text_or_null(const json_t *v)
{
    return !v || json_is_null(v) || json_is_string(v);
}

static bool is_hash_or_null(const json_t *v)
{
    return is_text_or_null(v) && json_string_length(v) < DIGEST_HEX;
}

/* Reads where a part of the build came from: repository, commit, fingerprint. */
static bool read_origin(struct provenance_origin *o, const json_t *j)
{
    const json_t *repo = json_object_get(j, "repo"), *commit = json_object_get(j, "commit"), *fingerprint = json_object_get(j, "fingerprint");
    const char *hash = json_string_value(fingerprint);
    if (!json_is_object(j) || !is_text_or_null(repo) || !is_text_or_null(commit) || !is_hash_or_null(fingerprint))
        return false;
    o->repo = memory_strdup(json_string_value(repo));
    o->commit = memory_strdup(json_string_value(commit));
    snprintf(o->fingerprint, sizeof o->fingerprint, "%s", hash ? hash : "");
    return true;
}

/* Reads a list of names with their bytes and hashes. */
static bool read_items(struct provenance_item **list, int *n, const json_t *j)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)j, name, v) {
        const json_t *bytes = json_object_get(v, "bytes"), *hash = json_object_get(v, "sha256");
        if (!json_is_integer(bytes) || json_integer_value(bytes) < 0 || !is_hash_or_null(hash))
            return false;
        add_item(list, n, name, (uint64_t)json_integer_value(bytes), json_string_value(hash));
    }
    return json_is_object(j);
}

/* Returns the name of the first field that is missing or is not what provenance_print() writes; NULL: all is read. */
static const char *read_fields(struct provenance *p, const json_t *root)
{
    p->program = memory_strdup(json_string_value(json_object_get(root, "program")));
    p->layout = memory_strdup(json_string_value(json_object_get(root, "layout")));
    return json_integer_value(json_object_get(root, "format")) != FORMAT                ? "format"
         : !p->program                                                                  ? "program"
         : !p->layout                                                                   ? "layout"
         : !read_origin(&p->int4, json_object_get(root, "int4"))                        ? "int4"
         : !read_origin(&p->fp8, json_object_get(root, "fp8"))                          ? "fp8"
         : !read_items(&p->files, &p->n_files, json_object_get(root, "files"))          ? "files"
         : !read_items(&p->tensors, &p->n_tensors, json_object_get(root, "tensors"))    ? "tensors" : NULL;
}

bool provenance_read(struct provenance *p, const char *dir, bool *there, struct err *e)
{
    struct buf path = {0}, text = {0};
    json_error_t je;
    *p = (struct provenance){0};
    buf_addf(&path, "%s/" PROVENANCE_FILE, dir);
    *there = !access(buf_str(&path), F_OK);
    bool ok = file_read(&text, buf_str(&path), MAX_FILE, e);
    json_t *root = ok ? json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, &je) : NULL;
    const char *wrong = root ? read_fields(p, root) : NULL;
    if (ok && !root)
        ok = err_set(e, "%s: not valid JSON: %s (line %d)", buf_str(&path), je.text, je.line);
    else if (wrong)
        ok = err_set(e, "%s: %s is missing or damaged, or another version of q35chat wrote it", buf_str(&path), wrong);
    json_decref(root);
    buf_free(&text);
    buf_free(&path);
    return ok;
}

static bool same(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

static bool same_origin(const struct provenance_origin *a, const struct provenance_origin *b)
{
    return same(a->fingerprint, b->fingerprint) && same(a->repo, b->repo) && same(a->commit, b->commit);
}

bool provenance_same_sources(const struct provenance *a, const struct provenance *b)
{
    return same(a->layout, b->layout) && same_origin(&a->int4, &b->int4) && same_origin(&a->fp8, &b->fp8);
}

const struct provenance_item *provenance_find(const struct provenance_item *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    return NULL;
}
