#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/clock.h"
#include "engine/load.h"
#include "model/prompt.h"
#include "prepare/files.h"
#include "prepare/hybrid.h"
#include "prepare/mtp.h"
#include "prepare/provenance.h"
#include "tests/checkpoint.h"
#include "tests/donor.h"
#include "tests/emulated.h"

#define G0 "tests/data/model/g0/"
#define L0 "model.language_model.layers.0.mlp.shared_expert."

/* A directory below /tmp, and paths in it. */
struct place { char dir[64], int4[128], fp8[128], out[128], other[128]; };

static void start(struct place *p)
{
    snprintf(p->dir, sizeof p->dir, "/tmp/q35chat-hybrid-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->int4, sizeof p->int4, "%s/int4", p->dir);
    snprintf(p->fp8, sizeof p->fp8, "%s/fp8", p->dir);
    snprintf(p->out, sizeof p->out, "%s/out", p->dir);
    snprintf(p->other, sizeof p->other, "%s/other", p->dir);
    assert_int_equal(mkdir(p->fp8, 0755), 0);
}

static void stop_hub(struct place *p)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", p->dir);
    assert_int_equal(system(command), 0);
}

/* Copies, so that a test that spoils a file spoils no golden one. */
static void copy_dir(const char *from, const char *to)
{
    DIR *d = opendir(from);
    struct err e = {0};
    assert_non_null(d);
    assert_int_equal(mkdir(to, 0755), 0);
    for (struct dirent *ent; (ent = readdir(d));) {
        char a[512], b[512];
        snprintf(a, sizeof a, "%s/%s", from, ent->d_name);
        snprintf(b, sizeof b, "%s/%s", to, ent->d_name);
        if (*ent->d_name != '.' && !place_file(a, b, true, NULL, &e))
            fail_msg("%s", e.msg);
    }
    closedir(d);
}

enum { LINKED, COMPACT, QUALITY };      /* QUALITY is added to one of the others */

static bool build_into(const char *int4, const char *fp8, const char *out, int how, struct hybrid_report *r, struct err *e)
{
    struct source s;
    source_open_dir(&s, fp8);
    const struct hybrid_options o = {.out = out, .program = "test", .compact = how & COMPACT, .quality = how & QUALITY};
    bool ok = hybrid_build(int4, &s, &o, r, e);
    source_close(&s);
    return ok;
}

static void must_build(const char *int4, const char *fp8, const char *out, int how)
{
    struct hybrid_report r;
    struct err e = {0};
    if (!build_into(int4, fp8, out, how, &r, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(r.state, HYBRID_BUILT);
    hybrid_report_free(&r);
}

/* ---- what is built */

enum { N_IDS = 48 };

static float *logits_of(const char *dir, size_t *n)
{
    struct model m;
    struct err e = {0};
    int32_t ids[N_IDS];
    if (!load_open(&m, &(struct load_options){
            .head = "bf16", .dir = dir, .backend = "cpu", .kv = "f32", .n_threads = 2,
            .n_ctx = 64, .chunk = 64, .n_snapshots = LOAD_NO_SNAPSHOTS,
        }, &e))
        fail_msg("%s", e.msg);
    assert_true(m.weights.mtp.present);
    size_t V = (size_t)m.cfg.vocab, H = (size_t)m.cfg.hidden;
    float *out = malloc((N_IDS + 1) * V * sizeof *out), *in = malloc(H * sizeof *in), *draft = malloc(H * sizeof *draft);
    assert_true(out && in && draft);
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (i * 97 + 11) % m.cfg.vocab;
    cache_reset(m.cache);
    prompt_chunk(m.forward, m.cache, ids, N_IDS, 0, true);
    memcpy(in, forward_last_hidden(m.cache), H * sizeof *in);
    prompt_mtp(m.forward, m.cache, in, &ids[3], 1, N_IDS - 1, draft);
    prompt_head(m.forward, HEAD_BF16, draft, 1, out);
    cache_reset(m.cache);
    prompt_run(m.forward, m.cache, ids, N_IDS, 0);
    prompt_head(m.forward, HEAD_BF16, forward_hidden(m.forward), N_IDS, out + V);
    *n = (N_IDS + 1) * V;
    free(in), free(draft);
    load_close(&m);
    return out;
}

static void test_hybrid__from_golden_int4_and_an_fp8_donor_it_computes_what_the_golden_hybrid_does(void **state)
{
    (void)state;
    static const char *const names[] = {"g0", "g1"};
    for (int g = 0; g < 2; g++) {
        char int4[64], hybrid[64];
        struct place p;
        size_t n, k;
        snprintf(int4, sizeof int4, "tests/data/model/%s/int4", names[g]);
        snprintf(hybrid, sizeof hybrid, "tests/data/model/%s/hybrid", names[g]);
        start(&p);
        donor_write(p.fp8, hybrid, NULL);
        float *want = logits_of(hybrid, &n), *before = logits_of(int4, &k);
        assert_int_equal(n, k);
        assert_memory_not_equal(want, before, n * sizeof *want);
        for (int compact = 0; compact < 2; compact++) {
            const char *out = compact ? p.other : p.out;
            must_build(int4, p.fp8, out, compact);
            float *found = logits_of(out, &k);
            assert_int_equal(n, k);
            assert_memory_equal(want, found, n * sizeof *want);
            free(found);
        }
        free(want), free(before);
        stop_hub(&p);
    }
}

/* ---- with attention and out projections from the FP8 release */

static float e4m3(uint8_t code)
{
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const float size = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    return code & 128 ? -size : size;
}

struct twin_source { const uint8_t *codes, *scales; uint64_t cols; };           /* scales NULL: the bytes as they are */

/* fp32 numbers for an FP8 matrix with scales in BF16 for blocks of 128 by 128. */
static bool twin_make(const struct tensor_out *t, uint64_t at, uint64_t n, uint8_t *dst, struct err *e)
{
    const struct twin_source *s = t->source;
    (void)e;
    if (!s->scales) {
        memcpy(dst, s->codes + at, n);
        return true;
    }
    for (uint64_t i = at; i < at + n; i++) {
        const uint64_t k = i / 4, row = k / s->cols, col = k % s->cols, block = row / 128 * ((s->cols + 127) / 128) + col / 128;
        const uint32_t bits = (uint32_t)s->scales[2 * block] << 16 | (uint32_t)s->scales[2 * block + 1] << 24;
        float scale, value;
        memcpy(&scale, &bits, 4);
        value = e4m3(s->codes[k]) * scale;
        dst[i - at] = ((const uint8_t *)&value)[i % 4];
    }
    return true;
}

/* Writes the checkpoint with attention and out projections in fp32, into a directory that is there. */
static void write_twin(const char *from, const char *to)
{
    struct shards s;
    struct err e = {0};
    char path[256], config[256];
    assert_true(shards_open(&s, from, &e));
    struct tensor_out *all = calloc((size_t)s.n, sizeof *all), **list = calloc((size_t)s.n, sizeof *list);
    struct twin_source *sources = calloc((size_t)s.n, sizeof *sources);
    assert_true(all && list && sources);
    int n = 0;
    for (int i = 0; i < s.n; i++) {
        const struct shard_tensor *t = &s.list[i];
        const bool turned = donor_is_quality(t->name) && t->t->dtype == DT_F8_E4M3;
        if (donor_is_quality(t->name) && strstr(t->name, "_scale_inv"))
            continue;
        sources[n] = (struct twin_source){.codes = safetensors_data(shards_file(&s, t), t->t), .cols = t->t->shape[1]};
        all[n] = (struct tensor_out){.name = t->name, .dtype = turned ? DT_F32 : t->t->dtype, .n_dims = t->t->n_dims, .source = &sources[n]};
        memcpy(all[n].shape, t->t->shape, sizeof all[n].shape);
        if (turned) {
            snprintf(path, sizeof path, "%s_scale_inv", t->name);
            const struct shard_tensor *scale = shards_find(&s, path);
            assert_non_null(scale);
            sources[n].scales = safetensors_data(shards_file(&s, scale), scale->t);
        }
        list[n] = &all[n];
        n++;
    }
    snprintf(path, sizeof path, "%s/model.safetensors", to);
    struct file_out f = {.path = path, .tensors = list, .n_tensors = n};
    assert_true(safetensors_write(&f, 1, &(struct write_options){.n_threads = 2, .make = twin_make}, &e));
    snprintf(path, sizeof path, "%s/config.json", from);
    snprintf(config, sizeof config, "%s/config.json", to);
    assert_true(place_file(path, config, true, NULL, &e));
    free(all), free(list), free(sources);
    shards_close(&s);
}

static void test_hybrid__for_quality_it_computes_with_attention_and_out_projections_of_the_fp8_release(void **state)
{
    (void)state;
    struct place p;
    struct hybrid_report r;
    struct err e = {0};
    size_t n, k;
    char twin[200];
    start(&p);
    donor_write_parts(p.fp8, "tests/data/model/g1/hybrid", true, NULL);
    must_build("tests/data/model/g1/int4", p.fp8, p.out, QUALITY);
    must_build("tests/data/model/g1/int4", p.fp8, p.other, QUALITY | COMPACT);
    float *found = logits_of(p.out, &n), *compact = logits_of(p.other, &k), *plain = logits_of("tests/data/model/g1/hybrid", &k);
    assert_memory_equal(found, compact, n * sizeof *found);
    assert_memory_not_equal(found, plain, n * sizeof *found);
    snprintf(twin, sizeof twin, "%s/twin", p.dir);
    assert_int_equal(mkdir(twin, 0755), 0);
    write_twin(p.other, twin);
    float *want = logits_of(twin, &k), largest = 0, off = 0;
    assert_int_equal(n, k);
    for (size_t i = 0; i < n; i++) {
        largest = fmaxf(largest, fabsf(want[i]));
        off = fmaxf(off, fabsf(want[i] - found[i]));
    }
    printf("logits up to %g, off by at most %g\n", largest, off);
    assert_true(off <= 1e-4f * largest);
    assert_true(build_into("tests/data/model/g1/int4", p.fp8, p.out, QUALITY, &r, &e));
    assert_int_equal(r.state, HYBRID_THERE);
    hybrid_report_free(&r);
    assert_false(build_into("tests/data/model/g1/int4", p.fp8, p.out, LINKED, &r, &e));
    assert_non_null(strstr(e.msg, "with other options (linked quality; now linked)"));
    hybrid_report_free(&r);
    free(found), free(compact), free(plain), free(want);
    stop_hub(&p);
}

static json_t *read_index(const char *dir)
{
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL), *map = json_incref(json_object_get(root, "weight_map"));
    assert_true(json_is_object(map));
    json_decref(root);
    return map;
}

/* The golden hybrids were made by another program, in the way of the public recipe. */
static void test_hybrid__names_types_and_shapes_are_those_of_the_public_recipe(void **state)
{
    (void)state;
    struct place p;
    struct shards a, b;
    struct err e = {0};
    start(&p);
    donor_write(p.fp8, G0 "hybrid", NULL);
    for (int compact = 0; compact < 2; compact++) {
        const char *out = compact ? p.other : p.out;
        must_build(G0 "int4", p.fp8, out, compact);
        assert_true(shards_open(&a, G0 "hybrid", &e) && shards_open(&b, out, &e));
        json_t *index = read_index(out);
        assert_int_equal(a.n, b.n);
        assert_int_equal(json_object_size(index), b.n);         /* the MTP block is listed, though the INT4 index had lost it */
        for (int i = 0; i < a.n; i++) {
            const struct shard_tensor *t = shards_find(&b, a.list[i].name);
            assert_non_null(t);
            assert_int_equal(t->t->dtype, a.list[i].t->dtype);
            assert_int_equal(t->t->n_dims, a.list[i].t->n_dims);
            assert_memory_equal(t->t->shape, a.list[i].t->shape, sizeof t->t->shape);
            assert_memory_equal(safetensors_data(shards_file(&b, t), t->t), safetensors_data(shards_file(&a, &a.list[i]), a.list[i].t), t->t->bytes);
            if (compact)                /* in the shards that had them */
                assert_string_equal(json_string_value(json_object_get(index, t->name)), strrchr(shards_file(&a, &a.list[i])->path, '/') + 1);
        }
        if (compact)
            assert_int_equal(b.n_stale, 0);
        json_decref(index);
        shards_close(&a);
        shards_close(&b);
    }
    stop_hub(&p);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static bool same_dirs(const char *a, const char *b)
{
    struct dirent **x, **y;
    int n = scandir(a, &x, NULL, by_name), m = scandir(b, &y, NULL, by_name);
    bool same = n == m && n > 2;
    for (int i = 0; i < n && same; i++) {
        struct buf p = {0}, q = {0}, s = {0}, t = {0};
        buf_addf(&p, "%s/%s", a, x[i]->d_name);
        buf_addf(&q, "%s/%s", b, x[i]->d_name);
        same = !strcmp(x[i]->d_name, y[i]->d_name);
        if (same && strcmp(x[i]->d_name, ".") && strcmp(x[i]->d_name, ".."))
            same = file_read(&s, buf_str(&p), 1 << 30, NULL) && file_read(&t, buf_str(&q), 1 << 30, NULL) && s.len == t.len
                && !memcmp(s.data, t.data, s.len);
        buf_free(&p), buf_free(&q), buf_free(&s), buf_free(&t);
    }
    for (int i = 0; i < n; i++)
        free(x[i]);
    for (int i = 0; i < m; i++)
        free(y[i]);
    free(x), free(y);
    return same;
}

static void test_hybrid__the_same_sources_give_the_same_bytes(void **state)
{
    (void)state;
    for (int compact = 0; compact < 2; compact++) {
        struct place p;
        start(&p);
        copy_dir(G0 "int4", p.int4);
        donor_write(p.fp8, G0 "hybrid", NULL);
        must_build(G0 "int4", p.fp8, p.out, compact);
        must_build(p.int4, p.fp8, p.other, compact);
        assert_true(same_dirs(p.out, p.other));
        stop_hub(&p);
    }
}

static void test_hybrid__a_second_run_does_nothing_and_says_so(void **state)
{
    (void)state;
    struct place p;
    struct hybrid_report r;
    struct stat before, after;
    struct err e = {0};
    start(&p);
    donor_write(p.fp8, G0 "hybrid", NULL);
    must_build(G0 "int4", p.fp8, p.out, false);
    assert_int_equal(stat(p.out, &before), 0);
    assert_true(build_into(G0 "int4", p.fp8, p.out, false, &r, &e));
    assert_int_equal(r.state, HYBRID_THERE);
    assert_int_equal(stat(p.out, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    hybrid_report_free(&r);
    stop_hub(&p);
}

static void test_hybrid__a_dry_run_makes_nothing(void **state)
{
    (void)state;
    struct place p;
    struct hybrid_report r;
    struct source s;
    struct err e = {0};
    struct stat st;
    char part[200];
    start(&p);
    donor_write(p.fp8, G0 "hybrid", NULL);
    source_open_dir(&s, p.fp8);
    assert_true(hybrid_build(G0 "int4", &s, &(struct hybrid_options){.out = p.out, .program = "test", .dry_run = true}, &r, &e));
    assert_int_equal(r.state, HYBRID_PLANNED);
    assert_int_equal(r.n_matrices, 12);
    assert_int_equal(r.n_files, 5);
    snprintf(part, sizeof part, "%s.part", p.out);
    assert_true(lstat(p.out, &st) && lstat(part, &st));
    hybrid_report_free(&r);
    source_close(&s);
    stop_hub(&p);
}

/* ---- bytes moved */

static void test_hybrid__of_an_fp8_checkpoint_of_35b_geometry_little_more_than_the_matrices_is_read(void **state)
{
    (void)state;
    struct model_config c = ck_122b();
    struct ck int4, fp8;
    struct source s;
    struct hybrid_report r;
    struct err e = {0};
    char out[128];
    c.hidden = 2048, c.n_layers = 40, c.n_full = 10, c.n_delta = 30, c.n_q_heads = 16, c.lin_v_heads = 32, c.moe_inter = c.shared_inter = 512;
    ck_model(&int4, &c, CK_INT4, "model.language_model.", 5, CK_EXTRA);
    ck_model(&fp8, &c, CK_FP8, "model.language_model.", 14, 14);
    int4.sparse = fp8.sparse = true;
    ck_write(&int4, &c);
    ck_write(&fp8, &c);
    snprintf(out, sizeof out, "%s-out", int4.dir);
    source_open_dir(&s, fp8.dir);
    if (!hybrid_build(int4.dir, &s, &(struct hybrid_options){.out = out, .program = "test"}, &r, &e))
        fail_msg("%s", e.msg);
    uint64_t must = 40 * 3 * (512 * 2048 + 4 * 16 * 2);
    printf("read %.2f MB of an FP8 checkpoint in %llu pieces; the matrices have %.2f MB (%.3f times that)\n", (double)s.n_bytes * 1e-6,
           (unsigned long long)s.n_reads, (double)must * 1e-6, (double)s.n_bytes / (double)must);
    assert_int_equal(r.fp8_bytes, must);
    assert_true(s.n_bytes >= must && (double)s.n_bytes <= 1.2 * (double)must);
    uint64_t written = 0;
    for (int i = 0; i < r.n_files; i++)
        written += strcmp(r.files[i].how, "written") ? 0 : r.files[i].bytes;
    assert_true((double)written <= 1.01 * (double)must);        /* shards are linked, not copied */
    hybrid_report_free(&r);
    source_close(&s);
    ck_remove_dir(out);
    ck_close(&int4);
    ck_close(&fp8);
}

/* ---- ended at any moment */

static void test_hybrid__killed_at_random_moments_a_later_run_completes_it(void **state)
{
    (void)state;
    static const int ways[] = {LINKED, QUALITY | COMPACT};
    const int n_kills = emulated() ? 10 : 60;
    for (int way = 0; way < 2; way++) {
        const int how = ways[way];
        struct place p;
        struct stat st;
        unsigned seed = 7;
        int n_ended = 0;
        start(&p);
        donor_write_parts(p.fp8, "tests/data/model/g1/hybrid", true, NULL);
        int64_t begin = clock_ns();
        must_build("tests/data/model/g1/int4", p.fp8, p.other, how);
        int64_t whole = clock_ns() - begin;
        for (int i = 0; i < n_kills; i++) {
            pid_t child = fork();
            if (!child) {
                struct hybrid_report r;
                struct err e = {0};
                bool ok = build_into("tests/data/model/g1/int4", p.fp8, p.out, how, &r, &e);
                if (!ok)
                    fprintf(stderr, "%s\n", e.msg);
                _exit(ok ? 0 : 1);
            }
            int64_t after = whole / 1000 * (rand_r(&seed) % 1000);
            nanosleep(&(struct timespec){after / 1000000000, after % 1000000000}, NULL);
            kill(child, SIGKILL);
            int status;
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
            n_ended += WIFSIGNALED(status);
            if (!WIFSIGNALED(status))   /* the machine may be quicker than it was */
                whole -= whole / 8;
            if (!lstat(p.out, &st)) {   /* what has the final name is whole, but for the note that the next run drops */
                char note[200];
                snprintf(note, sizeof note, "%s/.request.json", p.out);
                unlink(note);
                assert_true(same_dirs(p.out, p.other));
                char command[200];
                snprintf(command, sizeof command, "rm -rf %s", p.out);
                assert_int_equal(system(command), 0);
            }
        }
        assert_true(n_ended > 0);
        must_build("tests/data/model/g1/int4", p.fp8, p.out, how);
        assert_true(same_dirs(p.out, p.other));
        stop_hub(&p);
    }
}

static void test_hybrid__what_is_left_of_another_request_is_not_used(void **state)
{
    (void)state;
    struct place p;
    char part[200], file[300];
    struct err e = {0};
    struct hybrid_report r;
    start(&p);
    donor_write(p.fp8, G0 "hybrid", NULL);
    snprintf(part, sizeof part, "%s.part", p.out);
    assert_int_equal(mkdir(part, 0755), 0);
    snprintf(file, sizeof file, "%s/notes.txt", part);
    FILE *f = fopen(file, "w");
    assert_true(f && fputs("mine", f) >= 0 && !fclose(f));
    assert_false(build_into(G0 "int4", p.fp8, p.out, false, &r, &e));   /* nobody's files are removed */
    assert_non_null(strstr(e.msg, ".part exists and is not an unfinished hybrid"));
    hybrid_report_free(&r);
    snprintf(file, sizeof file, "%s/.request.json", part);
    f = fopen(file, "w");
    assert_true(f && fputs("{}", f) >= 0 && !fclose(f));
    snprintf(file, sizeof file, "%s/" HYBRID_FP8_FILE, part);
    f = fopen(file, "w");
    assert_true(f && fputs("of another request", f) >= 0 && !fclose(f));
    must_build(G0 "int4", p.fp8, p.out, false);
    must_build(G0 "int4", p.fp8, p.other, false);
    assert_true(same_dirs(p.out, p.other));
    stop_hub(&p);
}

/* ---- refusals */

static void drop_scale(struct tensor_out *t, int *n)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(t[i].name, L0 "up_proj.weight_scale_inv"))
            memmove(t + i, t + i + 1, (size_t)(--*n - i) * sizeof *t);
}
static void turn_weight(struct tensor_out *t, int *n)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(t[i].name, L0 "up_proj.weight")) {
            t[i].shape[0] *= 2;
            t[i].shape[1] /= 2;
        }
}
static void type_weight(struct tensor_out *t, int *n)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(t[i].name, L0 "down_proj.weight"))
            t[i].dtype = DT_I8;
}
static void grow_scale(struct tensor_out *t, int *n)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(t[i].name, L0 "gate_proj.weight_scale_inv")) {
            t[i].shape[0] = 3;
            t[i].source = NULL;
        }
}

static void test_hybrid__sources_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    const struct { const char *int4; void (*spoil)(struct tensor_out *, int *); const char *a, *b; } rows[] = {
        {G0 "int4", drop_scale,  "/fp8 has no tensor " L0 "up_proj.weight_scale_inv", ""},
        {G0 "int4", turn_weight, "tensor " L0 "up_proj.weight is F8_E4M3", "expected F8_E4M3 [128, 128] as in "},
        {G0 "int4", type_weight, "tensor " L0 "down_proj.weight is I8", "expected F8_E4M3"},
        {G0 "int4", grow_scale,  "tensor " L0 "gate_proj.weight_scale_inv is ", "[3, 1], expected F32 or BF16 [1, 1]"},
        {G0 "hybrid", NULL,      "the matrix is FP8 already", "not the INT4 checkpoint"},
        {"tests/data", NULL,     "tests/data has no config.json", ""},
        {"tests/data/model/g1/int4", NULL, "expected F8_E4M3 [", "as in tests/data/model/g1/int4"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct place p;
        struct hybrid_report r;
        struct err e = {0};
        struct stat st;
        start(&p);
        donor_write(p.fp8, G0 "hybrid", rows[i].spoil);
        if (build_into(rows[i].int4, p.fp8, p.out, false, &r, &e))
            fail_msg("row %zu is accepted", i);
        if (!strstr(e.msg, rows[i].a) || !strstr(e.msg, rows[i].b))
            fail_msg("row %zu\n  gives:    %s\n  expected: %s ... %s", i, e.msg, rows[i].a, rows[i].b);
        assert_true(lstat(p.out, &st));
        hybrid_report_free(&r);
        stop_hub(&p);
    }
}

static void test_hybrid__what_is_in_the_way_stays(void **state)
{
    (void)state;
    struct place p;
    struct hybrid_report r;
    struct err e = {0};
    char file[200];
    start(&p);
    donor_write(p.fp8, G0 "hybrid", NULL);
    assert_int_equal(mkdir(p.out, 0755), 0);                    /* empty: may be used */
    must_build(G0 "int4", p.fp8, p.out, false);
    assert_false(build_into(G0 "int4", p.fp8, p.out, true, &r, &e));
    assert_non_null(strstr(e.msg, "holds a hybrid that was built with other options (linked; now compact)"));
    hybrid_report_free(&r);
    assert_false(build_into(G0 "int4", p.fp8, p.fp8, false, &r, &e));
    assert_non_null(strstr(e.msg, "q35chat did not build it"));
    hybrid_report_free(&r);
    snprintf(file, sizeof file, "%s/config.json", p.out);
    assert_int_equal(unlink(file), 0);
    assert_false(build_into(G0 "int4", p.fp8, p.out, false, &r, &e));
    assert_non_null(strstr(e.msg, "config.json is gone"));
    hybrid_report_free(&r);
    snprintf(file, sizeof file, "%s/model-00002-of-00002.safetensors", p.fp8);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(truncate(file, st.st_size - 1), 0);        /* a donor that is cut short */
    assert_false(build_into(G0 "int4", p.fp8, p.other, false, &r, &e));
    assert_non_null(strstr(e.msg, "model-00002-of-00002.safetensors"));
    hybrid_report_free(&r);
    stop_hub(&p);
}

/* ---- where files come from */

static void test_hybrid__the_cache_of_the_hub_tells_repository_commit_and_hashes(void **state)
{
    (void)state;
    static const char *const commit = "3045d02bb737effc4581da91bddbad3be02934e4";
    struct place p;
    struct provenance v;
    struct err e = {0};
    char command[1024], snapshot[200];
    bool there;
    start(&p);
    donor_write(p.fp8, G0 "hybrid", NULL);
    snprintf(snapshot, sizeof snapshot, "%s/hub/models--Intel--tiny-int4/snapshots/%s", p.dir, commit);
    snprintf(command, sizeof command, "set -e; mkdir -p %s; cd %s; mkdir ../../blobs; for f in $OLDPWD/" G0 "int4/*; do "
             "h=$(sha256sum < $f | cut -c 1-64); cp $f ../../blobs/$h; ln -s ../../blobs/$h ${f##*/}; done", snapshot, snapshot);
    assert_int_equal(system(command), 0);
    must_build(snapshot, p.fp8, p.out, false);
    if (!provenance_read(&v, p.out, &there, &e))
        fail_msg("%s", e.msg);
    assert_string_equal(v.int4.repo, "Intel/tiny-int4");
    assert_string_equal(v.int4.commit, commit);
    assert_null(v.fp8.repo);
    assert_int_equal(v.n_tensors, 24);
    for (int i = 0; i < v.n_files; i++) {
        char path[300];
        struct hash_job job = {.path = path, .bytes = UINT64_MAX};
        snprintf(path, sizeof path, "%s/%s", p.out, v.files[i].name);
        assert_true(hash_jobs(&job, 1, NULL, &e));
        assert_string_equal(job.hex, v.files[i].sha256);
    }
    provenance_free(&v);
    stop_hub(&p);
}

/* ---- add-mtp */

static void drop_from_index(const char *dir)
{
    json_t *map = read_index(dir), *out = json_object();
    const char *name;
    json_t *file;
    char path[256];
    json_object_foreach(map, name, file)
        if (strncmp(name, "mtp.", 4))
            json_object_set(out, name, file);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
    json_t *root = json_pack("{s:{}, s:o}", "metadata", "weight_map", out);
    unlink(path);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    json_decref(map);
}

static int n_listed(const char *dir)
{
    json_t *map = read_index(dir), *file;
    const char *name;
    int n = 0;
    json_object_foreach(map, name, file)
        n += !strncmp(name, "mtp.", 4);
    json_decref(map);
    return n;
}

static void test_mtp__a_block_that_the_index_lost_is_listed_again(void **state)
{
    (void)state;
    struct place p;
    struct mtp_report r;
    struct err e = {0};
    start(&p);
    copy_dir(G0 "hybrid", p.out);
    drop_from_index(p.out);
    assert_int_equal(n_listed(p.out), 0);
    assert_true(mtp_add(p.out, NULL, &r, &e));
    assert_int_equal(r.state, MTP_INDEXED);
    assert_int_equal(r.n_tensors, 41);
    assert_int_equal(n_listed(p.out), 41);
    assert_true(mtp_add(p.out, NULL, &r, &e));
    assert_int_equal(r.state, MTP_THERE);
    stop_hub(&p);
}

static void test_mtp__a_block_that_is_gone_comes_from_another_checkpoint(void **state)
{
    (void)state;
    static const char *const from[] = {G0 "int4", G0 "hybrid"};         /* the first has it in a file that its index does not name */
    for (int i = 0; i < 2; i++) {
        struct place p;
        struct mtp_report r;
        struct source s;
        struct err e = {0};
        size_t n, k;
        char file[200];
        start(&p);
        copy_dir(G0 "hybrid", p.out);
        drop_from_index(p.out);
        snprintf(file, sizeof file, "%s/model_extra_tensors.safetensors", p.out);
        assert_int_equal(unlink(file), 0);
        assert_false(mtp_add(p.out, NULL, &r, &e));
        assert_non_null(strstr(e.msg, "name a checkpoint that has it with --from"));
        source_open_dir(&s, p.fp8);
        assert_false(mtp_add(p.out, &s, &r, &e));
        source_close(&s);
        source_open_dir(&s, "tests/data/model/g1/int4");        /* another geometry: refused, and nothing stays behind */
        assert_false(mtp_add(p.out, &s, &r, &e));
        assert_non_null(strstr(e.msg, "expected BF16") ? e.msg : strstr(e.msg, "expected F32"));
        source_close(&s);
        assert_true(access(file, F_OK) != 0);
        source_open_dir(&s, from[i]);
        if (!mtp_add(p.out, &s, &r, &e))
            fail_msg("%s", e.msg);
        source_close(&s);
        assert_int_equal(r.state, MTP_ADDED);
        assert_int_equal(n_listed(p.out), 41);
        float *a = logits_of(G0 "hybrid", &n), *b = logits_of(p.out, &k);
        assert_memory_equal(a, b, n * sizeof *a);
        free(a), free(b);
        stop_hub(&p);
    }
}

static void test_mtp__a_damaged_record_is_refused_before_anything_is_copied(void **state)
{
#define BEGIN "{\"format\": 1, \"program\": \"q35chat\", \"layout\": \"linked\""
#define ORIGINS ", \"int4\": {\"repo\": null}, \"fp8\": {}"
    static const struct { const char *record, *says; } rows[] = {
        {"{\"format\": 1, \"layout\": \"linked\"}", "program is missing or damaged"},
        {"{\"format\": 1, \"program\": null, \"layout\": \"linked\"}", "program is missing or damaged"},
        {"{\"format\": 1, \"program\": \"q\", \"layout\": 3}", "layout is missing or damaged"},
        {"{\"format\": 2}", "format is missing or damaged"},
        {"[]", "format is missing or damaged"},
        {"{", "not valid JSON"},
        {BEGIN "}", "int4 is missing or damaged"},
        {BEGIN ", \"int4\": {\"repo\": 1}}", "int4 is missing or damaged"},
        {BEGIN ", \"int4\": {}, \"fp8\": {\"fingerprint\": \"01234567890123456789012345678901234567890123456789012345678901234\"}}",
         "fp8 is missing or damaged"},
        {BEGIN ORIGINS ", \"files\": []}", "files is missing or damaged"},
        {BEGIN ORIGINS ", \"files\": {\"a\": {\"bytes\": -1}}}", "files is missing or damaged"},
        {BEGIN ORIGINS ", \"files\": {\"a\": {\"bytes\": 1, \"sha256\": {}}}}", "files is missing or damaged"},
        {BEGIN ORIGINS ", \"files\": {}, \"tensors\": {\"a\": 1}}", "tensors is missing or damaged"},
    };
    (void)state;
    struct place p;
    struct source s;
    struct mtp_report r;
    char extra[200], record[200];
    start(&p);
    copy_dir(G0 "hybrid", p.out);
    drop_from_index(p.out);
    snprintf(extra, sizeof extra, "%s/model_extra_tensors.safetensors", p.out);
    snprintf(record, sizeof record, "%s/q35chat-provenance.json", p.out);
    assert_int_equal(unlink(extra), 0);
    source_open_dir(&s, G0 "hybrid");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e = {0};
        assert_true(file_replace(record, rows[i].record, strlen(rows[i].record)));
        assert_false(mtp_add(p.out, &s, &r, &e));
        if (!strstr(e.msg, rows[i].says))
            fail_msg("%s: %s", rows[i].record, e.msg);
        assert_true(access(extra, F_OK) != 0);
    }
    source_close(&s);
    stop_hub(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hybrid__from_golden_int4_and_an_fp8_donor_it_computes_what_the_golden_hybrid_does),
        cmocka_unit_test(test_hybrid__for_quality_it_computes_with_attention_and_out_projections_of_the_fp8_release),
        cmocka_unit_test(test_hybrid__names_types_and_shapes_are_those_of_the_public_recipe),
        cmocka_unit_test(test_hybrid__the_same_sources_give_the_same_bytes),
        cmocka_unit_test(test_hybrid__a_second_run_does_nothing_and_says_so),
        cmocka_unit_test(test_hybrid__a_dry_run_makes_nothing),
        cmocka_unit_test(test_hybrid__of_an_fp8_checkpoint_of_35b_geometry_little_more_than_the_matrices_is_read),
        cmocka_unit_test(test_hybrid__killed_at_random_moments_a_later_run_completes_it),
        cmocka_unit_test(test_hybrid__what_is_left_of_another_request_is_not_used),
        cmocka_unit_test(test_hybrid__sources_that_do_not_fit_are_refused),
        cmocka_unit_test(test_hybrid__what_is_in_the_way_stays),
        cmocka_unit_test(test_hybrid__the_cache_of_the_hub_tells_repository_commit_and_hashes),
        cmocka_unit_test(test_mtp__a_block_that_the_index_lost_is_listed_again),
        cmocka_unit_test(test_mtp__a_block_that_is_gone_comes_from_another_checkpoint),
        cmocka_unit_test(test_mtp__a_damaged_record_is_refused_before_anything_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
