#include "bench/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The value in the line "KEY<separator>VALUE" of a file, without quotes.  An empty key: the first line.  False if there is none. */
static bool look_up(const char *path, const char *key, char separator, char *value, size_t size)
{
    char line[512];
    bool found = false;
    size_t n = strlen(key);
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *at = n ? strchr(line, separator) : line;
        found = at && !strncmp(line, key, n);
        if (!found)
            continue;
        at += n ? 1 : 0;
        at += strspn(at, " \t\"");
        snprintf(value, size, "%.*s", (int)strcspn(at, "\"\n"), at);
    }
    if (f)
        fclose(f);
    return found && *value;
}

static double meminfo_gib(const char *key)
{
    char value[64];
    return look_up("/proc/meminfo", key, ':', value, sizeof value) ? strtod(value, NULL) / (1 << 20) : 0;
}

void report_host(struct report *r)
{
    struct utsname u;
    char text[256];
    const char *system = look_up("/etc/os-release", "PRETTY_NAME", '=', text, sizeof text) ? text : "unknown";
    if (!uname(&u))                     /* not its nodename */
        report_fact(r, "system", "%s; %s %s, %s", system, u.sysname, u.release, u.machine);
    if (look_up("/sys/class/dmi/id/product_name", "", 0, text, sizeof text))
        report_fact(r, "machine", "%s", text);
    if (!look_up("/proc/cpuinfo", "model name", ':', text, sizeof text))
        snprintf(text, sizeof text, "%s", "of an unnamed kind");
    report_fact(r, "processors", "%ld, %s", sysconf(_SC_NPROCESSORS_ONLN), text);
    report_fact(r, "host memory", "%.1f GiB, %.1f available, page cache %.1f, swap %.1f", meminfo_gib("MemTotal"),
                meminfo_gib("MemAvailable"), meminfo_gib("Cached"), meminfo_gib("SwapTotal"));
    if (look_up("/sys/module/nvidia/version", "", 0, text, sizeof text))
        report_fact(r, "gpu driver", "%s", text);
}
