/* In place of libnvidia-ml.so.1: says what the test wrote into fake_nvml. */
#include <string.h>

struct fake_nvml {
    int fail_init, fail_all;            /* what the functions return */
    int n_init, n_shutdown;
    unsigned celsius, milliwatts;
    unsigned long long millijoules, reasons, memory[3];
};

int nvmlInit_v2(void), nvmlShutdown(void), nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device);
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *out), nvmlDeviceGetPowerUsage(void *d, unsigned *out);
int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *out), nvmlDeviceGetMemoryInfo(void *d, unsigned long long out[3]);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *out);

struct fake_nvml fake_nvml;

int nvmlInit_v2(void)
{
    fake_nvml.n_init++;
    return fake_nvml.fail_init;
}

int nvmlShutdown(void)
{
    fake_nvml.n_shutdown++;
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device)
{
    *device = &fake_nvml;
    return strcmp(pci, "0000:0f:00.0") ? 6 : 0;
}

#define GET(name, type, member) \
    int name(void *d, type *out) { if (!fake_nvml.fail_all) *out = ((struct fake_nvml *)d)->member; return fake_nvml.fail_all; }
GET(nvmlDeviceGetPowerUsage, unsigned, milliwatts)
GET(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, millijoules)
GET(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, reasons)

int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *out)
{
    *out = ((struct fake_nvml *)d)->celsius;
    return sensor ? 2 : fake_nvml.fail_all;
}

int nvmlDeviceGetMemoryInfo(void *d, unsigned long long out[3])
{
    memcpy(out, ((struct fake_nvml *)d)->memory, sizeof fake_nvml.memory);
    return fake_nvml.fail_all;
}
