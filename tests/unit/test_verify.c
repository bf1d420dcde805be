#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/err.h"
#include "kernels/number.h"
#include "model/shards.h"
#include "model/synthetic.h"
#include "prepare/hybrid.h"
#include "prepare/files.h"
#include "prepare/verify.h"
#include "tests/bench/measure.h"
#include "tests/donor.h"

#define L "model.language_model.layers."
#define SHARED L "1.mlp.shared_expert."
#define EXPERT L "2.mlp.experts.3."

/* A checkpoint of the test's own, in which faults are planted; its base is a copy, so that no golden file is spoilt. */
static char root[64], dir[128];

static void sh(const char *fmt, ...)
{
    char command[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    if (system(command))
        fail_msg("%s", command);
}

/* The hybrid of g1, linked, with hashes of all files. */
static int make_base(void **state)
{
    (void)state;
    struct source s;
    struct hybrid_report r;
    struct err e = {0};
    char fp8[128], int4[128], base[128];
    snprintf(root, sizeof root, "/tmp/q35chat-verify-XXXXXX");
    CHECK(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/dir", root);
    snprintf(fp8, sizeof fp8, "%s/fp8", root);
    snprintf(int4, sizeof int4, "%s/int4", root);
    snprintf(base, sizeof base, "%s/base", root);
    CHECK(!mkdir(fp8, 0755));
    donor_write(fp8, "tests/data/model/g1/hybrid", NULL);
    sh("mkdir %s; cp tests/data/model/g1/int4/[cm]* %s", int4, int4);
    source_open_dir(&s, fp8);
    CHECK(hybrid_build(int4, &s, &(struct hybrid_options){.out = base, .program = "test", .hash = true}, &r, &e));
    hybrid_report_free(&r);
    source_close(&s);
    return 0;
}

static int drop_base(void **state)
{
    (void)state;
    sh("rm -rf %s", root);
    return 0;
}

/* ---- planting */

static const char *in_dir(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* The files are links to those of the base: whoever writes into one makes it his own first. */
static void own(const char *path)
{
    sh("cp %s %s.own && mv %s.own %s", path, path, path, path);
}

/* n bytes at `at` of a tensor that counts. */
static void put(const char *tensor, uint64_t at, const void *bytes, uint64_t n)
{
    struct shards s;
    struct err e = {0};
    if (!shards_open(&s, dir, &e))
        fail_msg("%s", e.msg);
    const struct shard_tensor *t = shards_find(&s, tensor);
    assert_non_null(t);
    assert_true(at + n <= t->t->bytes);
    own(shards_file(&s, t)->path);
    int fd = open(shards_file(&s, t)->path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, (off_t)(t->t->offset + at)), n);
    close(fd);
    shards_close(&s);
}

static uint8_t *take(const char *tensor, uint64_t *n)
{
    struct shards s;
    struct err e = {0};
    if (!shards_open(&s, dir, &e))
        fail_msg("%s", e.msg);
    const struct shard_tensor *t = shards_find(&s, tensor);
    assert_non_null(t);
    uint8_t *out = malloc(t->t->bytes);
    assert_non_null(out);
    memcpy(out, safetensors_data(shards_file(&s, t), t->t), t->t->bytes);
    *n = t->t->bytes;
    shards_close(&s);
    return out;
}

static void zero(const char *tensor)
{
    uint64_t n;
    uint8_t *p = take(tensor, &n);
    memset(p, 0, n);
    put(tensor, 0, p, n);
    free(p);
}

static void exchange(const char *a, const char *b)
{
    uint64_t n, k;
    uint8_t *p = take(a, &n), *q = take(b, &k);
    assert_int_equal(n, k);
    assert_memory_not_equal(p, q, n);
    put(a, 0, q, n);
    put(b, 0, p, n);
    free(p), free(q);
}

static void put16(const char *tensor, uint64_t i, uint16_t x) { put(tensor, 2 * i, &x, 2); }

/* A small JSON file with one value changed; `value` NULL: taken out. */
static void edit(const char *file, const char *outer, const char *key, json_t *value)
{
    json_t *j = json_load_file(in_dir(file), 0, NULL), *in = outer ? json_object_get(j, outer) : j;
    assert_true(json_is_object(in));
    if (value)
        json_object_set_new(in, key, value);
    else
        assert_int_equal(json_object_del(in, key), 0);
    unlink(in_dir(file));
    assert_int_equal(json_dump_file(j, in_dir(file), 0), 0);
    json_decref(j);
}

static void index_less(const char *prefix)
{
    json_t *j = json_load_file(in_dir("model.safetensors.index.json"), 0, NULL), *map = json_object_get(j, "weight_map"), *v;
    const char *name;
    void *next;
    int n = 0;
    json_object_foreach_safe(map, next, name, v)
        if (!strncmp(name, prefix, strlen(prefix)))
            n += !json_object_del(map, name);
    assert_true(n > 0);
    unlink(in_dir("model.safetensors.index.json"));
    assert_int_equal(json_dump_file(j, in_dir("model.safetensors.index.json"), 0), 0);
    json_decref(j);
}

static void forget_provenance(void) { assert_int_equal(unlink(in_dir("q35chat-provenance.json")), 0); }

static void size_by(const char *file, off_t more)
{
    struct stat st;
    assert_int_equal(stat(in_dir(file), &st), 0);
    own(in_dir(file));
    assert_int_equal(truncate(in_dir(file), st.st_size + more), 0);
}

#define SHARD1 "model-00001-of-00002.safetensors"
#define SHARD2 "model-00002-of-00002.safetensors"
#define EXTRA "model_extra_tensors.safetensors"

static void cut_shard(void)          { size_by(SHARD2, -1); }
static void cut_header(void)         { own(in_dir(SHARD2)); assert_int_equal(truncate(in_dir(SHARD2), 100), 0); }
static void lose_shard(void)         { unlink(in_dir(SHARD1)); }
static void lose_config(void)        { unlink(in_dir("config.json")); }
static void spoil_header(void)       { own(in_dir(SHARD1)); int fd = open(in_dir(SHARD1), O_WRONLY); assert_int_equal(pwrite(fd, "oops", 4, 30), 4);
                                       close(fd); }
static void lengthen_shard(void)     { forget_provenance(); size_by(SHARD1, 5); }
static void lengthen_recorded(void)  { own(in_dir("config.json")); sh("echo >> %s/config.json", dir); }
static void spoil_index(void)        { own(in_dir("model.safetensors.index.json"));
                                       assert_int_equal(truncate(in_dir("model.safetensors.index.json"), 1000), 0); }
static void point_elsewhere(void)    { edit("model.safetensors.index.json", "weight_map", EXPERT "up_proj.qweight", json_string(EXTRA)); }
static void point_nowhere(void)      { edit("model.safetensors.index.json", "weight_map", EXPERT "up_proj.qweight",
                                            json_string("model-00009-of-00002.safetensors")); }
static void forget_tensor(void)      { edit("model.safetensors.index.json", "weight_map", EXPERT "up_proj.qweight", NULL); }
static void more_experts(void)       { edit("config.json", "text_config", "num_experts", json_integer(13)); }
static void fewer_experts(void)      { edit("config.json", "text_config", "num_experts", json_integer(11)); }
static void other_heads(void)        { edit("config.json", "text_config", "shared_expert_intermediate_size", json_integer(64)); }
static void index_without_mtp(void)  { index_less("mtp."); }
static void no_mtp(void)             { index_less("mtp."); forget_provenance(); unlink(in_dir(EXTRA)); }
static void part_of_mtp(void)        { index_less("mtp.norm"); sh("cd %s && sed -i 's/\"mtp.norm.weight\"/\"mtp.morn.weight\"/' " EXTRA, dir); }
static void tower_in_config(void)
{
    edit("config.json", NULL, "vision_config",
         json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "depth", 1, "hidden_size", 16, "num_heads", 2, "intermediate_size", 8,
                   "num_position_embeddings", 4, "out_hidden_size", 256));
    forget_provenance();
}
static void no_tower(void)           { tower_in_config(); index_less("model.visual."); }
static void zero_mtp(void)           { zero("mtp.fc.weight"); }
static void zero_mtp_expert(void)    { zero("mtp.layers.0.mlp.experts.4.down_proj.weight"); }
static void zero_expert(void)        { zero(EXPERT "up_proj.qweight"); }
static void zero_scales(void)        { zero(EXPERT "up_proj.scales"); }
static void hole(void)               { static const char none[8192]; put(EXPERT "up_proj.qweight", 4096, none, sizeof none); }
static void nan_scale(void)          { put16(EXPERT "down_proj.scales", 17, 0x7e00); }
static void inf_scale(void)          { put16(SHARED "gate_proj.weight_scale_inv", 0, 0x7f80); }
static void nan_norm(void)           { uint16_t h = 0x7fc0; put(L "0.input_layernorm.weight", 0, &h, 2); }
static void nan_embedding(void)      { put16("model.language_model.embed_tokens.weight", 70001, 0x7fc0); }
static void nan_fp8(void)            { put(SHARED "up_proj.weight", 5000, "\x7f", 1); }
static void huge_scale(void)         { put16(EXPERT "gate_proj.scales", 3, 0x7700); }
static void huge_fp8_scale(void)     { put16(SHARED "up_proj.weight_scale_inv", 0, f32_bf16(7)); }
static void negative_fp8_scale(void) { put16(SHARED "up_proj.weight_scale_inv", 1, f32_bf16(-0.001f)); }
static void some_zero_scales(void)   { static const uint16_t none[64]; put(EXPERT "gate_proj.scales", 0, none, sizeof none); }
static void odd_zeros(void)          { put(EXPERT "gate_proj.qzeros", 0, "\x77\x77\x87\x77", 4); }
static void copied_scales(void)      { uint64_t n; uint8_t *p = take(EXPERT "gate_proj.scales", &n);
                                       put(L "2.mlp.experts.4.gate_proj.scales", 0, p, n); free(p); }
static void exchange_fp8(void)       { exchange(SHARED "gate_proj.weight_scale_inv", SHARED "up_proj.weight_scale_inv"); }
static void exchange_fp8_alone(void) { exchange_fp8(); forget_provenance(); }
static void exchange_layers(void)    { exchange(SHARED "gate_proj.weight_scale_inv", L "3.mlp.shared_expert.gate_proj.weight_scale_inv");
                                       forget_provenance(); }
static void exchange_matrices(void)  { exchange(SHARED "gate_proj.weight", SHARED "up_proj.weight"); forget_provenance(); }
static void flip_fp8(void)           { uint64_t n; uint8_t *p = take(SHARED "down_proj.weight", &n), x = p[99] ^ 1;
                                       put(SHARED "down_proj.weight", 99, &x, 1); free(p); }
static void flip_embedding(void)     { put("model.language_model.embed_tokens.weight", 4000, "\x11", 1); }
static void exchange_int4(void)      { exchange(EXPERT "gate_proj.scales", L "2.mlp.experts.5.gate_proj.scales"); }
static void swap_provenance(void)    { edit("q35chat-provenance.json", NULL, "format", json_integer(99)); }
static void lose_recorded(void)      { unlink(in_dir("generation_config.json"));
                                       sh("rm -f %s/config.json; cp tests/data/model/g1/int4/config.json %s", dir, dir); }
static void add_stray(void)          { sh("cp tests/data/model/g0/int4/" EXTRA " %s/other.safetensors", dir); }
static void half_hybrid(void)
{
    index_less(L "3.mlp.shared_expert.");
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    for (int i = 0; i < 3; i++) {
        char name[160];
        snprintf(name, sizeof name, L "3.mlp.shared_expert.%s.weight", names[i]);
        edit("model.safetensors.index.json", "weight_map", name, json_string(SHARD2));
    }
}

/* The planted fault, whether only --full sees it, and the expected finding. */
static const struct planted {
    void      (*plant)(void);
    bool        full, fault;
    const char *kind, *file, *tensor, *text;
} planted[] = {
    {cut_shard,          false, true,  "truncated",         SHARD2, NULL, "truncated: "},
    {cut_header,         false, true,  "truncated",         SHARD2, NULL, "the header is said to have"},
    {lose_shard,         false, true,  "missing-file",      SHARD1, NULL, "expected a file, since the index names it"},
    {point_nowhere,      false, true,  "missing-file",      "model-00009-of-00002.safetensors", NULL, "it is not there"},
    {lose_config,        false, true,  "config",            "config.json", NULL, "config.json"},
    {spoil_header,       false, true,  "bad-header",        SHARD1, NULL, "byte "},
    {lengthen_shard,     false, true,  "overlong",          SHARD1, NULL, "5 bytes after the last tensor, expected none"},
    {lengthen_recorded,  false, true,  "wrong-size",        "config.json", NULL, "build the hybrid again"},
    {spoil_index,        false, true,  "bad-index",         "model.safetensors.index.json", NULL, "expected the names of tensors"},
    {point_elsewhere,    false, true,  "missing-tensor",    EXTRA, EXPERT "up_proj.qweight", "since the index says so"},
    {forget_tensor,      false, true,  "missing-tensor",    NULL, EXPERT "up_proj.weight", "config.json asks for it"},
    {forget_tensor,      false, false, "unlisted-tensor",   "model.safetensors.index.json", EXPERT "up_proj.qweight", "not in the index"},
    {more_experts,       false, true,  "missing-tensor",    NULL, L "0.mlp.experts.12.gate_proj.weight", "config.json asks for it"},
    {fewer_experts,      false, true,  "unexpected-tensor", NULL, L "0.mlp.experts.11.gate_proj.qweight", "no place in the model"},
    {fewer_experts,      false, true,  "wrong-tensor",      NULL, L "0.mlp.gate.weight", "is BF16 [12, 256], expected F32 or F16 or BF16 [11, 256]"},
    {other_heads,        false, true,  "wrong-tensor",      NULL, SHARED "gate_proj.weight", "expected F8_E4M3 [64, 256]"},
    {index_without_mtp,  false, false, "index-without-mtp", "model.safetensors.index.json", NULL, "53 tensors of the MTP block"},
    {no_mtp,             false, true,  "no-mtp",            NULL, NULL, "add-mtp DIR --from"},
    {part_of_mtp,        false, true,  "missing-tensor",    NULL, "mtp.norm.weight", "config.json asks for it"},
    {tower_in_config,    false, true,  "missing-tensor",    NULL, "model.visual.patch_embed.proj.weight", "config.json asks for it"},
    {no_tower,           false, false, "no-vision",         NULL, NULL, "so the model sees no pictures"},
    {zero_mtp,           false, true,  "zeroed-mtp",        EXTRA, "mtp.fc.weight", "bytes are 0"},
    {zero_mtp_expert,    false, true,  "zeroed-mtp",        EXTRA, "mtp.layers.0.mlp.experts.4.down_proj.weight", "bytes are 0"},
    {zero_expert,        false, true,  "zeroed",            NULL, EXPERT "up_proj.qweight", "bytes are 0, expected weights"},
    {zero_scales,        false, true,  "zeroed",            NULL, EXPERT "up_proj.scales", "bytes are 0"},
    {some_zero_scales,   false, true,  "zero-scale",        NULL, EXPERT "gate_proj.scales", "64 of "},
    {hole,               true,  true,  "hole",              NULL, EXPERT "up_proj.qweight", "bytes of 0 in a row from byte"},
    {nan_scale,          false, true,  "not-finite",        NULL, EXPERT "down_proj.scales", "1 NaN and 0 inf among"},
    {inf_scale,          false, true,  "not-finite",        NULL, SHARED "gate_proj.weight_scale_inv",
     "0 NaN and 1 inf among 2 numbers, the first at 0"},
    {nan_norm,           false, true,  "not-finite",        NULL, L "0.input_layernorm.weight", "1 NaN"},
    {nan_embedding,      true,  true,  "not-finite",        NULL, "model.language_model.embed_tokens.weight", "the first at 70001"},
    {nan_fp8,            true,  true,  "not-finite",        NULL, SHARED "up_proj.weight", "1 NaN"},
    {huge_scale,         false, true,  "absurd-scale",      NULL, EXPERT "gate_proj.scales", "expected at most 8"},
    {huge_fp8_scale,     false, true,  "absurd-scale",      NULL, SHARED "up_proj.weight_scale_inv", "a number of 7"},
    {negative_fp8_scale, false, true,  "absurd-scale",      NULL, SHARED "up_proj.weight_scale_inv", "1 negative scales"},
    {odd_zeros,          false, true,  "odd-zeros",         NULL, EXPERT "gate_proj.qzeros", "1 words"},
    {copied_scales,      false, true,  "same-scales",       NULL, L "2.mlp.experts.4.gate_proj.scales",
     "the same bytes as " EXPERT "gate_proj.scales"},
    {exchange_fp8,       false, true,  "changed-scale",     HYBRID_FP8_FILE, SHARED "gate_proj.weight_scale_inv",
     "as was recorded when it was built"},
    {exchange_fp8_alone, false, true,  "swapped-scales",    HYBRID_FP8_FILE, SHARED "up_proj.weight", "times the numbers of the 16-bit copy"},
    {exchange_layers,    false, true,  "swapped-scales",    HYBRID_FP8_FILE, L "3.mlp.shared_expert.gate_proj.weight", "16-bit copy in " SHARD2},
    {exchange_matrices,  false, true,  "swapped-scales",    HYBRID_FP8_FILE, SHARED "gate_proj.weight", "differs by 1"},
    {flip_fp8,           true,  true,  "changed-tensor",    HYBRID_FP8_FILE, SHARED "down_proj.weight", "SHA-256"},
    {flip_embedding,     true,  true,  "corrupt-file",      SHARD1, NULL, "as was recorded when it was fetched or built"},
    {exchange_int4,      true,  true,  "corrupt-file",      NULL, NULL, "fetch or build it again"},
    {swap_provenance,    false, true,  "bad-provenance",    "q35chat-provenance.json", NULL, "another version"},
    {lose_recorded,      false, false, "stale-copies",      NULL, NULL, "vLLM, which reads whole shards, wants build-hybrid --compact"},
    {add_stray,          false, false, "unlisted-file",     "other.safetensors", NULL, "it is never read"},
    {half_hybrid,        false, false, "mixed-formats",     NULL, NULL,
     "the shared expert of layer 3 is in 16 bits, those of 3 other layers are FP8"},
};
enum { N_PLANTED = sizeof planted / sizeof *planted };

static bool has(const char *text, const char *part) { return !part || (text && !strcmp(text, part)); }

static void look(struct verify_report *r, bool full)
{
    struct err e = {0};
    if (!verify_run(dir, &(struct verify_options){.full = full}, r, &e))
        fail_msg("%s", e.msg);
}

static void print_all(const struct verify_report *r)
{
    for (int i = 0; i < r->n && i < 20; i++) {
        struct buf s = {0};
        verify_sentence(&r->list[i], &s);
        printf("  %s (%s)\n", buf_str(&s), r->list[i].kind);
        buf_free(&s);
    }
}

static void test_verify__every_planted_fault_is_found(void **state)
{
    (void)state;
    for (int i = 0; i < N_PLANTED; i++) {
        const struct planted *p = &planted[i];
        struct verify_report r;
        bool found = false;
        sh("rm -rf %s; cp -rl %s/base %s", dir, root, dir);
        p->plant();
        look(&r, p->full);
        for (int k = 0; k < r.n; k++) {
            struct buf s = {0};
            const struct finding *f = &r.list[k];
            verify_sentence(f, &s);
            found |= !strcmp(f->kind, p->kind) && f->fault == p->fault && has(f->file, p->file) && has(f->tensor, p->tensor)
                     && strstr(buf_str(&s), p->text);
            buf_free(&s);
        }
        if (!found || (r.n_faults > 0) < p->fault) {
            print_all(&r);
            fail_msg("row %d: %s is not found", i, p->kind);
        }
        verify_free(&r);
    }
}

static void test_verify__what_nothing_is_wrong_with_passes(void **state)
{
    (void)state;
    static const char *const sound[] = {"tests/data/model/g0/bf16", "tests/data/model/g0/int4", "tests/data/model/g0/hybrid",
                                        "tests/data/model/g1/int4",
                                        "tests/data/model/g1/hybrid", "assets/demo", NULL};
    sh("rm -rf %s; cp -rl %s/base %s", dir, root, dir);
    for (int i = 0; i < 7; i++)
        for (int full = 0; full < 2; full++) {
            struct verify_report r;
            struct err e = {0};
            if (!verify_run(sound[i] ? sound[i] : dir, &(struct verify_options){.full = full}, &r, &e))
                fail_msg("%s", e.msg);
            if (r.n_faults) {
                print_all(&r);
                fail_msg("%s", sound[i] ? sound[i] : "what build-hybrid makes");
            }
            assert_true(r.n_files > 0 && r.n_tensors > 50 && !r.stopped);
            if (!sound[i] && full)
                assert_int_equal(r.n_hashed, 5);        /* every file that build-hybrid recorded */
            verify_free(&r);
        }
    struct err e = {0};
    struct verify_report r;
    assert_false(verify_run("tests/data/nowhere", &(struct verify_options){0}, &r, &e));
    assert_non_null(strstr(e.msg, "tests/data/nowhere is not the directory of a checkpoint"));
    verify_free(&r);
}

static bool finds(const char *kind, const char *tensor)
{
    struct verify_report r;
    bool found = false;
    look(&r, false);
    for (int i = 0; i < r.n; i++)
        found |= !strcmp(r.list[i].kind, kind) && (!tensor || (r.list[i].tensor && !strcmp(r.list[i].tensor, tensor)));
    verify_free(&r);
    return found;
}

/* If gates and ups have scales of two sizes, one expert with exchanged scales is found; otherwise it cannot be. */
static void test_verify__exchanged_scales_of_an_int4_expert_show_where_gate_and_up_differ(void **state)
{
    (void)state;
    struct err e = {0};
    char gate[160], up[160];
    sh("rm -rf %s", dir);
    if (!synthetic_write("demo", 2, dir, 5, 2, NULL, &e))
        fail_msg("%s", e.msg);
    assert_false(finds("swapped-scales", NULL));
    snprintf(gate, sizeof gate, L "1.mlp.experts.9.gate_proj.scales");
    snprintf(up, sizeof up, L "1.mlp.experts.9.up_proj.scales");
    exchange(gate, up);
    assert_false(finds("swapped-scales", NULL));                /* of one size: nobody can see it */
    exchange(gate, up);
    for (int x = 0; x < 16; x++) {
        char name[160];
        uint64_t n;
        snprintf(name, sizeof name, L "1.mlp.experts.%d.gate_proj.scales", x);
        uint8_t *p = take(name, &n);
        for (uint64_t i = 0; i + 2 <= n; i += 2) {
            uint16_t h;
            memcpy(&h, p + i, 2);
            h += 1 << 10;               /* twice as large */
            memcpy(p + i, &h, 2);
        }
        put(name, 0, p, n);
        free(p);
    }
    assert_false(finds("swapped-scales", NULL));
    exchange(gate, up);
    assert_true(finds("swapped-scales", gate));
}

/* The hub's cache calls files by their hash. */
static void test_verify__corrupt_files_of_the_hubs_cache_are_found(void **state)
{
    (void)state;
    struct verify_report r;
    static const struct { const char *file; int at; } rows[] = {{"config.json", 0}, {SHARD2, 900000}, {EXTRA, 4000000}};
    for (int i = -1; i < 3; i++) {
        snprintf(dir, sizeof dir, "%s/hub", root);
        sh("rm -rf %s; mkdir -p %s/models--a--b/blobs %s/models--a--b/snapshots/0123", dir, dir, dir);
        sh("cd %s/models--a--b/snapshots/0123; for f in %s/int4/*; do case $f in *.json) h=$( (printf 'blob %%s\\0' $(stat -c %%s $f); cat $f) | "
           "sha1sum | cut -c 1-40) ;;"
           " *) h=$(sha256sum < $f | cut -c 1-64) ;; esac; cp $f ../../blobs/$h; ln -s ../../blobs/$h ${f##*/}; done", dir, root);
        strcat(dir, "/models--a--b/snapshots/0123");
        if (i >= 0) {
            struct buf text = {0};
            struct err e = {0};
            assert_true(file_read(&text, in_dir(rows[i].file), 1 << 30, &e));
            long at = rows[i].at ? rows[i].at : strstr(buf_str(&text), "LABEL_0") - buf_str(&text);     /* config.json stays JSON */
            char c = text.data[at] ^ 4;
            int fd = open(in_dir(rows[i].file), O_WRONLY);
            assert_int_equal(pwrite(fd, &c, 1, at), 1);
            close(fd);
            buf_free(&text);
        }
        look(&r, true);
        bool found = false;
        for (int k = 0; k < r.n; k++)
            found |= !strcmp(r.list[k].kind, "corrupt-file") && i >= 0 && !strcmp(r.list[k].file, rows[i].file);
        if (found != (i >= 0) || (i < 0 && r.n_faults)) {
            print_all(&r);
            fail_msg("%s", i < 0 ? "nothing is wrong" : rows[i].file);
        }
        verify_free(&r);
        snprintf(dir, sizeof dir, "%s/dir", root);
    }
}

/* A number that no shape of a tensor shows. */
static void test_verify__a_geometry_that_is_nearly_a_published_one_is_found(void **state)
{
    (void)state;
    sh("rm -rf %s; cp -r assets/demo %s", dir, dir);
    assert_false(finds("geometry", NULL));
    json_t *j = json_load_file(in_dir("config.json"), 0, NULL);
    bool nested = json_object_get(j, "text_config");
    json_decref(j);
    edit("config.json", nested ? "text_config" : NULL, "num_experts_per_tok", json_integer(2));
    assert_true(finds("geometry", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify__every_planted_fault_is_found),
        cmocka_unit_test(test_verify__what_nothing_is_wrong_with_passes),
        cmocka_unit_test(test_verify__exchanged_scales_of_an_int4_expert_show_where_gate_and_up_differ),
        cmocka_unit_test(test_verify__corrupt_files_of_the_hubs_cache_are_found),
        cmocka_unit_test(test_verify__a_geometry_that_is_nearly_a_published_one_is_found),
    };
    return cmocka_run_group_tests(tests, make_base, drop_base);
}
