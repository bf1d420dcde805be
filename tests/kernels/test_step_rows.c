#include "tests/kernels/step_rows.h"

static int open_device(void **state)
{
    (void)state;
    struct err e;
    dev = dev_open("cpu", 2, &e);
    return dev ? 0 : -1;
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
    return cmocka_run_group_tests(tests, open_device, close_device);
}
