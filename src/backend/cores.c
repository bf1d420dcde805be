#include "backend/cores.h"

#include <stdbool.h>
#include <stdio.h>

/* Fast cores may differ a little: those of a GB10 have two clocks.  Its slow ones have three quarters of a fast one's capacity. */
enum { ALIKE_PERCENT = 85 };

/* Reads a number from a file of a core; 0 if there is none. */
static long read_number(const char *root, int cpu, const char *file)
{
    char path[512];
    long n = 0;
    snprintf(path, sizeof path, "%s/cpu%d/%s", root, cpu, file);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%ld", &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n > 0 ? n : 0;
}

/* Marks the cores whose number is near the greatest.  False if the number of one of them is not known. */
static bool near_most(const char *root, const char *file, const cpu_set_t *usable, cpu_set_t *fast)
{
    long all[CPU_SETSIZE], most = 0;
    CPU_ZERO(fast);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        all[i] = CPU_ISSET(i, usable) ? read_number(root, i, file) : 0;
        if (CPU_ISSET(i, usable) && !all[i])
            return false;
        most = all[i] > most ? all[i] : most;
    }
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, usable) && all[i] * 100 >= most * ALIKE_PERCENT)
            CPU_SET(i, fast);
    return true;
}

void cores_fast(const char *root, const cpu_set_t *usable, cpu_set_t *fast)
{
    if (!near_most(root, "cpu_capacity", usable, fast) && !near_most(root, "cpufreq/cpuinfo_max_freq", usable, fast))
        *fast = *usable;
}

int cores_keep_to_fast(const char *root)
{
    cpu_set_t usable, fast;
    if (sched_getaffinity(0, sizeof usable, &usable))
        return 0;
    cores_fast(root, &usable, &fast);
    const int n = CPU_COUNT(&fast);
    return n > 0 && n < CPU_COUNT(&usable) && !sched_setaffinity(0, sizeof fast, &fast) ? n : 0;
}
