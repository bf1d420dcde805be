/* States after rejected drafts on a GPU, 32,768 tokens deep: those of an answer that had none, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backend/dev.h"
#include "tests/golden/states.h"

enum { TOKENS = 32768 };

static int open_exact(void **state) { (void)state; return open_states("cuda", "bf16", TOKENS); }
static int open_codes(void **state) { (void)state; return open_states("cuda", "tq4", TOKENS); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_states__rejected_drafts_leave_those_of_an_answer_without_drafts)};
    struct err e = {0};
    if (!dev_backend("cuda", &e)) {
        print_message("left out: %s\n", e.msg);
        return 0;
    }
    every_depth = true;
    return cmocka_run_group_tests_name("exact rows", tests, open_exact, close_states)
         + cmocka_run_group_tests_name("compressed rows", tests, open_codes, close_states);
}
