#include "bench/health.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report.h"

static const double slow = 0.85;        /* of what was expected: two readings of a machine that is well are within some percent */

static const struct {
    const char *name;
    double gb_s;
} devices[] = {
#define DEVICE(name, gb_s, source) {name, gb_s},
#include "config/devices.def"
};

double health_usual(const char *device)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (strstr(device, devices[i].name))
            return devices[i].gb_s;
    return 0;
}

/* A line of the file: a figure, a blank, the device. */
static double figure_of(const char *line, const char *device)
{
    char *name;
    const double gb_s = strtod(line, &name);
    const size_t n = strlen(device);
    return *name == ' ' && !strncmp(name + 1, device, n) && (name[1 + n] == '\n' || !name[1 + n]) && gb_s > 0 ? gb_s : 0;
}

double health_best(const char *path, const char *device)
{
    char line[512];
    double best = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        best = figure_of(line, device) > best ? figure_of(line, device) : best;
    if (f)
        fclose(f);
    return best;
}

bool health_remember(const char *path, const char *device, double now, struct err *e)
{
    if (now <= health_best(path, device))
        return true;
    FILE *f = fopen(path, "a");
    bool ok = f && fprintf(f, "%.1f %s\n", now, device) > 0;
    ok = f && !fclose(f) && ok;
    return ok || err_set(e, "cannot remember the best read in %s: %s", path, strerror(errno));
}

bool health_slow(const struct health *h, struct buf *line)
{
    const double expected = h->best > h->usual ? h->best : h->usual;
    if (expected <= 0) {
        buf_addf(line, "%.0f GB/s are remembered as the best read of this machine so far", h->now);
        return false;
    }
    buf_addf(line, "memory is read at %.0f GB/s, %.0f %% of the %.0f GB/s that %s", h->now, 100 * h->now / expected, expected,
             h->best > h->usual ? "this machine reached before" : "such devices reach");
    if (h->now >= slow * expected)
        return false;
    buf_adds(line, ": end what else uses the memory, look at the clocks (nvidia-smi -q -d CLOCK,PERFORMANCE), and if it stays so, shut down, take the "
                   "power plug out for a minute and start again");
    return true;
}

int bench_health(const struct bench_options *o)
{
    struct report r;
    struct err e = {0};
    struct dev_facts facts;
    struct buf line = {0};
    report_open(&r, "health", o);
    const char *backend = dev_backend(o->backend, &e);
    struct dev *d = backend ? dev_open(backend, o->n_threads, &e) : NULL;
    const double now = d ? d->read_gb_s(d, &e) : 0;
    if (now > 0) {
        const char *device = dev_facts(d, &facts) ? facts.gpu : backend;
        const struct health h = {now, health_best(o->health_file, device), health_usual(device)};
        struct err why;
        report_device(&r, d);
        report_fact(&r, "plain read", "%.1f GB/s", now);
        health_slow(&h, &line);
        report_note(&r, "%s", buf_str(&line));
        if (!health_remember(o->health_file, device, now, &why))
            report_note(&r, "the figure could not be remembered");
    }
    dev_close(d);
    buf_free(&line);
    return report_close(&r, now > 0 ? NULL : &e);
}
