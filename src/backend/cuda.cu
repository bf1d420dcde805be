/* The CUDA backend: one stream, plain device allocations, recorded graphs.  Operations are those of kernels/cuda. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/common.cuh"

extern "C" {
#include "backend/dev.h"
#include "kernels/fill.h"
}

#define OP(name) extern "C" void name##_cuda(struct cuda_queue *q, const struct name##_args *a);
#include "kernels/ops.def"
#include "kernels/step.def"
#undef OP
extern "C" void pack_cuda(struct cuda_queue *q, const struct pack_args *a);
extern "C" void fill_cuda(struct cuda_queue *q, void *dst, size_t bytes, const struct fill *f);         /* fill.cu */
extern "C" void row_norms_cuda(struct cuda_queue *q, float *norms, const struct weight *w, const float *bias, int n, size_t step);
extern "C" double gpu_mma_tflop_s(int n_sm);    /* fill.cu */
extern "C" double gpu_read_gb_s(const void *p, size_t bytes, int n_sm);
extern "C" int gpu_confine(int n_sm, char *why, size_t n_why);  /* green.cu */
extern "C" int gpu_multiprocessors(int all);

struct cuda {
    struct dev        dev;
    struct cuda_queue queue;
};

struct dev_graph {
    cudaGraphExec_t exec;
};

static struct cuda_queue *queue(const struct dev *d) { return &((struct cuda *)d)->queue; }

#define OP(name) static void name##_run(struct dev *d, const struct name##_args *a) { name##_cuda(queue(d), a); }
#include "kernels/ops.def"
#include "kernels/step.def"
#undef OP

static const struct dev_ops ops = {
#define OP(name) name##_run,
#include "kernels/ops.def"
#undef OP
};
static const struct dev_step_ops step_ops = {
#define OP(name) name##_run,
#include "kernels/step.def"
#undef OP
};

static void note(struct dev *d, const char *what, cudaError_t e) { queue_note(queue(d), what, e); }

/* Notes a write to memory that no operation makes. */
static void note_write(struct dev *d, const char *what, cudaError_t e)
{
    queue_forget(queue(d));
    note(d, what, e);
}

static void cuda_pack(struct dev *d, const struct pack_args *a)
{
    queue_forget(queue(d));
    pack_cuda(queue(d), a);
}

static void cuda_row_norms(struct dev *d, float *norms, const struct weight *w, const float *bias, int n, size_t step)
{
    row_norms_cuda(queue(d), norms, w, bias, n, step);
}

static void cuda_fill(struct dev *d, void *p, size_t bytes, const struct fill *f)
{
    queue_forget(queue(d));
    fill_cuda(queue(d), p, bytes, f);
}

static void cuda_zero(struct dev *d, void *p, size_t bytes)
{
    note_write(d, "zero", cudaMemsetAsync(p, 0, bytes, queue(d)->stream));
}

/* Allocates zeroed device memory.  NULL if there is no room, which is no fault of the device. */
static void *cuda_alloc(struct dev *d, size_t bytes)
{
    void *p = NULL;
    if (cudaMalloc(&p, bytes ? bytes : 1) != cudaSuccess) {
        cudaGetLastError();             /* no room is an answer, not a fault */
        return NULL;
    }
    cuda_zero(d, p, bytes);
    return p;
}

/* Allocates zeroed memory on the device, or pinned memory of the host that the device reads.  NULL if there is no room. */
static void *alloc_in(struct dev *d, bool host, size_t bytes)
{
    void *p = NULL;
    if (!host)
        return cuda_alloc(d, bytes);
    if (cudaHostAlloc(&p, bytes ? bytes : 1, cudaHostAllocPortable | cudaHostAllocMapped) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    cuda_zero(d, p, bytes);
    return p;
}

static void *cuda_alloc_weights(struct dev *d, size_t bytes)
{
    return alloc_in(d, d->weights_in_host, bytes);
}

static void *cuda_alloc_kv(struct dev *d, size_t bytes)
{
    return alloc_in(d, d->kv_in_host, bytes);
}

static void cuda_free(struct dev *d, void *p)
{
    struct cudaPointerAttributes a;
    const bool host = p && (d->weights_in_host || d->kv_in_host) && cudaPointerGetAttributes(&a, p) == cudaSuccess && a.type == cudaMemoryTypeHost;
    note(d, "free", host ? cudaFreeHost(p) : cudaFree(p));
}

/* Allocates zeroed pinned memory, which the device can read, too.  NULL if there is no room. */
static void *cuda_alloc_host(struct dev *d, size_t bytes)
{
    (void)d;
    void *p = NULL;
    if (cudaHostAlloc(&p, bytes ? bytes : 1, cudaHostAllocPortable | cudaHostAllocMapped) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    return memset(p, 0, bytes);
}

static void cuda_free_host(struct dev *d, void *p)
{
    if (p)
        note(d, "free", cudaFreeHost(p));
}

static void cuda_copy(struct dev *d, void *dst, const void *src, size_t bytes)
{
    note_write(d, "copy", cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, queue(d)->stream));
}

static void cuda_copy_rows(struct dev *d, void *dst, size_t dst_step, const void *src, size_t src_step, size_t bytes, int n)
{
    note_write(d, "copy", cudaMemcpy2DAsync(dst, dst_step, src, src_step, bytes, (size_t)n, cudaMemcpyDefault, queue(d)->stream));
}

/* Makes the scratch memory at least this large; enlarging it loses its contents and what the queue knew of them.  False if there is no room. */
static bool cuda_reserve(struct dev *d, size_t bytes)
{
    struct cuda_queue *q = queue(d);
    if (bytes <= q->scratch_bytes)
        return true;
    cuda_free(d, q->scratch);
    queue_forget(q);
    q->scratch = (char *)cuda_alloc(d, bytes);
    q->scratch_bytes = q->scratch ? bytes : 0;
    return q->scratch;
}

/* Waits for all queued work.  False, with the first operation that failed, after any fault so far. */
static bool cuda_finish(struct dev *d, struct err *e)
{
    struct cuda_queue *q = queue(d);
    note(d, "an operation before", cudaStreamSynchronize(q->stream));
    if (q->fault == cudaSuccess)
        return true;
    if (*q->stopped == STOPPED_WAITING)
        return err_set(e, "the GPU stopped in step_experts: a thread block waited in vain for another one's values; "
                          "all blocks must run at once, so end other programs that hold a part of this GPU, by MPS for instance");
    return err_set(e, "the GPU failed in %s: %s", q->fault_op, cudaGetErrorString(q->fault));
}

/* Returns the speed of a read of 4 GiB, or of half of the memory that is left. */
static double cuda_read_gb_s(struct dev *d, size_t asked, struct err *e)
{
    size_t bytes = asked ? asked : (size_t)4 << 30;
    while (bytes > d->available(d) / 2 && bytes > (size_t)256 << 20)
        bytes /= 2;
    void *p = cuda_alloc_weights(d, bytes);
    if (!p) {
        err_set(e, "no memory for the plain read: %zu MiB asked for", bytes >> 20);
        return 0;
    }
    struct fill bits = {FILL_BITS, 1, 0, 0};
    double gb_s = 0;
    cuda_fill(d, p, bytes, &bits);
    if (cuda_finish(d, e)) {
        gb_s = gpu_read_gb_s(p, bytes, queue(d)->n_sm);
        if (gb_s <= 0)
            err_set(e, "the plain read of %zu MiB failed on the GPU", bytes >> 20);
    }
    cuda_free(d, p);
    return gb_s;
}

static double cuda_mma_tflop_s(struct dev *d, struct err *e)
{
    const double tflop_s = gpu_mma_tflop_s(queue(d)->n_sm);
    if (tflop_s <= 0)
        err_set(e, "the products in registers failed on the GPU");
    return tflop_s;
}

static void cuda_close(struct dev *d)
{
    struct cuda_queue *q = queue(d);
    cudaFree(q->scratch);
    cudaStreamDestroy(q->stream);
    cudaFreeHost((void *)q->stopped);
    free(d);
}

static void cuda_graph_begin(struct dev *d)
{
    note_write(d, "recording", cudaStreamBeginCapture(queue(d)->stream, cudaStreamCaptureModeThreadLocal));
}

/* Ends the recording of a graph and returns it.  NULL with the fault. */
static struct dev_graph *cuda_graph_end(struct dev *d, struct err *e)
{
    struct cuda_queue *q = queue(d);
    cudaGraph_t graph = NULL;
    struct dev_graph *g = (struct dev_graph *)calloc(1, sizeof *g);
    note_write(d, "recording", cudaStreamEndCapture(q->stream, &graph));
    if (q->fault == cudaSuccess)
        note(d, "recording", cudaGraphInstantiate(&g->exec, graph, 0));
    if (q->fault == cudaSuccess)
        note(d, "recording", cudaGraphUpload(g->exec, q->stream));
    if (graph)
        cudaGraphDestroy(graph);
    if (q->fault == cudaSuccess)
        return g;
    free(g);
    cuda_finish(d, e);
    return NULL;
}

static void cuda_graph_launch(struct dev *d, struct dev_graph *g)
{
    note_write(d, "a step", cudaGraphLaunch(g->exec, queue(d)->stream));
}

static void cuda_graph_free(struct dev *d, struct dev_graph *g)
{
    if (!g)
        return;
    note(d, "free", cudaGraphExecDestroy(g->exec));
    free(g);
}

/* Fills in the facts about the GPU. False if the driver does not give them. */
static bool cuda_facts(const struct dev *d, struct dev_facts *f)
{
    struct cudaDeviceProp p;
    int version = 0, khz = 0, memory_khz = 0;
    if (cudaGetDeviceProperties(&p, 0) != cudaSuccess)
        return false;
    cudaDriverGetVersion(&version);
    cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0);
    cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, 0);
    memset(f, 0, sizeof *f);
    snprintf(f->gpu, sizeof f->gpu, "%s", p.name);
    snprintf(f->driver, sizeof f->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    cudaDeviceGetPCIBusId(f->pci, sizeof f->pci, 0);
    f->n_sm = queue(d)->n_sm;
    f->arch = queue(d)->arch;
    f->sm_mhz = khz / 1000;
    f->memory_mhz = memory_khz / 1000;
    f->memory = p.totalGlobalMem;
    f->l2 = (size_t)p.l2CacheSize;
    f->integrated = p.integrated;
    return true;
}

static void cuda_limit_shared(struct dev *d, size_t bytes)
{
    struct cuda_queue *q = queue(d);
    q->smem = bytes < q->smem ? bytes : q->smem;
}

static void cuda_limit_cache(struct dev *d, size_t bytes)
{
    struct cuda_queue *q = queue(d);
    q->l2 = bytes < q->l2 ? bytes : q->l2;
}

static size_t cuda_available(struct dev *d)
{
    (void)d;
    size_t free_bytes = 0, total = 0;
    cudaMemGetInfo(&free_bytes, &total);
    return free_bytes;
}

extern "C" bool dev_cuda_confine(int n_sm, struct err *e)
{
    char why[160];
    return gpu_confine(n_sm, why, sizeof why) || err_set(e, "--sms %d: %s", n_sm, why);
}

extern "C" bool dev_cuda_present(void)
{
    int n = 0;
    bool ok = cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
    cudaGetLastError();
    return ok;
}


extern "C" struct dev *dev_open_cuda(int n_threads, struct err *e)
{
    (void)n_threads;
    int n = 0, major = 0, minor = 0, smem = 0, l2 = 0;
    cudaError_t r = cudaGetDeviceCount(&n);
    if (r != cudaSuccess || n < 1) {
        cudaGetLastError();
        err_set(e, "no GPU for the backend 'cuda': %s", r == cudaSuccess ? "the driver shows none" : cudaGetErrorString(r));
        return NULL;
    }
    struct cuda *c = (struct cuda *)calloc(1, sizeof *c);
    struct cuda_queue *q = &c->queue;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
    cudaDeviceGetAttribute(&smem, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    cudaDeviceGetAttribute(&q->n_sm, cudaDevAttrMultiProcessorCount, 0);
    cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0);
    q->n_sm = gpu_multiprocessors(q->n_sm);
    q->arch = major * 10 + minor;
    q->smem = (size_t)smem;
    q->l2 = (size_t)l2;
    c->dev.ops = &ops;
    c->dev.step = &step_ops;
    c->dev.caps = dev_caps("cuda");
    c->dev.name = "cuda";
    c->dev.alloc = cuda_alloc;
    c->dev.alloc_weights = cuda_alloc_weights;
    c->dev.alloc_kv = cuda_alloc_kv;
    c->dev.free = cuda_free;
    c->dev.alloc_host = cuda_alloc_host;
    c->dev.free_host = cuda_free_host;
    c->dev.copy = cuda_copy;
    c->dev.copy_rows = cuda_copy_rows;
    c->dev.zero = cuda_zero;
    c->dev.fill = cuda_fill;
    c->dev.reserve = cuda_reserve;
    c->dev.finish = cuda_finish;
    c->dev.read_gb_s = cuda_read_gb_s;
    c->dev.mma_tflop_s = cuda_mma_tflop_s;
    c->dev.facts = cuda_facts;
    c->dev.limit_shared = cuda_limit_shared;
    c->dev.limit_cache = cuda_limit_cache;
    c->dev.close = cuda_close;
    c->dev.graph_begin = cuda_graph_begin;
    c->dev.graph_end = cuda_graph_end;
    c->dev.graph_launch = cuda_graph_launch;
    c->dev.graph_free = cuda_graph_free;
    c->dev.available = cuda_available;
    c->dev.pack = cuda_pack;
    c->dev.row_norms = cuda_row_norms;
    if (q->arch < 90) {
        err_set(e, "the GPU has compute capability %d.%d, expected at least 9.0", major, minor);
        free(c);
        return NULL;
    }
    r = cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking);
    q->stopped = r == cudaSuccess ? (volatile uint32_t *)cuda_alloc_host(&c->dev, sizeof *q->stopped) : NULL;
    if (r == cudaSuccess && !q->stopped)
        r = cudaErrorMemoryAllocation;
    if (r != cudaSuccess) {
        err_set(e, "cannot use the GPU: %s", cudaGetErrorString(r));
        free(c);
        return NULL;
    }
    return &c->dev;
}
