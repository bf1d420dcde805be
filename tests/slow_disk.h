/* A disk that takes as long as a test wants to write what is in memory: this takes the place of the library's fdatasync(). */
#ifndef Q35_TESTS_SLOW_DISK_H
#define Q35_TESTS_SLOW_DISK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool disk_is_slow, disk_is_asked;

int fdatasync(int fd)
{
    atomic_store(&disk_is_asked, true);
    while (atomic_load(&disk_is_slow))
        usleep(1000);
    return (int)syscall(SYS_fdatasync, fd);
}

/* From now on nothing gets to the disk. */
static inline void disk_slow(void)
{
    atomic_store(&disk_is_asked, false);
    atomic_store(&disk_is_slow, true);
}

/* Waits until something is to be written there. */
static inline void disk_asked(void)
{
    while (!atomic_load(&disk_is_asked))
        usleep(1000);
}

/* All that was asked for is written. */
static inline void disk_fast(void)
{
    atomic_store(&disk_is_slow, false);
}

#endif
