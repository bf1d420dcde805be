/* Loading against the disk: all shards of a directory read by as many threads past the page cache, then the same directory into the
 * memory of the GPU, packed.  usage: bench_load DIR [THREADS] */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "model/reader.h"
#include "model/upload.h"

enum { SPAN = 8 << 20, MAX_FILES = 256 };

struct shards_on_disk {
    char    *paths[MAX_FILES];
    uint64_t bytes[MAX_FILES];
    int      n;
};

static void list(struct shards_on_disk *s, const char *dir)
{
    DIR *d = opendir(dir);
    struct stat st;
    for (struct dirent *e; d && s->n < MAX_FILES && (e = readdir(d));) {
        const char *dot = strrchr(e->d_name, '.');
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (!dot || strcmp(dot, ".safetensors") || stat(path, &st))
            continue;
        s->paths[s->n] = strdup(path);
        s->bytes[s->n++] = (uint64_t)st.st_size;
    }
    if (d)
        closedir(d);
}

/* So that neither run finds the files in memory. */
static void drop_cache(const struct shards_on_disk *s)
{
    for (int i = 0; i < s->n; i++) {
        int fd = open(s->paths[i], O_RDONLY);
        fsync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

static double raw_gb_s(const struct shards_on_disk *s, int n_threads, bool *direct, struct err *e)
{
    enum { BYTES = SPAN + READER_PAGE };
    int n_jobs = 0, n_buffers = n_threads + 8;
    uint64_t total = 0;
    struct read_job *jobs = NULL;
    char *memory = NULL, *buffers[64 + 8];
    for (int i = 0; i < s->n; i++)
        for (uint64_t at = 0; at < s->bytes[i]; at += SPAN) {
            jobs = realloc(jobs, (size_t)(n_jobs + 1) * sizeof *jobs);
            CHECK(jobs);
            uint64_t left = s->bytes[i] - at;
            jobs[n_jobs++] = (struct read_job){.file = i, .offset = at, .bytes = left < SPAN ? left : SPAN};
            total += jobs[n_jobs - 1].bytes;
        }
    CHECK(!posix_memalign((void **)&memory, READER_PAGE, (size_t)n_buffers * BYTES));
    memset(memory, 0, (size_t)n_buffers * BYTES);
    for (int i = 0; i < n_buffers; i++)
        buffers[i] = memory + (size_t)i * BYTES;
    int64_t start = clock_ns();
    struct reader_options o = {.paths = (const char *const *)s->paths, .n_paths = s->n, .jobs = jobs, .n_jobs = n_jobs, .buffers = buffers,
                               .n_buffers = n_buffers, .n_threads = n_threads, .buffer_bytes = BYTES};
    struct reader *r = reader_open(&o, e);
    bool ok = r;
    for (int n = 0; ok && n < n_jobs;) {
        struct read_block b;
        enum read_result result = reader_next(r, &b, 1000, e);
        ok = result != READ_FAILED;
        if (result != READ_BLOCK)
            continue;
        reader_give_back(r, b.buffer);
        n++;
    }
    double ms = clock_ms_since(start);
    *direct = r && reader_is_direct(r);
    reader_close(r);
    free(jobs);
    free(memory);
    return ok ? (double)total / ms / 1e6 : 0;
}

struct upload_rate {
    double ms, gb_s;
    size_t read;
};

static bool count(size_t done, size_t total, void *arg)
{
    (void)done;
    *(size_t *)arg = total;
    return true;
}

static bool upload(struct upload_rate *u, const char *dir, struct dev *d, int n_threads, struct err *e)
{
    struct model_config c;
    struct weights w;
    int64_t opened = clock_ns();
    if (!config_load(&c, dir, e) || !weights_open(&w, &c, dir, e))
        return false;
    double open_ms = clock_ms_since(opened), packed = (double)upload_plan_bytes(&w, &c, HEAD_INT8, MTP_FP8);
    int64_t start = clock_ns();
    bool ok = weights_upload(&w, &c, d, &(struct upload_options){.heads = HEAD_INT8, .mtp = MTP_FP8, .n_threads = n_threads}, count, &u->read, e);
    u->ms = clock_ms_since(start);
    u->gb_s = (double)u->read / u->ms / 1e6;
    if (ok)
        printf("headers: %.0f ms, %d tensors; packed: %.2f GB on the device\n", open_ms, w.stats.n_tensors, packed / 1e9);
    weights_close(&w);
    return ok;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct shards_on_disk s = {.n = 0};
    struct upload_rate u = {0};
    int n_threads = argc > 2 ? atoi(argv[2]) : 8;
    struct dev *d = dev_open("cuda", 0, &e);
    if (argc < 2 || !d || n_threads < 1 || n_threads > 64) {
        printf("%s\n", argc < 2 ? "usage: bench_load DIR [THREADS]; nothing was measured" : d ? "threads: 1 to 64" : e.msg);
        dev_close(d);
        return 0;
    }
    list(&s, argv[1]);
    double best_raw = 0, best = 0;
    for (int i = 0; i < 3; i++) {
        bool direct;
        drop_cache(&s);
        double raw = raw_gb_s(&s, n_threads, &direct, &e);
        drop_cache(&s);
        if (!raw || !upload(&u, argv[1], d, n_threads, &e)) {
            fprintf(stderr, "%s\n", e.msg);
            return 1;
        }
        printf("raw read %6.2f GB/s (%s)   upload %6.2f GB/s (%.2f GB in %.0f ms)   %.0f %%\n", raw, direct ? "O_DIRECT" : "buffered", u.gb_s,
               (double)u.read / 1e9, u.ms, 100 * u.gb_s / raw);
        best_raw = raw > best_raw ? raw : best_raw;
        best = u.gb_s > best ? u.gb_s : best;
    }
    printf("best of 3: raw read %.2f GB/s, upload %.2f GB/s, %.0f %%, %d threads\n", best_raw, best, 100 * best / best_raw, n_threads);
    dev_close(d);
    for (int i = 0; i < s.n; i++)
        free(s.paths[i]);
    return 0;
}
