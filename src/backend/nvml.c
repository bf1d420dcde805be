#include "backend/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/memory.h"

/* Types as NVIDIA documents them (NVML API reference); its header is not needed. Every function returns 0 for success. */
struct memory_info { unsigned long long total, free, used; };
enum { TEMPERATURE_GPU = 0 };
enum {
    REASON_POWER_CAP = 0x04, REASON_HARDWARE = 0x08, REASON_HEAT = 0x20, REASON_HARDWARE_HEAT = 0x40, REASON_POWER_BRAKE = 0x80,
};

struct nvml {
    void *library, *device;
    int (*shutdown)(void);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*power)(void *device, unsigned *milliwatts);
    int (*energy)(void *device, unsigned long long *millijoules);
    int (*reasons)(void *device, unsigned long long *reasons);
    int (*memory)(void *device, struct memory_info *m);
};

/* Sets a function pointer of any type to the library's function, or NULL. */
static void find(const struct nvml *n, const char *name, void *function)
{
    *(void **)function = dlsym(n->library, name);
}

struct nvml *nvml_open(const char *library, const char *pci)
{
    int (*init)(void), (*device)(const char *pci, void **device);
    struct nvml *n = memory_zeroed(1, sizeof *n);
    n->library = dlopen(library ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        goto fail;
    find(n, "nvmlInit_v2", &init);
    find(n, "nvmlDeviceGetHandleByPciBusId_v2", &device);
    if (!init || !device || init())
        goto fail;
    find(n, "nvmlShutdown", &n->shutdown);
    find(n, "nvmlDeviceGetTemperature", &n->temperature);
    find(n, "nvmlDeviceGetPowerUsage", &n->power);
    find(n, "nvmlDeviceGetTotalEnergyConsumption", &n->energy);
    find(n, "nvmlDeviceGetCurrentClocksEventReasons", &n->reasons);
    if (!n->reasons)                    /* its name before driver 535 */
        find(n, "nvmlDeviceGetCurrentClocksThrottleReasons", &n->reasons);
    find(n, "nvmlDeviceGetMemoryInfo", &n->memory);
    if (!device(pci, &n->device))
        return n;
fail:
    nvml_close(n);
    return NULL;
}

void nvml_close(struct nvml *n)
{
    if (!n)
        return;
    if (n->shutdown)
        n->shutdown();
    if (n->library)
        dlclose(n->library);
    free(n);
}

static const char *in_a_word(unsigned long long reasons)
{
    return reasons & (REASON_HEAT | REASON_HARDWARE_HEAT) ? "heat" : reasons & (REASON_POWER_CAP | REASON_POWER_BRAKE) ? "power"
         : reasons & REASON_HARDWARE ? "hardware" : "";
}

void nvml_read(const struct nvml *n, struct machine_figures *r)
{
    unsigned celsius, milliwatts;
    unsigned long long millijoules, reasons;
    struct memory_info m;
    *r = (struct machine_figures){0};
    if (n->temperature && !n->temperature(n->device, TEMPERATURE_GPU, &celsius))
        r->celsius = (int)celsius;
    if (n->power && !n->power(n->device, &milliwatts))
        r->watts = milliwatts / 1000.0;
    if (n->energy && !n->energy(n->device, &millijoules))
        r->joules = (double)millijoules / 1000;
    if (n->reasons && !n->reasons(n->device, &reasons))
        snprintf(r->throttled, sizeof r->throttled, "%s", in_a_word(reasons));
    if (n->memory && !n->memory(n->device, &m)) {
        r->memory_used = (double)m.used;
        r->memory_total = (double)m.total;
    }
}
