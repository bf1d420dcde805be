#include "tool/zone.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"

enum { LARGEST = 1 << 20, DAY = 86400 };

/* A file that is read from the front.  Reading beyond its end gives zeros and sets `bad`. */
struct cursor {
    const char *p, *end;
    bool bad;
};

static const char *skip(struct cursor *c, int64_t n)
{
    const char *at = c->p;
    c->bad = c->bad || n < 0 || n > c->end - c->p;
    c->p += c->bad ? 0 : n;
    return c->bad ? NULL : at;
}

/* Returns a signed number of 1, 4 or 8 bytes, the highest first. */
static int64_t number_at(const char *p, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++)
        x = x << 8 | (unsigned char)p[i];
    return (int64_t)(x << (64 - 8 * bytes)) >> (64 - 8 * bytes);
}

static int64_t number(struct cursor *c, int bytes)
{
    const char *p = skip(c, bytes);
    return p ? number_at(p, bytes) : 0;
}

/* --- the calendar, since gmtime() counts leap seconds where the process's own zone does ----------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Returns the days from 1970 to the first of a month; month 13 is the next January. */
static int64_t days_before(int64_t year, int month)
{
    static const int of_year[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    int64_t y = year + (month > 2);     /* this year's 29 February counts after it */
    return 365 * (year - 1970) + floor_div(y - 1, 4) - floor_div(y - 1, 100) + floor_div(y - 1, 400) - 477 + of_year[month - 1];
}

static int64_t year_of(int64_t days)
{
    int64_t year = 1970 + floor_div(days, 366);
    while (days_before(year + 1, 1) <= days)
        year++;
    while (days_before(year, 1) > days)
        year--;
    return year;
}

/* Fills in the fields of a date from seconds of local time since 1970. */
static void fill(struct tm *tm, int64_t local)
{
    int64_t days = floor_div(local, DAY), year = year_of(days);
    int second = (int)(local - days * DAY), month = 1;
    while (days_before(year, month + 1) <= days)
        month++;
    *tm = (struct tm){.tm_year = (int)(year - 1900), .tm_mon = month - 1, .tm_mday = (int)(days - days_before(year, month)) + 1,
                      .tm_yday = (int)(days - days_before(year, 1)), .tm_wday = (int)(days + 4 - 7 * floor_div(days + 4, 7)),
                      .tm_hour = second / 3600, .tm_min = second / 60 % 60, .tm_sec = second % 60};
}

/* --- the rule for all time after the last transition: "CET-1CEST,M3.5.0,M10.5.0/3" --------------------------------- */

/* Reads hours, minutes and seconds, as seconds. */
static int clock_of(const char **s)
{
    int sign = **s == '-' ? -1 : 1, seconds = 0;
    *s += **s == '-' || **s == '+';
    for (int unit = 3600; unit && isdigit((unsigned char)**s); unit /= 60) {
        int n = 0;
        for (; isdigit((unsigned char)**s) && n < 1000; ++*s)
            n = 10 * n + **s - '0';
        seconds += n * unit;
        *s += **s == ':';
    }
    return sign * seconds;
}

/* Skips the name of a zone in a rule.  False if there is no name. */
static bool skip_name(const char **s)
{
    const char *from = *s;
    if (**s == '<')
        *s += strcspn(*s, ">") + (strchr(*s, '>') != NULL);
    else
        while (isalpha((unsigned char)**s))
            ++*s;
    return *s > from;
}

/* Reads a day of a year: "M3.5.0" (the last Sunday of March), "J60" (without 29 February) or "59".  As seconds since 1970, in local time. */
static int64_t day_of(const char **s, int64_t year)
{
    int n = 0, month, week, weekday;
    if (sscanf(*s, "M%2d.%1d.%1d%n", &month, &week, &weekday, &n) == 3 && n) {
        *s += n;
        month = month < 1 || month > 12 ? 1 : month;
        int64_t first = days_before(year, month), day = (weekday - (first + 4) % 7 + 14) % 7 + 7 * (week - 1);
        return DAY * (first + (first + day >= days_before(year, month + 1) ? day - 7 : day));
    }
    bool julian = **s == 'J';
    *s += julian;
    int64_t day = strtol(*s, (char **)s, 10) % 400, january = days_before(year, 1), leap = days_before(year, 3) - january == 60;
    return DAY * (january + (julian ? day - 1 + (leap && day >= 60) : day));
}

/* Reads one change of a year, as seconds since 1970 of local time. */
static int64_t change_of(const char **s, int64_t year)
{
    *s += **s == ',';
    int64_t day = day_of(s, year);
    if (**s != '/')
        return day + 2 * 3600;
    ++*s;
    return day + clock_of(s);
}

/* Finds the offset at time t by a rule like "CET-1CEST,M3.5.0,M10.5.0/3".  False if the rule cannot be read. */
static bool rule_offset(const char *s, int64_t t, int *offset)
{
    int64_t year = year_of(floor_div(t, DAY));
    if (!skip_name(&s))
        return false;
    int standard = -clock_of(&s), summer = standard + 3600;
    *offset = standard;
    if (!skip_name(&s))
        return true;
    if (*s != ',')
        summer = -clock_of(&s);
    if (*s != ',')
        return false;
    int64_t begin = change_of(&s, year) - standard, end = change_of(&s, year) - summer;
    bool is_summer = begin < end ? t >= begin && t < end : t >= begin || t < end;
    *offset = is_summer ? summer : standard;
    return true;
}

/* --- the file ------------------------------------------------------------------------------------------------------ */

struct block {
    int width;                          /* bytes of a time: 4 in the first block, 8 in the second */
    int64_t n_utc, n_standard, n_leaps, n_times, n_types, n_chars;
    const char *times, *indices, *types, *leaps;
};

/* Reads a block.  Returns the version, '\0', '2' or later; -1: no block. */
static int read_block(struct cursor *c, int width, struct block *b)
{
    const char *magic = skip(c, 4), *version = skip(c, 16);
    if (!version || memcmp(magic, "TZif", 4))
        return -1;
    int64_t *counts[] = {&b->n_utc, &b->n_standard, &b->n_leaps, &b->n_times, &b->n_types, &b->n_chars};
    for (int i = 0; i < 6; i++) {
        *counts[i] = number(c, 4);
        c->bad = c->bad || *counts[i] < 0;
    }
    b->width = width;
    b->times = skip(c, b->n_times * width);
    b->indices = skip(c, b->n_times);
    b->types = skip(c, b->n_types * 6);
    skip(c, b->n_chars);
    b->leaps = skip(c, b->n_leaps * (width + 4));
    skip(c, b->n_standard + b->n_utc);
    return c->bad || !b->n_types ? -1 : (unsigned char)*version;
}

static int64_t time_at(const struct block *b, int64_t i)
{
    return number_at(b->times + i * b->width, b->width);
}

/* Returns the type of local time at `t`, which is not after the last transition.  -1: the file is damaged. */
static int64_t type_at(const struct block *b, int64_t t)
{
    int64_t i = b->n_times;
    while (i > 0 && time_at(b, i - 1) > t)
        i--;
    int64_t type = i ? (unsigned char)b->indices[i - 1] : 0;
    return type < b->n_types ? type : -1;
}

/* Returns the seconds that a zone with leap seconds ("right/...") counts more than POSIX does. */
static int64_t leaps_at(const struct block *b, int64_t t)
{
    int64_t leaps = 0;
    for (int64_t i = 0; i < b->n_leaps; i++) {
        const char *p = b->leaps + i * (b->width + 4);
        if (number_at(p, b->width) <= t)
            leaps = number_at(p + b->width, 4);
    }
    return leaps;
}

/* Finds the offset from UTC at time t, and the leap seconds before it, in a zone file.  False if the file cannot be read. */
static bool find_offset(const struct buf *file, int64_t t, int *offset, int64_t *leaps)
{
    struct cursor c = {.p = buf_str(file), .end = buf_str(file) + file->len};
    struct block b;
    char rule[64] = "";
    int version = read_block(&c, 4, &b);
    if (version >= '2') {
        version = read_block(&c, 8, &b);
        const char *end = c.p < c.end && *c.p == '\n' ? memchr(c.p + 1, '\n', (size_t)(c.end - c.p - 1)) : NULL;
        if (end && (size_t)(end - c.p) < sizeof rule)
            memcpy(rule, c.p + 1, (size_t)(end - c.p - 1));
    }
    if (version < 0)
        return false;
    *leaps = leaps_at(&b, t);
    if (*rule && (!b.n_times || t >= time_at(&b, b.n_times - 1)))
        return rule_offset(rule, t - *leaps, offset);
    int64_t type = type_at(&b, t);
    if (type >= 0)
        *offset = (int)number_at(b.types + type * 6, 4);
    return type >= 0;
}

/* True for letters, digits, _ + - and /, which never lead out of the database. */
static bool is_name(const char *zone)
{
    for (const char *p = zone; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_+-/", *p))
            return false;
    return isalpha((unsigned char)*zone);
}

bool zone_time(const char *name, time_t t, struct tm *tm)
{
    struct buf path = {0}, file = {0};
    int offset = 0;
    int64_t leaps = 0;
    buf_addf(&path, "/usr/share/zoneinfo/%s", name);
    bool ok = !strcmp(name, "UTC") || (is_name(name) && file_read(&file, path.data, LARGEST, NULL) && find_offset(&file, t, &offset, &leaps));
    buf_free(&path);
    buf_free(&file);
    if (ok) {
        fill(tm, t - leaps + offset);
        tm->tm_gmtoff = offset;
    }
    return ok;
}
