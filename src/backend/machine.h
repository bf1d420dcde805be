/* Memory, heat and power of the machine, for a status line: of the GPU where NVIDIA's library tells, else of this process and
 * the host.  What is not known reads as 0; energy is never estimated.  One thread at a time. */
#pragma once

#include "backend/nvml.h"

struct machine;

/* Places of the files that are read; NULL members: the usual ones. */
struct machine_places { const char *proc, *rapl, *nvml; };     /* /proc, /sys/class/powercap/intel-rapl, libnvidia-ml.so.1 */

/* `pci` is the GPU's bus address; NULL: the model runs on the CPU. */
struct machine *machine_open(const struct machine_places *p, const char *pci);
void machine_close(struct machine *m);
/* Takes well under a millisecond on the CPU, some milliseconds where a driver is asked. */
void machine_read(struct machine *m, struct machine_figures *r);
