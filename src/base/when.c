#include "base/when.h"

#include <time.h>

static void add(struct buf *out, const char *format, int64_t then_s)
{
    char text[32];
    const time_t t = (time_t)then_s;
    struct tm tm;
    if (then_s > 0 && localtime_r(&t, &tm) && strftime(text, sizeof text, format, &tm))
        buf_adds(out, text);
}

void when_minute(struct buf *out, int64_t then_s)
{
    add(out, "%Y-%m-%d %H:%M", then_s);
}

/* The first second of the day that is `days` days before that of now_s: days differ in length where clocks are changed. */
static int64_t midnight(int64_t now_s, int days)
{
    const time_t t = (time_t)now_s;
    struct tm tm;
    if (!localtime_r(&t, &tm))
        return now_s;
    tm.tm_sec = tm.tm_min = tm.tm_hour = 0;
    tm.tm_mday -= days;
    tm.tm_isdst = -1;
    return (int64_t)mktime(&tm);
}

void when_clock(struct buf *out, int64_t then_s, int64_t now_s)
{
    add(out, then_s >= midnight(now_s, 0) && then_s < midnight(now_s, -1) ? "%H:%M" : "%Y-%m-%d %H:%M", then_s);
}

void when_ago(struct buf *out, int64_t then_s, int64_t now_s)
{
    enum { WEEK = 6 };
    if (then_s <= 0)
        return;
    const int64_t minutes = (now_s - then_s) / 60;
    if (minutes < 1)
        buf_adds(out, "just now");
    else if (minutes < 60)
        buf_addf(out, "%d min ago", (int)minutes);
    else
        add(out, then_s >= midnight(now_s, 0) ? "today %H:%M" : then_s >= midnight(now_s, 1) ? "yesterday %H:%M"
               : then_s >= midnight(now_s, WEEK) ? "%a %H:%M" : "%Y-%m-%d", then_s);
}
