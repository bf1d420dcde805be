#include "backend/machine.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

enum { PACKAGES = 8, POWER_MS = 200 };  /* shorter than that says little about power */

struct machine {
    char proc[128], rapl[128];
    bool on_gpu;
    struct nvml *nvml;                  /* NULL: no library, or no GPU of its kind */

    /* Processor packages (RAPL): counters in microjoules that start over at `range` */
    int    n_packages;
    double range[PACKAGES], last[PACKAGES];
    double joules;                      /* since open */
    double joules_then, watts;          /* power: of the time between two readings that are far enough apart */
    int64_t then_ns;
};

static bool read_number(const char *path, double *out)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fscanf(f, "%lf", out) == 1;
    if (f)
        fclose(f);
    return ok;
}

static bool read_package(const struct machine *m, int i, const char *file, double *out)
{
    char path[192];
    snprintf(path, sizeof path, "%s:%d/%s", m->rapl, i, file);
    return read_number(path, out);
}

struct machine *machine_open(const struct machine_places *p, const char *pci)
{
    struct machine *m = memory_zeroed(1, sizeof *m);
    snprintf(m->proc, sizeof m->proc, "%s", p && p->proc ? p->proc : "/proc");
    snprintf(m->rapl, sizeof m->rapl, "%s", p && p->rapl ? p->rapl : "/sys/class/powercap/intel-rapl");
    m->on_gpu = pci != NULL;
    if (pci)
        m->nvml = nvml_open(p ? p->nvml : NULL, pci);
    for (int i = 0; i < PACKAGES && !pci; i++)          /* often for root alone */
        if (!read_package(m, i, "energy_uj", &m->last[i]) || !read_package(m, i, "max_energy_range_uj", &m->range[i]))
            break;
        else
            m->n_packages++;
    m->then_ns = clock_ns();
    return m;
}

void machine_close(struct machine *m)
{
    if (!m)
        return;
    nvml_close(m->nvml);
    free(m);
}

/* Returns the bytes of a line such as "MemTotal:  131072 kB". */
static double meminfo(const struct machine *m, const char *name)
{
    char path[192], line[128];
    double kib = 0;
    size_t n = strlen(name);
    snprintf(path, sizeof path, "%s/meminfo", m->proc);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, n) && line[n] == ':')
            kib = strtod(line + n + 1, NULL);
    if (f)
        fclose(f);
    return kib * 1024;
}

/* Returns the bytes of this process that are in memory; 0 if the system does not say. */
static double resident(const struct machine *m)
{
    char path[192];
    double size, pages = 0;
    snprintf(path, sizeof path, "%s/self/statm", m->proc);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%lf %lf", &size, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (double)sysconf(_SC_PAGESIZE);
}

/* Reads the host's memory.  A GPU that shares it allocates outside of this process. */
static void host_memory(const struct machine *m, struct machine_figures *r)
{
    r->memory_total = meminfo(m, "MemTotal");
    r->memory_used = m->on_gpu ? r->memory_total - meminfo(m, "MemAvailable") : resident(m);
}

/* Adds up the energy counters of the processor packages and takes the power from their growth; the counters wrap around. */
static void packages(struct machine *m, struct machine_figures *r)
{
    for (int i = 0; i < m->n_packages; i++) {
        double now;
        if (!read_package(m, i, "energy_uj", &now))
            continue;
        m->joules += (now < m->last[i] ? now + m->range[i] - m->last[i] : now - m->last[i]) * 1e-6;
        m->last[i] = now;
    }
    double ms = clock_ms_since(m->then_ns);
    if (ms >= POWER_MS) {
        m->watts = (m->joules - m->joules_then) * 1000 / ms;
        m->joules_then = m->joules;
        m->then_ns = clock_ns();
    }
    r->joules = m->joules;
    r->watts = m->watts;
}

void machine_read(struct machine *m, struct machine_figures *r)
{
    *r = (struct machine_figures){0};
    if (m->nvml)
        nvml_read(m->nvml, r);
    if (!r->memory_total)
        host_memory(m, r);
    if (m->n_packages)
        packages(m, r);
}
