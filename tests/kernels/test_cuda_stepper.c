/* Answers that step together on a GPU are those that each has alone there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <unistd.h>

#include "backend/dev.h"
#include "tests/golden/answers.h"

/* Whether there is a GPU whose steps take several conversations. */
static bool can(void)
{
    struct err e = {0};
    if (dev_backend("cuda", &e) && dev_caps("cuda")->several)
        return true;
    print_message("left out: %s\n", e.msg[0] ? e.msg : "the steps of this GPU are those of one conversation");
    return false;
}

static int open_random(void **state)
{
    (void)state;
    return open_model("tests/data/model/g1/hybrid", "cuda", "bf16");
}

static int open_trained(void **state)
{
    (void)state;
    return open_model("assets/demo", "cuda", "bf16");
}

static int open_codes(void **state)
{
    (void)state;
    return open_model("assets/demo", "cuda", "tq4");
}

static bool is_there(const char *file)
{
    if (!access(file, R_OK))
        return true;
    print_message("%s is not there: left out\n", file);
    return false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stepper__answers_of_one_step_are_those_that_each_has_alone),
        cmocka_unit_test(test_stepper__what_a_shared_step_rejects_leaves_no_trace),
        cmocka_unit_test(test_stepper__greedy_picks_made_again_are_those_with_a_ban_from_the_start),
        cmocka_unit_test(test_stepper__picks_made_again_are_the_same_in_shared_steps),
    };
    int failed = 0;
    if (!can())
        return 0;
    if (is_there("tests/data/model/g1/hybrid/config.json"))
        failed += cmocka_run_group_tests_name("random weights", tests, open_random, close_model);
    return failed + cmocka_run_group_tests_name("trained weights", tests, open_trained, close_model)
         + cmocka_run_group_tests_name("compressed rows", tests, open_codes, close_model);
}
