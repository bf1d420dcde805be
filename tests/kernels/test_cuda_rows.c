#include "tests/kernels/step_rows.h"

int main(void)
{
    const struct CMUnitTest tests[] = {ROWS_TESTS};
    const int failed = cmocka_run_group_tests_name("all shared memory", tests, open_cuda, close_device);
    return failed + cmocka_run_group_tests_name("shared memory of a GB10", tests, open_small_cuda, close_device);
}
