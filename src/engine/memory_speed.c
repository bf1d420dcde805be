#include "engine/memory_speed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "backend/dev.h"

enum { LONGEST_FILE = 1 << 20 };

/* ---- reads ---- */

static const double slow = 0.85;        /* share of the expected rate below which reads are slow; a sound machine varies by a few percent */

static const struct {
    const char *name;
    double gb_s;
} devices[] = {
#define DEVICE(name, gb_s, source) {name, gb_s},
#include "config/devices.def"
};

/* True if `device` contains `name` as a whole word: a GH200 is no H200. */
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

/* Returns the rate in a line of the file, "GB/s DEVICE"; 0: the line is about another device. */
static double figure_of(const char *line, const char *device)
{
    char *name;
    const double gb_s = strtod(line, &name);
    const size_t n = strlen(device);
    return *name == ' ' && !strncmp(name + 1, device, n) && (name[1 + n] == '\n' || !name[1 + n]) && gb_s > 0 ? gb_s : 0;
}

double reads_best(const char *path, const char *device)
{
    struct buf text = {0};
    double best = 0;
    const char *line = file_read(&text, path, LONGEST_FILE, NULL) ? buf_str(&text) : NULL;
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
    bool ok = file_append(path, line.data, line.len);
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

/* ---- placement ---- */

static const size_t whole = (size_t)256 << 20, little = (size_t)8 << 20;       /* bytes: no cache holds the first, a GB10's holds the second */
static const double faster = 1.02, cached = 1.5;

bool placement_prefers_host(const struct placement *p)
{
    return p->device > 0 && p->host >= faster * p->device && p->again >= cached * p->host;
}

/* Reads a line of the file: three figures, a blank, the device.  False: the line is about another device. */
static bool figures_of(const char *line, const char *key, struct placement *p)
{
    int at = 0;
    struct placement got;
    if (sscanf(line, "%lf %lf %lf %n", &got.device, &got.host, &got.again, &at) != 3 || !at)
        return false;
    const size_t n = strlen(key);
    if (strncmp(line + at, key, n) || (line[at + (int)n] != '\n' && line[at + (int)n]) || !(got.device > 0 && got.host > 0 && got.again > 0))
        return false;
    *p = got;
    return true;
}

/* Reads the newest figures measured for `key` from the file.  False if there are none, or `file` is NULL. */
static bool read_measured(struct placement *p, const char *key, const char *file)
{
    struct buf text = {0};
    bool found = false;
    const char *line = file && file_read(&text, file, LONGEST_FILE, NULL) ? buf_str(&text) : NULL;
    for (; line; line = strchr(line, '\n'), line += line != NULL)
        found |= figures_of(line, key, p);
    buf_free(&text);
    return found;
}

/* A file that cannot be written means that the next start measures again. */
static void append_measured(const struct placement *p, const char *key, const char *file)
{
    struct buf line = {0};
    buf_addf(&line, "%.1f %.1f %.1f %s\n", p->device, p->host, p->again, key);
    if (file)
        file_append(file, line.data, line.len);
    buf_free(&line);
}

static double read_of(struct dev *d, bool in_host, size_t bytes)
{
    struct err ignored;
    d->weights_in_host = in_host;
    return d->read_gb_s(d, bytes, &ignored);
}

void placement_find(struct placement *p, struct dev *d, const char *key, const char *file)
{
    const bool before = d->weights_in_host;
    *p = (struct placement){0};
    if (read_measured(p, key, file))
        return;
    const struct placement now = {read_of(d, false, whole), read_of(d, true, whole), read_of(d, true, little)};
    d->weights_in_host = before;
    if (now.device <= 0 || now.host <= 0 || now.again <= 0)     /* no memory for one of them: nothing to compare */
        return;
    *p = now;
    append_measured(p, key, file);
}

void placement_say(const struct placement *p, struct buf *out)
{
    if (p->device <= 0)
        return;
    buf_addf(out, "in %s memory: pinned memory of the host is read at %.0f GB/s, device memory at %.0f",
             placement_prefers_host(p) ? "pinned host" : "device", p->host, p->device);
    if (p->host >= faster * p->device && !placement_prefers_host(p))
        buf_addf(out, "; no cache holds it (%.0f GB/s when it is read again), and prompts read weights several times", p->again);
}
