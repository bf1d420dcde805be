/* The CPU backend: the operations of kernels/cpu on a few threads.  An operation is cut into units whose results do not
 * depend on the cut; idle threads take the next few units until none are left. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "kernels/cpu/pool.h"
#include "kernels/fill.h"

enum {
    MAX_THREADS = 64,
    SPIN = 4000,                        /* looks at the job counter before a worker sleeps: about 20 us, a few operations */
    SMALL = 48 * 1024,                  /* an operation that moves fewer bytes runs on the caller: waking costs more */
};

struct cpu {
    struct dev      dev;
    struct cpu_pool pool;               /* for step operations */
    void           *scratch;
    size_t          scratch_bytes;
    struct dev_graph *recording;        /* between graph_begin and graph_end */
    int             n_threads;          /* the caller is one of them */
    pthread_t       threads[MAX_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    bool            quit;
    /* the job: written by the caller before `job` moves on, read by workers after they saw it move */
    cpu_units      *fn;
    const void     *args;
    int             n_units, grain;
    atomic_uint     job;
    atomic_int      next, busy;
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_units(struct cpu *c)
{
    for (;;) {
        int begin = atomic_fetch_add(&c->next, c->grain);
        if (begin >= c->n_units)
            return;
        c->fn(c->args, begin, begin + c->grain < c->n_units ? begin + c->grain : c->n_units);
    }
}

/* A worker thread: spins briefly, then sleeps, until there is a job, and takes units of it. */
static void *worker(void *arg)
{
    struct cpu *c = arg;
    for (unsigned seen = 0;;) {
        int spin = 0;
        while (atomic_load(&c->job) == seen && spin++ < SPIN)
            relax();
        if (atomic_load(&c->job) == seen) {
            pthread_mutex_lock(&c->lock);
            while (atomic_load(&c->job) == seen && !c->quit)
                pthread_cond_wait(&c->wake, &c->lock);
            bool quit = c->quit;
            pthread_mutex_unlock(&c->lock);
            if (quit)
                return NULL;
        }
        seen++;                         /* the caller waits for every worker, so jobs are never skipped */
        take_units(c);
        atomic_fetch_sub(&c->busy, 1);
    }
}

/* Runs n_units units of an operation, on all threads if it moves at least SMALL bytes, and returns when they are done. */
static void run(struct cpu *c, cpu_units *fn, const void *args, int n_units, size_t bytes)
{
    if (c->n_threads == 1 || n_units < 2 || bytes < SMALL) {
        fn(args, 0, n_units);
        return;
    }
    c->fn = fn;
    c->args = args;
    c->n_units = n_units;
    c->grain = n_units / (c->n_threads * 4) + 1;
    atomic_store(&c->next, 0);
    atomic_store(&c->busy, c->n_threads - 1);
    pthread_mutex_lock(&c->lock);
    atomic_fetch_add(&c->job, 1);
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
    take_units(c);
    for (int spin = 0; atomic_load(&c->busy);)
        if (++spin < SPIN)
            relax();
        else
            sched_yield();
}

#define OP(name)                                                                                  \
    static void name##_run(struct dev *d, const struct name##_args *a)                            \
    {                                                                                             \
        run((struct cpu *)d, name##_units_of, a, name##_units(a), name##_bytes(a));               \
    }
#include "kernels/ops.def"
#undef OP

static const struct dev_ops ops = {
#define OP(name) .name = name##_run,
#include "kernels/ops.def"
#undef OP
};

/* ---- steps ---- */

static struct cpu *cpu_of_pool(struct cpu_pool *p)
{
    return (struct cpu *)(void *)((char *)p - offsetof(struct cpu, pool));
}

static void pool_run(struct cpu_pool *p, cpu_units *fn, const void *args, int n, size_t bytes)
{
    run(cpu_of_pool(p), fn, args, n, bytes);
}

/* Grows to the largest step that was asked for. */
static void *pool_scratch(struct cpu_pool *p, size_t bytes)
{
    struct cpu *c = cpu_of_pool(p);
    if (bytes > c->scratch_bytes) {
        free(c->scratch);
        c->scratch_bytes = (bytes + 63) / 64 * 64;
        c->scratch = memory_got(aligned_alloc(64, c->scratch_bytes));
    }
    return c->scratch;
}

/* A recorded step is a list of calls with copies of their arguments. */
struct call {
    void (*run)(struct cpu_pool *p, const void *args);
    void  *args;
};
struct dev_graph {
    struct call *calls;
    size_t       n, cap;
};

static void record(struct dev_graph *g, void (*fn)(struct cpu_pool *p, const void *args), const void *args, size_t bytes)
{
    if (g->n == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 64;
        g->calls = memory_resized(g->calls, g->cap * sizeof *g->calls);
    }
    g->calls[g->n++] = (struct call){fn, memcpy(memory_alloc(bytes), args, bytes)};
}

#define OP(name)                                                                                  \
    static void name##_call(struct cpu_pool *p, const void *args) { name##_cpu(p, args); }        \
    static void name##_step(struct dev *d, const struct name##_args *a)                           \
    {                                                                                             \
        struct cpu *c = (struct cpu *)d;                                                          \
        if (c->recording)                                                                         \
            record(c->recording, name##_call, a, sizeof *a);                                      \
        else                                                                                      \
            name##_cpu(&c->pool, a);                                                              \
    }
#include "kernels/step.def"
#undef OP

static const struct dev_step_ops step_ops = {
#define OP(name) .name = name##_step,
#include "kernels/step.def"
#undef OP
};

static void cpu_graph_begin(struct dev *d)
{
    struct cpu *c = (struct cpu *)d;
    CHECK(!c->recording);
    c->recording = memory_zeroed(1, sizeof *c->recording);
}

static struct dev_graph *cpu_graph_end(struct dev *d, struct err *e)
{
    struct cpu *c = (struct cpu *)d;
    struct dev_graph *g = c->recording;
    (void)e;
    c->recording = NULL;
    return g;
}

static void cpu_graph_launch(struct dev *d, struct dev_graph *g)
{
    for (size_t i = 0; i < g->n; i++)
        g->calls[i].run(&((struct cpu *)d)->pool, g->calls[i].args);
}

static void cpu_graph_free(struct dev *d, struct dev_graph *g)
{
    (void)d;
    for (size_t i = 0; g && i < g->n; i++)
        free(g->calls[i].args);
    if (g)
        free(g->calls);
    free(g);
}

/* ---- memory ---- */

enum { ALIGN = 64 };

/* Returns zeroed memory, aligned for vectors, with the pointer to free before it.  It comes from calloc(), which leaves pages untouched:
 * a KV cache is large, and most conversations are short. */
static void *cpu_alloc(struct dev *d, size_t bytes)
{
    (void)d;
    char *block = bytes < SIZE_MAX - 2 * ALIGN ? calloc(1, bytes + 2 * ALIGN) : NULL;
    if (!block)
        return NULL;
    void **p = (void **)(block + 2 * ALIGN - (uintptr_t)block % ALIGN);
    p[-1] = block;
    return p;
}

static void cpu_free(struct dev *d, void *p)
{
    (void)d;
    if (p)
        free(((void **)p)[-1]);
}

static void cpu_copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
    (void)d;
    memmove(dst, src, bytes);
}

static void cpu_copy_rows(struct dev *d, void *dst, size_t dst_step, const void *src, size_t src_step, size_t bytes, int n)
{
    for (int i = 0; i < n; i++)
        cpu_copy(d, (char *)dst + (size_t)i * dst_step, (const char *)src + (size_t)i * src_step, bytes);
}

static void cpu_zero(struct dev *d, void *p, size_t bytes)
{
    (void)d;
    memset(p, 0, bytes);
}

static void cpu_fill(struct dev *d, void *p, size_t bytes, const struct fill *f)
{
    uint64_t *words = p;
    (void)d;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = fill_word(f, i);
}

static bool cpu_reserve(struct dev *d, size_t bytes)
{
    (void)d, (void)bytes;
    return true;
}

static bool cpu_finish(struct dev *d, struct err *e)
{
    (void)d, (void)e;                   /* every operation has ended when it returns, and none can fail */
    return true;
}

/* ---- the plain read */

enum { READ_UNIT = 1 << 20, READ_UNITS = 512, READ_PASSES = 4 };

struct read_args { uint64_t *data; };

/* Reads memory; the result is used, so that the compiler keeps the loads. */
static void read_units(const void *args, int begin, int end)
{
    enum { WORDS = READ_UNIT / sizeof(uint64_t) };
    const struct read_args *a = args;
    uint64_t sum = 0;
    for (size_t i = (size_t)begin * WORDS; i < (size_t)end * WORDS; i++)
        sum += a->data[i];
    CHECK(sum == (uint64_t)(end - begin) * WORDS * 0x0101010101010101u);
}

/* Returns the best speed of several passes of all threads. */
static double cpu_read_gb_s(struct dev *d, size_t asked, struct err *e)
{
    const int units = asked && asked < (size_t)READ_UNIT * READ_UNITS ? (int)(asked / READ_UNIT) + 1 : READ_UNITS;
    const size_t bytes = (size_t)READ_UNIT * (size_t)units;
    struct read_args a = {.data = cpu_alloc(d, bytes)};
    double best = 0;
    if (!a.data) {
        err_set(e, "no memory for the plain read: %zu MiB asked for", bytes >> 20);
        return 0;
    }
    memset(a.data, 1, bytes);
    for (int pass = 0; pass < READ_PASSES; pass++) {
        int64_t start = clock_ns();
        run((struct cpu *)d, read_units, &a, units, bytes);
        best = fmax(best, (double)bytes / clock_ms_since(start) * 1e-6);
    }
    cpu_free(d, a.data);
    return best;
}

/* Ends the worker threads and frees the device. */
static void cpu_close(struct dev *d)
{
    struct cpu *c = (struct cpu *)d;
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
    for (int i = 1; i < c->n_threads; i++)
        pthread_join(c->threads[i], NULL);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c->scratch);
    free(c);
}

static int usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

struct dev *dev_open_cpu(int n_threads, struct err *e)
{
    int n = n_threads > 0 ? n_threads : usable_cores();
    struct cpu *c = memory_zeroed(1, sizeof *c);
    c->dev = (struct dev){.ops = &ops, .step = &step_ops, .caps = dev_caps("cpu"), .name = "cpu", .alloc = cpu_alloc, .alloc_weights = cpu_alloc,
                          .alloc_kv = cpu_alloc, .free = cpu_free, .alloc_host = cpu_alloc, .free_host = cpu_free, .copy = cpu_copy,
                          .copy_rows = cpu_copy_rows, .zero = cpu_zero, .fill = cpu_fill, .reserve = cpu_reserve, .finish = cpu_finish,
                          .read_gb_s = cpu_read_gb_s, .close = cpu_close, .graph_begin = cpu_graph_begin, .graph_end = cpu_graph_end,
                          .graph_launch = cpu_graph_launch, .graph_free = cpu_graph_free};
    c->pool = (struct cpu_pool){.run = pool_run, .scratch = pool_scratch};
    c->n_threads = n < MAX_THREADS ? n : MAX_THREADS;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    for (int i = 1; i < c->n_threads; i++)
        if (pthread_create(&c->threads[i], NULL, worker, c)) {
            c->n_threads = i;
            cpu_close(&c->dev);
            err_set(e, "cannot start %d worker threads: the system refused thread %d; try --threads %d", n, i + 1, i);
            return NULL;
        }
    return &c->dev;
}

int dev_cpu_threads(const struct dev *d)
{
    return d->ops == &ops ? ((const struct cpu *)d)->n_threads : 0;
}
