/* A synthetic model as files: names, shapes and faults of the published checkpoints. */
#include "model/synthetic.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "kernels/cpu/vec.h"
#include "model/random.h"
#include "model/safetensors.h"

#define PREFIX "model.language_model."
enum { N_SHARDS = 14, EXTRA = N_SHARDS, N_FILES, MAX_THREADS = 64, MAX_FILE_NAME = 48 };
enum { JOB = 8 << 20, ALIGN = 4096, N_STALE_EXPERTS = 8 };

/* Vectors are small: their bytes are made when they are listed. */
struct item {
    char       *name;
    enum dtype  dtype;
    int         n_dims;
    uint64_t    shape[3];
    uint64_t    bytes, at;              /* `at` counts from the end of the header */
    int         file;
    bool        stale;
    struct fill fill;
    uint8_t    *made;                   /* NULL: by `fill` */
};

struct file {
    int         fd;
    char        name[MAX_FILE_NAME];
    struct buf  head;                   /* all before the data */
    uint64_t    bytes;                  /* of data */
    struct item **items;                /* by `at` */
    int         n_items;
};

struct writer {
    const struct model_config *c;
    const char  *dir;
    struct item *items;
    int          n_items, cap;
    struct file  files[N_FILES];
    uint64_t     seed;
    bool         in_extra;
    /* shared by the threads */
    atomic_ullong next;                 /* job: a piece of JOB bytes, counted through all files */
    atomic_int    fault;                /* errno of the first failure */
};

/* ---- which tensors there are */

static struct item *add(struct writer *w, enum dtype type, const char *name, int n_dims, int a, int b, int c)
{
    if (w->n_items == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 4096;
        w->items = realloc(w->items, (size_t)w->cap * sizeof *w->items);
        CHECK(w->items);
    }
    struct item *t = &w->items[w->n_items++];
    *t = (struct item){.name = strdup(name), .dtype = type, .n_dims = n_dims, .shape = {(uint64_t)a, (uint64_t)b, (uint64_t)c},
                       .bytes = dtype_bytes(type), .file = w->in_extra ? EXTRA : 0};
    CHECK(t->name);
    for (int i = 0; i < n_dims; i++)
        t->bytes *= t->shape[i];
    t->fill.key = random_key(w->seed, (uint64_t)w->n_items);
    return t;
}

static void add_filled(struct writer *w, const char *name, enum dtype type, int rows, int cols, enum fill_kind kind, float centre, float width)
{
    struct item *t = add(w, type, name, 2, rows, cols, 1);
    t->fill.kind = kind;
    t->fill.centre = centre;
    t->fill.width = width;
}

static void add_int4(struct writer *w, const char *stem, int rows, int cols, float rms)
{
    char name[256];
    snprintf(name, sizeof name, "%s.qweight", stem);
    add_filled(w, name, DT_I32, cols / 8, rows, FILL_BITS, 0, 0);
    snprintf(name, sizeof name, "%s.qzeros", stem);
    struct item *zeros = add(w, DT_I32, name, 2, cols / 128, rows / 8, 1);
    zeros->fill = (struct fill){.kind = FILL_SAME, .key = 0x7777777777777777};
    snprintf(name, sizeof name, "%s.scales", stem);
    add_filled(w, name, DT_F16, cols / 128, rows, FILL_F16, rms / FILL_INT4_RMS, rms / FILL_INT4_RMS / 4);
}

static void add_fp8(struct writer *w, const char *stem, int rows, int cols, float rms)
{
    char name[256];
    snprintf(name, sizeof name, "%s.weight", stem);
    add_filled(w, name, DT_F8_E4M3, rows, cols, FILL_FP8, 0, 0);
    snprintf(name, sizeof name, "%s.weight_scale_inv", stem);
    add_filled(w, name, DT_BF16, (rows + 127) / 128, (cols + 127) / 128, FILL_BF16, rms / FILL_FP8_RMS, rms / FILL_FP8_RMS / 4);
}

static void add_dense(struct writer *w, const char *stem, int rows, int cols, float rms)
{
    char name[256];
    snprintf(name, sizeof name, "%s.weight", stem);
    add_filled(w, name, DT_BF16, rows, cols, FILL_BF16, 0, rms * RANDOM_WIDTH);
}

__attribute__((format(printf, 5, 6)))
static void add_matrix(struct writer *w, enum weight_format f, int rows, int cols, const char *stem, ...)
{
    char name[200];
    va_list ap;
    va_start(ap, stem);
    vsnprintf(name, sizeof name, stem, ap);
    va_end(ap);
    float rms = 1 / sqrtf((float)cols);
    if (f == WEIGHT_INT4 && rows % 8 == 0)
        add_int4(w, name, rows, cols, rms);
    else if (f == WEIGHT_FP8)
        add_fp8(w, name, rows, cols, rms);
    else
        add_dense(w, name, rows, cols, rms);
}

static void add_vector(struct writer *w, enum dtype type, enum random_vector kind, int n_dims, int a, int b, int c, const char *prefix, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    struct item *t = add(w, type, full, n_dims, a, b, c);
    size_t n = t->bytes / dtype_bytes(type);
    float *x = malloc(n * sizeof *x);
    CHECK(x && (t->made = malloc(t->bytes)));
    random_floats(x, kind, n, t->fill.key);
    for (size_t i = 0; i < n; i++)
        if (type == DT_F32)
            ((float *)t->made)[i] = x[i];
        else
            ((uint16_t *)t->made)[i] = f32_bf16(x[i]);
    free(x);
}

static void add_norm(struct writer *w, const char *prefix, const char *name, int n)
{
    add_vector(w, DT_BF16, RANDOM_NORM, 1, n, 1, 1, prefix, name);
}

static void add_expert(struct writer *w, enum weight_format f, const char *stem, int inter)
{
    add_matrix(w, f, inter, w->c->hidden, "%sgate_proj", stem);
    add_matrix(w, f, inter, w->c->hidden, "%sup_proj", stem);
    add_matrix(w, f, w->c->hidden, inter, "%sdown_proj", stem);
}

static void add_moe(struct writer *w, const char *prefix, enum weight_format routed, enum weight_format shared, int n_experts)
{
    const struct model_config *c = w->c;
    char stem[128];
    snprintf(stem, sizeof stem, "%smlp.gate", prefix);
    add_dense(w, stem, c->n_experts, c->hidden, RANDOM_ROUTER / sqrtf((float)c->hidden));
    add_matrix(w, WEIGHT_DENSE, 1, c->hidden, "%smlp.shared_expert_gate", prefix);
    snprintf(stem, sizeof stem, "%smlp.shared_expert.", prefix);
    add_expert(w, shared, stem, c->shared_inter);
    for (int i = 0; i < n_experts; i++) {
        snprintf(stem, sizeof stem, "%smlp.experts.%d.", prefix, i);
        add_expert(w, routed, stem, c->moe_inter);
    }
}

static void add_layer(struct writer *w, const char *prefix, bool full, enum weight_format f, enum weight_format shared, int n_experts)
{
    const struct model_config *c = w->c;
    int H = c->hidden, query = c->n_q_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim, value = config_lin_value_dim(c);
    add_norm(w, prefix, "input_layernorm.weight", H);
    add_norm(w, prefix, "post_attention_layernorm.weight", H);
    if (full) {
        add_matrix(w, f, 2 * query, H, "%sself_attn.q_proj", prefix);
        add_matrix(w, f, kv, H, "%sself_attn.k_proj", prefix);
        add_matrix(w, f, kv, H, "%sself_attn.v_proj", prefix);
        add_matrix(w, f, H, query, "%sself_attn.o_proj", prefix);
        add_norm(w, prefix, "self_attn.q_norm.weight", c->head_dim);
        add_norm(w, prefix, "self_attn.k_norm.weight", c->head_dim);
    } else {
        add_matrix(w, f, config_conv_dim(c), H, "%slinear_attn.in_proj_qkv", prefix);
        add_matrix(w, f, value, H, "%slinear_attn.in_proj_z", prefix);
        add_matrix(w, f, c->lin_v_heads, H, "%slinear_attn.in_proj_a", prefix);
        add_matrix(w, f, c->lin_v_heads, H, "%slinear_attn.in_proj_b", prefix);
        add_matrix(w, f, H, value, "%slinear_attn.out_proj", prefix);
        add_vector(w, DT_BF16, RANDOM_CONV, 3, config_conv_dim(c), 1, c->conv_kernel, prefix, "linear_attn.conv1d.weight");
        add_vector(w, DT_F32, RANDOM_A_LOG, 1, c->lin_v_heads, 1, 1, prefix, "linear_attn.A_log");
        add_vector(w, DT_BF16, RANDOM_DT_BIAS, 1, c->lin_v_heads, 1, 1, prefix, "linear_attn.dt_bias");
        add_vector(w, DT_F32, RANDOM_GATED_NORM, 1, c->lin_v_dim, 1, 1, prefix, "linear_attn.norm.weight");
    }
    add_moe(w, prefix, f, shared, n_experts);
}

/* Each tensor goes to the shard in whose share of the bytes its middle lies. */
static void place(struct writer *w, int first, int end)
{
    uint64_t total = 0, at = 0;
    for (int i = first; i < end; i++)
        total += w->items[i].bytes;
    for (int i = first; i < end; at += w->items[i++].bytes)
        w->items[i].file = (int)((at + w->items[i].bytes / 2) * N_SHARDS / total);
}

/* An old copy of a layer in the shard before, as the tools leave it behind: shared expert not yet FP8, numbers that would do harm. */
static void add_stale(struct writer *w, int layer, int file)
{
    char prefix[64];
    int first = w->n_items;
    snprintf(prefix, sizeof prefix, PREFIX "layers.%d.", layer);
    add_layer(w, prefix, w->c->full[layer], WEIGHT_INT4, WEIGHT_DENSE, N_STALE_EXPERTS < w->c->n_experts ? N_STALE_EXPERTS : w->c->n_experts);
    for (struct item *t = &w->items[first]; t < &w->items[w->n_items]; t++) {
        free(t->made);
        t->made = NULL;
        t->fill = (struct fill){.kind = FILL_SAME};
        t->file = file;
        t->stale = true;
    }
}

static void list(struct writer *w)
{
    const struct model_config *c = w->c;
    char prefix[64];
    int layer_at[MODEL_MAX_LAYERS];
    add_matrix(w, WEIGHT_DENSE, 576, 1152, "model.visual.pos_embed");
    add_norm(w, "model.visual.", "blocks.0.norm1.weight", 1152);
    add_norm(w, "model.visual.", "merger.norm.weight", 1152);
    add_filled(w, PREFIX "embed_tokens.weight", DT_BF16, c->vocab, c->hidden, FILL_BF16, 0, RANDOM_WIDTH);
    for (int i = 0; i < c->n_layers; i++) {
        layer_at[i] = w->n_items;
        snprintf(prefix, sizeof prefix, PREFIX "layers.%d.", i);
        add_layer(w, prefix, c->full[i], WEIGHT_INT4, WEIGHT_FP8, c->n_experts);
    }
    add_norm(w, PREFIX, "norm.weight", c->hidden);
    add_dense(w, "lm_head", c->vocab, c->hidden, RANDOM_HEAD / sqrtf((float)c->hidden));
    place(w, 0, w->n_items);
    for (int i = c->n_layers / 2; i < c->n_layers && i <= c->n_layers / 2 + 1; i++) {
        int file = w->items[layer_at[i]].file;
        if (file > 0)
            add_stale(w, i, file - 1);
    }
    w->in_extra = true;
    add_matrix(w, WEIGHT_DENSE, c->hidden, 2 * c->hidden, "mtp.fc");
    add_norm(w, "mtp.", "pre_fc_norm_embedding.weight", c->hidden);
    add_norm(w, "mtp.", "pre_fc_norm_hidden.weight", c->hidden);
    add_norm(w, "mtp.", "norm.weight", c->hidden);
    add_layer(w, "mtp.layers.0.", true, WEIGHT_DENSE, WEIGHT_DENSE, c->n_experts);
}

/* ---- files */

static bool fault(struct writer *w, const char *name, struct err *e)
{
    return err_set(e, "cannot write %s/%s: %s", w->dir, name, strerror(errno));
}

static bool write_text(struct writer *w, const char *name, const struct buf *text, struct err *e)
{
    struct buf path = {0};
    buf_addf(&path, "%s/%s", w->dir, name);
    FILE *f = fopen(buf_str(&path), "wb");
    buf_free(&path);
    if (!f)
        return fault(w, name, e);
    bool ok = fwrite(buf_str(text), 1, text->len, f) == text->len;
    return (!fclose(f) && ok) || fault(w, name, e);
}

static void add_header(struct buf *out, const struct item *t, bool comma)
{
    buf_addf(out, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", comma ? "," : "", t->name, dtype_name(t->dtype));
    for (int i = 0; i < t->n_dims; i++)
        buf_addf(out, "%s%llu", i ? "," : "", (unsigned long long)t->shape[i]);
    buf_addf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)t->at, (unsigned long long)(t->at + t->bytes));
}

/* Lays the tensors of one file out and opens it: past the page cache, where the file system can. */
static bool start_file(struct writer *w, int i, struct err *e)
{
    struct file *f = &w->files[i];
    struct buf path = {0};
    uint64_t n = 0;
    buf_add(&f->head, &n, sizeof n);
    buf_addc(&f->head, '{');
    for (int k = 0; k < w->n_items; k++) {
        struct item *t = &w->items[k];
        if (t->file != i)
            continue;
        t->at = f->bytes;
        f->bytes += t->bytes;
        add_header(&f->head, t, f->n_items > 0);
        f->items[f->n_items++] = t;
    }
    buf_addc(&f->head, '}');
    while (f->head.len % 8)
        buf_addc(&f->head, ' ');
    n = f->head.len - sizeof n;
    memcpy(f->head.data, &n, sizeof n);
    buf_addf(&path, "%s/%s", w->dir, f->name);
    f->fd = open(buf_str(&path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0644);
    if (f->fd < 0 && errno == EINVAL)
        f->fd = open(buf_str(&path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    buf_free(&path);
    return f->fd >= 0 || fault(w, f->name, e);
}

static bool write_index(struct writer *w, struct err *e)
{
    struct buf out = {0};
    const char *comma = "";
    uint64_t total = 0;
    for (int i = 0; i < w->n_items; i++)
        total += w->items[i].stale ? 0 : w->items[i].bytes;
    buf_addf(&out, "{\"metadata\":{\"total_size\":%llu},\"weight_map\":{\n", (unsigned long long)total);
    for (int i = 0; i < w->n_items; i++)
        if (!w->items[i].stale) {
            buf_addf(&out, "%s\"%s\":\"%s\"", comma, w->items[i].name, w->files[w->items[i].file].name);
            comma = ",\n";
        }
    buf_adds(&out, "\n}}\n");
    bool ok = write_text(w, "model.safetensors.index.json", &out, e);
    buf_free(&out);
    return ok;
}

/* ---- bytes */

/* Bytes [at, at + n) of a tensor. */
static void make_bytes(const struct item *t, uint64_t at, uint64_t n, uint8_t *dst)
{
    if (t->made) {
        memcpy(dst, t->made + at, n);
        return;
    }
    struct fill f = t->fill;
    while (n) {
        uint64_t word = fill_word(&f, at / 8), skip = at % 8, k = 8 - skip < n ? 8 - skip : n;
        memcpy(dst, (const uint8_t *)&word + skip, k);
        at += k;
        dst += k;
        n -= k;
        for (; n >= 8; n -= 8, at += 8, dst += 8) {     /* now on a multiple of 8 */
            word = fill_word(&f, at / 8);
            memcpy(dst, &word, 8);
        }
    }
}

static void make_range(const struct file *f, uint64_t begin, uint64_t end, uint8_t *dst)
{
    int low = 0, high = f->n_items - 1;
    while (low < high) {                /* the first tensor that ends behind `begin` */
        int mid = (low + high) / 2;
        if (f->items[mid]->at + f->items[mid]->bytes > begin)
            high = mid;
        else
            low = mid + 1;
    }
    for (uint64_t at = begin; at < end; low++) {
        const struct item *t = f->items[low];
        uint64_t stop = t->at + t->bytes < end ? t->at + t->bytes : end;
        make_bytes(t, at - t->at, stop - at, dst + (at - begin));
        at = stop;
    }
}

static uint64_t file_bytes(const struct file *f) { return f->head.len + f->bytes; }
static uint64_t n_jobs(const struct file *f)     { return (file_bytes(f) + JOB - 1) / JOB; }

/* Bytes [begin, end) of the file, then zeros up to a multiple of ALIGN, which the file loses again when it is closed. */
static bool write_job(const struct file *f, uint64_t begin, uint64_t end, uint8_t *buf)
{
    uint64_t head = f->head.len, length = (end - begin + ALIGN - 1) / ALIGN * ALIGN;
    if (begin < head)
        memcpy(buf, f->head.data + begin, (end < head ? end : head) - begin);
    if (end > head) {
        uint64_t from = begin > head ? begin : head;
        make_range(f, from - head, end - head, buf + (from - begin));
    }
    memset(buf + (end - begin), 0, length - (end - begin));
    for (uint64_t done = 0; done < length;) {
        ssize_t n = pwrite(f->fd, buf + done, length - done, (off_t)(begin + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : ENOSPC;
            return false;
        }
        done += (uint64_t)n;
    }
    return true;
}

static void *work(void *arg)
{
    struct writer *w = arg;
    void *buf = NULL;
    CHECK(!posix_memalign(&buf, ALIGN, JOB));
    while (!atomic_load(&w->fault)) {
        uint64_t job = atomic_fetch_add(&w->next, 1);
        int i = 0;
        while (i < N_FILES && job >= n_jobs(&w->files[i]))
            job -= n_jobs(&w->files[i++]);
        if (i == N_FILES)
            break;
        uint64_t begin = job * JOB, end = begin + JOB < file_bytes(&w->files[i]) ? begin + JOB : file_bytes(&w->files[i]);
        if (!write_job(&w->files[i], begin, end, buf))
            atomic_store(&w->fault, errno);
    }
    free(buf);
    return NULL;
}

static bool write_data(struct writer *w, int n_threads, struct err *e)
{
    pthread_t threads[MAX_THREADS];
    int n = 0, usable = (int)sysconf(_SC_NPROCESSORS_ONLN);
    n_threads = n_threads > 0 ? n_threads : usable > 4 ? usable : 4;
    n_threads = n_threads < MAX_THREADS ? n_threads : MAX_THREADS;
    while (n < n_threads && !pthread_create(&threads[n], NULL, work, w))
        n++;
    if (!n)
        work(w);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    errno = atomic_load(&w->fault);
    return !errno || err_set(e, "cannot write the tensors to %s: %s", w->dir, strerror(errno));
}

/* What is written reaches the disk and leaves the page cache, so that whoever reads it next reads the disk. */
static bool close_files(struct writer *w, struct err *e)
{
    bool ok = true;
    for (int i = 0; i < N_FILES; i++) {
        struct file *f = &w->files[i];
        if (f->fd >= 0 && (ftruncate(f->fd, (off_t)file_bytes(f)) || fsync(f->fd)) && ok)
            ok = fault(w, f->name, e);
        if (f->fd >= 0) {
            posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
            close(f->fd);
        }
        free(f->items);
    }
    return ok;
}

static bool write_configs(struct writer *w, const struct buf *config, struct err *e)
{
    struct buf generation = {0};
    buf_adds(&generation, "{\"do_sample\": true, \"eos_token_id\": [248046, 248044], \"pad_token_id\": 248044, \"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.95}\n");
    bool ok = write_text(w, "config.json", config, e) && write_text(w, "generation_config.json", &generation, e);
    buf_free(&generation);
    return ok;
}

bool synthetic_write(const char *name, int n_layers, const char *dir, uint64_t seed, int n_threads, size_t *bytes, struct err *e)
{
    struct model_config c;
    struct writer w = {.c = &c, .dir = dir, .seed = random_key(seed, 0)};
    struct buf config = {0};
    bool ok = synthetic_config_json(&config, name, n_layers, e) && config_parse(&c, buf_str(&config), config.len, name, e);
    for (int i = 0; i < N_FILES; i++)
        w.files[i].fd = -1;
    if (ok && mkdir(dir, 0755) && errno != EEXIST)
        ok = err_set(e, "cannot make %s: %s", dir, strerror(errno));
    if (ok)
        list(&w);
    for (int i = 0; i < N_FILES && ok; i++) {
        struct file *f = &w.files[i];
        f->items = malloc(((size_t)w.n_items + 1) * sizeof(*f->items));
        CHECK(f->items);
        if (i == EXTRA)
            snprintf(f->name, sizeof f->name, "model_extra_tensors.safetensors");
        else
            snprintf(f->name, sizeof f->name, "model-%05d-of-%05d.safetensors", i + 1, N_SHARDS);
        ok = start_file(&w, i, e);
    }
    ok = ok && write_configs(&w, &config, e) && write_index(&w, e) && write_data(&w, n_threads, e);
    ok = close_files(&w, e) && ok;
    if (bytes)
        *bytes = 0;
    for (int i = 0; i < N_FILES && bytes; i++)
        *bytes += file_bytes(&w.files[i]);
    for (int i = 0; i < N_FILES; i++)
        buf_free(&w.files[i].head);
    for (int i = 0; i < w.n_items; i++) {
        free(w.items[i].name);
        free(w.items[i].made);
    }
    free(w.items);
    buf_free(&config);
    return ok;
}
