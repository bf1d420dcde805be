/* Readings of one GPU from NVIDIA's management library. The library comes with the driver and is looked for when the program runs; without it, or
 * where it does not know something, that reads as 0. */
#pragma once

#include "answer/machine.h"

struct nvml;

/* `library` is a path, NULL for the usual name; `pci` the device's bus address, "0000:01:00.0".  NULL when there is none. */
struct nvml *nvml_open(const char *library, const char *pci);
void nvml_close(struct nvml *n);
/* Fills in what the library knows: memory, heat, power, and why clocks are lowered: "heat", "power", "hardware". */
void nvml_read(const struct nvml *n, struct machine_figures *r);
