/* For tests that are the same on every device: the one under test, and set-up and end of a group of them. */
#ifndef TESTS_KERNELS_ONE_DEVICE_H
#define TESTS_KERNELS_ONE_DEVICE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backend/dev.h"

static struct dev *dev;                 /* NULL: there is none, and all is skipped */

static inline int open_cpu(void **state)
{
    (void)state;
    struct err e = {0};
    dev = dev_open("cpu", 2, &e);
    return dev ? 0 : -1;
}

static inline int open_cuda(void **state)
{
    (void)state;
    struct err e = {0};
    dev = dev_open("cuda", 0, &e);
    if (!dev)
        print_message("%s: all skipped\n", e.msg);
    return 0;
}

/* The same, with no more shared memory than a GB10 has. */
static inline int open_small_cuda(void **state)
{
    open_cuda(state);
    if (dev)
        dev_limit_shared(dev, 99 * 1024);
    return 0;
}

static inline int close_device(void **state)
{
    (void)state;
    dev_close(dev);
    return 0;
}

#endif
