#include "backend/cores.h"

#include <sched.h>
#include <stdio.h>

/* Fast cores may differ a little: those of a GB10 have two clocks.  Its slow ones have three quarters of a fast one's capacity. */
enum { ALIKE_PERCENT = 85 };

/* In parts of 1024 of the fastest core.  0: not told. */
static int capacity(const char *root, int cpu)
{
    char path[512];
    int n = 0;
    snprintf(path, sizeof path, "%s/cpu%d/cpu_capacity", root, cpu);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%d", &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n;
}

int cores_keep_to_fast(const char *root)
{
    cpu_set_t usable, fast;
    int all[CPU_SETSIZE], most = 0;
    if (sched_getaffinity(0, sizeof usable, &usable))
        return 0;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        all[i] = CPU_ISSET(i, &usable) ? capacity(root, i) : 0;
        most = all[i] > most ? all[i] : most;
    }
    CPU_ZERO(&fast);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (all[i] > 0 && all[i] * 100 >= most * ALIKE_PERCENT)
            CPU_SET(i, &fast);
    const int n = CPU_COUNT(&fast);
    return n > 0 && n < CPU_COUNT(&usable) && !sched_setaffinity(0, sizeof fast, &fast) ? n : 0;
}
