#include "tests/kernels/pick.h"

static int open_device(void **state)
{
    (void)state;
    struct err e = {0};
    dev = dev_open("cpu", 1, &e);
    most_ids = 4096;
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
    const struct CMUnitTest tests[] = {PICK_TESTS};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
