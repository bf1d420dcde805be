#include "model/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/memory.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22           /* Linux 5.14 */
#endif

enum { MAX_HEADER = 100000000, SCRATCH = 1 << 20 };

static const struct {
    const char *name;
    enum dtype  dtype;
    unsigned    bytes;
} dtypes[] = {
    {"F32",     DT_F32,     4}, {"F16",     DT_F16,     2}, {"BF16", DT_BF16, 2}, {"F8_E4M3", DT_F8_E4M3, 1},
    {"I8",      DT_I8,      1}, {"I32",     DT_I32,     4}, {"I64",  DT_I64,  8}, {"U8",      DT_U8,      1},
    {"BOOL",    DT_BOOL,    1}, {"F64",     DT_F64,     8},
    {"F8_E5M2", DT_OTHER,   1}, {"F8_E8M0", DT_OTHER,   1}, {"I16",  DT_OTHER, 2}, {"U16",    DT_OTHER,   2},
    {"U32",     DT_OTHER,   4}, {"U64",     DT_OTHER,   8},
};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

const char *dtype_name(enum dtype t)
{
    for (int i = 0; i < N_DTYPES && t != DT_OTHER; i++)
        if (dtypes[i].dtype == t)
            return dtypes[i].name;
    return "another type";
}

size_t dtype_bytes(enum dtype t)
{
    for (int i = 0; i < N_DTYPES && t != DT_OTHER; i++)
        if (dtypes[i].dtype == t)
            return dtypes[i].bytes;
    return 0;
}

uint64_t safetensors_hash(const char *name)
{
    uint64_t h = 14695981039346656037u;         /* FNV-1a, then mixed, since tables use the low bits */
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h ^ h >> 29;
}

/* ---- the header's JSON.  A checkpoint has 113,000 tensors in 17 MB of headers and only three kinds of value, so a cursor
 * reads it in place: several times faster than a tree of objects, and a hostile header costs no more memory than its size. */
struct cursor {
    char       *p, *end;                /* *end is 0 */
    const char *start, *path;
    struct err *e;
};

static bool expected(const struct cursor *c, const char *what)
{
    return err_set(c->e, "%s: byte %zu of the header: expected %s", c->path, (size_t)(c->p - c->start), what);
}

static void skip_space(struct cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r'))
        c->p++;
}

static bool take(struct cursor *c, char ch)
{
    skip_space(c);
    if (c->p == c->end || *c->p != ch)
        return false;
    c->p++;
    return true;
}

static bool need(struct cursor *c, char ch, const char *what)
{
    return take(c, ch) || expected(c, what);
}

/* Reads a string of printable ASCII without escapes, as all names, dtypes and keys are, and ends it by 0 in place. */
static bool read_name(struct cursor *c, const char **out)
{
    if (!need(c, '"', "a string"))
        return false;
    char *s = c->p;
    while (c->p < c->end && *c->p != '"') {
        if (*c->p < 0x20 || *c->p > 0x7e || *c->p == '\\')
            return expected(c, "a name of printable ASCII characters without escapes");
        c->p++;
    }
    if (c->p == c->end)
        return expected(c, "the end of a string");
    *c->p++ = 0;
    *out = s;
    return true;
}

/* Skips any string. */
static bool skip_string(struct cursor *c)
{
    if (!need(c, '"', "a string"))
        return false;
    for (; c->p < c->end && *c->p != '"'; c->p++) {
        if ((unsigned char)*c->p < 0x20)
            return expected(c, "no control character in a string");
        if (*c->p == '\\' && ++c->p == c->end)
            break;
    }
    return need(c, '"', "the end of a string");
}

/* Reads a whole number below 2^64. */
static bool read_number(struct cursor *c, uint64_t *out)
{
    uint64_t n = 0;
    skip_space(c);
    if (c->p == c->end || *c->p < '0' || *c->p > '9')
        return expected(c, "a whole number");
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
        if (__builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (uint64_t)(*c->p - '0'), &n))
            return expected(c, "a number below 2^64");
    *out = n;
    return true;
}

/* Reads up to `max` numbers in brackets. */
static bool read_numbers(struct cursor *c, uint64_t *out, int max, int *n)
{
    *n = 0;
    if (!need(c, '[', "["))
        return false;
    if (take(c, ']'))
        return true;
    do {
        if (*n == max)
            return expected(c, max == 2 ? "two numbers" : "at most 8 dimensions");
        if (!read_number(c, &out[(*n)++]))
            return false;
    } while (take(c, ','));
    return need(c, ']', "]");
}

/* Skips the object of "__metadata__": strings only. */
static bool skip_metadata(struct cursor *c)
{
    if (!need(c, '{', "{"))
        return false;
    if (take(c, '}'))
        return true;
    do {
        if (!skip_string(c) || !need(c, ':', ":") || !skip_string(c))
            return false;
    } while (take(c, ','));
    return need(c, '}', "}");
}

/* Reads {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}: each key once, in any order, and no other. */
static bool read_entry(struct cursor *c, struct tensor *t, const char **dtype, uint64_t range[2])
{
    enum { DTYPE = 1, SHAPE = 2, RANGE = 4 };
    int seen = 0, n = 0;
    const char *key = "";
    if (!need(c, '{', "{"))
        return false;
    do {
        if (!read_name(c, &key) || !need(c, ':', ":"))
            return false;
        int bit = !strcmp(key, "dtype") ? DTYPE : !strcmp(key, "shape") ? SHAPE : !strcmp(key, "data_offsets") ? RANGE : 0;
        if (!bit || seen & bit)
            return err_set(c->e, "%s: tensor %s has %s field \"%s\", expected dtype, shape and data_offsets", c->path, t->name,
                           bit ? "a second" : "an unknown", key);
        seen |= bit;
        if (!(bit == DTYPE ? read_name(c, dtype)
              : bit == SHAPE ? read_numbers(c, t->shape, TENSOR_MAX_DIMS, &t->n_dims)
              : read_numbers(c, range, 2, &n)))
            return false;
    } while (take(c, ','));
    if (!need(c, '}', "}"))
        return false;
    if (seen != (DTYPE | SHAPE | RANGE) || n != 2)
        return err_set(c->e, "%s: tensor %s lacks dtype, shape or two data_offsets", c->path, t->name);
    return true;
}

/* True if the byte range fits the file, and dtype and shape fit the range. */
static bool check_entry(const struct cursor *c, struct tensor *t, const char *dtype, const uint64_t range[2], uint64_t data_at,
                        uint64_t data_bytes)
{
    uint64_t bytes = 0;
    for (int i = 0; i < N_DTYPES; i++)
        if (!strcmp(dtypes[i].name, dtype)) {
            t->dtype = dtypes[i].dtype;
            bytes = dtypes[i].bytes;
        }
    if (!bytes)
        return err_set(c->e, "%s: tensor %s has the unknown dtype \"%.32s\"", c->path, t->name, dtype);
    for (int i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(bytes, t->shape[i], &bytes))
            return err_set(c->e, "%s: tensor %s has a shape of more than 2^64 bytes", c->path, t->name);
    if (range[0] > range[1] || range[1] > data_bytes)
        return err_set(c->e, "%s: tensor %s lies at bytes %llu to %llu, but the file holds %llu bytes of data", c->path, t->name,
                       (unsigned long long)range[0], (unsigned long long)range[1], (unsigned long long)data_bytes);
    if (range[1] - range[0] != bytes)
        return err_set(c->e, "%s: tensor %s has %llu bytes, but its dtype and shape need %llu", c->path, t->name,
                       (unsigned long long)(range[1] - range[0]), (unsigned long long)bytes);
    t->offset = data_at + range[0];
    t->bytes = bytes;
    return true;
}

/* Reads the header's object into the list of tensors; each entry is checked against the size of the data. */
static bool read_header(struct safetensors *s, struct cursor *c, uint64_t data_at, uint64_t data_bytes)
{
    int cap = 0;
    if (!need(c, '{', "{"))
        return false;
    if (take(c, '}'))
        goto end;
    do {
        struct tensor t = {0};
        const char *dtype = NULL;
        uint64_t range[2];
        if (!read_name(c, &t.name) || !need(c, ':', ":"))
            return false;
        if (!strcmp(t.name, "__metadata__")) {
            if (!skip_metadata(c))
                return false;
            continue;
        }
        if (!read_entry(c, &t, &dtype, range) || !check_entry(c, &t, dtype, range, data_at, data_bytes))
            return false;
        t.hash = safetensors_hash(t.name);
        s->tensors = memory_grow(s->tensors, s->n_tensors, &cap, sizeof *s->tensors);
        s->tensors[s->n_tensors++] = t;
    } while (take(c, ','));
    if (!need(c, '}', "}"))
        return false;
end:
    skip_space(c);
    return c->p == c->end || expected(c, "nothing after the last }");
}

/* Builds the hash table of names, at most half full.  False if a name is there twice. */
static bool build_table(struct safetensors *s, struct err *e)
{
    s->n_slots = 16;
    while (s->n_slots < 2 * (uint64_t)s->n_tensors)
        s->n_slots *= 2;
    s->slots = memory_zeroed(s->n_slots, sizeof *s->slots);
    for (int i = 0; i < s->n_tensors; i++) {
        uint64_t at = s->tensors[i].hash & (s->n_slots - 1);
        for (; s->slots[at]; at = (at + 1) & (s->n_slots - 1)) {
            const struct tensor *t = &s->tensors[s->slots[at] - 1];
            if (t->hash == s->tensors[i].hash && !strcmp(t->name, s->tensors[i].name))
                return err_set(e, "%s: tensor %s is there twice", s->path, t->name);
        }
        s->slots[at] = i + 1;
    }
    return true;
}

static int by_offset(const void *a, const void *b)
{
    const struct tensor *x = *(const struct tensor *const *)a, *y = *(const struct tensor *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* False if the bytes of two tensors overlap. */
static bool check_overlap(const struct safetensors *s, struct err *e)
{
    bool ok = true, sorted = true;
    for (int i = 1; i < s->n_tensors && sorted; i++)
        sorted = s->tensors[i].offset >= s->tensors[i - 1].offset + s->tensors[i - 1].bytes;
    if (sorted)                         /* as every usual writer has it */
        return true;
    const struct tensor **order = memory_alloc((size_t)s->n_tensors * sizeof *order);
    for (int i = 0; i < s->n_tensors; i++)
        order[i] = &s->tensors[i];
    qsort(order, (size_t)s->n_tensors, sizeof *order, by_offset);
    for (int i = 1; i < s->n_tensors && ok; i++)
        if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
            ok = err_set(e, "%s: tensors %s and %s overlap", s->path, order[i - 1]->name, order[i]->name);
    free(order);
    return ok;
}

/* Parses s->header, which is `len` bytes and a 0. */
static bool parse(struct safetensors *s, size_t len, uint64_t data_at, uint64_t data_bytes, struct err *e)
{
    struct cursor c = {s->header, s->header + len, s->header, s->path, e};
    return read_header(s, &c, data_at, data_bytes) && build_table(s, e) && check_overlap(s, e);
}

static void start(struct safetensors *s, const char *path)
{
    *s = (struct safetensors){.path = memory_strdup(path), .fd = -1};
}

bool safetensors_parse(struct safetensors *s, const char *json, size_t len, uint64_t data_bytes, const char *path, struct err *e)
{
    start(s, path);
    if (data_bytes > UINT64_MAX / 2)
        return err_set(e, "%s is too large", path);
    s->header = memory_alloc(len + 1);
    memcpy(s->header, json, len);
    s->header[len] = 0;
    return parse(s, len, 8 + (uint64_t)len, data_bytes, e);
}

static bool read_bytes(const struct safetensors *s, void *dst, uint64_t offset, uint64_t n, struct err *e)
{
    if (file_read_at(s->fd, dst, n, offset))
        return true;
    return errno ? err_set(e, "cannot read %s: %s", s->path, strerror(errno))
                 : err_set(e, "%s has shrunk: it had %llu bytes when it was opened and now ends before byte %llu", s->path,
                           (unsigned long long)s->size, (unsigned long long)(offset + n));
}

/* Opens the file and takes its size; only a regular file is allowed. */
static bool open_file(struct safetensors *s, struct err *e)
{
    struct stat st;
    s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);    /* a FIFO must not block */
    if (s->fd < 0 || fstat(s->fd, &st))
        return err_set(e, "cannot open %s: %s", s->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(e, "%s is not a regular file", s->path);
    s->size = (uint64_t)st.st_size;
    return true;
}

bool safetensors_open(struct safetensors *s, const char *path, struct err *e)
{
    uint8_t raw[8];
    uint64_t len = 0;
    start(s, path);
    if (!open_file(s, e))
        return false;
    if (s->size < 8)
        return err_set(e, "%s has %llu bytes, expected a safetensors file of at least 8", path, (unsigned long long)s->size);
    if (!read_bytes(s, raw, 0, 8, e))
        return false;
    for (int i = 0; i < 8; i++)
        len |= (uint64_t)raw[i] << 8 * i;
    if (len > MAX_HEADER || len > s->size - 8)
        return err_set(e, "%s: the header is said to have %llu bytes, expected at most %llu", path, (unsigned long long)len,
                       (unsigned long long)(s->size - 8 < MAX_HEADER ? s->size - 8 : MAX_HEADER));
    s->header = memory_alloc(len + 1);
    s->header[len] = 0;
    if (!read_bytes(s, s->header, 8, len, e) || !parse(s, len, 8 + len, s->size - 8 - len, e))
        return false;
    void *map = mmap(NULL, s->size, PROT_READ, MAP_PRIVATE, s->fd, 0);
    if (map == MAP_FAILED)
        return err_set(e, "cannot map %s: %s", path, strerror(errno));
    s->map = map;
    mapped_add(map, s->size, path);
    return true;
}

void safetensors_drop_header(struct safetensors *s)
{
    free(s->tensors);
    free(s->slots);
    free(s->header);
    s->tensors = NULL;
    s->slots = NULL;
    s->header = NULL;
    s->n_tensors = 0;
    s->n_slots = 0;
}

void safetensors_close(struct safetensors *s)
{
    if (s->map) {
        mapped_drop(s->map);
        munmap((void *)(uintptr_t)s->map, s->size);
    }
    if (s->path && s->fd >= 0)
        close(s->fd);
    safetensors_drop_header(s);
    free(s->path);
    *s = (struct safetensors){.fd = -1};
}

const struct tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    uint64_t hash = safetensors_hash(name);
    for (uint64_t at = hash; s->n_slots; at++) {
        int i = s->slots[at & (s->n_slots - 1)];
        if (!i)
            break;
        if (s->tensors[i - 1].hash == hash && !strcmp(s->tensors[i - 1].name, name))
            return &s->tensors[i - 1];
    }
    return NULL;
}

bool safetensors_read(const struct safetensors *s, const struct tensor *t, void *dst, struct err *e)
{
    return read_bytes(s, dst, t->offset, t->bytes, e);
}

bool safetensors_populate(const struct safetensors *s, uint64_t offset, uint64_t n, struct err *e)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = offset / page * page;
    CHECK(offset <= s->size && n <= s->size - offset);
    if (!n || !madvise((void *)(uintptr_t)(s->map + begin), offset + n - begin, MADV_POPULATE_READ))
        return true;
    /* An older kernel, or a file that has shrunk: reading finds out which, and fills the page cache at least. */
    char *scratch = memory_alloc(SCRATCH);
    bool ok = true;
    for (uint64_t done = 0; done < n && ok; done += SCRATCH)
        ok = read_bytes(s, scratch, offset + done, n - done < SCRATCH ? n - done : SCRATCH, e);
    free(scratch);
    return ok;
}
