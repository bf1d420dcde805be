#include "tests/kernels/step_rows.h"

int main(void)
{
    const struct CMUnitTest tests[] = {ROWS_TESTS};
    return cmocka_run_group_tests(tests, open_cpu, close_device);
}
