/* The CPU backend: the operations of kernels/cpu on a few threads.  An operation is cut into units whose results do not
 * depend on the cut; idle threads take the next few units until none are left. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dev.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

enum {
    MAX_THREADS = 64,
    SPIN = 4000,                        /* looks at the job counter before a worker sleeps: about 20 us, a few operations */
    SMALL = 48 * 1024,                  /* an operation that moves fewer bytes runs on the caller: waking costs more */
};

typedef void unit_fn(const void *args, int begin, int end);

struct cpu {
    struct dev      dev;
    int             n_threads;          /* the caller is one of them */
    pthread_t       threads[MAX_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    bool            quit;
    /* the job: written by the caller before `job` moves on, read by workers after they saw it move */
    unit_fn        *fn;
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

static void run(struct cpu *c, unit_fn *fn, const void *args, int n_units, size_t bytes)
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
    static void name##_units_fn(const void *args, int begin, int end) { name##_cpu(args, begin, end); } \
    static void name##_run(struct dev *d, const struct name##_args *a)                            \
    {                                                                                             \
        run((struct cpu *)d, name##_units_fn, a, name##_units(a), name##_bytes(a));               \
    }
#include "kernels/ops.def"
#undef OP

static const struct dev_ops ops = {
#define OP(name) .name = name##_run,
#include "kernels/ops.def"
#undef OP
};

static void *cpu_alloc(struct dev *d, size_t bytes)
{
    (void)d;
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 64))
        return NULL;
    return memset(p, 0, bytes);
}

static void cpu_free(struct dev *d, void *p)
{
    (void)d;
    free(p);
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

/* The compiler must take the loads for needed. */
static void read_units(const void *args, int begin, int end)
{
    enum { WORDS = READ_UNIT / sizeof(uint64_t) };
    const struct read_args *a = args;
    uint64_t sum = 0;
    for (size_t i = (size_t)begin * WORDS; i < (size_t)end * WORDS; i++)
        sum += a->data[i];
    CHECK(sum == (uint64_t)(end - begin) * WORDS * 0x0101010101010101u);
}

/* The best of several passes of all threads. */
static double cpu_read_gb_s(struct dev *d, struct err *e)
{
    static const size_t bytes = (size_t)READ_UNIT * READ_UNITS;
    struct read_args a = {.data = cpu_alloc(d, bytes)};
    double best = 0;
    if (!a.data) {
        err_set(e, "no memory for the plain read: %zu MiB asked for", bytes >> 20);
        return 0;
    }
    memset(a.data, 1, bytes);
    for (int pass = 0; pass < READ_PASSES; pass++) {
        int64_t start = clock_ns();
        run((struct cpu *)d, read_units, &a, READ_UNITS, bytes);
        best = fmax(best, (double)bytes / clock_ms_since(start) * 1e-6);
    }
    cpu_free(d, a.data);
    return best;
}

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
    c->dev = (struct dev){.ops = &ops, .name = "cpu", .alloc = cpu_alloc, .free = cpu_free, .alloc_host = cpu_alloc,
                          .free_host = cpu_free, .copy = cpu_copy, .copy_rows = cpu_copy_rows, .zero = cpu_zero,
                          .reserve = cpu_reserve, .finish = cpu_finish, .read_gb_s = cpu_read_gb_s, .close = cpu_close};
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
    return d->step ? 0 : ((const struct cpu *)d)->n_threads;
}
