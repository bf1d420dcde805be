/* States after rejected drafts on a CPU: those of an answer that had none, to the bit, over exact and compressed KV rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/golden/states.h"

enum { TOKENS = 280 };                  /* so that rows behind the first 16 are codes */

static int open_exact(void **state) { (void)state; return open_states("cpu", "f32", TOKENS); }
static int open_codes(void **state) { (void)state; return open_states("cpu", "tq4", TOKENS); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_states__rejected_drafts_leave_those_of_an_answer_without_drafts)};
    if (access("assets/demo/config.json", R_OK)) {
        printf("assets/demo is not there: left out\n");
        return 0;
    }
    return cmocka_run_group_tests_name("exact rows", tests, open_exact, close_states)
         + cmocka_run_group_tests_name("compressed rows", tests, open_codes, close_states);
}
