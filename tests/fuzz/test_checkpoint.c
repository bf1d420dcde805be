/* Damaged checkpoints: random changes of header, index and config of real ones, and files cut short.  Every result must be
 * either a model whose every view can be read, or one printable sentence.  Seeds are fixed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <ctype.h>
#include <limits.h>

#include "model/config.h"
#include "base/file.h"
#include "model/safetensors.h"
#include "model/weights.h"
#include "tests/checkpoint.h"

static const char *const golden[] = {"tests/data/model/g0/bf16", "tests/data/model/g0/int4", "tests/data/model/g0/hybrid"};
static const char *const shards[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model_extra_tensors.safetensors"};
#define INDEX "model.safetensors.index.json"
#define CONFIG "config.json"

static uint64_t seed;
static unsigned random_below(size_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 11) % n);
}

/* ---- changing text */

static void splice(struct buf *b, size_t at, size_t cut, const char *in, size_t n)
{
    struct buf out = {0};
    buf_add(&out, b->data, at);
    buf_add(&out, in, n);
    buf_add(&out, b->data + at + cut, b->len - at - cut);
    buf_free(b);
    *b = out;
}

static size_t find_kind(const struct buf *b, int (*is)(int))
{
    size_t from = random_below(b->len);
    for (size_t i = 0; i < b->len; i++)
        if (is((unsigned char)b->data[(from + i) % b->len]))
            return (from + i) % b->len;
    return 0;
}

static int is_quote(int c) { return c == '"'; }

static void change_number(struct buf *b)
{
    static const char *const numbers[] = {"0", "1", "2", "3", "7", "64", "127", "129", "-1", "1.5", "1e9", "1e400", "2147483647", "2147483648",
                                          "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615",
                                          "18446744073709551616", "null", "\"8\"", "[]", "", "00"};
    size_t at = find_kind(b, isdigit), end = at;
    while (at > 0 && isdigit((unsigned char)b->data[at - 1]))
        at--;
    while (end < b->len && isdigit((unsigned char)b->data[end]))
        end++;
    const char *in = numbers[random_below(sizeof numbers / sizeof *numbers)];
    splice(b, at, end - at, in, strlen(in));
}

/* From a quote up to and with the next one. */
static size_t quoted(const struct buf *b, size_t at)
{
    size_t end = at + 1;
    while (end < b->len && end - at < 199 && b->data[end] != '"')
        end++;
    return end < b->len ? end + 1 - at : end - at;
}

/* One quoted string takes the place of another. */
static void change_string(struct buf *b)
{
    char text[200];
    size_t from = find_kind(b, is_quote), at = find_kind(b, is_quote), n = quoted(b, from);
    memcpy(text, b->data + from, n);
    splice(b, at, quoted(b, at), text, n);
}

static void change_bytes(struct buf *b)
{
    static const char bytes[] = "{}[]\",:\\0-9 aZ\n\t\0\x7f\xff\xc3";
    size_t at = random_below(b->len), cut = random_below(4);
    char in[4];
    int n = (int)random_below(5);
    for (int i = 0; i < n; i++)
        in[i] = bytes[random_below(sizeof bytes)];
    splice(b, at, cut > b->len - at ? b->len - at : cut, in, (size_t)n);
}

static void change_piece(struct buf *b)
{
    char piece[300];
    size_t n = random_below(sizeof piece), from = random_below(b->len), at = random_below(b->len);
    n = n > b->len - from ? b->len - from : n;
    memcpy(piece, b->data + from, n);
    switch (random_below(4)) {
    case 0: splice(b, at, 0, piece, n); break;                                  /* said twice */
    case 1: splice(b, from, n, "", 0); break;                                   /* left out */
    case 2: b->len = at ? at : 1; break;                                        /* cut off */
    case 3: memset(piece, "[{\"" [random_below(3)], sizeof piece); splice(b, at, 0, piece, sizeof piece); break;
    }
}

static void mutate(struct buf *b)
{
    static void (*const ways[])(struct buf *) = {change_number, change_number, change_string, change_bytes, change_piece};
    for (unsigned n = 1 + random_below(3); n && b->len; n--)
        ways[random_below(sizeof ways / sizeof *ways)](b);
}

/* ---- checking the outcome */

static void check_message(const struct err *e)
{
    size_t n = strlen(e->msg);
    assert_true(n > 10 && n < sizeof e->msg);
    for (size_t i = 0; i < n; i++)
        assert_true((unsigned char)e->msg[i] >= 0x20 && e->msg[i] != 0x7f);
}

static unsigned touched;
static void touch(const void *p, size_t n)
{
    const uint8_t *b = p;
    if (!p || !n)
        return;
    for (size_t i = 0; i < n; i += 64)
        touched += b[i];
    touched += b[n - 1];
}

static void touch_matrix(const struct weight *w)
{
    size_t r = (size_t)w->rows, c = (size_t)w->cols;
    assert_non_null(w->data);
    touch(w->data, w->format == WEIGHT_INT4 ? r * c / 2 : r * c * (w->format == WEIGHT_FP8 ? 1 : dtype_bytes(w->dtype)));
    touch(w->scale, w->format == WEIGHT_INT4 ? c / 128 * r * 2 : (r + 127) / 128 * ((c + 127) / 128) * dtype_bytes(w->scale_dtype));
    touch(w->zeros, c / 128 * (r / 2));
}

static void touch_layer(const struct layer_weights *l, const struct model_config *c)
{
    const struct weight *attn[] = {&l->attn.q, &l->attn.k, &l->attn.v, &l->attn.o};
    const struct weight *delta[] = {&l->delta.qkv, &l->delta.z, &l->delta.a, &l->delta.b, &l->delta.out};
    for (int i = 0; i < (l->full ? 4 : 5); i++)
        touch_matrix(l->full ? attn[i] : delta[i]);
    for (int i = -1; i < c->n_experts; i++) {
        const struct expert_weights *x = i < 0 ? &l->moe.shared : &l->moe.experts[i];
        touch_matrix(&x->gate);
        touch_matrix(&x->up);
        touch_matrix(&x->down);
    }
    touch_matrix(&l->moe.router);
    touch_matrix(&l->moe.shared_gate);
    touch(l->norm_in, (size_t)c->hidden * 4);
    touch(l->norm_post, (size_t)c->hidden * 4);
}

/* True if it opened; then everything in it was read. */
static bool try_open(const char *dir)
{
    struct model_config c;
    struct weights w;
    struct err e = {0};
    if (!config_load(&c, dir, &e) || !weights_open(&w, &c, dir, &e)) {
        check_message(&e);
        return false;
    }
    if (!weights_prefetch(&w, NULL, NULL, &e))
        fail_msg("%s", e.msg);
    for (int i = 0; i < c.n_layers; i++)
        touch_layer(&w.layers[i], &c);
    if (w.mtp.present)
        touch_layer(&w.mtp.layer, &c);
    touch_matrix(&w.embed);
    touch_matrix(&w.head);
    weights_make_head(&w, HEAD_INT8);
    weights_close(&w);
    return true;
}

/* ---- a checkpoint of links, in which one file is replaced */

static void path_of(char out[300], const char *dir, const char *name)
{
    snprintf(out, 300, "%s/%s", dir, name);
}

static bool has(const char *dir, const char *name)
{
    char path[300];
    path_of(path, dir, name);
    return !access(path, F_OK);
}

static void link_all(struct ck *k, const char *from)
{
    const char *names[] = {shards[0], shards[1], shards[2], INDEX, CONFIG};
    char old[PATH_MAX], path[300];
    *k = (struct ck){.dir = "/tmp/q35chat-test-XXXXXX"};
    assert_non_null(mkdtemp(k->dir));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_of(path, from, names[i]);
        if (!realpath(path, old))
            continue;
        path_of(path, k->dir, names[i]);
        assert_int_equal(symlink(old, path), 0);
    }
}

static void replace(const struct ck *k, const char *name, const void *bytes, size_t n)
{
    char path[300];
    path_of(path, k->dir, name);
    unlink(path);
    ck_text(k, name, bytes, n);
}

static void restore(const struct ck *k, const char *from, const char *name)
{
    char old[PATH_MAX], path[300];
    path_of(path, from, name);
    assert_non_null(realpath(path, old));
    path_of(path, k->dir, name);
    unlink(path);
    assert_int_equal(symlink(old, path), 0);
}

static void read_all(struct buf *b, const char *dir, const char *name)
{
    char path[300];
    struct err e = {0};
    path_of(path, dir, name);
    *b = (struct buf){0};
    if (!file_read(b, path, 1 << 26, &e))
        fail_msg("%s", e.msg);
}

static void test_checkpoint__a_changed_config_opens_or_is_refused(void **state)
{
    (void)state;
    int opened = 0, n = 400;
    for (int g = 0; g < 3; g++) {
        struct ck k;
        struct buf good;
        link_all(&k, golden[g]);
        read_all(&good, golden[g], CONFIG);
        for (int i = 0; i < n; i++) {
            struct buf b = {0};
            seed = 1000003u * (uint64_t)(g + 1) + (uint64_t)i + 88172645463325252u;
            buf_add(&b, good.data, good.len);
            mutate(&b);
            replace(&k, CONFIG, b.data, b.len);
            opened += try_open(k.dir);
            buf_free(&b);
        }
        buf_free(&good);
        ck_close(&k);
    }
    assert_true(opened >= 1 && opened < 3 * n);      /* both outcomes were seen */
}

static void test_checkpoint__a_changed_index_opens_or_is_refused(void **state)
{
    (void)state;
    int opened = 0, n = 250;
    for (int g = 0; g < 3; g++) {
        struct ck k;
        struct buf good;
        link_all(&k, golden[g]);
        read_all(&good, golden[g], INDEX);
        for (int i = 0; i < n; i++) {
            struct buf b = {0};
            seed = 7000003u * (uint64_t)(g + 1) + (uint64_t)i + 88172645463325252u;
            buf_add(&b, good.data, good.len);
            mutate(&b);
            replace(&k, INDEX, b.data, b.len);
            opened += try_open(k.dir);
            buf_free(&b);
        }
        buf_free(&good);
        ck_close(&k);
    }
    assert_true(opened >= 1 && opened < 3 * n);
}

/* Header bytes in b, data as in the good file but sparse, length as it was. */
static void replace_header(const struct ck *k, const char *name, const struct buf *header, uint64_t said, uint64_t size)
{
    char path[300];
    path_of(path, k->dir, name);
    unlink(path);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&said, 8, 1, f);
    fwrite(header->data, 1, header->len, f);
    fflush(f);
    assert_int_equal(ftruncate(fileno(f), (off_t)size), 0);
    fclose(f);
}

static void test_checkpoint__a_changed_header_opens_or_is_refused(void **state)
{
    (void)state;
    int opened = 0, n = 120;
    for (int g = 0; g < 3; g++) {
        struct ck k;
        link_all(&k, golden[g]);
        for (int s = 0; s < 3; s++) {
            if (!has(golden[g], shards[s]))
                continue;
            struct buf file;
            uint64_t len;
            read_all(&file, golden[g], shards[s]);
            memcpy(&len, file.data, 8);
            for (int i = 0; i < n; i++) {
                struct buf b = {0};
                seed = 9000011u * (uint64_t)(3 * g + s + 1) + (uint64_t)i + 88172645463325252u;
                buf_add(&b, file.data + 8, len);
                mutate(&b);
                uint64_t said = random_below(8) ? b.len : random_below(2) ? random_below(file.len * 2) : UINT64_MAX - random_below(9);
                replace_header(&k, shards[s], &b, said, file.len - len + b.len);
                opened += try_open(k.dir);
                buf_free(&b);
            }
            buf_free(&file);
            restore(&k, golden[g], shards[s]);
        }
        assert_true(try_open(k.dir));
        ck_close(&k);
    }
    assert_true(opened >= 1 && opened < 8 * n);
}

/* The parser alone, many more times: no file system in between. */
static void test_checkpoint__the_header_parser_survives_anything(void **state)
{
    (void)state;
    for (int g = 0; g < 3; g++) {
        struct buf file;
        uint64_t len;
        read_all(&file, golden[g], shards[0]);
        memcpy(&len, file.data, 8);
        for (int i = 0; i < 3000; i++) {
            struct buf b = {0};
            struct safetensors s;
            struct err e = {0};
            seed = 5000011u * (uint64_t)(g + 1) + (uint64_t)i + 88172645463325252u;
            size_t part = 1 + random_below(len);        /* short texts, too */
            buf_add(&b, file.data + 8, i % 2 ? len : part);
            mutate(&b);
            uint64_t data_bytes = file.len - 8 - len, end = 8 + b.len + data_bytes;
            bool ok = safetensors_parse(&s, buf_str(&b), b.len, data_bytes, "x.safetensors", &e);
            if (!ok)
                check_message(&e);
            for (int t = 0; ok && t < s.n_tensors; t++) {
                assert_true(s.tensors[t].offset >= 8 + b.len && s.tensors[t].offset <= end && s.tensors[t].bytes <= end - s.tensors[t].offset);
                assert_ptr_equal(safetensors_find(&s, s.tensors[t].name), &s.tensors[t]);
            }
            safetensors_close(&s);
            buf_free(&b);
        }
        buf_free(&file);
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Cut at and around the end of the length, of the header and of every tensor: the longest first. */
static void test_checkpoint__a_shard_cut_anywhere_is_refused(void **state)
{
    (void)state;
    struct ck k;
    link_all(&k, golden[2]);
    for (int f = 0; f < 3; f++) {
        struct buf file;
        struct safetensors s;
        struct err e = {0};
        char path[300];
        uint64_t cuts[4096];
        int n = 0;
        read_all(&file, golden[2], shards[f]);
        replace(&k, shards[f], file.data, file.len);
        path_of(path, k.dir, shards[f]);
        assert_true(safetensors_open(&s, path, &e));
        assert_true(try_open(k.dir));
        for (int t = 0; t < s.n_tensors && n < 3000; t++)
            for (int d = -1; d <= 1; d++)
                cuts[n++] = s.tensors[t].offset + s.tensors[t].bytes * (t % 2) + (uint64_t)(int64_t)d;
        uint64_t len;
        memcpy(&len, file.data, 8);
        for (uint64_t d = 0; d < 20; d++) {
            cuts[n++] = d;
            cuts[n++] = 8 + len - 10 + d;
        }
        cuts[n++] = file.len - 1;
        safetensors_close(&s);
        qsort(cuts, (size_t)n, sizeof *cuts, by_value);
        for (int i = 0; i < n; i++) {
            if (cuts[i] >= file.len)
                continue;
            assert_int_equal(truncate(path, (off_t)cuts[i]), 0);
            assert_false(try_open(k.dir));
        }
        restore(&k, golden[2], shards[f]);
        buf_free(&file);
    }
    ck_close(&k);
}

static void test_checkpoint__a_cut_config_or_index_is_refused(void **state)
{
    (void)state;
    struct ck k;
    struct buf b;
    link_all(&k, golden[0]);
    read_all(&b, golden[0], CONFIG);
    for (size_t n = 0; n < b.len; n++) {
        struct model_config c;
        struct err e = {0};
        bool whole = strchr(b.data + n, '}') == NULL;       /* only white space is missing */
        assert_int_equal(config_parse(&c, b.data, n, "config.json", &e), whole);
        if (!whole)
            check_message(&e);
    }
    buf_free(&b);
    read_all(&b, golden[0], INDEX);
    for (size_t n = 0; n < b.len; n += 61) {
        replace(&k, INDEX, b.data, n);
        assert_int_equal(try_open(k.dir), strchr(b.data + n, '}') == NULL);
    }
    buf_free(&b);
    ck_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint__a_changed_config_opens_or_is_refused),
        cmocka_unit_test(test_checkpoint__a_changed_index_opens_or_is_refused),
        cmocka_unit_test(test_checkpoint__a_changed_header_opens_or_is_refused),
        cmocka_unit_test(test_checkpoint__the_header_parser_survives_anything),
        cmocka_unit_test(test_checkpoint__a_shard_cut_anywhere_is_refused),
        cmocka_unit_test(test_checkpoint__a_cut_config_or_index_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
