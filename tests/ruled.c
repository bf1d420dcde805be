/* Writes the test checkpoints from their manifests: every weight follows from its tensor's name and its place, so that no file of weights is stored.
 * usage: ruled MANIFEST DIRECTORY    writes the manifest's files and model.safetensors.index.json; fails if a file is not what the manifest says.
 * The rule and the form of a manifest: tests/data/model/README.md. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 4096, LINE = 512 };

/* A number format; bits: of the significand, with the leading one; least: exponent of the smallest normal number. */
struct format { const char *name; int bytes, bits, least; };
static const struct format formats[] = {
    {"BF16", 2, 8, -126}, {"F16", 2, 11, -14}, {"F32", 4, 24, -126}, {"F8_E4M3", 1, 4, -6}, {"I32", 4, 0, 0},
};

enum rule { ZERO, CODES, FILL, BELL, THIRDS, SCALES, BLOCKS };
static const struct { const char *name; int n_args; } rules[] = {
    [ZERO] = {"zero", 0}, [CODES] = {"codes", 0}, [FILL] = {"fill", 1}, [BELL] = {"bell", 2}, [THIRDS] = {"thirds", 2}, [SCALES] = {"scales", 2},
    [BLOCKS] = {"blocks", 3},
};

struct tensor {
    char line[LINE];            /* cut into its fields, to which the pointers lead */
    const char *name, *shape, *of;
    const struct format *format;
    enum rule rule;
    int64_t  arg[3];
    uint64_t n, at, void_from, void_to, columns;
    uint64_t seed, scales;      /* of its numbers; of the scales of a block matrix */
};

static void fail(const char *which, const char *what)
{
    fprintf(stderr, "ruled: %s: %s\n", which, what);
    exit(1);
}

/* FNV-1a with 64 bits. */
static const uint64_t fnv_begin = 0xcbf29ce484222325;
static uint64_t fnv(uint64_t h, const void *data, uint64_t n)
{
    for (const unsigned char *p = data; n--; p++)
        h = (h ^ *p) * 0x100000001b3;
    return h;
}

/* Output number i of the generator splitmix64. */
static uint64_t random_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

/* The code of p / 2^32, rounded half to even. */
static uint32_t encode(int64_t p, const struct format *f)
{
    uint64_t a = p < 0 ? -(uint64_t)p : (uint64_t)p, q;
    int top = 0;
    if (!a)
        return 0;
    while (a >> top > 1)
        top++;
    top = top < f->least + 32 ? f->least + 32 : top;    /* subnormal */
    int drop = top - (f->bits - 1);
    if (drop <= 0) {
        q = a << -drop;
    } else {
        uint64_t rest = a & (((uint64_t)1 << drop) - 1), half = (uint64_t)1 << (drop - 1);
        q = a >> drop;
        q += rest > half || (rest == half && (q & 1));
    }
    q += (uint64_t)(top - f->least - 32) << (f->bits - 1);
    if (f->bytes == 1 && q > 126)       /* E4M3: 448, the next code is NaN */
        q = 126;
    return (uint32_t)q | (uint32_t)(p < 0) << (f->bytes * 8 - 1);
}

/* The scale of a block of 128 x 128, without its power of two. */
static int64_t block_scale(uint64_t seed, uint64_t block, int64_t least)
{
    return least + (int64_t)(random_at(seed, block) & 31);
}

static uint32_t element(const struct tensor *t, uint64_t i)
{
    if (t->rule == ZERO || (i >= t->void_from && i < t->void_to))
        return 0;
    if (t->rule == FILL)
        return (uint32_t)t->arg[0];
    if (t->rule == SCALES)
        return encode(block_scale(t->seed, i, t->arg[0]) << t->arg[1], t->format);
    uint64_t h = random_at(t->seed, t->at + i);
    if (t->rule == CODES)
        return (uint32_t)h;
    int64_t sum = (int64_t)((h & 0xffff) + (h >> 16 & 0xffff) + (h >> 32 & 0xffff) + (h >> 48)) - 131070;
    if (t->rule == BLOCKS) {
        uint64_t block = i / t->columns / 128 * ((t->columns + 127) / 128) + i % t->columns / 128;
        return encode(sum * ((t->arg[0] << (32 - t->arg[2])) / block_scale(t->scales, block, t->arg[1])), t->format);
    }
    int64_t p = sum * t->arg[0] + t->arg[1];
    return encode(t->rule == THIRDS && i % 3 == 0 ? -p : p, t->format);
}

/* --- the manifest --- */

/* Reads what follows the rule: its numbers, and of=, at=, void=. */
static void parse_arguments(struct tensor *t, char **field, int n)
{
    int n_args = 0;
    for (int i = 0; i < n; i++) {
        char *end;
        if (!strncmp(field[i], "of=", 3)) {
            t->of = field[i] + 3;
        } else if (!strncmp(field[i], "at=", 3)) {
            t->at = strtoull(field[i] + 3, NULL, 10);
        } else if (!strncmp(field[i], "void=", 5)) {
            t->void_from = strtoull(field[i] + 5, &end, 10);
            t->void_to = *end == '-' ? strtoull(end + 1, NULL, 10) : 0;
        } else if (n_args < rules[t->rule].n_args) {
            t->arg[n_args++] = strtoll(field[i], NULL, t->rule == FILL ? 16 : 10);
        }
    }
    if (n_args < rules[t->rule].n_args)
        fail(t->name, "its rule needs more numbers");
}

static void parse_tensor(struct tensor *t, const char *line, uint64_t seed)
{
    char *field[12] = {0};
    int n = 0;
    size_t rule = 0;
    *t = (struct tensor){.n = 1};
    snprintf(t->line, sizeof t->line, "%s", line);
    for (char *p = strtok(t->line, " "); p && n < 12; p = strtok(NULL, " "))
        field[n++] = p;
    if (n < 5)
        fail(line, "expected a name, a format, a shape and a rule");
    t->name = t->of = field[1];
    t->shape = field[3];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(field[2], formats[i].name))
            t->format = &formats[i];
    while (rule < sizeof rules / sizeof *rules && strcmp(field[4], rules[rule].name))
        rule++;
    if (!t->format || rule == sizeof rules / sizeof *rules)
        fail(t->name, "unknown format or rule");
    t->rule = (enum rule)rule;
    for (char *p = field[3]; *p; p += *p == ',')
        t->n *= t->columns = strtoull(p, &p, 10);
    parse_arguments(t, field + 5, n - 5);
    t->seed = fnv(fnv_begin, t->of, strlen(t->of)) ^ seed;
    t->scales = fnv(fnv(fnv_begin, t->name, strlen(t->name)), "_scale_inv", 10) ^ seed;
}

/* --- the files --- */

struct file {
    char name[LINE];            /* "": none */
    uint64_t bytes, sum;        /* what it must have: length, FNV-1a */
    struct tensor *tensors;     /* [n], room for MAX_TENSORS */
    int n;
};

static uint64_t put(FILE *f, const void *data, uint64_t n, uint64_t sum)
{
    fwrite(data, 1, n, f);
    return fnv(sum, data, n);
}

static uint64_t put_tensor(FILE *f, const struct tensor *t, uint64_t sum)
{
    size_t width = (size_t)t->format->bytes;
    unsigned char *data = malloc(t->n * width);
    if (!data)
        fail(t->name, "no memory");
    for (uint64_t i = 0; i < t->n; i++) {
        uint32_t v = element(t, i);
        for (size_t b = 0; b < width; b++)
            data[i * width + b] = (unsigned char)(v >> 8 * b);
    }
    sum = put(f, data, t->n * width, sum);
    free(data);
    return sum;
}

static void write_file(const struct file *file, const char *directory)
{
    char path[4 * LINE], *head = malloc(64 + (size_t)file->n * 2 * LINE);
    size_t room = 64 + (size_t)file->n * 2 * LINE, k = 0;
    uint64_t at = 0, sum = fnv_begin;
    unsigned char size[8];
    snprintf(path, sizeof path, "%s/%s", directory, file->name);
    FILE *f = fopen(path, "wb");
    if (!head || !f)
        fail(path, "cannot be written");
    k += (size_t)snprintf(head, room, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < file->n; i++) {
        const struct tensor *t = &file->tensors[i];
        uint64_t end = at + t->n * (uint64_t)t->format->bytes;
        k += (size_t)snprintf(head + k, room - k, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", t->name,
                              t->format->name, t->shape, at, end);
        at = end;
    }
    for (head[k++] = '}'; k % 8; )
        head[k++] = ' ';
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)k >> 8 * i);
    sum = put(f, head, k, put(f, size, 8, sum));
    for (int i = 0; i < file->n; i++)
        sum = put_tensor(f, &file->tensors[i], sum);
    free(head);
    if (fclose(f))
        fail(path, "cannot be written");
    if (sum != file->sum || 8 + k + at != file->bytes)
        fail(path, "not the bytes that the manifest has a sum of");
}

int main(int argc, char **argv)
{
    static struct tensor tensors[MAX_TENSORS];
    struct file file = {.tensors = tensors}, next = {.tensors = tensors};
    char line[LINE], path[4 * LINE], part[4 * LINE + 8];
    uint64_t seed = 0, total = 0;
    bool more = true, listed = false;
    if (argc != 3)
        fail("usage", "ruled MANIFEST DIRECTORY");
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", argv[2]);
    snprintf(part, sizeof part, "%s.part", path);
    FILE *in = fopen(argv[1], "r"), *index = in ? fopen(part, "w") : NULL;
    if (!index)
        fail(in ? part : argv[1], "cannot be opened");
    while (more) {
        more = fgets(line, sizeof line, in) != NULL;
        line[more ? strcspn(line, "\n") : 0] = 0;
        bool begins = sscanf(line, "file %511s %" SCNu64 " %" SCNx64, next.name, &next.bytes, &next.sum) == 3;
        if (begins || !more) {
            if (*file.name)
                write_file(&file, argv[2]);
            file = next;
        } else if (*line == '+' || *line == '-') {
            if (file.n == MAX_TENSORS)
                fail(file.name, "too many tensors");
            struct tensor *t = &tensors[file.n++];
            parse_tensor(t, line, seed);
            if (*line == '+')
                fprintf(index, "%s\"%s\": \"%s\"", listed ? ",\n" : "", t->name, file.name);
            listed |= *line == '+';
        } else if (sscanf(line, "total %" SCNu64, &total) == 1) {
            fprintf(index, "{\n\"metadata\": {\n\"total_size\": %" PRIu64 "\n},\n\"weight_map\": {\n", total);
        } else if (sscanf(line, "seed %" SCNu64, &seed) != 1 && *line && *line != '#') {
            fail(line, "not a line of a manifest");
        }
    }
    fprintf(index, "\n}\n}\n");
    fclose(in);
    if (fclose(index) || rename(part, path))            /* last, as a sign that all is there */
        fail(path, "cannot be written");
    return 0;
}
