/* The pictures of prompts, while others hold the turns to decode. */
#include <pthread.h>
#include <unistd.h>

#include "responder/local_pictures.h"
#include "tests/unit/large.h"

enum { MANY = 8, WIDE = 4096 };          /* two pictures of WIDE take all turns of small ones */

static atomic_int n_begun;              /* pictures whose decoding has begun */
static int begun_before[MANY + 1];      /* by how many rows more than 64 a picture has: pictures that began before it */

bool __real_image_decode(struct image *im, const void *bytes, size_t n, const char *name, const struct image_wish *wish, struct err *e);
bool __wrap_image_decode(struct image *im, const void *bytes, size_t n, const char *name, const struct image_wish *wish, struct err *e);

bool __wrap_image_decode(struct image *im, const void *bytes, size_t n, const char *name, const struct image_wish *wish, struct err *e)
{
    const int before = atomic_fetch_add(&n_begun, 1), more = ((const uint8_t *)bytes)[8] - 64;
    if (more >= 0 && more <= MANY)
        begun_before[more] = before;
    return __real_image_decode(im, bytes, n, name, wish, e);
}

/* Makes *to the sights of n pictures, of which the first has `more` rows more than columns, the next one more. */
static void take_many(struct sights *to, struct views *v, int side, int more, int n)
{
    size_t at[MANY] = {0};
    struct media m[MANY];
    struct buf gifs[MANY];
    for (int i = 0; i < n; i++) {
        gifs[i] = gif_of(side, more + i);
        m[i] = (struct media){text_of("it"), {gifs[i].data, gifs[i].len}, side, side};
    }
    assert_true(sights_take(to, v, &(struct message){.role = ROLE_USER, .media = at, .pictures = m, .n_media = n}, 1, NULL));
    for (int i = 0; i < n; i++)
        buf_free(&gifs[i]);
}

static void take(struct sights *to, struct views *v, int side, int more)
{
    take_many(to, v, side, more, 1);
}

static void await_sights(struct sights *s, struct views *v)
{
    const int64_t begun = clock_ns();
    while (sights_update(s, v, NULL) == SIGHTS_AWAITED && clock_ms_since(begun) < MOST_MS)
        usleep(1000);
    assert_int_equal(sights_update(s, v, NULL), SIGHTS_THERE);
}

static void test_sights__a_prompt_that_is_given_up_gives_its_pictures_up(void **state)
{
    (void)state;
    struct views v;
    struct sights large = {0}, other = {0}, small = {0};
    struct image im = hold();
    assert_true(views_open(&v, (struct image_limits){4096, 4096}, NULL));
    take(&large, &v, SIDE, 0);
    take(&other, &v, SIDE, 1);
    take(&small, &v, 64, 0);
    await_sights(&small, &v);
    assert_int_equal(sights_update(&large, &v, NULL), SIGHTS_AWAITED);
    sights_abandon(&large, &v);
    sights_abandon(&other, &v);
    views_close(&v);                    /* waits for its threads, whose turn has not come */
    image_free(&im);
    sights_free(&large, &v);
    sights_free(&other, &v);
    sights_free(&small, &v);
}

static void test_sights__a_prompt_of_many_pictures_delays_another_one_by_a_round(void **state)
{
    (void)state;
    struct views v;
    struct sights many = {0}, one = {0};
    struct image im[2];
    struct buf wide = gif_of(WIDE, 0);
    for (int i = 0; i < 2; i++)
        assert_true(__real_image_decode(&im[i], wide.data, wide.len, "it", NULL, NULL));
    buf_free(&wide);
    assert_true(views_open(&v, (struct image_limits){4096, 4096}, NULL));
    n_begun = 0;
    take_many(&many, &v, 64, 0, MANY);
    while (n_begun < 2)                 /* each thread has one, and waits for its turn */
        sched_yield();
    take(&one, &v, 64, MANY);
    for (int i = 0; i < 2; i++)
        image_free(&im[i]);
    await_sights(&one, &v);
    await_sights(&many, &v);
    assert_int_equal(n_begun, MANY + 1);
    assert_int_equal(begun_before[MANY], 2);
    sights_free(&one, &v);
    sights_free(&many, &v);
    views_close(&v);
}

/* A look at a picture on another thread. */
struct looker {
    pthread_t thread;
    struct views *v;
    struct buf gif;
    struct media m;
    atomic_bool stop;
    bool ok;
};

static void *look_at(void *arg)
{
    struct looker *l = arg;
    l->ok = views_look(l->v, &l->m, &(struct image_wish){.stop = &l->stop}, NULL);
    return NULL;
}

static void begin_look(struct looker *l, struct views *v, int side, int more)
{
    *l = (struct looker){.v = v, .gif = gif_of(side, more)};
    l->m.bytes = (struct text){l->gif.data, l->gif.len};
    assert_int_equal(pthread_create(&l->thread, NULL, look_at, l), 0);
}

static bool end_look(struct looker *l)
{
    pthread_join(l->thread, NULL);
    buf_free(&l->gif);
    return l->ok;
}

static void test_sights__a_picture_that_was_looked_at_is_decoded_once(void **state)
{
    (void)state;
    struct views v;
    struct looker first, again;
    struct sights s = {0};
    assert_true(views_open(&v, (struct image_limits){4096, 4096}, NULL));
    n_begun = 0;
    begin_look(&first, &v, 64, 3);
    assert_true(end_look(&first));
    assert_true(first.m.w == 64 && first.m.h == 67);
    begin_look(&again, &v, 64, 3);
    assert_true(end_look(&again));
    assert_true(again.m.w == 64 && again.m.h == 67);
    take(&s, &v, 64, 3);
    assert_int_equal(sights_update(&s, &v, NULL), SIGHTS_THERE);
    assert_int_equal(n_begun, 1);
    sights_free(&s, &v);
    views_close(&v);
}

static void test_sights__a_prompt_gets_the_picture_whose_client_left_while_it_was_looked_at(void **state)
{
    (void)state;
    struct views v;
    struct looker leaves, stays;
    struct sights s = {0};
    struct image im = hold();
    assert_true(views_open(&v, (struct image_limits){4096, 4096}, NULL));
    n_begun = 0;
    begin_look(&leaves, &v, SIDE, 1);
    while (!n_begun)
        sched_yield();
    begin_look(&stays, &v, SIDE, 1);
    take(&s, &v, SIDE, 1);
    atomic_store(&leaves.stop, true);
    assert_false(end_look(&leaves));
    image_free(&im);
    await_sights(&s, &v);
    assert_true(end_look(&stays));
    assert_int_equal(n_begun, 2);
    sights_free(&s, &v);
    views_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sights__a_prompt_that_is_given_up_gives_its_pictures_up),
        cmocka_unit_test(test_sights__a_prompt_of_many_pictures_delays_another_one_by_a_round),
        cmocka_unit_test(test_sights__a_picture_that_was_looked_at_is_decoded_once),
        cmocka_unit_test(test_sights__a_prompt_gets_the_picture_whose_client_left_while_it_was_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
