/* glibc knows the answers: one zone of the database after the other is made that of this process, which has no other thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tool/zone.h"

static const char root[] = "/usr/share/zoneinfo/";
static int n_zones;

/* A moment in each half of some years, and the hours around changes of clocks. */
static const time_t moments[] = {
    86400, 330000000, 500000000, 720000000, 828234000, 828237599, 828237600, 1000000000, 1015000000, 1143334799, 1143334800, 1162083600,
    1300000000, 1445734799, 1445734800, 1445734801, 1500000000, 1615705199, 1615705200, 1700000000, 1761440399, 1761440400, 1764000000, 1774745999,
    1774746000, 1780000000, 1900000000, 2000000000, 2082758399, 2145916800, 2300000000, 2400000123, 3000000000, 3016300000, 4102444800,
};

static int compare(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    char magic[4] = "";
    const char *name = path + strlen(root);
    FILE *f = kind == FTW_F ? fopen(path, "r") : NULL;
    (void)st, (void)where;
    if (!f || fread(magic, 1, 4, f) != 4 || memcmp(magic, "TZif", 4) || strchr(name, '.')) {
        if (f)
            fclose(f);
        return 0;
    }
    fclose(f);
    setenv("TZ", name, 1);
    tzset();
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        struct tm expected, found;
        assert_non_null(localtime_r(&moments[i], &expected));
        if (!zone_time(name, moments[i], &found))
            fail_msg("%s is not known", name);
        if (found.tm_gmtoff != expected.tm_gmtoff || found.tm_year != expected.tm_year || found.tm_yday != expected.tm_yday ||
            found.tm_hour != expected.tm_hour || found.tm_min != expected.tm_min || (found.tm_sec != expected.tm_sec && expected.tm_sec < 60) ||
            found.tm_wday != expected.tm_wday)
            fail_msg("%s at %ld: UTC%+ld %d:%02d:%02d, expected UTC%+ld %d:%02d:%02d", name, (long)moments[i], found.tm_gmtoff, found.tm_hour,
                     found.tm_min, found.tm_sec, expected.tm_gmtoff, expected.tm_hour, expected.tm_min, expected.tm_sec);
    }
    n_zones++;
    return 0;
}

static void test_zone__every_zone_of_the_machine_is_that_of_the_c_library(void **state)
{
    struct tm tm;
    (void)state;
    if (!zone_time("Europe/Paris", 0, &tm))
        skip();                         /* no database here */
    char *usual = getenv("TZ") ? strdup(getenv("TZ")) : NULL;
    assert_int_equal(nftw(root, compare, 20, 0), 0);
    if (usual)
        setenv("TZ", usual, 1);
    else
        unsetenv("TZ");
    tzset();
    free(usual);
    assert_true(n_zones > 300);
}

static void test_zone__what_is_no_zone_is_refused(void **state)
{
    static const char *const names[] = {"", "Mars/Olympus", "Europe", "../../../etc/passwd", "/etc/localtime", "Europe/../UTC", "zone.tab",
                                        "leapseconds", "-", "+1", "Europe/Paris ", "Europe/Paris\n"};
    struct tm tm;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_false(zone_time(names[i], 0, &tm));
    assert_true(zone_time("UTC", 1, &tm));
    assert_int_equal(tm.tm_sec, 1);
    assert_int_equal(tm.tm_gmtoff, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zone__every_zone_of_the_machine_is_that_of_the_c_library),
        cmocka_unit_test(test_zone__what_is_no_zone_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
