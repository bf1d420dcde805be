/* For tests of GPU operations: opens both devices and copies memory between them.  A test begins with need_gpu(); any error ends it.
 * ONLY=PATTERN runs the tests whose names match it, * and ? standing for any characters: for tools that make each test take minutes. */
#ifndef TESTS_KERNELS_GPU_H
#define TESTS_KERNELS_GPU_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/dev.h"

static struct dev *cpu, *cuda;          /* cuda: NULL without a GPU */

__attribute__((constructor)) static void choose_tests(void)
{
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
}

/* Set-up and end of a group of tests. */
static inline int open_devices(void **state)
{
    (void)state;
    struct err e = {0};
    cuda = dev_open("cuda", 0, &e);
    if (!cuda)
        print_message("%s: all skipped\n", e.msg);
    cpu = dev_open("cpu", 0, &e);
    return cpu ? 0 : -1;
}

/* The same for plain operations, which need scratch memory. */
static inline int open_devices_with_scratch(void **state)
{
    return open_devices(state) == 0 && (!cuda || cuda->reserve(cuda, (size_t)64 << 20)) ? 0 : -1;
}

/* The same, with no more shared memory than a GB10 has. */
static inline int open_small_devices(void **state)
{
    int failed = open_devices_with_scratch(state);
    if (cuda)
        dev_limit_shared(cuda, 99 * 1024);
    return failed;
}

static inline int close_devices(void **state)
{
    (void)state;
    dev_close(cuda);
    dev_close(cpu);
    return 0;
}

static inline void need_gpu(void)
{
    if (!cuda)
        skip();
}

static inline void finish(void)
{
    struct err e = {0};
    if (!cuda->finish(cuda, &e))
        fail_msg("%s", e.msg);
}

/* A copy in device memory; release it with cuda->free(). */
static inline void *upload(const void *p, size_t bytes)
{
    void *d = cuda->alloc(cuda, bytes);
    assert_non_null(d);
    cuda->copy(cuda, d, p, bytes);
    return d;
}

/* Device memory full of NaN. */
static inline void *poisoned(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    void *d = upload(memset(p, 0xff, bytes), bytes);
    finish();
    free(p);
    return d;
}

static inline void download(void *p, const void *d, size_t bytes)
{
    cuda->copy(cuda, p, d, bytes);
    finish();
}

/* A host copy of device memory; release it with free(). */
static inline void *downloaded(const void *d, size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    download(p, d, bytes);
    return p;
}

#endif
