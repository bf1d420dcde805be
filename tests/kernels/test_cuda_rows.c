#include "tests/kernels/step_rows.h"

static int open_device(void **state)
{
    (void)state;
    struct err e = {0};
    dev = dev_open("cuda", 0, &e);
    if (!dev)
        print_message("%s: all skipped\n", e.msg);
    return 0;
}

/* The same, with no more shared memory than a GB10 has. */
static int open_small_device(void **state)
{
    open_device(state);
    if (dev)
        dev_limit_shared(dev, 99 * 1024);
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    dev_close(dev);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {ROWS_TESTS};
    const int failed = cmocka_run_group_tests_name("all shared memory", tests, open_device, close_device);
    return failed + cmocka_run_group_tests_name("shared memory of a GB10", tests, open_small_device, close_device);
}
