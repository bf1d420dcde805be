/* A disk that takes as long as a test wants, to write what is in memory or to read what is not: these take the place of the library's fdatasync()
 * and pread(). */
#ifndef Q35_TESTS_SLOW_DISK_H
#define Q35_TESTS_SLOW_DISK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool disk_is_slow, disk_is_asked;
static atomic_bool disk_reads_are_slow, disk_read_is_asked;

int fdatasync(int fd)
{
    atomic_store(&disk_is_asked, true);
    while (atomic_load(&disk_is_slow))
        usleep(1000);
    return (int)syscall(SYS_fdatasync, fd);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    atomic_store(&disk_read_is_asked, true);
    while (atomic_load(&disk_reads_are_slow))
        usleep(1000);
    return syscall(SYS_pread64, fd, to, n, at);
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

/* The same of reading. */
static inline void disk_reads_slow(void)
{
    atomic_store(&disk_read_is_asked, false);
    atomic_store(&disk_reads_are_slow, true);
}

static inline void disk_read_asked(void)
{
    while (!atomic_load(&disk_read_is_asked))
        usleep(1000);
}

static inline void disk_reads_fast(void)
{
    atomic_store(&disk_reads_are_slow, false);
}

#endif
