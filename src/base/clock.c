#include "base/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double clock_ms_since(int64_t start_ns)
{
    return (double)(clock_ns() - start_ns) * 1e-6;
}

int64_t clock_waited_ns(void)
{
    char text[96];                      /* nanoseconds on a processor, nanoseconds waiting for one, number of time slices */
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    char *behind = text;
    strtoll(text, &behind, 10);
    return strtoll(behind, NULL, 10);
}
