#include "base/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_ms(void)
{
    return clock_ns() / 1000000;
}

double clock_ms_since(int64_t start_ns)
{
    return (double)(clock_ns() - start_ns) * 1e-6;
}

int64_t clock_waited_ns(void)
{
    char text[96];                      /* nanoseconds on a processor, nanoseconds waiting for one, number of time slices */
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    char *rest = text;
    strtoll(text, &rest, 10);
    return strtoll(rest, NULL, 10);
}

/* ---- times for people ---- */

/* Appends a time in the local zone; nothing if it is not known. */
static void add_time(struct buf *out, const char *format, int64_t then_s)
{
    char text[32];
    const time_t t = (time_t)then_s;
    struct tm tm;
    if (then_s > 0 && localtime_r(&t, &tm) && strftime(text, sizeof text, format, &tm))
        buf_adds(out, text);
}

void when_minute(struct buf *out, int64_t then_s)
{
    add_time(out, "%Y-%m-%d %H:%M", then_s);
}

/* Returns the first second of the day that is `days` days before that of now_s.  Days differ in length where clocks are changed. */
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
    add_time(out, then_s >= midnight(now_s, 0) && then_s < midnight(now_s, -1) ? "%H:%M" : "%Y-%m-%d %H:%M", then_s);
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
        add_time(out, then_s >= midnight(now_s, 0) ? "today %H:%M" : then_s >= midnight(now_s, 1) ? "yesterday %H:%M"
               : then_s >= midnight(now_s, WEEK) ? "%a %H:%M" : "%Y-%m-%d", then_s);
}

/* ---- waiting ---- */

static const int64_t early_ns = 150000,         /* polling begins this long before the usual time */
    late_ns = 20000,                    /* between two looks for a result that is late */
    slack_ns = 1000000;                 /* the usual time grows by a quarter and this at most: one hiccup must not be slept through next time */

int64_t patience_nap_ns(const struct patience *p, int64_t waited_ns)
{
    const int64_t usual = p->usual_ns, nap = usual - usual / 16 - early_ns - waited_ns;
    return nap > 0 ? nap : waited_ns > usual + usual / 2 + early_ns ? late_ns : 0;
}

void patience_learn(struct patience *p, int64_t waited_ns, bool slept)
{
    const int64_t most = p->usual_ns + p->usual_ns / 4 + slack_ns;
    if (slept && waited_ns <= p->usual_ns)      /* it may have been there for any time */
        p->usual_ns /= 2;
    else
        p->usual_ns = waited_ns < most ? waited_ns : most;
}
