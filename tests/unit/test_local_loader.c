#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <poll.h>
#include <semaphore.h>
#include <unistd.h>
#include <cmocka.h>

#include "responder/local_loader.h"

/* A tokenizer whose file answers when the test wants it to: these definitions win over the archive's. */
static sem_t answers, closed;
static char it, words;
static int n_words;                     /* vocabularies that were made and not released */

struct tokenizer *tokenizer_open(const char *dir, struct err *e)
{
    (void)dir, (void)e;
    sem_wait(&answers);
    return (struct tokenizer *)&it;
}

void tokenizer_close(struct tokenizer *t)
{
    if (t)
        sem_post(&closed);
}

struct guide_vocabulary *guide_vocabulary_of(const struct tokenizer *t)
{
    assert_ptr_equal(t, &it);
    n_words++;
    return (struct guide_vocabulary *)&words;
}

void guide_vocabulary_release(struct guide_vocabulary *v)
{
    n_words -= v != NULL;
}

static int setup(void **state)
{
    (void)state;
    sem_init(&answers, 0, 0);
    return sem_init(&closed, 0, 0);
}

static void test_loader__gives_what_was_read_once(void **state)
{
    struct err e = {0};
    struct tokenizer *tok = NULL;
    (void)state;
    struct loader *l = loader_start("dir", true, &e);
    assert_non_null(l);
    assert_false(loader_take(l, &tok, &e));
    sem_post(&answers);
    struct pollfd p = {.fd = loader_fd(l), .events = POLLIN};
    assert_int_equal(poll(&p, 1, -1), 1);
    assert_true(loader_take(l, &tok, &e));
    assert_ptr_equal(tok, &it);
    struct guide_vocabulary *v = loader_take_vocabulary(l);
    assert_ptr_equal(v, &words);
    assert_null(loader_take_vocabulary(l));
    assert_false(loader_take(l, &tok, &e));
    loader_stop(l);
    assert_int_equal(sem_trywait(&closed), -1);         /* it is ours now */
    guide_vocabulary_release(v);
    assert_int_equal(n_words, 0);
}

static void test_loader__makes_no_vocabulary_where_none_is_wanted(void **state)
{
    struct err e = {0};
    struct tokenizer *tok = NULL;
    (void)state;
    struct loader *l = loader_start("dir", false, &e);
    sem_post(&answers);
    struct pollfd p = {.fd = loader_fd(l), .events = POLLIN};
    assert_int_equal(poll(&p, 1, -1), 1);
    assert_true(loader_take(l, &tok, &e));
    assert_null(loader_take_vocabulary(l));
    loader_stop(l);
    assert_int_equal(n_words, 0);
}

static void test_loader__a_file_that_does_not_answer_is_left_behind(void **state)
{
    struct err e = {0};
    (void)state;
    struct loader *l = loader_start("dir", true, &e);
    assert_non_null(l);
    alarm(120);
    loader_stop(l);                     /* returns */
    alarm(0);
    assert_int_equal(sem_trywait(&closed), -1);
    sem_post(&answers);                 /* and when it answers after all, nothing leaks */
    sem_wait(&closed);
}

static void test_loader__what_was_not_taken_is_closed(void **state)
{
    struct err e = {0};
    (void)state;
    struct loader *l = loader_start("dir", true, &e);
    assert_non_null(l);
    sem_post(&answers);
    loader_stop(l);
    sem_wait(&closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_loader__gives_what_was_read_once, setup),
        cmocka_unit_test_setup(test_loader__makes_no_vocabulary_where_none_is_wanted, setup),
        cmocka_unit_test_setup(test_loader__a_file_that_does_not_answer_is_left_behind, setup),
        cmocka_unit_test_setup(test_loader__what_was_not_taken_is_closed, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
