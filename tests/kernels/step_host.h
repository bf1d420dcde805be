/* Shared by the tests of a step's operations on a CPU: memory, random matrices. */
#ifndef TESTS_KERNELS_STEP_HOST_H
#define TESTS_KERNELS_STEP_HOST_H

#include <stdio.h>
#include <string.h>

#include "backend/dev.h"
#include "tests/kernels/rand_weight.h"

static struct dev *cpu;
static const float eps = 1e-6f;

/* Everything here is freed at the end of a test. */
static void *list[4096];
static int   n_list;

static void *host(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    assert_non_null(p);
    assert_true(n_list < (int)(sizeof list / sizeof *list));
    return list[n_list++] = p;
}

static float *normals(size_t n, float scale)
{
    float *p = host(n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = rand_normal() * scale;
    return p;
}

static struct weight make(enum weight_format format, int rows, int cols)
{
    const float unit = 1 / sqrtf((float)cols);
    struct weight w = rand_weight(format, rows, cols, (struct spread){unit, 0.2f * unit, 0.01f * unit, 0.01f * unit, 0.5f});
    const void *parts[] = {w.data, w.scale, w.zeros};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        list[n_list++] = (void *)parts[i];
    return w;
}

static int end_test(void **state)
{
    (void)state;
    for (int i = 0; i < n_list; i++)
        free(list[i]);
    n_list = 0;
    return 0;
}

static void same_bits(const char *what, const void *a, const void *b, size_t bytes)
{
    if (memcmp(a, b, bytes))
        fail_msg("%s: the bits depend on what else the call holds", what);
}

static int open_cpu(void **state)
{
    (void)state;
    struct err e;
    cpu = dev_open("cpu", 2, &e);
    return cpu ? 0 : -1;
}

static int close_cpu(void **state)
{
    (void)state;
    dev_close(cpu);
    return 0;
}

#endif
