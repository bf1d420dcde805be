/* The model's own vocabulary, open for all tests of a program: cmocka_run_group_tests(tests, vocabulary_open, vocabulary_close).
 * Included after cmocka.h. */
#pragma once

#include "tests/golden/vocabulary.h"
#include "text/tokenizer.h"

static struct tokenizer *t;
static const char *dir;

static int vocabulary_open(void **state)
{
    (void)state;
    struct err e = {0};
    dir = vocabulary_dir(&e);
    t = dir ? tokenizer_open(dir, &e) : NULL;
    if (!t)
        print_error("%s\n", e.msg);
    return !t;
}

static int vocabulary_close(void **state)
{
    (void)state;
    tokenizer_close(t);
    return 0;
}
