/* The pictures of prompts, while another thread holds the turn of large ones. */
#include <unistd.h>

#include "responder/local_pictures.h"
#include "tests/unit/large.h"

static void take(struct sights *to, struct views *v, struct buf gif, int side)
{
    const size_t at = 0;
    const struct media m = {text_of("it"), {gif.data, gif.len}, side, side};
    assert_true(sights_take(to, v, &(struct message){.role = ROLE_USER, .media = (size_t *)&at, .pictures = &m, .n_media = 1}, 1, NULL));
    buf_free(&gif);
}

static void test_sights__a_prompt_that_is_given_up_gives_its_pictures_up(void **state)
{
    (void)state;
    struct views v;
    struct sights large = {0}, other = {0}, small = {0};
    struct image im = hold();
    const int64_t begun = clock_ns();
    assert_true(views_open(&v, (struct image_limits){4096, 4096}, NULL));
    take(&large, &v, gif_of(SIDE, 0), SIDE);
    take(&other, &v, gif_of(SIDE, 1), SIDE);
    take(&small, &v, gif_of(64, 0), 64);
    while (sights_update(&small, &v, NULL) != SIGHTS_THERE && clock_ms_since(begun) < MOST_MS)
        usleep(1000);
    assert_int_equal(sights_update(&small, &v, NULL), SIGHTS_THERE);
    assert_int_equal(sights_update(&large, &v, NULL), SIGHTS_AWAITED);
    sights_abandon(&large, &v);
    sights_abandon(&other, &v);
    views_close(&v);                    /* waits for its threads, whose turn has not come */
    image_free(&im);
    sights_free(&large, &v);
    sights_free(&other, &v);
    sights_free(&small, &v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sights__a_prompt_that_is_given_up_gives_its_pictures_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
