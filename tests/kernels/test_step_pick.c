#include "tests/kernels/pick.h"

static int open_device(void **state)
{
    most_ids = 4096;
    return open_cpu(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {PICK_TESTS};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
