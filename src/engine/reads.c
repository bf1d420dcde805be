#include "engine/reads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double slow = 0.85;        /* share of the expected rate below which reads are slow; a sound machine varies by a few percent */

static const struct {
    const char *name;
    double gb_s;
} devices[] = {
#define DEVICE(name, gb_s, source) {name, gb_s},
#include "config/devices.def"
};

/* Whether `device` contains `name` as a whole word: a GH200 is no H200. */
static bool names(const char *device, const char *name)
{
    const char *at = strstr(device, name), *end = at ? at + strlen(name) : NULL;
    return at && (at == device || at[-1] == ' ') && (!*end || *end == ' ');
}

/* 0 for a MIG device, a part of a GPU that gets a part of its memory rate. */
double reads_usual(const char *device)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (names(device, devices[i].name) && !names(device, "MIG"))
            return devices[i].gb_s;
    return 0;
}

/* The rate in a line of the file, "GB/s DEVICE"; 0: the line is about another device. */
static double figure_of(const char *line, const char *device)
{
    char *name;
    const double gb_s = strtod(line, &name);
    const size_t n = strlen(device);
    return *name == ' ' && !strncmp(name + 1, device, n) && (name[1 + n] == '\n' || !name[1 + n]) && gb_s > 0 ? gb_s : 0;
}

double reads_best(const char *path, const char *device)
{
    enum { LONGEST = 1 << 20 };
    struct buf text = {0};
    double best = 0;
    const char *line = buf_read_file(&text, path, LONGEST, NULL) ? buf_str(&text) : NULL;
    for (; line; line = strchr(line, '\n'), line += line != NULL)
        best = figure_of(line, device) > best ? figure_of(line, device) : best;
    buf_free(&text);
    return best;
}

bool reads_remember(const char *path, const char *device, double now, struct err *e)
{
    if (now <= reads_best(path, device))
        return true;
    struct buf line = {0};
    buf_addf(&line, "%.1f %s\n", now, device);
    bool ok = buf_append_file(path, line.data, line.len);
    buf_free(&line);
    return ok || err_set(e, "cannot remember the best read in %s: %s", path, strerror(errno));
}

bool reads_slow(const struct reads *r, struct buf *line)
{
    const double expected = r->best > r->usual ? r->best : r->usual;
    if (expected <= 0) {
        buf_addf(line, "memory is read at %.0f GB/s; there is no earlier figure to compare it with", r->now);
        return false;
    }
    buf_addf(line, "memory is read at %.0f GB/s, %.0f %% of the %.0f GB/s that %s", r->now, 100 * r->now / expected, expected,
             r->best > r->usual ? "this machine reached before" : "such devices reach");
    if (r->now >= slow * expected)
        return false;
    buf_adds(line, ": end what else uses the memory, empty the page cache (sync; echo 1 | sudo tee /proc/sys/vm/drop_caches), look at the "
                   "clocks (nvidia-smi -q -d CLOCK,PERFORMANCE), and if it stays so, shut down, take the power plug out for a minute and start "
                   "again");
    return true;
}
