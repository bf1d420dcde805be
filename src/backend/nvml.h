/* What NVIDIA's management library says of one GPU.  The library comes with the driver and is looked for when the program runs;
 * without it, or where it does not know something, that reads as 0. */
#ifndef Q35_BACKEND_NVML_H
#define Q35_BACKEND_NVML_H

struct nvml;

struct nvml_reading {
    double memory_used, memory_total;   /* bytes, of the GPU's own memory */
    int    celsius;
    double watts;
    double joules;                      /* a counter: differences mean something */
    const char *throttled;              /* "heat", "power", "hardware"; NULL: clocks are not lowered */
};

/* `library` is a path, NULL for the usual name; `pci` the device's bus address, "0000:01:00.0".  NULL when there is none. */
struct nvml *nvml_open(const char *library, const char *pci);
void nvml_close(struct nvml *n);
void nvml_read(const struct nvml *n, struct nvml_reading *r);

#endif
