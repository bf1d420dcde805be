#include "chat/builtin.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/memory.h"
#include "chat/calc.h"

/* A string argument, to be freed; NULL if it is absent or no string. */
static char *argument(const char *arguments, size_t n, const char *name)
{
    json_t *all = json_loadb(arguments, n, 0, NULL);
    const char *s = json_string_value(json_object_get(all, name));
    char *copy = s ? memory_strdup(s) : NULL;
    json_decref(all);
    return copy;
}

/* A name that the time zone database has: letters, digits, _ + - and /, never a path out of it. */
static bool zone_known(const char *zone)
{
    struct buf path = {0};
    for (const char *p = zone; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_+-/", *p))
            return false;
    if (!isalpha((unsigned char)*zone))
        return false;
    if (!strcmp(zone, "UTC"))
        return true;
    buf_addf(&path, "/usr/share/zoneinfo/%s", zone);
    bool known = access(path.data, R_OK) == 0;
    buf_free(&path);
    return known;
}

/* glibc has no conversion for a zone other than the process's, so that one changes for a moment: the one place that does,
 * called between two answers, on the thread that owns the conversation. */
static void local_time(time_t now, const char *zone, struct tm *tm)
{
    char *before = getenv("TZ") ? memory_strdup(getenv("TZ")) : NULL;
    if (zone)
        setenv("TZ", zone, 1);
    tzset();
    localtime_r(&now, tm);
    if (!zone)
        goto out;
    if (before)
        setenv("TZ", before, 1);
    else
        unsetenv("TZ");
    tzset();
out:
    free(before);
}

static void clock_tool(const char *arguments, size_t n, struct buf *out)
{
    static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    char *zone = argument(arguments, n, "zone");
    struct tm tm = {0};
    if (zone && *zone && !zone_known(zone)) {
        buf_adds(out, "error: unknown time zone; expected an IANA name such as Europe/Paris, or none for local time");
        free(zone);
        return;
    }
    bool named = zone && *zone;
    local_time(time(NULL), named ? zone : NULL, &tm);
    long minutes = labs(tm.tm_gmtoff) / 60;
    buf_addf(out, "%04d-%02d-%02d %02d:%02d:%02d %s, UTC%c%02ld:%02ld", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
             tm.tm_min, tm.tm_sec, days[tm.tm_wday], tm.tm_gmtoff < 0 ? '-' : '+', minutes / 60, minutes % 60);
    if (named)
        buf_addf(out, " (%s)", zone);
    free(zone);
}

static void calculator_tool(const char *arguments, size_t n, struct buf *out)
{
    char *expression = argument(arguments, n, "expression"), result[64];
    struct err e = {0};
    if (!expression)
        buf_adds(out, "error: the argument expression is missing");
    else if (calc(expression, result, sizeof result, &e))
        buf_adds(out, result);
    else
        buf_addf(out, "error: %s", e.msg);
    free(expression);
}

const struct builtin builtins[N_BUILTINS] = {
    {"clock",
     "{\"type\": \"function\", \"function\": {\"name\": \"clock\", \"description\": \"Tells the current date and time.\", "
     "\"parameters\": {\"type\": \"object\", \"properties\": {\"zone\": {\"type\": \"string\", \"description\": "
     "\"IANA time zone, for example Europe/Paris; local time if absent\"}}, \"required\": []}}}",
     clock_tool},
    {"calculator",
     "{\"type\": \"function\", \"function\": {\"name\": \"calculator\", \"description\": \"Evaluates an arithmetic expression.\", "
     "\"parameters\": {\"type\": \"object\", \"properties\": {\"expression\": {\"type\": \"string\", \"description\": "
     "\"for example (3 + 4) * 12\"}}, \"required\": [\"expression\"]}}}",
     calculator_tool},
};
