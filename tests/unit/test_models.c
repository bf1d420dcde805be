#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fetch/cache.h"
#include "prepare/models.h"

static char dir[64];
static const char commit[] = "0123456789abcdef0123456789abcdef01234567";

static void shell(const char *fmt, ...)
{
    char command[2000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    assert_int_equal(system(command), 0);
}

static int setup(void **state)
{
    char path[128];
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/q35chat-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/data", dir);
    setenv("XDG_DATA_HOME", path, 1);
    snprintf(path, sizeof path, "%s/hub", dir);
    setenv("HF_HUB_CACHE", path, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    shell("rm -rf %s", dir);
    return 0;
}

/* A whole checkpoint: tiny, but with an index and two files of weights. */
static void put_model(const char *at)
{
    shell("mkdir -p %s/%s && cp tests/data/model/g0/hybrid/*.json tests/data/model/g0/hybrid/model-* tests/data/model/g0/hybrid/model_extra* "
          "tests/data/chat/tokenizer.json %s/%s/", dir, at, dir, at);
}

static void put_in_hub(const char *folder)
{
    char at[256];
    snprintf(at, sizeof at, "hub/%s/snapshots/%s", folder, commit);
    put_model(at);
    shell("mkdir -p %s/hub/%s/refs && printf %s > %s/hub/%s/refs/main", dir, folder, commit, dir, folder);
}

static const struct models_item *find(const struct models *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->items[i].name, name))
            return &m->items[i];
    return NULL;
}

static void test_models__are_found_in_both_places(void **state)
{
    (void)state;
    struct models m;
    put_model("data/q35chat/models/mine");
    put_in_hub("models--org--other");
    shell("mkdir -p %s/hub/models--org--bert/snapshots/%s && echo '{\"model_type\": \"bert\"}' > %s/hub/models--org--bert/snapshots/%s/config.json",
          dir, commit, dir, commit);
    models_find(&m);
    const struct models_item *mine = find(&m, "mine"), *other = find(&m, "org/other");
    assert_non_null(mine);
    assert_non_null(other);
    assert_null(find(&m, "org/bert"));          /* of another family */
    assert_true(mine->complete && other->complete);
    assert_int_equal(mine->place, MODELS_OURS);
    assert_int_equal(mine->bytes, other->bytes);
    assert_string_equal(m.items[models_standard(&m)].name, "mine");
    models_free(&m);
}

static void test_models__that_lack_files_say_which(void **state)
{
    (void)state;
    static const struct { const char *removed, *said; } rows[] = {
        {"tokenizer.json", "tokenizer.json is missing"},
        {"model-00001-of-0000*", "of weights are missing"},
        {"model*.safetensors", "the weights are missing"},
        {"config.json", "config.json is missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct models m;
        put_model("data/q35chat/models/mine");
        shell("rm %s/data/q35chat/models/mine/%s", dir, rows[i].removed);
        models_find(&m);
        const struct models_item *mine = find(&m, "mine");
        assert_non_null(mine);
        assert_false(mine->complete);
        assert_non_null(strstr(mine->missing, rows[i].said));
        assert_true(models_standard(&m) < 0 || m.items[models_standard(&m)].place == MODELS_DEMO);
        models_free(&m);
    }
}

static void test_models__the_newest_of_a_place_is_used_by_itself(void **state)
{
    (void)state;
    struct models m;
    put_in_hub("models--org--newer");
    put_in_hub("models--org--older");
    shell("touch -d '2020-01-01' %s/hub/models--org--older/snapshots/%s/config.json", dir, commit);
    models_find(&m);
    assert_string_equal(m.items[models_standard(&m)].name, "org/newer");
    models_free(&m);
}

static void test_models__fit_or_say_why(void **state)
{
    (void)state;
    struct models m;
    struct memory_plan plan;
    struct err e = {0};
    put_model("data/q35chat/models/mine");
    models_find(&m);
    assert_true(models_fits(find(&m, "mine"), &plan, &e));
    assert_true(plan.n_ctx > 0 && plan.total > 0 && plan.total < plan.available);
    shell("truncate -s 8T %s/data/q35chat/models/mine/model-huge.safetensors", dir);
    assert_false(models_fits(find(&m, "mine"), &plan, &e));
    assert_non_null(strstr(e.msg, "GiB"));
    models_free(&m);
}

static void test_models__names_resolve_or_say_why(void **state)
{
    (void)state;
    put_model("data/q35chat/models/tiny-hybrid");
    put_in_hub("models--org--Tiny-int4");
    put_in_hub("models--org--partly");
    shell("rm %s/hub/models--org--partly/snapshots/%s/model-00001*", dir, commit);
    static const struct { const char *given, *ends, *said; } rows[] = {
        {"tiny-hybrid", "/models/tiny-hybrid", NULL},
        {"hybrid", "/tiny-hybrid", NULL},
        {"org/Tiny-int4", "0123456789abcdef0123456789abcdef01234567", NULL},
        {"int4", "0123456789abcdef0123456789abcdef01234567", NULL},
        {"ORG/tiny-INT4", "0123456789abcdef0123456789abcdef01234567", NULL},
        {"tests/data/model/g0", "tests/data/model/g0", NULL},          /* a directory that is there */
        {"./nowhere", "./nowhere", NULL},                              /* a path is never a name */
        {"tiny", NULL, "tiny matches tiny-hybrid or org/Tiny-int4; name one of them"},
        {"partly", NULL, "org/partly is incomplete: 1 of "},
        {"org/partly", NULL, "to continue the download: q35chat model get org/partly"},
        {"122b", NULL, "to download it: q35chat model get 122b"},
        {"some/repo", NULL, "to download it: q35chat model get some/repo"},
        {"nothing", NULL, "which `q35chat model list` lists"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf found = {0};
        struct err e = {0};
        bool ok = models_resolve(rows[i].given, &found, &e);
        assert_int_equal(ok, rows[i].said == NULL);
        if (ok)
            assert_string_equal(found.data + found.len - strlen(rows[i].ends), rows[i].ends);
        else if (!strstr(e.msg, rows[i].said))
            fail_msg("\"%s\" was said, \"%s\" was expected", e.msg, rows[i].said);
        buf_free(&found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_models__are_found_in_both_places, setup, teardown),
        cmocka_unit_test_setup_teardown(test_models__that_lack_files_say_which, setup, teardown),
        cmocka_unit_test_setup_teardown(test_models__the_newest_of_a_place_is_used_by_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_models__fit_or_say_why, setup, teardown),
        cmocka_unit_test_setup_teardown(test_models__names_resolve_or_say_why, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
