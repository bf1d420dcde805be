#include "prepare/verify.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
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
#include "model/weights.h"
#include "prepare/hash.h"
#include "prepare/index.h"
#include "prepare/provenance.h"
#include "prepare/scan.h"

enum { MAX_INDEX = 128 << 20 };
#define AGAIN "fetch it again"

/* ---- findings */

static const char *print(struct verify_report *r, const char *fmt, va_list ap)
{
    char text[1024];
    vsnprintf(text, sizeof text, fmt, ap);
    return arena_strdup(&r->memory, text);
}

struct finding *verify_add(struct verify_report *r, bool fault, const char *kind, const char *file, const char *tensor, const char *found, ...)
{
    va_list ap;
    if ((r->n & (r->n - 1)) == 0) {     /* the capacity is the next power of two */
        r->list = memory_resized(r->list, (size_t)(r->n ? 2 * r->n : 1) * sizeof *r->list);
    }
    va_start(ap, found);
    struct finding f = {.fault = fault, .kind = kind, .found = print(r, found, ap)};
    va_end(ap);
    f.file = file ? arena_strdup(&r->memory, file) : NULL;
    f.tensor = tensor ? arena_strdup(&r->memory, tensor) : NULL;
    r->n_faults += fault;
    r->list[r->n] = f;
    return &r->list[r->n++];
}

void verify_expect(struct verify_report *r, struct finding *f, const char *expected, ...)
{
    va_list ap;
    va_start(ap, expected);
    f->expected = print(r, expected, ap);
    va_end(ap);
}

void verify_sentence(const struct finding *f, struct buf *out)
{
    buf_addf(out, "%s  ", f->fault ? "FAULT" : "note ");
    if (f->file)
        buf_addf(out, "%s: ", f->file);
    if (f->tensor)
        buf_addf(out, "tensor %s: ", f->tensor);
    buf_adds(out, f->found);
    if (f->expected)
        buf_addf(out, ", expected %s", f->expected);
    if (f->remedy)
        buf_addf(out, ": %s", f->remedy);
}

void verify_free(struct verify_report *r)
{
    free(r->list);
    arena_free(&r->memory);
    *r = (struct verify_report){0};
}

/* ---- the geometry */

struct field { const char *key; int found, known; };

/* Close to a published geometry but not equal: a number that no tensor shape shows, or config.json of another model. */
static void compare_geometry(struct verify_report *r, const char *name, const struct field *f, int n)
{
    int n_other = 0, other = 0;
    for (int i = 0; i < n; i++)
        if (f[i].found != f[i].known) {
            other = i;
            n_other++;
        }
    bool layers = n_other == 1 && !strcmp(f[other].key, "num_hidden_layers");
    if (!n_other || n_other > 3)
        return;
    for (int i = 0; i < n; i++)
        if (f[i].found != f[i].known) {
            struct finding *x = verify_add(r, !layers, "geometry", "config.json", NULL, "%s is %d", f[i].key, f[i].found);
            verify_expect(r, x, "%d as in %s", f[i].known, name);
            x->remedy = layers ? NULL : "take config.json from where the shards come from";
        }
}

static void check_geometry(struct verify_report *r, const struct model_config *c)
{
    if (strcmp(c->name, "custom"))
        return;
    int interval = c->n_full ? c->n_layers / c->n_full : 0;
#define MODEL(name, h, l, every, q, kv, hd, lk, lv, ld, e, k, i, si, v)                                                         \
    compare_geometry(r, name, (const struct field[]){                                                                           \
        {"hidden_size", c->hidden, h}, {"num_hidden_layers", c->n_layers, l}, {"the interval of full attention", interval, every}, \
        {"num_attention_heads", c->n_q_heads, q}, {"num_key_value_heads", c->n_kv_heads, kv}, {"head_dim", c->head_dim, hd},     \
        {"linear_num_key_heads", c->lin_k_heads, lk}, {"linear_num_value_heads", c->lin_v_heads, lv},                            \
        {"linear_key_head_dim", c->lin_k_dim, ld}, {"linear_value_head_dim", c->lin_v_dim, ld}, {"num_experts", c->n_experts, e}, \
        {"num_experts_per_tok", c->top_k, k}, {"moe_intermediate_size", c->moe_inter, i},                                        \
        {"shared_expert_intermediate_size", c->shared_inter, si}, {"vocab_size", c->vocab, v}}, 15);
#include "config/models.def"
#undef MODEL
}

/* ---- files and the index */

struct look {
    const char *dir;
    struct verify_report *r;
    json_t     *index;                  /* weight_map; NULL: none */
    char      **names;                  /* files that the index names, and the extra one */
    int         n_names;
};

static const char *path_of(struct look *k, const char *name)
{
    return arena_printf(&k->r->memory, "%s/%s", k->dir, name);
}

/* The rest of a sentence after the file's path. */
static const char *without_path(struct look *k, const char *name, const char *sentence)
{
    const char *path = path_of(k, name);
    size_t n = strlen(path);
    if (strncmp(sentence, path, n))
        return sentence;
    return sentence + n + strspn(sentence + n, ": ");
}

static bool is_named(const struct look *k, const char *name)
{
    for (int i = 0; i < k->n_names; i++)
        if (!strcmp(k->names[i], name))
            return true;
    return false;
}

static void name_file(struct look *k, const char *name)
{
    if (is_named(k, name))
        return;
    k->names = memory_resized(k->names, (size_t)(k->n_names + 1) * sizeof *k->names);
    k->names[k->n_names] = memory_strdup(name);
    k->n_names++;
}

static void read_index(struct look *k)
{
    struct buf text = {0};
    struct err e = {0};
    json_error_t je;
    if (access(path_of(k, INDEX_FILE), F_OK))
        return;
    json_t *root = file_read(&text, path_of(k, INDEX_FILE), MAX_INDEX, &e) 
                       ? json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, &je) : NULL;
    k->index = json_incref(json_object_get(root, "weight_map"));
    if (!json_object_size(k->index)) {
        struct finding *f = verify_add(k->r, FAULT, "bad-index", INDEX_FILE, NULL, "%s",
                                       *e.msg ? without_path(k, INDEX_FILE, e.msg) : root ? "weight_map is missing or empty" : je.text);
        verify_expect(k->r, f, "the names of tensors and of their files");
        f->remedy = AGAIN;
        json_decref(k->index);
        k->index = NULL;
    }
    json_decref(root);
    buf_free(&text);
    const char *name;
    json_t *file;
    json_object_foreach(k->index, name, file)
        if (json_is_string(file))
            name_file(k, json_string_value(file));
}

/* 8 bytes of length, the header, then data up to the end of the last tensor. */
static void check_header(struct look *k, const char *name)
{
    struct safetensors s;
    struct err e = {0};
    struct stat st;
    const char *path = path_of(k, name);
    struct finding *f = NULL;
    uint64_t end = 0;
    if (stat(path, &st)) {
        f = verify_add(k->r, FAULT, "missing-file", name, NULL, "%s", errno == ENOENT ? "it is not there" : strerror(errno));
        verify_expect(k->r, f, "a file, since the index names it");
        f->remedy = AGAIN;
        return;
    }
    if (!safetensors_open(&s, path, &e)) {
        bool cut = strstr(e.msg, "but the file holds") || strstr(e.msg, "bytes, expected at most") || strstr(e.msg, "expected a safetensors file of");
        f = verify_add(k->r, FAULT, cut ? "truncated" : "bad-header", name, NULL, "%s%s", cut ? "it is cut short: " : "",
                       without_path(k, name, e.msg));
        f->remedy = AGAIN;
    } else {
        for (int i = 0; i < s.n_tensors; i++)
            end = s.tensors[i].offset + s.tensors[i].bytes > end ? s.tensors[i].offset + s.tensors[i].bytes : end;
        if (s.n_tensors && end != s.size) {
            f = verify_add(k->r, FAULT, "overlong", name, NULL, "%llu bytes behind the last tensor", (unsigned long long)(s.size - end));
            verify_expect(k->r, f, "none");
            f->remedy = AGAIN;
        }
        k->r->n_files++;
        k->r->n_tensors += s.n_tensors;
    }
    safetensors_close(&s);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

/* Shards without an entry, and remains of interrupted commands. */
static void check_strays(struct look *k)
{
    struct dirent **list;
    int n = scandir(k->dir, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        if (k->index && ends_with(name, ".safetensors") && *name != '.' && !is_named(k, name) && strcmp(name, EXTRA_FILE))
            verify_add(k->r, NOTE, "unlisted-file", name, NULL, "the index does not name it: it is never read");
        if (*name == '.' && strstr(name, ".safetensors"))
            verify_add(k->r, NOTE, "rest", name, NULL, "left over from an interrupted command: it can be removed");
        free(list[i]);
    }
    if (n >= 0)
        free(list);
}

static void check_files(struct look *k)
{
    read_index(k);
    if (k->index && !access(path_of(k, EXTRA_FILE), F_OK))
        name_file(k, EXTRA_FILE);
    check_strays(k);
    if (!k->index && !access(path_of(k, "model.safetensors"), F_OK))
        name_file(k, "model.safetensors");
    for (int i = 0; i < k->n_names; i++)
        check_header(k, k->names[i]);
}

/* Tensors of the index that are missing in their file; tensors of files that are missing in the index. */
static void check_names(struct look *k)
{
    struct verify_report *r = k->r;
    int n_lost = 0, n_mtp = 0;
    const char *lost = NULL, *name;
    json_t *file;
    for (int i = 0; i < k->n_names && k->index; i++) {
        struct safetensors s;
        bool ok = safetensors_open(&s, path_of(k, k->names[i]), NULL);
        json_object_foreach(k->index, name, file)
            if (ok && json_is_string(file) && !strcmp(json_string_value(file), k->names[i]) && !safetensors_find(&s, name)) {
                struct finding *f = verify_add(r, FAULT, "missing-tensor", k->names[i], name, "it is not in this file");
                verify_expect(r, f, "the tensor, since the index says so");
                f->remedy = AGAIN;
            }
        for (int t = 0; t < s.n_tensors && ok; t++) {
            if (json_object_get(k->index, s.tensors[t].name))
                continue;
            bool mtp = !strncmp(s.tensors[t].name, "mtp.", 4);
            n_mtp += mtp && !strcmp(k->names[i], EXTRA_FILE);
            if (!mtp && !n_lost++)
                lost = arena_strdup(&r->memory, s.tensors[t].name);
        }
        safetensors_close(&s);
    }
    if (n_mtp) {
        struct finding *f = verify_add(r, NOTE, "index-without-mtp", INDEX_FILE, NULL, "it does not name %d tensors of the MTP block in " EXTRA_FILE
                                       ", which q35chat still finds", n_mtp);
        f->remedy = "q35chat model add-mtp DIR lists them for other programs";
    }
    if (n_lost)
        verify_add(r, NOTE, "unlisted-tensor", INDEX_FILE, lost, "it is in a shard but not in the index (%d such tensors)", n_lost);
}

/* ---- tensors against the model */

static void add_weights_fault(void *arg, enum weights_fault fault, const char *file, const char *tensor, const char *text)
{
    static const char *const kinds[] = {"missing-tensor", "unexpected-tensor", "wrong-tensor"};
    struct verify_report *r = arg;
    struct finding *f = verify_add(r, FAULT, kinds[fault], file, tensor, "%s", text);
    f->remedy = fault == WEIGHTS_MISSING ? "fetch the file that has it, or another index" : "take config.json and shards from one checkpoint";
}

static void check_mtp(struct verify_report *r, const struct model_config *c, const struct weights *w)
{
    if (!c->n_mtp || w->mtp.present)
        return;
    struct finding *f = verify_add(r, FAULT, "no-mtp", NULL, NULL, "there is no tensor of the MTP block (mtp....), so no tokens are drafted");
    verify_expect(r, f, "the block, since config.json has mtp_num_hidden_layers 1");
    f->remedy = "q35chat model add-mtp DIR --from the INT4 checkpoint";
}

static void count_stale(struct verify_report *r, const struct shards *s)
{
    uint64_t bytes = 0;
    int n = 0;
    bool shared = false;
    for (int k = 0; k < s->n_files; k++)
        for (int i = 0; i < s->files[k].n_tensors; i++) {
            const struct tensor *t = &s->files[k].tensors[i];
            const struct shard_tensor *counts = shards_find(s, t->name);
            if (!counts || counts->t == t)
                continue;
            n++;
            bytes += t->bytes;
            shared |= counts->t->dtype == DT_F8_E4M3;
        }
    if (n)
        verify_add(r, NOTE, "stale-copies", NULL, NULL, "%d copies of tensors, %.2f MB, are unused, since the index names other files for them%s", n,
                   (double)bytes * 1e-6, shared ? "; vLLM, which reads whole shards, wants build-hybrid --compact" : "");
}

static void count_formats(struct verify_report *r, const struct model_config *c, const struct weights *w)
{
    int n[WEIGHT_INT8 + 1] = {0}, odd = 0;
    for (int i = 0; i < c->n_layers; i++)
        n[w->layers[i].moe.shared.gate.format]++;
    for (int i = 0; i < c->n_layers && n[WEIGHT_FP8]; i++)
        if (w->layers[i].moe.shared.gate.format == WEIGHT_DENSE && !odd++)
            verify_add(r, NOTE, "mixed-formats", NULL, NULL, "the shared expert of layer %d is in 16 bits, those of %d other layers are FP8: this "
                                                             "hybrid is not whole",
                       i, n[WEIGHT_FP8]);
}

/* ---- recorded hashes */

struct recorded {
    struct hash_job *jobs;
    const char     **expected, **names, **tensors;
    int              n;
};

static void add_job(struct recorded *h, struct hash_job job, const char *name, const char *tensor, const char *expected)
{
    size_t n = (size_t)h->n + 1;
    h->jobs = memory_resized(h->jobs, n * sizeof *h->jobs);
    h->expected = memory_resized(h->expected, n * sizeof *h->expected);
    h->names = memory_resized(h->names, n * sizeof *h->names);
    h->tensors = memory_resized(h->tensors, n * sizeof *h->tensors);
    h->jobs[h->n] = job;
    h->names[h->n] = name;
    h->tensors[h->n] = tensor;
    h->expected[h->n++] = expected;
}

static void free_jobs(struct recorded *h)
{
    free(h->jobs);
    free(h->expected);
    free(h->names);
    free(h->tensors);
}

/* Always checks sizes and the hashes of moved scales; with `full` also all moved tensors and all files. */
static void list_provenance(struct look *k, const struct shards *s, const struct provenance *p, bool full, struct recorded *h)
{
    struct verify_report *r = k->r;
    for (int i = 0; i < p->n_files; i++) {
        struct stat st;
        const struct provenance_item *x = &p->files[i];
        const char *path = path_of(k, x->name);
        bool there = !stat(path, &st);
        if (!there || (uint64_t)st.st_size != x->bytes) {
            struct finding *f = verify_add(r, FAULT, there ? "wrong-size" : "missing-file", x->name, NULL,
                                           there ? "it has %llu bytes" : "it is not there", there ? (unsigned long long)st.st_size : 0ull);
            verify_expect(r, f, "%llu bytes, as " PROVENANCE_FILE " records", (unsigned long long)x->bytes);
            f->remedy = "build the hybrid again";
        } else if (full && *x->sha256)
            add_job(h, (struct hash_job){.path = path, .bytes = UINT64_MAX}, x->name, NULL, x->sha256);
    }
    for (int i = 0; i < p->n_tensors; i++) {
        const struct provenance_item *x = &p->tensors[i];
        const struct shard_tensor *t = shards_find(s, x->name);
        if (t && *x->sha256 && (full || ends_with(x->name, "_scale_inv")))
            add_job(h, (struct hash_job){.path = shards_file(s, t)->path, .at = t->t->offset, .bytes = t->t->bytes},
                    strrchr(shards_file(s, t)->path, '/') + 1, x->name, x->sha256);
    }
}

/* The Hugging Face cache names files by their hash. */
static void list_cached(struct look *k, const struct provenance *p, const struct fetch_repo *cached, struct recorded *h)
{
    for (int i = 0; i < cached->n_files; i++) {
        const struct fetch_file *f = &cached->files[i];
        const struct provenance_item *x = provenance_find(p->files, p->n_files, f->path);
        if (x && *x->sha256)
            continue;
        if (*f->hash)
            add_job(h, (struct hash_job){.path = path_of(k, f->path), .bytes = UINT64_MAX, .git = !f->lfs}, f->path, NULL, f->hash);
        else if (is_named(k, f->path))
            k->r->n_unhashed++;
    }
}

static bool compare_hashes(struct look *k, const struct recorded *h, struct err *e)
{
    struct verify_report *r = k->r;
    if (!hash_jobs(h->jobs, h->n, NULL, e))
        return false;
    for (int i = 0; i < h->n; i++) {
        r->n_hashed += !h->tensors[i];
        if (!strcmp(h->jobs[i].hex, h->expected[i]))
            continue;
        bool scale = h->tensors[i] && ends_with(h->tensors[i], "_scale_inv");
        struct finding *f = verify_add(r, FAULT, !h->tensors[i] ? "corrupt-file" : scale ? "changed-scale" : "changed-tensor", h->names[i],
                                       h->tensors[i],
                                       "%s %.16s...", h->jobs[i].git ? "git's SHA-1" : "SHA-256", h->jobs[i].hex);
        verify_expect(r, f, "%.16s... as was recorded when it was %s", h->expected[i], h->tensors[i] ? "built" : "fetched or built");
        f->remedy = h->tensors[i] ? "build the hybrid again" : "remove it and fetch or build it again";
    }
    return true;
}

static bool check_recorded(struct look *k, const struct shards *s, bool full, struct err *e)
{
    struct provenance p;
    struct recorded h = {0};
    struct fetch_repo cached = {0};
    struct err why = {0};
    bool there;
    if (!provenance_read(&p, k->dir, &there, &why) && there)
        verify_add(k->r, FAULT, "bad-provenance", PROVENANCE_FILE, NULL, "%s", without_path(k, PROVENANCE_FILE, why.msg))->remedy =
            "build the hybrid again";
    list_provenance(k, s, &p, full, &h);
    if (full && cache_list(k->dir, &cached, NULL))
        list_cached(k, &p, &cached, &h);
    bool ok = compare_hashes(k, &h, e);
    if (k->r->n_unhashed)
        verify_add(k->r, NOTE, "no-hash", NULL, NULL, "no hash is recorded for %d shards: wrong values of ordinary size in them cannot be found",
                   k->r->n_unhashed);
    free_jobs(&h);
    fetch_repo_free(&cached);
    provenance_free(&p);
    return ok;
}

/* ---- all */

/* Faults first, otherwise in the order in which they were found. */
static void sort_findings(struct verify_report *r)
{
    struct finding *out = memory_alloc((size_t)(r->n + 1) * sizeof *out);
    int n = 0;
    for (int fault = 1; fault >= 0; fault--)
        for (int i = 0; i < r->n; i++)
            if (r->list[i].fault == fault)
                out[n++] = r->list[i];
    if (r->n)
        memcpy(r->list, out, (size_t)r->n * sizeof *out);
    free(out);
}

static bool check_contents(struct look *k, const struct model_config *c, bool full, struct err *e)
{
    struct weights w = {0};
    struct shards s = {0};
    bool ok = weights_check(&w, c, k->dir, add_weights_fault, k->r, e);
    if (ok) {
        check_mtp(k->r, c, &w);
        count_formats(k->r, c, &w);
    }
    weights_close(&w);
    ok = ok && shards_open(&s, k->dir, e);
    if (ok) {
        count_stale(k->r, &s);
        scan_shards(&s, c, full, k->r);
        ok = check_recorded(k, &s, full, e);
    }
    shards_close(&s);
    return ok;
}

bool verify_run(const char *dir, const struct verify_options *o, struct verify_report *r, struct err *e)
{
    struct look k = {.dir = dir, .r = r};
    struct model_config c;
    struct err why = {0};
    struct stat st;
    *r = (struct verify_report){0};
    if (stat(dir, &st) || !S_ISDIR(st.st_mode))
        return err_set(e, "%s is not the directory of a checkpoint", dir);
    bool configured = config_load(&c, dir, &why);
    if (!configured)
        verify_add(r, FAULT, "config", "config.json", NULL, "%s", without_path(&k, "config.json", why.msg))->remedy = AGAIN;
    else
        check_geometry(r, &c);
    check_files(&k);
    check_names(&k);
    bool damaged = false;
    for (int i = 0; i < r->n; i++)
        damaged |= r->list[i].fault && strcmp(r->list[i].kind, "geometry") && strcmp(r->list[i].kind, "overlong");
    r->stopped = damaged;
    if (!damaged && !check_contents(&k, &c, o->full, &why)) {
        verify_add(r, FAULT, "unreadable", NULL, NULL, "%s", why.msg);
        r->stopped = true;
    }
    sort_findings(r);
    json_decref(k.index);
    for (int i = 0; i < k.n_names; i++)
        free(k.names[i]);
    free(k.names);
    return true;
}
