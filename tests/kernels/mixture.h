/* A mixture of experts with random weights: as the definition reads it, and packed on the GPU. */
#ifndef TESTS_KERNELS_MIXTURE_H
#define TESTS_KERNELS_MIXTURE_H

#include <math.h>

#include "kernels/pack.h"
#include "tests/kernels/gpu.h"
#include "tests/kernels/rand_weight.h"

/* Products of unit inputs have about unit size. */
static inline struct weight make(enum weight_format format, int rows, int cols)
{
    float unit = 1 / sqrtf((float)cols);
    return rand_weight(format, rows, cols,
                       (struct spread){.dense = unit, .int4 = unit / 4, .fp8 = unit / 64, .int8 = unit / 64, .int8_least = 0.5f});
}

enum { MOST_EXPERTS = 16 };

struct mixture {
    int    n_experts, hidden;
    struct expert_weights host[MOST_EXPERTS + 1], view[MOST_EXPERTS + 1];       /* the last is the shared one */
    char  *memory;              /* all experts, equally far apart */
    float *norms;               /* as experts_up takes them */
};
static inline struct mixture mixture_make(enum weight_format routed, enum weight_format shared, int n_experts, int hidden, int inter,
                                          int shared_inter)
{
    struct mixture m = {.n_experts = n_experts, .hidden = hidden};
    size_t down = pack_bytes(routed, 2 * inter, hidden), step = down + pack_bytes(routed, hidden, inter);
    size_t shared_down = pack_bytes(shared, 2 * shared_inter, hidden),
        bytes = step * (size_t)n_experts + shared_down + pack_bytes(shared, hidden, shared_inter);
    char *all = calloc(1, bytes);
    m.memory = cuda->alloc(cuda, bytes);
    assert_non_null(m.memory);
    for (int e = 0; e <= n_experts; e++) {
        bool last = e == n_experts;
        enum weight_format f = last ? shared : routed;
        int width = last ? shared_inter : inter;
        size_t at = (size_t)e * step, to = at + (last ? shared_down : down);
        struct expert_weights *w = &m.host[e];
        *w = (struct expert_weights){make(f, width, hidden), make(f, width, hidden), make(f, hidden, width)};
        assert_true(pack_pair(&w->gate, &w->up, all + at) && pack_matrix(&w->down, all + to));
        m.view[e].gate = packed_view(f, 2 * width, hidden, m.memory + at);
        m.view[e].down = packed_view(f, hidden, width, m.memory + to);
    }
    cuda->copy(cuda, m.memory, all, bytes);
    m.norms = cuda->alloc(cuda, (size_t)(n_experts + 1) * sizeof *m.norms);
    cuda->row_norms(cuda, m.norms, &m.view[0].gate, NULL, n_experts, step);
    cuda->row_norms(cuda, m.norms + n_experts, &m.view[n_experts].gate, NULL, 1, 0);
    free(all);
    return m;
}

static inline void mixture_free(struct mixture *m)
{
    for (int e = 0; e <= m->n_experts; e++)
        rand_weight_free(&m->host[e].gate), rand_weight_free(&m->host[e].up), rand_weight_free(&m->host[e].down);
    cuda->free(cuda, m->memory), cuda->free(cuda, m->norms);
}

#endif
